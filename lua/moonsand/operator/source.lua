--- Reading an operator's script: only where nobody else could have written it.
--
-- A script that confined commands could write would be the agent's own key. So each directory on the way to it (through
-- links, too) and the file itself are looked at: whose they are, who else may write, whether they lie in a place that
-- commands may write, by whatever name. The file is opened once; what is checked and what is read is that descriptor.
--
-- Relies on luaposix. Promises that what it returns was, when it was read, no one's but the user's or root's.
-- @module moonsand.operator.source

local fcntl = require "posix.fcntl"
local stat = require "posix.sys.stat"
local stdlib = require "posix.stdlib"
local unistd = require "posix.unistd"
local errors = require "moonsand.errors"

local source = {}

local MOST_LINKS <const> = 40 -- as the kernel has it
local MOST_BYTES <const> = 1048576
local OTHERS_WRITE <const> = 18 -- S_IWGRP | S_IWOTH
local STICKY <const> = 512

-- Where a confined command may write whatever its workspace is.
local shared_places = { "/tmp", "/dev/shm", "/private/tmp" }

local function refuse(path, what)
  return nil, errors.new("POLICY_ERROR", ("%s: %s"):format((path:gsub("%c", "?")), what))
end

-- The places that commands may write, by the file system's own identity of each, so that a bind mount is seen through.
local function identities(facts)
  local found = {}
  local function place(path)
    local real = path and stdlib.realpath(path)
    local is = real and stat.stat(real)
    if is then
      found[is.st_dev .. ":" .. is.st_ino] = real
    end
  end
  for _, path in ipairs(shared_places) do
    place(path)
  end
  place(facts.workspace_root)
  for _, path in ipairs(facts.writable or {}) do
    place(path)
  end
  place(os.getenv("TMPDIR"))
  return found
end

-- What is wrong with a directory or file that decides which script is read, or nil.
local function fault(path, is, places)
  local place = places[is.st_dev .. ":" .. is.st_ino]
  if place then
    return ("lies in %s, which commands may write; move it to where only you may write"):format(place)
  elseif is.st_uid ~= 0 and is.st_uid ~= unistd.geteuid() then
    return ("'%s' belongs to another user (uid %d)"):format(path, is.st_uid)
  elseif is.st_mode & OTHERS_WRITE ~= 0 and stat.S_ISLNK(is.st_mode) == 0
    and not (stat.S_ISDIR(is.st_mode) ~= 0 and is.st_mode & STICKY ~= 0) then
    return ("'%s' can be written by others; `chmod go-w` it"):format(path)
  end
  return nil
end

-- Follows a path as the kernel does, looking at everything on the way. Returns its canonical name.
local function walk(path, places)
  local rest, here, links = {}, "", 0
  local function push(text)
    local parts = {}
    for part in text:gmatch("[^/]+") do
      parts[#parts + 1] = part
    end
    for position = #parts, 1, -1 do
      rest[#rest + 1] = parts[position]
    end
  end
  push(path)
  local is = stat.lstat("/")
  local wrong = is and fault("/", is, places)
  while not wrong and #rest > 0 do
    local part = table.remove(rest)
    if part == ".." then
      here = here:match("^(.*)/[^/]*$") or ""
    elseif part ~= "." then
      local name, why = here .. "/" .. part
      is, why = stat.lstat(name)
      if not is then
        return nil, (why:gsub("^.*: ", ""))
      end
      wrong = fault(name, is, places)
      if not wrong and stat.S_ISLNK(is.st_mode) ~= 0 then
        links = links + 1
        local target = links <= MOST_LINKS and unistd.readlink(name)
        if not target then
          return nil, "too many links"
        end
        here = target:sub(1, 1) == "/" and "" or here
        push(target)
      else
        here = name
      end
    end
  end
  if wrong then
    return nil, wrong
  end
  return here == "" and "/" or here
end

local function read_descriptor(descriptor)
  local pieces, size = {}, 0
  while true do
    local piece, why = unistd.read(descriptor, 65536)
    if not piece then
      return nil, why
    elseif piece == "" then
      return table.concat(pieces)
    end
    size = size + #piece
    if size > MOST_BYTES then
      return nil, "is larger than 1 MB"
    end
    pieces[#pieces + 1] = piece
  end
end

local function same(a, b)
  return a.st_dev == b.st_dev and a.st_ino == b.st_ino and a.st_mtime == b.st_mtime and a.st_ctime == b.st_ctime
    and a.st_size == b.st_size
end

local function check(descriptor, real, places)
  local is = stat.fstat(descriptor)
  local named = stat.lstat(real)
  if not named or named.st_dev ~= is.st_dev or named.st_ino ~= is.st_ino then
    return nil, "was replaced while it was being read"
  elseif stat.S_ISREG(is.st_mode) == 0 then
    return nil, "is not a regular file"
  elseif is.st_nlink ~= 1 then
    return nil, "has another name (a hard link), by which commands may be able to write it; make a copy"
  end
  local wrong = fault(real, is, places)
  if wrong then
    return nil, wrong
  end
  return is
end

--- A file is as the source of a policy has to be: where commands cannot write. For the directory of other files, too.
-- @string path
-- @tparam table facts `workspace_root` and `writable`, a list: where commands may write, besides the shared places
-- @treturn[1] string its canonical path
-- @treturn[2] nil
-- @treturn[2] string what is wrong
function source.trusted(path, facts)
  if path:sub(1, 1) ~= "/" then
    path = (unistd.getcwd() or "") .. "/" .. path
  end
  return walk(path, identities(facts))
end

--- Read a script.
-- @string path
-- @tparam[opt] table facts `workspace_root`, `writable`
-- @treturn[1] string its text
-- @treturn[1] string its canonical path
-- @treturn[2] nil
-- @treturn[2] table error `POLICY_ERROR`
function source.read(path, facts)
  if path == "" or path:find("\0", 1, true) then
    return refuse(path, "is not the name of a file")
  end
  local real, wrong = source.trusted(path, facts or {})
  if not real then
    return refuse(path, wrong)
  end
  local descriptor, why = fcntl.open(real, fcntl.O_RDONLY | fcntl.O_CLOEXEC | fcntl.O_NONBLOCK)
  if not descriptor then
    return refuse(path, (why:gsub("^.*: ", "")))
  end
  local before, text
  before, wrong = check(descriptor, real, identities(facts or {}))
  if before then
    text, wrong = read_descriptor(descriptor)
    if text and not same(before, stat.fstat(descriptor)) then
      text, wrong = nil, "changed while it was being read; try again"
    end
  end
  unistd.close(descriptor)
  if not text then
    return refuse(path, wrong)
  end
  return text, real
end

return source
