-- `--policy`, `--audit`, `moonsand policy` and `moonsand audit`: sections 9 and 10 of the design.
local command = require "cli.command"
local world = require "world"

describe("an operator's script on the command line", function()
  local home, workspace, path

  before_each(function()
    home = world.directory()
    workspace, path = home .. "/workspace", home .. "/policy.lua"
    assert(os.execute(("mkdir '%s' && chmod 755 '%s'"):format(workspace, home)))
    world.write(path, [[
      mode = "workspace-write"
      rule { prefix = { "touch" }, decision = "forbid", reason = "not here" }
      rule { prefix = { "mv" }, decision = "ask" }
      rule { prefix = { "pwd" }, decision = "allow", mode = "danger-full-access" }
      markers.no_output = "(nothing)"
      env.set = { GREETING = "hello" }
    ]])
    os.execute(("chmod 644 '%s'"):format(path))
  end)

  after_each(function()
    world.remove(home)
  end)

  local function moonsand(verb, ...)
    return command.run({ verb, "--workspace", workspace, "--policy", path, ... }, { cwd = workspace })
  end

  it("decides what is run, and how", function()
    if not command.confines() then
      pending("there is no runner here")
      return
    end
    assert.equal("(nothing)\n", moonsand("run", "true").stdout)
    assert.equal("hello\n", moonsand("run", "printenv GREETING").stdout)
    local ended
    for _, text in ipairs { "touch made", "bash -c 'touch made'", "true && /usr/bin/touch made", "to\\uch made" } do
      ended = moonsand("run", text)
      assert.equal(2, ended.status)
      assert.truthy(ended.stderr:find("forbids this command: not here", 1, true))
      assert.truthy(ended.stderr:find(path .. ":2", 1, true))
    end
    assert.equal(2, moonsand("exec", "--", "touch", "made").status)
    assert.equal(2, moonsand("explain", "touch made").status)
    assert.is_false(world.exists(workspace .. "/made"))
    ended = moonsand("run", "mv a b")
    assert.truthy(ended.stderr:find("nobody to ask", 1, true))
    assert.truthy(moonsand("explain", "pwd").stdout:find("danger-full-access", 1, true))
    assert.truthy(moonsand("explain", "pwd; x").stdout:find("mode:       workspace-write", 1, true))
  end)

  it("runs nothing where it cannot be used", function()
    world.write(path, "mode = \n'x")
    for _, verb in ipairs { "run", "explain" } do
      local ended = moonsand(verb, "touch " .. workspace .. "/made")
      assert.equal(2, ended.status)
      assert.truthy(ended.stderr:find(path .. ":2:", 1, true))
    end
    world.write(workspace .. "/own.lua", "mode = 'danger-full-access'")
    local ended = command.run({ "run", "--policy", workspace .. "/own.lua", "touch made" }, { cwd = workspace })
    assert.equal(2, ended.status)
    assert.is_false(world.exists(workspace .. "/made"))
  end)

  it("is checked and explained without running anything", function()
    local function policy(...)
      return command.run({ "policy", ... }, { cwd = workspace })
    end
    local checked = policy("check", path)
    assert.equal(0, checked.status)
    assert.equal(path .. ": good; mode workspace-write, 3 rules\n", checked.stdout)
    local explained = policy("explain", path, "touch x")
    assert.truthy(explained.stdout:find("forbid: is not run", 1, true))
    assert.truthy(explained.stdout:find(path .. ":2", 1, true))
    local facts = command.json({ "policy", "explain", "--json", path, "ls; mv a b" }, { cwd = workspace })
    assert.equal("ask", facts.decision)
    assert.is_false(facts.certain)
    world.write(path, "\nmoode = 1")
    checked = policy("check", path)
    assert.equal(2, checked.status)
    assert.truthy(checked.stderr:find(path .. ":2: unknown name 'moode'; did you mean 'mode'?", 1, true))
    assert.equal(2, policy("chekc", path).status)
    assert.equal(2, policy("check").status)
    assert.equal(2, policy("explain", path).status)
    assert.equal(0, policy("--help").status)
  end)

  it("has each call taken down, whatever becomes of it", function()
    if not command.confines() then
      pending("there is no runner here")
      return
    end
    local log = home .. "/log.jsonl"
    moonsand("run", "--audit", log, "echo secret-output; exit 3")
    moonsand("run", "--audit", log, "touch made")
    moonsand("exec", "--audit", log, "--", "echo", "a b")
    local entries = command.json { "audit", "--json", log }
    assert.equal(3, #entries)
    assert.equal("exited", entries[1].outcome)
    assert.equal(3, entries[1].exit_code)
    assert.equal("workspace-write", entries[1].mode)
    assert.equal(workspace, entries[1].workdir)
    assert.equal("forbid", entries[2].decision)
    assert.equal(path .. ":2", entries[2].decided_by)
    assert.equal("refused", entries[2].outcome)
    assert.equal("echo 'a b'", entries[3].command)
    assert.is_nil(world.read(log):find("hello", 1, true))
    assert.truthy(command.run({ "audit", log, }).stdout:find("^TIME"))
    assert.equal(1, #command.json { "audit", "--json", "--outcome", "refused", log })
    assert.equal(2, command.run({ "audit" }).status)
    assert.equal(2, moonsand("run", "--audit", workspace .. "/log", "true").status)
  end)
end)
