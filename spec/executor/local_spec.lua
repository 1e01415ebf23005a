-- The unconfined executor; section 7 of the design. What every executor does is in command_spec and background_spec.
local moonsand = require "moonsand"
local world = require "world"

describe("the unconfined executor", function()
  it("has no sandbox facts and no sandbox mode", function()
    local shell <close> = assert(moonsand.unconfined_shell())
    assert.is_nil(shell.sandbox_mode)
    local result = assert(shell:run { command = "echo hi" })
    assert.is_nil(result.sandbox)
    assert.equal("hi\n", moonsand.markers.render(result))
  end)

  it("does not take a confining mode for granted", function()
    local shell <close> = assert(moonsand.unconfined_shell())
    local result, err = shell:run { command = "true", mode = "read-only" }
    assert.is_nil(result)
    assert.equal("INVALID_REQUEST", err.code)
    assert.equal(0, shell:run({ command = "true", mode = "danger-full-access" }).exit_code)
  end)

  it("runs in the host's directory, or in its own", function()
    local host <close> = io.popen("pwd -P")
    local shell <close> = assert(moonsand.unconfined_shell())
    assert.equal(host:read("a"), shell:run({ command = "pwd -P" }).stdout.text)
    local other <close> = assert(moonsand.unconfined_shell { workdir = "/usr" })
    assert.equal("/usr\n", other:run({ command = "pwd" }).stdout.text)
    assert.equal("/usr/lib\n", other:run({ command = "pwd", workdir = "lib" }).stdout.text)
  end)

  it("speaks the user's language", function()
    local shell <close> = assert(moonsand.unconfined_shell { env = { LC_ALL = "de_DE.UTF-8" } })
    assert.equal("de_DE.UTF-8\n", shell:run({ command = "echo $LC_ALL" }).stdout.text)
  end)

  it("keeps its spill files for a day only where that was asked for", function()
    for _, case in ipairs { { "true", true }, { "false", false } } do
      local host = world.host(([[
        local moonsand = require "moonsand"
        local shell <close> = assert(moonsand.unconfined_shell { keep_spill = %s })
        io.write(shell:run({ command = "seq 1 20000", max_output_bytes = 1000 }).stdout.spill_path)
      ]]):format(case[1]))
      local status, path, stderr = world.ended(host)
      assert.equal(0, status.exit_code, stderr)
      assert.equal(case[2], world.exists(path))
      if case[2] then
        assert.equal(108894, #world.read(path))
        os.remove(path)
      end
    end
  end)

  it("leaves nothing alive when the host is killed", function()
    local seconds = world.unique_sleep()
    local host = world.host(([[
      local moonsand = require "moonsand"
      local shell = assert(moonsand.unconfined_shell())
      local handle = shell:start { command = "setsid sleep %s & sleep %s" }
      shell:run { command = "trap '' TERM HUP; sleep %s" }
    ]]):format(seconds, seconds, seconds))
    assert.is_true(world.eventually(3000, function()
      return world.processes_with(seconds) == 3
    end))
    host:signal(require("posix.signal").SIGKILL)
    world.ended(host)
    assert.is_true(world.eventually(1000, function()
      return world.processes_with(seconds) == 0
    end))
  end)

  it("says what is wrong with its options", function()
    assert.error_matches(function()
      moonsand.unconfined_shell { mode = "read-only" }
    end, "unknown option 'mode'")
    local shell, err = moonsand.unconfined_shell { grace_ms = 0 / 0 }
    assert.is_nil(shell)
    assert.equal("grace_ms", err.detail)
  end)
end)
