-- What the specs look at to see whether a promise holds: files, processes, runners. No mocks.
--
-- Directories are made below /var/tmp, because /tmp is another one under bwrap.
local dirent = require "posix.dirent"
local stdlib = require "posix.stdlib"
local unistd = require "posix.unistd"
local core = require "moonsand.core"

local world = {}

-- A new, empty directory, physical path.
function world.directory()
  return stdlib.realpath(assert(stdlib.mkdtemp("/var/tmp/moonsand-spec-XXXXXX")))
end

function world.remove(path)
  os.execute(("rm -rf '%s'"):format(path))
end

function world.exists(path)
  return unistd.access(path, "f") == 0
end

function world.write(path, text)
  local file <close> = assert(io.open(path, "wb"))
  assert(file:write(text))
  return path
end

function world.read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read("a")
end

-- A script that can be executed.
function world.script(path, text)
  world.write(path, text)
  assert(os.execute(("chmod 755 '%s'"):format(path)))
  return path
end

local counter = 0

-- A number of seconds that no other `sleep` on this machine has: what is sought in the process list later.
function world.unique_sleep()
  counter = counter + 1
  return ("%d.%06d%03d"):format(300 + counter, unistd.getpid(), counter)
end

-- How many processes have this word in their command line.
function world.processes_with(word)
  local found = 0
  for pid in dirent.files("/proc") do
    local file <close> = pid:find("^%d+$") and io.open("/proc/" .. pid .. "/cmdline", "rb") or nil
    local arguments = file and file:read("a") -- nil when it ends just now
    if arguments and ("\0" .. arguments):find("\0" .. word .. "\0", 1, true) then
      found = found + 1
    end
  end
  return found
end

-- Tries again until it holds, or the time is over.
function world.eventually(ms, holds)
  local deadline = core.monotonic_ms() + ms
  repeat
    if holds() then
      return true
    end
    os.execute("sleep 0.02")
  until core.monotonic_ms() > deadline
  return holds()
end

-- The interpreter that runs this.
world.interpreter = unistd.readlink("/proc/self/exe")

-- Starts a Lua program as a host of its own, under the core, with more variables in its environment.
function world.host(program, variables)
  local env = {
    "PATH=" .. os.getenv("PATH"), "HOME=" .. (os.getenv("HOME") or "/"),
    "LUA_PATH=" .. package.path, "LUA_CPATH=" .. package.cpath,
  }
  table.move(variables or {}, 1, #(variables or {}), #env + 1, env)
  return assert(core.spawn {
    argv = { world.interpreter, "-e", program },
    env = env,
    max_output_bytes = 100000,
    timeout_ms = 20000,
  })
end

-- Waits for a host's end: its status, stdout and stderr.
function world.ended(process)
  repeat
    local why = process:wait()
  until why == "settled"
  return process:status(), (process:read("stdout")), (process:read("stderr"))
end

-- The result of a function, and how many ms it took.
function world.timed(f)
  local before = core.monotonic_ms()
  local result, err = f()
  return core.monotonic_ms() - before, result, err
end

-- Which runners work here: asked of the sandbox itself, once.
local working = {}
function world.runner_works(name)
  if working[name] == nil then
    local sandbox = require("moonsand.sandbox").new { runner = name }
    local policy = { mode = "read-only", workspace_root = "/" }
    working[name] = sandbox ~= nil and sandbox:probe(name, policy).confined
  end
  return working[name]
end

-- Calls `body(options)` for a shell under each runner and under none, inside a `describe` of its own.
function world.under_each(describe, body)
  for _, options in ipairs {
    { name = "bwrap", mode = "read-only", runner = "bwrap" },
    { name = "landlock", mode = "read-only", runner = "landlock" },
    { name = "full access", mode = "danger-full-access" },
  } do
    describe("under " .. options.name, function()
      body(options, options.runner == nil or world.runner_works(options.runner))
    end)
  end
end

return world
