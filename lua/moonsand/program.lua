--- Where a runner's program lies, in places that no confined command could have written.
--
-- A runner is executed unconfined, with the user's own rights. So it is looked for in the system's directories first,
-- then in the absolute entries of PATH, and whatever lies where commands may write is passed over, by its canonical
-- name: a link that leads into the workspace is no better than a file in it. See section 5 of the design.
--
-- Relies on luaposix for realpath(3). That a program can be executed is for the kernel to say, when it is.
-- @module moonsand.program

local stdlib = require "posix.stdlib"
local policy = require "moonsand.policy"

local program = {}

--- Looked in first, in this order, whatever PATH says.
program.system_directories = { "/usr/bin", "/bin", "/usr/local/bin" }

-- A root of `/` says that everything is writable; then there is no better place, and nothing is left to protect.
local function writable_place(path, places)
  for _, place in ipairs(places) do
    if place ~= "/" and policy.at_or_below(path, place) then
      return place
    end
  end
  return nil
end

local function check(path, places)
  local canonical, why = stdlib.realpath(path)
  if not canonical then
    return nil, ("%s: %s"):format(path, (why:gsub("^.*: ", "")))
  end
  local place = writable_place(canonical, places)
  if place then
    return nil, ("%s was passed over: it lies in %s, where commands may write"):format(canonical, place)
  end
  return canonical
end

--- Find a program.
-- @string name a bare name, or an absolute path
-- @tparam {string,...} writable canonical directories in which nothing is taken
-- @string[opt] path a PATH; relative entries in it are passed over
-- @treturn[1] string the canonical path
-- @treturn[2] nil
-- @treturn[2] string why not, for a person
function program.find(name, writable, path)
  if name:sub(1, 1) == "/" then
    return check(name, writable)
  elseif name:find("/", 1, true) then
    return nil, name .. " is a relative path, which would mean another program in another directory"
  end
  local passed_over
  local function look(directory)
    local found, why = check(directory .. "/" .. name, writable)
    if not found and why:find("passed over", 1, true) then
      passed_over = passed_over or why
    end
    return found
  end
  for _, directory in ipairs(program.system_directories) do
    local found = look(directory)
    if found then
      return found
    end
  end
  for directory in (path or ""):gmatch("[^:]+") do
    local found = directory:sub(1, 1) == "/" and look(directory)
    if found then
      return found
    end
  end
  return nil, passed_over
    or ("%s is neither in %s nor in PATH"):format(name, table.concat(program.system_directories, ", "))
end

return program
