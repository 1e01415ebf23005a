--- The audit log: one line of JSON for each command that was asked for.
--
-- It says who asked for what, where, under which policy, who decided, and how it ended; never what a command printed or
-- found in its environment. A line is one write(2) on a descriptor opened for appending, so that processes that share a
-- log do not mix their lines. The file is its owner's alone, and is refused where confined commands could write it.
--
-- Relies on luaposix and `moonsand.operator.source` for what could be written by whom.
-- @module moonsand.audit

local fcntl = require "posix.fcntl"
local stat = require "posix.sys.stat"
local unistd = require "posix.unistd"
local errors = require "moonsand.errors"

local audit = {}

local Log = {}
Log.__index = Log
Log.__name = "moonsand.audit"

local OTHERS_WRITE <const> = 18 -- S_IWGRP | S_IWOTH
local OWNER_ONLY <const> = 384 -- 0600

--- What a line may say, in its order. `time` is set here.
audit.fields = {
  "time", "session", "command", "workdir", "mode", "workspace_root", "runner", "decision", "decided_by", "outcome",
  "exit_code", "signal", "denied", "duration_ms", "wait_ms", "error",
}

local is_field = {}
for _, name in ipairs(audit.fields) do
  is_field[name] = true
end

local function refuse(path, what)
  return nil, errors.new("POLICY_ERROR", ("audit log %s: %s"):format((path:gsub("%c", "?")), what))
end

local function checked(descriptor, path)
  local is, named = stat.fstat(descriptor), stat.lstat(path)
  if not named or stat.S_ISLNK(named.st_mode) ~= 0 or named.st_ino ~= is.st_ino or named.st_dev ~= is.st_dev then
    return "is a link; name the file itself"
  elseif stat.S_ISREG(is.st_mode) == 0 then
    return "is not a regular file"
  elseif is.st_nlink ~= 1 then
    return "has another name (a hard link), by which commands may be able to write it"
  elseif is.st_uid ~= unistd.geteuid() then
    return "belongs to another user"
  elseif is.st_mode & OTHERS_WRITE ~= 0 then
    return "can be written by others; `chmod 600` it"
  end
  return nil
end

--- Open a log for appending, making it where it is not there.
-- @string path
-- @tparam[opt] table facts `workspace_root`, `writable`: where commands may write
-- @treturn[1] table the log
-- @treturn[2] nil
-- @treturn[2] table error `POLICY_ERROR`
function audit.open(path, facts)
  local directory, name = path:match("^(.*/)([^/]+)$")
  if not directory then
    directory, name = ".", path
  end
  if name == "" or name == "." or name == ".." or path:find("\0", 1, true) then
    return refuse(path, "is not the name of a file")
  end
  local real, wrong = require("moonsand.operator.source").trusted(directory, facts or {})
  if not real then
    return refuse(path, wrong)
  end
  local file = (real == "/" and "" or real) .. "/" .. name
  local named = stat.lstat(file)
  if named and stat.S_ISREG(named.st_mode) == 0 then
    return refuse(path, "is not a regular file")
  end
  local flags = fcntl.O_WRONLY | fcntl.O_APPEND | fcntl.O_CREAT | fcntl.O_CLOEXEC | fcntl.O_NONBLOCK
  local descriptor, why = fcntl.open(file, flags, OWNER_ONLY)
  if not descriptor then
    return refuse(path, (why:gsub("^.*: ", "")))
  end
  wrong = checked(descriptor, file)
  if wrong then
    unistd.close(descriptor)
    return refuse(path, wrong)
  end
  return setmetatable({ path = path, descriptor = descriptor }, Log)
end

