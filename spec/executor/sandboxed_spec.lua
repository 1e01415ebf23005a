-- What the confining executor says about the sandbox, and when it says that nothing ran; sections 5 and 7 of the
-- design.
local moonsand = require "moonsand"
local world = require "world"

local function skip_unless(runner)
  if not world.runner_works(runner) then
    pending(runner .. " does not work here")
    return true
  end
  return false
end

local denial = { bwrap = "Read-only file system", landlock = "Permission denied" }

for _, runner in ipairs { "bwrap", "landlock" } do
  describe("a command under " .. runner, function()
    local root

    before_each(function()
      root = world.directory()
    end)

    after_each(function()
      world.remove(root)
    end)

    local function shell(options)
      local made = { mode = "read-only", runner = runner, workspace_root = root }
      for name, value in pairs(options or {}) do
        made[name] = value
      end
      return assert(moonsand.shell(made))
    end

    local function promise(name, check)
      it(name, function()
        if not skip_unless(runner) then
          check()
        end
      end)
    end

    promise("carries the mode, the runner and the enforcement of that run", function()
      for _, mode in ipairs { "read-only", "workspace-write" } do
        local sandbox = assert(shell({ mode = mode }):run { command = "true" }).sandbox
        assert.equal(mode, sandbox.mode)
        assert.equal(runner, sandbox.runner)
        assert.is_false(sandbox.denied)
        if sandbox.enforcement == "partial" then
          assert.is_string(sandbox.gaps[1])
        else
          assert.equal("full", sandbox.enforcement)
          assert.is_nil(sandbox.gaps)
        end
      end
    end)

    promise("that was denied says so, and the file is not there", function()
      local target = root .. "/file"
      local result = assert(shell():run { command = "echo x > " .. target })
      assert.equal(1, result.exit_code)
      assert.is_true(result.sandbox.denied)
      assert.truthy(result.stderr.text:find(denial[runner], 1, true))
      assert.is_false(world.exists(target))
      assert.equal("[sandbox: file access denied under read-only mode]",
        moonsand.markers.render(result):match("\n(%[sandbox:[^\n]*)\n"))
    end)

    promise("that was denied but exited 0 was not denied", function()
      assert.is_false(shell():run({ command = "echo x > " .. root .. "/file || true" }).sandbox.denied)
    end)

    promise("writes below the root in workspace-write, and nowhere else", function()
      local other = world.directory()
      local confined = shell { mode = "workspace-write" }
      local result = assert(confined:run { command = "echo x > file && cat file && mktemp >/dev/null && pwd" })
      assert.equal("x\n" .. root .. "\n", result.stdout.text)
      assert.equal("x\n", world.read(root .. "/file"))
      result = confined:run { command = "echo x > " .. other .. "/file" }
      assert.is_true(result.sandbox.denied)
      assert.is_false(world.exists(other .. "/file"))
      world.remove(other)
    end)

    promise("may be given a wider mode for itself alone", function()
      local confined = shell()
      local spec = assert(confined:resolve { command = "echo x > file", mode = "workspace-write" })
      assert.equal("workspace-write", spec.policy.mode)
      assert.equal(0, confined:run(spec).exit_code)
      assert.is_true(world.exists(root .. "/file"))
      local result = confined:run { command = "echo x > other" }
      assert.is_true(result.sandbox.denied)
      assert.is_false(world.exists(root .. "/other"))
      assert.equal("read-only", confined.sandbox_mode)
    end)

    promise("runs in the root, and a relative workdir is below it", function()
      assert(os.execute(("mkdir '%s/sub'"):format(root)))
      assert.equal(root .. "\n", shell():run({ command = "pwd" }).stdout.text)
      assert.equal(root .. "/sub\n", shell():run({ command = "pwd", workdir = "sub" }).stdout.text)
    end)

    promise("is a command's result, whatever it prints", function()
      local confined = shell()
      for _, text in ipairs { "bwrap: fake", "moonsand-launch: landlock: fake", "sandbox-exec: fake" } do
        for _, code in ipairs { 1, 125 } do
          local result, err = confined:run { command = ("echo '%s' >&2; exit %d"):format(text, code) }
          assert.is_nil(err)
          assert.equal(code, result.exit_code)
          local handle = assert(confined:start { command = ("echo '%s' >&2; exit %d"):format(text, code) })
          handle:wait()
          assert.equal(code, handle.exit_code)
          assert.is_nil(handle.sandbox.runner_failed)
        end
      end
    end)

    promise("speaks English when the user does not, in the user's characters", function()
      local german = "LC_ALL=de_DE.UTF-8 ls /nonexistent 2>&1"
      local list <close> = io.popen(german)
      local text = list:read("a")
      if not text:find("nicht") then
        pending("German messages are not installed here")
        return
      end
      local program = ([[
        local moonsand = require "moonsand"
        local shell = assert(moonsand.shell { mode = "read-only", runner = %q, workspace_root = %q })
        local result = assert(shell:run { command = "locale charmap; echo x > file" })
        print(result.sandbox.denied, result.stdout.text, result.stderr.text)
      ]]):format(runner, root)
      for _, variables in ipairs {
        { "LC_ALL=de_DE.UTF-8" },
        { "LANG=de_DE.UTF-8", "LANGUAGE=de" },
        { "LC_MESSAGES=de_DE.UTF-8", "LC_CTYPE=de_DE.UTF-8" },
      } do
        local host = world.host(program, variables)
        local status, stdout, stderr = world.ended(host)
        assert.equal(0, status.exit_code, stderr)
        assert.truthy(stdout:find("^true\tUTF%-8\n"), stdout)
        assert.truthy(stdout:find(denial[runner], 1, true), stdout)
      end
    end)

    promise("sees TMPDIR as a place that it can write in workspace-write", function()
      local result = shell({ mode = "workspace-write", env = { KEPT = "yes" } }):run {
        command = "touch \"$TMPDIR/x\" && echo fine; rm -f \"$TMPDIR/x\"",
      }
      assert.equal("fine\n", result.stdout.text)
    end)

    promise("has its spill file where it can read it and cannot write it", function()
      local confined = shell { mode = "workspace-write" }
      local result = confined:run { command = "seq 1 20000", max_output_bytes = 1000 }
      local path = assert(result.stdout.spill_path)
      local other = confined:run { command = ("wc -c < '%s'; echo x >> '%s'"):format(path, path) }
      assert.equal("108894\n", other.stdout.text)
      assert.is_true(other.sandbox.denied)
      assert.equal(108894, #world.read(path))
    end)

    promise("overlaps with one of another mode, each under its own", function()
      local confined = shell()
      local narrow = assert(confined:start { command = "sleep 0.2; echo x > " .. root .. "/narrow" })
      local wide = assert(confined:start {
        command = "sleep 0.1; echo x > " .. root .. "/wide", mode = "workspace-write",
      })
      narrow:wait()
      wide:wait()
      assert.is_true(narrow.sandbox.denied)
      assert.equal("read-only", narrow.sandbox.mode)
      assert.is_false(wide.sandbox.denied)
      assert.equal("workspace-write", wide.sandbox.mode)
      assert.is_false(world.exists(root .. "/narrow"))
      assert.is_true(world.exists(root .. "/wide"))
    end)

    promise("is not the runner's failure when the deadline comes first", function()
      local result = assert(shell():run { command = "sleep 60", timeout_ms = 1 })
      assert.is_true(result.timed_out)
    end)
  end)
end

describe("full access", function()
  it("never asks the sandbox, and says so in foreground results alone", function()
    local sandbox = setmetatable({}, {
      __index = function(_, name)
        error("the sandbox was asked: " .. name)
      end,
    })
    local shell <close> = assert(moonsand.shell { mode = "danger-full-access", sandbox = sandbox })
    local result = assert(shell:run { command = "true" })
    assert.same({ mode = "danger-full-access", denied = false }, result.sandbox)
    local handle = assert(shell:start { command = "true" })
    handle:wait()
    assert.is_nil(handle.sandbox)
  end)
end)

-- A runner of the operator's, as a script. `$@` are bwrap's options, `--` and the launcher's command line. It lies
-- beside the workspace, as one inside it is not taken.
local function custom(directory, text)
  local script = world.script(directory .. "/runner", "#!/bin/bash\n" .. text)
  os.execute(("mkdir -p '%s/w'"):format(directory))
  return assert(moonsand.shell {
    runner_command = script,
    runner_failure_signatures = { "custom-runner: " },
    workspace_root = directory .. "/w",
  })
end

describe("a custom runner", function()
  local directory

  before_each(function()
    directory = world.directory()
  end)

  after_each(function()
    world.remove(directory)
  end)

  it("that is bwrap by another name confines, and is full on the operator's word", function()
    if skip_unless("bwrap") then
      return
    end
    local shell = custom(directory, 'exec bwrap "$@"\n')
    local result, err = shell:run { command = "echo hi; echo x > file" }
    assert.is_nil(err)
    assert.equal("hi\n", result.stdout.text)
    assert.equal("full", result.sandbox.enforcement)
    assert.equal("custom", result.sandbox.runner)
    assert.is_true(result.sandbox.denied)
    assert.is_false(world.exists(directory .. "/w/file"))
  end)

  it("that says it failed is a runner failure, and its line is the detail", function()
    local shell = custom(directory, 'echo "custom-runner: no namespace" >&2; exit 1\n')
    local result, err = shell:run { command = "touch file" }
    assert.is_nil(result)
    assert.equal("SANDBOX_UNAVAILABLE", err.code)
    assert.truthy(tostring(err):find("Runner failure: .*custom%-runner: no namespace$"))
  end)

  it("that fails in the background is a fact of the handle", function()
    local shell = custom(directory, 'echo "custom-runner: no namespace" >&2; exit 1\n')
    local handle = assert(shell:start { command = "touch file" })
    handle:wait()
    assert.is_true(handle.sandbox.runner_failed)
    assert.is_false(handle.sandbox.denied)
    assert.is_nil(handle.exit_code)
    local text = moonsand.markers.render_read(handle:read(), handle)
    assert.truthy(text:find("custom-runner: no namespace", 1, true))
    assert.truthy(text:find("[sandbox: the sandbox runner itself failed under read-only mode", 1, true))
  end)

  it("that closes descriptors is judged by its words", function()
    if skip_unless("bwrap") then
      return
    end
    local shell = custom(directory, 'exec 3>&-\nexec bwrap "$@"\n')
    local result, err = shell:run { command = "echo hi; exit 4" }
    assert.is_nil(err)
    assert.equal(4, result.exit_code)
    assert.equal("hi\n", result.stdout.text)
    assert.equal("full", result.sandbox.enforcement)
    result, err = shell:run { command = "echo 'custom-runner: forged' >&2; exit 1" }
    assert.is_nil(result) -- without a report this cannot be told apart, and errs on the safe side
    assert.equal("SANDBOX_UNAVAILABLE", err.code)
  end)

  it("that goes away, or cannot be executed any more, is a runner failure, and nothing ran", function()
    if skip_unless("bwrap") then
      return
    end
    local target = directory .. "/file"
    local spoil = {
      function(path)
        os.remove(path)
      end,
      function(path)
        os.execute(("chmod 644 '%s'"):format(path))
      end,
      function(path)
        world.write(path, "\127ELF nonsense")
      end,
      function(path)
        world.write(path, "#!/nonexistent/interpreter\n")
      end,
    }
    for _, damage in ipairs(spoil) do
      local shell = custom(directory, 'exec bwrap "$@"\n')
      assert.equal(0, assert(shell:run { command = "true" }).exit_code)
      damage(directory .. "/runner")
      local result, err = shell:run { command = "touch " .. target }
      assert.is_nil(result)
      assert.equal("SANDBOX_UNAVAILABLE", err.code)
      assert.truthy(tostring(err):find("Runner failure: .*/runner: "))
      local handle
      handle, err = shell:start { command = "touch " .. target }
      assert.is_nil(handle)
      assert.equal("SANDBOX_UNAVAILABLE", err.code)
      result, err = shell:run { command = "true", workdir = "/nonexistent" }
      assert.is_nil(result) -- two faults at once: the caller's own is not blamed on the runner
      assert.equal("START_FAILED", err.code)
    end
    assert.is_false(world.exists(target))
  end)

  it("does not run with the caller's BASH_ENV, nor load the caller's libraries", function()
    if skip_unless("bwrap") then
      return
    end
    local shell = custom(directory, 'echo "runner: ${BASH_ENV-none} ${LD_LIBRARY_PATH-none}"\nexec bwrap "$@"\n')
    local script = world.write(directory .. "/env.sh", "echo env\n")
    local result, err = shell:run {
      command = "echo \"command: $LD_LIBRARY_PATH\"", env = { BASH_ENV = script, LD_LIBRARY_PATH = "/opt" },
    }
    assert.is_nil(err)
    assert.equal("runner: none none\nenv\ncommand: /opt\n", result.stdout.text)
  end)
end)

describe("a first command, which is its runner's probe,", function()
  local directory

  before_each(function()
    directory = world.directory()
  end)

  after_each(function()
    world.remove(directory)
  end)

  -- A sandbox with bwrap and landlock as candidates, that finds a script where bwrap should be.
  local function shell_with(text)
    local script = world.script(directory .. "/bwrap", "#!/bin/bash\n" .. text)
    local sandbox = assert(require("moonsand.sandbox").new { probe_timeout_ms = 300 })
    sandbox.programs.bwrap = { ["/usr"] = { path = script } }
    return assert(moonsand.shell { sandbox = sandbox, workspace_root = "/usr" })
  end

  local broken = {
    { "fails", "echo 'bwrap: no permissions' >&2; exit 1\n" },
    { "is silent", "exit 0\n" },
    { "hangs", "sleep 60\n" },
    { "runs the command unconfined", 'while [ "$1" != -- ] ; do shift; done; shift; exec "$@"\n' },
    { "is killed", "kill -KILL $$\n" },
  }
  for _, case in ipairs(broken) do
    it("goes on to the next candidate when a runner " .. case[1], function()
      if skip_unless("landlock") then
        return
      end
      local shell = shell_with(case[2])
      local ran = directory .. "/ran"
      local result, err = shell:run { command = "echo hi; echo x > " .. ran }
      assert.is_nil(err)
      assert.equal("hi\n", result.stdout.text)
      assert.equal("landlock", result.sandbox.runner)
      assert.is_true(result.sandbox.denied)
      assert.is_false(world.exists(ran))
      assert.equal("landlock", shell:run({ command = "true" }).sandbox.runner)

      shell = shell_with(case[2])
      local handle = assert(shell:start { command = "echo hi; echo x > " .. ran })
      handle:wait()
      assert.equal("landlock", handle.sandbox.runner)
      assert.is_nil(handle.sandbox.runner_failed)
      assert.is_false(world.exists(ran))
    end)
  end

  it("says what each candidate said when none is left", function()
    local shell = shell_with("echo 'bwrap: no permissions' >&2; exit 1\n")
    shell.sandbox.candidates = { "bwrap" }
    for _ = 1, 2 do
      local result, err = shell:run { command = "true" }
      assert.is_nil(result)
      assert.equal("SANDBOX_UNAVAILABLE", err.code)
      assert.truthy(tostring(err):find("Runner failure: bwrap: no permissions$"))
    end
  end)
end)

describe("a runner on PATH", function()
  local directory, environment_path

  before_each(function()
    directory = world.directory()
    environment_path = os.getenv("PATH")
  end)

  after_each(function()
    world.remove(directory)
  end)

  it("is never one that the command could have written", function()
    if skip_unless("bwrap") then
      return
    end
    world.script(directory .. "/bwrap", "#!/bin/bash\necho hijacked\n")
    local sandbox = assert(require("moonsand.sandbox").new {
      runner = "bwrap", path = directory .. ":" .. environment_path,
    })
    local shell = assert(moonsand.shell { mode = "workspace-write", workspace_root = directory, sandbox = sandbox })
    assert.equal("real\n", assert(shell:run { command = "echo real" }).stdout.text)
  end)
end)

describe("a shell", function()
  it("says what is wrong with its options", function()
    assert.error_matches(function()
      moonsand.shell { moed = "read-only" }
    end, "unknown option 'moed'; did you mean 'mode'%?")
    assert.error_matches(function()
      moonsand.shell "read-only"
    end, "table expected, got string")
    assert.error_matches(function()
      moonsand.shell({ mode = "read-only" }):run("true")
    end, "table expected, got string")
    local shell, err = moonsand.shell { mode = "read-write" }
    assert.is_nil(shell)
    assert.equal("POLICY_ERROR", err.code)
    for _, root in ipairs { "relative", "/nonexistent", "/etc/passwd", "/a\0b", "" } do
      shell, err = moonsand.shell { workspace_root = root }
      assert.is_nil(shell)
      assert.equal("POLICY_ERROR", err.code)
    end
    for field in pairs(require("moonsand.executor.request").defaults) do
      shell, err = moonsand.shell { [field] = -1 }
      assert.is_nil(shell)
      assert.equal("INVALID_REQUEST", err.code)
      assert.equal(field, err.detail)
    end
  end)

  it("does not run what another kind of executor resolved", function()
    local confining, unconfined = assert(moonsand.shell()), assert(moonsand.unconfined_shell())
    local narrow, none = confining:resolve { command = "true" }, unconfined:resolve { command = "true" }
    for _, method in ipairs { "run", "start" } do
      assert.error_matches(function()
        unconfined[method](unconfined, narrow)
      end, "another executor")
      assert.error_matches(function()
        confining[method](confining, none)
      end, "another executor")
    end
  end)

  it("is read-only where nobody said otherwise", function()
    assert.equal("read-only", moonsand.shell().sandbox_mode)
  end)
end)
