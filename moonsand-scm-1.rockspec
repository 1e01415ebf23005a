-- Builds and installs moonsand through CMake: `luarocks make` in a clone. docs/building.md says more.
rockspec_format = "3.0"
package = "moonsand"
version = "scm-1"
source = {
    url = "git+file://.",
}
description = {
    summary = "Runs the shell commands of AI agents, confined to the file effects that the operator allows",
    detailed = [[
        A sandbox toolkit for agents, scriptable in Lua: a bash tool with confinement (bubblewrap, Landlock, Seatbelt),
        escalation and background jobs; exact, short results; a command-line tool.
    ]],
    license = "MIT",
    labels = { "sandbox", "agent", "shell", "landlock", "bubblewrap" },
}
supported_platforms = { "linux", "macosx" }
dependencies = {
    "lua >= 5.4, < 5.5",
    "luaposix >= 35.1",
    "lua-cjson >= 2.1.0",
    "argparse >= 0.7.1",
}
build = {
    type = "cmake",
    variables = {
        CMAKE_INSTALL_PREFIX = "$(PREFIX)",
        CMAKE_BUILD_TYPE = "RelWithDebInfo",
        MOONSAND_LIBDIR = "$(LIBDIR)",
        MOONSAND_LUADIR = "$(LUADIR)",
        MOONSAND_BINDIR = "$(BINDIR)",
        MOONSAND_TESTS = "OFF",
        LUA_INCDIR = "$(LUA_INCDIR)",
    },
}
