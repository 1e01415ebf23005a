--- The provider: which runner confines, and the argv that makes it do so.
--
-- What is known here is a mechanism and a verdict; the policy is each call's own. The platform names the candidates, in
-- order of preference. The first that the world confirms is the verdict, and stays it for the provider's lifetime: a
-- runner that stops working later is an error, never a reason to try a weaker one.
--
-- The world confirms in one of two ways. A caller that can start its command over, because nothing ran, takes the first
-- candidate's wrap as it is, and says `confirmed` or `refused`. A caller that cannot asks for a `verified` one; then a
-- harmless run is made first, with the very profile of the policy. Either way the launcher's report is what counts.
--
-- Relies on the runners for their command lines, on the core to start a probe. Promises that no wrap runs a command
-- unconfined: where there is no runner the answer is an error. See section 5 of the design.
-- @module moonsand.sandbox

local _, own_path = ... -- where require found this file

local stdlib = require "posix.stdlib"
local errors = require "moonsand.errors"
local signatures = require "moonsand.signatures"

local sandbox = {}

local Sandbox = {}
Sandbox.__index = Sandbox
Sandbox.__name = "moonsand.sandbox"

--- The runners there are, in order of preference on each platform.
sandbox.candidates = {
  linux = { "bwrap", "landlock" },
  darwin = { "seatbelt" },
}

--- What a caller may choose by name.
sandbox.runners = { "bwrap", "landlock", "seatbelt" }

--- Milliseconds that a runner has to establish its confinement.
sandbox.probe_timeout_ms = 5000

local PROBE_OUTPUT <const> = 4096 -- bytes; a runner that fails says so in a line

local function misuse(option, expected, value)
  error(("bad option '%s' (%s expected, got %s)"):format(option, expected, type(value)), 3)
end

local function invalid(message)
  return nil, errors.new("INVALID_REQUEST", message)
end

