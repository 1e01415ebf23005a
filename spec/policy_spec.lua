-- Modes and workspace roots: which are accepted, and what is said of the rest; sections 2 and 6 of the design.
local policy = require "moonsand.policy"
local unistd = require "posix.unistd"
local world = require "world"

describe("a policy", function()
  local directory

  before_each(function()
    directory = world.directory()
  end)

  after_each(function()
    world.remove(directory)
  end)

  local function refused(options, code, ...)
    local made, err = policy.new(options)
    assert.is_nil(made)
    assert.equal(code, err.code)
    for _, words in ipairs { ... } do
      assert.truthy(err.message:find(words, 1, true), err.message)
    end
  end

  it("is read-only in the current directory unless it is told otherwise", function()
    local resolved = assert(assert(policy.new()):resolve())
    assert.same({ mode = "read-only", workspace_root = unistd.getcwd() }, resolved)
  end)

  it("names the nearest mode for one that does not exist", function()
    refused({ mode = "readonly" }, "POLICY_ERROR", "unknown mode 'readonly'", "did you mean 'read-only'?")
    refused({ mode = "banana" }, "POLICY_ERROR", "it is one of read-only, workspace-write, danger-full-access")
    refused({ mode = 3 }, "POLICY_ERROR", "unknown mode '3'")
    local resolved, err = assert(policy.new()):resolve { mode = "full-access" }
    assert.is_nil(resolved)
    assert.equal("INVALID_REQUEST", err.code)
    assert.truthy(err.message:find("did you mean 'danger-full-access'?", 1, true))
  end)

  it("refuses a root that is relative, missing, empty, a file, or has a NUL byte", function()
    world.write(directory .. "/file", "")
    refused({ workspace_root = "relative" }, "POLICY_ERROR", "'relative' is a relative path", "absolute")
    refused({ workspace_root = "." }, "POLICY_ERROR", "relative")
    refused({ workspace_root = directory .. "/missing" }, "POLICY_ERROR", "No such file or directory")
    refused({ workspace_root = "" }, "POLICY_ERROR", "empty")
    refused({ workspace_root = directory .. "/file" }, "POLICY_ERROR", "Not a directory")
    refused({ workspace_root = directory .. "/file/below" }, "POLICY_ERROR", "Not a directory")
    refused({ workspace_root = "/tmp\0/x" }, "POLICY_ERROR", "NUL")
    assert.has_error(function()
      policy.new { workspace_root = 3 }
    end, "bad option 'workspace_root' (string expected, got number)")
  end)

  it("asks the file system what a root means: a link's `..` is where the link leads", function()
    os.execute(("mkdir -p '%s/a/b' '%s/c'; ln -s ../a/b '%s/c/link'"):format(directory, directory, directory))
    local made = assert(policy.new { workspace_root = directory .. "/c/link/.." })
    assert.equal(directory .. "/a", made.workspace_root)
    assert.equal(directory .. "/a/b", assert(policy.new { workspace_root = directory .. "//c/./link/" }).workspace_root)
  end)

  it("keeps roots with strange names as they are", function()
    for _, name in ipairs { "with space", "new\nline", "quo'te\"", "-dash", "percent%", "\xff\xfe" } do
      local path = directory .. "/" .. name
      assert(require("posix.sys.stat").mkdir(path))
      assert.equal(path, assert(policy.new { workspace_root = path }).workspace_root)
    end
  end)

  it("looks at its root again for every call", function()
    local root = directory .. "/root"
    os.execute(("mkdir '%s'"):format(root))
    local made = assert(policy.new { mode = "workspace-write", workspace_root = root })
    assert(made:resolve())

    os.execute(("rmdir '%s' && ln -s /etc '%s'"):format(root, root))
    local resolved, err = made:resolve()
    assert.is_nil(resolved)
    assert.equal("POLICY_ERROR", err.code)
    assert.truthy(err.message:find("was replaced by a link to '/etc'", 1, true), err.message)

    os.remove(root)
    resolved, err = made:resolve()
    assert.is_nil(resolved)
    assert.truthy(err.message:find("No such file", 1, true), err.message)
  end)

  it("makes nothing of the kernel's own trees writable", function()
    for _, root in ipairs { "/proc", "/proc/self", "/sys", "/dev", "/dev/shm" } do
      if world.exists(root) then
        local made = assert(policy.new { mode = "workspace-write", workspace_root = root })
        local resolved, err = made:resolve()
        assert.is_nil(resolved, root)
        assert.equal("POLICY_ERROR", err.code)
        assert(made:resolve { mode = "read-only" })
      end
    end
  end)

  it("is resolved into a table of its own for each call", function()
    local made = assert(policy.new { mode = "workspace-write", workspace_root = directory })
    local first, second = made:resolve(), made:resolve { mode = "read-only" }
    assert.equal("workspace-write", first.mode)
    assert.equal("read-only", second.mode)
    assert.not_equal(first, second)
    assert.equal("workspace-write", made.mode)
  end)
end)

describe("a path at or below a directory", function()
  it("is compared by its parts, not by its letters", function()
    assert.is_true(policy.at_or_below("/a/b", "/a"))
    assert.is_true(policy.at_or_below("/a", "/a"))
    assert.is_true(policy.at_or_below("/a", "/"))
    assert.is_false(policy.at_or_below("/ab", "/a"))
    assert.is_false(policy.at_or_below("/", "/a"))
  end)
end)

describe("a mode", function()
  it("is wider than those before it, and not than itself", function()
    assert.is_true(policy.wider("workspace-write", "read-only"))
    assert.is_true(policy.wider("danger-full-access", "workspace-write"))
    assert.is_false(policy.wider("read-only", "read-only"))
    assert.is_false(policy.wider("read-only", "workspace-write"))
  end)
end)
