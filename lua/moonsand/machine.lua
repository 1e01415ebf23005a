--- What this machine says about itself that decides whether a sandbox can work here.
--
-- Only looks: every fact is read from a file of the kernel's or the system's, and a file that cannot be read is a fact
-- that is not there, never a guess. Relies on the reader it is given, so that a spec can look at a machine it made up.
-- See proc(5), user_namespaces(7), and the kernel's Documentation/admin-guide/LSM.
-- @module moonsand.machine

local machine = {}

--- Kernel settings that keep users from making namespaces, as bwrap must for a user without privileges.
machine.settings = {
  "kernel.unprivileged_userns_clone", -- Debian and others: 0 forbids
  "user.max_user_namespaces", -- 0 forbids
  "kernel.apparmor_restrict_unprivileged_userns", -- Ubuntu since 23.10: 1 allows them to profiled programs only
}

-- The whole text of a file without its last newline, or nil.
local function read_file(path)
  local file <close> = io.open(path, "rb")
  local text = file and file:read("a")
  return text and text:gsub("%s+$", "") or nil
end

local container_files = {
  { "/.dockerenv", "docker" },
  { "/run/.containerenv", "podman" },
}

-- Words of a control group's path that container engines put there.
local container_groups = { "docker", "kubepods", "libpod", "containerd", "lxc", "garden" }

local function container_hints(read)
  local hints = {}
  for _, file in ipairs(container_files) do
    if read(file[1]) then
      hints[#hints + 1] = ("%s is there (%s)"):format(file[1], file[2])
    end
  end
  local groups = read("/proc/self/cgroup") or ""
  for _, word in ipairs(container_groups) do
    if groups:find("/[^\n]*" .. word) then
      hints[#hints + 1] = ("the control group's path says %s"):format(word)
    end
  end
  local map = read("/proc/self/uid_map")
  if map and not map:find("^%s*0%s+0%s+4294967295%s*$") then
    hints[#hints + 1] = "this is not the initial user namespace"
  end
  return hints
end

local function security_modules(read)
  local list = read("/sys/kernel/security/lsm")
  local apparmor = read("/sys/module/apparmor/parameters/enabled") == "Y"
  local label = read("/proc/self/attr/current")
  local selinux = read("/sys/fs/selinux/enforce")
  return {
    list = list,
    apparmor = apparmor,
    profile = apparmor and label and label ~= "unconfined" and label or nil,
    selinux = selinux and (selinux == "1" and "enforcing" or "permissive") or nil,
  }
end

--- Look at this machine.
-- @tparam[opt] function read path to text, or nil where it cannot be read
-- @treturn table `platform`, `kernel` (release), `euid`; `settings` by name, those that exist; `security`: `list` of
--   security modules, `apparmor`, its `profile` over this process, `selinux`; `seccomp`: whether a filter is on this
--   process; `container`: list of hints; `distribution`: the ID of os-release(5)
function machine.look(read)
  local core = require "moonsand.core"
  read = read or read_file
  local settings = {}
  for _, name in ipairs(machine.settings) do
    settings[name] = read("/proc/sys/" .. name:gsub("%.", "/"))
  end
  local process = read("/proc/self/status") or ""
  local release = read("/etc/os-release") or ""
  return {
    platform = core.platform,
    kernel = read("/proc/sys/kernel/osrelease") or require("posix.sys.utsname").uname().release,
    euid = core.geteuid(),
    settings = settings,
    security = security_modules(read),
    seccomp = process:match("\nSeccomp:%s*(%d)") == "2",
    container = container_hints(read),
    distribution = release:match("^ID=\"?([%w._-]+)") or release:match("\nID=\"?([%w._-]+)"),
  }
end

return machine
