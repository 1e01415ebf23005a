--- The confining executor: bash commands with the file effects that a policy allows, and no more.
--
-- Every command is resolved under a policy, wrapped by the sandbox, and run as that exact argv; what happened is said
-- in the result's `sandbox`. Where nothing can confine it, nothing runs. `danger-full-access` never asks the sandbox.
-- Relies on `moonsand.policy` and `moonsand.sandbox`, and on the launcher's report for every fact about the
-- confinement. Sections 5 and 7 of the design.
--
-- `executor.sandbox_mode` is the default mode, and the capability a tool looks for before it offers escalation.
-- @module moonsand.executor.sandboxed

local command = require "moonsand.executor.command"
local environment = require "moonsand.environment"
local local_executor = require "moonsand.executor.local"
local request = require "moonsand.executor.request"
local spill_base = require "moonsand.executor.spill_base"

local sandboxed = {}

local Sandboxed = {}
Sandboxed.__index = Sandboxed
Sandboxed.__name = "moonsand.executor.sandboxed"

local full_access = "danger-full-access"

-- Options that are passed on, and to whom.
local policy_options = { "mode", "workspace_root" }
local sandbox_options = {
  "runner", "runner_command", "runner_failure_signatures", "probe_timeout_ms", "denial_signatures", "own_files",
}
local known_options = { policy = true, sandbox = true, operator = true }
for _, names in ipairs { policy_options, sandbox_options } do
  for _, name in ipairs(names) do
    known_options[name] = true
  end
end
for name in pairs(local_executor.options) do
  known_options[name] = name ~= "workdir" or nil
end

local function select_options(options, names)
  local selected = {}
  for _, name in ipairs(names) do
    selected[name] = options[name]
  end
  return selected
end

--- Make an executor.
-- @tparam[opt] table options
-- @string[opt="read-only"] options.mode
-- @string[opt] options.workspace_root
-- @tparam[opt] table options.policy instead of these two: a policy that is shared with others
-- @string[opt] options.runner and the other options of `moonsand.sandbox`
-- @tparam[opt] table options.sandbox instead of these: a sandbox that is shared
-- @tparam[opt] table options.operator an operator's script (`moonsand.operator`), which decides about each command
-- @tparam[opt] table options.env and the rest: as of `moonsand.executor.local`
-- @treturn[1] table the executor
-- @treturn[2] nil
-- @treturn[2] table `INVALID_REQUEST`, `POLICY_ERROR` or `SANDBOX_UNAVAILABLE`
function sandboxed.new(options)
  options = options or {}
  request.check_options(options, known_options, "new", 2)
  local settings, err = request.settings(options)
  if not settings then
    return nil, err
  end
  local policy, sandbox = options.policy, options.sandbox
  if not policy then
    policy, err = require("moonsand.policy").new(select_options(options, policy_options))
    if not policy then
      return nil, err
    end
  end
  if not sandbox then
    sandbox, err = require("moonsand.sandbox").new(select_options(options, sandbox_options))
    if not sandbox then
      return nil, err
    end
  end
  local commands = environment.new { env = options.env, keep = options.keep, drop = options.drop }
  local unconfined = local_executor.with(settings, commands, options.keep_spill)
  return setmetatable({
    sandbox_mode = policy.mode,
    policy = policy,
    operator = options.operator,
    sandbox = sandbox,
    settings = settings,
    keep_spill = options.keep_spill,
    environment = commands,
    unconfined = unconfined,
    handles = unconfined.handles,
    spill_dirs = {},
  }, Sandboxed)
end

-- The operator's script decides over the mode that holds without an approved one.
local function consult(self, asked, policy)
  local default = policy.mode
  if asked.mode then
    local base, err = self.policy:resolve { session = asked.session }
    if not base then
      return nil, err
    end
    default = base.mode
  end
  return self.operator:policy_for(asked, policy, default)
end

