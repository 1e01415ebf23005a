--- How each runner words a denial, and how it words its own failure: data, and the checks for what replaces it.
--
-- Denial signatures are substrings of stderr, compared without regard to case, in the C library's English: the error
-- that the runner's mechanism gives a command (EROFS from a read-only mount, EACCES from Landlock, EPERM from
-- Seatbelt).
--
-- A runner-failure rule says what a runner that did not work leaves behind: `{ exit_codes?, informational?, fatal }`.
-- The launcher's report outranks every rule; they decide only where a custom runner lets no report through. What the
-- rules mean is in `moonsand.classify`. See section 5 of the design.
-- @module moonsand.signatures

local errors = require "moonsand.errors"

local signatures = {}

local READ_ONLY <const> = "read-only file system"
local ACCESS <const> = "permission denied"
local PERMITTED <const> = "operation not permitted"

--- Denial signatures by runner. A custom runner's mechanism is not known: it may speak either way.
signatures.denial = {
  bwrap = { READ_ONLY },
  landlock = { ACCESS },
  seatbelt = { PERMITTED },
  custom = { READ_ONLY, ACCESS },
}

--- Runner-failure rules by runner. A custom runner's come from its operator.
signatures.runner_failure = {
  bwrap = { { fatal = { "bwrap: " } } },
  -- The launcher says nothing that is not fatal, so that there is no line to leave out.
  landlock = { { exit_codes = { 125 }, informational = {}, fatal = { "moonsand-launch: " } } },
  seatbelt = { { fatal = { "sandbox-exec: " } } },
}

-- What is wrong with a list of signatures, or nil. A blank one would be found in every text, and one of several lines
-- in none, as lines are compared.
local function fault(list)
  if type(list) ~= "table" then
    return ("a list of strings is expected, not a %s"):format(type(list))
  elseif #list == 0 then
    return "the list is empty"
  end
  for position, signature in ipairs(list) do
    if type(signature) ~= "string" then
      return ("entry %d is a %s, not a string"):format(position, type(signature))
    elseif not signature:find("%S") then
      return ("entry %d is blank"):format(position)
    elseif signature:find("[\r\n]") then
      return ("entry %d has more than one line"):format(position)
    end
  end
  return nil
end

local function rules_fault(rules)
  if type(rules) ~= "table" or #rules == 0 then
    return "a list of rules that is not empty is expected"
  end
  for position, rule in ipairs(rules) do
    local what = type(rule) ~= "table" and "is no table"
    what = what or fault(rule.fatal) and "fatal: " .. fault(rule.fatal)
    if not what and rule.informational ~= nil and rule.informational[1] ~= nil then
      what = fault(rule.informational) and "informational: " .. fault(rule.informational)
    end
    for _, code in ipairs(not what and rule.exit_codes or {}) do
      what = math.type(code) ~= "integer" and "exit_codes: an integer is expected" or what
    end
    if what then
      return ("rule %d: %s"):format(position, what)
    end
  end
  return nil
end

-- Assigning to an entry replaces it for every sandbox made afterwards, and is checked then and there.
local overridable = require "moonsand.overridable"
signatures.denial = overridable("signatures.denial", signatures.denial, function(_, list)
  return fault(list)
end)
signatures.runner_failure = overridable("signatures.runner_failure", signatures.runner_failure, function(_, rules)
  return rules_fault(rules)
end)

local function invalid(option, what)
  return nil, errors.new("INVALID_REQUEST", ("%s: %s"):format(option, what))
end

--- The denial signatures of every runner, with a host's own in place of some.
-- @tparam[opt] {[string]={string,...}} overrides by runner
-- @treturn[1] {[string]={string,...}}
-- @treturn[2] nil
-- @treturn[2] table error `INVALID_REQUEST`, naming the entry
function signatures.denials(overrides)
  if overrides == nil then
    return signatures.denial
  elseif type(overrides) ~= "table" then
    return invalid("denial_signatures", ("a table by runner is expected, not a %s"):format(type(overrides)))
  end
  local merged = {}
  for runner, list in pairs(signatures.denial) do
    merged[runner] = list
  end
  for runner, list in pairs(overrides) do
    if not signatures.denial[runner] then
      local hint = require("moonsand.nearest").hint(tostring(runner), { "bwrap", "landlock", "seatbelt", "custom" })
      return invalid("denial_signatures", ("unknown runner '%s'%s"):format(tostring(runner), hint))
    end
    local what = fault(list)
    if what then
      return invalid("denial_signatures." .. runner, what)
    end
    merged[runner] = list
  end
  return merged
end

--- The rules of a custom runner, from its operator's signatures: each is a fatal line, with whatever exit status.
-- @tparam {string,...} list `runner_failure_signatures`
-- @treturn[1] table rules
-- @treturn[2] nil
-- @treturn[2] table error `INVALID_REQUEST`
function signatures.custom_rules(list)
  local what = fault(list)
  if what then
    return invalid("runner_failure_signatures", what)
  end
  return { { fatal = list } }
end

return signatures
