/* A Lua interpreter that is built with a sanitizer, for running the specs against a sanitized binding.
 *
 * A sanitizer's runtime must be in the program from its start; preloading it would put it into every command that the
 * specs run as well. So script/sanitize puts this program first in PATH as `lua5.4`. It takes what the specs and the
 * tools use of lua(1): -e CODE, -l MODULE, -, a script, its arguments; and Ctrl-C, which raises an error in what runs. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

static int with_traceback(lua_State *L)
{
    const char *message = lua_tostring(L, 1);
    if (message != NULL) {
        luaL_traceback(L, L, message, 1);
    }
    return 1;
}

static lua_State *interrupted; /* what a signal handler can reach */

static void raise_interrupt(lua_State *L, lua_Debug *where)
{
    (void)where;
    lua_sethook(L, NULL, 0, 0);
    luaL_error(L, "interrupted!");
}

static void on_interrupt(int number)
{
    signal(number, SIG_DFL); /* the second one ends the program */
    lua_sethook(interrupted, raise_interrupt, LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
}

static int call(lua_State *L, int arguments)
{
    int base = lua_gettop(L) - arguments;
    lua_pushcfunction(L, with_traceback);
    lua_insert(L, base);
    interrupted = L;
    signal(SIGINT, on_interrupt);
    int status = lua_pcall(L, arguments, 0, base);
    signal(SIGINT, SIG_DFL);
    if (status != LUA_OK) {
        fprintf(stderr, "lua5.4: %s\n", lua_tostring(L, -1));
    }
    lua_settop(L, base - 1);
    return status;
}

static int load_failed(lua_State *L)
{
    fprintf(stderr, "lua5.4: %s\n", lua_tostring(L, -1));
    return 1;
}

int main(int argc, char **argv)
{
    lua_State *L = luaL_newstate();
    if (L == NULL) {
        return 1;
    }
    luaL_openlibs(L);

    int first = 1; /* where the script is, or where it would be */
    while (first + 1 < argc && (strcmp(argv[first], "-e") == 0 || strcmp(argv[first], "-l") == 0)) {
        first += 2;
    }
    lua_createtable(L, argc, 1);
    for (int i = 0; i < argc; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i - (first < argc ? first : 0));
    }
    lua_setglobal(L, "arg");

    int failed = 0;
    for (int i = 1; i < first && !failed; i += 2) {
        if (strcmp(argv[i], "-e") == 0) {
            failed = luaL_loadstring(L, argv[i + 1]) != LUA_OK ? load_failed(L) : call(L, 0);
        } else {
            lua_getglobal(L, "require");
            lua_pushstring(L, argv[i + 1]);
            failed = call(L, 1);
        }
    }
    if (!failed && (first < argc || first == 1)) {
        const char *script = first < argc && strcmp(argv[first], "-") != 0 ? argv[first] : NULL;
        if (luaL_loadfile(L, script) != LUA_OK) {
            failed = load_failed(L);
        } else {
            int arguments = 0;
            for (int i = first + 1; i < argc; i++, arguments++) {
                lua_pushstring(L, argv[i]);
            }
            failed = call(L, arguments);
        }
    }
    lua_close(L);
    return failed != 0;
}
