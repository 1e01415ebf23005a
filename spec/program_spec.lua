-- Where a runner's program is taken from, and from where never; section 5 of the design.
local program = require "moonsand.program"
local world = require "world"

describe("a runner's program", function()
  local directory

  before_each(function()
    directory = world.directory()
    os.execute(("mkdir '%s/bin' '%s/workspace'"):format(directory, directory))
  end)

  after_each(function()
    world.remove(directory)
  end)

  local name = "moonsand-spec-runner"

  it("is looked for in PATH after the system's directories", function()
    world.script(directory .. "/bin/" .. name, "#!/bin/sh\n")
    assert.equal(directory .. "/bin/" .. name, program.find(name, {}, "/nonexistent:" .. directory .. "/bin"))
    world.script(directory .. "/bin/sh", "#!/bin/sh\n")
    assert.not_equal(directory .. "/bin/sh", program.find("sh", {}, directory .. "/bin"))
  end)

  it("is never taken from a relative entry of PATH, nor from an empty one", function()
    world.script(directory .. "/bin/" .. name, "#!/bin/sh\n")
    local unistd = require "posix.unistd"
    local before = unistd.getcwd()
    unistd.chdir(directory .. "/bin")
    for _, path in ipairs { ".", "", ":", "../bin", "::" } do
      local found, why = program.find(name, {}, path)
      assert.is_nil(found)
      assert.truthy(why:find("neither in", 1, true))
    end
    unistd.chdir(before)
  end)

  it("is never taken from where commands may write, not even through a link", function()
    local planted = world.script(directory .. "/workspace/" .. name, "#!/bin/sh\n")
    os.execute(("ln -s '%s' '%s/bin/%s'"):format(planted, directory, name))
    for _, path in ipairs { directory .. "/workspace", directory .. "/bin" } do
      local found, why = program.find(name, { directory .. "/workspace" }, path)
      assert.is_nil(found)
      local reason = "passed over: it lies in " .. directory .. "/workspace, where commands may write"
      assert.truthy(why:find(reason, 1, true), why)
    end
    world.script(directory .. "/good", "#!/bin/sh\n")
    assert.is_nil((program.find(directory .. "/workspace/" .. name, { directory .. "/workspace" })))
    assert.equal(directory .. "/good", program.find(directory .. "/good", { directory .. "/workspace" }))
  end)

  it("is found past one that was planted", function()
    world.script(directory .. "/workspace/" .. name, "#!/bin/sh\n")
    world.script(directory .. "/bin/" .. name, "#!/bin/sh\n")
    local path = directory .. "/workspace:" .. directory .. "/bin"
    assert.equal(directory .. "/bin/" .. name, program.find(name, { directory .. "/workspace" }, path))
  end)

  it("is not a relative path", function()
    local found, why = program.find("bin/runner", {}, "")
    assert.is_nil(found)
    assert.truthy(why:find("relative", 1, true))
  end)
end)
