--- What may be asked of an executor: options of a shell, requests of a command, and what is wrong with them.
--
-- A request comes from a model by way of a host, so each fault in it is an `INVALID_REQUEST` that names the field, and
-- nothing has run. Options of a shell are written by a programmer; an unknown one or one of the wrong type is raised.
-- Pure: it reads no file and asks no clock.
-- @module moonsand.executor.request

local cancel = require "moonsand.cancel"
local environment = require "moonsand.environment"
local errors = require "moonsand.errors"

local request = {}

--- What holds where neither the shell nor the request says otherwise. `_ms` are milliseconds.
request.defaults = {
  timeout_ms = 120000,
  max_timeout_ms = 600000,
  max_output_bytes = 64000, -- a stream
  max_spill_bytes = 64 * 1024 * 1024, -- a stream
  grace_ms = 3000,
}

-- The numbers that a request may give.
local numbers = { "timeout_ms", "max_output_bytes", "max_spill_bytes", "grace_ms" }

-- The largest number that is exact in a double, as JSON has no other numbers. More milliseconds or bytes than a machine
-- will ever count.
local largest = 1 << 53

-- What a request may say, and of what type.
local fields = {
  command = "string",
  workdir = "string",
  stdin = "string",
  env = "table",
  on_output = "function",
  mode = "string",
  session = "any",
  cancel = "any",
  timeout_ms = "any",
  max_output_bytes = "any",
  max_spill_bytes = "any",
  grace_ms = "any",
}

-- A positive, finite number as an integer, or the fault.
local function checked_number(value)
  if type(value) ~= "number" then
    return nil, ("must be a number, not %s"):format(type(value) == "string" and ("%q"):format(value) or type(value))
  elseif value ~= value or value == math.huge then
    return nil, "must be finite"
  elseif value <= 0 then
    return nil, "must be positive"
  end
  return math.type(value) == "integer" and value or math.tointeger(math.ceil(math.min(value, largest)))
end

local function invalid(field, fault)
  return nil, errors.new("INVALID_REQUEST", ("%s: %s"):format(field, fault), field)
end

-- "; did you mean ...?" for a name that is not among the keys of these tables.
local function hint(name, ...)
  local known = {}
  for _, keys in ipairs { ... } do
    for key in pairs(keys) do
      known[#known + 1] = key
    end
  end
  table.sort(known)
  return require("moonsand.nearest").hint(tostring(name), known)
end

--- The numbers of a shell: its options over the defaults.
-- @tparam table options
-- @treturn[1] table `{ timeout_ms, max_timeout_ms, max_output_bytes, max_spill_bytes, grace_ms }`
-- @treturn[2] nil
-- @treturn[2] table `INVALID_REQUEST`
function request.settings(options)
  local settings = {}
  for field, default in pairs(request.defaults) do
    settings[field] = default
    if options[field] ~= nil then
      local value, fault = checked_number(options[field])
      if not value then
        return invalid(field, fault)
      end
      settings[field] = value
    end
  end
  return settings
end

--- Raise unless every option is a known one.
-- @tparam table options
-- @tparam {[string]=true} known
-- @string caller the function's name, for the message
-- @int level as of `error`
function request.check_options(options, known, caller, level)
  if type(options) ~= "table" then
    error(("bad argument #1 to '%s' (table expected, got %s)"):format(caller, type(options)), level + 1)
  end
  for name in pairs(options) do
    if not known[name] and request.defaults[name] == nil then
      local fault = ("unknown option '%s'%s"):format(tostring(name), hint(name, known, request.defaults))
      error(("bad argument #1 to '%s' (%s)"):format(caller, fault), level + 1)
    end
  end
end

local Spec = {}
Spec.__name = "moonsand.spec"

--- Whether a value is a resolved request.
function request.is_spec(value)
  return getmetatable(value) == Spec
end

-- Where a relative path is relative to, without asking the file system: `..` is the kernel's to interpret, after the
-- links before it.
local function below(base, path)
  if path:sub(1, 1) == "/" or not base then
    return path
  end
  return (base == "/" and "" or base) .. "/" .. path
end

--- A request with its defaults filled in, its caps applied and its policy stamped: all that a run needs, checked.
-- @tparam table asked the request
-- @tparam table settings of the shell, see `settings`
-- @string[opt] base the workdir when none is asked for, and what a relative one is relative to
-- @tparam[opt] table policy stamped on the spec
-- @treturn[1] table the spec; a copy, so that the request stays the caller's
-- @treturn[2] nil
-- @treturn[2] table `INVALID_REQUEST`
function request.resolve(asked, settings, base, policy)
  for field, value in pairs(asked) do
    local expected = fields[field]
    if not expected then
      return invalid(tostring(field), "is not a field of a request" .. hint(field, fields))
    elseif expected ~= "any" and type(value) ~= expected then
      return invalid(field, ("must be a %s, not a %s"):format(expected, type(value)))
    end
  end

  local command, workdir = asked.command, asked.workdir
  if command == nil or not command:find("%S") then
    return invalid("command", "must not be empty")
  elseif command:find("\0", 1, true) then
    return invalid("command", "must not contain a NUL byte")
  elseif workdir == "" then
    return invalid("workdir", "must not be empty")
  elseif workdir and workdir:find("\0", 1, true) then
    return invalid("workdir", "must not contain a NUL byte")
  elseif asked.cancel ~= nil and not cancel.is(asked.cancel) then
    return invalid("cancel", "must be a token from moonsand.cancel()")
  end
  local fault = asked.env and environment.fault(asked.env)
  if fault then
    return invalid("env", fault)
  end

  local spec = {
    command = command,
    workdir = workdir and below(base, workdir) or base,
    stdin = asked.stdin,
    env = asked.env,
    on_output = asked.on_output,
    cancel = asked.cancel,
    policy = policy,
  }
  for _, field in ipairs(numbers) do
    local value = asked[field]
    if value == nil then
      value = settings[field]
    else
      value, fault = checked_number(value)
      if not value then
        return invalid(field, fault)
      end
    end
    spec[field] = value
  end
  spec.timeout_ms = math.min(spec.timeout_ms, settings.max_timeout_ms)
  return setmetatable(spec, Spec)
end

return request
