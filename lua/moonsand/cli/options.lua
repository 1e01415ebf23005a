--- Command-line options as data: one table is the reader and the help, so the two cannot drift apart.
--
-- argparse is the library for this, and is not used: loading it and building a parser takes 0.9 ms where `moonsand run
-- true` as a whole may take 7, and each `run` would pay. What is left to do is small: long options, in front of the
-- operands, each at most once.
--
-- Pure; relies on nothing. What is wrong with a command line is said in a sentence that names what to write instead.
-- @module moonsand.cli.options

local options = {}

--- Every option, by name. `value` is what its value is called, none for a flag; `read` turns the text of a value into
-- what the command gets, or nil and what is wrong.
options.all = {
  mode = { value = "M", help = "read-only (default), workspace-write or danger-full-access" },
  workspace = { value = "DIR", help = "the workspace, an absolute path (default: the current directory)" },
  workdir = { value = "DIR", help = "where the command runs (default: the current directory, where it is in the\n"
    .. "workspace, else the workspace); a relative DIR is below the workspace" },
  runner = { value = "R", help = "bwrap, landlock or seatbelt, and no other (default: the best that works)" },
  ["timeout-ms"] = { value = "N", help = "stop the command after N ms (default: 120000)" },
  ["max-output-bytes"] = { value = "N", help = "keep the last N bytes of each stream (default: 64000)" },
  policy = { value = "FILE", help = "an operator's policy script (`moonsand policy check` tries it)" },
  audit = { value = "FILE", help = "append a line about the command to this log (`moonsand audit` shows it)" },
  jobs = { help = "with background jobs" },
  session = { value = "ID", help = "only of this session" },
  decision = { value = "D", help = "only with this decision: default, allow, ask or forbid" },
  outcome = { value = "O", help = "only with this outcome: exited, killed, timed-out, refused, ..." },
  since = { value = "TIME", help = "only from then on, such as 2030-01-31 or 2030-01-31T12:00" },
  last = { value = "N", help = "the last N of them" },
  json = { help = "print one JSON object" },
  help = { help = "print this, and exit" },
}

local function read_text(text)
  return text
end

local function read_count(text)
  local number = text:find("^%d+$") and math.tointeger(tonumber(text))
  if not number or number < 1 then
    return nil, ("needs a positive whole number, not '%s'"):format(text)
  end
  return number
end
options.all["timeout-ms"].read = read_count
options.all["max-output-bytes"].read = read_count
options.all.last.read = read_count

local function known_names(command)
  local names = {}
  for position, name in ipairs(command.options) do
    names[position] = "--" .. name
  end
  return names
end

local function takes(command, name)
  for _, known in ipairs(command.options) do
    if known == name then
      return options.all[name]
    end
  end
  return nil
end

-- One option at `at`. Returns how many words it took, or nil and what is wrong.
local function read_option(command, words, at, parsed)
  local word = words[at]
  local name, attached = word:match("^%-%-([^=]+)=(.*)$")
  name = name or word:match("^%-%-(.+)$")
  if word == "-h" then
    name = "help"
  end
  local option = name and takes(command, name)
  if not option then
    local shown = attached and "--" .. name or word
    local hint = require("moonsand.nearest").hint(shown, known_names(command))
    return nil, ("unknown option '%s'%s"):format(shown, hint)
  elseif parsed[name] ~= nil then
    return nil, ("--%s is given twice"):format(name)
  elseif not option.value then
    if attached then
      return nil, ("--%s takes no value"):format(name)
    end
    parsed[name] = true
    return 1
  end
  local text = attached or words[at + 1]
  if text == nil or text == "" then
    return nil, ("--%s needs a value: --%s %s"):format(name, name, option.value)
  end
  local value, wrong = (option.read or read_text)(text)
  if value == nil then
    return nil, ("--%s %s"):format(name, wrong)
  end
  parsed[name] = value
  return attached and 1 or 2
end

-- The command string. A shell took the quotes away; what came in several words was most likely meant as one.
local function read_command(operands)
  local command = operands[1]
  if command == nil then
    return nil, "a COMMAND is missing; give it as one string, such as 'make test'"
  elseif #operands == 1 then
    return command
  elseif options.all[operands[2]:match("^%-%-([^=]+)") or ""] then
    return nil, ("options go in front of the COMMAND: put %s there"):format(operands[2])
  end
  return nil, ("COMMAND is one string, and there are %d words; quote it: '%s'"):format(
    #operands, table.concat(operands, " "))
end

local operands_of = {
  none = function(operands)
    if operands[1] then
      return nil, ("there is nothing to do with '%s' here"):format(operands[1])
    end
    return true
  end,
  command = read_command,
  words = function(operands)
    return operands
  end,
  argv = function(operands)
    if not operands[1] then
      return nil, "a program to run is missing; give it as in: moonsand exec -- make test"
    end
    return operands
  end,
}

--- Read a command line.
-- @tparam table command `name`; `options`: the names it takes; `operand`: `none`, `command` (one string) or `argv`
-- @tparam {string,...} words
-- @int from the first one after the command's name
-- @treturn[1] table values by option name; `operand`; `help` when that is all that is wanted
-- @treturn[2] nil
-- @treturn[2] string what is wrong
function options.read(command, words, from)
  local parsed, at = {}, from
  while words[at] and words[at]:sub(1, 1) == "-" and words[at] ~= "-" and words[at] ~= "--" do
    local taken, wrong = read_option(command, words, at, parsed)
    if not taken then
      return nil, wrong
    end
    at = at + taken
  end
  if parsed.help then
    return parsed
  end
  if words[at] == "--" then
    at = at + 1
  end
  local operands = table.move(words, at, #words, 1, {})
  local operand, wrong = operands_of[command.operand](operands)
  if operand == nil then
    return nil, wrong
  end
  parsed.operand = operand
  return parsed
end

--- A command's help.
-- @tparam table command as of `read`, and `usage`, `about`
-- @treturn string
function options.help(command)
  local lines = { "usage: moonsand " .. command.usage, "", command.about, "" }
  for _, name in ipairs(command.options) do
    local option = options.all[name]
    local left = "--" .. name .. (option.value and " " .. option.value or "")
    local indent = ("\n%26s"):format("")
    lines[#lines + 1] = ("  %-23s %s"):format(left, (option.help:gsub("\n", indent)))
  end
  return table.concat(lines, "\n") .. "\n"
end

return options
