--- `moonsand exec`: a program in moonsand's own place, confined, with the user's terminal or files as its stdio.
--
-- Relies on the core's relay (`core.terminal`), which carries bytes, keys and signals, and gives the program a terminal
-- of its own instead of the user's, into which it could type.
-- @module moonsand.cli.exec

local output = require "moonsand.cli.output"
local setup = require "moonsand.cli.setup"

local exec = {
  name = "exec",
  usage = "exec [options] -- PROGRAM [ARGUMENT]...",
  about = "Runs PROGRAM with exactly these arguments, confined, in this terminal or with these files as its input and\n"
    .. "output. Exit status: the program's own; 128+n when it died of signal n; 125 no sandbox could confine it\n"
    .. "(nothing ran); 126, 127 it could not be started; 2 usage. With --json an error is printed as JSON.",
  options = { "mode", "workspace", "workdir", "runner", "policy", "audit", "json", "help" },
  operand = "argv",
}

local GRACE_MS <const> = 3000 -- between SIGTERM and SIGKILL, when moonsand itself is asked to end

local function not_found(name)
  return require("moonsand.errors").new("START_FAILED",
    ("'%s' is not in any absolute entry of PATH; give the program's path"):format(name), name,
    { stage = "exec", code = "ENOENT", path = name })
end

-- The argv with its program as a path: the launcher looks nothing up. A path is left as it is; it is relative to the
-- program's working directory, as it would be in a shell that stands there.
local function with_path(argv, path)
  if argv[1]:find("/", 1, true) then
    return argv
  end
  local found = argv[1] ~= "" and require("moonsand.core").find_program(argv[1], path or "")
  if not found then
    return nil, not_found(argv[1])
  end
  return table.move(argv, 2, #argv, 2, { found })
end

-- One try with one runner: the settled process's status, and what the relay has to say. Else nil and an error, which
-- the launcher may have said already, as it has the program's own stderr; or nil, nil, and that another candidate is
-- left.
local function attempt(asked, policy, argv, env, launch_env, terminal)
  local program = terminal:program()
  local wrap, err = setup.wrap(asked, policy, argv, {
    chdir = asked.workdir,
    env = launch_env,
    stdin_null = program.stdin_null,
    terminal = program.terminal,
    background = program.background,
    quiet = true,
  })
  if not wrap then
    return nil, err
  end
  local command, classify = require "moonsand.executor.command", require "moonsand.classify"
  local process <close>, failure = require("moonsand.core").spawn {
    argv = wrap.argv,
    env = env,
    report = true,
    report_optional = wrap.report_optional,
    stdio = program.stdio,
    grace_ms = GRACE_MS,
    confine_timeout_ms = wrap.confine_timeout_ms,
  }
  if not process then
    if wrap.runner and classify.start_failure(failure, wrap.argv[1], true) == "runner" then
      local again
      again, err = asked.sandbox:refused(wrap, failure.message, failure)
      return nil, err, again
    end
    return nil, command.start_error(failure, asked, argv)
  end
  local relayed
  relayed, failure = terminal:run(process)
  if not relayed then
    return nil, command.start_error(failure, asked, argv)
  end
  local status = process:status()
  local broken = status.runner_failure
  if broken and wrap.runner and not status.aborted then
    local again
    again, err = asked.sandbox:refused(wrap, broken.message, broken)
    return nil, err, again
  elseif status.start_failure then
    return nil, command.start_error(status.start_failure, asked, argv), false, true
  elseif broken then
    return nil, command.start_error(broken, asked, argv)
  end
  return status, relayed
end

-- The argv as one line in the log.
local function record(asked, parsed, verdict, policy, status, err)
  if asked.log then
    local line = require("moonsand.cli.explain").command_line(parsed.operand)
    setup.record(asked, line, verdict, policy, status, err)
  end
end

--- Run it.
-- @tparam table parsed of `moonsand.cli.options`
-- @treturn integer exit status
function exec.main(parsed)
  local asked, policy, argv, terminal, err, failure, verdict
  asked, err = setup.read(parsed)
  if asked then
    policy, err, verdict = setup.resolve(asked, { argv = parsed.operand, workdir = asked.workdir })
    if not policy then
      record(asked, parsed, verdict, nil, nil, err)
    end
  end
  if not policy then
    return output.fail(err, parsed.json)
  end
  local env, launch_env, path = require("moonsand.environment").new {
    keep = asked.env.keep, drop = asked.env.drop, env = asked.env.set,
  }:compose { policy = policy, terminal = true }
  argv, err = with_path(parsed.operand, path)
  if not argv then
    return output.fail(err, parsed.json)
  end
  terminal, failure = require("moonsand.core").terminal()
  if not terminal then
    return output.fail(require("moonsand.executor.command").start_error(failure, asked, argv), parsed.json)
  end
  local held <close> = terminal
  local status, relayed, again, said
  repeat
    status, relayed, again, said = attempt(asked, policy, argv, env, launch_env, held)
  until not again
  record(asked, parsed, verdict, policy, status, relayed)
  held:close() -- the user's terminal is itself again, before anything is said on it
  if not status then
    return said and not parsed.json and output.failure_status(relayed) or output.fail(relayed, parsed.json)
  end
  local exit_status = output.exit_status(status)
  if relayed.output_failure then
    output.complain("what the program printed could not be written: " .. relayed.output_failure.message)
    return math.max(exit_status, 1)
  end
  return exit_status
end

return exec
