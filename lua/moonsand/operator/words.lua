--- The words of a shell command, as bash would see them, as far as that can be known without running it.
--
-- Rules look at commands from two sides, and err on the safe one each time. An `allow` needs certainty: `certain` is
-- set only for one simple command whose every word is written out. A `forbid` must not be escaped: `commands` has every
-- simple command found anywhere in the text (lists, pipelines, subshells, bodies, substitutions, `bash -c` strings,
-- what `env` and its like run), where a word that is known only at run time is `false`, and `understood` is false where
-- the text has something this parser does not follow.
--
-- Not a sandbox: what a script file does is in no command's words. The mode confines that.
--
-- Pure, and linear in the text but for strings in strings, whose depth is bounded. Relies on bash(1) for the grammar.
-- @module moonsand.operator.words

local words = {}

local DEPTH <const> = 12 -- of commands in strings in commands; beyond that nobody means well
local MOST <const> = 200000 -- words, of which commands in commands may make many
local LONGEST <const> = 131072 -- bytes, which is what Linux takes as one argument (execve(2))

local function set(list)
  local members = {}
  for name in list:gmatch("%S+") do
    members[name] = true
  end
  return members
end

--- Programs that run the command in their arguments, and how many arguments of their own come before it.
words.wrappers = {
  builtin = 0, chronic = 0, chroot = 1, command = 0, doas = 0, env = 0, exec = 0, fakeroot = 0, flock = 1, ionice = 0,
  ltrace = 0, nice = 0, nohup = 0, nsenter = 0, parallel = 0, pkexec = 0, prlimit = 0, runuser = 0, setarch = 0,
  setpriv = 0, setsid = 0, stdbuf = 0, strace = 0, sudo = 0, ["systemd-run"] = 0, taskset = 1, time = 0, timeout = 1,
  unshare = 0, xargs = 0, busybox = 0, toybox = 0, caffeinate = 0, ["sandbox-exec"] = 0, bwrap = 0,
}

--- Programs that read their argument after `-c`, or their input, as shell text.
words.shells = set "bash sh dash ash zsh ksh mksh yash fish rbash su"

--- Commands whose arguments are shell text as they are.
words.evaluators = set "eval trap alias watch"

--- Commands that no `allow` matches, whatever their arguments: what they run is not what they are called.
-- @string name
-- @treturn boolean
function words.runs_others(name)
  return words.wrappers[name] ~= nil or words.shells[name] or words.evaluators[name] or name == "source"
    or name == "." or name == "find" or false
end

local reserved = set "if then else elif fi do done while until { } ! time case esac for select function coproc [["
local transparent = set "if then else elif fi do done while until { } !"

-- What is known of one text, or of all the texts within each other: the commands, and the two verdicts.
local function note(all, field, why)
  if not all[field] then
    all[field] = why
  end
end

local function lost(all, why)
  note(all, "confused", why)
  note(all, "doubt", why)
end

local read_commands, parse_text

local simple_escapes = {
  a = "\a", b = "\b", e = "\27", E = "\27", f = "\f", n = "\n", r = "\r", t = "\t", v = "\v",
  ["\\"] = "\\", ["'"] = "'", ['"'] = '"', ["?"] = "?",
}

