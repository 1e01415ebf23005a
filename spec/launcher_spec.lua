-- The launcher, driven alone through the core: what it reports, what it believes, what it confines, and how it ends a
-- tree. (Under bwrap the promises that need a namespace of its own are checked; without bwrap those skip by name.)

local core = require "moonsand.core"
local unistd = require "posix.unistd"
local stat = require "posix.sys.stat"
local stdlib = require "posix.stdlib"

local LAUNCHER = core.launcher_path()
local BASH = "/bin/bash"
local REPORT = { "--report-fd", tostring(core.REPORT_FD) }
local READ_ONLY = { "--ro", "/", "--rw", "/dev/null", "--stdin-null" }

local function concat(...)
  local all = {}
  for _, list in ipairs { ... } do
    table.move(list, 1, #list, #all + 1, all)
  end
  return all
end

local function as_argv(command)
  return type(command) == "table" and command or { BASH, "-c", command }
end

-- Runs the launcher with options and a command; its status once settled, with both streams' text.
local function launch(options, command, more)
  local spawn = {
    argv = concat({ LAUNCHER }, REPORT, options, { "--" }, as_argv(command)),
    env = { "PATH=" .. os.getenv("PATH"), "LC_ALL=C" },
    report = true,
    max_output_bytes = 65536,
    timeout_ms = 20000,
    grace_ms = 1000,
  }
  for name, value in pairs(more or {}) do
    spawn[name] = value
  end
  local process = assert(core.spawn(spawn))
  while process:wait() ~= "settled" do end
  local status = process:status()
  status.out = process:read("stdout", 0)
  status.err = process:read("stderr", 0)
  return status
end

local function plain(...)
  local process = assert(core.spawn {
    argv = { LAUNCHER, ... }, env = { "PATH=/usr/bin:/bin" }, report = false,
    max_output_bytes = 65536, timeout_ms = 20000,
  })
  while process:wait() ~= "settled" do end
  local status = process:status()
  return status.exit_code, process:read("stdout", 0), process:read("stderr", 0)
end

local probe_code, probe_line = plain("--probe")
local has_landlock = probe_code == 0
local abi = tonumber(probe_line:match("abi (%d+)"))

local function with_landlock(name, body)
  it(name, function()
    if not has_landlock then
      pending("Landlock is not enforced here")
    end
    body()
  end)
end

local function scratch()
  local directory = assert(stdlib.mkdtemp("/var/tmp/moonsand-spec-XXXXXX"))
  finally(function()
    os.execute("rm -rf " .. directory)
  end)
  return directory
end

-- Whether a process runs with exactly these words. (The launcher, which may be taken down yet, has them among its own.)
local function alive(words)
  return ("\n" .. io.popen("ps ax -o args"):read("a")):find("\n" .. words .. "\n", 1, true) ~= nil
end

local function mode_of(path)
  local status = assert(stat.stat(path))
  return status.st_mode & 4095
end

local function write(path, text)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
end

describe("the launcher's command line", function()
  local function refuses(what, ...)
    local code, out, err = plain(...)
    assert.equal(125, code)
    assert.equal("", out)
    assert.truthy(err:find("^moonsand%-launch: "), err)
    assert.truthy(err:find(what, 1, true), err)
    assert.equal(1, select(2, err:gsub("\n", "\n")), "one line")
  end

  it("refuses what it does not understand, before anything runs", function()
    refuses("--nope: unknown option", "--nope", "--", "/bin/true")
    refuses("unknown option", "/bin/true")
    refuses("no command")
    refuses("no command", "--")
    refuses("wants a value", "--ro")
    refuses("must be a path", "--", "true")
    refuses("must be an absolute path", "--rw", "tmp", "--", "/bin/true")
    refuses("(empty): must be an absolute path", "--ro", "", "--", "/bin/true")
    refuses("wants a descriptor", "--report-fd", "1", "--", "/bin/true")
    refuses("wants a descriptor", "--report-fd", "3x", "--", "/bin/true")
    refuses("report descriptor", "--report-fd", "77", "--", "/bin/true")
    refuses("--expect", "--expect", "luck", "--", "/bin/true")
    refuses("NAME=VALUE", "--env", "NAME", "--", "/bin/true")
    refuses("NAME=VALUE", "--env", "=x", "--", "/bin/true")
    refuses("takes no command", "--probe", "--", "/bin/true")
  end)

  it("passes the command's exit status on when nobody reads a report", function()
    assert.equal(42, (plain("--", BASH, "-c", "exit 42")))
    assert.equal(128 + 11, (plain("--", BASH, "-c", "kill -SEGV $$")))
    assert.equal(127, (plain("--", "/nonexistent/program")))
    assert.equal(126, (plain("--", "/etc/passwd")))
    assert.equal(125, (plain("--chdir", "/nonexistent", "--", "/bin/true")))
  end)

  it("gives the command the environment it was told, and reads none of it", function()
    local status = launch({ "--env", "A=1", "--env", "A=2", "--env", "LD_PRELOAD=", "--unset", "GONE" }, "env",
      { env = { "GONE=x", "A=0", "KEPT=y", "PATH=/bin:/usr/bin" } })
    assert.truthy(status.out:find("A=2\n", 1, true))
    assert.falsy(status.out:find("A=0", 1, true))
    assert.falsy(status.out:find("A=1", 1, true))
    assert.falsy(status.out:find("GONE", 1, true))
    assert.truthy(status.out:find("KEPT=y\n", 1, true))
  end)

  it("does without a report only where it was told that it may", function()
    local code, out = plain("--report-fd", "77", "--report-optional", "--", BASH, "-c", "echo ran; exit 3")
    assert.equal(3, code)
    assert.equal("ran\n", out)
  end)
end)

describe("the launcher's report", function()
  it("tells a signal from an exit status that looks like one", function()
    local segv = launch({}, "kill -SEGV $$")
    assert.equal("SIGSEGV", segv.signal)
    assert.is_nil(segv.exit_code)
    local looks = launch({}, "exit 139")
    assert.equal(139, looks.exit_code)
    assert.is_nil(looks.signal)
  end)

  it("keeps the command's own 124 to 127", function()
    for code = 124, 127 do
      local status = launch({}, "exit " .. code)
      assert.equal(code, status.exit_code)
      assert.is_nil(status.start_failure)
      assert.is_nil(status.runner_failure)
    end
  end)

  it("names the stage of a command that could not be started", function()
    local missing = launch({}, { "/nonexistent/program" })
    assert.equal("exec", missing.start_failure.stage)
    assert.equal("ENOENT", missing.start_failure.code)
    local directory = launch({ "--chdir", "/nonexistent" }, "echo ran")
    assert.equal("chdir", directory.start_failure.stage)
    assert.equal("", directory.out)
  end)

  it("is out of the command's reach", function()
    -- In full access root has the capability to look anywhere, so that there is nothing to keep from it.
    local options = unistd.geteuid() == 0 and has_landlock and READ_ONLY or {}
    local status = launch(options, [[
      ls -l /proc/self/fd
      for fd in 0 1 2 3 4 5; do readlink "/proc/$PPID/fd/$fd" && echo "launcher: $fd"; done
      dd if=/proc/$PPID/mem of=/dev/null bs=1 count=1 skip=4194304 && echo "memory read"
      exit 0]])
    assert.falsy(status.out:find("socket", 1, true), status.out)
    assert.falsy(status.out:find("memory read", 1, true), status.out)
    if unistd.geteuid() ~= 0 or has_landlock then
      assert.falsy(status.out:find("launcher: ", 1, true), status.out)
    end
  end)

  it("counts what was left behind, and leaves none of it", function()
    local marker = ("%d.%d%d"):format(86400 + math.random(1000), unistd.getpid(), math.random(1000))
    local script = "sleep %s & setsid sleep %s & (sleep %s &) ; nohup sleep %s >/dev/null 2>&1 & echo hi; exit 7"
    local status = launch({}, (script:gsub("%%s", marker)))
    assert.equal(7, status.exit_code)
    assert.equal("hi\n", status.out)
    assert.equal(4, status.leftovers)
    assert.falsy(alive("sleep " .. marker))
  end)

  it("counts a deep tree, threads' children and processes that forked on while being killed", function()
    local status = launch({}, [[
      f() { if [ $1 -gt 0 ]; then f $(($1 - 1)) & fi; sleep 1000; }
      f 20 & while ! [ "$(pgrep -g 0 -c sleep)" = 21 ]; do sleep 0.01; done; exit 0]])
    assert.equal(0, status.exit_code)
    assert.truthy(status.leftovers >= 21, status.leftovers)
  end)
end)

describe("the launcher as the Landlock runner", function()
  with_landlock("says how complete it is, after enforcing", function()
    assert.truthy(probe_line:find("^landlock: %a+ %(abi %d+%)\n$"))
    assert.equal(abi >= 5 and "full" or "partial", probe_line:match("landlock: (%a+)"))
    local status = launch(READ_ONLY, "true")
    assert.is_true(status.confined)
    assert.equal(abi, status.landlock_abi)
  end)

  with_landlock("denies every write and every change of metadata outside its grants", function()
    local directory = scratch()
    write(directory .. "/file", "text")
    os.execute(("chmod 755 %s; chmod 640 %s/file; ln -s file %s/link"):format(directory, directory, directory))
    local list = "find " .. directory .. " -printf '%p %y %m %u %g %s %T@ %l\n'"
    local before = io.popen(list):read("a")
    local status = launch(concat(READ_ONLY, { "--chdir", directory }), [[
      touch new; mkdir dir; ln file hard; ln -s file soft; mkfifo pipe; mknod node c 1 3
      echo x >file; echo x >>file; : >file
      rm -f file; mv file moved; rmdir .; truncate -s 0 file; chmod 600 file; chmod 700 .; chown 1 file; chown -h 1 link
      touch file; touch -h -d 2001-01-01 link; setfattr -n user.x -v 1 file; chattr +d file; python3 -c '
import socket; s = socket.socket(socket.AF_UNIX); s.bind("sock")'
      echo sink >/dev/null && echo sunk]])
    assert.equal("sunk\n", status.out)
    assert.equal(before, io.popen(list):read("a"))
  end)

  with_landlock("lets metadata change inside a writable grant, and nowhere else by any name", function()
    local outside, inside = scratch(), scratch()
    write(outside .. "/secret", "text")
    os.execute("chmod 640 " .. outside .. "/secret")
    local status = launch(concat(READ_ONLY, { "--rw", inside, "--chdir", inside }), ([[
      touch a; chmod 750 a; touch -d 2001-02-03 a; mkdir d; chmod 711 d
      ln -s a l; touch -h -d 2002-02-02 l; chown -h "$(id -u)" l
      stat -c '%a %y' a | cut -c 1-14; stat -c %y l | cut -c 1-10
      ln -s OUT/secret evil; ln -s OUT way
      for name in OUT/secret evil way/secret way/../OUT/secret ../../../..OUT/secret \
          /proc/self/cwd/evil /proc/self/root/OUT/secret
      do chmod 777 "$name" && echo "changed by $name"; touch "$name" && echo "touched by $name"; done
      exec 5<OUT/secret; chmod 777 /proc/self/fd/5 && echo "changed by descriptor"
      chmod 777 /dev/fd/5 && echo "and that"
      touch -h evil && echo link]]):gsub("OUT", outside), { env = { "PATH=/usr/bin:/bin" } })
    assert.equal("750 2001-02-03\n2002-02-02\nlink\n", status.out)
    assert.equal(tonumber("640", 8), mode_of(outside .. "/secret"))
    assert.equal(tonumber("711", 8), mode_of(inside .. "/d"))
    assert.same({}, status.gaps)
  end)

  with_landlock("never lets a device node be made", function()
    local inside = scratch()
    local status = launch(concat(READ_ONLY, { "--rw", inside, "--chdir", inside }), "mknod b b 7 0; mknod c c 1 3; ls")
    assert.equal("", status.out)
  end)

  with_landlock("fails closed when a grant cannot be had: nothing ran", function()
    local status = launch({ "--ro", "/", "--rw", "/nonexistent" }, "echo ran")
    assert.equal("", status.out)
    assert.is_false(status.confined)
    assert.equal("landlock_rule", status.runner_failure.stage)
    assert.equal("ENOENT", status.runner_failure.code)
    assert.truthy(status.err:find("^moonsand%-launch: landlock rule /nonexistent: "))
  end)

  with_landlock("cannot be killed by what it confines", function()
    local status = launch(READ_ONLY, "kill -9 $PPID; kill -9 -1; kill -9 -$PPID; sleep 1000 & exit 5")
    assert.equal(5, status.exit_code)
    assert.equal(1, status.leftovers)
  end)

  with_landlock("leaves no capability, whoever runs it", function()
    local status = launch(READ_ONLY, "grep -E 'Cap(Prm|Eff|Inh|Amb)|NoNewPrivs' /proc/self/status")
    assert.equal(4, select(2, status.out:gsub("\t0000000000000000\n", "")))
    assert.truthy(status.out:find("NoNewPrivs:\t1", 1, true))
  end)
end)

describe("the launcher inside another runner", function()
  local EXPECT = { "--expect", "pid-1", "--expect", "no-capabilities", "--expect", "read-only", "--stdin-null" }

  local function bwrap(...)
    return { "bwrap", "--die-with-parent", "--unshare-pid", "--as-pid-1", ... }
  end

  local function inside(runner, command, more)
    local path = os.getenv("PATH")
    local program = assert(runner[1])
    for directory in path:gmatch("[^:]+") do
      if program == "bwrap" and unistd.access(directory .. "/bwrap", "x") then
        runner[1] = directory .. "/bwrap"
      end
    end
    local process = assert(core.spawn {
      argv = concat(runner, { "--", LAUNCHER }, REPORT, EXPECT, more or {}, { "--", BASH, "-c", command }),
      env = { "PATH=" .. path }, report = true, max_output_bytes = 65536, timeout_ms = 20000, grace_ms = 500,
    })
    while process:wait() ~= "settled" do end
    local status = process:status()
    status.out, status.err = process:read("stdout", 0), process:read("stderr", 0)
    return status
  end

  local NO_CAPABILITIES = { "--cap-drop", "ALL" }
  local TREE = { "--ro-bind", "/", "/" }
  local DEVICES = { "--dev", "/dev", "--remount-ro", "/dev", "--proc", "/proc" }
  local HONEST = concat(NO_CAPABILITIES, TREE, DEVICES)
  if unistd.geteuid() == 0 then
    HONEST = concat(HONEST, { "--remount-ro", "/proc" })
  end
  local works = os.execute("command -v bwrap >/dev/null 2>&1") and inside(bwrap(table.unpack(HONEST)), "true").confined

  local function with_bwrap(name, body)
    it(name, function()
      if not works then
        pending("bwrap does not work here")
      end
      body()
    end)
  end

  local function refused(stage, status)
    assert.is_false(status.confined)
    assert.equal(stage, status.runner_failure.stage)
    assert.equal("", status.out)
  end

  it("refuses a runner that only pretends", function()
    local stub = scratch() .. "/bwrap"
    write(stub, '#!/bin/bash\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    os.execute("chmod 755 " .. stub)
    refused("expect_pid_1", inside({ stub }, "echo ran"))
  end)

  with_bwrap("confirms what it can see", function()
    local status = inside(bwrap(table.unpack(HONEST)), "echo ran")
    assert.is_true(status.confined)
    assert.equal("ran\n", status.out)
  end)

  with_bwrap("refuses a writable root, a writable /dev, a stray writable mount", function()
    local function with(...)
      return inside(bwrap(table.unpack(concat(...))), "echo ran")
    end
    refused("expect_read_only", with(NO_CAPABILITIES, { "--bind", "/", "/" }, DEVICES))
    refused("expect_read_only", with(NO_CAPABILITIES, TREE, { "--dev", "/dev", "--proc", "/proc" }))
    refused("expect_read_only", with(HONEST, { "--bind", "/var/tmp", "/var/tmp" }))
  end)

  with_bwrap("accepts a writable mount at and below a place it was told of, and not beside it", function()
    local options = concat(HONEST, { "--bind", "/var/tmp", "/var/tmp" })
    assert.is_true(inside(bwrap(table.unpack(options)), "true", { "--writable", "/var/tmp" }).confined)
    assert.is_true(inside(bwrap(table.unpack(options)), "true", { "--writable", "/var" }).confined)
    refused("expect_read_only", inside(bwrap(table.unpack(options)), "true", { "--writable", "/var/tm" }))
  end)

  with_bwrap("accepts a bound directory that shows itself, and refuses one that shows another", function()
    local directory = scratch()
    os.execute(("mkdir %s/a %s/b"):format(directory, directory))
    local a, b = directory .. "/a", directory .. "/b"
    local honest = concat(HONEST, { "--bind", a, a })
    assert.is_true(inside(bwrap(table.unpack(honest)), "true", { "--bound", a }).confined)
    local swapped = concat(HONEST, { "--bind", b, a })
    refused("expect_read_only", inside(bwrap(table.unpack(swapped)), "echo ran", { "--bound", a }))
    -- A root in a place that something fresh is mounted over, as one in /tmp is.
    os.execute(("mkdir -p %s/t/c"):format(directory))
    local t, c = directory .. "/t", directory .. "/t/c"
    local below_fresh = concat(HONEST, { "--tmpfs", t, "--bind", c, c })
    assert.is_true(inside(bwrap(table.unpack(below_fresh)), "true", { "--bound", c, "--writable", t }).confined)
  end)

  with_bwrap("keeps what is mounted later outside", function()
    if unistd.geteuid() ~= 0 then
      pending("needs uid 0")
    end
    -- In a mount namespace of this test's own, shared as an init system leaves it. The mount comes during the command.
    local directory = scratch()
    local words = {
      LATE = directory .. "/late",
      BWRAP = "bwrap --die-with-parent --unshare-pid --as-pid-1 " .. table.concat(HONEST, " ")
        .. " --cap-add CAP_SYS_ADMIN",
      LAUNCH = LAUNCHER .. " " .. table.concat(EXPECT, " "),
    }
    write(directory .. "/script", ([[
      mount --make-rshared / || exit 77
      mkdir @LATE
      @BWRAP -- @LAUNCH -- /bin/bash -c 'sleep 0.5; echo x >@LATE/x; chmod 700 @LATE; true' 2>&1 | cat >/dev/null &
      sleep 0.2
      mount -t tmpfs -o mode=755 none @LATE
      wait
      ls @LATE
      stat -c %a @LATE]]):gsub("@(%u+)", words))
    local pipe = io.popen("unshare -m --propagation private bash " .. directory .. "/script </dev/null")
    local out = pipe:read("a")
    local _, _, code = pipe:close()
    if code == 77 then
      pending("mounts cannot be shared here")
    end
    assert.equal("755\n", out)
  end)

  with_bwrap("refuses capabilities, and for uid 0 a writable /proc", function()
    if unistd.geteuid() ~= 0 then
      pending("needs uid 0")
    end
    local capable = concat(TREE, DEVICES, { "--remount-ro", "/proc" })
    refused("expect_no_capabilities", inside(bwrap(table.unpack(capable)), "echo ran"))
    local knobs = concat(NO_CAPABILITIES, TREE, DEVICES)
    refused("expect_read_only", inside(bwrap(table.unpack(knobs)), "echo ran"))
  end)

  with_bwrap("keeps device nodes' metadata, also for the uid that owns them", function()
    local before = mode_of("/dev/null")
    local status = inside(bwrap(table.unpack(HONEST)), [[
      chmod 600 /dev/null && echo changed; chown 1 /dev/zero && echo changed
      touch -d 2001-01-01 /dev/full && echo changed
      exec 5</dev/null; chmod 600 /proc/self/fd/5 && echo changed; chmod 600 /dev/fd/0 && echo changed; exit 0]])
    assert.equal("", status.out)
    assert.equal(before, mode_of("/dev/null"))
  end)
end)

describe("a tree that is to end", function()
  local function terminated(options, command, after_ms, grace_ms)
    local process = assert(core.spawn {
      argv = concat({ LAUNCHER }, REPORT, options, { "--", BASH, "-c", command }),
      env = { "PATH=/usr/bin:/bin" }, report = true, max_output_bytes = 65536,
      timeout_ms = after_ms, grace_ms = grace_ms,
    })
    while process:wait() ~= "settled" do end
    local status = process:status()
    status.out = process:read("stdout", 0)
    return status
  end

  it("gets its grace when it traps TERM", function()
    local status = terminated({}, 'trap "sleep 0.2; echo cleaned; exit 9" TERM; sleep 1000 & wait', 800, 5000)
    assert.equal("cleaned\n", status.out)
    assert.equal(9, status.exit_code)
    assert.is_true(status.timed_out)
    assert.truthy(status.duration_ms < 4000)
  end)

  it("gives grace to a child that traps TERM when its parent does not", function()
    local script = '(trap "sleep 0.2; echo child cleaned; exit" TERM; sleep 1000 & wait) & wait'
    local status = terminated({}, script, 800, 5000)
    assert.equal("child cleaned\n", status.out)
    assert.equal("SIGTERM", status.signal)
  end)

  it("is gone after the grace when it ignores TERM, and when it is stopped", function()
    local marker = ("%d.%d%d"):format(86400 + math.random(1000), unistd.getpid(), math.random(1000))
    local script = 'trap "" TERM; (setsid sleep %s) & sleep %s; sleep %s; sleep %s'
    local status = terminated({}, (script:gsub("%%s", marker)), 200, 300)
    assert.equal("SIGKILL", status.signal)
    local stopped = terminated({}, ("sleep %s & kill -STOP $! $$"):format(marker), 200, 300)
    assert.truthy(stopped.signal)
    assert.truthy(stopped.duration_ms < 3000)
    assert.falsy(alive("sleep " .. marker))
  end)
end)
