--- What to do about a runner that does not work, or not completely: pure functions of what was found.
--
-- Each piece of advice is tied to a cause that was seen on this machine: what the runner said, and what the kernel's
-- settings are. Without a cause there is no advice. Relies on nothing; data first.
-- @module moonsand.advice

local advice = {}

--- The file effects that a gap leaves open, by the name the report has for it, and what closes it.
advice.gaps = {
  truncate = {
    effect = "files that can be read can be emptied (truncate)",
    remedy = "Linux 6.2 or newer (Landlock ABI 3)",
  },
  ["device-ioctl"] = {
    effect = "device nodes that can be read take commands (ioctl)",
    remedy = "Linux 6.10 or newer (Landlock ABI 5)",
  },
  metadata = {
    effect = "mode bits, owners, times, extended attributes and inode flags can change outside the writable places",
    remedy = "a kernel with seccomp filters; in a container, one whose seccomp profile allows them",
  },
  ["late-mount"] = {
    effect = "what is mounted outside while the command runs appears inside, writable where it is so outside",
    remedy = "a bwrap that may leave its command CAP_SYS_ADMIN (not one that is setuid root)",
  },
  ["own-files"] = {
    effect = "the command can change moonsand's own files, which run unconfined the next time",
    remedy = "moonsand installed outside the workspace and /tmp, or with bwrap",
  },
  unchecked = {
    effect = "nothing that the runner did was verified",
    remedy = "a runner that moonsand knows",
  },
}

local install = {
  debian = "apt install bubblewrap", ubuntu = "apt install bubblewrap", linuxmint = "apt install bubblewrap",
  fedora = "dnf install bubblewrap", rhel = "dnf install bubblewrap", centos = "dnf install bubblewrap",
  rocky = "dnf install bubblewrap", almalinux = "dnf install bubblewrap", amzn = "dnf install bubblewrap",
  arch = "pacman -S bubblewrap", alpine = "apk add bubblewrap", nixos = "add pkgs.bubblewrap to the system packages",
  ["opensuse-leap"] = "zypper install bubblewrap", ["opensuse-tumbleweed"] = "zypper install bubblewrap",
}

local APPARMOR_PROFILE <const> = [[
    abi <abi/4.0>,
    profile bwrap-moonsand %s flags=(unconfined) { userns, }
to /etc/apparmor.d/bwrap-moonsand, and load it with `apparmor_parser -r /etc/apparmor.d/bwrap-moonsand`;
]]

local function has(text, ...)
  for _, words in ipairs { ... } do
    if text:lower():find(words, 1, true) then
      return true
    end
  end
  return false
end

