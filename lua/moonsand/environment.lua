--- What a command finds in its environment.
--
-- Three hands write it, in this order: the ambient environment of the host less what looks like a credential, the
-- caller, and moonsand itself. See section 7 of the design.
--
-- The result comes in two parts, because a runner is a program too, and it is not confined yet. A name that steers how
-- a program is loaded or started (`LD_LIBRARY_PATH`, `BASH_ENV`, ...) could make the runner load what the agent wrote
-- a minute ago. Such names do not reach the runner: they travel as arguments of the launcher, which puts them into the
-- environment of the command alone, inside the confinement.
--
-- Relies on the core for the ambient environment and the platform; everything else is plain Lua over tables.
-- @module moonsand.environment

local environment = {}

local Environment = {}
Environment.__index = Environment
Environment.__name = "moonsand.environment"

--- Names that look like credentials, as patterns where `*` stands for anything, in any case.
environment.credentials = { "*KEY*", "*TOKEN*", "*SECRET*", "*PASSWORD*" }

--- Ambient names that are never passed on: moonsand's own facts are about this command, not about an outer one.
environment.managed = { "MOONSAND_*" }

--- What suits a reader that is not a person at a terminal. Set over the ambient values, under the caller's.
environment.unattended = { NO_COLOR = "1", TERM = "dumb", PAGER = "cat", GIT_PAGER = "cat" }

--- Names that steer how a program is loaded, or what it runs before its own first line: ld.so(8), bash(1), and the
-- interpreters a custom runner may be written for.
environment.steering = {
  "LD_*", "DYLD_*", "GLIBC_TUNABLES", "GCONV_PATH", "GETCONF_DIR", "LOCPATH", "NLSPATH", "MALLOC_*", "TZDIR",
  "HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS", "RESOLV_HOST_CONF", "RESOLV_ADD_TRIM_DOMAINS",
  "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "BASH_FUNC_*", "CDPATH", "GLOBIGNORE", "IFS", "ZDOTDIR", "FPATH",
  "PYTHON*", "PERL*", "RUBY*", "GEM_*", "NODE_*", "LUA_*", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS",
}

