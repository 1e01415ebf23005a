--- moonsand: shell commands for an agent, confined to the file effects that are allowed, with exact facts about what
-- happened.
--
--     local moonsand = require "moonsand"
--     local shell <close> = assert(moonsand.shell { mode = "workspace-write", workspace_root = "/srv/project" })
--     local result, err = shell:run { command = "make test" }
--     print(result and moonsand.markers.render(result) or err)
--
-- The public face. Nothing is loaded before it is used, as a command line pays for every module with every command.
-- @module moonsand

local moonsand = {}

--- Make the confining executor: `moonsand.executor.sandboxed`.
-- @function shell
-- @tparam[opt] table options see `moonsand.executor.sandboxed.new`
-- @treturn[1] table the executor
-- @treturn[2] nil
-- @treturn[2] table the error
function moonsand.shell(options)
  return require("moonsand.executor.sandboxed").new(options)
end

--- Make the executor that confines nothing: `moonsand.executor.local`.
-- @function unconfined_shell
-- @tparam[opt] table options see `moonsand.executor.local.new`
-- @treturn[1] table the executor
-- @treturn[2] nil
-- @treturn[2] table the error
function moonsand.unconfined_shell(options)
  return require("moonsand.executor.local").new(options)
end

--- Make a token that aborts the commands it is given to: `moonsand.cancel`.
-- @function cancel
-- @treturn table
function moonsand.cancel()
  return require("moonsand.cancel").new()
end

-- Modules that are fields of this one.
local modules = {
  approval = "moonsand.approval",
  audit = "moonsand.audit",
  classify = "moonsand.classify",
  environment = "moonsand.environment",
  errors = "moonsand.errors",
  escalation = "moonsand.escalation",
  jobs = "moonsand.jobs",
  markers = "moonsand.markers",
  operator = "moonsand.operator",
  policy = "moonsand.policy",
  sandbox = "moonsand.sandbox",
  session = "moonsand.session",
  signatures = "moonsand.signatures",
  tool = "moonsand.tool",
}

--- The modules `approval`, `audit`, `classify`, `environment`, `errors`, `escalation`, `jobs`, `markers`, `operator`,
-- `policy`, `sandbox`, `session`, `signatures` and `tool`; and `version`.
-- @table fields
return setmetatable(moonsand, {
  __index = function(_, name)
    local value
    if modules[name] then
      value = require(modules[name])
    elseif name == "version" then
      value = require("moonsand.core").version
    end
    moonsand[name] = value
    return value
  end,
})
