--- Asking for a wider mode for one call: the ladder, the rules for the arguments, and the sequence that decides.
--
-- The sequence is that of section 8 of the design, and fails closed at every step before anything runs: the arguments
-- make sense together; the mode asked for is strictly wider than this call's; somebody can be asked; the question; the
-- answer. Only the one answer `allowed-once` grants, and the grant is a return value: nothing keeps it, so no other
-- call can have it.
--
-- A host overrides the ladder, the texts and the question with `escalation.new`, which checks them.
-- Relies on the core's clock. Starts nothing.
-- @module moonsand.escalation

local errors = require "moonsand.errors"
local policy_of = require "moonsand.policy"

local escalation = {}

local Escalation = {}
Escalation.__index = Escalation
Escalation.__name = "moonsand.escalation"

--- The modes that can be asked for, from the narrowest.
escalation.ladder = { "workspace-write", "danger-full-access" }

--- What an approver answers.
escalation.outcomes = { ["allowed-once"] = true, rejected = true, cancelled = true, unavailable = true }

--- How long an approver may take where nothing else is said, in milliseconds.
escalation.timeout_ms = 600000

--- The text of each refusal, by its code's end: a line, or a function of `{ mode, current, justification, detail }`.
escalation.texts = {
  unsupported = "sandbox_permissions and justification are not available here: commands are not confined",
  justification_missing = "sandbox_permissions requires justification: one sentence that says why this command needs "
    .. "the wider mode",
  permissions_missing = "justification requires sandbox_permissions: name the mode that is asked for",
  justification_empty = "justification must be a sentence that is not empty",
  unknown_mode = function(facts)
    return ("sandbox_permissions must be one of %s"):format(facts.detail)
  end,
  not_wider = function(facts)
    return ("sandbox_permissions '%s' is not wider than the current mode '%s'; run the command without it"):format(
      facts.mode, facts.current)
  end,
  no_approver = function(facts)
    return ("escalation to %s is not possible: nobody is there to approve it; the command was not run"):format(
      facts.mode)
  end,
  unavailable = function(facts)
    return ("escalation to %s could not be approved: nobody could be reached; the command was not run"):format(
      facts.mode)
  end,
  rejected = function(facts)
    return ("escalation to %s was rejected by the user; the command was not run"):format(facts.mode)
  end,
  cancelled = function(facts)
    return ("the request to escalate to %s was cancelled; the command was not run"):format(facts.mode)
  end,
  failed = function(facts)
    return ("escalation to %s failed: %s; the command was not run"):format(facts.mode, facts.detail)
  end,
  timed_out = function(facts)
    return ("escalation to %s was not answered in time (%s); the command was not run"):format(facts.mode, facts.detail)
  end,
  question = function(facts)
    return ("escalate sandbox to %s: %s"):format(facts.mode, facts.justification)
  end,
}

-- The texts as they are here, for where a host's own function fails.
local defaults = {}
for name, text in pairs(escalation.texts) do
  defaults[name] = text
end

-- The code of each refusal.
local codes = {
  unsupported = "ESCALATION_INVALID",
  justification_missing = "ESCALATION_INVALID",
  permissions_missing = "ESCALATION_INVALID",
  justification_empty = "ESCALATION_INVALID",
  unknown_mode = "ESCALATION_INVALID",
  not_wider = "ESCALATION_NOT_WIDER",
  no_approver = "ESCALATION_NO_APPROVER",
  unavailable = "ESCALATION_UNAVAILABLE",
  rejected = "ESCALATION_REJECTED",
  cancelled = "ESCALATION_CANCELLED",
  failed = "ESCALATION_FAILED",
  timed_out = "ESCALATION_TIMED_OUT",
}

local function line_fault(value)
  if type(value) == "function" then
    return nil
  elseif type(value) ~= "string" then
    return ("a string or a function is expected, not a %s"):format(type(value))
  elseif not value:find("%S") then
    return "must not be empty"
  elseif value:find("[\r\n]") then
    return "must be a single line"
  end
  return nil
end

