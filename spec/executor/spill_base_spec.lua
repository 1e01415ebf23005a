-- Spill files go where confined commands can read but never write; section 3 of the design.
local spill_base = require "moonsand.executor.spill_base"
local world = require "world"

local function getenv(variables)
  return function(name)
    return variables[name]
  end
end

describe("the place for spill files", function()
  local root

  before_each(function()
    root = world.directory()
  end)

  after_each(function()
    world.remove(root)
  end)

  it("is the user's cache directory", function()
    local both = { XDG_CACHE_HOME = root .. "/cache", HOME = "/usr" }
    assert.equal(root .. "/cache/moonsand", spill_base(nil, getenv(both)))
    assert.equal(root .. "/.cache/moonsand", spill_base(nil, getenv { HOME = root }))
  end)

  it("is /var/tmp for a user without one", function()
    assert.truthy(spill_base(nil, getenv {}):find("^/var/tmp/moonsand%-[%d-]+$"))
    assert.truthy(spill_base(nil, getenv { XDG_CACHE_HOME = "relative", HOME = "" }):find("^/var/tmp/moonsand%-"))
  end)

  it("is not where it cannot be made, nor in somebody else's home", function()
    assert.truthy(spill_base(nil, getenv { HOME = "/proc/self/nowhere" }):find("^/var/tmp/moonsand%-"))
    assert.truthy(spill_base(nil, getenv { HOME = "/etc/passwd" }):find("^/var/tmp/moonsand%-"))
    if require("moonsand.core").geteuid() ~= 0 then
      assert.truthy(spill_base(nil, getenv { HOME = "/" }):find("^/var/tmp/moonsand%-"))
      return
    end
    assert(os.execute(("mkdir '%s/theirs' && chown 65534 '%s/theirs'"):format(root, root)))
    assert.truthy(spill_base(nil, getenv { HOME = root .. "/theirs" }):find("^/var/tmp/moonsand%-"))
  end)

  it("is not below the workspace that commands write", function()
    local policy = { mode = "workspace-write", workspace_root = root }
    assert.truthy(spill_base(policy, getenv { HOME = root }):find("^/var/tmp/moonsand%-"))
    policy.mode = "read-only"
    assert.equal(root .. "/.cache/moonsand", spill_base(policy, getenv { HOME = root }))
  end)

  it("is not below the workspace by way of a link", function()
    assert(os.execute(("mkdir '%s/w' && ln -s w '%s/home'"):format(root, root)))
    local policy = { mode = "workspace-write", workspace_root = root .. "/w" }
    assert.truthy(spill_base(policy, getenv { HOME = root .. "/home" }):find("^/var/tmp/moonsand%-"))
  end)

  it("is not below /tmp where commands write that", function()
    local policy = { mode = "workspace-write", workspace_root = root }
    assert.truthy(spill_base(policy, getenv { XDG_CACHE_HOME = "/tmp/cache" }):find("^/var/tmp/moonsand%-"))
  end)

  it("is nowhere when everything can be written", function()
    assert.is_nil(spill_base({ mode = "workspace-write", workspace_root = "/" }, getenv { HOME = root }))
  end)
end)
