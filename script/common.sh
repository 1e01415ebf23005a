# What the scripts share: the tree's root as the current directory, and finding Lua 5.4. Sourced, POSIX sh.

cd "$(dirname "$0")/.." || exit 1

say() { printf '%s\n' "$*"; }
fail() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# Lua 5.4 has no one name: Debian says lua5.4, others lua54, lua-5.4, or just lua.
find_lua() {
    for name in lua5.4 lua54 lua-5.4 lua; do
        if have "$name" && [ "$("$name" -e 'io.write(_VERSION)' 2>/dev/null)" = "Lua 5.4" ]; then
            command -v "$name"
            return 0
        fi
    done
    return 1
}

# busted's command starts whatever `lua` is, which may be another version, whose modules are other ones too.
run_busted() {
    busted=$(command -v busted) || return 127
    if head -n 1 "$busted" | grep -q '/env lua$'; then
        "$(find_lua)" "$busted" "$@"
    else
        "$busted" "$@"
    fi
}

build() { # FOLDER [CMAKE OPTIONS]
    folder=$1
    shift
    cmake -S . -B "$folder" "$@" >"$folder.log" 2>&1 && cmake --build "$folder" -j "$(getconf _NPROCESSORS_ONLN)" >>"$folder.log" 2>&1 && return
    cat "$folder.log" >&2
    fail "the build in $folder failed"
}

# The specs also run commands as another user, and in a sandbox with a /tmp of its own: neither sees a tree in root's home or in
# /tmp. Runs the script (a path in the tree, and arguments) in a copy that they can see, and exits as it does; returns where the
# tree is fit as it is.
in_a_visible_tree() { # SCRIPT [ARGUMENT]...
    here=$(pwd -P)
    case $here/ in
    /tmp/* | /dev/shm/*) ;;
    *)
        [ "$(id -u)" = 0 ] && have setpriv || return 0
        setpriv --reuid 65534 --regid 65534 --clear-groups test -r "$here/CMakeLists.txt" && return 0
        ;;
    esac
    copy=$(mktemp -d /var/tmp/moonsand-tree-XXXXXX) || fail "no place for a copy of the tree"
    say "This tree is not visible to everybody who tests it; testing a copy in $copy"
    trap 'rm -rf "$copy"' EXIT
    chmod 755 "$copy"
    cp -R . "$copy/tree" && rm -rf "$copy/tree"/build* && chmod -R a+rX "$copy/tree" || fail "could not copy the tree"
    script=$1
    shift
    "$copy/tree/$script" "$@"
    exit
}
