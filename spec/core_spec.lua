-- The binding: what Lua sees of the core, and what it never has to suffer; section 3 of the design.
local core = require "moonsand.core"
local signal = require "posix.signal"
local unistd = require "posix.unistd"
local world = require "world"

local bash = "/bin/bash"

local function spawn(command, options)
  local made = { argv = { bash, "-c", command }, env = { "PATH=/usr/bin:/bin" }, max_output_bytes = 64000 }
  for name, value in pairs(options or {}) do
    made[name] = value
  end
  return core.spawn(made)
end

local function settle(process)
  repeat
    local why = assert(process:wait())
  until why == "settled"
  return process:status()
end

describe("core.spawn", function()
  it("starts an exact argv in an exact environment", function()
    local process = assert(core.spawn {
      argv = { "/usr/bin/env" }, env = { "A=1", "B=two words" }, max_output_bytes = 1000,
    })
    assert.equal(0, settle(process).exit_code)
    assert.equal("A=1\nB=two words\n", (process:read("stdout")))
  end)

  it("says which step failed, with what errno, on what path", function()
    local cases = {
      { { argv = { "/nonexistent" } }, "exec", "ENOENT", "/nonexistent" },
      { { argv = { "/etc/passwd" } }, "exec", "EACCES", "/etc/passwd" },
      { { argv = { "/etc" } }, "exec", "EACCES", "/etc" },
      { { argv = { "/bin/true" }, cwd = "/nonexistent" }, "chdir", "ENOENT", "/nonexistent" },
      { { argv = { "/bin/true" }, cwd = "/etc/passwd" }, "chdir", "ENOTDIR", "/etc/passwd" },
    }
    for _, case in ipairs(cases) do
      local options, stage, code, path = table.unpack(case)
      options.env = {}
      local process, failure = core.spawn(options)
      assert.is_nil(process)
      assert.equal(stage, failure.stage)
      assert.equal(code, failure.code)
      assert.equal(path, failure.path)
      assert.is_true(failure.errno > 0)
      assert.truthy(tostring(failure):find(path, 1, true))
      assert.equal(failure.message, tostring(failure))
    end
  end)

  it("starts nothing for a NUL byte anywhere", function()
    for _, options in ipairs {
      { argv = { "/bin/true\0" }, env = {} },
      { argv = { "/bin/true", "a\0b" }, env = {} },
      { argv = { "/bin/true" }, env = { "A=\0" } },
      { argv = { "/bin/true" }, env = {}, cwd = "/\0" },
      { argv = { "/bin/true" }, env = {}, spill_dir = "/\0" },
    } do
      local process, failure = core.spawn(options)
      assert.is_nil(process)
      assert.equal("arguments", failure.stage)
      assert.equal("EINVAL", failure.code)
    end
  end)

  it("raises for what is no list of strings, naming it", function()
    for _, case in ipairs {
      { {}, "bad argv" },
      { { argv = "true" }, "bad argv" },
      { { argv = {} }, "bad argv" },
      { { argv = { "/bin/true", 5 } }, "bad argv %(entry 2 is a number" },
      { { argv = { "/bin/true" } }, "bad env" },
      { { argv = { "/bin/true" }, env = { {} } }, "bad env" },
      { { argv = { "/bin/true" }, env = {}, timeout_ms = "5" }, "bad timeout_ms" },
      { { argv = { "/bin/true" }, env = {}, timeout_ms = -1 }, "bad timeout_ms" },
      { { argv = { "/bin/true" }, env = {}, grace_ms = 0 / 0 }, "bad grace_ms" },
      { { argv = { "/bin/true" }, env = {}, grace_ms = math.huge }, "bad grace_ms" },
      { { argv = { "/bin/true" }, env = {}, cwd = {} }, "bad cwd" },
      { { argv = { "/bin/true" }, env = {}, input = 5 }, "bad input" },
      { { argv = { "/bin/true" }, env = {}, stdio = 5 }, "bad stdio" },
      { { argv = { "/bin/true" }, env = {}, stdio = { [0] = -7 } }, "bad stdio" },
    } do
      assert.error_matches(function()
        core.spawn(case[1])
      end, case[2])
    end
    assert.error_matches(core.spawn, "table expected")
  end)

  it("passes descriptors through", function()
    local reader, writer = unistd.pipe()
    local process = assert(spawn("echo through", { stdio = { [1] = writer } }))
    unistd.close(writer)
    settle(process)
    assert.equal("through\n", unistd.read(reader, 100))
    assert.equal("", unistd.read(reader, 100))
    unistd.close(reader)
    assert.equal(0, process:status().stdout.bytes)
  end)
end)

