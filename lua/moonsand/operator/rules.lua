--- Rules on command words: `rule { prefix = { "git", "push" }, decision = "ask" }`.
--
-- `forbid` and `ask` look everywhere in a command (`moonsand.operator.words`), at a program by its last name, past the
-- options between its words; `allow` holds only for one command that is written out, exactly from its first word on.
-- What may be forbidden but is known only at run time is asked about. The strictest that matches wins: forbid, ask,
-- allow. Of several allows the longest prefix wins, then the one stated first.
--
-- Pure. A rule is found by its first word, so that many rules cost little.
-- @module moonsand.operator.rules

local nearest = require "moonsand.nearest"
local words = require "moonsand.operator.words"

local rules = {}

local Rules = {}
Rules.__index = Rules

--- The decisions, from the weakest to the strictest.
rules.decisions = { "allow", "ask", "forbid" }

local known_fields = { "prefix", "decision", "mode", "reason" }

local function member(value, list)
  for _, known in ipairs(list) do
    if known == value then
      return true
    end
  end
  return false
end

local function bad_prefix(prefix)
  if type(prefix) ~= "table" or #prefix == 0 then
    return "a rule needs a prefix: a list of words, such as { \"git\", \"push\" }"
  end
  for position, word in pairs(prefix) do
    if math.type(position) ~= "integer" or position < 1 or position > #prefix then
      return "a prefix is a list of words"
    elseif type(word) ~= "string" or word == "" then
      return ("word %d of the prefix is not a word"):format(position)
    end
  end
  if #prefix == 1 and prefix[1]:find("%s") then
    local first, second = prefix[1]:match("(%S+)%s+(%S+)")
    return ("a prefix is a list of words: { \"%s\", \"%s\" }"):format(first or "git", second or "push")
  end
  return nil
end

--- What is wrong with a rule, if anything.
-- @param rule as the operator wrote it
-- @tparam {string,...} modes that there are
-- @treturn ?string
function rules.fault(rule, modes)
  if type(rule) ~= "table" then
    return "rule takes a table: rule { prefix = { \"git\", \"push\" }, decision = \"ask\" }"
  end
  for field in pairs(rule) do
    if not member(field, known_fields) then
      return ("unknown field '%s' of a rule%s"):format(tostring(field), nearest.hint(tostring(field), known_fields))
    end
  end
  local wrong = bad_prefix(rule.prefix)
  if wrong then
    return wrong
  elseif not member(rule.decision, rules.decisions) then
    return ("unknown decision '%s'%s"):format(tostring(rule.decision),
      nearest.hint(tostring(rule.decision), rules.decisions))
  elseif rule.mode ~= nil and not member(rule.mode, modes) then
    return ("unknown mode '%s'%s"):format(tostring(rule.mode), nearest.hint(tostring(rule.mode), modes))
  elseif rule.mode ~= nil and rule.decision == "forbid" then
    return "a rule that forbids has no mode"
  elseif rule.reason ~= nil and (type(rule.reason) ~= "string" or rule.reason:find("%c") or rule.reason == "") then
    return "a reason is one line of text"
  end
  local name = rule.prefix[1]
  if rule.decision == "allow" and (name:find("[/=]") or words.runs_others(name)) then
    return ("an allow for '%s' would never hold: %s"):format(name, name:find("/", 1, true)
      and "name the program without its path" or "it runs other commands, whatever they are")
  end
  return nil
end

--- Make an empty set of rules.
-- @treturn table
function rules.new()
  return setmetatable({ strict = {}, lenient = {}, strict_count = 0, count = 0 }, Rules)
end

--- Add a checked rule.
-- @tparam table rule
-- @int line where it is stated
function Rules:add(rule, line)
  local kept = { decision = rule.decision, mode = rule.mode, reason = rule.reason, line = line }
  kept.prefix = table.move(rule.prefix, 1, #rule.prefix, 1, {})
  local index, key = self.lenient, kept.prefix[1]
  if rule.decision ~= "allow" then
    index, key = self.strict, words.basename(key):lower()
    self.strict_count = self.strict_count + 1
  end
  self.count = self.count + 1
  index[key] = index[key] or {}
  table.insert(index[key], kept)
end

-- Whether the words from `at` on have the rest of a prefix, with options between: true, "perhaps" or nil.
local function follows(list, at, prefix, next_one)
  if next_one > #prefix then
    return true
  end
  local word = list[at]
  if word == nil then
    return nil
  elseif word == false then
    return "perhaps"
  elseif word == prefix[next_one] then
    return follows(list, at + 1, prefix, next_one + 1)
  elseif word:find("^%-") then
    local found = follows(list, at + 1, prefix, next_one)
    if found ~= true and list[at + 1] and not list[at + 1]:find("^%-") then
      found = follows(list, at + 2, prefix, next_one) or found
    end
    return found
  end
  return nil
end

-- The strictest rule for one command, and whether it only may hold.
local function strictest(self, list, found, perhaps)
  local name = list[1]
  if name == false then
    return found, true
  elseif not name then
    return found, perhaps
  end
  for _, rule in ipairs(self.strict[words.basename(name):lower()] or {}) do
    if not found or found.decision ~= "forbid" then
      local holds = follows(list, 2, rule.prefix, 2)
      if holds == true and (not found or rule.decision == "forbid") then
        found = rule
      elseif holds then
        perhaps = true
      end
    end
  end
  return found, perhaps
end

local function allowed(self, certain)
  local best
  for _, rule in ipairs(self.lenient[certain[1]] or {}) do
    local holds = #rule.prefix <= #certain and (not best or #rule.prefix > #best.prefix)
    for position = 2, holds and #rule.prefix or 0 do
      holds = holds and rule.prefix[position] == certain[position]
    end
    best = holds and rule or best
  end
  return best
end

--- Which rule holds for a command.
-- @tparam table parsed of `moonsand.operator.words`
-- @treturn ?table `{ decision, mode?, line?, reason? }`, nil where none does
function Rules:match(parsed)
  local found, perhaps
  if self.strict_count > 0 then
    for _, list in ipairs(parsed.commands) do
      found, perhaps = strictest(self, list, found, perhaps)
    end
  end
  if found then
    -- A mode is given only to what is certainly this command and nothing besides.
    if found.mode and not parsed.certain then
      return { decision = found.decision, line = found.line, reason = found.reason }
    end
    return found
  elseif self.strict_count > 0 and not parsed.understood then
    return { decision = "ask", reason = ("the command cannot be read with certainty (%s)"):format(parsed.confused) }
  elseif perhaps then
    return { decision = "ask", reason = "what it runs is known only at run time, and may be under a rule" }
  end
  return parsed.certain and allowed(self, parsed.certain) or nil
end

return rules
