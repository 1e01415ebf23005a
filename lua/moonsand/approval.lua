--- Who is asked before a command gets more: a function, a person at the terminal, or a chain of these.
--
-- An approver is a function `approve(ask)` that returns an outcome and, if it likes, who decided:
--
--     ask = { text, kind, command, description, workdir, workspace_root, mode, current, justification, session }
--     "allowed-once" | "rejected" | "cancelled" | "unavailable"
--
-- `kind` is `"escalate"`, or `"run"` where an operator's rule wants a command to be asked about. Whatever else comes
-- back grants nothing (`moonsand.escalation`). Relies on luaposix, for the terminal only.
-- @module moonsand.approval

local visible = require "moonsand.visible"

local approval = {}

local decided = { ["allowed-once"] = true, rejected = true, cancelled = true }

--- Ask one after the other, until one decides.
--
-- An approver that returns `"ask"` or `"unavailable"` leaves it to the next. One that raises or returns anything else
-- ends the chain: nobody is asked to overlook a broken one.
-- @param ... approvers; a nil is passed over
-- @treturn function an approver: `"unavailable"` when nobody decided
-- @usage moonsand.approval.chain(policy_approver, moonsand.approval.terminal())
function approval.chain(...)
  local approvers = {}
  for position = 1, select("#", ...) do
    local approver = select(position, ...)
    if approver ~= nil and type(approver) ~= "function" then
      error(("bad argument #%d to 'chain' (function expected, got %s)"):format(position, type(approver)), 2)
    end
    approvers[#approvers + 1] = approver
  end
  return function(ask)
    for _, approver in ipairs(approvers) do
      local outcome, by = approver(ask)
      if decided[outcome] or (outcome ~= "ask" and outcome ~= "unavailable") then
        return outcome, by
      end
    end
    return "unavailable"
  end
end

local INTERRUPT <const> = 3 -- what Ctrl-C types where the terminal makes no signal of it
local END_OF_FILE <const> = 4
local BACKSPACES <const> = { [8] = true, [127] = true }

-- What is asked, on lines of which none can be made by the command.
local function question(ask)
  local lines = {
    "",
    ask.kind == "run" and "An agent wants to run a command that the policy asks about:"
      or "An agent asks for more than its sandbox allows, for one command:",
    "",
    visible.block(ask.command or "", "    | "),
    "",
    "  in       " .. visible.line(ask.workdir or ask.workspace_root or "(the current directory)"),
    "  mode     " .. visible.line(tostring(ask.current))
      .. (ask.mode ~= ask.current and "  ->  " .. visible.line(tostring(ask.mode)) or ""),
    "  reason   " .. visible.line(ask.justification or ask.description or ""),
  }
  if ask.session then
    table.insert(lines, 6, "  session  " .. visible.line(tostring(ask.session)))
  end
  return table.concat(lines, "\n") .. "\n\nAllow it this once? [y/N] "
end

local function write_all(fd, text)
  local unistd = require "posix.unistd"
  while text ~= "" do
    local written = unistd.write(fd, text)
    if not written then
      return false
    end
    text = text:sub(written + 1)
  end
  return true
end

-- One key, or nil and why: "cancelled" by time or because the terminal is gone.
local function key(fd, deadline)
  local core, poll, unistd = require "moonsand.core", require "posix.poll", require "posix.unistd"
  repeat
    local left = math.ceil(deadline - core.monotonic_ms())
    if left <= 0 then
      return nil
    end
    local ready, _, errno = poll.rpoll(fd, math.min(left, 250)) -- in slices, so that a pending hook of Lua's runs
    if ready == 1 then
      local byte = unistd.read(fd, 1)
      return byte and byte:byte()
    end
  until not ready and errno ~= require("posix.errno").EINTR
  return nil
end

-- A line that is typed, echoed as visible text. nil when it was cancelled.
local function answer(fd, deadline)
  local typed = ""
  while true do
    local code = key(fd, deadline)
    if not code or code == INTERRUPT then
      return nil
    elseif code == 10 or code == 13 or (code == END_OF_FILE and typed == "") then
      return typed
    elseif BACKSPACES[code] then
      if typed ~= "" then
        typed = typed:sub(1, -2)
        write_all(fd, "\b \b")
      end
    elseif code >= 32 and code < 127 and #typed < 20 then
      typed = typed .. string.char(code)
      write_all(fd, string.char(code))
    end
  end
end

--- An approver that asks the person at the terminal.
--
-- The terminal is the controlling one, wherever stdin and stdout go. What was typed before the question does not answer
-- it; `y` or `yes` allows, everything else rejects; Ctrl-C, a closed terminal or no answer in time cancels. Without a
-- terminal, or in the background of one, it is unavailable.
-- @tparam[opt] table options
-- @tparam[opt=300000] number options.timeout_ms how long to wait for the answer
-- @string[opt="/dev/tty"] options.path
-- @treturn function an approver; decides as `"terminal"`
function approval.terminal(options)
  options = options or {}
  local path, timeout_ms = options.path or "/dev/tty", options.timeout_ms or 300000
  if type(timeout_ms) ~= "number" or not (timeout_ms > 0 and timeout_ms < math.huge) then
    error("bad option 'timeout_ms' (a positive, finite number expected)", 2)
  end
  return function(ask)
    local fcntl, termio, unistd = require "posix.fcntl", require "posix.termio", require "posix.unistd"
    local core = require "moonsand.core"
    local fd = fcntl.open(path, fcntl.O_RDWR | fcntl.O_CLOEXEC | fcntl.O_NOCTTY)
    if not fd then
      return "unavailable", "terminal"
    end
    local _ <close> = setmetatable({}, { __close = function()
      unistd.close(fd)
    end })
    local modes = termio.tcgetattr(fd)
    -- In the background, changing the terminal's modes would stop the whole host.
    if not modes or unistd.tcgetpgrp(fd) ~= unistd.getpgrp() then
      return "unavailable", "terminal"
    end
    local _ <close> = setmetatable({}, { __close = function()
      termio.tcsetattr(fd, termio.TCSADRAIN, modes)
    end })
    local plain = termio.tcgetattr(fd)
    plain.lflag = plain.lflag & ~(termio.ICANON | termio.ECHO | termio.ISIG | termio.IEXTEN)
    plain.cc[termio.VMIN], plain.cc[termio.VTIME] = 1, 0
    termio.tcsetattr(fd, termio.TCSAFLUSH, plain)
    if not write_all(fd, question(ask)) then
      return "unavailable", "terminal"
    end
    local typed = answer(fd, core.monotonic_ms() + timeout_ms)
    local allowed = typed and (typed:lower():match("^%s*(.-)%s*$"))
    allowed = allowed == "y" or allowed == "yes"
    local outcome = allowed and "allowed-once" or typed and "rejected" or "cancelled"
    write_all(fd, "\n" .. (allowed and "Allowed, once." or typed and "Rejected." or "Cancelled.") .. "\n")
    return outcome, "terminal"
  end
end

return approval
