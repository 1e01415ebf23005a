--- What the options of `run`, `exec` and `explain` ask for: a policy, a sandbox, a working directory.
--
-- Relies on `moonsand.policy` and `moonsand.sandbox`, which check what is said.
-- @module moonsand.cli.setup

local policy_of = require "moonsand.policy"

local setup = {}

--- The command itself, which is part of what commands must not write: it is run unconfined next time.
-- @treturn ?{string} for the sandbox's `own_files`
function setup.own_command()
  local script = arg and arg[0]
  return script and { script } or nil
end

-- A relative directory is below the workspace. Without one, it is the current directory, where that lies in the
-- workspace, as a person who stands there means it; else the workspace.
local function choose_workdir(asked, root)
  if asked then
    return asked:sub(1, 1) == "/" and asked or (root == "/" and "" or root) .. "/" .. asked
  end
  local here = require("posix.stdlib").realpath(".")
  return here and policy_of.at_or_below(here, root) and here or root
end

-- Whether the command has the option: `explain` runs nothing, so there is nothing to take down.
local function takes_audit(parsed)
  return not parsed.dry
end

--- Read the common options.
-- @tparam table parsed of `moonsand.cli.options`
-- @treturn[1] table `policy`, `sandbox`, `workdir`
-- @treturn[2] nil
-- @treturn[2] table error
function setup.read(parsed)
  local policy, err = policy_of.new { mode = parsed.mode, workspace_root = parsed.workspace }
  if not policy then
    return nil, err
  end
  local sandbox, script, log
  if parsed.policy then
    script, err = require("moonsand.operator").load(parsed.policy, { workspace_root = policy.workspace_root })
    if not script then
      return nil, err
    end
    policy, err = policy_of.new { mode = parsed.mode or script.mode, workspace_root = policy.workspace_root }
    if not policy then
      return nil, err
    end
  end
  local log_path = parsed.audit or (script and script.audit)
  if log_path and takes_audit(parsed) then
    log, err = require("moonsand.audit").open(log_path, { workspace_root = policy.workspace_root })
    if not log then
      return nil, err
    end
  end
  sandbox, err = require("moonsand.sandbox").new {
    runner = parsed.runner,
    own_files = setup.own_command(),
    denial_signatures = script and script.denial_signatures,
  }
  if not sandbox then
    return nil, err
  end
  return {
    policy = policy, sandbox = sandbox, workdir = choose_workdir(parsed.workdir, policy.workspace_root),
    operator = script, log = log, env = script and script.env or {},
  }
end

--- The policy of one command: the operator's script has its say.
-- @tparam table asked of `read`
-- @tparam table request `command` or `argv`, `workdir`
-- @treturn[1] table a resolved policy
-- @treturn[1] ?nil
-- @treturn[1] ?table the script's verdict
-- @treturn[2] nil
-- @treturn[2] table error: nothing may run
function setup.resolve(asked, request)
  local policy, err = asked.policy:resolve()
  if policy and asked.operator then
    return asked.operator:policy_for(request, policy)
  end
  return policy, err
end

--- Take down in the audit log what became of a command, where there is a log.
-- @tparam table asked of `read`
-- @string command
-- @tparam ?table verdict of the script
-- @tparam ?table policy the resolved one
-- @tparam ?table result of an executor, or the status of a process
-- @tparam ?table err where there is no result
function setup.record(asked, command, verdict, policy, result, err)
  if not asked.log then
    return
  end
  local entry = require("moonsand.audit").outcome(result, err)
  entry.command, entry.workdir = command, asked.workdir
  entry.mode = entry.mode or (policy or asked.policy).mode
  entry.workspace_root = asked.policy.workspace_root
  entry.decision = verdict and verdict.decision or asked.operator and not result and "refused" or "default"
  entry.decided_by = verdict and (verdict.source or verdict.by) or nil
  local written, fault = asked.log:write(entry)
  if not written then
    require("moonsand.cli.output").complain(fault.message)
  end
end

--- The command line that runs an argv under a policy, for what does not go through an executor.
-- @tparam table asked of `read`
-- @tparam table policy a resolved one
-- @tparam {string,...} argv
-- @tparam table launch what the launcher is told (`moonsand.sandbox`)
-- @treturn[1] table wrap; without a `runner` where nothing is confined
-- @treturn[2] nil
-- @treturn[2] table error
function setup.wrap(asked, policy, argv, launch)
  if policy.mode ~= "danger-full-access" then
    return asked.sandbox:confine(argv, policy, launch)
  end
  return { argv = require("moonsand.executor.command").unconfined(argv, launch) }
end

return setup
