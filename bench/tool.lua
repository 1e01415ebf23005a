-- What the bash tool adds to a command, in microseconds: arguments, policy, rendering, audit entry. The executor's part
-- is taken out: it answers at once with the result of one true run.
--
--   lua5.4 bench/tool.lua

local here = arg[0]:match("^(.*)/[^/]*$") or "."
local top = here .. "/.."
local build = os.getenv("MOONSAND_BUILD") or top .. "/build"
package.path = ("%s/lua/?.lua;%s/lua/?/init.lua;%s"):format(top, top, package.path)
package.cpath = ("%s/?.so;%s"):format(build, package.cpath)

local core = require "moonsand.core"
local moonsand = require "moonsand"

local CALLS <const> = 5000

local shell <close> = assert(moonsand.shell { mode = "workspace-write", workspace_root = "/usr" })
local session = assert(shell.policy:begin("bench", { cwd = "/usr" }))
local arguments = { command = "echo hi; touch /etc/x", description = "Say hi" }
local result = assert(shell:run(assert(shell:resolve { command = arguments.command, session = session })))
function shell.run()
  return result
end
local entries = 0
local bash = moonsand.tool.bash(shell, { session = session, approve = print, on_call = function()
  entries = entries + 1
end })

local function each(act)
  local before = core.monotonic_ms()
  for _ = 1, CALLS do
    act()
  end
  return (core.monotonic_ms() - before) * 1000 / CALLS
end

local resolving = each(function()
  shell:resolve { command = arguments.command, session = session }
end)
local calling = each(function()
  bash:execute(arguments)
end)
assert(entries == CALLS)
print(("the tool adds %.1f us to a command that is denied and says so (%.1f with resolving its policy), of the 100 "
  .. "that are allowed"):format(calling - resolving, calling))
os.exit(calling <= 100 and 0 or 1, true)
