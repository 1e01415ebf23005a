-- What luacheck allows where. Lua 5.4 everywhere, no globals of our own.
std = "lua54"
max_line_length = 120
include_files = {
    "lua/**/*.lua", "spec/**/*.lua", "examples/**/*.lua", "bench/*.lua",
    "bin/moonsand", "script/*.lua", "*.rockspec", ".luacheckrc", ".busted",
}
exclude_files = { "build*", ".cache" }
files["spec"].std = "+busted"
files["*.rockspec"].std = "+rockspec"
-- What an operator's script states, and what it is given.
files["examples/policies"] = {
    globals = { "mode", "resolve", "approve", "audit", "markers", "denial_signatures", "env" },
    read_globals = { "rule" },
    unused_args = false,
}
