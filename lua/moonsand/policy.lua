--- What a command may do to files: a mode and a workspace root, resolved anew for each call.
--
-- A policy is the deployment's: its default mode and its root. `resolve` makes the complete answer for one call, a
-- plain table that nobody changes afterwards. See sections 2 and 6 of the design.
--
-- Roots are made canonical by the filesystem (realpath(3)) and by nothing else: `link/..` means what it means to the
-- kernel. The root is looked at again for every call, because what runs below it may have replaced it meanwhile.
--
-- Relies on luaposix. Promises that a resolved policy names a mode that exists and a directory that is there.
-- @module moonsand.policy

local stdlib = require "posix.stdlib"
local errors = require "moonsand.errors"

local policy = {}

local Policy = {}
Policy.__index = Policy
Policy.__name = "moonsand.policy"

--- The modes, from the narrowest to the widest. They speak of file effects only.
policy.modes = { "read-only", "workspace-write", "danger-full-access" }

--- The mode where nobody chose one.
policy.default_mode = "read-only"

local rank = {}
for position, mode in ipairs(policy.modes) do
  rank[mode] = position
end

-- Trees of the kernel's own. Nothing in them is a workspace, and a runner mounts its own over some of them.
local kernel_trees = { "/proc", "/sys", "/dev" }
local shared_memory <const> = "/dev/shm/" -- a file system as good as /tmp

