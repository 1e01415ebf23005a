-- What holds for every command in the foreground, whoever confines it; sections 3 and 7 of the design.
local moonsand = require "moonsand"
local world = require "world"

world.under_each(describe, function(options, works)
  local shell

  setup(function()
    if works then
      shell = assert(moonsand.shell { mode = options.mode, runner = options.runner, grace_ms = 2000 })
    end
  end)

  teardown(function()
    if shell then
      shell:close()
    end
  end)

  -- A promise about a shell that works here; skipped by name where its runner does not.
  local function promise(name, check)
    it(name, function()
      if not works then
        pending(options.name .. " does not work here")
        return
      end
      check()
    end)
  end

  -- The result of a request that is expected to run.
  local function run(request)
    if type(request) == "string" then
      request = { command = request }
    end
    return assert(shell:run(request))
  end

  promise("a result has stdout, stderr and the exit code, each its own", function()
    local result = run "echo out; echo err >&2; exit 7"
    assert.equal(7, result.exit_code)
    assert.is_nil(result.signal)
    assert.same({ text = "out\n", truncated = false, bytes = 4 }, result.stdout)
    assert.same({ text = "err\n", truncated = false, bytes = 4 }, result.stderr)
    assert.is_false(result.timed_out)
    assert.is_false(result.aborted)
    assert.equal(120000, result.timeout_ms)
    assert.equal(0, result.leftovers)
    assert.is_true(result.duration_ms >= 0)
  end)

  promise("exit codes that sandboxes use for themselves stay the command's", function()
    for _, code in ipairs { 124, 125, 126, 127, 128, 255 } do
      assert.equal(code, run("exit " .. code).exit_code)
    end
  end)

  promise("signals are true", function()
    for _, name in ipairs { "SEGV", "KILL", "TERM", "ABRT", "HUP" } do
      local result = run("ulimit -c 0; kill -" .. name .. " $$")
      assert.equal("SIG" .. name, result.signal)
      assert.is_nil(result.exit_code)
    end
  end)

  promise("a command can time out and exit 0", function()
    local result = run {
      command = "trap 'echo bye; exit 0' TERM; echo hi; while :; do sleep 0.05; done",
      timeout_ms = 300,
    }
    assert.is_true(result.timed_out)
    assert.is_false(result.aborted)
    assert.equal(0, result.exit_code)
    assert.equal("hi\nbye\n", result.stdout.text)
    assert.equal(300, result.timeout_ms)
    assert.truthy(moonsand.markers.render(result):find("\n[timed out after 300ms]\n[exit code: 0]", 1, true))
  end)

  promise("a tree that ignores SIGTERM is gone after the grace", function()
    local seconds = world.unique_sleep()
    local took, result = world.timed(function()
      return run {
        command = ("trap '' TERM; sleep %s & sleep %s; sleep %s"):format(seconds, seconds, seconds),
        timeout_ms = 200,
        grace_ms = 300,
      }
    end)
    assert.is_true(result.timed_out)
    assert.equal("SIGKILL", result.signal)
    assert.is_true(took >= 500 and took < 1500, took)
    assert.equal(0, world.processes_with(seconds))
  end)

  promise("stdin is empty, or the given bytes", function()
    assert.equal("", run("cat").stdout.text)
    assert.equal("a\0b\n", run({ command = "cat", stdin = "a\0b\n" }).stdout.text)
    assert.equal("", run({ command = "cat", stdin = "" }).stdout.text)
    local bytes = ("0123456789abcdef"):rep(20000)
    assert.equal(tostring(#bytes), run({ command = "wc -c | tr -d ' '", stdin = bytes }).stdout.text:match("%d+"))
    assert.equal("done\n", run({ command = "exec <&-; echo done", stdin = bytes }).stdout.text)
  end)

  promise("the command string is bash's, exactly", function()
    assert.equal("a b|$x|'\n", run([[printf '%s\n' "a b|\$x|'"]]).stdout.text)
    assert.equal("1 2 3\n", run("a=(1 2 3); echo ${a[@]}").stdout.text)
    assert.equal("bash\n", run("echo $0").stdout.text:gsub("^.*/", ""))
    assert.equal("-n\n", run("printf -- '-n\\n'").stdout.text)
  end)

  promise("the environment is scrubbed and says what moonsand knows", function()
    local result = run { command = "env", env = { GIVEN = "yes", GIVEN_TOKEN = "too" } }
    local text = "\n" .. result.stdout.text
    assert.truthy(text:find("\nGIVEN=yes\n", 1, true))
    assert.truthy(text:find("\nGIVEN_TOKEN=too\n", 1, true))
    assert.truthy(text:find("\nTERM=dumb\n", 1, true))
    assert.truthy(text:find("\nMOONSAND_MODE=" .. options.mode .. "\n", 1, true))
  end)

  promise("variables that steer a program's start reach the command, and it alone", function()
    local directory = world.directory()
    local ran = world.write(directory .. "/env.sh", "echo from BASH_ENV as $PPID, $MOONSAND_MODE\n")
    local result = run { command = "echo command", env = { BASH_ENV = ran } }
    world.remove(directory)
    local before, parent, mode, after = result.stdout.text:match("^(from BASH_ENV) as (%d+), (%S+)\n(command)\n$")
    assert.equal("from BASH_ENV", before)
    assert.equal("command", after)
    assert.equal(options.mode, mode)
    if options.runner == "bwrap" then
      assert.equal("1", parent) -- inside: the launcher is pid 1 there
    end
  end)

  promise("a background job of the command does not hold it up, and does not survive it", function()
    for _, shape in ipairs {
      "sleep %s & echo hi",
      "setsid sleep %s & echo hi",
      "(sleep %s & ) ; nohup sleep %s >/dev/null 2>&1 & echo hi",
      "(setsid sh -c 'sleep %s & sleep %s' >/dev/null 2>&1 &) ; sleep 0.1; echo hi",
    } do
      local seconds = world.unique_sleep()
      local took, result = world.timed(function()
        return run((shape:gsub("%%s", seconds)))
      end)
      assert.equal("hi\n", result.stdout.text)
      assert.equal(0, result.exit_code)
      assert.is_true(result.leftovers >= 1)
      assert.is_true(took < 1000, took)
      assert.equal(0, world.processes_with(seconds))
    end
  end)

  promise("a long output is its end, and all of it is in a file", function()
    local result = run { command = "seq 1 20000", max_output_bytes = 1000 }
    local stdout = result.stdout
    assert.is_true(stdout.truncated)
    assert.equal(108894, stdout.bytes)
    assert.is_true(#stdout.text <= 1000)
    assert.truthy(stdout.text:find("19999\n20000\n$"))
    assert.truthy(stdout.spill_path)
    assert.equal(108894, #world.read(stdout.spill_path))
    assert.equal(stdout.text, world.read(stdout.spill_path):sub(-#stdout.text))
    assert.is_false(result.stderr.truncated)
  end)

  promise("an output longer than max_spill_bytes is its end and no file", function()
    local result = run { command = "seq 1 20000", max_output_bytes = 1000, max_spill_bytes = 5000 }
    assert.is_true(result.stdout.truncated)
    assert.is_nil(result.stdout.spill_path)
    assert.equal(108894, result.stdout.bytes)
    assert.truthy(result.stdout.text:find("20000\n$"))
  end)

  promise("a truncated text begins with a whole character", function()
    for extra = 0, 3 do
      local command = ("printf '%s'; for i in {1..400}; do printf '\\u20ac'; done"):format(("x"):rep(extra))
      local result = run { command = command, max_output_bytes = 1000, env = { LC_ALL = "C.UTF-8" } }
      assert.is_true(result.stdout.truncated)
      assert.truthy(utf8.len(result.stdout.text))
      assert.is_true(#result.stdout.text > 990)
    end
  end)

  promise("a character that was printed in two pieces is whole", function()
    local result = run [[printf '\xe2'; sleep 0.1; printf '\x82'; sleep 0.1; printf '\xac']]
    assert.equal("€", result.stdout.text)
  end)

  promise("raw bytes are kept, and valid UTF-8 is rendered", function()
    local result = run [[printf 'a\xffb\0c']]
    assert.equal("a\xffb\0c", result.stdout.text)
    assert.equal("a\u{FFFD}b\0c", moonsand.markers.render(result))
  end)

  promise("on_output gets everything, in order, as it comes", function()
    local chunks, first_after = {}, nil
    local started = require("moonsand.core").monotonic_ms()
    local result = run {
      command = "echo one; sleep 0.4; echo two; echo err >&2; sleep 0.1; echo three",
      on_output = function(chunk, stream, lost)
        first_after = first_after or require("moonsand.core").monotonic_ms() - started
        assert.equal(0, lost)
        chunks[stream] = (chunks[stream] or "") .. chunk
      end,
    }
    assert.equal("one\ntwo\nthree\n", chunks.stdout)
    assert.equal("err\n", chunks.stderr)
    assert.equal("one\ntwo\nthree\n", result.stdout.text)
    assert.is_true(first_after < 350, first_after)
  end)

  promise("a slow on_output loses nothing that is in the spill file", function()
    local total, slow = 0, true
    local result = run {
      command = "seq 1 200000",
      max_output_bytes = 1000,
      on_output = function(chunk, _, lost)
        assert.equal(0, lost)
        total = total + #chunk
        if slow then
          slow = false
          os.execute("sleep 0.5")
        end
      end,
    }
    assert.equal(result.stdout.bytes, total)
  end)

  promise("an error in on_output stops the command and is raised", function()
    local seconds = world.unique_sleep()
    assert.error_matches(function()
      shell:run {
        command = "echo hi; sleep " .. seconds,
        on_output = function()
          error("callback failed")
        end,
      }
    end, "callback failed")
    assert.equal(0, world.processes_with(seconds))
  end)

  promise("a token outlives the command that a callback's error stopped", function()
    local token = moonsand.cancel()
    pcall(shell.run, shell, { command = "echo hi; sleep 60", cancel = token, on_output = error })
    assert.is_true(token:cancel())
  end)

  promise("a token cancelled in a callback aborts the command", function()
    local token, seconds = moonsand.cancel(), world.unique_sleep()
    local result = run {
      command = "echo hi; sleep " .. seconds,
      cancel = token,
      on_output = function()
        token:cancel()
      end,
    }
    assert.is_true(result.aborted)
    assert.is_false(result.timed_out)
    assert.equal("SIGTERM", result.signal)
    assert.equal("hi\n", result.stdout.text)
    assert.equal(0, world.processes_with(seconds))
  end)

  promise("a token cancelled by another coroutine aborts the command", function()
    local token = moonsand.cancel()
    local other = coroutine.wrap(function()
      coroutine.yield()
      token:cancel()
    end)
    other()
    local result = run { command = "echo hi; sleep 60", cancel = token, on_output = other }
    assert.is_true(result.aborted)
  end)

  promise("a token that was cancelled before starts nothing", function()
    local token = moonsand.cancel()
    assert.is_true(token:cancel())
    assert.is_false(token:cancel())
    local result, err = shell:run { command = "true", cancel = token }
    assert.is_nil(result)
    assert.equal("ABORTED", err.code)
  end)

  promise("a workdir that is not there is a start error, and nothing runs elsewhere", function()
    local result, err = shell:run { command = "pwd", workdir = "/nonexistent/here" }
    assert.is_nil(result)
    assert.equal("START_FAILED", err.code)
    assert.equal("chdir", err.cause.stage)
    assert.equal("ENOENT", err.cause.code)
    assert.truthy(tostring(err):find("/nonexistent/here", 1, true))
    result, err = shell:run { command = "pwd", workdir = "/etc/passwd" }
    assert.is_nil(result)
    assert.equal("ENOTDIR", err.cause.code)
  end)

  promise("a workdir is where the command runs", function()
    assert.equal("/usr/lib\n", run({ command = "pwd", workdir = "/usr/lib" }).stdout.text)
  end)

  promise("a bash that is not there is a start error", function()
    local other = assert(moonsand.shell { mode = options.mode, runner = options.runner })
    local command = require "moonsand.executor.command"
    local argv = command.argv
    command.argv = function(text)
      return { "/nonexistent/bash", "-c", text }
    end
    local result, err = other:run { command = "true" }
    command.argv = argv
    assert.is_nil(result)
    assert.equal("START_FAILED", err.code)
    assert.truthy(tostring(err):find("/nonexistent/bash", 1, true))
    assert.equal(0, assert(other:run { command = "true" }).exit_code)
  end)

  promise("bad input runs nothing", function()
    local directory = world.directory()
    for _, request in ipairs {
      { command = "" },
      { command = "touch " .. directory .. "/x\0y" },
      { command = "touch " .. directory .. "/x", timeout_ms = 0 },
      { command = "touch " .. directory .. "/x", timeout_ms = 0 / 0 },
      { command = "touch " .. directory .. "/x", timeout_ms = "5" },
      { command = "touch " .. directory .. "/x", mode = "read-write" },
      { command = "touch " .. directory .. "/x", workdir = "/a\0b" },
      { command = "touch " .. directory .. "/x", timeout = 5 },
    } do
      local result, err = shell:run(request)
      assert.is_nil(result)
      assert.equal("INVALID_REQUEST", err.code)
      local handle
      handle, err = shell:start(request)
      assert.is_nil(handle)
      assert.equal("INVALID_REQUEST", err.code)
    end
    assert.is_false(world.exists(directory .. "/x"))
    world.remove(directory)
  end)
end)
