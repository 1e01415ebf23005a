--- An operator's own bwrap-shaped runner: it is given bwrap's options, and is believed.
--
-- Pure. What it does with the options is not known, so that the launcher inside expects nothing, and enforcement is
-- what the operator asserts. It may close descriptors; the launcher then does without its report, and the operator's
-- runner-failure signatures decide. See section 5 of the design.
-- @module moonsand.runners.custom

local launcher = require "moonsand.runners.launcher"
local bwrap = require "moonsand.runners.bwrap"

local custom = { name = "custom" }

--- The argv that runs a command confined.
-- @tparam {string,...} argv the command, exact; its first word is a path
-- @tparam table policy
-- @tparam table facts those of `moonsand.runners.bwrap`, `program` being the path of the operator's; `arguments`: what
--   the operator puts before the options
-- @treturn {string,...}
function custom.wrap(argv, policy, facts)
  local list = { facts.program }
  launcher.add(list, table.unpack(facts.arguments))
  launcher.add(list, table.unpack((bwrap.profile(policy, facts))))
  list[#list + 1] = "--"
  return launcher.append(list, facts, { "--report-optional" }, argv)
end

return custom
