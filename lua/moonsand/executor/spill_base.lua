--- Where spill files may go: a directory on disk that confined commands can read, as the model will open what it is
-- told of, but never write.
--
-- Chooses by path alone, with realpath(3) for what exists; the core makes the directory, and trusts it only when it is
-- the user's own. Section 3 of the design.
-- @module moonsand.executor.spill_base

-- The physical path of a directory that may not exist yet: realpath of what does, and the rest as it is.
local function physical(path)
  local realpath = require("posix.stdlib").realpath
  local rest = ""
  while true do
    local real = realpath(path)
    if real then
      return (real == "/" and rest ~= "") and rest or real .. rest
    end
    local parent, name = path:match("^(.*)/([^/]*)$")
    if not parent then
      return nil
    end
    rest = "/" .. name .. rest
    path = parent == "" and "/" or parent
  end
end

local function is_below(path, root)
  return root == "/" or path == root or path:sub(1, #root + 1) == root .. "/"
end

-- The places a user has, best first.
local function candidates(getenv)
  local list = {}
  local cache, home = getenv("XDG_CACHE_HOME"), getenv("HOME")
  if cache and cache:sub(1, 1) == "/" then
    list[#list + 1] = cache .. "/moonsand"
  end
  if home and home:sub(1, 1) == "/" then
    list[#list + 1] = (home == "/" and "" or home) .. "/.cache/moonsand"
  end
  list[#list + 1] = ("/var/tmp/moonsand-%d"):format(require("moonsand.core").geteuid())
  return list
end

--- Choose the directory for one policy.
-- @tparam ?table policy `{ mode, workspace_root }`; none is full access
-- @tparam[opt=os.getenv] function getenv
-- @treturn ?string an absolute path; nil when every place is one that the command may write
return function(policy, getenv)
  local writable = {}
  if policy and policy.mode == "workspace-write" then
    writable = { "/tmp", policy.workspace_root }
  end
  for _, candidate in ipairs(candidates(getenv or os.getenv)) do
    local path = physical(candidate)
    local usable = path ~= nil
    for _, root in ipairs(writable) do
      usable = usable and not is_below(path, physical(root) or root)
    end
    if usable then
      return path
    end
  end
  return nil
end
