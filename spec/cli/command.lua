-- Runs the moonsand command as a process of its own, for the specs of the command line.
local cjson = require "cjson"
local core = require "moonsand.core"
local stdlib = require "posix.stdlib"
local world = require "world"

local command = {}

command.path = stdlib.realpath("bin/moonsand")

-- The environment it gets: the user's, but for what leads Lua to modules, which the command finds by itself.
function command.environment(changes)
  local env = {}
  for name, value in pairs(core.environ()) do
    if not name:find("^LUA_") and not (changes and changes[name] ~= nil) then
      env[#env + 1] = name .. "=" .. value
    end
  end
  for name, value in pairs(changes or {}) do
    env[#env + 1] = value and name .. "=" .. value or nil
  end
  return env
end

-- Starts `moonsand WORDS...`. `options`: `cwd`, `env` (changes), `input`, `path` of another moonsand, `before`: words
-- in front of it.
function command.start(words, options)
  options = options or {}
  local argv = table.move(options.before or {}, 1, #(options.before or {}), 1, {})
  argv[#argv + 1] = world.interpreter
  argv[#argv + 1] = options.path or command.path
  table.move(words, 1, #words, #argv + 1, argv)
  return assert(core.spawn {
    argv = argv, env = command.environment(options.env), cwd = options.cwd, input = options.input,
    max_output_bytes = 1000000, timeout_ms = 30000,
  })
end

-- Runs it to its end: `{ status, stdout, stderr }`, the status as a shell has it.
function command.run(words, options)
  local process <close> = command.start(words, options)
  local status, stdout, stderr = world.ended(process)
  assert(not status.timed_out, "moonsand did not come to an end")
  return { status = status.exit_code or status.signal, stdout = stdout, stderr = stderr }
end

-- What it printed as JSON: one object on one line.
function command.json(words, options)
  local ended = command.run(words, options)
  assert(select(2, ended.stdout:gsub("\n", "")) == 1, ended.stdout .. ended.stderr)
  return cjson.decode(ended.stdout), ended
end

-- Whether any runner works here; without one, nothing that is confined can be tried.
function command.confines()
  for _, name in ipairs(require("moonsand.sandbox").candidates[core.platform] or {}) do
    if world.runner_works(name) then
      return true
    end
  end
  return false
end

return command