local function now()
  local time = require("posix.sys.time").gettimeofday()
  return os.date("!%Y-%m-%dT%H:%M:%S", time.tv_sec) .. (".%03dZ"):format(time.tv_usec // 1000)
end

--- Append a line.
-- @tparam table entry some of `audit.fields`; another field is raised as a mistake
-- @treturn[1] boolean true
-- @treturn[2] nil
-- @treturn[2] table error `POLICY_ERROR`: it could not be written, or not whole
function Log:write(entry)
  for name in pairs(entry) do
    if not is_field[name] then
      local hint = require("moonsand.nearest").hint(tostring(name), audit.fields)
      error(("bad field '%s' of an audit entry%s"):format(tostring(name), hint), 2)
    end
  end
  local cjson, repair = require "cjson", require("moonsand.markers").repair_utf8
  local pairs_of = {}
  for _, name in ipairs(audit.fields) do
    local value = entry[name]
    if name == "time" then
      value = now()
    end
    if value ~= nil then
      if type(value) ~= "number" and type(value) ~= "boolean" then
        value = repair(tostring(value))
      end
      pairs_of[#pairs_of + 1] = ('"%s":%s'):format(name, cjson.encode(value))
    end
  end
  local line = "{" .. table.concat(pairs_of, ",") .. "}\n"
  local written, why = unistd.write(self.descriptor, line)
  if written ~= #line then
    return refuse(self.path, written and "a line was written in part only" or (why:gsub("^.*: ", "")))
  end
  return true
end

--- Close it. `<close>` does this.
function Log:close()
  if self.descriptor then
    unistd.close(self.descriptor)
    self.descriptor = nil
  end
end
Log.__close = Log.close
Log.__gc = Log.close

--- What an executor's answer says of how a command ended.
-- @tparam ?table result
-- @tparam ?table err
-- @treturn table some fields of an entry
function audit.outcome(result, err)
  if not result then
    local refused = err.code == "POLICY_ERROR" or err.code:find("^ESCALATION")
    return { outcome = refused and "refused" or "failed", error = err.message }
  end
  local sandbox = result.sandbox or {}
  return {
    outcome = result.timed_out and "timed-out"
      or result.aborted and "aborted" or result.signal and "killed" or "exited",
    exit_code = result.exit_code, signal = result.signal, duration_ms = result.duration_ms,
    denied = sandbox.denied, runner = sandbox.runner, mode = sandbox.mode,
  }
end

--- Read a log.
-- @string path
-- @tparam[opt] table filters by field, exact; `since`: a time to begin at; `last`: how many at most
-- @treturn[1] {table,...} entries, oldest first
-- @treturn[1] integer how many lines could not be read
-- @treturn[2] nil
-- @treturn[2] table error `INVALID_REQUEST`
function audit.read(path, filters)
  local file <close>, why = io.open(path, "rb")
  if not file then
    return nil, errors.new("INVALID_REQUEST", "the audit log cannot be read: " .. why)
  end
  local cjson = require("cjson.safe")
  local entries, broken = {}, 0
  for line in file:lines() do
    local entry = cjson.decode(line)
    if type(entry) ~= "table" then
      broken = broken + 1
    else
      local wanted = true
      for name, value in pairs(filters or {}) do
        if name == "since" then
          wanted = wanted and tostring(entry.time) >= value
        elseif name ~= "last" then
          wanted = wanted and tostring(entry[name]) == value
        end
      end
      entries[#entries + 1] = wanted and entry or nil
    end
  end
  local last = filters and filters.last
  if last and #entries > last then
    entries = table.move(entries, #entries - last + 1, #entries, 1, {})
  end
  return entries, broken
end

-- Control characters made visible: a command must not draw on the reader's terminal.
local function visible(text)
  return (require("moonsand.markers").repair_utf8(text)
    :gsub("[\1-\31\127]", function(c)
      return c == "\n" and "\\n" or c == "\t" and "\\t" or ("\\x%02x"):format(c:byte())
    end)
    :gsub("\0", "\\0")
    :gsub("\u{9b}", "\\x9b")
    :gsub("\u{202e}", "\\u202e"))
end

local columns = { "TIME", "SESSION", "MODE", "DECISION", "OUTCOME", "MS", "COMMAND" }

local function row(entry)
  local outcome = tostring(entry.outcome or "-")
  if entry.outcome == "exited" and entry.exit_code then
    outcome = ("exited %d"):format(entry.exit_code)
  elseif entry.signal then
    outcome = outcome .. " " .. tostring(entry.signal)
  end
  local decision = tostring(entry.decision or "-")
  if entry.decided_by and entry.decided_by ~= entry.decision then
    decision = decision .. " by " .. tostring(entry.decided_by)
  end
  return {
    tostring(entry.time or "-"), tostring(entry.session or "-"), tostring(entry.mode or "-"), decision,
    outcome .. (entry.denied == true and ", denied" or ""), tostring(entry.duration_ms or "-"),
    tostring(entry.command or "-"),
  }
end

--- Entries as a table for a person. Pure.
-- @tparam {table,...} entries
-- @treturn string
function audit.table(entries)
  local rows, widths = { columns }, {}
  for _, entry in ipairs(entries) do
    rows[#rows + 1] = row(entry)
  end
  for _, cells in ipairs(rows) do
    for position, cell in ipairs(cells) do
      cells[position] = visible(cell)
      widths[position] = math.max(widths[position] or 0, utf8.len(cells[position]) or #cells[position])
    end
  end
  local lines = {}
  for number, cells in ipairs(rows) do
    local padded = {}
    for position, cell in ipairs(cells) do
      local fill = position < #cells and widths[position] - (utf8.len(cell) or #cell) or 0
      padded[position] = cell .. (" "):rep(fill)
    end
    lines[number] = table.concat(padded, "  ")
  end
  return table.concat(lines, "\n") .. "\n"
end

return audit
