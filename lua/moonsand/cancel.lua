--- A token by which a running command is aborted from elsewhere.
--
-- "Elsewhere" is a place that runs while the command does: an `on_output` callback, a signal handler (luaposix runs
-- them in a hook, and a blocked wait gives way to it), another coroutine. One token may be given to any number of
-- commands. Relies on nothing but `terminate` of what is attached; the supervisor does the rest, so `cancel` never
-- blocks.
-- @module moonsand.cancel

local Token = {}
Token.__index = Token
Token.__name = "moonsand.cancel"

--- Make a token.
-- @treturn table a token; `token.cancelled` says whether `cancel` was called
local function new()
  return setmetatable({ cancelled = false, attached = setmetatable({}, { __mode = "k" }) }, Token)
end

--- Abort every command that runs with this token, and each that is started with it from now on.
-- @treturn boolean true once, false when it was cancelled already
function Token:cancel()
  if self.cancelled then
    return false
  end
  self.cancelled = true
  for process in pairs(self.attached) do
    process:terminate()
  end
  return true
end

-- For executors: `process` is to be terminated with the token.
function Token:attach(process)
  if self.cancelled then
    process:terminate()
  else
    self.attached[process] = true
  end
end

function Token:detach(process)
  self.attached[process] = nil
end

return {
  new = new,
  is = function(value)
    return getmetatable(value) == Token
  end,
}
