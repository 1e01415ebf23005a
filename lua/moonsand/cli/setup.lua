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
  local sandbox
  sandbox, err = require("moonsand.sandbox").new { runner = parsed.runner, own_files = setup.own_command() }
  if not sandbox then
    return nil, err
  end
  return { policy = policy, sandbox = sandbox, workdir = choose_workdir(parsed.workdir, policy.workspace_root) }
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
