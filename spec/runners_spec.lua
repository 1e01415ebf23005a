-- The command lines of the runners, as functions of a policy and of facts; section 5 of the design.
--
-- What these command lines do in the world is in spec/executor and spec/launcher_spec.lua; here is what they say, and
-- in which order, for machines that need not exist.
local bwrap = require "moonsand.runners.bwrap"
local custom = require "moonsand.runners.custom"
local landlock = require "moonsand.runners.landlock"
local seatbelt = require "moonsand.runners.seatbelt"

local argv = { "/bin/bash", "-c", "echo 'a b'" }

local function facts(changes)
  local made = {
    program = "/usr/bin/bwrap", launcher = "/opt/moonsand/moonsand-launch", root_user = false, tmp = "/tmp",
    own_files = {}, launch = {},
  }
  for name, value in pairs(changes or {}) do
    made[name] = value
  end
  return made
end

local function position(list, ...)
  local words = { ... }
  for at = 1, #list - #words + 1 do
    local same = true
    for offset, word in ipairs(words) do
      same = same and list[at + offset - 1] == word
    end
    if same then
      return at
    end
  end
  return nil
end

local function has(list, ...)
  return position(list, ...) ~= nil
end

local read_only = { mode = "read-only", workspace_root = "/srv/w" }
local writable = { mode = "workspace-write", workspace_root = "/srv/w" }

local function at(root)
  return { mode = "workspace-write", workspace_root = root }
end

