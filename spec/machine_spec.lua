-- What a machine says about itself, read from the files of machines that were made up.
local machine = require "moonsand.machine"

local function look(files)
  return machine.look(function(path)
    return files[path]
  end)
end

describe("a machine", function()
  it("of which nothing can be read claims nothing", function()
    local here = look {}
    assert.same({}, here.settings)
    assert.same({}, here.container)
    assert.is_false(here.seccomp)
    assert.is_false(here.security.apparmor)
    assert.is_nil(here.security.selinux)
    assert.is_nil(here.distribution)
    assert.is_string(here.kernel)
  end)

  it("is seen as Ubuntu with AppArmor's restriction", function()
    local here = look {
      ["/etc/os-release"] = 'PRETTY_NAME="Ubuntu 24.04"\nID=ubuntu\nID_LIKE=debian',
      ["/proc/sys/kernel/apparmor_restrict_unprivileged_userns"] = "1",
      ["/proc/sys/user/max_user_namespaces"] = "63000",
      ["/proc/sys/kernel/osrelease"] = "6.8.0",
      ["/sys/module/apparmor/parameters/enabled"] = "Y",
      ["/proc/self/attr/current"] = "unconfined",
      ["/proc/self/uid_map"] = "         0          0 4294967295",
    }
    assert.equal("ubuntu", here.distribution)
    assert.equal("6.8.0", here.kernel)
    assert.equal("1", here.settings["kernel.apparmor_restrict_unprivileged_userns"])
    assert.is_true(here.security.apparmor)
    assert.is_nil(here.security.profile)
    assert.same({}, here.container)
  end)

  it("is seen as a container, by each of its marks", function()
    local here = look {
      ["/.dockerenv"] = "",
      ["/proc/self/cgroup"] = "12:cpu:/docker/0123\n0::/",
      ["/proc/self/status"] = "Name:\tlua\nSeccomp:\t2\nSeccomp_filters:\t1",
      ["/sys/module/apparmor/parameters/enabled"] = "Y",
      ["/proc/self/attr/current"] = "docker-default (enforce)",
      ["/proc/self/uid_map"] = "0 100000 65536",
    }
    assert.equal(3, #here.container)
    assert.is_true(here.seccomp)
    assert.equal("docker-default (enforce)", here.security.profile)
  end)

  it("has SELinux where it has", function()
    assert.equal("enforcing", look({ ["/sys/fs/selinux/enforce"] = "1" }).security.selinux)
    assert.equal("permissive", look({ ["/sys/fs/selinux/enforce"] = "0" }).security.selinux)
  end)

  it("is this one unless it is told otherwise", function()
    local here = machine.look()
    assert.equal(require("moonsand.core").platform, here.platform)
    assert.equal(require("posix.unistd").geteuid(), here.euid)
  end)
end)
