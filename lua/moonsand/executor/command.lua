--- One bash command as a process of the core: how it is started, followed to its end, and turned into a result.
--
-- What the executors share. Relies on the core and on a resolved request (`moonsand.executor.request`); knows nothing
-- of modes and runners. Promises that a command never outlives `follow`, whatever leaves it: an error in a callback,
-- Lua's "interrupted!", a closed coroutine.
-- @module moonsand.executor.command

local core = require "moonsand.core"
local errors = require "moonsand.errors"

local command = {}

local default_bash = "/bin/bash"

-- PATH to bash. The search costs system calls, and is the same for every command with the same PATH.
local found_bash = {}

--- The argv that runs a command string, exactly.
-- @string text
-- @tparam ?string path the command's PATH, where bash is looked for
-- @treturn {string,...}
function command.argv(text, path)
  path = path or ""
  local bash = found_bash[path]
  if not bash then
    bash = core.find_program("bash", path) or default_bash
    found_bash[path] = bash
  end
  return { bash, "-c", text }
end

--- The argv that has the launcher run another one, confining nothing.
-- @tparam {string,...} argv
-- @tparam table launch what the launcher is told, see `moonsand.runners.launcher`
-- @treturn {string,...}
function command.unconfined(argv, launch)
  local facts = { launcher = core.launcher_path(), launch = launch }
  return require("moonsand.runners.launcher").append({}, facts, {}, argv)
end

--- Start a process for a resolved request.
-- @tparam table spec
-- @tparam {string,...} argv what to start: a wrap's, or `unconfined`'s
-- @tparam {string,...} env of what is started
-- @tparam table how `{ spill_dir?, keep_spill?, confine_timeout_ms?, report_optional?, background? }`
-- @treturn[1] userdata the process
-- @treturn[2] nil
-- @treturn[2] table the core's failure
function command.start(spec, argv, env, how)
  local process, failure = core.spawn {
    argv = argv,
    env = env,
    input = spec.stdin,
    report = true,
    report_optional = how.report_optional,
    max_output_bytes = spec.max_output_bytes,
    max_spill_bytes = spec.max_spill_bytes,
    spill_dir = how.spill_dir,
    keep_spill = how.keep_spill,
    timeout_ms = not how.background and spec.timeout_ms or nil,
    grace_ms = spec.grace_ms,
    confine_timeout_ms = how.confine_timeout_ms,
  }
  -- What reads the outcome is loaded while the command gets going: whoever runs one only does not wait for it.
  require "moonsand.classify"
  require "moonsand.markers"
  return process, failure
end

-- Bytes that memory has lost because a callback was slow, from the spill file, which has every byte while it is there.
local function from_spill(process, stream, offset, size)
  local path = process:status()[stream].spill_path
  local file <close> = path and io.open(path, "rb")
  if not file or not file:seek("set", offset) then
    return nil
  end
  local text = file:read(size)
  return text and #text == size and text or nil
end

-- Hands what is new of one stream to the callback. Returns the offset to go on from.
local function stream_on(process, stream, offset, on_output)
  local text, after, lost = process:read(stream, offset)
  if lost and lost > 0 then
    local missed = from_spill(process, stream, offset, lost)
    if missed then
      text, lost = missed .. text, 0
    end
  end
  if text ~= "" then
    on_output(text, stream, lost)
  end
  return after
end

--- Wait until a command is over, streaming its output when that was asked for.
-- @tparam userdata process
-- @tparam table spec its `on_output` and `cancel` are served
-- @treturn[1] boolean true
-- @treturn[2] nil
-- @treturn[2] table the core's failure: it cannot be waited for
function command.follow(process, spec)
  local on_output, token = spec.on_output, spec.cancel
  if token then
    token:attach(process)
  end
  local stdout, stderr = 0, 0
  repeat
    local why, failure = process:wait(nil, on_output ~= nil)
    if not why then
      return nil, failure
    end
    if on_output and why ~= "interrupted" then
      stdout = stream_on(process, "stdout", stdout, on_output)
      stderr = stream_on(process, "stderr", stderr, on_output)
    end
  until why == "settled"
  if token then
    token:detach(process)
  end
  return true
end

--- The collected end of a stream. Where its beginning was lost, it begins with a whole character.
-- @tparam userdata process
-- @string stream
-- @tparam table facts of the stream, from the process's status
-- @treturn string
function command.tail(process, stream, facts)
  if facts.bytes == 0 then
    return ""
  end
  local text, _, lost = process:read(stream, 0)
  if lost > 0 then
    local fragment = require("moonsand.markers").leading_fragment(text)
    return fragment > 0 and text:sub(fragment + 1) or text
  end
  return text
end

local function captured(process, stream, facts)
  return {
    text = command.tail(process, stream, facts),
    truncated = facts.truncated,
    bytes = facts.bytes,
    spill_path = facts.spill_path,
  }
end

--- The result of a settled command, without what a sandbox has to say about it.
-- @tparam userdata process
-- @tparam table status of it
-- @tparam table spec
-- @treturn table
function command.result(process, status, spec)
  return {
    exit_code = status.exit_code,
    signal = status.signal,
    timed_out = status.timed_out,
    aborted = status.aborted,
    timeout_ms = spec.timeout_ms,
    duration_ms = status.duration_ms,
    leftovers = status.leftovers,
    report_lost = status.report_lost or nil,
    status_lost = status.status_lost or nil,
    stdout = captured(process, "stdout", status.stdout),
    stderr = captured(process, "stderr", status.stderr),
  }
end

--- The error for a command that could not be started, from a failure of the core or of the launcher.
-- @tparam table failure `{ stage, code, path?, message, ... }`
-- @tparam table spec
-- @tparam {string,...} argv the command's own
-- @treturn table `START_FAILED`; its `detail` names the step
function command.start_error(failure, spec, argv)
  local detail = failure.message
  if not failure.path then
    -- The launcher reports numbers only; what they are about is known here.
    local subject = failure.stage == "exec" and argv[1] or failure.stage == "chdir" and (spec.workdir or ".")
    if subject then
      detail = ("%s %s%s"):format(failure.stage, subject, detail:sub(#failure.stage + 1))
    end
  end
  if failure.stage == "exec" then
    found_bash = {} -- it is not there any more, or never was
  end
  return errors.new("START_FAILED", "the command could not be started: " .. detail, detail, failure)
end

return command
