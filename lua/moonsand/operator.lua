--- An operator's policy script: what agents may do, as a Lua file that reads like a configuration file.
--
--     mode = "workspace-write"
--     rule { prefix = { "git", "push" }, decision = "ask" }
--     function resolve(request, policy) ... end
--     function approve(ask) ... end
--     markers.denied = function(facts) ... end
--
-- Section 9 of the design; docs/operators.md is the operator's own page. A script is read from where only its owner can
-- write (`operator.source`), runs in a scope of its own within bounds (`operator.scope`), and fails closed: where it
-- cannot be read, or an answer of it cannot be used, there is an error that names file and line, and nothing is run.
-- @module moonsand.operator

local errors = require "moonsand.errors"
local nearest = require "moonsand.nearest"
local policy_of = require "moonsand.policy"
local rules = require "moonsand.operator.rules"
local scope = require "moonsand.operator.scope"
local source = require "moonsand.operator.source"
local words = require "moonsand.operator.words"

local operator = {}

local Script = {}
Script.__index = Script
Script.__name = "moonsand.operator"

--- What `approve` may answer. `ask` passes the question on.
operator.outcomes = { "allowed-once", "rejected", "cancelled", "ask" }

-- What a script may state, and what it may use.
local statements = { "mode", "resolve", "approve", "audit", "markers", "denial_signatures", "env", "rule" }

local function member(value, list)
  for _, known in ipairs(list) do
    if known == value then
      return true
    end
  end
  return false
end

