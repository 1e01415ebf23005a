--- The unconfined executor: bash commands with all the authority of the host.
--
-- Commands go through the launcher all the same, which confines nothing here but owns the tree, reports its end and
-- leaves nothing behind. Relies on the core; consults no policy and no sandbox, and has no `sandbox_mode`, so a tool
-- over it does not offer escalation. Section 7 of the design.
-- @module moonsand.executor.local

local command = require "moonsand.executor.command"
local environment = require "moonsand.environment"
local errors = require "moonsand.errors"
local request = require "moonsand.executor.request"
local spill_base = require "moonsand.executor.spill_base"

local local_executor = {}

local Local = {}
Local.__index = Local
Local.__name = "moonsand.executor.local"

--- Options of every executor, besides the numbers (`moonsand.executor.request`).
local_executor.options = { env = true, keep = true, drop = true, keep_spill = true, workdir = true }

-- An executor of checked parts: what another executor does its unconfined work with.
function local_executor.with(settings, commands, keep_spill, workdir)
  return setmetatable({
    settings = settings,
    workdir = workdir,
    keep_spill = keep_spill,
    environment = commands,
    handles = setmetatable({}, { __mode = "k" }),
  }, Local)
end

--- Make an executor.
-- @tparam[opt] table options
-- @string[opt] options.workdir where commands run that do not say; default: the host's working directory
-- @tparam[opt] {[string]=string|false} options.env, and `keep`, `drop`: see `moonsand.environment`
-- @tparam[opt] boolean options.keep_spill spill files outlive the host for a day
-- @tparam[opt=120000] number options.timeout_ms
-- @tparam[opt=600000] number options.max_timeout_ms what `timeout_ms` is cut down to
-- @tparam[opt=64000] number options.max_output_bytes of the end of each stream, kept in memory
-- @tparam[opt=67108864] number options.max_spill_bytes of a stream, beyond which it is not kept on disk
-- @tparam[opt=3000] number options.grace_ms between SIGTERM and SIGKILL
-- @treturn[1] table the executor
-- @treturn[2] nil
-- @treturn[2] table `INVALID_REQUEST`, with the field named
function local_executor.new(options)
  options = options or {}
  request.check_options(options, local_executor.options, "new", 2)
  local settings, err = request.settings(options)
  if not settings then
    return nil, err
  end
  local commands = environment.new { env = options.env, keep = options.keep, drop = options.drop }
  return local_executor.with(settings, commands, options.keep_spill, options.workdir)
end

--- Check a request and fill in what it does not say.
-- @tparam table asked `{ command, workdir?, timeout_ms?, max_output_bytes?, max_spill_bytes?, grace_ms?, env?, stdin?,
--   on_output?, cancel? }`
-- @treturn[1] table the spec, for `run` and `start`
-- @treturn[2] nil
-- @treturn[2] table `INVALID_REQUEST`; its `detail` is the field
function Local:resolve(asked)
  if type(asked) ~= "table" then
    error(("bad argument #1 to 'resolve' (table expected, got %s)"):format(type(asked)), 2)
  elseif asked.mode ~= nil and asked.mode ~= "danger-full-access" then
    return nil, errors.new("INVALID_REQUEST", "mode: this executor confines nothing", "mode")
  end
  return request.resolve(asked, self.settings, self.workdir, nil)
end

-- Whether a spec may be run here: one with a confining policy is not.
function Local.takes(_, spec)
  return spec.policy == nil or spec.policy.mode == "danger-full-access"
end

-- What both ways of running need: a spec that may still be a request, and a shell that is open.
local function admit(self, spec, caller)
  if self.closed then
    error(("attempt to %s a command in a closed executor"):format(caller), 3)
  end
  if not request.is_spec(spec) then
    local err
    spec, err = self:resolve(spec)
    if not spec then
      return nil, err
    end
  end
  if not self:takes(spec) then
    error(("bad argument #1 to '%s' (a spec that another executor resolved)"):format(caller), 3)
  elseif spec.cancel and spec.cancel.cancelled then
    return nil, errors.new("ABORTED", "the command was cancelled before it was started")
  end
  return spec
end
local_executor.admit = admit

local function launch(self, spec, in_background)
  if self.spill_dir == nil then
    self.spill_dir = spill_base(nil) or false
  end
  local env, launch_env, path = self.environment:compose { env = spec.env, policy = spec.policy }
  local argv = command.argv(spec.command, path)
  local launcher = command.unconfined(argv, { chdir = spec.workdir, stdin_null = not spec.stdin, env = launch_env })
  local process, failure = command.start(spec, launcher, env, {
    spill_dir = self.spill_dir or nil,
    keep_spill = self.keep_spill,
    background = in_background,
  })
  if not process then
    return nil, command.start_error(failure, spec, argv)
  end
  return process, argv
end

--- Run a command and wait for its end.
--
-- `on_output(chunk, stream, lost)` is called with what is printed as it comes; `lost` is how many bytes before the
-- chunk are gone because the callback was slow. An error in it stops the command and is raised here.
-- @tparam table spec from `resolve`, or a request
-- @treturn[1] table the result: `exit_code` or `signal`, `timed_out`, `aborted`, `timeout_ms`, `duration_ms`,
--   `leftovers`, `stdout` and `stderr` (`{ text, truncated, bytes, spill_path? }`); `report_lost` where the end is only
--   that of the launcher, which somebody killed
-- @treturn[2] nil
-- @treturn[2] table `INVALID_REQUEST`, `START_FAILED` or `ABORTED`: nothing was run
function Local:run(spec)
  local err
  spec, err = admit(self, spec, "run")
  if not spec then
    return nil, err
  end
  local process <close>, argv = launch(self, spec, false)
  if not process then
    return nil, argv
  end
  local followed, failure = command.follow(process, spec)
  if not followed then
    return nil, command.start_error(failure, spec, argv)
  end
  local status = process:status()
  failure = status.start_failure or (not status.timed_out and not status.aborted and status.runner_failure)
  if failure then
    return nil, command.start_error(failure, spec, argv)
  end
  return command.result(process, status, spec)
end

--- Start a command in the background. It has no timeout.
--
-- Where it cannot be started, the handle is settled as `killed`, its error can be read, and is returned as well.
-- @tparam table spec from `resolve`, or a request
-- @treturn[1] table the handle (`moonsand.executor.background`)
-- @treturn[1] ?table `START_FAILED`, when the handle is that of a command that could not be started
-- @treturn[2] nil
-- @treturn[2] table `INVALID_REQUEST` or `ABORTED`
function Local:start(spec)
  local err
  spec, err = admit(self, spec, "start")
  if not spec then
    return nil, err
  end
  local process, argv = launch(self, spec, true)
  if not process then
    return local_executor.failed(argv)
  end
  return local_executor.hold(self, process, { spec = spec, argv = argv })
end

-- The two ways a start ends. What they need is loaded then: a command line that runs one command never does.

-- A handle that is closed with the executor, and aborted by its token.
function local_executor.hold(self, process, of)
  if of.spec.cancel then
    of.spec.cancel:attach(process)
  end
  local handle = require("moonsand.executor.background").new(process, of)
  self.handles[handle] = true
  return handle
end

-- A handle that is settled already, and its error.
function local_executor.failed(err)
  return require("moonsand.executor.background").failed(err), err
end

--- Kill what still runs in the background, and take no more commands. `<close>` does this.
function Local:close()
  self.closed = true
  for handle in pairs(self.handles) do
    handle:kill()
  end
  for handle in pairs(self.handles) do
    handle:wait()
  end
end

function Local:__close()
  self:close()
end

return local_executor
