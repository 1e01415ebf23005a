--- Sessions: whose command it is, where that session works, and to which mode it was last switched.
--
-- A session has an id and an immutable working directory. Its mode switches are an append-only log, of which the last
-- entry counts; no session sees another's. The log is in memory, or a JSONL file that survives a restart and may be
-- appended to by several hosts at once:
--
--     {"session":"build-7","mode":"workspace-write","time":1767225600}
--
-- A line counts when it is complete and says exactly this. A half-written one is dropped with a warning, and the next
-- entry begins on a line of its own. The file is the operator's: one that confined commands could write is refused.
-- Section 6 of the design. Relies on luaposix and, for a file only, on lua-cjson.
-- @module moonsand.session

local errors = require "moonsand.errors"
local policy_of = require "moonsand.policy"
local visible = require "moonsand.visible"

local session = {}

local Sessions = {}
Sessions.__index = Sessions
Sessions.__name = "moonsand.sessions"

-- What a session object is, out of reach of who holds it.
local private = setmetatable({}, { __mode = "k" })

local Session = { __name = "moonsand.session" }
local readable = { id = true, cwd = true, ended = true }

function Session:__index(name)
  return readable[name] and private[self][name] or nil
end

function Session.__newindex(_, name)
  error(("a session's '%s' cannot be changed"):format(tostring(name)), 2)
end

function Session:__tostring()
  return "session " .. visible.line(private[self].id)
end

--- Whether a value is a session.
-- @param value anything
-- @treturn boolean
function session.is(value)
  return getmetatable(value) == Session
end

local LONGEST_ID <const> = 256 -- bytes

local function id_fault(id)
  if type(id) ~= "string" then
    return ("must be a string, not a %s"):format(type(id))
  elseif id == "" then
    return "must not be empty"
  elseif #id > LONGEST_ID then
    return ("must not be longer than %d bytes"):format(LONGEST_ID)
  elseif not utf8.len(id) then
    return "must be valid UTF-8"
  end
  return nil
end

local known_mode = {}
for _, mode in ipairs(policy_of.modes) do
  known_mode[mode] = true
end

-- The session and mode of a line of the log; or nil when it is not one.
local function parse(line)
  local decoded, entry = pcall(require("cjson.safe").decode, line)
  if not decoded or type(entry) ~= "table" or id_fault(entry.session) or not known_mode[entry.mode] then
    return nil
  end
  return entry.session, entry.mode
end

local function problem(path, what)
  return nil, errors.new("POLICY_ERROR", ("mode log '%s' %s"):format(visible.line(path), what))
end

local function bits(mode, mask)
  return mode & tonumber(mask, 8) ~= 0
end

-- Directories every workspace-write command may write under some runner. mkdtemp(3) and friends live there too.
local always_writable = { "/tmp", "/dev/shm" }

-- What makes the file, opened and named by its one name, somebody else's to write; or nil.
local function exposure(path, found, writable)
  local core = require "moonsand.core"
  local stat = require "posix.sys.stat"
  if stat.S_ISREG(found.st_mode) == 0 then
    return "is not a regular file"
  elseif found.st_uid ~= core.geteuid() then
    return "belongs to another user"
  elseif found.st_nlink ~= 1 then
    return "has another name (a hard link), by which commands could write it; make a file of its own"
  elseif bits(found.st_mode, "022") then
    return "can be written by others; make it so that only its owner can (chmod 600)"
  end
  for _, list in ipairs { always_writable, writable } do
    for _, directory in ipairs(list) do
      if policy_of.at_or_below(path, directory) then
        return ("lies in '%s', which commands may write; keep it elsewhere"):format(visible.line(directory))
      end
    end
  end
  local parent = path:match("^(.*)/[^/]*$")
  local above = stat.stat(parent == "" and "/" or parent)
  if not above or (bits(above.st_mode, "022") and not bits(above.st_mode, "1000")) then
    return "lies in a directory that others can write; keep it elsewhere"
  end
  return nil
end

-- The file, open for reading and appending, and its one name.
local function open_log(asked, writable)
  local fcntl, stat, unistd = require "posix.fcntl", require "posix.sys.stat", require "posix.unistd"
  if asked:sub(1, 1) ~= "/" or asked:find("\0", 1, true) then
    return problem(asked, "must be named by its absolute path")
  end
  local parent, name = asked:match("^(.*)/([^/]+)$")
  local real, why
  if parent then
    real, why = require("posix.stdlib").realpath(parent == "" and "/" or parent)
  end
  if not real then
    return problem(asked, "cannot be opened: " .. (why or "it is a directory"))
  end
  local path = (real == "/" and "" or real) .. "/" .. name
  -- A link as the last component would be somebody's way to point elsewhere.
  local before = stat.lstat(path)
  if before and stat.S_ISLNK(before.st_mode) ~= 0 then
    return problem(asked, "is a symbolic link; name the file itself")
  end
  local fd
  fd, why = fcntl.open(path, fcntl.O_RDWR | fcntl.O_APPEND | fcntl.O_CREAT | fcntl.O_CLOEXEC, tonumber("600", 8))
  if not fd then
    return problem(asked, "cannot be opened: " .. why)
  end
  local found = stat.fstat(fd)
  local now = stat.lstat(path)
  local exposed = (not now or now.st_ino ~= found.st_ino or now.st_dev ~= found.st_dev)
    and "was replaced while it was opened" or exposure(path, found, writable)
  if exposed then
    unistd.close(fd)
    return problem(asked, exposed)
  end
  return fd, path
