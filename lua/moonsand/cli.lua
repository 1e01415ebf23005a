--- The command line: which command is meant, and what becomes of whatever it raises.
--
-- Each command is a module of its own, loaded when it is the one: `options`, `usage` and `about` as data, and `main`.
-- See section 10 of the design.
-- @module moonsand.cli

local output = require "moonsand.cli.output"

local cli = {}

--- The commands, in the order of the help, and what each is for.
cli.commands = {
  { "run", "run one command string through bash, confined; print what the model would see" },
  { "exec", "run a program confined, with this terminal and standard input and output" },
  { "doctor", "say which sandbox runners work here, why or why not, and what to do" },
  { "explain", "show the policy and the exact command line, without running anything" },
  { "policy", "check an operator's policy script, or explain what it decides about a command" },
  { "schema", "print the JSON schema of the bash tool" },
  { "audit", "show an audit log as a table" },
}

--- The help of moonsand itself.
-- @treturn string
function cli.help()
  local lines = {
    "usage: moonsand COMMAND ...", "",
    "Runs shell commands confined to the file effects that are allowed.", "",
  }
  for _, command in ipairs(cli.commands) do
    lines[#lines + 1] = ("  %-10s %s"):format(command[1], command[2])
  end
  lines[#lines + 1] = ""
  lines[#lines + 1] = "  --version  print the version\n  --help     print this; `moonsand COMMAND --help` says more"
  return table.concat(lines, "\n") .. "\n"
end

local function names()
  local list = {}
  for position, command in ipairs(cli.commands) do
    list[position] = command[1]
  end
  return list
end

local function is_command(name)
  for _, command in ipairs(cli.commands) do
    if command[1] == name then
      return true
    end
  end
  return false
end

-- A command line that cannot be read may still say how the answer is wanted.
local function wants_json(words)
  for position = 2, #words do
    if words[position] == "--json" then
      return true
    elseif words[position] == "--" then
      return false
    end
  end
  return false
end

local function dispatch(words)
  local name = words[1]
  if name == nil then
    return output.usage("a command is missing; it is one of " .. table.concat(names(), ", "))
  elseif name == "--help" or name == "-h" or name == "help" then
    return output.print(cli.help()) or output.status.ok
  elseif name == "--version" then
    return output.print(("moonsand %s\n"):format(require("moonsand.core").version)) or output.status.ok
  elseif not is_command(name) then
    local hint = require("moonsand.nearest").hint(name, names())
    return output.usage(("unknown command '%s'%s"):format(name, hint), nil, wants_json(words))
  end
  local command = require("moonsand.cli." .. name)
  local options = require "moonsand.cli.options"
  local from = 2
  if name == "policy" and words[2] and words[2]:sub(1, 1) ~= "-" then
    from = 3 -- its options come after the verb, too
  end
  local parsed, wrong = options.read(command, words, from)
  if not parsed then
    return output.usage(wrong, name, wants_json(words))
  elseif parsed.help then
    return output.print(options.help(command)) or output.status.ok
  end
  if from == 3 then
    table.insert(parsed.operand, 1, words[2])
  end
  return command.main(parsed)
end

-- The standalone interpreter turns Ctrl-C into an error of this text. What was running is stopped by then: every
-- command is closed by what holds it.
local function is_interrupt(err)
  return type(err) == "string" and err:find("interrupted!", 1, true) ~= nil
end

local EBADF <const> = 9 -- on Linux and macOS

local placeholders = {} -- held for as long as the process lives

-- A standard descriptor that the caller closed would be given to the next file that is opened, and what is printed
-- would go there. Whoever closes one wants nothing from it: /dev/null takes its place.
local function occupy_closed_descriptors()
  for _, file in ipairs { io.stdin, io.stdout, io.stderr } do
    local _, _, number = file:seek("cur")
    if number == EBADF then
      placeholders[#placeholders + 1] = io.open("/dev/null", "r+")
    end
  end
end

--- Do what a command line says.
-- @tparam {string,...} words without the program's name
-- @treturn integer exit status
function cli.main(words)
  -- Nothing here lives long or makes much garbage: outputs are the core's. A collector that never starts is a few
  -- per cent of a short command.
  collectgarbage("stop")
  occupy_closed_descriptors()
  local ok, status = xpcall(dispatch, function(err)
    return is_interrupt(err) and err or debug.traceback(tostring(err), 2)
  end, words)
  if ok then
    return status
  elseif is_interrupt(status) then
    return output.status.interrupted
  end
  io.stderr:write("moonsand: a fault of moonsand itself; please report it with what follows\n", status, "\n")
  return output.status.internal
end

return cli