describe("every runner", function()
  it("ends in the launcher, `--`, and the command as it is", function()
    for _, runner in ipairs { bwrap, landlock, seatbelt, custom } do
      local line = runner.wrap(argv, writable, facts { arguments = {} })
      local tail = table.move(line, #line - 3, #line, 1, {})
      assert.same({ "--", "/bin/bash", "-c", "echo 'a b'" }, tail)
      assert.truthy(has(line, "/opt/moonsand/moonsand-launch", "--report-fd", "3"))
    end
    assert.same({ "/bin/bash", "-c", "echo 'a b'" }, argv)
  end)

  it("tells the launcher what the caller wants it to be told", function()
    local launch = {
      chdir = "/srv/w/sub", stdin_null = true, terminal = true, background = true,
      env = { "LD_PRELOAD=/x", "A=b c" }, unset = { "GONE" },
    }
    for _, runner in ipairs { bwrap, landlock, seatbelt, custom } do
      local line = runner.wrap(argv, writable, facts { launch = launch, arguments = {} })
      local inside = position(line, "/opt/moonsand/moonsand-launch")
      for _, words in ipairs {
        { "--chdir", "/srv/w/sub" }, { "--stdin-null" }, { "--terminal" }, { "--background" },
        { "--env", "LD_PRELOAD=/x" }, { "--env", "A=b c" }, { "--unset", "GONE" },
      } do
        assert.is_true(position(line, table.unpack(words)) > inside, words[1])
      end
    end
  end)
end)

describe("bwrap", function()
  it("in read-only makes nothing writable and expects that nothing is", function()
    local line = bwrap.wrap(argv, read_only, facts())
    assert.is_false(has(line, "--bind"))
    assert.is_false(has(line, "--tmpfs"))
    assert.is_false(has(line, "--writable"))
    assert.is_true(has(line, "--ro-bind", "/", "/"))
    for _, words in ipairs { { "--cap-drop", "ALL" }, { "--die-with-parent" }, { "--unshare-pid" }, { "--as-pid-1" },
      { "--dev", "/dev" }, { "--remount-ro", "/dev" }, { "--proc", "/proc" }, { "--expect", "pid-1" },
      { "--expect", "no-capabilities" }, { "--expect", "read-only" } } do
      assert.is_true(has(line, table.unpack(words)), table.concat(words, " "))
    end
  end)

  it("takes the kernel's settings from uid 0, and leaves others their /proc", function()
    assert.is_true(has(bwrap.profile(read_only, facts { root_user = true }), "--remount-ro", "/proc"))
    assert.is_false(has(bwrap.profile(read_only, facts()), "--remount-ro", "/proc"))
  end)

  it("in workspace-write binds the root after a fresh /tmp, so that a root in /tmp is seen", function()
    local line = bwrap.wrap(argv, at "/tmp/w", facts())
    assert.is_true(position(line, "--tmpfs", "/tmp") < position(line, "--bind", "/tmp/w", "/tmp/w"))
    assert.is_true(has(line, "--bound", "/tmp/w"))
    assert.is_true(has(line, "--writable", "/tmp"))
    assert.is_true(has(line, "--tmpfs", "/dev/shm"))
  end)

  it("binds a root above /tmp before everything it would cover", function()
    local line = bwrap.wrap(argv, at "/", facts())
    local bound = position(line, "--bind", "/", "/")
    for _, words in ipairs { { "--dev", "/dev" }, { "--proc", "/proc" }, { "--tmpfs", "/tmp" } } do
      assert.is_true(bound < position(line, table.unpack(words)))
    end
    line = bwrap.wrap(argv, at "/private", facts { tmp = "/private/tmp" })
    assert.is_true(position(line, "--bind", "/private", "/private") < position(line, "--tmpfs", "/private/tmp"))
  end)

  it("binds the host's /tmp when that is the root", function()
    local line = bwrap.wrap(argv, at "/tmp", facts())
    assert.is_true(position(line, "--tmpfs", "/tmp") < position(line, "--bind", "/tmp", "/tmp"))
  end)

  it("keeps moonsand's own files below the root, and the names of the directories above them", function()
    local options = bwrap.profile(writable, facts { own_files = { "/srv/w/build/moonsand", "/usr/lib/moonsand" } })
    assert.is_true(position(options, "--bind", "/srv/w", "/srv/w")
      < position(options, "--bind", "/srv/w/build", "/srv/w/build"))
    assert.is_true(position(options, "--bind", "/srv/w/build", "/srv/w/build")
      < position(options, "--ro-bind", "/srv/w/build/moonsand", "/srv/w/build/moonsand"))
    assert.is_false(has(options, "/usr/lib/moonsand"))
  end)

  it("mounts nothing over what it keeps", function()
    local options = bwrap.profile(writable, facts {
      own_files = { "/srv/w/a/b/c", "/srv/w/a/b", "/srv/w/a/d", "/srv/w/a/bb/e" },
    })
    local times = 0
    for index, word in ipairs(options) do
      if word == "--bind" and options[index + 1] == "/srv/w/a" then
        times = times + 1
      end
    end
    assert.equal(1, times)
    local last_bind = position(options, "--bind", "/srv/w/a/bb", "/srv/w/a/bb")
    for _, kept in ipairs { "/srv/w/a/b", "/srv/w/a/d", "/srv/w/a/bb/e" } do
      assert.is_true(last_bind < position(options, "--ro-bind", kept, kept))
    end
    assert.is_false(has(options, "/srv/w/a/b/c"))
  end)

  it("shows moonsand's own files where the fresh /tmp would hide them", function()
    local options = bwrap.profile(writable, facts { own_files = { "/tmp/tree/build/moonsand" } })
    assert.is_true(position(options, "--tmpfs", "/tmp")
      < position(options, "--ro-bind", "/tmp/tree/build/moonsand", "/tmp/tree/build/moonsand"))
    assert.is_false(has(options, "/tmp/tree/build"))
    options = bwrap.profile(at "/tmp/tree", facts { own_files = { "/tmp/tree/build/moonsand" } })
    assert.is_true(has(options, "--bind", "/tmp/tree/build", "/tmp/tree/build"))
  end)
end)

describe("landlock", function()
  it("grants reading everywhere, /dev/null, and in workspace-write /tmp and the root", function()
    assert.same({ "--ro", "/", "--rw", "/dev/null" }, landlock.profile(read_only, facts()))
    assert.same({ "--ro", "/", "--rw", "/dev/null", "--rw", "/tmp", "--rw", "/srv/w" },
      landlock.profile(writable, facts()))
    local without_tmp = facts()
    without_tmp.tmp = nil
    assert.same({ "--ro", "/", "--rw", "/dev/null", "--rw", "/srv/w" }, landlock.profile(writable, without_tmp))
  end)

  it("lets a program write to its own terminal", function()
    assert.is_true(has(landlock.profile(read_only, facts { launch = { terminal = true } }), "--rw", "/dev/tty"))
    assert.is_false(has(landlock.profile(read_only, facts()), "--rw", "/dev/tty"))
  end)
end)

describe("a custom runner", function()
  it("is given bwrap's options after its own words, and nothing is expected of it", function()
    local line = custom.wrap(argv, writable, facts { program = "/opt/run", arguments = { "-v", "--" } })
    assert.same({ "/opt/run", "-v", "--", "--die-with-parent" }, table.move(line, 1, 4, 1, {}))
    assert.is_true(has(line, "--report-optional"))
    assert.is_false(has(line, "--expect"))
    local options = bwrap.profile(writable, facts())
    assert.same(options, table.move(line, 4, 3 + #options, 1, {}))
  end)
end)

describe("the Seatbelt profile", function()
  local function profile(policy, changes)
    return seatbelt.profile(policy, facts(changes))
  end

  it("allows everything, denies changes to files, and then allows the sink's data alone", function()
    assert.equal('(version 1)\n(allow default)\n(deny file-write*)\n(allow file-write-data (literal "/dev/null"))',
      profile(read_only))
  end)

  it("allows the root and the temporary directories in workspace-write, each once", function()
    local text = profile(at "/private/tmp", { tmp = "/private/tmp", user_tmp = "/private/var/folders/x/T" })
    local allowed = '(allow file-write* (subpath "/private/tmp") (subpath "/private/var/folders/x/T"))'
    assert.truthy(text:find(allowed, 1, true), text)
  end)

  it("quotes what a path may hold", function()
    local text = profile(at '/srv/a"b\\c (subpath "/")')
    assert.truthy(text:find('(subpath "/srv/a\\"b\\\\c (subpath \\"/\\")")', 1, true), text)
  end)

  it("denies moonsand's own files again, after what allows them", function()
    local text = profile(writable, { own_files = { "/srv/w/build/moonsand" } })
    local allowed = text:find("(allow file-write* (subpath", 1, true)
    assert.is_true(text:find('(deny file-write* (subpath "/srv/w/build/moonsand"))', 1, true) > allowed)
    assert.truthy(text:find('(deny file-write-unlink (literal "/srv/w/build"))', 1, true))
    assert.is_nil(text:find('(deny file-write-unlink (literal "/srv/w"))', 1, true))
  end)

  it("is one word of sandbox-exec's command line, and the launcher looks whether it is in force", function()
    local line = seatbelt.wrap(argv, read_only, facts { program = "/usr/bin/sandbox-exec" })
    assert.same({ "/usr/bin/sandbox-exec", "-p", profile(read_only), "/opt/moonsand/moonsand-launch" },
      table.move(line, 1, 4, 1, {}))
    assert.is_true(has(line, "--expect", "read-only"))
  end)
end)
