-- `moonsand run` as a process: what it prints, what it returns, and what it leaves alone; section 10 of the design.
local cjson = require "cjson"
local command = require "cli.command"
local world = require "world"

describe("moonsand run", function()
  local directory

  before_each(function()
    directory = world.directory()
  end)

  after_each(function()
    world.remove(directory)
  end)

  local function promise(name, check)
    it(name, function()
      if command.confines() then
        check()
      else
        pending("no runner works here")
      end
    end)
  end

  local function run(...)
    return command.run({ "run", ... }, { cwd = directory })
  end

  promise("prints what the model would see, and returns the command's own exit status", function()
    local ended = run("echo out; echo err >&2; exit 3")
    assert.equal("out\n[stderr]\nerr\n[exit code: 3]\n", ended.stdout)
    assert.equal("", ended.stderr)
    assert.equal(3, ended.status)
    ended = run("true")
    assert.equal("(no output)\n", ended.stdout)
    assert.equal(0, ended.status)
  end)

  promise("returns 128 + n for a signal, 124 for a timeout", function()
    local ended = run("kill -SEGV $$")
    assert.equal(139, ended.status)
    assert.truthy(ended.stdout:find("[killed by signal: SIGSEGV]\n", 1, true))
    ended = run("--timeout-ms", "100", "echo begun; sleep 60")
    assert.equal(124, ended.status)
    assert.truthy(ended.stdout:find("begun\n[timed out after 100ms]\n", 1, true), ended.stdout)
    ended = run("--timeout-ms", "200", "trap 'exit 0' TERM; sleep 60 & wait")
    assert.equal(124, ended.status)
  end)

  promise("lets a command return 124 to 127 too, and says nothing about it", function()
    for code = 124, 127 do
      local ended = run("exit " .. code)
      assert.equal(code, ended.status)
      assert.equal("", ended.stderr)
      assert.equal(("(no output)\n[exit code: %d]\n"):format(code), ended.stdout)
    end
  end)

  promise("is read-only in the current directory, unless it is told otherwise", function()
    local ended = run("echo x > file")
    assert.equal(1, ended.status)
    assert.truthy(ended.stdout:find("[sandbox: file access denied under read-only mode]", 1, true))
    assert.is_false(world.exists(directory .. "/file"))
    assert.equal(0, run("--mode", "workspace-write", "echo x > file").status)
    assert.is_true(world.exists(directory .. "/file"))
    assert.equal(0, run("--mode=danger-full-access", "pwd > full").status)
    assert.equal(directory .. "\n", world.read(directory .. "/full"))
  end)

  promise("stands where the user stands in the workspace, or where --workdir says", function()
    os.execute(("mkdir -p '%s/w/sub' '%s/beside'"):format(directory, directory))
    local root = directory .. "/w"
    local where = function(from, ...)
      return command.run({ "run", "--workspace", root, ... }, { cwd = from }).stdout
    end
    assert.equal(root .. "/sub\n", where(root .. "/sub", "pwd"))
    assert.equal(root .. "\n", where(directory .. "/beside", "pwd"))
    assert.equal(root .. "/sub\n", where(directory, "--workdir", "sub", "pwd"))
    assert.equal("/usr\n", where(directory, "--workdir", "/usr", "pwd"))
  end)

  promise("uses the runner that it is told to", function()
    for _, name in ipairs { "bwrap", "landlock" } do
      if world.runner_works(name) then
        local result = command.json({ "run", "--json", "--runner", name, "true" })
        assert.equal(name, result.sandbox.runner)
      end
    end
  end)

  promise("prints one JSON object, with null for what does not apply", function()
    local result, ended = command.json({ "run", "--json", "echo hi; exit 7" }, { cwd = directory })
    assert.equal(7, ended.status)
    assert.equal(7, result.exit_code)
    assert.equal(cjson.null, result.signal)
    assert.equal("hi\n", result.stdout.text)
    assert.equal(3, result.stdout.bytes)
    assert.is_false(result.stdout.truncated)
    assert.is_false(result.timed_out)
    assert.is_false(result.aborted)
    assert.equal(0, result.leftovers)
    assert.equal(120000, result.timeout_ms)
    assert.is_number(result.duration_ms)
    assert.equal("read-only", result.sandbox.mode)
    assert.is_false(result.sandbox.denied)
    result = command.json({ "run", "--json", "kill -KILL $$" })
    assert.equal(cjson.null, result.exit_code)
    assert.equal("SIGKILL", result.signal)
  end)

  promise("prints valid UTF-8 whatever the command prints", function()
    for _, words in ipairs { { "run" }, { "run", "--json" } } do
      words[#words + 1] = [[printf '\xff\xfe \xe2\x82 ok \x00 end']]
      local ended = command.run(words)
      assert.is_number(utf8.len(ended.stdout))
      assert.truthy(ended.stdout:find("ok", 1, true))
    end
  end)

  promise("keeps a long output in a file that is still there afterwards, and takes a long timeout", function()
    local words = { "run", "--json", "--max-output-bytes", "100", "--timeout-ms", "700000", "seq 1 1000" }
    local result = command.json(words, { cwd = directory })
    assert.equal(700000, result.timeout_ms)
    assert.is_true(result.stdout.truncated)
    assert.equal(100, #result.stdout.text)
    assert.equal(3893, result.stdout.bytes)
    assert.equal(3893, #world.read(result.stdout.spill_path))
    os.remove(result.stdout.spill_path)
  end)

  promise("counts what a command left behind, and comes back without it", function()
    local sleep = world.unique_sleep()
    local result = command.json({ "run", "--json", ("setsid sleep %s & sleep %s & echo hi"):format(sleep, sleep) })
    assert.equal("hi\n", result.stdout.text)
    assert.equal(2, result.leftovers)
    assert.equal(0, world.processes_with(sleep))
  end)

  promise("stops its command on Ctrl-C, returns 130, and leaves nothing", function()
    for _, name in ipairs { "bwrap", "landlock" } do
      if world.runner_works(name) then
        local sleep = world.unique_sleep()
        local process <close> = command.start({ "run", "--runner", name, "sleep " .. sleep .. " & sleep " .. sleep })
        assert.is_true(world.eventually(5000, function()
          return world.processes_with(sleep) >= 2
        end))
        process:signal(2)
        local status, stdout, stderr = world.ended(process)
        assert.equal(130, status.exit_code)
        assert.equal("", stdout .. stderr)
        assert.is_true(world.eventually(2000, function()
          return world.processes_with(sleep) == 0
        end))
      end
    end
  end)

  promise("leaves nothing when it is killed itself", function()
    local sleep = world.unique_sleep()
    local process <close> = command.start({ "run", "sleep " .. sleep })
    assert.is_true(world.eventually(5000, function()
      return world.processes_with(sleep) > 0
    end))
    process:signal(9)
    world.ended(process)
    assert.is_true(world.eventually(2000, function()
      return world.processes_with(sleep) == 0
    end))
  end)

  promise("says nothing when its reader goes away", function()
    for _, ignore in ipairs { "", "trap '' PIPE; " } do
      local script = ("%s'%s' '%s' run --max-output-bytes 900000 'seq 1 200000' | head -n 1"):format(
        ignore, world.interpreter, command.path)
      local core = require "moonsand.core"
      local process <close> = assert(core.spawn {
        argv = { "/bin/bash", "-c", script }, env = command.environment(), max_output_bytes = 10000, timeout_ms = 20000,
      })
      local _, _, stderr = world.ended(process)
      assert.equal("", stderr)
    end
  end)

  promise("says that what it has to say could not be written", function()
    if not world.exists("/dev/full") then
      return
    end
    local core = require "moonsand.core"
    local script = ("'%s' '%s' run 'echo hi' > /dev/full"):format(world.interpreter, command.path)
    local process <close> = assert(core.spawn {
      argv = { "/bin/bash", "-c", script }, env = command.environment(), max_output_bytes = 10000, timeout_ms = 20000,
    })
    local status, _, stderr = world.ended(process)
    assert.equal(74, status.exit_code)
    assert.truthy(stderr:find("^moonsand: the result could not be written: [^\n]*\n$"), stderr)
  end)

  promise("never takes a descriptor that its caller closed for something else", function()
    local core = require "moonsand.core"
    for redirections, expected in pairs { ["<&-"] = "hi\n", [">&-"] = "", ["<&- >&- 2>&-"] = "", ["2>&-"] = "hi\n" } do
      local script = ("'%s' '%s' run 'echo hi' %s"):format(world.interpreter, command.path, redirections)
      local process <close> = assert(core.spawn {
        argv = { "/bin/bash", "-c", script }, env = command.environment(), max_output_bytes = 999, timeout_ms = 20000,
      })
      local status, stdout, stderr = world.ended(process)
      assert.equal(0, status.exit_code, stderr)
      assert.equal(expected, stdout)
      assert.equal("", stderr)
    end
  end)

  promise("says so when the machine has no room for one more, which is no failure of a runner", function()
    local core = require "moonsand.core"
    for _, words in ipairs { "run true", "exec true" } do
      local script = ("ulimit -n 11; '%s' '%s' %s"):format(world.interpreter, command.path, words)
      local process <close> = assert(core.spawn {
        argv = { "/bin/bash", "-c", script }, env = command.environment(), max_output_bytes = 999, timeout_ms = 20000,
      })
      local status, _, stderr = world.ended(process)
      assert.equal(126, status.exit_code, stderr)
      assert.truthy(stderr:find("^moonsand: the command could not be started: [^\n]*Too many open files\n$"), stderr)
    end
  end)

  describe("refuses, and runs nothing:", function()
    local function refuses(words, ...)
      local marked = { ... }
      for position, word in ipairs(marked) do
        marked[position] = word:gsub("MARK", "touch " .. directory .. "/ran")
      end
      table.insert(marked, 1, "run")
      local mode = table.pack(table.unpack(marked))
      local ended = command.run(mode, { cwd = directory })
      assert.equal(2, ended.status, ended.stderr)
      assert.equal("", ended.stdout)
      assert.truthy(ended.stderr:find("^moonsand: [^\n]*\n$"), ended.stderr)
      assert.truthy(ended.stderr:find(words, 1, true), ended.stderr)
      assert.is_false(world.exists(directory .. "/ran"))
      table.insert(mode, 2, "--json")
      local said
      said, ended = command.json(mode, { cwd = directory })
      assert.equal(2, ended.status)
      assert.is_string(said.error.code)
      assert.truthy(said.error.message:find(words, 1, true))
      assert.truthy(said.error.detail ~= nil)
    end

    local full = "--mode=danger-full-access" -- in which the mark would be left

    it("a command that is missing, empty or blank", function()
      refuses("COMMAND is missing")
      refuses("command: must not be empty", full, "")
      refuses("command: must not be empty", full, "  \n")
    end)

    it("a command in several words, and options behind it", function()
      refuses("quote it", full, "MARK", "and more")
      refuses("options go in front of the COMMAND", full, "MARK", "--timeout-ms")
    end)

    it("options that do not exist", function()
      refuses("did you mean '--workdir'?", full, "--worckdir", "/", "MARK")
    end)

    it("a mode or a runner that does not exist", function()
      refuses("did you mean 'workspace-write'?", "--mode", "workspace-wirte", "MARK")
      refuses("did you mean 'bwrap'?", full, "--runner", "bwarp", "MARK")
    end)

    it("a workspace that is missing, a file, or relative", function()
      world.write(directory .. "/file", "")
      refuses("No such file or directory", full, "--workspace", directory .. "/missing", "MARK")
      refuses("Not a directory", full, "--workspace", directory .. "/file", "MARK")
      refuses("is a relative path", full, "--workspace", ".", "MARK")
    end)

    it("a timeout of 0, nan or text", function()
      for _, text in ipairs { "0", "nan", "soon", "-1" } do
        refuses("--timeout-ms needs a positive whole number", full, "--timeout-ms", text, "MARK")
      end
      refuses("--max-output-bytes needs a positive whole number", full, "--max-output-bytes", "0", "MARK")
    end)
  end)

  promise("returns 126 for a workdir that is not there, which is nobody's failure but the caller's", function()
    local ended = run("--workdir", "missing", "true")
    assert.equal(126, ended.status)
    assert.truthy(ended.stderr:find("^moonsand: [^\n]*\n$"), ended.stderr)
    assert.truthy(ended.stderr:find("chdir " .. directory .. "/missing: No such file", 1, true), ended.stderr)
    local said = command.json({ "run", "--json", "--workdir", "missing", "true" }, { cwd = directory })
    assert.equal("START_FAILED", said.error.code)
  end)

  it("returns 125 and runs nothing when no runner can be used", function()
    local core = require "moonsand.core"
    local foreign = core.platform == "darwin" and "landlock" or "seatbelt"
    local ended = run("--runner", foreign, "touch ran")
    assert.equal(125, ended.status)
    assert.equal("", ended.stdout)
    assert.truthy(ended.stderr:find("^moonsand: [^\n]*Runner failure: " .. foreign .. ": [^\n]*\n$"), ended.stderr)
    local said
    said, ended = command.json({ "run", "--json", "--runner", foreign, "touch ran" }, { cwd = directory })
    assert.equal(125, ended.status)
    assert.equal("SANDBOX_UNAVAILABLE", said.error.code)
    assert.truthy(said.error.detail:find(foreign, 1, true))
    assert.is_false(world.exists(directory .. "/ran"))
  end)

  -- A world in which files are replaced by others, for the processes of one command: bwrap makes it.
  local function in_a_world_where(replaced)
    local before = { "/usr/bin/bwrap", "--dev-bind", "/", "/", "--die-with-parent" }
    for path, by in pairs(replaced) do
      table.move({ "--ro-bind", by, path }, 1, 3, #before + 1, before)
    end
    before[#before + 1] = "--"
    return before
  end

  local function other_worlds(name, check)
    it(name, function()
      if world.runner_works("bwrap") and world.exists("/usr/bin/bwrap") then
        check()
      else
        pending("bwrap does not work here")
      end
    end)
  end

  local launcher = require("moonsand.core").launcher_path()

  other_worlds("returns 125 where neither runner can be executed", function()
    local before = in_a_world_where { ["/usr/bin/bwrap"] = "/dev/null", [launcher] = "/dev/null" }
    for _, verb in ipairs { "run", "exec" } do
      local ended = command.run({ verb, "touch ran" }, { cwd = directory, before = before })
      assert.equal(verb == "run" and 125 or 127, ended.status)
      local words = { verb, "--mode", "workspace-write", "--", "/usr/bin/true" }
      ended = command.run(words, { cwd = directory, before = before })
      assert.equal(125, ended.status, ended.stderr)
      assert.equal("", ended.stdout)
      local line = "^moonsand: [^\n]*Runner failure: bwrap: [^\n]*; landlock: [^\n]*\n$"
      assert.truthy(ended.stderr:find(line), ended.stderr)
    end
    local ended = command.run({ "doctor" }, { cwd = directory, before = before })
    assert.equal(125, ended.status)
    assert.is_false(world.exists(directory .. "/ran"))
  end)

  other_worlds("is not deceived by a bwrap that confines nothing, hangs, or cannot be executed", function()
    local stubs = {
      '#!/bin/bash\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n',
      "#!/bin/bash\nsleep 60\n",
      "#!/nonexistent\n",
      "#!/bin/bash\nexit 0\n",
    }
    for _, text in ipairs(stubs) do
      local stub = world.script(directory .. "/stub", text)
      local before = in_a_world_where { ["/usr/bin/bwrap"] = stub }
      for _, mode in ipairs { "read-only", "workspace-write" } do
        os.execute(("mkdir -p '%s/w'"):format(directory))
        local words = { "run", "--runner", "bwrap", "--mode", mode, "touch " .. directory .. "/ran; touch ran" }
        if not text:find("sleep") then -- the bound is five seconds
          local ended = command.run(words, { cwd = directory .. "/w", before = before })
          assert.equal(125, ended.status, ended.stderr)
          assert.truthy(ended.stderr:find("Runner failure: bwrap: ", 1, true), ended.stderr)
        end
      end
      if world.runner_works("landlock") then
        local result = command.json({ "run", "--json", "touch " .. directory .. "/ran" },
          { cwd = directory, before = before })
        assert.equal("landlock", result.sandbox.runner)
        assert.is_true(result.sandbox.denied)
      end
      assert.is_false(world.exists(directory .. "/ran"))
      assert.is_false(world.exists(directory .. "/w/ran"))
    end
  end)
end)