-- An operator's command as `program, arguments`, or what is wrong with it.
local function read_command(command)
  if type(command) == "string" then
    command = { command }
  end
  if #command == 0 then
    return nil, "runner_command is empty; name the program that confines, bwrap's options follow it"
  end
  for position, word in ipairs(command) do
    if type(word) ~= "string" or word:find("\0", 1, true) then
      return nil, ("runner_command: word %d is not a string that a command line can hold"):format(position)
    end
  end
  return { program = command[1], arguments = table.move(command, 2, #command, 1, {}) }
end

-- The runners to consider for these options, or an error.
local function choose_candidates(options, platform)
  local command, fatal = options.runner_command, options.runner_failure_signatures
  if command == nil then
    if fatal ~= nil then
      return invalid("runner_failure_signatures belong to a runner_command, and there is none")
    elseif options.runner == nil then
      return sandbox.candidates[platform] or {}
    end
    for _, name in ipairs(sandbox.runners) do
      if name == options.runner then
        return { name }
      end
    end
    local hint = require("moonsand.nearest").hint(options.runner, sandbox.runners)
    return invalid(("unknown runner '%s'%s"):format(options.runner, hint))
  elseif options.runner ~= nil then
    return invalid("runner and runner_command exclude each other; give one of them")
  elseif fatal == nil then
    return invalid("runner_command needs runner_failure_signatures: what it prints on stderr when it cannot confine")
  end
  return { "custom" }
end

--- Make a provider.
-- @tparam[opt] table options
-- @string[opt] options.runner one of `sandbox.runners`, and no other will be used
-- @tparam[opt] string|{string,...} options.runner_command an operator's own runner, called with bwrap's options
-- @tparam[opt] {string,...} options.runner_failure_signatures what that one prints when it cannot confine
-- @tparam[opt=5000] number options.probe_timeout_ms the bound for a runner to confine, in ms
-- @tparam[opt] {[string]={string,...}} options.denial_signatures a host's own, by runner
-- @tparam[opt] {string,...} options.own_files files besides moonsand's own that commands must not write
-- @string[opt] options.path where to look for runners after the system's directories, instead of PATH
-- @treturn[1] sandbox
-- @treturn[2] nil
-- @treturn[2] table error `INVALID_REQUEST`
-- @usage local sandbox = require "moonsand.sandbox".new { runner = "landlock" }
function sandbox.new(options)
  options = options or {}
  if options.runner ~= nil and type(options.runner) ~= "string" then
    misuse("runner", "string", options.runner)
  end
  local command_type = type(options.runner_command)
  if command_type ~= "nil" and command_type ~= "string" and command_type ~= "table" then
    misuse("runner_command", "string or list of strings", options.runner_command)
  end
  local bound = options.probe_timeout_ms
  if bound == nil then
    bound = sandbox.probe_timeout_ms
  elseif type(bound) ~= "number" then
    misuse("probe_timeout_ms", "number", bound)
  elseif not (bound >= 1 and bound < 2 ^ 31) then
    return invalid(("probe_timeout_ms is %s; a positive, finite number of milliseconds is needed"):format(bound))
  end

  local core = require "moonsand.core"
  local candidates, err = choose_candidates(options, core.platform)
  if not candidates then
    return nil, err
  end
  local denials
  denials, err = signatures.denials(options.denial_signatures)
  if not denials then
    return nil, err
  end
  local self = setmetatable({
    candidates = candidates,
    denials = denials,
    rules = signatures.runner_failure,
    probe_timeout_ms = bound // 1 | 0,
    own_files = options.own_files or {},
    path = options.path or os.getenv("PATH"),
    core = core,
    facts = { launcher = core.launcher_path(), root_user = core.geteuid() == 0, tmp = stdlib.realpath("/tmp") },
    programs = {}, -- by runner, then by root: where programs may be taken from depends on it
    refusals = {}, -- by runner: why it was given up
    exposed = {}, -- by root: the gaps that moonsand's own files make there
    enforcement = {}, -- by runner, then by mode: as the last run's report said
    verdict = nil, -- the runner that confined something
  }, Sandbox)
  if options.runner_command ~= nil then
    local command, what = read_command(options.runner_command)
    if not command then
      return invalid(what)
    end
    local rules
    rules, err = signatures.custom_rules(options.runner_failure_signatures)
    if not rules then
      return nil, err
    end
    self.command = command
    self.rules = { custom = rules }
    self.facts.arguments = command.arguments
  end
  return self
end

--- Whether a runner exists for this platform at all, and if not why.
-- @string name
-- @string platform
-- @treturn ?string nil when it does
function sandbox.foreign(name, platform)
  if name == "custom" then
    return nil
  end
  for _, each in ipairs(sandbox.candidates[platform] or {}) do
    if each == name then
      return nil
    end
  end
  return ("it does not exist on this platform (%s)"):format(platform)
end

-- The canonical directories and files that make up moonsand itself, as far as a command could write them.
local function own_files(self)
  if not self.facts.own_files then
    local list, seen = {}, {}
    local function keep(path)
      local canonical = path and stdlib.realpath(path)
      if canonical and not seen[canonical] then
        seen[canonical] = true
        list[#list + 1] = canonical
      end
    end
    keep(self.facts.launcher:match("^(.*)/"))
    keep(own_path and (own_path:match("^(.*)/") or "."))
    for _, path in ipairs(self.own_files) do
      keep(path)
    end
    self.facts.own_files = list
  end
  return self.facts.own_files
end

--- The place in which a command could replace a file of moonsand's: by writing it, or by moving away any directory on
-- the way to it.
-- @string path of the file, canonical
-- @tparam {string,...} places that commands may write, canonical
-- @treturn ?string the place, or nil: it is out of their reach
function sandbox.replaceable_in(path, places)
  local access, at_or_below = require("posix.unistd").access, require("moonsand.policy").at_or_below
  for _, place in ipairs(places) do
    local at = at_or_below(path, place) and path or nil
    while at do
      if access(at, "w") == 0 then
        return place
      end
      at = at ~= place and (at:match("^(.+)/[^/]*$") or "/") or nil
    end
  end
  return nil
end

-- What this host knows to be open under a runner, whatever the launcher reports: Landlock's grants have no exceptions,
-- so that moonsand's own files in a writable place are the command's to change, and run unconfined the next time.
local function known_gaps(self, name, policy)
  if name ~= "landlock" or policy.mode ~= "workspace-write" then
    return nil
  end
  local known = self.exposed[policy.workspace_root]
  if known == nil then
    known = false
    for _, path in ipairs(own_files(self)) do
      known = known or (sandbox.replaceable_in(path, { policy.workspace_root, self.facts.tmp }) and { "own-files" })
    end
    self.exposed[policy.workspace_root] = known
  end
  return known or nil
end

-- The temporary directory that macOS gives each user.
local function user_temporary_directory()
  local path = os.getenv("TMPDIR")
  path = path and stdlib.realpath(path)
  return path and path:find("^/private/var/folders/") and path or nil
end

-- The path of the program a runner needs, or nil and why there is none.
local function locate(self, name, runner, root)
  local wanted = name == "custom" and self.command.program or runner.program
  if not wanted then
    return self.facts.launcher -- the launcher is the runner
  end
  local by_root = self.programs[name] or {}
  self.programs[name] = by_root
  local known = by_root[root]
  if not known then
    local places = { root, self.facts.tmp }
    local path, why = require("moonsand.program").find(wanted, places, self.path)
    known = { path = path, why = why }
    if path then
      by_root[root] = known -- what is missing may be installed meanwhile
    end
  end
  return known.path, known.why
end

-- One runner's wrap for a command, or nil and why there is none.
local function wrap_with(self, name, argv, policy, launch)
  local foreign = sandbox.foreign(name, self.core.platform)
  if foreign then
    return nil, foreign
  end
  local runner = require("moonsand.runners." .. name)
  local program, why = locate(self, name, runner, policy.workspace_root)
  if not program then
    return nil, why
  end
  local facts = setmetatable({ program = program, launch = launch }, { __index = self.facts })
  if policy.mode == "workspace-write" then
    facts.own_files = own_files(self)
    facts.user_tmp = self.core.platform == "darwin" and user_temporary_directory() or nil
  end
  local custom = name == "custom"
  return {
    argv = runner.wrap(argv, policy, facts),
    runner = name,
    mode = policy.mode,
    enforcement = custom and "full" or (self.enforcement[name] or {})[policy.mode],
    gaps = known_gaps(self, name, policy),
    denial_signatures = self.denials[name],
    runner_failure_rules = self.rules[name],
    asserted = custom or nil,
    report_optional = custom or nil,
    -- The operator's word replaces the probe, and where the report is optional its absence means nothing.
    confine_timeout_ms = not custom and self.verdict ~= name and self.probe_timeout_ms or nil,
  }
end

-- "bwrap: setting up uid map: Permission denied", with the runner's name in front once, whoever wrote it.
local function named(runner, detail)
  if detail:sub(1, #runner + 1) == runner .. ":" then
    return detail
  end
  return runner .. ": " .. detail
end

--- The error for a command that no runner could confine. Pure.
-- @string mode
-- @tparam {table,...} refusals `{ runner, detail, advice? }` each: which, why, and what could be done
-- @tparam[opt] table cause the core's structured failure
-- @treturn table error `SANDBOX_UNAVAILABLE`
function sandbox.unavailable(mode, refusals, cause)
  local details, sentences = {}, {
    ("no sandbox runner could confine the command under %s mode, so it was not run."):format(mode),
  }
  for position, refusal in ipairs(refusals) do
    details[position] = named(refusal.runner, refusal.detail)
    if refusal.advice then
      sentences[#sentences + 1] = ("To use %s, %s."):format(refusal.runner, refusal.advice)
    end
  end
  sentences[#sentences + 1] = "`moonsand doctor` tries every runner and says what each needs."
  local detail = details[1] and table.concat(details, "; ") or "there is no runner for this platform"
  sentences[#sentences + 1] = "Runner failure: " .. detail
  return errors.new("SANDBOX_UNAVAILABLE", table.concat(sentences, " "), detail, cause)
end

-- The same, with what is known of each candidate and of the machine.
local function all_refused(self, policy_mode, reasons, cause)
  local list, here = {}, require("moonsand.machine").look()
  for _, name in ipairs(self.candidates) do
    local detail = reasons[name]
    if detail then
      local _, known = next(self.programs[name] or {})
      list[#list + 1] = {
        runner = name,
        detail = detail,
        advice = require("moonsand.advice").unusable(name, detail, known or {}, here),
      }
    end
  end
  return nil, sandbox.unavailable(policy_mode, list, cause)
end

-- Candidates still in the running, in order. Once there is a verdict, that is the only one.
local function remaining(self)
  if self.verdict then
    return { self.verdict }
  end
  local list = {}
  for _, name in ipairs(self.candidates) do
    if not self.refusals[name] then
      list[#list + 1] = name
    end
  end
  return list
end

--- Confine a command.
--
-- The wrap of a runner that was not confirmed yet carries `confine_timeout_ms`: what does not confine within it does
-- not work, and nothing was run. Say `confirmed` or `refused` about every wrap that was used.
-- @tparam {string,...} argv the command, exact; its first word is a path
-- @tparam table policy a resolved one (`moonsand.policy`) that confines
-- @tparam[opt] table launch what the launcher is told besides: `chdir`, a directory; `stdin_null`, empty stdin;
--   `terminal`, job control for the terminal among stdio, and `background`, begun in its background; `env`, a list of
--   `NAME=VALUE` for the command alone; `unset`, a list of names; `verified`: the caller cannot start over, so an
--   unconfirmed runner of several is probed; `quiet`: what a failing runner prints would be seen, so any unconfirmed
--   one is probed
-- @treturn[1] table wrap: `argv`, `runner`, `mode`, `enforcement` (`full` or `partial` as far as it is known before
--   the run), `gaps?` (known of before the run), `denial_signatures`,
--   `runner_failure_rules`, `confine_timeout_ms?`, `asserted?` (enforcement is
--   the operator's word), `report_optional?`
-- @treturn[2] nil
-- @treturn[2] table error `SANDBOX_UNAVAILABLE`; `START_FAILED`, where the machine had no room for a probe
function Sandbox:confine(argv, policy, launch)
  if policy.mode == "danger-full-access" then
    error("bad argument #2 to 'confine' (danger-full-access is not confined; nothing is to be asked here)", 2)
  end
  launch = launch or {}
  -- What keeps a runner from being wrapped may be about this policy only, and is not held against it later.
  local reasons = setmetatable({}, { __index = self.refusals })
  for _, name in ipairs(remaining(self)) do
    local wrap, why = wrap_with(self, name, argv, policy, launch)
    local to_probe = launch.quiet or (launch.verified and #self.candidates > 1)
    if wrap and to_probe and not self.verdict and not wrap.asserted then
      local outcome = self:probe(name, policy)
      if outcome.start_failure then
        local failure = outcome.start_failure
        return nil, errors.new("START_FAILED", "the command could not be started: " .. failure.message, failure.message,
          failure)
      elseif outcome.confined then
        self:confirmed(wrap, outcome)
        wrap.confine_timeout_ms = nil
      else
        self.refusals[name] = outcome.detail
        wrap = nil
      end
    end
    if wrap then
      return wrap
    end
    reasons[name] = why
  end
  return all_refused(self, policy.mode, reasons)
end

--- Say that a wrap's confinement was established: the report said so.
-- @tparam table wrap from `confine`
-- @tparam[opt] table status the process's, for the `gaps` in it
function Sandbox:confirmed(wrap, status)
  self.verdict = self.verdict or wrap.runner
  if status and status.gaps and not wrap.asserted then
    local by_mode = self.enforcement[wrap.runner] or {}
    self.enforcement[wrap.runner] = by_mode
    by_mode[wrap.mode] = #status.gaps == 0 and not wrap.gaps and "full" or "partial"
  end
end

--- Say that a wrap's runner failed before it had confined anything: nothing was run.
-- @tparam table wrap from `confine`
-- @string detail what the runner said, or what is known instead
-- @tparam[opt] table cause the core's structured failure
-- @treturn[1] boolean true: another candidate is left, `confine` the command again
-- @treturn[2] nil
-- @treturn[2] table error `SANDBOX_UNAVAILABLE`, its message ends with the detail
function Sandbox:refused(wrap, detail, cause)
  local name = wrap.runner
  if self.verdict == name then
    return all_refused(self, wrap.mode, { [name] = detail }, cause)
  end
  self.refusals[name] = detail
  if #remaining(self) > 0 then
    return true
  end
  return all_refused(self, wrap.mode, self.refusals, cause)
end

-- A runner that printed something said it better than the stage where it ended.
local function describe(status, stderr)
  local failure = status.runner_failure
  local said = require("moonsand.classify").last_line(stderr)
  if failure and failure.code == "ETIMEDOUT" then
    return "it did not confine within the time allowed" .. (said and "; it said: " .. said or "")
  elseif said then
    return said
  elseif failure and failure.stage ~= "none" then
    return failure.message
  end
  local signal, code = status.runner_signal or status.signal, status.runner_exit_code or status.exit_code
  return "it ended without confining: " .. (signal and "killed by " .. signal or "exit code " .. tostring(code))
end

--- The program of a runner, where it would be taken from.
-- @string name a runner
-- @string root canonical; nothing in it is taken
-- @treturn[1] string path
-- @treturn[2] nil
-- @treturn[2] string why there is none
function Sandbox:program(name, root)
  return locate(self, name, require("moonsand.runners." .. name), root)
end

--- The files and directories that are moonsand itself.
-- @treturn {string,...} canonical paths
function Sandbox:files()
  return own_files(self)
end

--- The effects that a run did not cover: the report's, and those that the host knows of.
-- @tparam table status of a process
-- @tparam table wrap
-- @treturn {string,...} names, for `advice.gaps`
function sandbox.all_gaps(status, wrap)
  local all = status.gaps or {}
  return wrap.gaps and table.move(wrap.gaps, 1, #wrap.gaps, #all + 1, table.move(all, 1, #all, 1, {})) or all
end

--- Run something harmless under one runner, with the profile of a policy, and say what came of it.
--
-- That it was *confined* is the answer; how the command ended is not.
-- @string name a runner
-- @tparam table policy a resolved one that confines
-- @tparam[opt] {string,...} argv what to run, instead of the launcher's own `--probe`
-- @treturn table `{ confined, gaps, landlock_abi?, detail?, start_failure?, argv?, status?, stdout? }`; `detail`: why
--   it was not confined; `start_failure`: the core's, where the machine and not the runner is to blame
function Sandbox:probe(name, policy, argv)
  local wrap, why = wrap_with(self, name, argv or { self.facts.launcher, "--probe" }, policy, { stdin_null = true })
  if not wrap then
    return { confined = false, detail = why, gaps = {} }
  end
  local process, failure = self.core.spawn {
    argv = wrap.argv,
    env = { "PATH=/usr/bin:/bin", "LC_ALL=C" },
    report = true,
    report_optional = wrap.report_optional,
    max_output_bytes = PROBE_OUTPUT,
    timeout_ms = self.probe_timeout_ms,
    confine_timeout_ms = not wrap.report_optional and self.probe_timeout_ms or nil,
    grace_ms = 0,
  }
  if not process then
    local blame = require("moonsand.classify").start_failure(failure, wrap.argv[1], true)
    return {
      confined = false,
      detail = failure.message,
      start_failure = blame ~= "runner" and failure or nil,
      argv = wrap.argv,
      gaps = {},
    }
  end
  repeat
    local waited = process:wait() -- interrupted by a signal, it lets Lua's own hook have its turn
  until waited ~= "interrupted"
  local status = process:status()
  local confined = status.confined
  if wrap.report_optional and not confined then
    confined = status.exit_code == 0
  end
  return {
    confined = confined,
    gaps = sandbox.all_gaps(status, wrap),
    landlock_abi = status.landlock_abi,
    detail = not confined and describe(status, (process:read("stderr", 0))) or nil,
    argv = wrap.argv,
    status = status,
    stdout = process:read("stdout", 0),
  }
end

return sandbox