--- Check a request, fill in what it does not say, and stamp its policy.
-- @tparam table asked as of the local executor, and `mode` (an approved one, for this command alone) and `session`
-- @treturn[1] table the spec, for `run` and `start`; its `policy` never changes
-- @treturn[2] nil
-- @treturn[2] table `INVALID_REQUEST` (its `detail` is the field) or `POLICY_ERROR`
function Sandboxed:resolve(asked)
  if type(asked) ~= "table" then
    error(("bad argument #1 to 'resolve' (table expected, got %s)"):format(type(asked)), 2)
  end
  local policy, err = self.policy:resolve { session = asked.session, mode = asked.mode }
  if not policy then
    return nil, err
  end
  local verdict
  if self.operator and asked.command then
    policy, err, verdict = consult(self, asked, policy)
    if not policy then
      return nil, err, verdict
    end
  end
  local spec
  spec, err = request.resolve(asked, self.settings, policy.workspace_root, policy)
  return spec, err, verdict
end

-- Whether a spec may be run here: one without a policy is not.
function Sandboxed.takes(_, spec)
  return spec.policy ~= nil
end

-- The directory for spill files depends on what the policy lets commands write.
local function spill_dir(self, policy)
  local key = policy.mode .. "\0" .. (policy.workspace_root or "")
  local directory = self.spill_dirs[key]
  if directory == nil then
    directory = spill_base(policy) or false
    self.spill_dirs[key] = directory
  end
  return directory or nil
end

-- What is to be started for a spec, and with what. A wrap, the command's own argv, the runner's environment; or an
-- error.
local function confine(self, spec, verified)
  local policy = spec.policy
  local env, launch_env, path = self.environment:compose { env = spec.env, policy = policy, confined = true }
  local argv = command.argv(spec.command, path)
  local wrap, err = self.sandbox:confine(argv, policy, {
    chdir = spec.workdir,
    stdin_null = not spec.stdin,
    env = launch_env,
    verified = verified,
  })
  if not wrap then
    return nil, err
  end
  return wrap, argv, env
end

local function start(self, spec, wrap, env, in_background)
  return command.start(spec, wrap.argv, env, {
    spill_dir = spill_dir(self, spec.policy),
    keep_spill = self.keep_spill,
    confine_timeout_ms = wrap.confine_timeout_ms,
    report_optional = wrap.report_optional,
    background = in_background,
  })
end

-- A directory that can be entered. Asked only when something has failed.
local function is_usable(workdir)
  return workdir == nil or require("posix.unistd").access(workdir .. "/.", "x") == 0
end

-- How a runner that has not confined anything ended, in the words of whoever said most about it.
local function runner_failure_detail(process, status, wrap)
  local failure = status.runner_failure
  local stderr = command.tail(process, "stderr", status.stderr)
  local outcome = { exit_code = status.runner_exit_code, signal = status.runner_signal, stderr = stderr }
  local classify = require "moonsand.classify"
  local said = classify.runner_failure(outcome, wrap.runner_failure_rules)
  if said then
    return said
  end
  said = classify.last_line(stderr)
  if failure.code == "ETIMEDOUT" then
    return "it did not confine within the time allowed"
  elseif failure.stage ~= "none" then
    -- The launcher's line names what its report has no room for: the very path that is not as it should be.
    return said and said:find("^moonsand%-launch: ") and said or failure.message
  end
  local ended = outcome.signal and ("it was killed by %s"):format(outcome.signal)
    or ("it exited with %d"):format(outcome.exit_code or -1)
  return ("%s (%s without having confined the command)"):format(said or "it said nothing", ended)
end

-- The line or sentence that says why the runner failed, or nil: it did not. A deadline or an abort that came before the
-- confinement is what happened then, and no failure of the runner.
local function runner_failure(process, status, wrap)
  if status.runner_failure then
    return not status.timed_out and not status.aborted and runner_failure_detail(process, status, wrap) or nil
  elseif wrap.report_optional and not status.confined then
    return require("moonsand.classify").runner_failure({
      exit_code = status.exit_code,
      signal = status.signal,
      stderr = command.tail(process, "stderr", status.stderr),
    }, wrap.runner_failure_rules)
  end
  return nil
end

-- What the sandbox did, as facts. `enforcement` is what this very run established, not what was expected of it.
local function sandbox_facts(status, wrap, policy, stderr)
  local enforcement, gaps = wrap.enforcement, nil
  if status.confined and not wrap.asserted then
    enforcement = "full"
    if status.gaps[1] or wrap.gaps then
      enforcement, gaps = "partial", require("moonsand.sandbox").all_gaps(status, wrap)
    end
  end
  return {
    mode = policy.mode,
    denied = require("moonsand.classify").denied(
      { exit_code = status.exit_code, signal = status.signal, stderr = stderr }, wrap.denial_signatures),
    enforcement = enforcement,
    gaps = gaps,
    runner = wrap.runner,
  }
