-- One host, two projects: commands of two sessions overlap, and each runs under its own mode in its own root.
--
--     lua5.4 examples/two_sessions.lua [DIRECTORY]
local moonsand = require "moonsand"
local stat, stdlib = require "posix.sys.stat", require "posix.stdlib"

local directory = arg[1] or assert(stdlib.mkdtemp("/var/tmp/moonsand-example-XXXXXX"))
local projects = { { name = "website", mode = "workspace-write" }, { name = "archive", mode = "read-only" } }

local shell <close> = assert(moonsand.shell { workspace_root = directory })
local bash = moonsand.tool.bash(shell, { jobs = true })
local job_output = bash:tools()[2]

for _, project in ipairs(projects) do
  local root = directory .. "/" .. project.name
  stat.mkdir(root)
  project.session = assert(shell.policy:begin(project.name, { cwd = root }))
  assert(shell.policy:switch(project.session, project.mode))
  print(("%s: %s"):format(project.name, shell.policy:context(project.session)))
end

-- Five commands each, all of them running at the same time.
for number = 1, 5 do
  for _, project in ipairs(projects) do
    local started = bash:execute({
      command = ("sleep 0.2; echo %d > note-%d"):format(number, number),
      description = "Write a note",
      run_in_background = true,
    }, { session = project.session })
    project[number] = assert(started.structured.job, started.content)
  end
end

for _, project in ipairs(projects) do
  local written, denied = 0, 0
  for number = 1, 5 do
    local result = job_output:execute({ id = project[number], wait_ms = 10000 }, { session = project.session })
    written = written + (result.structured.exit_code == 0 and 1 or 0)
    denied = denied + (result.structured.sandbox.denied and 1 or 0)
  end
  print(("%s: %d written, %d denied"):format(project.name, written, denied))
end

-- What one session started is nobody else's.
local other = job_output:execute({ id = projects[1][1] }, { session = projects[2].session })
print("archive asks for a job of website: " .. other.content)

for _, project in ipairs(projects) do
  shell.policy:finish(project.session)
  if not arg[1] then
    for number = 1, 5 do
      os.remove(("%s/%s/note-%d"):format(directory, project.name, number))
    end
    os.remove(directory .. "/" .. project.name)
  end
end
if not arg[1] then
  os.remove(directory)
end
