-- An agent at work, with a script in the place of its model: what it sees, when it asks for more, and when it stops.
--
--     lua5.4 examples/agent.lua [DIRECTORY]
--
-- The task: a program prints a wrong greeting; correct it. The model may read everything and write nothing. It is
-- denied, asks for more with the exact same command, is allowed once, and succeeds. Then it wants what nobody needs, is
-- rejected, and stops.
local moonsand = require "moonsand"

local directory = arg[1] or assert(require("posix.stdlib").mkdtemp("/var/tmp/moonsand-example-XXXXXX"))
do
  local file <close> = assert(io.open(directory .. "/greet.sh", "w"))
  file:write('echo "Helo, world"\n')
end

-- The person: allows writing to the workspace, and nothing wider.
local function person(ask)
  local outcome = ask.mode == "workspace-write" and "allowed-once" or "rejected"
  print(("person> %s\n        %s"):format(ask.text, outcome))
  return outcome, "person"
end

local correct = "sed -i 's/Helo/Hello/' greet.sh && bash greet.sh"

-- The model: from the last result to the next call, or nil when it is done. A real one reads the same lines.
local function model(last)
  if not last then
    return { command = "bash greet.sh", description = "See what is printed" }
  elseif last.content == "Helo, world\n" then
    return { command = correct, description = "Correct the greeting" }
  elseif last.content:find("[sandbox: escalation available", 1, true) then
    return {
      command = correct,
      description = "Correct the greeting",
      sandbox_permissions = "workspace-write",
      justification = "The correction has to be written to greet.sh.",
    }
  elseif last.content == "Hello, world\n" then
    return {
      command = "cp greet.sh /usr/local/bin/greet",
      description = "Install it for everybody",
      sandbox_permissions = "danger-full-access",
      justification = "Others may like to be greeted too.",
    }
  end
  return nil, last.is_error and "I was not allowed to install it. The greeting is corrected." or last.content
end

local shell <close> = assert(moonsand.shell { mode = "read-only", workspace_root = directory })
local bash = moonsand.tool.bash(shell, { approve = person })

print("policy> " .. shell.policy:context())
local call, farewell = model(nil)
while call do
  print(("model>  %s%s"):format(call.command,
    call.sandbox_permissions and ("   (asks for %s)"):format(call.sandbox_permissions) or ""))
  local result = bash:execute(call)
  print("tool>   " .. result.content:gsub("\n$", ""):gsub("\n", "\n        "))
  call, farewell = model(result)
end
print("model>  " .. farewell)

if not arg[1] then
  os.remove(directory .. "/greet.sh")
  os.remove(directory)
end