local function sorted_keys(set)
  local list = {}
  for key in pairs(set) do
    list[#list + 1] = tostring(key)
  end
  table.sort(list)
  return list
end

-- Raises at the line of the script that is running: the level above the function that the script called.
local function complain(...)
  error(string.format(...), 4)
end

local check = {}

function check.mode(value)
  if not member(value, policy_of.modes) then
    complain("unknown mode '%s'%s", tostring(value), nearest.hint(tostring(value), policy_of.modes))
  end
  return value
end

local function check_function(name)
  return function(value)
    if type(value) ~= "function" then
      complain("%s is a function, not a %s", name, type(value))
    end
    return value
  end
end
check.resolve, check.approve = check_function("resolve"), check_function("approve")

function check.audit(value)
  if type(value) ~= "string" or value:sub(1, 1) ~= "/" or value:find("%c") then
    complain("audit is the absolute path of a file")
  end
  return value
end

local function check_marker(name, value)
  local lines = require("moonsand.markers").lines
  if lines[name] == nil then
    complain("unknown marker '%s'%s", tostring(name), nearest.hint(tostring(name), sorted_keys(lines)))
  elseif type(value) ~= "function" and (type(value) ~= "string" or value == "" or value:find("[\r\n]")) then
    complain("markers.%s is one line of text, or a function that returns one", name)
  end
  return value
end

local function check_signatures(name, value)
  local _, err = require("moonsand.signatures").denials { [name] = value }
  if err then
    complain("%s", err.message)
  end
  return value
end

local env_fields = { "keep", "drop", "set" }

local function check_env(name, value)
  if not member(name, env_fields) then
    complain("unknown field env.%s%s", tostring(name), nearest.hint(tostring(name), env_fields))
  elseif type(value) ~= "table" then
    complain("env.%s is a table, not a %s", name, type(value))
  elseif name == "set" then
    local wrong = require("moonsand.environment").fault(value)
    if wrong then
      complain("env.set: %s", wrong)
    end
  else
    for _, glob in ipairs(value) do
      if type(glob) ~= "string" then
        complain("env.%s is a list of names, where * stands for anything", name)
      end
    end
  end
  return value
end

-- A table that looks at what is put into it, when it is put there.
local function checked_table(name, check_entry)
  local entries = {}
  return setmetatable({}, {
    __index = entries,
    __newindex = function(_, key, value)
      entries[key] = check_entry(key, value)
    end,
    __metatable = name,
  }), entries
end

-- The names a script sees. `stated` gets what it states.
local function environment_for(script, names)
  local stated = {}
  local tables = { markers = check_marker, denial_signatures = check_signatures, env = check_env }
  local entries = {}
  for name, check_entry in pairs(tables) do
    names[name], entries[name] = checked_table(name, check_entry)
  end
  names.rule = function(rule)
    if script.loaded then
      error("rules are stated while the script is loaded, not later", 2)
    end
    local wrong = rules.fault(rule, policy_of.modes)
    if wrong then
      error(wrong, 2)
    end
    script.rules:add(rule, debug.getinfo(2, "l").currentline)
  end
  local known = sorted_keys(names)
  for _, name in ipairs(statements) do
    known[#known + 1] = name
  end
  local environment = setmetatable({}, {
    __metatable = "policy",
    __index = function(_, name)
      local value = stated[name]
      if value == nil then
        value = names[name]
      end
      if value == nil and not check[name] then
        error(("unknown name '%s'%s"):format(tostring(name), nearest.hint(tostring(name), known)), 2)
      end
      return value
    end,
    __newindex = function(_, name, value)
      if script.loaded then
        error(("'%s' is stated while the script is loaded, not later"):format(tostring(name)), 2)
      elseif check[name] then
        stated[name] = check[name](value)
      elseif tables[name] then
        if type(value) ~= "table" then
          error(("%s is a table, not a %s"):format(name, type(value)), 2)
        end
        for key, entry in pairs(value) do
          entries[name][key] = tables[name](key, entry)
        end
      else
        local near = nearest.name(tostring(name), statements)
        error(("unknown name '%s'%s"):format(tostring(name), near and ("; did you mean '%s'?"):format(near)
          or "; what is your own is a local"), 2)
      end
    end,
  })
  script.stated, script.entries = stated, entries
  return environment
end

-- The error for what a script did, with the file's name in front of the line.
local function script_error(script, message)
  local shown = script.path:gsub("%c", "?")
  local line, rest = message:match("^policy:(%d+): (.*)$")
  local text = line and ("%s:%s: %s"):format(shown, line, rest) or ("%s: %s"):format(shown, message)
  return errors.new("POLICY_ERROR", require("moonsand.markers").repair_utf8(text))
end

local function deep_copy(value)
  if type(value) ~= "table" then
    return value
  end
  local fresh = {}
  for key, entry in pairs(value) do
    fresh[key] = deep_copy(entry)
  end
  return fresh
end

-- A line that the script makes of facts. One that cannot be used gives way to the line as it always is.
local function guarded_marker(script, name, make)
  return function(facts)
    local ok, line = script.scope:call(make, deep_copy(facts))
    if ok and type(line) == "string" and line ~= "" and not line:find("[\r\n]") then
      return line
    end
    script.marker_error = script_error(script, ok and ("markers.%s did not return one line"):format(name) or line)
    local own = require("moonsand.markers").lines[name]
    return type(own) == "function" and own(facts) or own
  end
end

local function compile(text, path)
  local script = setmetatable({ path = path, rules = rules.new(), scope = scope.new(), loaded = false }, Script)
  if text:byte(1) == 27 then
    return nil, script_error(script, "is compiled Lua; a policy is a text that its operator can read")
  end
  text = text:gsub("^#[^\n]*", "--")
  local chunk, wrong = load(text, "=policy", "t", environment_for(script, script.scope.names))
  if not chunk then
    return nil, script_error(script, wrong)
  end
  local ok, failure = script.scope:call(chunk)
  if not ok then
    return nil, script_error(script, failure)
  end
  script.loaded = true
  local stated, entries = script.stated, script.entries
  script.mode = stated.mode or policy_of.default_mode
  script.audit = stated.audit
  script.approves = stated.approve ~= nil
  script.denial_signatures = next(entries.denial_signatures) and deep_copy(entries.denial_signatures) or nil
  script.env = next(entries.env) and deep_copy(entries.env) or nil
  script.markers = {}
  for name, line in pairs(entries.markers) do
    script.markers[name] = type(line) == "function" and guarded_marker(script, name, line) or line
  end
  return script
end

--- Load a script.
-- @string path
-- @tparam[opt] table facts
-- @string[opt] facts.workspace_root where commands may write; a script below it is refused
-- @tparam[opt] {string,...} facts.writable other places where they may
-- @treturn[1] table the script: `path`, `mode`, `markers`, and where stated `denial_signatures`, `env`, `audit`,
--   `approves`
-- @treturn[2] nil
-- @treturn[2] table error `POLICY_ERROR`; its message begins with the file, and the line where there is one
-- @usage local script = assert(operator.load("/etc/moonsand/policy.lua", { workspace_root = root }))
function operator.load(path, facts)
  if type(path) ~= "string" then
    error(("bad argument #1 to 'load' (string expected, got %s)"):format(type(path)), 2)
  end
  local text, real = source.read(path, facts)
  if not text then
    return nil, real
  end
  local script, err = compile(text, path)
  if script then
    script.real_path, script.text = real, text
  end
  return script, err
end

-- Names in a command's own environment that decide which program a name is.
local function redirects(env)
  if not env then
    return false
  end
  local steering = require("moonsand.environment").steering
  for name in pairs(env) do
    local upper = tostring(name):upper()
    if upper == "PATH" or upper == "HOME" then
      return true
    end
    for _, glob in ipairs(steering) do
      if glob:sub(-1) == "*" and upper:sub(1, #glob - 1) == glob:sub(1, -2) or upper == glob then
        return true
      end
    end
  end
  return false
end

-- Whether a name finds a program that commands could have put there: `allow { mode = ... }` would run it unconfined.
local function planted(name, policy)
  local path = os.getenv("PATH") or ""
  for entry in (path .. ":"):gmatch("([^:]*):") do
    if entry:sub(1, 1) ~= "/" then
      return true
    end
    local file = entry .. "/" .. name
    if require("posix.unistd").access(file, "x") == 0 then
      local real = require("posix.stdlib").realpath(file)
      for _, place in ipairs { policy.workspace_root, "/tmp", "/private/tmp", "/dev/shm" } do
        if not real or policy_of.at_or_below(real, place) or policy_of.at_or_below(entry, place) then
          return true
        end
      end
      return false
    end
  end
  return false -- a builtin, or nothing at all
end

local strictness = { default = 0, allow = 1, ask = 2, forbid = 3 }

local resolve_fields = { "mode", "decision", "reason" }

-- What `resolve` answered, checked: a table, or nil and what is wrong.
local function read_answer(answer)
  if answer == nil then
    return {}
  elseif type(answer) == "string" then
    answer = strictness[answer] and { decision = answer } or { mode = answer }
  elseif type(answer) ~= "table" then
    return nil, ("resolve returned a %s; it returns a mode, a decision, a table of both, or nil"):format(type(answer))
  end
  for field in pairs(answer) do
    if not member(field, resolve_fields) then
      return nil, ("resolve returned an unknown field '%s'%s"):format(tostring(field),
        nearest.hint(tostring(field), resolve_fields))
    end
  end
  if answer.mode ~= nil and not member(answer.mode, policy_of.modes) then
    return nil, ("resolve returned the unknown mode '%s'%s"):format(tostring(answer.mode),
      nearest.hint(tostring(answer.mode), policy_of.modes))
  elseif answer.decision ~= nil and not strictness[answer.decision] then
    return nil, ("resolve returned the unknown decision '%s'%s"):format(tostring(answer.decision),
      nearest.hint(tostring(answer.decision), rules.decisions))
  elseif answer.reason ~= nil and type(answer.reason) ~= "string" then
    return nil, "resolve returned a reason that is not a text"
  end
  return { mode = answer.mode, decision = answer.decision, reason = answer.reason }
end

-- What the rules say, as a verdict.
local function by_rules(self, parsed, request, policy)
  local verdict = { decision = "default", mode = policy.mode, by = "default" }
  local rule = self.rules.count > 0 and self.rules:match(parsed)
  if not rule then
    return verdict
  end
  local widens = rule.mode and policy_of.wider(rule.mode, policy.mode)
  if widens and (redirects(request.env) or planted(parsed.certain[1], policy)) then
    if rule.decision == "allow" then
      verdict.reason = "an allow was left out: which program runs is not the operator's choice"
      return verdict
    end
    rule = { decision = rule.decision, line = rule.line, reason = rule.reason }
  end
  return {
    decision = rule.decision,
    mode = rule.mode or policy.mode,
    by = "rule",
    source = rule.line and ("%s:%d"):format(self.path, rule.line) or self.path,
    reason = rule.reason,
  }
end

--- Decide about one command.
-- @tparam table request `command` (a text for bash) or `argv`; and `workdir`, `session`, `env`, `description`
-- @tparam table policy `{ mode, workspace_root }` that holds without the script
-- @treturn[1] table `decision`: `default` or `allow` (run it), `ask` (run it once an approver said so), `forbid`;
--   `mode`; `by`: `default`, `rule` or `resolve`; `source`: file and line of the rule; `reason`
-- @treturn[2] nil
-- @treturn[2] table error `POLICY_ERROR`: run nothing
function Script:decide(request, policy)
  local fine, parsed = pcall(request.argv and words.argv or words.parse, request.argv or request.command)
  if not fine then
    return nil, errors.new("POLICY_ERROR", "the command cannot be read, so no rule can be applied to it")
  end
  local verdict = by_rules(self, parsed, request, policy)
  if not self.stated.resolve or verdict.decision == "forbid" then
    return verdict
  end
  local ok, answer = self.scope:call(self.stated.resolve, {
    command = request.command, argv = deep_copy(request.argv), words = deep_copy(parsed.certain),
    workdir = request.workdir, session = request.session and tostring(request.session) or nil,
    description = request.description, decision = verdict.decision,
  }, { mode = verdict.mode, workspace_root = policy.workspace_root })
  local wrong = not ok and answer
  if ok then
    answer, wrong = read_answer(answer)
  end
  if wrong then
    return nil, script_error(self, wrong)
  end
  if answer.mode or (answer.decision and strictness[answer.decision] > strictness[verdict.decision]) then
    verdict.by = "resolve"
    verdict.source = self.path
    verdict.reason = answer.reason or verdict.reason
    verdict.mode = answer.mode or verdict.mode
    if answer.decision and strictness[answer.decision] > strictness[verdict.decision] then
      verdict.decision = answer.decision
    end
  end
  return verdict
end

--- The error for a command that a verdict does not let run.
-- @tparam table verdict
-- @treturn ?table `POLICY_ERROR` for `forbid`, `ESCALATION_UNAVAILABLE` for `ask`; nil where it may run
function operator.refusal(verdict)
  local because = (verdict.reason and ": " .. verdict.reason or "")
    .. (verdict.source and (" (%s)"):format(verdict.source) or "")
  if verdict.decision == "forbid" then
    return errors.new("POLICY_ERROR", "the operator's policy forbids this command" .. because)
  elseif verdict.decision == "ask" then
    return errors.new("ESCALATION_UNAVAILABLE",
      "the operator's policy wants this command approved, and there is nobody to ask" .. because)
  end
  return nil
end

--- The policy under which a request runs, for an executor.
-- @tparam table asked the request; a `mode` in it was approved for this command, and answers an `ask`
-- @tparam table policy the resolved one, with the asked mode where there is one
-- @tparam string default the mode without it
-- @treturn[1] table the policy
-- @treturn[2] nil
-- @treturn[2] table error: nothing may run
-- @treturn[2] ?table the verdict, where there is one
function Script:policy_for(asked, policy, default)
  local base = { mode = default or policy.mode, workspace_root = policy.workspace_root }
  local verdict, err = self:decide(asked, base)
  if not verdict then
    return nil, err
  end
  err = operator.refusal(verdict)
  if err and not (asked.mode and verdict.decision == "ask") then
    return nil, err, verdict
  end
  local resolved = {}
  for name, value in pairs(policy) do
    resolved[name] = value
  end
  resolved.mode = asked.mode or verdict.mode
  return resolved, nil, verdict
end

local ask_fields = { "kind", "text", "command", "workdir", "mode", "current", "justification", "session", "description",
  "workspace_root" }

--- Ask the script whether a wider mode is granted.
-- @tparam table ask `command`, `workdir`, `mode` (asked for), `current`, `justification`, `session`
-- @treturn string `allowed-once`, `rejected`, `cancelled`, or `ask`: the script leaves it to the next approver
-- @treturn ?table error `POLICY_ERROR`, when it is rejected because the script failed
function Script:approve(ask)
  if not self.stated.approve then
    return "ask"
  end
  local copy = {}
  for _, field in ipairs(ask_fields) do
    copy[field] = ask[field] ~= nil and tostring(ask[field]) or nil
  end
  local parsed = copy.command and words.parse(copy.command)
  copy.words = parsed and deep_copy(parsed.certain) or nil
  local ok, answer = self.scope:call(self.stated.approve, copy)
  if not ok then
    return "rejected", script_error(self, answer)
  elseif answer == nil then
    return "ask"
  elseif not member(answer, operator.outcomes) then
    return "rejected", script_error(self, ("approve returned '%s'%s"):format(tostring(answer),
      nearest.hint(tostring(answer), operator.outcomes)))
  end
  return answer
end

--- A script as an approver in a chain.
-- @tparam table script
-- @treturn function
function operator.approver(script)
  return function(ask)
    return script:approve(ask)
  end
end

local Watched = {}
local watched_methods = {}

function Watched:__index(name)
  return watched_methods[name] or rawget(self, "current")[name]
end

-- The script that is good now answers.
for _, name in ipairs { "decide", "approve", "policy_for" } do
  watched_methods[name] = function(self, ...)
    local current = self.current
    return current[name](current, ...)
  end
end

--- Read the script again. What cannot be used changes nothing: the last good one stays, and `stale` is the error.
-- @treturn[1] boolean whether it changed
-- @treturn[2] nil
-- @treturn[2] table error `POLICY_ERROR`
function watched_methods:reload()
  local text, err = source.read(self.watched_path, self.facts)
  if text and text == self.current.text then
    self.stale = nil
    return false
  end
  local script
  if text then
    script, err = operator.load(self.watched_path, self.facts)
  end
  if not script then
    self.stale = errors.new("POLICY_ERROR", err.message .. "; the policy of before stays in force")
    return nil, self.stale
  end
  self.current, self.stale = script, nil
  return true
end

--- Load a script for a host that runs long, and reloads it when it likes.
-- @string path
-- @tparam[opt] table facts as of `load`
-- @treturn[1] table a script with `reload`
-- @treturn[2] nil
-- @treturn[2] table error `POLICY_ERROR`
function operator.watch(path, facts)
  local script, err = operator.load(path, facts)
  if not script then
    return nil, err
  end
  return setmetatable({ current = script, watched_path = path, facts = facts }, Watched)
end

return operator
