-- `moonsand exec` as a process: argv and stdio as they are; section 10 of the design. What the terminal's relay
-- promises is in csrc/test.
local command = require "cli.command"
local core = require "moonsand.core"
local world = require "world"

describe("moonsand exec", function()
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

  local function exec(words, options)
    options = options or {}
    options.cwd = options.cwd or directory
    return command.run(table.move(words, 1, #words, 2, { "exec" }), options)
  end

  promise("runs an exact argv: no shell reads it", function()
    local ended = exec { "--", "printf", "%s|", "a b", "$HOME", "", "*", "'" }
    assert.equal("a b|$HOME||*|'|", ended.stdout)
    assert.equal("", ended.stderr)
    assert.equal(0, ended.status)
  end)

  promise("passes stdin, stdout and stderr through", function()
    local ended = exec({ "--", "sh", "-c", "tr a-z A-Z; echo err >&2" }, { input = "some input\n" })
    assert.equal("SOME INPUT\n", ended.stdout)
    assert.equal("err\n", ended.stderr)
    local big = ("x"):rep(300000)
    assert.equal(big, exec({ "cat" }, { input = big }).stdout)
  end)

  promise("returns the program's own status, and 128 + n for a signal", function()
    for _, code in ipairs { 0, 1, 77, 124, 125, 126, 127, 255 } do
      assert.equal(code, exec({ "sh", "-c", "exit " .. code }).status)
    end
    assert.equal(139, exec({ "sh", "-c", "kill -SEGV $$" }).status)
    assert.equal(137, exec({ "sh", "-c", "kill -KILL $$" }).status)
  end)

  promise("confines", function()
    local ended = exec { "touch", "file" }
    assert.equal(1, ended.status)
    assert.is_false(world.exists(directory .. "/file"))
    assert.equal(0, exec({ "--mode", "workspace-write", "--", "touch", "file" }).status)
    assert.is_true(world.exists(directory .. "/file"))
    assert.equal(0, exec({ "--mode", "danger-full-access", "touch", "full" }).status)
    assert.is_true(world.exists(directory .. "/full"))
  end)

  promise("returns 127 for a program that is not there, 126 for one that cannot be executed", function()
    local ended = exec { "moonsand-no-such-program" }
    assert.equal(127, ended.status)
    assert.truthy(ended.stderr:find("^moonsand: [^\n]*moonsand%-no%-such%-program[^\n]*\n$"), ended.stderr)
    assert.equal(127, exec({ "./missing" }).status)
    world.write(directory .. "/text", "x")
    ended = exec { "./text" }
    assert.equal(126, ended.status)
    assert.truthy(ended.stderr:find("^[^\n]*Permission denied\n$"), ended.stderr)
    assert.equal(126, exec({ "--workdir", "missing", "true" }).status)
    local said = command.json({ "exec", "--json", "moonsand-no-such-program" })
    assert.equal("START_FAILED", said.error.code)
  end)

  it("finds its program in PATH's absolute entries only", function()
    world.script(directory .. "/moonsand-spec-program", "#!/bin/sh\necho found\n")
    local full = { "--mode=danger-full-access", "moonsand-spec-program" }
    assert.equal(127, exec(full, { env = { PATH = ".:/usr/bin:/bin" } }).status)
    assert.equal("found\n", exec(full, { env = { PATH = directory .. ":/usr/bin:/bin" } }).stdout)
  end)

  it("returns 125 and prints one line when no runner can be used", function()
    local foreign = core.platform == "darwin" and "landlock" or "seatbelt"
    local ended = exec { "--runner", foreign, "--", "touch", "ran" }
    assert.equal(125, ended.status)
    assert.truthy(ended.stderr:find("^moonsand: [^\n]*Runner failure: [^\n]*\n$"), ended.stderr)
    assert.is_false(world.exists(directory .. "/ran"))
  end)

  promise("ends its program when it is asked to end, and leaves nothing", function()
    local sleep = world.unique_sleep()
    local process <close> = command.start({ "exec", "--", "sh", "-c", "sleep " .. sleep .. " & sleep " .. sleep })
    assert.is_true(world.eventually(5000, function()
      return world.processes_with(sleep) >= 2
    end))
    process:signal(15)
    local status = world.ended(process)
    assert.equal(143, status.exit_code)
    assert.equal(0, world.processes_with(sleep))
  end)

  promise("gives its program a terminal of its own where the user has one", function()
    if not os.execute("script --version >/dev/null 2>&1") then
      pending("script(1) is not here")
      return
    end
    for _, name in ipairs { "bwrap", "landlock" } do
      if world.runner_works(name) then
        local program = "test -t 0 && test -t 1 && echo yes > /dev/tty; exit 5"
        local inner = ("'%s' '%s' exec --runner %s -- sh -c '%s'"):format(
          world.interpreter, command.path, name, program)
        local process <close> = assert(core.spawn {
          argv = { "/usr/bin/script", "-qec", inner, "/dev/null" }, env = command.environment(), cwd = directory,
          max_output_bytes = 10000, timeout_ms = 20000,
        })
        local status, stdout = world.ended(process)
        assert.truthy(stdout:find("yes\r\n$"), stdout) -- script(1) may have typed its own end of file before
        assert.equal(5, status.exit_code)
      end
    end
  end)
end)
