-- The public face.
local world = require "world"

describe("require 'moonsand'", function()
  it("loads nothing before it is used", function()
    local host = world.host [[
      local before = {}
      for name in pairs(package.loaded) do before[name] = true end
      local moonsand = require "moonsand"
      for name in pairs(package.loaded) do
        if not before[name] then print(name) end
      end
      assert(moonsand.nothing == nil)
      assert(type(moonsand.version) == "string")
      assert(moonsand.markers == require "moonsand.markers")
      assert(moonsand.cancel().cancelled == false)
      assert(moonsand.errors.is(select(2, moonsand.shell { mode = "none" })))
    ]]
    local status, stdout, stderr = world.ended(host)
    assert.equal(0, status.exit_code, stderr)
    assert.equal("moonsand\n", stdout)
  end)

  it("is a dozen lines away from a confined command", function()
    local host = world.host [[
      local moonsand = require "moonsand"
      local shell <close> = assert(moonsand.shell { mode = "read-only", workspace_root = "/usr" })
      local result, err = shell:run { command = "pwd; exit 3" }
      print(result and moonsand.markers.render(result) or err)
    ]]
    local status, stdout, stderr = world.ended(host)
    assert.equal(0, status.exit_code, stderr)
    if stdout:find("SANDBOX_UNAVAILABLE") or stdout:find("no sandbox runner") then
      pending("no runner works here")
      return
    end
    assert.equal("/usr\n[exit code: 3]\n", stdout)
  end)
end)

describe("an error", function()
  it("is a table with a code, and reads as its message", function()
    local errors = require "moonsand.errors"
    local err = errors.new("START_FAILED", "it did not start", "why", { stage = "exec" })
    assert.equal("START_FAILED", err.code)
    assert.equal("it did not start", tostring(err))
    assert.equal("why", err.detail)
    assert.is_true(errors.is(err))
    assert.is_false(errors.is {})
    assert.error_matches(function()
      errors.new("NO_SUCH_CODE", "x")
    end, "unknown code")
  end)
end)