local function ladder_fault(ladder)
  if type(ladder) ~= "table" or #ladder == 0 then
    return "a list of modes that is not empty is expected"
  end
  local known = {}
  for position, mode in ipairs(policy_of.modes) do
    known[mode] = position
  end
  local last = 1 -- the narrowest mode is no escalation
  for position, mode in ipairs(ladder) do
    if not known[mode] or known[mode] <= last then
      return ("entry %d (%s) is not a mode that is wider than the one before it"):format(position, tostring(mode))
    end
    last = known[mode]
  end
  return nil
end

--- Make an escalation of a host's own.
-- @tparam[opt] table options
-- @tparam[opt] {string,...} options.ladder modes that can be asked for, from the narrowest
-- @tparam[opt] table options.texts in place of those of the same name in `escalation.texts`
-- @tparam[opt=600000] number options.timeout_ms how long an approver may take
-- @treturn escalation raises for what is not valid, naming it
-- @usage moonsand.escalation.new { ladder = { "workspace-write" } } -- full access cannot even be asked for
function escalation.new(options)
  options = options or {}
  for name in pairs(options) do
    if name ~= "ladder" and name ~= "texts" and name ~= "timeout_ms" then
      error(("bad option '%s' (unknown)"):format(tostring(name)), 2)
    end
  end
  local ladder = options.ladder or escalation.ladder
  local fault = ladder_fault(ladder)
  if fault then
    error("bad option 'ladder' (" .. fault .. ")", 2)
  end
  local timeout_ms = options.timeout_ms or escalation.timeout_ms
  if type(timeout_ms) ~= "number" or not (timeout_ms > 0 and timeout_ms < math.huge) then
    error("bad option 'timeout_ms' (a positive, finite number expected)", 2)
  end
  local texts = setmetatable({}, { __index = escalation.texts })
  for name, text in pairs(options.texts or {}) do
    fault = escalation.texts[name] == nil and "unknown name" or line_fault(text)
    if fault then
      error(("bad option 'texts.%s' (%s)"):format(tostring(name), fault), 2)
    end
    texts[name] = text
  end
  return setmetatable({ ladder = table.move(ladder, 1, #ladder, 1, {}), texts = texts, timeout_ms = timeout_ms },
    Escalation)
end

-- A text, from the host's own where that works.
local function say(self, name, facts)
  local text = self.texts[name]
  if type(text) == "function" then
    local worked, made = pcall(text, facts)
    text = worked and line_fault(made) == nil and type(made) == "string" and made or nil
    if not text then
      text = defaults[name]
      text = type(text) == "function" and text(facts) or text
    end
  end
  return text
end

local function refuse(self, name, facts)
  return nil, errors.new(codes[name], say(self, name, facts or {}), facts and facts.detail)
end

--- The first step: whether the arguments make sense, whatever the mode.
-- @param permissions the argument `sandbox_permissions`, as it came
-- @param justification the argument `justification`
-- @tparam boolean supported whether commands are confined here
-- @treturn[1] ?string the mode that is asked for; false when none is
-- @treturn[2] nil
-- @treturn[2] table error `ESCALATION_INVALID`
function Escalation:check(permissions, justification, supported)
  if permissions == nil and justification == nil then
    return false
  elseif not supported then
    return refuse(self, "unsupported")
  elseif permissions == nil then
    return refuse(self, "permissions_missing")
  elseif justification == nil then
    return refuse(self, "justification_missing")
  elseif type(justification) ~= "string" or not justification:find("%S") then
    return refuse(self, "justification_empty")
  end
  for _, mode in ipairs(self.ladder) do
    if mode == permissions then
      return mode
    end
  end
  return refuse(self, "unknown_mode", { detail = table.concat(self.ladder, ", ") })
end

--- Whether there is a mode to ask for that is wider than this one.
-- @string current
-- @treturn boolean
function Escalation:possible(current)
  return policy_of.wider(self.ladder[#self.ladder], current)
end

local TIMED_OUT <const> = {} -- raised into an approver that takes too long

local CHECK_EVERY <const> = 10000 -- instructions

-- Calls an approver, for at most so long. One that runs Lua is stopped by a hook; one that yields is resumed by whoever
-- resumes us, and is not waited for where nobody does. What blocks in C is not Lua's to stop: the terminal's approver
-- has a bound of its own.
local function call_bounded(approve, ask, timeout_ms)
  local core = require "moonsand.core"
  local deadline = core.monotonic_ms() + timeout_ms
  local thread = coroutine.create(approve)
  debug.sethook(thread, function()
    if core.monotonic_ms() > deadline then
      error(TIMED_OUT, 0)
    end
  end, "", CHECK_EVERY)
  local returned = table.pack(coroutine.resume(thread, ask))
  while returned[1] and coroutine.status(thread) == "suspended" do
    if not coroutine.isyieldable() then
      coroutine.close(thread)
      return false, "the approver yielded where nobody can resume it"
    end
    local resumed = table.pack(coroutine.yield(table.unpack(returned, 2, returned.n)))
    if core.monotonic_ms() > deadline then
      coroutine.close(thread)
      return false, TIMED_OUT
    end
    returned = table.pack(coroutine.resume(thread, table.unpack(resumed, 1, resumed.n)))
  end
  if returned[1] and core.monotonic_ms() > deadline then
    return false, TIMED_OUT -- an answer that comes too late is none
  elseif not returned[1] then
    coroutine.close(thread)
    local raised = returned[2]
    return false, raised == TIMED_OUT and raised
      or "the approver raised an error: " .. require("moonsand.visible").line(tostring(raised))
  end
  return table.unpack(returned, 1, returned.n)
end

--- The last two steps: the question and what its answer means.
-- @tparam ?function approve `approve(ask)` returns an outcome, and who it is from
-- @tparam table ask what the approver is told; its `text` is made here
-- @treturn[1] boolean true: allowed, once
-- @treturn[1] string who said so
-- @treturn[2] nil
-- @treturn[2] table error `ESCALATION_NO_APPROVER`, `_UNAVAILABLE`, `_REJECTED`, `_CANCELLED`, `_FAILED`, `_TIMED_OUT`
-- @treturn[2] string who said so
function Escalation:ask(approve, ask)
  local facts = { mode = ask.mode, current = ask.current, justification = ask.justification }
  if not approve then
    local nothing, err = refuse(self, "no_approver", facts)
    return nothing, err, "nobody"
  end
  ask.text = say(self, "question", facts)
  local worked, outcome, by = call_bounded(approve, ask, self.timeout_ms)
  by = type(by) == "string" and by or "approver"
  local name = outcome
  if not worked and outcome == TIMED_OUT then
    name, facts.detail = "timed_out", ("%d ms"):format(self.timeout_ms)
  elseif not worked then
    name, facts.detail = "failed", outcome
  elseif outcome == "allowed-once" then
    return true, by
  elseif type(outcome) ~= "string" or not escalation.outcomes[outcome] then
    name, facts.detail = "failed", "the approver gave no valid answer"
  end
  local nothing, err = refuse(self, name, facts)
  return nothing, err, by
end

--- The whole sequence after `check`, for a mode that is asked for.
-- @string mode from `check`
-- @string current this call's effective mode
-- @tparam ?function approve
-- @tparam table ask without `mode` and `current`
-- @treturn[1] string the mode that was granted, for this call
-- @treturn[1] string who granted it
-- @treturn[2] nil
-- @treturn[2] table error
-- @treturn[2] string who decided
function Escalation:decide(mode, current, approve, ask)
  if not policy_of.wider(mode, current) then
    local nothing, err = refuse(self, "not_wider", { mode = mode, current = current })
    return nothing, err, "rules"
  end
  ask.mode, ask.current = mode, current
  local granted, err, by = self:ask(approve, ask)
  if not granted then
    return nil, err, by
  end
  return mode, err
end

escalation.texts = require("moonsand.overridable")("escalation.texts", escalation.texts, function(_, value)
  return line_fault(value)
end)

return escalation
