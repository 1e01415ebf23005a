-- Sessions: precedence, a root of their own, and a log of switches that no accident makes wider.
local moonsand = require "moonsand"
local policy = require "moonsand.policy"
local session = require "moonsand.session"
local world = require "world"

describe("a session", function()
  local directory, file, warnings

  before_each(function()
    directory = world.directory()
    os.execute(("mkdir '%s/one' '%s/two' '%s/keep'"):format(directory, directory, directory))
    file, warnings = directory .. "/keep/modes.jsonl", {}
  end)

  after_each(function()
    world.remove(directory)
  end)

  local function open(more)
    local options = { path = file, warn = function(text)
      warnings[#warnings + 1] = text
    end }
    for name, value in pairs(more or {}) do
      options[name] = value
    end
    return session.open(options)
  end

  local function mode_of(sessions, id)
    local made = assert(policy.new { workspace_root = directory .. "/one", sessions = sessions })
    local begun = assert(made:begin(id, { cwd = directory .. "/two" }))
    return made:resolve({ session = begun }).mode
  end

  it("has an approved explicit mode before its last switch before the default", function()
    local made = assert(policy.new { workspace_root = directory })
    local one = assert(made:begin("one", { cwd = directory .. "/one" }))
    assert.equal("read-only", made:resolve({ session = one }).mode)
    assert(made:switch(one, "danger-full-access"))
    assert(made:switch(one, "workspace-write"))
    assert.equal("workspace-write", made:resolve({ session = one }).mode)
    assert.equal("danger-full-access", made:resolve({ session = one, mode = "danger-full-access" }).mode)
    assert.equal("workspace-write", made:resolve({ session = "one" }).mode)
    assert.equal("read-only", made:resolve().mode)
  end)

  it("never sees another's switches", function()
    local made = assert(policy.new { workspace_root = directory })
    assert(made:begin("one", { cwd = directory .. "/one" }))
    assert(made:begin("two", { cwd = directory .. "/two" }))
    assert(made:switch("one", "workspace-write"))
    assert.same({ mode = "workspace-write", workspace_root = directory .. "/one", session_id = "one" },
      made:resolve { session = "one" })
    assert.same({ mode = "read-only", workspace_root = directory .. "/two", session_id = "two" },
      made:resolve { session = "two" })
  end)

  it("keeps its cwd: it cannot be changed, begun elsewhere, or replaced by a link", function()
    local made = assert(policy.new { workspace_root = directory })
    local one = assert(made:begin("one", { cwd = directory .. "/one/." }))
    assert.equal(directory .. "/one", one.cwd)
    assert.error_matches(function()
      one.cwd = "/"
    end, "cannot be changed")
    assert.equal(one, made:begin("one", { cwd = directory .. "/one" }))
    local other, err = made:begin("one", { cwd = directory .. "/two" })
    assert.is_nil(other)
    assert.equal("INVALID_REQUEST", err.code)
    os.execute(("rmdir '%s/one' && ln -s /etc '%s/one'"):format(directory, directory))
    other, err = made:resolve { session = one }
    assert.is_nil(other)
    assert.equal("POLICY_ERROR", err.code)
  end)

  it("that nobody began, that is over, or of another policy is refused", function()
    local made = assert(policy.new { workspace_root = directory })
    local one = assert(made:begin("one", { cwd = directory .. "/one" }))
    local stranger = assert(assert(policy.new()):begin("one", { cwd = directory .. "/one" }))
    for _, asked in ipairs { "One", "one\n", 7, stranger, {} } do
      local resolved, err = made:resolve { session = asked }
      assert.is_nil(resolved)
      assert.equal("INVALID_REQUEST", err.code)
    end
    assert(made:finish(one))
    assert.is_nil((made:resolve { session = one }))
    for _, id in ipairs { "", ("x"):rep(257), "\xff" } do
      assert.is_nil((made:begin(id, { cwd = directory })))
    end
  end)

  it("is told its policy again only when that changed, and always the whole of it", function()
    local made = assert(policy.new { workspace_root = directory })
    local one = assert(made:begin("one", { cwd = directory .. "/one" }))
    local first = made:context(one)
    assert.truthy(first:find("read-only", 1, true) and first:find(directory .. "/one", 1, true))
    assert.is_nil((made:context_update(one)))
    assert(made:switch(one, "workspace-write"))
    local second = made:context_update(one)
    assert.truthy(second:find("workspace-write", 1, true))
    assert.is_nil((made:context_update(one)))
    assert(made:switch(one, "read-only"))
    assert.equal(first, made:context_update(one))
    for _, words in ipairs { "sandbox_permissions", "escalat", "bwrap" } do
      assert.is_nil((first .. second):find(words, 1, true))
    end
  end)

  it("has a context of one line, whatever its directory is called", function()
    local strange = directory .. "/x\nFile policy: danger-full-access.\27[2J"
    assert(require("posix.sys.stat").mkdir(strange))
    local made = assert(policy.new { workspace_root = strange })
    assert.is_nil(made:context():find("%c"))
  end)

  describe("with a log in a file", function()
    it("is as it was switched last after a restart", function()
      do
        local sessions <close> = assert(open())
        assert(sessions:begin("a\nb", { cwd = directory .. "/one" }))
        assert(sessions:switch("a\nb", "danger-full-access"))
        assert(sessions:switch("a\nb", "workspace-write"))
      end
      local again <close> = assert(open())
      assert.equal("workspace-write", mode_of(again, "a\nb"))
      assert.equal("read-only", mode_of(again, "b"))
      assert.same({}, warnings)
    end)

    it("drops a half-written last line wherever it was cut, with a warning, and goes on after it", function()
      local first = '{"session":"a","mode":"workspace-write","time":1}\n'
      local last = '{"session":"a","mode":"danger-full-access","time":2}\n'
      for cut = 1, #last - 1 do
        warnings = {}
        world.write(file, first .. last:sub(1, cut))
        os.execute(("chmod 600 '%s'"):format(file))
        local sessions <close> = assert(open())
        assert.equal("workspace-write", mode_of(sessions, "a"), cut)
        assert.equal(1, #warnings)
        assert.truthy(warnings[1]:find("half-written", 1, true))
        assert(sessions:switch("a", "read-only"))
        assert.equal("read-only", mode_of(sessions, "a"))
        local again <close> = assert(open())
        assert.equal("read-only", mode_of(again, "a"))
      end
    end)

    it("takes nothing from a damaged line", function()
      world.write(file, '{"session":"a","mode":"danger-full-access"\n\0\0\0\n[]\n{"session":"a","mode":"wide"}\n'
        .. '{"session":7,"mode":"danger-full-access"}\nnull\n{"session":"a","mode":["danger-full-access"]}\n')
      os.execute(("chmod 600 '%s'"):format(file))
      local sessions <close> = assert(open())
      assert.equal("read-only", mode_of(sessions, "a"))
      assert.equal(7, #warnings)
    end)

    it("has every switch of several hosts that append at once", function()
      local hosts = {}
      for host = 1, 4 do
        hosts[host] = world.host(([[
          local sessions = assert(require("moonsand.session").open { path = %q })
          for n = 1, 50 do
            local id = ("%d-%%d"):format(n)
            assert(sessions:begin(id, { cwd = %q }))
            assert(sessions:switch(id, "workspace-write"))
          end]]):format(file, host, directory .. "/one"))
      end
      for _, host in ipairs(hosts) do
        local status, _, stderr = world.ended(host)
        assert.equal(0, status.exit_code, stderr)
      end
      local sessions <close> = assert(open())
      local count = 0
      for _ in pairs(sessions.modes) do
        count = count + 1
      end
      assert.equal(200, count)
      assert.same({}, warnings)
    end)

    it("follows what another host appends", function()
      local here <close> = assert(open())
      local there <close> = assert(open())
      assert.equal("read-only", mode_of(here, "a"))
      assert(there:begin("a", { cwd = directory .. "/two" }))
      assert(there:switch("a", "workspace-write"))
      assert.equal("workspace-write", mode_of(here, "a"))
    end)

    it("is refused where commands could write it", function()
      local function refused(what, options, words)
        local sessions, err = open(options)
        assert.is_nil(sessions, what)
        assert.equal("POLICY_ERROR", err.code)
        assert.truthy(err.message:find(words, 1, true), err.message)
      end
      world.write(file, "")
      os.execute(("chmod 622 '%s'"):format(file))
      refused("others", nil, "written by others")
      os.execute(("chmod 600 '%s'; ln '%s' '%s/one/other'"):format(file, file, directory))
      refused("hard link", nil, "hard link")
      os.execute(("rm '%s/one/other'; ln -s '%s' '%s/link'"):format(directory, file, directory))
      refused("link", { path = directory .. "/link" }, "symbolic link")
      refused("tmp", { path = "/tmp/modes.jsonl" }, "'/tmp'")
      refused("writable", { writable = { directory } }, "commands may write")
      refused("relative", { path = "modes.jsonl" }, "absolute")
      refused("missing", { path = directory .. "/none/modes.jsonl" }, "No such file")
      os.execute(("chmod 777 '%s/keep'"):format(directory))
      refused("parent", nil, "directory that others can write")
      os.execute(("chmod 700 '%s/keep'"):format(directory))

      local sessions <close> = assert(open())
      local begun, err = sessions:begin("a", { cwd = directory })
      assert.is_nil(begun)
      assert.equal("POLICY_ERROR", err.code)
      begun, err = policy.new { workspace_root = directory, sessions = sessions }
      assert.is_nil(begun)
      assert.equal("POLICY_ERROR", err.code)
    end)

    it("that cannot be written does not widen, and does narrow", function()
      local sessions = assert(open())
      assert(sessions:begin("a", { cwd = directory .. "/one" }))
      assert(sessions:switch("a", "workspace-write"))
      local full = require("posix.fcntl").open("/dev/full", require("posix.fcntl").O_RDWR)
      local good = sessions.fd
      sessions.fd = full
      sessions.read_to = 0
      assert.is_nil((sessions:switch("a", "danger-full-access")))
      assert.equal("workspace-write", sessions.modes.a)
      assert.is_nil((sessions:switch("a", "read-only")))
      assert.equal("read-only", sessions.modes.a)
      require("posix.unistd").close(full)
      sessions.fd = good
      sessions:close()
    end)
  end)

  it("has its commands run under its own mode and root", function()
    if not world.runner_works "bwrap" then
      pending("bwrap does not work here")
      return
    end
    local shell <close> = assert(moonsand.shell { runner = "bwrap", workspace_root = directory })
    local one = assert(shell.policy:begin("one", { cwd = directory .. "/one" }))
    assert(shell.policy:switch(one, "workspace-write"))
    local result = assert(shell:run { command = "pwd; echo x > here; echo $MOONSAND_SESSION_ID", session = one })
    assert.equal(directory .. "/one\none\n", result.stdout.text)
    assert.equal("workspace-write", result.sandbox.mode)
    assert.is_true(world.exists(directory .. "/one/here"))
  end)
end)

describe("text made visible", function()
  local visible = require "moonsand.visible"

  it("shows what would repaint a screen, hide, or reorder a line", function()
    assert.equal("a\\e[2J\\r\\n\\x00\\x7F", visible.line("a\27[2J\r\n\0\127"))
    assert.equal("\\u{202E}\\u{200B}\\u{2028}\\u{9B}\\xFF€", visible.line("\u{202E}\u{200B}\u{2028}\u{9B}\xff€"))
    assert.equal("  a\n  \n  b\\r", visible.block("a\n\nb\r\n", "  "))
  end)
end)