-- $'...' at the quote. Returns the text.
local function read_ansi(p)
  local text, at, out = p.text, p.at + 1, {}
  while true do
    local stop = text:find("['\\]", at)
    if not stop then
      lost(p.all, "a quote that is not closed")
      p.at = #text + 1
      return table.concat(out) .. text:sub(at)
    end
    out[#out + 1] = text:sub(at, stop - 1)
    if text:byte(stop) == 39 then
      p.at = stop + 1
      return table.concat(out)
    end
    local letter = text:sub(stop + 1, stop + 1)
    local digits
    if simple_escapes[letter] then
      out[#out + 1], at = simple_escapes[letter], stop + 2
    elseif letter:find("[0-7]") then
      digits = text:match("^[0-7][0-7]?[0-7]?", stop + 1)
      out[#out + 1], at = string.char(tonumber(digits, 8) & 255), stop + 1 + #digits
    elseif letter == "x" and text:find("^%x", stop + 2) then
      digits = text:match("^%x%x?", stop + 2)
      out[#out + 1], at = string.char(tonumber(digits, 16)), stop + 2 + #digits
    elseif (letter == "u" or letter == "U") and text:find("^%x", stop + 2) then
      digits = text:match(letter == "u" and "^%x%x?%x?%x?" or "^%x%x?%x?%x?%x?%x?%x?%x?", stop + 2)
      out[#out + 1], at = utf8.char(tonumber(digits, 16) & 0x7FFFFFFF), stop + 2 + #digits
    else
      if letter == "c" then
        lost(p.all, "a control character in a quote")
      end
      out[#out + 1], at = "\\" .. letter, stop + 1 + #letter
    end
  end
end

-- `...` at the first backquote.
local function read_backquotes(p, in_double)
  local text, at, inner = p.text, p.at + 1, {}
  note(p.all, "doubt", "a command substitution")
  while true do
    local stop = text:find("[`\\]", at)
    if not stop then
      lost(p.all, "a backquote that is not closed")
      inner[#inner + 1] = text:sub(at)
      p.at = #text + 1
      break
    end
    inner[#inner + 1] = text:sub(at, stop - 1)
    if text:byte(stop) == 96 then
      p.at = stop + 1
      break
    end
    local after = text:sub(stop + 1, stop + 1)
    local dropped = after == "`" or after == "\\" or after == "$" or (in_double and after == '"')
    inner[#inner + 1] = (dropped and "" or "\\") .. after
    at = stop + 1 + #after
  end
  parse_text(p.all, table.concat(inner), p.depth + 1)
end

local read_double

-- ${...} just after the brace. What is in it is known at run time, but commands may be in it.
local function read_braces(p, in_double)
  local text = p.text
  while true do
    local stop = text:find("[}\\'\"$`]", p.at)
    if not stop then
      lost(p.all, "a ${ that is not closed")
      p.at = #text + 1
      return
    end
    local c = text:sub(stop, stop)
    p.at = stop
    if c == "}" then
      p.at = stop + 1
      return
    elseif c == "\\" then
      p.at = stop + 2
    elseif c == "'" then
      if in_double then
        lost(p.all, "a quote in an expansion in quotes")
        p.at = stop + 1
      else
        local closing = text:find("'", stop + 1, true)
        if not closing then
          lost(p.all, "a quote that is not closed")
        end
        p.at = (closing or #text) + 1
      end
    elseif c == '"' then
      if in_double then
        lost(p.all, "quotes in an expansion in quotes")
      end
      read_double(p)
    elseif c == "`" then
      read_backquotes(p, in_double)
    else
      p:dollar(in_double)
    end
  end
end

-- "..." at the first quote. Returns the text, or nil where a part of it is known at run time.
function read_double(p)
  local text, out, known = p.text, {}, true
  p.at = p.at + 1
  while true do
    local stop = text:find('["\\$`]', p.at)
    if not stop then
      lost(p.all, "a quote that is not closed")
      p.at = #text + 1
      return nil
    end
    out[#out + 1] = text:sub(p.at, stop - 1)
    local c = text:sub(stop, stop)
    p.at = stop
    if stop > 1 and text:byte(stop - 1) >= 128 and c == "\\" then
      note(p.all, "doubt", "a backslash that some locales take for half a character")
    end
    if c == '"' then
      p.at = stop + 1
      return known and table.concat(out) or nil
    elseif c == "\\" then
      local after = text:sub(stop + 1, stop + 1)
      if after == "\n" then
        p.at = stop + 2
      else
        out[#out + 1] = after:find('^[$`"\\]') and after or "\\" .. after
        p.at = stop + 1 + #after
      end
    elseif c == "`" then
      read_backquotes(p, true)
      known = false
    else
      local literal = p:dollar(true)
      known = known and literal ~= nil
      out[#out + 1] = literal
    end
  end
end

local Reader = {}
Reader.__index = Reader

-- At a dollar sign. Returns the literal text, or nil: it is known at run time.
function Reader:dollar(in_double)
  local text, after = self.text, self.text:sub(self.at + 1, self.at + 1)
  note(self.all, "doubt", after == "(" and "a command substitution" or "an expansion")
  if after == "(" then
    self.at = self.at + 2
    local arithmetic = text:sub(self.at, self.at) == "("
    self.arithmetic = self.arithmetic + (arithmetic and 1 or 0)
    self.depth = self.depth + 1
    read_commands(self, true)
    self.depth = self.depth - 1
    self.arithmetic = self.arithmetic - (arithmetic and 1 or 0)
  elseif after == "{" then
    self.at = self.at + 2
    read_braces(self, in_double)
  elseif after == "'" and not in_double then
    self.at = self.at + 1
    return read_ansi(self)
  elseif after == '"' and not in_double then
    self.at = self.at + 1
    return read_double(self)
  elseif after == "[" then
    lost(self.all, "$[...]")
    self.at = self.at + 2
  elseif after:find("[%w_@*#?$!-]") then
    self.at = self.at + 1 + #(text:match("^[%a_][%w_]*", self.at + 1) or after)
  else
    self.at = self.at + 1
    return "$"
  end
  return nil
end

-- Whether braces make several words of one.
local function braces_expand(raw)
  local from = raw:find("{", 1, true)
  local comma = from and (raw:find(",", from, true) or raw:find("..", from, true))
  return comma and raw:find("}", comma, true)
end

-- One word, or nil where there is none. `text` is nil when it is known at run time only; `bare`: nothing was quoted.
function Reader:word()
  local text, start, out = self.text, self.at, {}
  local known, bare, brace, bracket, assigned = true, true, false, false, nil
  while true do
    local run = text:match("^[%w_%-%.,/:=+@%%^%]]+", self.at)
    if run then
      out[#out + 1] = run
      if assigned == nil and run:find("=", 1, true) then
        assigned = bare and (table.concat(out):find("^[%a_][%w_]*%+?=") or bracket) and true or false
      end
      self.at = self.at + #run
    end
    local c = text:sub(self.at, self.at)
    if c == "" or c == " " or c == "\t" or c == "\n" or c:find("[;&|()]") then
      break
    elseif c == "<" or c == ">" then
      if text:sub(self.at + 1, self.at + 1) ~= "(" then
        break
      end
      note(self.all, "doubt", "a process substitution")
      known = false
      self.at = self.at + 2
      self.depth = self.depth + 1
      read_commands(self, true)
      self.depth = self.depth - 1
    elseif c == "\\" then
      local after = text:sub(self.at + 1, self.at + 1)
      self.at = self.at + 1 + #after
      if after == "" then
        lost(self.all, "a backslash at the end")
        out[#out + 1] = "\\"
      elseif after ~= "\n" then
        out[#out + 1] = after
        bare = false
        if after:byte() >= 128 or after:byte() < 32 then
          note(self.all, "doubt", "an unusual character")
        end
      end
    elseif c == "'" then
      local closing = text:find("'", self.at + 1, true)
      if not closing then
        lost(self.all, "a quote that is not closed")
      end
      out[#out + 1] = text:sub(self.at + 1, (closing or #text + 1) - 1)
      self.at = (closing or #text) + 1
      bare = false
    elseif c == '"' or c == "$" or c == "`" then
      local literal
      if c == '"' then
        literal = read_double(self)
      elseif c == "$" then
        literal = self:dollar(false)
      else
        read_backquotes(self, false)
      end
      known = known and literal ~= nil
      out[#out + 1] = literal
      bare = false
    else
      if c == "*" or c == "?" then
        known = false
        note(self.all, "doubt", "a glob")
      elseif c == "[" then
        bracket = true
        note(self.all, "doubt", "a bracket")
      elseif c == "{" or c == "}" then
        brace = true
        note(self.all, "doubt", "a brace")
      elseif c == "~" then
        known = known and self.at ~= start
        note(self.all, "doubt", "a tilde")
      elseif c:byte() >= 127 or c:byte() < 32 then
        note(self.all, "doubt", "an unusual character")
      end
      out[#out + 1] = c
      self.at = self.at + 1
    end
  end
  if self.at == start then
    return nil
  end
  local raw = text:sub(start, self.at - 1)
  if bracket and raw:find("]", raw:find("[", 1, true) or 1, true) or brace and braces_expand(raw) then
    known = false
  end
  if out[1] == nil and raw:find("^[\\\n]+$") then
    return self:word() -- nothing but continued lines
  end
  return { text = known and table.concat(out) or nil, bare = bare, assigned = assigned, raw = raw }
end

-- Blanks, continued lines and comments.
function Reader:skip()
  local text = self.text
  while true do
    local c = text:byte(self.at)
    if c == 32 or c == 9 then
      self.at = self.at + 1
    elseif c == 92 and text:byte(self.at + 1) == 10 then
      self.at = self.at + 2
    elseif c == 35 then
      self.at = text:find("\n", self.at, true) or #text + 1
    else
      return
    end
  end
end

-- The bodies of the heredocs announced on the line that just ended.
function Reader:heredocs()
  for _, heredoc in ipairs(self.pending) do
    local from, text = self.at, self.text
    local body
    while true do
      local line_end = text:find("\n", self.at, true)
      local line = text:sub(self.at, (line_end or #text + 1) - 1)
      local compared = heredoc.tabs and line:gsub("^\t+", "") or line
      local here = self.at
      self.at = (line_end or #text) + 1
      if compared == heredoc.delimiter then
        body = text:sub(from, here - 1)
        break
      elseif not line_end then
        lost(self.all, "a heredoc without its end")
        body = text:sub(from)
        break
      end
    end
    if not heredoc.quoted then
      if body:find("\\\n", 1, true) then
        lost(self.all, "a continued line in a heredoc")
      end
      local inner = setmetatable({ text = body, at = 1, all = self.all, depth = self.depth + 1, pending = {},
        arithmetic = 0 }, Reader)
      while true do
        local stop = body:find("[\\$`]", inner.at)
        if not stop or inner.depth > DEPTH then
          break
        end
        inner.at = stop
        local c = body:sub(stop, stop)
        if c == "\\" then
          inner.at = stop + 2
        elseif c == "$" then
          inner:dollar(true)
        else
          read_backquotes(inner, true)
        end
      end
    end
    heredoc.command.stdin = body
  end
  self.pending = {}
end

-- A redirection at the current position. `command` is what a heredoc is for.
function Reader:redirection(command)
  local operator = self.text:match("^<<<", self.at) or self.text:match("^<<%-", self.at)
    or self.text:match("^&>>", self.at) or self.text:match("^[<>&][<>&|]", self.at)
    or self.text:match("^[<>]", self.at)
  note(self.all, "doubt", "a redirection")
  self.at = self.at + #operator
  self:skip()
  local from = self.at
  if operator == "<<" or operator == "<<-" then
    if self.arithmetic > 0 then
      return lost(self.all, "arithmetic that shifts")
    end
    local delimiter = self:word()
    local raw = self.text:sub(from, self.at - 1)
    if not delimiter or raw:find("[$`]") or raw:find("[%(%)]") then
      return lost(self.all, "a heredoc with an unusual end")
    end
    local plain = raw:gsub("\\\n", "")
    self.pending[#self.pending + 1] = {
      delimiter = delimiter.text or plain, quoted = not delimiter.bare, tabs = operator == "<<-", command = command,
    }
    return nil
  end
  local target = self:word()
  if not target then
    return lost(self.all, "a redirection to nowhere")
  elseif operator == "<<<" then
    command.stdin = target.text or false
  end
  return nil
end

local function basename(path)
  return path:match("[^/]*$")
end
words.basename = basename

local add

-- Where the command of a wrapper may begin: after its options (each may take a word), assignments and own arguments.
local function wrapped(all, list, from, own, depth)
  local seen = {}
  local function look(at, left)
    local key = at * 4 + left
    if at > #list or seen[key] or all.work > MOST then
      return
    end
    seen[key] = true
    local word = list[at]
    if word and word:find("^%-") then
      look(at + 1, left)
      if not word:find("=", 1, true) and word ~= "--" then
        look(at + 2, left)
      end
    elseif word and word:find("^[%a_][%w_]*=") then
      look(at + 1, left)
    elseif left > 0 then
      look(at + 1, left - 1)
    else
      add(all, table.move(list, at, #list, 1, {}), nil, depth + 1)
    end
  end
  look(from, own)
end

local function parse_argument(all, text, depth)
  if text then
    parse_text(all, text, depth + 1)
  else
    all.commands[#all.commands + 1] = { false }
  end
end

local function shell_arguments(all, list, stdin, depth)
  local gave_text, operand = false, false
  for at = 2, #list do
    local word = list[at]
    if not word then
      all.commands[#all.commands + 1] = { false }
      return
    elseif word:find("^[-+]%a*c") or word == "--command" then
      gave_text = true
    elseif word:find("^%-%-command=") then
      gave_text = true
      parse_argument(all, word:match("=(.*)"), depth)
    elseif not word:find("^[-+]") then
      operand = true
      if gave_text then
        parse_argument(all, word, depth)
      end
    end
  end
  if not gave_text and stdin then
    parse_argument(all, stdin, depth)
  elseif not gave_text and (not operand or stdin == false) then
    all.commands[#all.commands + 1] = { false } -- what it reads is not known
  end
end

-- What `eval` and its like read as shell text: all arguments as one text, or for some each one.
local function evaluated(all, list, name, depth)
  local known = name ~= "alias" and name ~= "trap"
  for at = 2, #list do
    known = known and list[at] ~= false
  end
  if known then
    return parse_argument(all, table.concat(list, " ", 2), depth)
  end
  for at = 2, #list do
    parse_argument(all, list[at] and (name == "alias" and list[at]:match("=(.*)") or list[at]), depth)
  end
end

-- Takes a simple command down, and all that it runs by what it is known for.
function add(all, list, stdin, depth)
  all.work = all.work + 1 + #list
  if all.work > MOST then
    return lost(all, "too many words")
  end
  all.commands[#all.commands + 1] = list
  local name = list[1] and basename(list[1])
  if not name then
    return
  elseif depth > DEPTH then
    return lost(all, "commands in commands in commands")
  elseif words.shells[name] then
    shell_arguments(all, list, stdin, depth)
  elseif words.evaluators[name] then
    evaluated(all, list, name, depth)
  elseif name == "find" then
    for at = 2, #list - 1 do
      if all.work <= MOST and list[at] and (list[at]:find("^%-exec") or list[at]:find("^%-ok")) then
        add(all, table.move(list, at + 1, #list, 1, {}), nil, depth + 1)
      end
    end
  elseif words.wrappers[name] then
    if name == "command" and list[2] and list[2]:find("^%-[pvV]*[vV]") then
      return
    elseif name == "env" then
      for at = 2, #list do
        local split = list[at] and (list[at]:match("^%-%a*S(.*)") or list[at]:match("^%-%-split%-string=?(.*)"))
        if split then
          parse_argument(all, split .. " " .. (list[at + 1] or ""), depth)
        end
      end
    elseif name == "xargs" or name == "parallel" then
      list = table.move(list, 1, #list, 1, {})
      list[#list + 1] = false
    end
    wrapped(all, list, 2, words.wrappers[name], depth)
  end
end

-- Commands up to the end of the text, or up to the `)` that closes a substitution.
function read_commands(p, nested)
  local text, all = p.text, p.all
  if p.depth > DEPTH then
    lost(all, "commands in commands in commands")
    p.at = #text + 1
    return
  end
  local list, command, stack, fresh = {}, {}, {}, true
  local skipping, condition, timing = false, false, false -- the words of a `for`; inside [[ ]]; after `time`
  local outer = p.pending
  p.pending = {}

  local function finish()
    if list[1] ~= nil and not condition then
      command.list = list
      all.deferred[#all.deferred + 1] = { list, command, p.depth }
      all.simple = all.simple + 1
    end
    list, command, fresh, skipping, timing = {}, {}, true, false, false
  end

  local function top()
    return stack[#stack]
  end

  local function take_word(word)
    local bare = word.bare and word.text
    if condition then
      condition = bare ~= "]]"
      return
    elseif top() == "pattern" then
      if bare == "esac" then
        stack[#stack] = nil
      end
      return
    elseif top() == "array" or skipping then
      return
    elseif fresh and timing and (bare == "-p" or bare == "--") then
      return
    elseif fresh and bare and reserved[bare] then
      note(all, "doubt", "a compound command")
      if transparent[bare] then
        return
      elseif bare == "time" then
        timing = true
      elseif bare == "[[" then
        condition = true
      elseif bare == "esac" then
        if top() == "case" then
          stack[#stack] = nil
        end
      elseif bare == "coproc" then
        lost(all, "coproc")
      else -- case, for, select, function: a word, and for the first three perhaps `in`
        p:skip()
        if text:find("^%(%(", p.at) then
          return
        elseif not p:word() then
          return lost(all, "an incomplete compound command")
        end
        local from = p.at
        while text:find("^[ \t\n]", p.at) do
          p.at = p.at + 1
        end
        p:skip()
        local is_in = text:match("^in%f[^%w_]", p.at)
        if bare == "case" then
          if not is_in then
            return lost(all, "an incomplete case")
          end
          p.at = p.at + 2
          stack[#stack + 1] = "pattern"
        elseif is_in and bare ~= "function" then
          p.at = p.at + 2
          skipping = true
        else
          p.at = from
        end
      end
      return
    elseif fresh and list[1] == nil and word.assigned then
      note(all, "doubt", "an assignment")
      command.assigned = true
      return
    end
    fresh = false
    list[#list + 1] = word.text or false
    if word.text == nil then
      note(all, "doubt", "a word known at run time only")
    end
  end

  while true do
    p:skip()
    local c = text:sub(p.at, p.at)
    if c == "" then
      break
    elseif c == "\n" then
      p.at = p.at + 1
      finish()
      p:heredocs()
    elseif c == ";" or c == "|" or (c == "&" and text:sub(p.at + 1, p.at + 1) ~= ">") then
      note(all, "doubt", "an operator")
      local operator = text:match("^;;&", p.at) or text:match("^;[;&]", p.at) or text:match("^&&", p.at)
        or text:match("^|[|&]", p.at) or c
      p.at = p.at + #operator
      if top() == "pattern" or condition then
        fresh = true
      else
        finish()
        if #operator > 1 and operator:sub(1, 1) == ";" and top() == "case" then
          stack[#stack] = "pattern"
        end
      end
    elseif c == "(" then
      note(all, "doubt", "a parenthesis")
      local before = p.at > 1 and text:sub(p.at - 1, p.at - 1) or ""
      p.at = p.at + 1
      if condition or top() == "pattern" then
        fresh = true
      elseif before == "=" then
        stack[#stack + 1] = "array"
      else
        if before:find("[?*+@!]") then
          lost(all, "an extended glob")
        end
        local arithmetic = fresh and text:sub(p.at, p.at) == "("
        if not arithmetic or skipping then
          finish()
        end
        p.arithmetic = p.arithmetic + (arithmetic and 1 or 0)
        stack[#stack + 1] = arithmetic and "arithmetic" or "parenthesis"
      end
    elseif c == ")" then
      note(all, "doubt", "a parenthesis")
      p.at = p.at + 1
      if condition then
        fresh = true
      elseif top() == "pattern" then
        stack[#stack] = "case"
        fresh = true
      elseif top() == "array" then
        stack[#stack] = nil
      elseif top() == "parenthesis" or top() == "arithmetic" then
        p.arithmetic = p.arithmetic - (top() == "arithmetic" and 1 or 0)
        stack[#stack] = nil
        finish()
      elseif nested and #stack == 0 then
        finish()
        if p.pending[1] then
          lost(all, "a heredoc that a substitution ends")
        end
        p.pending = outer
        return
      else
        lost(all, "a parenthesis that nothing opened")
        finish()
      end
    elseif (c == "<" or c == ">") and text:sub(p.at + 1, p.at + 1) ~= "(" or c == "&" then
      if condition then
        if text:find("^<<", p.at) then
          lost(all, "an odd condition")
        end
        p.at = p.at + 1
      else
        p:redirection(command)
      end
    else
      local word = p:word()
      if word then
        local next_one = text:sub(p.at, p.at)
        local descriptor = (next_one == "<" or next_one == ">")
          and (word.raw:find("^%d+$") or word.raw:find("^{[%a_][%w_]*}$"))
        if not descriptor or condition then
          take_word(word)
        end
      end
    end
  end
  finish()
  if p.pending[1] then
    p.at = #text + 1
    p:heredocs()
  end
  p.pending = outer
  if nested then
    lost(all, "a substitution that is not closed")
  elseif #stack > 0 or condition then
    lost(all, "a compound command that is not closed")
  end
end

function parse_text(all, text, depth)
  if depth > DEPTH then
    return lost(all, "commands in commands in commands")
  end
  all.work = all.work + #text // 4
  if all.work > MOST then
    return lost(all, "too much text in text")
  end
  local deferred = all.deferred
  all.deferred = {}
  read_commands(setmetatable({ text = text, at = 1, all = all, depth = depth, pending = {}, arithmetic = 0 }, Reader),
    false)
  -- Only now is it known what each command reads from its heredocs.
  local mine = all.deferred
  all.deferred = deferred
  for _, found in ipairs(mine) do
    add(all, found[1], found[2].stdin, found[3])
  end
end

local function fresh_state()
  return { commands = {}, deferred = {}, simple = 0, work = 0 }
end

local function certainty(all)
  local first = all.deferred_first
  if all.doubt then
    return nil, all.doubt
  elseif all.simple ~= 1 then
    return nil, all.simple == 0 and "no command" or "several commands"
  end
  local name = first[1]
  if not name or name == "" then
    return nil, "no name"
  elseif name:find("/", 1, true) then
    return nil, "a program given by its path"
  elseif words.runs_others(name) then
    return nil, name .. " runs other commands"
  end
  return first
end

--- Parse a command text.
-- @string text
-- @treturn table `commands`: every simple command found, a list of words, `false` for one known at run time only;
--   `certain`: the words of the one simple command, where the text is that and nothing else; `doubt`: why it is not;
--   `understood` and, where it is false, `confused`: what was not followed
function words.parse(text)
  local all = fresh_state()
  if #text > LONGEST then
    lost(all, "a very long command")
  elseif text:find("\0", 1, true) then
    lost(all, "a NUL byte")
  elseif pcall(parse_text, all, text, 1) then
    all.deferred_first = all.commands[1]
  else
    lost(all, "nesting that is too deep")
  end
  local certain, doubt = certainty(all)
  return {
    commands = all.commands, certain = certain, doubt = doubt,
    understood = not all.confused, confused = all.confused,
  }
end

--- The same for an argv, which no shell looks at.
-- @tparam {string,...} argv
-- @treturn table as of `parse`
function words.argv(argv)
  local all = fresh_state()
  all.simple = 1
  add(all, table.move(argv, 1, #argv, 1, {}), nil, 1)
  all.deferred_first = all.commands[1]
  local certain, doubt = certainty(all)
  return {
    commands = all.commands, certain = certain, doubt = doubt,
    understood = not all.confused, confused = all.confused,
  }
end

return words