end

-- The same for a background command, where a failure of the runner is a fact too.
local function judge(process, status, wrap, policy)
  local detail = runner_failure(process, status, wrap)
  if detail then
    return {
      mode = policy.mode,
      denied = false,
      enforcement = wrap.enforcement,
      runner = wrap.runner,
      runner_failed = true,
      detail = detail,
    }
  end
  return sandbox_facts(status, wrap, policy, command.tail(process, "stderr", status.stderr))
end

-- One try with one runner. The third value asks for another: nothing was run, and another candidate may do.
local function attempt(self, spec)
  local wrap, argv, env = confine(self, spec, false)
  if not wrap then
    return nil, argv
  end
  local process <close>, failure = start(self, spec, wrap, env, false)
  if not process then
    if require("moonsand.classify").start_failure(failure, wrap.argv[1], is_usable(spec.workdir)) == "runner" then
      local again, err = self.sandbox:refused(wrap, failure.message, failure)
      return nil, err, again
    end
    return nil, command.start_error(failure, spec, argv)
  end

  local followed
  followed, failure = command.follow(process, spec)
  if not followed then
    return nil, command.start_error(failure, spec, argv)
  end
  local status = process:status()
  local detail = runner_failure(process, status, wrap)
  if detail then
    local again, err = self.sandbox:refused(wrap, detail, status.runner_failure)
    return nil, err, again
  end
  if status.confined then
    self.sandbox:confirmed(wrap, status)
  end
  if status.start_failure then
    return nil, command.start_error(status.start_failure, spec, argv)
  end
  local result = command.result(process, status, spec)
  result.sandbox = sandbox_facts(status, wrap, spec.policy, result.stderr.text)
  return result
end

--- Run a command and wait for its end.
-- @tparam table spec from `resolve`, or a request
-- @treturn[1] table the result of the local executor, and `sandbox`: `mode`, `denied`, `enforcement` (`"full"` or
--   `"partial"`, as this run was confined), `gaps` (the file effects not covered, when partial), `runner`
-- @treturn[2] nil
-- @treturn[2] table `SANDBOX_UNAVAILABLE` (its message ends with `Runner failure: <detail>` where there is one),
--   `START_FAILED`, `INVALID_REQUEST`, `POLICY_ERROR` or `ABORTED`: nothing was run
function Sandboxed:run(spec)
  local err
  spec, err = local_executor.admit(self, spec, "run")
  if not spec then
    return nil, err
  end
  local result, again
  if spec.policy.mode == full_access then
    result, err = self.unconfined:run(spec)
    if result then
      result.sandbox = { mode = full_access, denied = false }
    end
    return result, err
  end
  repeat
    result, err, again = attempt(self, spec)
  until not again
  return result, err
end

--- Start a command in the background. It has no timeout.
-- @tparam table spec from `resolve`, or a request
-- @treturn[1] table the handle (`moonsand.executor.background`)
-- @treturn[1] ?table `START_FAILED`, when the handle is that of a command that could not be started
-- @treturn[2] nil
-- @treturn[2] table `SANDBOX_UNAVAILABLE`, `INVALID_REQUEST`, `POLICY_ERROR` or `ABORTED`
function Sandboxed:start(spec)
  local err
  spec, err = local_executor.admit(self, spec, "start")
  if not spec then
    return nil, err
  elseif spec.policy.mode == full_access then
    return self.unconfined:start(spec)
  end
  local again
  repeat
    local wrap, argv, env = confine(self, spec, true)
    if not wrap then
      return nil, argv
    end
    local process, failure = start(self, spec, wrap, env, true)
    if process then
      return local_executor.hold(self, process, { spec = spec, argv = argv, wrap = wrap, judge = judge })
    elseif require("moonsand.classify").start_failure(failure, wrap.argv[1], is_usable(spec.workdir)) ~= "runner" then
      return local_executor.failed(command.start_error(failure, spec, argv))
    end
    again, err = self.sandbox:refused(wrap, failure.message, failure)
  until not again
  return nil, err
end

--- Kill what still runs in the background, and take no more commands. `<close>` does this.
function Sandboxed:close()
  self.closed = true
  self.unconfined:close()
end

function Sandboxed:__close()
  self:close()
end

return sandboxed
