-- The audit log: a line a command, whole, its owner's alone, without what was printed. Section 10 of the design.
local audit = require "moonsand.audit"
local cjson = require "cjson"
local stat = require "posix.sys.stat"
local world = require "world"

describe("the audit log", function()
  local home, path, workspace

  before_each(function()
    home = world.directory()
    path, workspace = home .. "/log.jsonl", home .. "/workspace"
    assert(os.execute(("mkdir '%s' && chmod 755 '%s'"):format(workspace, home)))
  end)

  after_each(function()
    world.remove(home)
  end)

  it("takes down one line of JSON a call, in a file that is its owner's alone", function()
    local log <close> = assert(audit.open(path, { workspace_root = workspace }))
    assert(log:write { command = "echo 'a\nb'\0\255", session = "s\n1", decision = "ask", decided_by = "p:1",
      outcome = "exited", exit_code = 3, denied = false, duration_ms = 12.5 })
    assert(log:write { command = "x", outcome = "refused", error = "no" })
    local lines = {}
    for line in io.lines(path) do
      lines[#lines + 1] = cjson.decode(line)
    end
    assert.equal(2, #lines)
    assert.equal("echo 'a\nb'\0\u{FFFD}", lines[1].command)
    assert.equal("s\n1", lines[1].session)
    assert.equal(3, lines[1].exit_code)
    assert.is_false(lines[1].denied)
    assert.truthy(lines[1].time:find("^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%dZ$"))
    assert.equal(384, stat.stat(path).st_mode & 511)
    assert.has_error(function() log:write { output = "x" } end)
    assert.has_error(function() log:write { stdout = "x" } end)
  end)

  it("is appended to, also by several at once, without a line being torn", function()
    local program = ([[
      local log = assert(require("moonsand.audit").open(%q))
      for number = 1, 200 do assert(log:write { command = ("x"):rep(3000) .. number, outcome = "exited" }) end
    ]]):format(path)
    local hosts = {}
    for number = 1, 3 do
      hosts[number] = world.host(program)
    end
    for _, host in ipairs(hosts) do
      local status, _, stderr = world.ended(host)
      assert.equal(0, status.exit_code, stderr)
    end
    local entries, broken = audit.read(path)
    assert.equal(600, #entries)
    assert.equal(0, broken)
  end)

  it("is refused where commands could write it", function()
    local function refused(name)
      local log, err = audit.open(name, { workspace_root = workspace })
      assert.is_nil(log, name)
      assert.equal("POLICY_ERROR", err.code)
    end
    refused(workspace .. "/log.jsonl")
    assert.is_false(world.exists(workspace .. "/log.jsonl"))
    refused("/tmp/moonsand-spec-log.jsonl")
    os.execute(("ln -s '%s' '%s/in'"):format(workspace, home))
    refused(home .. "/in/log.jsonl")
    world.write(workspace .. "/target", "")
    os.execute(("ln -s '%s/target' '%s'"):format(workspace, path))
    refused(path)
    os.remove(path)
    os.execute(("ln '%s/target' '%s'"):format(workspace, path))
    refused(path)
    os.remove(path)
    os.execute(("touch '%s'; chmod 666 '%s'"):format(path, path))
    refused(path)
    refused("/dev/null")
    refused(home)
    refused(home .. "/none/log.jsonl")
    assert.equal("", world.read(workspace .. "/target"))
  end)

  it("is read with filters, past lines that are not whole, and shown without drawing on the terminal", function()
    world.write(path, table.concat({
      '{"time":"2030-01-01T00:00:00.000Z","session":"a","command":"one\\u001b[2J\\nx","outcome":"exited",'
        .. '"exit_code":1}',
      '{"time":"2030-01-02T00:00:00.000Z","session":"b","command":"two","outcome":"killed","signal":"SIGKILL",'
        .. '"decision":"ask","decided_by":"p:1","denied":true}',
      '{"time":"2030-01-03T00:00:00.000Z","session":"a","command":"three","outcome":"refused"}',
      '{"time":"2030-01-0',
    }, "\n"))
    local entries, broken = audit.read(path)
    assert.equal(3, #entries)
    assert.equal(1, broken)
    assert.equal(2, #audit.read(path, { session = "a" }))
    assert.equal(2, #audit.read(path, { since = "2030-01-02" }))
    assert.equal("three", audit.read(path, { last = 1 })[1].command)
    assert.equal("two", audit.read(path, { outcome = "killed" })[1].command)
    local shown = audit.table(entries)
    assert.is_nil(shown:find("\27", 1, true))
    assert.truthy(shown:find("one\\x1b[2J\\nx", 1, true))
    assert.truthy(shown:find("ask by p:1", 1, true))
    assert.truthy(shown:find("killed SIGKILL, denied", 1, true))
    assert.equal(4, select(2, shown:gsub("\n", "")))
  end)
end)
