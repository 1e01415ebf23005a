--- Where an operator's script runs: a fresh set of names, and bounds on what a call may cost.
--
-- The operator is trusted, their slips are not: a loop without end, a pattern that never finishes, a table without end
-- become errors. Instructions, time and memory are bounded by `core.bounded`, which counts in the interpreter. What
-- runs in C and would not be counted (patterns, `rep`, `sort`) is bounded by its arguments. Methods of strings are the
-- bounded ones, too, for as long as the script runs.
--
-- Relies on the core. There is no pcall, no coroutine and no metatable in the scope, so nothing goes on after an error.
-- @module moonsand.operator.scope

local core = require "moonsand.core"

local scope = {}

--- What one call may use. `pattern_steps` bounds one match by a pattern, at worst.
scope.limits = {
  instructions = 2000000,
  ms = 1000,
  bytes = 16 * 1024 * 1024,
  string_bytes = 1024 * 1024,
  pattern_steps = 50000000,
  sorted = 10000,
}

local format, gsub, find = string.format, string.gsub, string.find

-- Steps that a match takes at worst: each repetition may try each length, at each place.
local function steps(subject, pattern)
  local bare = gsub(gsub(pattern, "%%b..", "*"), "%%.", "x")
  bare = gsub(bare, "%[%^?%]?[^%]]*%]", "x")
  local repeated = select(2, gsub(bare, "[*+-]", ""))
  local optional = select(2, gsub(bare, "%?", ""))
  local anchored = find(pattern, "^%^")
  return (#subject + 1.0) ^ (repeated + (anchored and 0 or 1)) * 2.0 ^ optional
end

-- Fails once the time of the call is over: for what takes long without an instruction.
local function look_at_clock(self)
  if core.monotonic_ms() > self.deadline then
    error(format("takes longer than %d ms", scope.limits.ms), 3)
  end
end

local function matching(self, name)
  local native = string[name]
  return function(subject, pattern, ...)
    local kind = type(subject)
    if kind == "number" then
      subject, kind = tostring(subject), "string"
    end
    if kind ~= "string" or type(pattern) ~= "string" then
      error(format("string.%s needs two strings, not a %s and a %s", name, kind, type(pattern)), 2)
    end
    if not (name == "find" and select(2, ...)) and steps(subject, pattern) > scope.limits.pattern_steps then
      error(format("the pattern '%s' could take too long on a text of %d bytes; use fewer repetitions, or anchor it "
        .. "with ^", pattern, #subject), 2)
    end
    look_at_clock(self)
    return native(subject, pattern, ...)
  end
end

local function copy(library, names)
  local fresh = {}
  for name in names:gmatch("%S+") do
    fresh[name] = library[name]
  end
  return fresh
end

local function bounded_strings(self)
  local strings = copy(string, "byte char len lower reverse sub upper")
  for _, name in ipairs { "find", "match", "gmatch", "gsub" } do
    strings[name] = matching(self, name)
  end
  strings.rep = function(text, count, separator)
    local unit = #tostring(text) + #tostring(separator or "")
    if type(count) ~= "number" or unit * count > scope.limits.string_bytes then
      error(format("string.rep would make more than %d bytes", scope.limits.string_bytes), 2)
    end
    look_at_clock(self)
    return string.rep(text, count, separator)
  end
  strings.format = function(text, ...)
    local size = #tostring(text)
    for _, value in ipairs { ... } do
      size = size + (type(value) == "string" and #value or 0)
    end
    if size > scope.limits.string_bytes then
      error(format("string.format would make more than %d bytes", scope.limits.string_bytes), 2)
    end
    look_at_clock(self)
    return format(text, ...)
  end
  return strings
end

local function bounded_tables(self)
  local tables = copy(table, "concat insert pack remove unpack")
  tables.sort = function(list, before)
    if type(list) ~= "table" or #list > scope.limits.sorted then
      error(format("table.sort takes a list of at most %d entries", scope.limits.sorted), 2)
    end
    look_at_clock(self)
    table.sort(list, before)
  end
  tables.concat = function(...)
    look_at_clock(self)
    return table.concat(...)
  end
  return tables
end

local Scope = {}
Scope.__index = Scope

--- Make a scope.
-- @treturn table with `names`, what a script may use of Lua
function scope.new()
  local self = setmetatable({ deadline = math.huge }, Scope)
  self.strings = bounded_strings(self)
  local names = copy(_G, "assert error ipairs next pairs select tonumber tostring type")
  names.string, names.table = self.strings, bounded_tables(self)
  names.math = copy(math, "abs ceil floor fmod huge max maxinteger min mininteger modf pi sqrt tointeger type ult")
  names.utf8 = copy(utf8, "char charpattern codepoint codes len offset")
  self.names = names
  return self
end

local reasons = {
  instructions = function()
    return ("stopped after %d instructions: it seems to have no end"):format(scope.limits.instructions)
  end,
  time = function()
    return ("stopped after %d ms: it takes too long"):format(scope.limits.ms)
  end,
  memory = function()
    return ("needs more than %d MB of memory"):format(scope.limits.bytes // (1024 * 1024))
  end,
}

-- What went wrong, without the stack's end and on one line.
local function message_of(err, reason)
  local text = type(err) == "string" and err or ("raised a %s instead of a message"):format(type(err))
  if reason then
    local place = text:match("^policy:%d+: ") or ""
    return place .. reasons[reason]()
  end
  return text:match("^[^\n]*"):sub(1, 500)
end

--- Call a function of a script within the bounds.
-- @func f
-- @param ... its arguments
-- @treturn[1] boolean true
-- @return[1] what it returned
-- @treturn[2] boolean false
-- @treturn[2] string what went wrong
function Scope:call(f, ...)
  local methods = getmetatable("")
  local before, outer_deadline = methods.__index, self.deadline
  self.deadline = core.monotonic_ms() + scope.limits.ms
  methods.__index = self.strings
  local results = table.pack(core.bounded(scope.limits.instructions, scope.limits.ms, scope.limits.bytes, f, ...))
  methods.__index = before
  self.deadline = outer_deadline
  if results[1] then
    return table.unpack(results, 1, results.n)
  end
  local message = message_of(results[2], results[3])
  if not message:find("^policy:%d+: ") then -- the line went with a tail call, or with the memory
    message = ("policy:%d: %s"):format(math.max(debug.getinfo(f, "S").linedefined, 1), message)
  end
  return false, message
end

return scope
