--- Operational failures as values.
--
-- What can go wrong in the world (a runner that is not there, a request that makes no sense, a machine that has run
-- out of processes) is returned as `nil, err`; what is wrong in the caller's program (an argument of the wrong type)
-- is raised. This module makes the `err`, and relies on nothing.
--
-- An error is a table with `code`, `message` and, where there is more to say, `detail` (a string) and `cause` (the
-- core's own structured failure: `stage`, `errno`, `code`, `path`, `message`). `tostring(err)` is the message.
-- @module moonsand.errors

local errors = {}

--- Every code there is.
-- @table codes
errors.codes = {
  SANDBOX_UNAVAILABLE = true, -- no runner can confine the command; nothing was run
  START_FAILED = true, -- the command itself could not be started
  INVALID_REQUEST = true, -- the request names a value that cannot be used; nothing was run
  POLICY_ERROR = true, -- the policy, its workspace or the operator's script is not usable
  ESCALATION_INVALID = true, -- the arguments of an escalation do not make sense together
  ESCALATION_NOT_WIDER = true, -- the mode asked for allows nothing that is not allowed already; nobody was asked
  ESCALATION_NO_APPROVER = true, -- there is nobody to ask
  ESCALATION_UNAVAILABLE = true, -- whoever is to be asked could not be reached
  ESCALATION_REJECTED = true, -- somebody was asked, and said no
  ESCALATION_CANCELLED = true, -- the question was withdrawn
  ESCALATION_FAILED = true, -- whoever was asked failed, or gave no valid answer
  ESCALATION_TIMED_OUT = true, -- no answer came in time
  ABORTED = true, -- cancelled before the command was started
}

local Error = {}
Error.__index = Error
Error.__name = "moonsand.error"

function Error:__tostring()
  return self.message
end

--- Make an error.
-- @string code one of `codes`
-- @string message one sentence for a person, complete in itself
-- @string[opt] detail what exactly was found, where the message is general
-- @tparam[opt] table cause the core's structured failure
-- @treturn table the error
function errors.new(code, message, detail, cause)
  if not errors.codes[code] then
    error(("bad argument #1 to 'errors.new' (unknown code %s)"):format(tostring(code)), 2)
  end
  return setmetatable({ code = code, message = message, detail = detail, cause = cause }, Error)
end

--- Whether a value is an error made here.
-- @param value anything
-- @treturn boolean
function errors.is(value)
  return getmetatable(value) == Error
end

return errors
