-- What the doctor says about machines that are not this one: what was seen, and what can be done.
local advice = require "moonsand.advice"

local function machine(changes)
  local here = { settings = {}, security = {}, container = {}, seccomp = false, distribution = "debian", euid = 1000 }
  for name, value in pairs(changes or {}) do
    here[name] = value
  end
  return here
end

local function says(name, said, here, ...)
  local text = advice.unusable(name, said, { path = "/usr/bin/bwrap" }, here)
  assert.is_string(text)
  for _, words in ipairs { ... } do
    assert.truthy(text:find(words, 1, true), text)
  end
end

local no_namespace = "bwrap: No permissions to create new namespace, likely because the kernel does not allow it"

describe("advice about bwrap", function()
  it("that is missing is the distribution's way to install it", function()
    local missing = "bwrap is neither in /usr/bin, /bin, /usr/local/bin nor in PATH"
    assert.equal("install bubblewrap: `apt install bubblewrap`", advice.unusable("bwrap", missing, {}, machine()))
    assert.equal("install bubblewrap: `dnf install bubblewrap`",
      advice.unusable("bwrap", missing, {}, machine { distribution = "fedora" }))
    local other = advice.unusable("bwrap", missing, {}, machine { distribution = "other" })
    assert.truthy(other:find("^install bubblewrap,"), other)
  end)

  it("on Ubuntu 24.04 is AppArmor's profile for it, or the setting", function()
    local here = machine { settings = { ["kernel.apparmor_restrict_unprivileged_userns"] = "1" } }
    says("bwrap", "bwrap: setting up uid map: Permission denied", here,
      "profile bwrap-moonsand /usr/bin/bwrap flags=(unconfined) { userns, }", "apparmor_parser -r",
      "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
  end)

  it("is the very setting that forbids namespaces", function()
    says("bwrap", no_namespace, machine { settings = { ["kernel.unprivileged_userns_clone"] = "0" } },
      "sysctl -w kernel.unprivileged_userns_clone=1")
    says("bwrap", "bwrap: Creating new namespace failed: nesting depth or max exceeded (ENOSPC)",
      machine { settings = { ["user.max_user_namespaces"] = "0" } }, "sysctl -w user.max_user_namespaces=")
  end)

  it("in a container is the option that allows namespaces, or landlock", function()
    local here = machine { container = { "/.dockerenv is there" }, seccomp = true }
    says("bwrap", no_namespace, here, "--security-opt seccomp=", "landlock")
    here.security.profile = "docker-default (enforce)"
    says("bwrap", no_namespace, here, "--security-opt apparmor=unconfined", "docker-default")
    says("bwrap", "bwrap: Can't mount proc on /newroot/proc: Operation not permitted", here,
      "--security-opt systempaths=unconfined")
  end)

  it("that is old is a newer one", function()
    says("bwrap", "bwrap: Unknown option --as-pid-1", machine(), "install bubblewrap 0.4 or newer")
  end)

  it("that confines nothing is to put the real one there", function()
    says("bwrap", "moonsand-launch: expected pid 1: No such process", machine(), "reinstall it; /usr/bin/bwrap ran")
  end)

  it("that cannot be executed is its mode, or its file system", function()
    says("bwrap", "exec /usr/bin/bwrap: Permission denied", machine(), "mode bits", "noexec")
  end)

  it("is none where the cause is not known", function()
    assert.is_nil(advice.unusable("bwrap", "bwrap: something else", { path = "/usr/bin/bwrap" }, machine()))
  end)
end)

describe("advice about landlock", function()
  it("tells a kernel without it from one where it is off, and from a filter", function()
    local missing = "moonsand-launch: landlock: Function not implemented"
    says("landlock", missing, machine(), "Linux 5.13")
    says("landlock", missing, machine { seccomp = true }, "seccomp=PROFILE")
    says("landlock", "moonsand-launch: landlock: Operation not supported",
      machine { security = { list = "capability,yama" } }, "`lsm=`", "capability,yama")
    says("landlock", "moonsand-launch: landlock: Operation not permitted", machine(), "seccomp profile")
  end)
end)

describe("every gap that a report may name", function()
  it("has its effect in words, and what closes it", function()
    for _, name in ipairs { "truncate", "device-ioctl", "metadata", "late-mount", "own-files", "unchecked" } do
      assert.is_string(advice.gaps[name].effect)
      assert.is_string(advice.gaps[name].remedy)
    end
  end)
end)
