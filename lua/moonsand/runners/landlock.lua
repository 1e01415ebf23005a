--- Landlock: the launcher is the runner. Its grants are an allow-list, and the kernel says EACCES.
--
-- Pure. How complete the confinement is depends on the kernel's Landlock ABI, and only the launcher's report of the
-- very run says so. See sections 4 and 5 of the design.
-- @module moonsand.runners.landlock

local launcher = require "moonsand.runners.launcher"

local landlock = { name = "landlock" }

--- The launcher's grants for a policy.
-- @tparam table policy a resolved one that confines
-- @tparam table facts `tmp`: the canonical name of /tmp, or nil; `launch`: whether there is a `terminal`
-- @treturn {string,...} options of the launcher
function landlock.profile(policy, facts)
  local grants = { "--ro", "/", "--rw", "/dev/null" }
  if facts.launch.terminal then
    launcher.add(grants, "--rw", "/dev/tty") -- which is whatever terminal the command has; editors open it to write
  end
  if policy.mode == "workspace-write" then
    if facts.tmp then
      launcher.add(grants, "--rw", facts.tmp)
    end
    launcher.add(grants, "--rw", policy.workspace_root)
  end
  return grants
end

--- The argv that runs a command confined.
-- @tparam {string,...} argv the command, exact; its first word is a path
-- @tparam table policy
-- @tparam table facts those of `profile`; `launcher` and `launch` (see `moonsand.runners.launcher`)
-- @treturn {string,...}
function landlock.wrap(argv, policy, facts)
  return launcher.append({}, facts, landlock.profile(policy, facts), argv)
end

return landlock
