-- Compiles Lua modules to what string.dump makes of them: usage: lua script/precompile.lua FROM TO FILE...
--
-- Each FILE, relative to the folder FROM, is written to the same place in the folder TO, which has the folders already.
-- Loading the source of the two dozen modules that a command line needs takes 1.3 ms, loading these 0.3. Line numbers
-- stay in, and the name that errors show is the module's, not a path of the machine that built it.
local from, to = arg[1], arg[2]
for position = 3, #arg do
    local name = arg[position]
    local source <close> = assert(io.open(from .. "/" .. name, "rb"))
    local compiled = string.dump(assert(load(source:read("a"), "@" .. name, "t")))
    local output <close> = assert(io.open(to .. "/" .. name, "wb"))
    assert(output:write(compiled))
end
