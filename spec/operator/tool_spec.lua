-- The operator's script behind the tool that a model holds: nothing that the model says widens it.
local audit = require "moonsand.audit"
local moonsand = require "moonsand"
local operator = require "moonsand.operator"
local world = require "world"

describe("the bash tool under an operator's script", function()
  local home, workspace, path, runner

  before_each(function()
    home = world.directory()
    workspace, path = home .. "/workspace", home .. "/policy.lua"
    assert(os.execute(("mkdir '%s' && chmod 755 '%s'"):format(workspace, home)))
    runner = world.runner_works("bwrap") and "bwrap" or world.runner_works("landlock") and "landlock"
  end)

  after_each(function()
    world.remove(home)
  end)

  local function tool(text, approve, log)
    world.write(path, text)
    os.execute(("chmod 644 '%s'"):format(path))
    local script = assert(operator.load(path, { workspace_root = workspace }))
    local shell = assert(moonsand.shell {
      mode = script.mode, workspace_root = workspace, runner = runner, operator = script,
    })
    return require("moonsand.tool").bash(shell, { approve = approve, audit = log }), shell
  end

  local function call(bash, command, more)
    local arguments = { command = command, description = "try" }
    for name, value in pairs(more or {}) do
      arguments[name] = value
    end
    return bash:execute(arguments)
  end

  local rules = [[
    rule { prefix = { "touch", "never" }, decision = "forbid" }
    rule { prefix = { "touch", "asked" }, decision = "ask", mode = "workspace-write" }
    rule { prefix = { "touch", "free" }, decision = "allow", mode = "workspace-write" }
  ]]

  it("is as wide as the script says, once, and no wider", function()
    if not runner then
      pending("there is no runner here")
      return
    end
    local asked = {}
    local log <close> = assert(audit.open(home .. "/log.jsonl", { workspace_root = workspace }))
    local bash, shell = tool(rules, function(ask)
      asked[#asked + 1] = ask.command
      return "allowed-once"
    end, log)
    call(bash, "touch free")
    assert.is_true(world.exists(workspace .. "/free"))
    call(bash, "touch free; touch other")
    call(bash, "touch $(touch free) other")
    call(bash, "touch other")
    assert.is_false(world.exists(workspace .. "/other"))
    call(bash, "touch asked")
    assert.is_true(world.exists(workspace .. "/asked"))
    for _, text in ipairs { "touch never", "touch -c never", "sh -c 'touch never'", "cd . && 'touch' never" } do
      assert.is_true(call(bash, text).is_error)
      assert.is_true(call(bash, text, {
        sandbox_permissions = "danger-full-access", justification = "I need it.",
      }).is_error)
    end
    assert.is_false(world.exists(workspace .. "/never"))
    local entries = assert(audit.read(home .. "/log.jsonl"))
    assert.equal(13, #entries)
    assert.equal("forbid", entries[#entries].decision)
    shell:close()
  end)

  it("runs nothing of what nobody may answer, or what the script fails at", function()
    if not runner then
      pending("there is no runner here")
      return
    end
    local bash, shell = tool(rules)
    assert.is_true(call(bash, "touch asked").is_error)
    shell:close()
    bash, shell = tool("mode = 'workspace-write' function resolve() while true do end end", function()
      return "allowed-once"
    end)
    assert.is_true(call(bash, "touch asked").is_error)
    assert.is_true(call(bash, "touch asked", {
      sandbox_permissions = "danger-full-access", justification = "I need it.",
    }).is_error)
    assert.is_false(world.exists(workspace .. "/asked"))
    shell:close()
  end)
end)