-- Causes of bwrap's refusal. `seen` looks at what it said and at the machine; the first that was seen is the answer.
local bwrap_causes = {
  {
    seen = function(said)
      return has(said, "unknown option")
    end,
    say = function()
      return "install bubblewrap 0.4 or newer; this one does not know the options that the profile needs"
    end,
  },
  {
    seen = function(said)
      return has(said, "moonsand-launch: expected", "expect_")
    end,
    say = function(found)
      return ("reinstall it; %s ran the launcher without the confinement it was asked for, as bubblewrap never does")
        :format(found.path or "the program")
    end,
  },
  {
    seen = function(said, here)
      return here.settings["user.max_user_namespaces"] == "0" and has(said, "namespace")
    end,
    say = function()
      return "run `sysctl -w user.max_user_namespaces=15000` as root; it is 0, which forbids namespaces"
    end,
  },
  {
    seen = function(said, here)
      return here.settings["kernel.unprivileged_userns_clone"] == "0" and has(said, "namespace", "not permitted")
    end,
    say = function()
      return "run `sysctl -w kernel.unprivileged_userns_clone=1` as root; it is 0, which forbids namespaces"
    end,
  },
  {
    seen = function(said, here)
      return here.settings["kernel.apparmor_restrict_unprivileged_userns"] == "1"
        and has(said, "uid map", "namespace", "not permitted", "permission denied")
    end,
    say = function(found)
      return "let AppArmor allow bubblewrap the user namespaces that it keeps unprofiled programs from using "
        .. "(kernel.apparmor_restrict_unprivileged_userns is 1). As root, write the profile\n"
        .. APPARMOR_PROFILE:format(found.path or "/usr/bin/bwrap")
        .. "or lift it for every program with `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`"
    end,
  },
  {
    seen = function(said, here)
      return here.container[1] and has(said, "mount proc")
    end,
    say = function()
      return "start the container with `--security-opt systempaths=unconfined` (Docker; Podman: `--security-opt "
        .. "unmask=ALL`), as it masks parts of /proc, so that a new one cannot be mounted; or use landlock"
    end,
  },
  {
    seen = function(said, here)
      return here.container[1] and has(said, "not permitted", "permission", "namespace")
    end,
    say = function(_, here)
      local options = {}
      if here.seccomp then
        options[#options + 1] = "`--security-opt seccomp=PROFILE`, with a profile that allows clone, unshare, mount "
          .. "and pivot_root (or `seccomp=unconfined`)"
      end
      if here.security.profile then
        options[#options + 1] = ("`--security-opt apparmor=unconfined` (it is under %s)"):format(here.security.profile)
      end
      if not options[1] then
        options[1] = "the right to make namespaces (Docker: `--security-opt seccomp=unconfined`)"
      end
      return ("start the container with %s, as it allows no new namespaces; or use landlock, which needs none")
        :format(table.concat(options, " and "))
    end,
  },
  {
    seen = function(said)
      return has(said, "exceeded", "no space left")
    end,
    say = function()
      return "raise the user.max_*_namespaces settings; there are as many namespaces as are allowed"
    end,
  },
  {
    seen = function(said)
      return has(said, "namespace")
    end,
    say = function()
      return "use landlock, or let this user make namespaces, which the kernel or its configuration forbids"
    end,
  },
}

local landlock_causes = {
  {
    seen = function(said)
      return has(said, "not implemented", "enosys")
    end,
    say = function(_, here)
      return here.seccomp
        and "start the container with `--security-opt seccomp=PROFILE`, with a profile that allows landlock_*; or the "
          .. "kernel has no Landlock (Linux 5.13 with CONFIG_SECURITY_LANDLOCK)"
        or "run a kernel with Landlock: Linux 5.13 or newer, built with CONFIG_SECURITY_LANDLOCK"
    end,
  },
  {
    seen = function(said)
      return has(said, "not supported")
    end,
    say = function(_, here)
      return ("switch Landlock on, which is built in%s: put `landlock` into the `lsm=` parameter of the kernel's "
        .. "command line"):format(here.security.list and (" (the modules are %s)"):format(here.security.list) or "")
    end,
  },
  {
    seen = function(said)
      return has(said, "not permitted")
    end,
    say = function()
      return "allow the landlock_* and seccomp system calls, which a seccomp profile most likely forbids here"
    end,
  },
}

local function from_causes(causes, said, found, here)
  for _, cause in ipairs(causes) do
    if cause.seen(said, here) then
      return cause.say(found, here)
    end
  end
  return nil
end

--- What to do about a runner that confined nothing.
-- @string name the runner
-- @string said what it said, or why it was not even started
-- @tparam table found `{ path? }`: its program, where there is one
-- @tparam table here of `moonsand.machine`
-- @treturn ?string nil where the cause is not known
function advice.unusable(name, said, found, here)
  if has(said, "passed over") then
    return "move it to a directory that commands cannot write, or choose another workspace"
  elseif has(said, "did not confine within the time") then
    return "see whether the program is what it should be, and what it waits for; it hangs"
  elseif name == "bwrap" and not found.path then
    return ("install bubblewrap%s"):format(install[here.distribution] and (": `%s`"):format(install[here.distribution])
      or ", which distributions have as a package")
  elseif has(said, "exec") and has(said, "permission denied") then
    return "give the program its mode bits back, or see whether its file system is mounted noexec"
  elseif name == "bwrap" then
    return from_causes(bwrap_causes, said, found, here)
  elseif name == "landlock" then
    return from_causes(landlock_causes, said, found, here)
  end
  return nil
end

return advice