end

local function warn_on_stderr(text)
  io.stderr:write("moonsand: ", text, "\n")
end

-- Takes in what was appended since the last look, by whomever. A line without its end is left: it may be in the making.
local function catch_up(self)
  local unistd = require "posix.unistd"
  local size = unistd.lseek(self.fd, 0, unistd.SEEK_END)
  if not size or size == self.read_to then
    return size
  elseif size < self.read_to then
    -- Cut short by somebody. What was switched stays switched here, and what comes is read from its end.
    self.warn(("mode log '%s' was cut short from %d to %d bytes"):format(visible.line(self.path), self.read_to, size))
    self.read_to = size
    return size
  end
  unistd.lseek(self.fd, self.read_to, unistd.SEEK_SET)
  local pieces, missing = {}, size - self.read_to
  while missing > 0 do
    local piece = unistd.read(self.fd, math.min(missing, 65536))
    if not piece or piece == "" then
      break
    end
    pieces[#pieces + 1], missing = piece, missing - #piece
  end
  local text, position = table.concat(pieces), 1
  for line, after in text:gmatch("([^\n]*)\n()") do
    position = after
    if line ~= "" then
      local id, mode = parse(line)
      if id then
        self.modes[id] = mode
      else
        self.warn(("mode log '%s': a damaged line of %d bytes was dropped"):format(visible.line(self.path), #line))
      end
    end
  end
  self.read_to = self.read_to + position - 1
  self.torn = size > self.read_to
  return size
end

-- Appends one line under the lock that every appender takes. fcntl(2) locks are let go when their process dies.
local function append(self, line)
  local fcntl, unistd = require "posix.fcntl", require "posix.unistd"
  local lock = { l_type = fcntl.F_WRLCK, l_whence = unistd.SEEK_SET, l_start = 0, l_len = 0 }
  local locked, why
  repeat
    local errno
    locked, why, errno = fcntl.fcntl(self.fd, fcntl.F_SETLKW, lock)
  until locked or errno ~= require("posix.errno").EINTR
  if not locked then
    return nil, why
  end
  local size = catch_up(self)
  if size and size > self.read_to then
    -- Whoever wrote that is dead, or it would hold the lock.
    self.warn(("mode log '%s': a half-written last line was dropped"):format(visible.line(self.path)))
    line = "\n" .. line
  end
  local written, failure = unistd.write(self.fd, line)
  if written and written < #line then
    written, failure = nil, "it was written in part only"
  end
  if written then
    local synced, not_synced = unistd.fsync(self.fd)
    written, failure = synced, not_synced
  end
  lock.l_type = fcntl.F_UNLCK
  fcntl.fcntl(self.fd, fcntl.F_SETLK, lock)
  return written, failure
end

--- Open the sessions of a deployment.
-- @tparam[opt] table options
-- @string[opt] options.path the JSONL file of mode switches, made when it is not there; in memory where there is none
-- @tparam[opt] {string,...} options.writable directories that commands may write, which the file must not be in; the
--   roots of sessions and of the policy are looked at by themselves
-- @tparam[opt] function options.warn told of damaged lines; default: a line on stderr
-- @treturn[1] sessions for `moonsand.policy.new { sessions = ... }`
-- @treturn[2] nil
-- @treturn[2] table error `POLICY_ERROR`: commands could write the file, or it cannot be opened
function session.open(options)
  options = options or {}
  local self = setmetatable({ modes = {}, begun = {}, log = {}, warn = options.warn or warn_on_stderr }, Sessions)
  if options.path == nil then
    return self
  end
  local fd, path = open_log(options.path, options.writable or {})
  if not fd then
    return nil, path
  end
  self.fd, self.path, self.read_to = fd, path, 0
  catch_up(self)
  if self.torn then
    self.warn(("mode log '%s': a half-written last line was dropped"):format(visible.line(path)))
  end
  return self
end

--- Whether commands that may write a directory could write the log.
-- @string root canonical
-- @treturn[1] boolean true: it is out of their reach
-- @treturn[2] nil
-- @treturn[2] table error `POLICY_ERROR`
function Sessions:outside(root)
  if self.path and policy_of.at_or_below(self.path, root) then
    return problem(self.path, ("lies in the workspace '%s', whose commands could write it"):format(visible.line(root)))
  end
  return true
end

--- Begin a session, or find it again.
-- @string id of the host's choice: 1 to 256 bytes of UTF-8
-- @tparam table options
-- @string options.cwd an absolute path: the session's root, for as long as it lasts
-- @treturn[1] session with `id` and `cwd` (canonical), neither of which can be changed
-- @treturn[2] nil
-- @treturn[2] table error `INVALID_REQUEST`: the id, or another cwd than it has; `POLICY_ERROR`: the directory
function Sessions:begin(id, options)
  local fault = id_fault(id)
  if fault then
    return nil, errors.new("INVALID_REQUEST", "session id: " .. fault)
  elseif type(options) ~= "table" or type(options.cwd) ~= "string" then
    error("bad argument #2 to 'begin' (a table with the string 'cwd' expected)", 2)
  end
  local cwd, err = policy_of.canonical_root(options.cwd)
  if not cwd then
    return nil, err
  end
  local outside
  outside, err = self:outside(cwd)
  if not outside then
    return nil, err
  end
  local known = self.begun[id]
  if known then
    if known.cwd == cwd then
      return known
    end
    return nil, errors.new("INVALID_REQUEST", ("session '%s' works in '%s' and cannot move to '%s'"):format(
      visible.line(id), visible.line(known.cwd), visible.line(cwd)))
  end
  local made = setmetatable({}, Session)
  private[made] = { id = id, cwd = cwd, ended = false, of = self, hooks = {} }
  self.begun[id] = made
  return made
end

--- The session that is meant by a session or by its id.
-- @param asked a session, or the id of one that has begun
-- @treturn[1] session
-- @treturn[2] nil
-- @treturn[2] table error `INVALID_REQUEST`: there is none, it is over, or it is another deployment's
function Sessions:find(asked)
  local found = asked
  if type(asked) == "string" then
    found = self.begun[asked]
  end
  local state = session.is(found) and private[found]
  if not state or state.of ~= self or state.ended then
    local shown = type(asked) == "string" and ("'%s'"):format(visible.line(asked)) or tostring(asked)
    return nil, errors.new("INVALID_REQUEST", ("there is no session %s (any more); begin it first"):format(shown))
  end
  return found
end

--- Switch a session to another mode, until it is switched again.
-- @param asked the session or its id
-- @string mode
-- @treturn[1] boolean true
-- @treturn[2] nil
-- @treturn[2] table error `INVALID_REQUEST`; `POLICY_ERROR`: the log could not be written. Then a narrower mode holds
--   in this host all the same, and a wider one does not.
function Sessions:switch(asked, mode)
  local found, err = self:find(asked)
  if not found then
    return nil, err
  elseif type(mode) ~= "string" or not known_mode[mode] then
    local shown = tostring(mode)
    return nil, errors.new("INVALID_REQUEST", ("unknown mode '%s'%s"):format(visible.line(shown),
      require("moonsand.nearest").hint(shown, policy_of.modes)))
  end
  if self.fd then
    local cjson = require "cjson.safe"
    local line = ('{"session":%s,"mode":"%s","time":%d}\n'):format(cjson.encode(found.id), mode, os.time())
    local written, why = append(self, line)
    if not written then
      local current = self.modes[found.id]
      if mode == policy_of.modes[1] or (current and policy_of.wider(current, mode)) then
        self.modes[found.id] = mode
      end
      return problem(self.path, "could not be written: " .. tostring(why))
    end
    catch_up(self)
  else
    self.modes[found.id] = mode
  end
  self.log[#self.log + 1] = { session = found.id, mode = mode, time = os.time() }
  return true
end

--- The mode a session was last switched to.
-- @param found a session
-- @treturn ?string nil when it never was
function Sessions:mode(found)
  if self.fd then
    catch_up(self)
  end
  return self.modes[found.id]
end

--- Have a function called when a session ends: whoever holds something of its. In the order of their registration.
-- @param found a session
-- @tparam function hook
function Sessions.at_end(_, found, hook)
  local hooks = private[found].hooks
  hooks[#hooks + 1] = hook
end

--- End a session: what it left running is stopped, and nothing runs for it any more. Its switches stay in the log.
-- @param asked the session or its id
-- @treturn[1] boolean true
-- @treturn[2] nil
-- @treturn[2] table error `INVALID_REQUEST`
function Sessions:finish(asked)
  local found, err = self:find(asked)
  if not found then
    return nil, err
  end
  local state = private[found]
  state.ended = true
  self.begun[state.id] = nil
  for _, hook in ipairs(state.hooks) do
    hook(found)
  end
  return true
end

--- Close the log. `<close>` does this.
function Sessions:close()
  if self.fd then
    require("posix.unistd").close(self.fd)
    self.fd, self.path = nil, nil
  end
end

function Sessions:__close()
  self:close()
end

return session