describe("a process", function()
  it("is read by offset, as often as one likes", function()
    local process = assert(spawn "printf 0123456789")
    settle(process)
    assert.same({ "0123456789", 10, 0 }, { process:read("stdout") })
    assert.same({ "3456789", 10, 0 }, { process:read("stdout", 3) })
    assert.same({ "345", 6, 0 }, { process:read("stdout", 3, 3) })
    assert.same({ "", 10, 0 }, { process:read("stdout", 10) })
    assert.same({ "", 0, 0 }, { process:read("stderr", 0) })
    assert.same({ "0123456789", 10, 0 }, { process:read("stdout", 0) })
  end)

  it("says how much was lost", function()
    local process = assert(spawn("seq 1 20000", { max_output_bytes = 1000 }))
    settle(process)
    local text, after, lost = process:read("stdout", 0)
    assert.equal(108894, after)
    assert.equal(108894, lost + #text)
    text, after, lost = process:read("stdout", 108890)
    assert.same({ "000\n", 108894, 0 }, { text, after, lost })
  end)

  it("waits as long as it is told", function()
    local process <close> = assert(spawn "sleep 60")
    for _, ms in ipairs { 0, 30, 100.5 } do
      local took, why = world.timed(function()
        return process:wait(ms)
      end)
      assert.equal("timeout", why)
      assert.is_true(took >= ms - 1 and took < ms + 100)
    end
  end)

  it("comes back from a wait with new output when asked to", function()
    local process <close> = assert(spawn "sleep 0.1; echo hi; sleep 60")
    local why
    repeat
      why = process:wait(nil, true)
    until why ~= "interrupted"
    assert.equal("output", why)
    assert.equal("hi\n", (process:read("stdout")))
  end)

  it("has a descriptor that an event loop can poll", function()
    local poll = require "posix.poll"
    local process <close> = assert(spawn "sleep 0.1; echo hi; sleep 60")
    local descriptor = process:fileno()
    assert.equal(descriptor, process:fileno())
    process:status()
    assert.equal(1, poll.rpoll(descriptor, 2000))
    process:status()
    assert.equal(0, poll.rpoll(descriptor, 50))
    process:terminate()
    assert.equal(1, poll.rpoll(descriptor, 2000))
    assert.equal("settled", settle(process).state)
  end)

  it("is terminated once", function()
    local process = assert(spawn("sleep 60", { grace_ms = 1000 }))
    assert.is_true(process:terminate())
    assert.is_false(process:terminate())
    local status = settle(process)
    assert.is_true(status.aborted)
    assert.equal("SIGTERM", status.signal)
    assert.is_false(process:terminate())
  end)

  it("is sent signals", function()
    local process = assert(spawn "trap 'echo usr1; exit 3' USR1; echo ready; while :; do sleep 0.02; done")
    world.eventually(2000, function()
      return process:status().stdout.bytes > 0
    end)
    assert.is_true(process:signal(signal.SIGUSR1))
    assert.equal(3, settle(process).exit_code)
    local sent, failure = process:signal(signal.SIGUSR1)
    assert.is_nil(sent)
    assert.equal("ESRCH", failure.code)
  end)

  it("is over when its block is left, and cannot be used any more", function()
    local seconds = world.unique_sleep()
    local kept
    do
      local process <close> = assert(spawn("sleep " .. seconds, { grace_ms = 1000 }))
      kept = process
    end
    assert.equal(0, world.processes_with(seconds))
    assert.error_matches(function()
      kept:status()
    end, "closed")
    assert.truthy(tostring(kept):find("closed"))
  end)

  it("that is garbage is killed", function()
    local seconds = world.unique_sleep()
    assert(spawn("sleep " .. seconds))
    collectgarbage()
    collectgarbage()
    assert.is_true(world.eventually(2000, function()
      return world.processes_with(seconds) == 0
    end))
  end)

  it("of another type is refused", function()
    local process = assert(spawn "true")
    assert.error_matches(function()
      process.status(io.stdout)
    end, "moonsand.core.process expected")
    assert.error_matches(function()
      process:read("stdin")
    end, "invalid option")
    settle(process)
  end)

  it("is drained, and its deadline fires on time, while Lua is busy for three seconds", function()
    local talker = assert(spawn("head -c 10000000 /dev/zero; echo finished >&2; sleep 60"))
    local sleeper = assert(spawn("sleep 60", { timeout_ms = 500, grace_ms = 1000 }))
    local busy_until = core.monotonic_ms() + 3000
    while core.monotonic_ms() < busy_until do end -- luacheck: ignore 542
    local status = sleeper:status()
    assert.equal("settled", status.state)
    assert.is_true(status.timed_out)
    assert.equal("SIGTERM", status.signal)
    assert.is_true(status.duration_ms >= 500 and status.duration_ms < 600, status.duration_ms)
    assert.equal(10000000, talker:status().stdout.bytes)
    assert.equal("finished\n", (talker:read("stderr")))
    talker:terminate(0)
    settle(talker)
  end)

  it("keeps its status when the host reaps every child there is", function()
    local wait = require "posix.sys.wait"
    local process = assert(core.spawn {
      argv = { core.launcher_path(), "--report-fd", tostring(core.REPORT_FD), "--", bash, "-c", "exit 5" },
      env = {},
      report = true,
    })
    local deadline = core.monotonic_ms() + 300
    repeat
      wait.wait(-1, wait.WNOHANG)
    until core.monotonic_ms() > deadline
    assert.equal(5, settle(process).exit_code)
  end)
end)

describe("Ctrl-C in the host", function()
  local program = [[
    local core = require "moonsand.core"
    local moonsand = require "moonsand"
    local function run()
      local shell <close> = assert(moonsand.unconfined_shell())
      shell:run { command = "sleep " .. seconds }
    end
    %s
  ]]
  local cases = {
    { "in the main program", "run()" },
    { "in a coroutine", "coroutine.wrap(run)()" },
    { "in a process that is waited for by hand", [[
      local process <close> = core.spawn { argv = { "/bin/sleep", seconds }, env = {}, grace_ms = 1000 }
      repeat local why = process:wait() until why == "settled"
    ]] },
  }
  for _, case in ipairs(cases) do
    it(case[1] .. " raises Lua's own error and stops the command", function()
      local seconds = world.unique_sleep()
      local host = world.host(("local seconds = %q\n"):format(seconds) .. program:format(case[2]))
      assert.is_true(world.eventually(5000, function()
        return world.processes_with(seconds) > 0
      end))
      host:signal(signal.SIGINT)
      local status, _, stderr = world.ended(host)
      assert.equal(1, status.exit_code)
      assert.truthy(stderr:find("interrupted!", 1, true), stderr)
      assert.is_true(status.duration_ms < 5000)
      assert.equal(0, world.processes_with(seconds))
    end)
  end

  it("calls a signal handler of the host, which may cancel the command", function()
    local host = world.host [[
      local signal = require "posix.signal"
      local moonsand = require "moonsand"
      local token = moonsand.cancel()
      signal.signal(signal.SIGUSR1, function() token:cancel() end)
      local shell <close> = assert(moonsand.unconfined_shell())
      local result = shell:run {
        command = "echo ready; sleep 60", cancel = token,
        on_output = function(chunk) io.write(chunk) io.flush() end,
      }
      io.write(tostring(result.aborted), " ", result.signal)
    ]]
    assert.is_true(world.eventually(5000, function()
      return host:status().stdout.bytes > 0
    end))
    host:signal(signal.SIGUSR1)
    local status, stdout, stderr = world.ended(host)
    assert.equal(0, status.exit_code, stderr)
    assert.equal("ready\ntrue SIGTERM", stdout)
  end)
end)

describe("a fork of the host", function()
  it("gets a clear error, not a hang, and leaves the parent's commands alone", function()
    local host = world.host [[
      local core = require "moonsand.core"
      local unistd = require "posix.unistd"
      local wait = require "posix.sys.wait"
      local moonsand = require "moonsand"
      local shell = assert(moonsand.unconfined_shell())
      local handle = assert(shell:start { command = "sleep 0.5; exit 4" })
      local process = core.spawn { argv = { "/bin/sleep", "60" }, env = {} }
      local child = unistd.fork()
      if child == 0 then
        local function say(value, failure) io.write(tostring(value), ": ", tostring(failure), "\n") end
        say(core.spawn { argv = { "/bin/true" }, env = {} })
        say(process:wait())
        say(process:status())
        say(process:read("stdout"))
        say(process:terminate())
        say(process:fileno())
        say(shell:run { command = "true" })
        say(pcall(handle.kill, handle))
        io.flush()
        os.exit(0, true) -- closes the state: every __gc runs
      end
      wait.wait(child)
      print("parent", handle:wait(), handle.exit_code, process:status().state)
      print(shell:run({ command = "exit 6" }).exit_code)
    ]]
    local status, stdout, stderr = world.ended(host)
    assert.equal(0, status.exit_code, stderr)
    local lines = {}
    for line in stdout:gmatch("[^\n]+") do
      lines[#lines + 1] = line
    end
    assert.equal(10, #lines, stdout)
    for i = 1, 8 do
      assert.truthy(lines[i]:find("fork", 1, true), lines[i])
    end
    assert.equal("parent\ttrue\t4\trunning", lines[9])
    assert.equal("6", lines[10])
  end)
end)

describe("core", function()
  it("finds the launcher beside itself", function()
    assert.truthy(core.launcher_path():find("^/.*/moonsand%-launch$"))
    assert.is_true(world.exists(core.launcher_path()))
  end)

  it("finds programs through absolute entries alone", function()
    assert.truthy(core.find_program("bash", "/nonexistent:/usr/bin:/bin"):find("^/.*/bash$"))
    assert.is_nil(core.find_program("bash", ""))
    assert.is_nil(core.find_program("bash", "usr/bin::.:/nonexistent"))
    assert.is_nil(core.find_program("passwd", "/etc"))
    assert.error_matches(function()
      core.find_program("/bin/bash", "/bin")
    end, "without a slash")
  end)

  it("knows the environment", function()
    local variables = core.environ()
    assert.equal(os.getenv("PATH"), variables.PATH)
  end)

  it("probes, bounded in time", function()
    local probe = core.probe({ bash, "-c", "echo out; echo err >&2" }, 5000)
    assert.is_true(probe.ok)
    assert.equal("out\n", probe.stdout)
    assert.equal("err\n", probe.stderr)
    assert.equal(0, probe.exit_code)
    probe = core.probe({ bash, "-c", "exit 3" }, 5000, {})
    assert.is_false(probe.ok)
    assert.equal(3, probe.exit_code)
    local took
    took, probe = world.timed(function()
      return core.probe({ "/bin/sleep", "60" }, 100)
    end)
    assert.is_false(probe.ok)
    assert.is_true(probe.timed_out)
    assert.is_true(took < 1000)
    probe = core.probe({ "/nonexistent" }, 100)
    assert.is_false(probe.ok)
    assert.equal("ENOENT", probe.failure.code)
    assert.error_matches(function()
      core.probe({ "/bin/true" }, 0)
    end, "positive")
  end)

  it("has words for numbers", function()
    assert.equal("SIGTERM", core.signal_name(15))
    assert.is_nil(core.signal_name(12345))
    assert.equal("linux", core.platform)
    assert.is_string(core.version)
    assert.equal(3, core.REPORT_FD)
    assert.equal(unistd.geteuid(), core.geteuid())
  end)
end)
