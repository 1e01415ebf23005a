--- Which runners work here, how completely, and what to do about the rest.
--
-- Every runner is tried under every mode (`moonsand.trial`), and `enforcement` is what the launcher reported of that
-- run. Nothing is concluded from version numbers; what the machine says about itself (`moonsand.machine`) only serves
-- to find what can be done (`moonsand.advice`). See section 10 of the design.
-- @module moonsand.doctor

local stat = require "posix.sys.stat"
local advice = require "moonsand.advice"
local machine = require "moonsand.machine"
local sandbox_of = require "moonsand.sandbox"

local NOEXEC <const> = 8 -- ST_NOEXEC of statvfs(3) on Linux; macOS does not say it there

local doctor = {}

--- The modes that confine.
doctor.modes = { "read-only", "workspace-write" }

local function version(core, path)
  local outcome = core.probe({ path, "--version" }, sandbox_of.probe_timeout_ms)
  return outcome.ok and outcome.stdout:match("[^\n]+") or nil
end

-- A runner, under every mode.
local function examine_runner(name, here, root, ground, bash)
  local core = require "moonsand.core"
  local provider = assert(sandbox_of.new { runner = name })
  local found = { name = name, modes = {} }
  local foreign = sandbox_of.foreign(name, here.platform)
  if foreign then
    found.why = foreign
    return found
  end
  local why
  found.path, why = provider:program(name, root)
  if not found.path then
    found.why, found.advice = why, advice.unusable(name, why, found, here)
    return found
  end
  if name == "bwrap" then
    found.version = version(core, found.path)
  elseif name == "landlock" then
    local outcome = core.probe({ found.path, "--probe" }, sandbox_of.probe_timeout_ms)
    local text = outcome.ok and outcome.stdout or outcome.stderr or ""
    found.probe = text:match("[^\n]+") or (outcome.failure and outcome.failure.message)
  end
  for position, mode in ipairs(doctor.modes) do
    local tried = ground:try(provider, name, mode, bash)
    if tried.why then
      tried.advice = advice.unusable(name, tried.why, found, here)
    end
    found.modes[position] = tried
  end
  return found
end

-- moonsand's own files, and where a command could replace them.
local function examine_own_files(provider, root)
  local list, tmp = {}, require("posix.stdlib").realpath("/tmp")
  for position, path in ipairs(provider:files()) do
    list[position] = {
      path = path,
      replaceable_in = require("moonsand.sandbox").replaceable_in(path, { root, tmp }),
      writable_by_others = stat.stat(path).st_mode & 2 ~= 0,
      noexec = require("posix.sys.statvfs").statvfs(path).f_flag & NOEXEC ~= 0,
    }
  end
  return list
end

-- Whether a whole output can be kept, by keeping one.
local function examine_spill(root)
  local core = require "moonsand.core"
  local base = require "moonsand.executor.spill_base" { mode = "workspace-write", workspace_root = root }
  if not base then
    return { why = "no directory is this user's and out of the reach of commands; long outputs are cut" }
  end
  local process <close>, failure = core.spawn {
    argv = { core.launcher_path(), "--help" }, env = {},
    max_output_bytes = 16, max_spill_bytes = 65536, spill_dir = base,
  }
  if not process then
    return { path = base, why = failure.message }
  end
  repeat
    local waited = process:wait()
  until waited ~= "interrupted"
  local stream = process:status().stdout
  if stream.spill_path then
    return { path = base, usable = true }
  end
  return { path = base, why = stream.spill_error and stream.spill_error.message or "the file is " .. stream.spill }
end

-- The runner that the provider takes, and why, in words.
local function choose(runners, here)
  local passed = {}
  for _, candidate in ipairs(sandbox_of.candidates[here.platform] or {}) do
    for _, runner in ipairs(runners) do
      local first = runner.modes[1]
      if runner.name == candidate then
        if first and first.enforcement ~= "unavailable" then
          local reason = passed[1] and ("%s does not work here"):format(table.concat(passed, " and "))
            or "it is the first choice on this platform, and it works"
          return candidate, reason
        end
        passed[#passed + 1] = candidate
      end
    end
  end
  return nil, passed[1] and ("%s does not work here"):format(table.concat(passed, ", "))
    or "there is no runner for this platform"
end

--- Try every runner under every mode, and look at what may explain the outcome.
-- @tparam[opt] {string,...} own_files files besides moonsand's own that commands must not write
-- @treturn table `machine`, `runners` (each with `name`, `path?`, `version?`, `modes`, `why?`, `advice?`), `own_files`,
--   `workspace`, `spill`, `chosen?`, `why`
function doctor.examine(own_files)
  local here = machine.look()
  local provider = assert(sandbox_of.new { own_files = own_files })
  local root = require("posix.stdlib").realpath(".") or "/"
  local bash = require("moonsand.executor.command").argv("", os.getenv("PATH"))[1]
  local findings = {
    machine = here,
    workspace = root,
    runners = {},
    own_files = examine_own_files(provider, root),
    spill = examine_spill(root),
  }
  local ground <close> = require("moonsand.trial").new()
  if ground then
    for position, name in ipairs(sandbox_of.runners) do
      findings.runners[position] = examine_runner(name, here, root, ground, bash)
    end
    findings.chosen, findings.why = choose(findings.runners, here)
  else
    findings.why = "no runner could be tried: neither /var/tmp nor the current directory can be written"
  end
  return findings
end

return doctor
