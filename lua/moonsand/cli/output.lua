--- What the command line prints, and what it returns to the shell.
--
-- Relies on standard output and error as they are. A reader that went away (EPIPE) is no error of ours: nothing more is
-- printed, and nothing is said about it.
-- @module moonsand.cli.output

local output = {}

--- Exit statuses, each meaning one thing. Otherwise it is the command's own, or 128 + n when it died of signal n.
output.status = {
  ok = 0,
  usage = 2,
  internal = 70, -- a fault of moonsand itself: EX_SOFTWARE of sysexits(3)
  unwritable = 74, -- the result could not be written: EX_IOERR
  timed_out = 124,
  sandbox = 125, -- nothing ran
  not_executable = 126,
  not_found = 127,
  interrupted = 130,
}

local EPIPE <const> = 32 -- the same number on Linux and macOS

--- Print a text on standard output.
-- @string text
-- @treturn ?integer nil when all is well or the reader went away, else an exit status; the reason was said
function output.print(text)
  local written, why, number = io.stdout:write(text)
  if written then
    written, why, number = io.stdout:flush()
  end
  if written or number == EPIPE then
    return nil
  end
  output.complain("the result could not be written: " .. tostring(why))
  return output.status.unwritable
end

--- Say what went wrong, in one line on standard error.
-- @string message
function output.complain(message)
  io.stderr:write("moonsand: ", (message:gsub("%s*\n%s*", " ")), "\n")
end

--- A value as one line of JSON.
-- @param value
-- @treturn string
function output.encode(value)
  return require("cjson").encode(value) .. "\n"
end

--- A text as JSON may hold it.
-- @string text
-- @treturn string
function output.valid(text)
  return require("moonsand.markers").repair_utf8(text)
end

--- Which exit status a failure is: by its code, and for a program that cannot be started the way shells do.
-- @tparam table err of `moonsand.errors`
-- @treturn integer
function output.failure_status(err)
  if err.code == "SANDBOX_UNAVAILABLE" then
    return output.status.sandbox
  elseif err.code == "START_FAILED" then
    local cause = err.cause
    local missing = cause and cause.stage == "exec" and cause.code == "ENOENT"
    return missing and output.status.not_found or output.status.not_executable
  elseif err.code == "ABORTED" then
    return output.status.interrupted
  end
  return output.status.usage
end

--- Report an operational failure.
-- @tparam table err of `moonsand.errors`
-- @tparam ?boolean json as an object on standard output instead
-- @treturn integer the exit status
function output.fail(err, json)
  if json then
    output.print(output.encode {
      error = {
        code = err.code,
        message = output.valid(err.message),
        detail = err.detail and output.valid(err.detail) or require("cjson").null,
      },
    })
  else
    output.complain(err.message)
  end
  return output.failure_status(err)
end

--- Report a command line that makes no sense.
-- @string message
-- @tparam ?string command the command whose help says more
-- @tparam ?boolean json
-- @treturn integer the exit status
function output.usage(message, command, json)
  local help = command and ("moonsand %s --help"):format(command) or "moonsand --help"
  local text = ("%s (see `%s`)"):format(message, help)
  return output.fail(require("moonsand.errors").new("INVALID_REQUEST", text), json)
end

--- The exit status for how a command ended.
-- @tparam table ended `{ exit_code?, signal?, timed_out? }`
-- @treturn integer
function output.exit_status(ended)
  if ended.timed_out then
    return output.status.timed_out
  elseif ended.signal then
    local number = require("posix.signal")[ended.signal]
    return number and 128 + number or 128 + (tonumber(ended.signal:match("%d+$")) or 0)
  end
  return ended.exit_code or output.status.internal
end

return output
