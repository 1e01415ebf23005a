-- The host of the sandbox, as the user whose commands are confined: runs the adversary's attacks through moonsand.
--
--   lua5.4 agent.lua RUNNER MODE WORKSPACE WAY COMMAND...
--
-- WAY: `run`, as a model's command through the library; `alone`, the same with a short timeout; `exec`,
-- through the command line's exec, with this process's own
-- standard input. Prints the command's output, then a line "enforcement<TAB>..." and "settled<TAB>...".

local runner, mode, workspace, way = table.unpack(arg, 1, 4)
local words = table.move(arg, 5, #arg, 1, {})

local function quoted(list)
  local out = {}
  for position, word in ipairs(list) do
    out[position] = "'" .. word:gsub("'", "'\\''") .. "'"
  end
  return table.concat(out, " ")
end

if way == "exec" then
  local command = { "bin/moonsand", "exec", "--mode", mode, "--workspace", workspace, "--runner", runner, "--" }
  os.execute("exec " .. arg[-1] .. " " .. quoted(table.move(words, 1, #words, #command + 1, command)))
  return
end

local moonsand = require "moonsand"
local shell <close> = assert(moonsand.shell { mode = mode, workspace_root = workspace, runner = runner })
local result, err = shell:run {
  command = "exec " .. quoted(words),
  timeout_ms = way == "alone" and 3000 or 60000,
  grace_ms = 200,
  max_output_bytes = 1 << 20,
}
if not result then
  print("settled\terror " .. tostring(err))
  os.exit(1)
end
io.write(result.stdout.text)
io.stderr:write(result.stderr.text)
print("enforcement\t" .. tostring(result.sandbox.enforcement))
local ended = result.exit_code or result.signal
print(("settled\t%s timed_out=%s leftovers=%s"):format(ended, result.timed_out, result.leftovers))
