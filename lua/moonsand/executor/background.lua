--- The handle of a command that runs in the background.
--
-- The command belongs to its handle: it is stopped when the handle is closed, or becomes garbage. Everything is looked
-- up when it is asked for, so a handle costs nothing while nobody looks; the supervisor drains, reaps and escalates
-- anyway. No method raises for what became of the command.
--
--     handle.status       "running", "completed" (it ended by itself, however) or "killed" (or never started)
--     handle.exit_code, handle.signal, handle.duration_ms, handle.leftovers      once it is settled
--     handle.sandbox      { mode, denied, enforcement, runner, runner_failed? } once it is settled, where there was one
--     handle.error        the error, where the command could not be started
-- @module moonsand.executor.background

local command = require "moonsand.executor.command"
local core = require "moonsand.core"
local markers = require "moonsand.markers"

local background = {}

local Handle = {}
Handle.__name = "moonsand.background"

local methods = {}

-- What a handle is asked for by name and finds in its settled facts.
local facts = {
  exit_code = true,
  signal = true,
  duration_ms = true,
  leftovers = true,
  sandbox = true,
  error = true,
}

-- Everything about the end, once. `judge` is the executor's word about its sandbox.
local function settle(self, status)
  local process = self.process
  local settled = {
    status = status.aborted and "killed" or "completed",
    exit_code = status.exit_code,
    signal = status.signal,
    duration_ms = status.duration_ms,
    leftovers = status.leftovers,
  }
  local failure = status.start_failure or (status.runner_failure and not self.judge and not status.aborted)
    and status.runner_failure
  if failure then
    settled.error = command.start_error(failure, self.spec, self.argv)
    settled.status = "killed"
  end
  if self.judge then
    settled.sandbox = self.judge(process, status, self.wrap, self.spec.policy)
    if settled.sandbox.runner_failed then
      settled.exit_code, settled.signal = nil, nil
    end
  end
  self.settled = settled
  return settled
end

-- The facts of the end, or nil while it runs. And the status they are from, when there was need to ask.
local function look(self)
  if self.settled then
    return self.settled
  end
  local status, failure = self.process:status()
  if not status then
    error(failure.message, 3)
  end
  return status.state == "settled" and settle(self, status) or nil, status
end

function Handle.__index(self, name)
  local method = methods[name]
  if method then
    return method
  elseif name == "status" then
    local settled = look(self)
    return settled and settled.status or "running"
  elseif facts[name] then
    local settled = look(self)
    return settled and settled[name]
  end
  return nil
end

--- The handle of a process.
-- @tparam userdata process
-- @tparam table of `{ spec, argv, wrap?, judge? }`: `argv` is the command's own; `judge(process, status, wrap, policy)`
--   returns the sandbox's facts
-- @treturn table
function background.new(process, of)
  return setmetatable({
    process = process,
    spec = of.spec,
    argv = of.argv,
    wrap = of.wrap,
    judge = of.judge,
    offsets = { stdout = 0, stderr = 0 },
    settled = false,
    told = false,
  }, Handle)
end

--- The handle of a command that could not be started: settled, with the error to be read.
-- @tparam table err
-- @treturn table
function background.failed(err)
  return setmetatable({ settled = { status = "killed", error = err }, told = false }, Handle)
end

-- What is new of a stream. While it runs on, a character that is not complete yet is left for the next time.
local function news(self, stream, over)
  local text, after, lost = self.process:read(stream, self.offsets[stream])
  if not text then
    error(after.message, 3)
  end
  if lost > 0 then
    text = text:sub(markers.leading_fragment(text) + 1)
  end
  if not over then
    local fragment = markers.trailing_fragment(text)
    if fragment > 0 then
      text, after = text:sub(1, -fragment - 1), after - fragment
    end
  end
  self.offsets[stream] = after
  return text, lost > 0
end

local function on_a_line_of_its_own(text, line)
  if text == "" or text:byte(-1) == 10 then
    return text .. line
  end
  return text .. "\n" .. line
end

--- What the command printed since the last read.
-- @treturn table `{ delta, lossy, stdout_spill_path?, stderr_spill_path? }`: stdout, then stderr under a `[stderr]`
--   line; `lossy` when some of it was in memory no more (then the spill files, where there are some, have it)
function methods:read()
  local settled, status = look(self)
  local read = { delta = "", lossy = false }
  if self.process then
    status = status or self.process:status()
    local stdout, stdout_lossy = news(self, "stdout", settled)
    local stderr, stderr_lossy = news(self, "stderr", settled)
    read.delta = stdout
    if stderr ~= "" then
      read.delta = on_a_line_of_its_own(stdout, markers.lines.stderr .. "\n") .. stderr
    end
    read.lossy = stdout_lossy or stderr_lossy
    read.stdout_spill_path = status.stdout.spill_path
    read.stderr_spill_path = status.stderr.spill_path
  end
  if settled and settled.error and not self.told then
    read.delta = on_a_line_of_its_own(read.delta, settled.error.message)
    self.told = true
  end
  return read
end

--- Stop the command: SIGTERM to its tree, the grace, SIGKILL. Does not wait for the end.
-- @treturn boolean true once; false when it is over or was told before
function methods:kill()
  if self.settled then
    return false
  end
  local killed, failure = self.process:terminate()
  if killed == nil then
    error(failure.message, 2)
  end
  return killed
end

--- Wait for the end.
-- @tparam[opt] number ms at most so long; default: for ever
-- @treturn boolean whether it is over
function methods:wait(ms)
  if ms ~= nil and (type(ms) ~= "number" or ms ~= ms or ms < 0) then
    error("bad argument #1 to 'wait' (a number of milliseconds that is not negative expected)", 2)
  end
  local deadline = ms and ms < math.huge and core.monotonic_ms() + ms
  while not self.settled do
    local left = deadline and math.max(0, deadline - core.monotonic_ms())
    local why, failure = self.process:wait(left)
    if not why then
      error(failure.message, 2)
    elseif why == "settled" then
      return true
    elseif why == "timeout" then
      return false
    end
  end
  return true
end

--- A descriptor for an event loop: readable when there is something new to look at. It is not to be read or closed.
-- @treturn ?integer nil when there is none: nothing was started, or no descriptor is left
function methods:fileno()
  return self.process and (self.process:fileno()) or nil
end

--- Kill it, and wait until it is over. `<close>` does this.
function methods:close()
  self:kill()
  self:wait()
end

function Handle:__close()
  self:close()
end

return background
