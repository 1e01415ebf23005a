-- The life of a background command and its handle; sections 3 and 7 of the design.
local moonsand = require "moonsand"
local world = require "world"

world.under_each(describe, function(options, works)
  local shell

  before_each(function()
    if works then
      shell = assert(moonsand.shell { mode = options.mode, runner = options.runner, grace_ms = 1000 })
    end
  end)

  after_each(function()
    if works then
      shell:close()
    end
  end)

  local function promise(name, check)
    it(name, function()
      if not works then
        pending(options.name .. " does not work here")
        return
      end
      check()
    end)
  end

  local function start(command, more)
    local request = { command = command }
    for name, value in pairs(more or {}) do
      request[name] = value
    end
    return assert(shell:start(request))
  end

  promise("a handle is running, then completed with its exit code", function()
    local handle = start "echo a; sleep 0.2; exit 3"
    assert.equal("running", handle.status)
    assert.is_nil(handle.exit_code)
    assert.is_nil(handle.sandbox)
    assert.is_true(handle:wait())
    assert.equal("completed", handle.status)
    assert.equal(3, handle.exit_code)
    assert.is_nil(handle.signal)
    assert.is_nil(handle.error)
    assert.is_true(handle.duration_ms >= 200)
    assert.is_false(handle:kill())
    assert.equal("completed", handle.status)
  end)

  promise("a handle knows the true signal", function()
    local handle = start "ulimit -c 0; kill -SEGV $$"
    handle:wait()
    assert.equal("completed", handle.status)
    assert.equal("SIGSEGV", handle.signal)
    assert.is_nil(handle.exit_code)
  end)

  promise("sandbox facts are there once it is settled, where there is a sandbox", function()
    local handle = start "true"
    handle:wait()
    if options.runner then
      assert.equal(options.mode, handle.sandbox.mode)
      assert.equal(options.runner, handle.sandbox.runner)
      assert.is_false(handle.sandbox.denied)
      assert.truthy(handle.sandbox.enforcement == "full" or handle.sandbox.enforcement == "partial")
      assert.is_nil(handle.sandbox.runner_failed)
      handle = start("touch /var/tmp/moonsand-spec-denied; exit 1")
      handle:wait()
      assert.is_true(handle.sandbox.denied)
    else
      assert.is_nil(handle.sandbox)
    end
  end)

  promise("kill is true once, and the tree has its grace", function()
    local seconds = world.unique_sleep()
    local handle = start(("trap 'echo cleaned; exit 0' TERM; echo ready; sleep %s & wait"):format(seconds))
    world.eventually(2000, function()
      return handle.process:status().stdout.bytes > 0
    end)
    assert.is_true(handle:kill())
    assert.is_false(handle:kill())
    assert.is_true(handle:wait(3000))
    assert.equal("killed", handle.status)
    assert.equal(0, handle.exit_code)
    assert.is_false(handle:kill())
    assert.equal("ready\ncleaned\n", handle:read().delta)
    assert.equal(0, world.processes_with(seconds))
  end)

  promise("a tree that ignores SIGTERM is killed after the grace", function()
    local seconds = world.unique_sleep()
    local handle = start(("trap '' TERM; sleep %s & sleep %s"):format(seconds, seconds), { grace_ms = 200 })
    world.eventually(2000, function()
      return world.processes_with(seconds) == 2
    end)
    handle:kill()
    assert.is_true(handle:wait(2000))
    assert.equal("SIGKILL", handle.signal)
    assert.equal(0, world.processes_with(seconds))
  end)

  promise("a stopped tree dies too", function()
    local seconds = world.unique_sleep()
    local handle = start(("sleep %s & kill -STOP $!; echo ready; kill -STOP $$; sleep 1"):format(seconds))
    world.eventually(2000, function()
      return handle.process:status().stdout.bytes > 0
    end)
    handle:kill()
    assert.is_true(handle:wait(3000))
    assert.equal(0, world.processes_with(seconds))
  end)

  promise("leaving its block kills it", function()
    local seconds = world.unique_sleep()
    do
      local handle <close> = start("sleep " .. seconds)
      assert.is_true(world.eventually(2000, function()
        return handle.status == "running" and world.processes_with(seconds) > 0
      end))
    end
    assert.equal(0, world.processes_with(seconds))
  end)

  promise("closing the shell kills all of it", function()
    local seconds = world.unique_sleep()
    local handles = {}
    for i = 1, 5 do
      handles[i] = start("sleep " .. seconds)
    end
    shell:close()
    assert.equal(0, world.processes_with(seconds))
    for _, handle in ipairs(handles) do
      assert.equal("killed", handle.status)
    end
    assert.error_matches(function()
      shell:start { command = "true" }
    end, "closed")
    assert.error_matches(function()
      shell:run { command = "true" }
    end, "closed")
  end)

  promise("a handle that is garbage kills its command", function()
    local seconds = world.unique_sleep()
    start("sleep " .. seconds)
    collectgarbage()
    collectgarbage()
    assert.is_true(world.eventually(2000, function()
      return world.processes_with(seconds) == 0
    end))
  end)

  promise("a command that is given up while it starts never runs on", function()
    local seconds = world.unique_sleep()
    for _ = 1, 200 do
      start("sleep " .. seconds)
      collectgarbage()
      collectgarbage()
    end
    os.execute("sleep 0.3") -- whoever was about to start has started
    assert.is_true(world.eventually(2000, function()
      return world.processes_with(seconds) == 0
    end))
  end)

  promise("wait is bounded, and false while it runs", function()
    local handle <close> = start "sleep 60"
    local took, over = world.timed(function()
      return handle:wait(100)
    end)
    assert.is_false(over)
    assert.is_true(took >= 99 and took < 500, took)
    took, over = world.timed(function()
      return handle:wait(600) -- longer than the core waits at a time
    end)
    assert.is_false(over)
    assert.is_true(took >= 599 and took < 1000, took)
    assert.is_false(handle:wait(0))
    assert.error_matches(function()
      handle:wait("soon")
    end, "number of milliseconds")
    assert.error_matches(function()
      handle:wait(0 / 0)
    end, "number of milliseconds")
  end)

  promise("it has no timeout", function()
    local handle = start("sleep 0.5; exit 1", { timeout_ms = 50 })
    assert.is_true(handle:wait())
    assert.equal(1, handle.exit_code)
    assert.equal("completed", handle.status)
  end)

  promise("a read is what is new, stderr under a line of its own", function()
    local handle = start("echo one; echo oops >&2; read -r _ < <(sleep 0.3); echo two; printf three")
    world.eventually(2000, function()
      local status = handle.process:status()
      return status.stdout.bytes > 0 and status.stderr.bytes > 0
    end)
    assert.same({ delta = "one\n[stderr]\noops\n", lossy = false }, handle:read())
    assert.same({ delta = "", lossy = false }, handle:read())
    handle:wait()
    assert.same({ delta = "two\nthree", lossy = false }, handle:read())
    assert.same({ delta = "", lossy = false }, handle:read())
  end)

  promise("a read does not tear a character apart", function()
    local handle = start [[printf 'a\xe2\x82'; sleep 0.4; printf '\xacb\xf0\x9f']]
    world.eventually(2000, function()
      return handle.process:status().stdout.bytes > 0
    end)
    assert.equal("a", handle:read().delta)
    handle:wait()
    assert.equal("€b\xf0\x9f", handle:read().delta) -- nothing more comes: what is there is told
  end)

  promise("a read that lost bytes says so, and where all of them are", function()
    local handle = start("seq 1 20000", { max_output_bytes = 1000 })
    handle:wait()
    local read = handle:read()
    assert.is_true(read.lossy)
    assert.truthy(read.delta:find("20000\n$"))
    assert.is_true(#read.delta <= 1000)
    assert.equal(108894, #world.read(read.stdout_spill_path))
    assert.is_nil(read.stderr_spill_path)
    read = handle:read()
    assert.is_false(read.lossy)
    assert.equal("", read.delta)
  end)

  promise("a token aborts it", function()
    local token = moonsand.cancel()
    local one, two = start("sleep 60", { cancel = token }), start("sleep 60", { cancel = token })
    token:cancel()
    assert.is_true(one:wait(3000) and two:wait(3000))
    assert.equal("killed", one.status)
    assert.equal("killed", two.status)
    local handle, err = shell:start { command = "true", cancel = token }
    assert.is_nil(handle)
    assert.equal("ABORTED", err.code)
  end)

  promise("a workdir that is not there settles as killed, with the error to be read", function()
    local handle = start("true", { workdir = "/nonexistent" })
    handle:wait()
    assert.equal("killed", handle.status)
    assert.equal("START_FAILED", handle.error.code)
    assert.is_nil(handle.exit_code)
    assert.truthy(handle:read().delta:find("/nonexistent: No such file or directory", 1, true))
    assert.equal("", handle:read().delta)
    assert.is_false(handle:kill())
  end)

  promise("many at once each settle with their own facts", function()
    local handles = {}
    for i = 1, 60 do
      handles[i] = start(("echo out %d; exit %d"):format(i, i))
    end
    for i = 60, 1, -1 do
      assert.is_true(handles[i]:wait(20000))
      assert.equal(i, handles[i].exit_code)
      assert.equal(("out %d\n"):format(i), handles[i]:read().delta)
    end
  end)
end)

describe("a machine without descriptors", function()
  it("runs the commands that fit, and settles the others as killed with a structured error", function()
    local host = world.host [[
      local resource = require "posix.sys.resource"
      resource.setrlimit(resource.RLIMIT_NOFILE, { rlim_cur = 60, rlim_max = 60 })
      local moonsand = require "moonsand"
      local shell <close> = assert(moonsand.unconfined_shell())
      local handles, failed, codes = {}, 0, {}
      for i = 1, 100 do
        local handle, err = shell:start { command = "sleep 0.5; exit 9" }
        handles[i] = assert(handle)
        if err then
          failed = failed + 1
          assert(err.code == "START_FAILED" and err == handle.error)
          assert(handle.status == "killed" and handle:read().delta:find("Too many open files"))
          codes[err.cause.code] = true
        end
      end
      local fine = 0
      for _, handle in ipairs(handles) do
        handle:wait()
        if handle.exit_code == 9 then fine = fine + 1 end
      end
      print(fine > 3, failed > 3, fine + failed, codes.EMFILE, next(codes, next(codes)))
      print(shell:run({ command = "exit 6" }).exit_code)
    ]]
    local status, stdout, stderr = world.ended(host)
    assert.equal(0, status.exit_code, stderr)
    assert.equal("true\ttrue\t100\ttrue\tnil\n6\n", stdout)
  end)
end)
