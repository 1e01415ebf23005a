--- bubblewrap: mounts. The whole tree is read-only, and the kernel says EROFS.
--
-- Pure: a policy and facts about the machine in, an argv out. Nothing here is believed later on: the launcher inside,
-- which is pid 1 there, looks at the mounts and at its own capabilities before it says *confined*.
--
-- Why each option of the profile is there:
--
-- - `--die-with-parent`, `--unshare-pid`, `--as-pid-1`: the tree ends with its root, and its root is the launcher.
-- - `--unshare-ipc`: POSIX message queues are files that no mount governs, and System V segments outlive their makers.
-- - `--cap-drop ALL`: for root, who could otherwise remount the tree. (bwrap sets no_new_privs itself.)
-- - `--remount-ro /dev`: bwrap's own /dev is a writable tmpfs. The device nodes in it work all the same; remounting
--   *them* would make them unusable (bwrap adds nodev), and their metadata is the launcher's to keep.
-- - `--remount-ro /proc`, for uid 0: the kernel's knobs in /proc/sys belong to uid 0 and ask for no capability.
--   Others keep a writable /proc, where only their own processes' files are theirs.
-- - `--tmpfs /dev/shm`, in workspace-write: POSIX semaphores and shared memory work, privately.
--
-- See section 5 of the design and bwrap(1).
-- @module moonsand.runners.bwrap

local launcher = require "moonsand.runners.launcher"
local policy_of = require "moonsand.policy"

local bwrap = { name = "bwrap", program = "bwrap" }

local add, at_or_below = launcher.add, policy_of.at_or_below

local function parent(path)
  return path:match("^(.+)/[^/]*$") or "/"
end

-- Those of the paths that lie below no other one.
local function outermost(paths)
  local list = {}
  for _, path in ipairs(paths) do
    local inner = false
    for _, other in ipairs(paths) do
      inner = inner or (other ~= path and at_or_below(path, other))
    end
    if not inner then
      list[#list + 1] = path
    end
  end
  return list
end

-- moonsand's own files, where a command could write them: it would choose what runs unconfined next time. A read-only
-- bind keeps the files; that no directory above them is moved away with them is kept by making each a mount point,
-- which rename(2) refuses. These come first, the outer before the inner and each once: a bind shows what the host has
-- there, and covers what was mounted below.
local function protect(options, root, tmp, own_files)
  local kept, above, seen = {}, {}, {}
  for _, own in ipairs(outermost(own_files)) do
    local hidden = tmp and at_or_below(own, tmp) and not (at_or_below(root, tmp) and at_or_below(own, root))
    if hidden then
      kept[#kept + 1] = own -- by the fresh /tmp
    elseif at_or_below(own, root) then
      kept[#kept + 1] = own
      local directory = own ~= root and parent(own) or root
      while directory ~= root do
        if not seen[directory] then
          seen[directory] = true
          above[#above + 1] = directory
        end
        directory = parent(directory)
      end
    end
  end
  table.sort(above, function(a, b)
    return #a < #b
  end)
  for _, directory in ipairs(above) do
    add(options, "--bind", directory, directory)
  end
  for _, own in ipairs(kept) do
    add(options, "--ro-bind", own, own)
  end
end

--- bwrap's own options for a policy.
-- @tparam table policy a resolved one that confines
-- @tparam table facts `root_user`: whether the user is uid 0; `tmp`: the canonical name of /tmp, or nil;
--   `own_files`: canonical paths to keep unwritable
-- @treturn {string,...} options, to be followed by `--` and the launcher
-- @treturn {string,...} places that are writable then
function bwrap.profile(policy, facts)
  local options = { "--die-with-parent", "--unshare-pid", "--as-pid-1", "--unshare-ipc", "--cap-drop", "ALL" }
  add(options, "--ro-bind", "/", "/")
  local root = policy.mode == "workspace-write" and policy.workspace_root or nil
  local tmp = facts.tmp
  -- Mounts are made in the order given: a root above /tmp (or `/`) would cover what is mounted before it.
  local root_is_above = root and (root == "/" or (tmp and root ~= tmp and at_or_below(tmp, root)))
  if root_is_above then
    add(options, "--bind", root, root)
  end
  add(options, "--dev", "/dev", "--remount-ro", "/dev", "--proc", "/proc")
  if facts.root_user then
    add(options, "--remount-ro", "/proc")
  end
  if not root then
    return options, {}
  end
  local writable = { root, "/dev/shm" }
  add(options, "--tmpfs", "/dev/shm")
  if tmp then
    add(options, "--tmpfs", tmp)
    writable[#writable + 1] = tmp
  end
  if not root_is_above then
    add(options, "--bind", root, root)
  end
  protect(options, root, tmp, facts.own_files)
  return options, writable
end

--- The argv that runs a command confined.
-- @tparam {string,...} argv the command, exact; its first word is a path
-- @tparam table policy
-- @tparam table facts those of `profile`; `program`: the path of bwrap; `launcher` and `launch` (see
--   `moonsand.runners.launcher`)
-- @treturn {string,...}
function bwrap.wrap(argv, policy, facts)
  local options, writable = bwrap.profile(policy, facts)
  -- For the launcher, which makes the mounts private and gives it up: what is mounted outside from then on stays there.
  add(options, "--cap-add", "CAP_SYS_ADMIN")
  local expectations = { "--expect", "pid-1", "--expect", "no-capabilities", "--expect", "read-only" }
  for _, place in ipairs(writable) do
    add(expectations, place == policy.workspace_root and "--bound" or "--writable", place)
  end
  local list = table.move(options, 1, #options, 2, { facts.program })
  list[#list + 1] = "--"
  return launcher.append(list, facts, expectations, argv)
end

return bwrap
