--- Where spill files may go: a directory on disk that confined commands can read, as the model will open what it is
-- told of, but never write.
--
-- A place that could not be used is passed over here, and nothing is made yet: the core makes the directory with the
-- first spill, and trusts it only when it is the user's own. Section 3 of the design.
-- @module moonsand.executor.spill_base

local core = require "moonsand.core"

-- The physical path of a directory that may not exist yet: realpath of what does, and the rest as it is. And what does.
local function physical(path)
  local realpath = require("posix.stdlib").realpath
  local rest = ""
  while true do
    local real = realpath(path)
    if real then
      return (real == "/" and rest ~= "") and rest or real .. rest, real
    end
    local parent, name = path:match("^(.*)/([^/]*)$")
    if not parent then
      return nil
    end
    rest = "/" .. name .. rest
    path = parent == "" and "/" or parent
  end
end

-- Names to try in a directory that everybody may write. Somebody else may have taken the first: if nobody worse, then
-- the root user of a user namespace, who is called 0 as well.
local shared_names = { "moonsand-%d", "moonsand-%d-2", "moonsand-%d-3" }

-- The places a user has, best first.
local function candidates(getenv)
  local list = {}
  local cache, home = getenv("XDG_CACHE_HOME"), getenv("HOME")
  if cache and cache:sub(1, 1) == "/" then
    list[#list + 1] = { path = cache .. "/moonsand" }
  end
  if home and home:sub(1, 1) == "/" then
    list[#list + 1] = { path = (home == "/" and "" or home) .. "/.cache/moonsand" }
  end
  for _, name in ipairs(shared_names) do
    list[#list + 1] = { path = "/var/tmp/" .. name:format(core.geteuid()), shared = "/var/tmp" }
  end
  return list
end

-- Whether the directory is there and ours, or can be made in one that is: with sudo, HOME may be somebody else's.
local function can_be_ours(candidate, existing)
  local owner = core.writable_directory_owner(existing)
  return owner ~= nil and (owner == core.geteuid() or existing == candidate.shared)
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
  local at_or_below = require("moonsand.policy").at_or_below
  for _, candidate in ipairs(candidates(getenv or os.getenv)) do
    local path, existing = physical(candidate.path)
    local usable = path ~= nil and can_be_ours(candidate, existing)
    for _, root in ipairs(writable) do
      usable = usable and not at_or_below(path, physical(root) or root)
    end
    if usable then
      return path
    end
  end
  return nil
end
