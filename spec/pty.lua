-- A terminal with somebody at it: a pseudo-terminal, a program in a session of its own on it, keys and screen.
local fcntl = require "posix.fcntl"
local poll = require "posix.poll"
local signal = require "posix.signal"
local stdlib = require "posix.stdlib"
local termio = require "posix.termio"
local unistd = require "posix.unistd"
local wait = require "posix.sys.wait"
local core = require "moonsand.core"

local pty = {}
pty.__index = pty

local BLANK_ENVIRONMENT <const> = "env"

-- Starts argv (found in PATH) on a new terminal of 24 lines and 80 columns.
function pty.open(argv, variables)
  local master = assert(stdlib.openpt(fcntl.O_RDWR | fcntl.O_NOCTTY | fcntl.O_CLOEXEC))
  assert(stdlib.grantpt(master))
  assert(stdlib.unlockpt(master))
  local self = setmetatable({ master = master, name = stdlib.ptsname(master), screen = "", seen = 1 }, pty)
  self.slave = assert(fcntl.open(self.name, fcntl.O_RDWR | fcntl.O_NOCTTY | fcntl.O_CLOEXEC))
  self:resize(24, 80)
  local words = { BLANK_ENVIRONMENT }
  for name, value in pairs(variables or {}) do
    words[#words + 1] = name .. "=" .. value
  end
  table.move(argv, 1, #argv, #words + 1, words)
  self.pid = assert(unistd.fork())
  if self.pid == 0 then
    unistd.setpid("s")
    local slave = fcntl.open(self.name, fcntl.O_RDWR) -- the first terminal that a session leader opens is its own
    for fd = 0, 2 do
      unistd.dup2(slave, fd)
    end
    unistd.close(slave)
    -- As a login leaves them: whoever runs the specs with nohup, or in a shell without job control, has some ignored.
    for _, number in ipairs { signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP } do
      signal.signal(number, signal.SIG_DFL)
    end
    unistd.execp(table.remove(words, 1), words)
    unistd._exit(127)
  end
  return self
end

function pty:resize(rows, columns)
  assert(termio.tcsetwinsize(self.slave, { ws_row = rows, ws_col = columns }))
end

function pty:type(keys)
  assert(unistd.write(self.master, keys))
end

-- Reads what the screen has now; false when nothing came within `ms`.
function pty:look(ms)
  if poll.rpoll(self.master, ms) ~= 1 then
    return false
  end
  local bytes = unistd.read(self.master, 65536)
  if not bytes or bytes == "" then
    return false
  end
  self.screen = self.screen .. bytes
  return true
end

-- Waits until `text` (plain) has appeared after what was expected before; returns what stood between.
function pty:expect(text, ms)
  local deadline = core.monotonic_ms() + (ms or 10000)
  repeat
    local from, to = self.screen:find(text, self.seen, true)
    if from then
      local between = self.screen:sub(self.seen, from - 1)
      self.seen = to + 1
      return between
    end
    self:look(50)
  until core.monotonic_ms() > deadline
  error(("%q did not appear; the screen after what was seen before: %q"):format(text, self.screen:sub(self.seen)), 2)
end

-- The terminal's modes, as stty(1) can restore them.
function pty:modes()
  local stty <close> = assert(io.popen("stty -g -F " .. self.name))
  return stty:read("l")
end

-- Is the program over? Waits for it `ms`; its exit status, or 128 + n.
function pty:status(ms)
  local deadline = core.monotonic_ms() + (ms or 10000)
  repeat
    local pid, how, status = wait.wait(self.pid, wait.WNOHANG)
    if pid == self.pid and how ~= "running" then
      self.pid = nil
      return how == "exited" and status or 128 + status
    end
    self:look(20)
  until core.monotonic_ms() > deadline
  error("it has not ended", 2)
end

function pty:close()
  if self.pid then
    signal.kill(self.pid, signal.SIGKILL)
    wait.wait(self.pid)
  end
  unistd.close(self.slave)
  unistd.close(self.master)
end
pty.__close = pty.close

return pty