-- Turns glob patterns into one test over names. A pattern's letters are matched in any case, as the platforms' own
-- conventions for these names are only conventions.
local function matcher(globs)
  local exact, patterns = {}, {}
  for _, glob in ipairs(globs) do
    local upper = glob:upper()
    if upper:find("*", 1, true) then
      patterns[#patterns + 1] = "^" .. upper:gsub("[%^%$%(%)%%%.%[%]%+%-%?]", "%%%0"):gsub("%*", ".*") .. "$"
    else
      exact[upper] = true
    end
  end
  return function(name)
    local upper = name:upper()
    if exact[upper] then
      return true
    end
    for _, pattern in ipairs(patterns) do
      if upper:find(pattern) then
        return true
      end
    end
    return false
  end
end

--- Says what is wrong with a table of variables, if anything.
-- @tparam table variables name to value; a value is a string, a number, or `false` to leave the name out
-- @treturn[1] nil nothing is wrong
-- @treturn[2] string the fault, for a person
function environment.fault(variables)
  for name, value in pairs(variables) do
    if type(name) ~= "string" then
      return "a name is not a string"
    elseif name == "" or name:find("[=%z]") then
      return ("%q is not a name of a variable"):format(name)
    elseif value ~= false then
      local kind = type(value)
      if kind ~= "string" and kind ~= "number" then
        return ("the value of %s is a %s"):format(name, kind)
      elseif kind == "string" and value:find("\0", 1, true) then
        return ("the value of %s contains a NUL byte"):format(name)
      end
    end
  end
  return nil
end

local function globs(value, name)
  if value == nil then
    return {}
  elseif type(value) ~= "table" then
    error(("bad option '%s' (table expected, got %s)"):format(name, type(value)), 4)
  end
  for _, glob in ipairs(value) do
    if type(glob) ~= "string" then
      error(("bad option '%s' (every entry is a string)"):format(name), 4)
    end
  end
  return value
end

--- Make the environment that commands of one executor start from.
--
-- The ambient variables are read once, here. A host that changes its own environment later passes what is new to a
-- command with `env`.
-- @tparam[opt] table options
-- @tparam[opt] {[string]=string} options.ambient instead of the process's own environment
-- @tparam[opt] {string,...} options.keep names or `*` patterns that are no credentials, whatever they look like
-- @tparam[opt] {string,...} options.drop names or `*` patterns to leave out as well; stronger than `keep`
-- @tparam[opt] {[string]=string|false} options.env set for every command; `false` leaves the name out
-- @treturn table an environment, see `compose`
function environment.new(options)
  options = options or {}
  local core = require "moonsand.core"
  local keep = matcher(globs(options.keep, "keep"))
  local drop = matcher(globs(options.drop, "drop"))
  local credential, managed = matcher(environment.credentials), matcher(environment.managed)

  local base = {}
  for name, value in pairs(options.ambient or core.environ()) do
    local passes = not managed(name) and not drop(name) and (keep(name) or not credential(name))
    if passes then
      base[name] = value
    end
  end

  local standing = options.env or {}
  local fault = environment.fault(standing)
  if fault then
    error(("bad option 'env' (%s)"):format(fault), 2)
  end
  return setmetatable({
    base = base,
    standing = standing,
    steers = matcher(environment.steering),
    platform = core.platform,
    cache = {},
  }, Environment)
end

local function assign(variables, changes)
  for name, value in pairs(changes) do
    if value == false then
      variables[name] = nil
    elseif type(value) == "number" then
      variables[name] = tostring(value)
    else
      variables[name] = value
    end
  end
end

-- Denials are recognised by the words of the C library, which it says in the user's language. What LC_ALL said about
-- everything else (how bytes are characters, above all) goes on to hold through LANG: LC_ALL outranks the single
-- LC_* names, so these were without effect and stay so.
local function speak_english(variables)
  local all = variables.LC_ALL
  if all and all ~= "" then
    for name in pairs(variables) do
      if name:find("^LC_") then
        variables[name] = nil
      end
    end
    variables.LANG = all
  end
  variables.LC_ALL = nil
  variables.LANGUAGE = nil
  variables.LC_MESSAGES = "C"
end

-- A place for temporary files that the mode leaves writable. macOS gives every user a directory of their own, which the
-- Seatbelt profile allows.
local function writable_temporary_directory(platform, ambient)
  local is_own = platform == "darwin"
    and ambient
    and (ambient:find("^/var/folders/") or ambient:find("^/private/var/folders/"))
  return is_own and ambient or "/tmp"
end

-- PATH for the runner: entries that are relative, or below what confined commands may write, name programs that the
-- agent could have put there.
local function trusted_path(path, writable_root)
  local entries = {}
  for entry in (path .. ":"):gmatch("([^:]*):") do
    local below = writable_root
      and (entry == writable_root or entry:sub(1, #writable_root + 1) == writable_root .. "/")
    if entry:sub(1, 1) == "/" and not below then
      entries[#entries + 1] = entry
    end
  end
  return table.concat(entries, ":")
end

-- Everything `compose` promises, without the cache.
local function build(self, options)
  local policy, variables = options.policy, {}
  for name, value in pairs(self.base) do
    variables[name] = value
  end
  if not options.terminal then
    assign(variables, environment.unattended)
  end
  local workspace_write = policy and policy.mode == "workspace-write"
  if workspace_write then
    variables.TMPDIR = writable_temporary_directory(self.platform, variables.TMPDIR)
  end
  assign(variables, self.standing)
  if options.env then
    assign(variables, options.env)
  end
  if options.confined then
    speak_english(variables)
  end
  variables.MOONSAND_MODE = policy and policy.mode or "danger-full-access"
  variables.MOONSAND_WORKSPACE_ROOT = policy and policy.workspace_root or nil
  variables.MOONSAND_SESSION_ID = policy and policy.session_id or nil

  local runner, launch, steers = {}, {}, self.steers
  for name, value in pairs(variables) do
    local pair = name .. "=" .. value
    if name == "PATH" then
      local trusted = trusted_path(value, workspace_write and policy.workspace_root)
      if trusted ~= value then
        launch[#launch + 1] = pair
        pair = "PATH=" .. trusted
      end
      runner[#runner + 1] = pair
    elseif steers(name) then
      launch[#launch + 1] = pair
    else
      runner[#runner + 1] = pair
    end
  end
  table.sort(launch) -- the launcher's command line is shown to people
  return { runner = runner, launch = launch[1] and launch or nil, path = variables.PATH }
end

--- Put the environment of one command together.
--
-- The tables returned are shared between commands that ask for the same: they are to be read, not changed.
-- @tparam table options
-- @tparam[opt] table options.policy `{ mode, workspace_root, session_id? }`; none is full access
-- @tparam[opt] boolean options.confined messages are in English, so that a denial can be recognised
-- @tparam[opt] boolean options.terminal a person reads along: colours and pagers are left as they are
-- @tparam[opt] {[string]=string|false} options.env this command's own variables (see `fault`)
-- @treturn {string,...} `NAME=VALUE` for the runner, passed on to the command
-- @treturn ?{string,...} `NAME=VALUE` for the command alone, or nil when there are none
-- @treturn ?string the command's PATH
function Environment:compose(options)
  if options.env then
    local built = build(self, options)
    return built.runner, built.launch, built.path
  end
  local policy = options.policy
  local cached = self.cache
  local same = cached.built
    and cached.mode == (policy and policy.mode)
    and cached.root == (policy and policy.workspace_root)
    and cached.session == (policy and policy.session_id)
    and cached.confined == options.confined
    and cached.terminal == options.terminal
  if not same then
    cached.built = build(self, options)
    cached.mode = policy and policy.mode
    cached.root = policy and policy.workspace_root
    cached.session = policy and policy.session_id
    cached.confined, cached.terminal = options.confined, options.terminal
  end
  return cached.built.runner, cached.built.launch, cached.built.path
end

return environment