--- Whether a path is a directory's own, or below it. Both are canonical.
-- @string path
-- @string directory
-- @treturn boolean
function policy.at_or_below(path, directory)
  return directory == "/" or path == directory or path:sub(1, #directory + 1) == directory .. "/"
end

--- Whether a mode allows more than another.
-- @string mode
-- @string than
-- @treturn boolean
function policy.wider(mode, than)
  return rank[mode] > rank[than]
end

local function check_mode(mode, code)
  if type(mode) == "string" and rank[mode] then
    return mode
  end
  local shown = tostring(mode)
  local hint = require("moonsand.nearest").hint(shown, policy.modes)
  return nil, errors.new(code, ("unknown mode '%s'%s"):format(shown, hint))
end

-- realpath(3) of "ROOT/." is ROOT's own name, and fails where ROOT is not a directory or may not be entered.
local function canonical(root)
  local path, why = stdlib.realpath(root .. "/.")
  if path then
    return path
  end
  return nil, (why:gsub("^.*: ", ""))
end

--- Make a root canonical.
-- @string root an absolute path, as somebody wrote it
-- @treturn[1] string the directory's one name
-- @treturn[2] nil
-- @treturn[2] table error `POLICY_ERROR`: relative, missing, not a directory, not to be entered
function policy.canonical_root(root)
  local problem, advice
  if root == "" then
    problem, advice = "is empty", "name a directory by its absolute path"
  elseif root:find("\0", 1, true) then
    problem, advice = "contains a NUL byte", "name a directory by its absolute path"
  elseif root:sub(1, 1) ~= "/" then
    problem, advice = "is a relative path", "name the directory by its absolute path"
  else
    local path, why = canonical(root)
    if path then
      return path
    end
    problem = "cannot be used: " .. why
    advice = "name a directory that exists and that this user may enter"
  end
  local shown = root:gsub("%c", "?")
  return nil, errors.new("POLICY_ERROR", ("workspace root '%s' %s; %s"):format(shown, problem, advice))
end

--- Make a policy.
-- @tparam[opt] table options
-- @string[opt="read-only"] options.mode the default mode
-- @string[opt] options.workspace_root an absolute path of a directory; the current directory where there is none
-- @tparam[opt] table options.sessions of `moonsand.session.open`; in memory where there are none
-- @treturn[1] policy with `mode` and `workspace_root`
-- @treturn[2] nil
-- @treturn[2] table error `POLICY_ERROR`
-- @usage local policy = require "moonsand.policy".new { mode = "workspace-write", workspace_root = "/srv/project" }
function policy.new(options)
  options = options or {}
  local mode, err = check_mode(options.mode == nil and policy.default_mode or options.mode, "POLICY_ERROR")
  if not mode then
    return nil, err
  end
  local root = options.workspace_root
  if root == nil then
    local why
    root, why = canonical(".")
    if not root then
      return nil, errors.new("POLICY_ERROR",
        ("the current directory, which would be the workspace, cannot be used: %s; name another one"):format(why))
    end
  elseif type(root) ~= "string" then
    error(("bad option 'workspace_root' (string expected, got %s)"):format(type(root)), 2)
  else
    root, err = policy.canonical_root(root)
    if not root then
      return nil, err
    end
  end
  local sessions = options.sessions
  if sessions then
    local outside
    outside, err = sessions:outside(root)
    if not outside then
      return nil, err
    end
  end
  return setmetatable({ mode = mode, workspace_root = root, sessions = sessions }, Policy)
end

-- The sessions of a policy that has been given none are made with the first one that begins: a command line has none.
local function sessions_of(self)
  if not self.sessions then
    self.sessions = assert(require("moonsand.session").open())
  end
  return self.sessions
end

--- Begin a session of this policy, or find it again: `moonsand.session`'s `begin`.
-- @string id
-- @tparam table options `{ cwd = an absolute path }`
-- @treturn[1] session
-- @treturn[2] nil
-- @treturn[2] table error `INVALID_REQUEST` or `POLICY_ERROR`
function Policy:begin(id, options)
  return sessions_of(self):begin(id, options)
end

--- Switch a session's mode until it is switched again: `moonsand.session`'s `switch`.
-- @param session or its id
-- @string mode
-- @treturn[1] boolean true
-- @treturn[2] nil
-- @treturn[2] table error `INVALID_REQUEST` or `POLICY_ERROR`
function Policy:switch(session, mode)
  return sessions_of(self):switch(session, mode)
end

--- End a session: its background jobs are stopped, and nothing runs for it any more.
-- @param session or its id
-- @treturn[1] boolean true
-- @treturn[2] nil
-- @treturn[2] table error `INVALID_REQUEST`
function Policy:finish(session)
  local sessions = sessions_of(self)
  local found, err = sessions:find(session)
  if not found then
    return nil, err
  end
  if self.told then
    self.told[found.id] = nil
  end
  return sessions:finish(found)
end

local function refuse_kernel_tree(root)
  if root:sub(1, #shared_memory) == shared_memory then
    return nil
  end
  for _, tree in ipairs(kernel_trees) do
    if policy.at_or_below(root, tree) then
      return errors.new("POLICY_ERROR", ("workspace root '%s' lies in %s, which is the kernel's and cannot be made "
        .. "writable for a command; choose an ordinary directory, or the mode read-only"):format(root, tree))
    end
  end
  return nil
end

--- The policy of one call.
-- @tparam[opt] table request
-- @string[opt] request.mode an explicit mode that somebody approved, instead of the session's or the default
-- @param[opt] request.session a session that has begun, or its id: its last switch and its cwd count
-- @treturn[1] table `{ mode, workspace_root, session_id? }`, complete
-- @treturn[2] nil
-- @treturn[2] table error `INVALID_REQUEST`: no such mode or session; `POLICY_ERROR`: the root is gone or was replaced
function Policy:resolve(request)
  local mode, root = self.mode, self.workspace_root
  local id, session, err
  if request and request.session ~= nil then
    local sessions = sessions_of(self)
    session, err = sessions:find(request.session)
    if not session then
      return nil, err
    end
    mode, root, id = sessions:mode(session) or mode, session.cwd, session.id
  end
  if request and request.mode ~= nil then
    mode, err = check_mode(request.mode, "INVALID_REQUEST")
    if not mode then
      return nil, err
    end
  end
  local now, why = canonical(root)
  if now ~= root then
    local problem = now and ("was replaced by a link to '%s' since it was configured"):format(now)
      or "cannot be used any more: " .. why
    return nil, errors.new("POLICY_ERROR", ("workspace root '%s' %s; put the directory back"):format(root, problem))
  end
  if mode == "workspace-write" then
    err = refuse_kernel_tree(root)
    if err then
      return nil, err
    end
  end
  return { mode = mode, workspace_root = root, session_id = id }
end

-- What a mode means, for the context of a model. It says nothing of tools, runners or ways to ask for more: those are
-- other parts' to say, and come and go.
local meaning = {
  ["read-only"] = "File policy: read-only. Commands can read files but create, change and delete none "
    .. "(/dev/null works). The working directory is %s.",
  ["workspace-write"] = "File policy: workspace-write. Commands can write below %s and in the temporary directory, and "
    .. "read everything else without changing it.",
  ["danger-full-access"] = "File policy: danger-full-access. Commands can write wherever this user can. The working "
    .. "directory is %s.",
}

-- A snapshot, and what it is remembered by.
local function snapshot(self, session)
  local resolved, err = self:resolve { session = session }
  if not resolved then
    return nil, err
  end
  local root = require("moonsand.visible").line(resolved.workspace_root)
  return meaning[resolved.mode]:format(root), resolved.session_id or self
end

--- The current policy in words, for a model's context.
-- @param[opt] session or its id
-- @treturn[1] string one line
-- @treturn[2] nil
-- @treturn[2] table error as of `resolve`
function Policy:context(session)
  local text, key = snapshot(self, session)
  if not text then
    return nil, key
  end
  self.told = self.told or {}
  self.told[key] = text
  return text
end

--- The policy in words again, where it is another than the model was told: to be appended after the history, so that
-- what stands before it stays as it is, byte for byte.
-- @param[opt] session or its id
-- @treturn[1] string the whole of it, not a difference
-- @treturn[2] nil when nothing changed
-- @treturn[3] nil
-- @treturn[3] table error as of `resolve`
function Policy:context_update(session)
  local text, key = snapshot(self, session)
  if not text then
    return nil, key
  elseif self.told and self.told[key] == text then
    return nil
  end
  return self:context(session)
end

return policy
