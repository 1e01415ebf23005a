-- What script/demo shows, through the library. Each step is checked in the world, not by what it printed.
local moonsand = require "moonsand"
local stdlib = require "posix.stdlib"
local unistd = require "posix.unistd"

local interactive = unistd.isatty(0) == 1

local function say(text, ...)
  print(text:format(...))
end

local function heading(text, ...)
  say("\n== " .. text, ...)
end

local function stop(text, ...)
  io.stderr:write("demo: ", text:format(...), "\n")
  os.exit(1, true)
end

local function exists(path)
  return unistd.access(path, "f") == 0
end

local workspace = stdlib.realpath(assert(stdlib.mkdtemp("/var/tmp/moonsand-demo-XXXXXX")))
local _ <close> = setmetatable({}, { __close = function()
  os.remove(workspace .. "/note.txt")
  unistd.rmdir(workspace)
end })

-- Runs one command in one mode, and prints what a model would see.
local function run(mode, command)
  say("$ %s", command)
  local shell <close> = assert(moonsand.shell { mode = mode, workspace_root = workspace })
  local result, err = shell:run { command = command }
  if not result then
    stop("%s", err)
  end
  print((moonsand.markers.render(result):gsub("\n$", "")))
  return result
end

heading("A confined command (read-only)")
local result = run("read-only",
  "echo reading works: $(wc -l < /etc/passwd) users; sleep 100 & echo a job left behind is stopped")
say("-> runner %s, enforcement %s, %d process(es) left behind and stopped, %d ms", result.sandbox.runner,
  result.sandbox.enforcement, result.leftovers, result.duration_ms)
if result.exit_code ~= 0 or result.leftovers == 0 then
  stop("that was to end with exit code 0, and one process stopped")
end

heading("A denial (read-only)")
local note <const> = "echo 'hello from the sandbox' > note.txt && cat note.txt"
result = run("read-only", note)
if not result.sandbox.denied or exists(workspace .. "/note.txt") then
  stop("that was to be denied")
end
say("-> denied, and there is no %s/note.txt", workspace)

heading("An escalation")
say("The same command, once, with workspace-write. It is this demo that asks, and that runs the command again through")
say("the library. For an agent, the tool does both: see examples/agent.lua.")
io.write(("escalate sandbox to workspace-write: the note has to be saved in %s [y/N] "):format(workspace))
io.flush()
local answer = "y"
if interactive then
  answer = io.read("l") or ""
else
  say("y (answered by the demo: stdin is not a terminal)")
end
if not answer:lower():match("^y") then
  say("-> not approved; nothing was run.")
  return
end
result = run("workspace-write", note)
if result.exit_code ~= 0 or not exists(workspace .. "/note.txt") then
  stop("that was to write the file")
end
say("-> %s/note.txt is there", workspace)

heading("And still nothing outside the workspace")
result = run("workspace-write", "touch /var/tmp/moonsand-demo-outside")
if not result.sandbox.denied or exists("/var/tmp/moonsand-demo-outside") then
  stop("that was to be denied")
end
say("\nDone. Next: bin/moonsand doctor, bin/moonsand run --help, README.md.")
