-- The tool under an operator's script: rules, the script's own approval, and the audit log.
local audit = require "moonsand.audit"
local cjson = require "cjson"
local moonsand = require "moonsand"
local operator = require "moonsand.operator"
local world = require "world"

local runner = world.runner_works "bwrap" and "bwrap" or world.runner_works "landlock" and "landlock"

describe("the tool under an operator's script", function()
  local directory, root, asked

  before_each(function()
    directory, asked = world.directory(), {}
    root = directory .. "/root"
    os.execute(("mkdir '%s'"):format(root))
  end)

  after_each(function()
    world.remove(directory)
  end)

  local function answers(outcome)
    return function(ask)
      asked[#asked + 1] = ask
      return outcome, "person"
    end
  end

  local function promise(name, check)
    it(name, function()
      if not runner then
        pending("no runner works here")
        return
      end
      check()
    end)
  end

  -- A tool under the script, known to the executor or to the tool alone.
  local function tool(text, options, of_tool)
    local path = world.write(directory .. "/policy.lua", text)
    os.execute(("chmod 600 '%s'"):format(path))
    local script = assert(operator.load(path, { workspace_root = root }))
    local shell = assert(moonsand.shell {
      runner = runner, workspace_root = root, operator = not of_tool and script or nil,
    })
    options = options or {}
    options.operator = of_tool and script or nil
    return moonsand.tool.bash(shell, options)
  end

  for _, of_tool in ipairs { false, true } do
    local where = of_tool and " (the tool's)" or " (the executor's)"

    promise("runs nothing that a rule forbids, whoever would grant it" .. where, function()
      local bash = tool('rule { prefix = { "touch" }, decision = "forbid", reason = "no marks" }',
        { approve = answers "allowed-once" }, of_tool)
      for _, more in ipairs { {}, { sandbox_permissions = "workspace-write", justification = "Why not." } } do
        more.command, more.description = "touch x", "d"
        local result = bash:execute(more)
        assert.is_true(result.is_error)
        assert.equal("POLICY_ERROR", result.structured.error.code)
        assert.truthy(result.content:find("forbid", 1, true), result.content)
      end
      assert.equal(0, #asked)
      assert.is_false(world.exists(root .. "/x"))
    end)

    promise("runs what a rule asks about once somebody allowed it, and under the same mode" .. where, function()
      local text = 'rule { prefix = { "echo" }, decision = "ask" }'
      local arguments = { command = "echo hi", description = "Say hi" }
      local bash = tool(text, { approve = answers "rejected" }, of_tool)
      assert.equal("ESCALATION_REJECTED", bash:execute(arguments).structured.error.code)
      assert.equal("run", asked[1].kind)
      bash = tool(text, {}, of_tool)
      assert.equal("ESCALATION_NO_APPROVER", bash:execute(arguments).structured.error.code)
      bash = tool(text, { approve = answers "allowed-once" }, of_tool)
      local result = bash:execute(arguments)
      assert.equal("hi\n", result.content)
      assert.equal("read-only", result.structured.sandbox.mode)
    end)

    promise("has the mode a rule gives this command alone" .. where, function()
      local bash = tool('rule { prefix = { "touch" }, decision = "allow", mode = "workspace-write" }', nil, of_tool)
      assert.equal("workspace-write", bash:execute({ command = "touch x", description = "d" }).structured.sandbox.mode)
      assert.is_true(world.exists(root .. "/x"))
      local result = bash:execute { command = "touch y; true", description = "d" }
      assert.equal("read-only", result.structured.sandbox.mode)
      assert.is_false(world.exists(root .. "/y"))
    end)

    promise("asks the script before the person" .. where, function()
      local bash = tool([[function approve(ask) return ask.mode == "workspace-write" and "allowed-once" or "ask" end]],
        { approve = answers "rejected" }, of_tool)
      local arguments = { command = "touch x", description = "d", sandbox_permissions = "workspace-write",
        justification = "Why not." }
      assert.is_false(bash:execute(arguments).is_error)
      assert.equal(0, #asked)
      arguments.sandbox_permissions = "danger-full-access"
      assert.equal("ESCALATION_REJECTED", bash:execute(arguments).structured.error.code)
      assert.equal(1, #asked)
    end)
  end

  promise("writes a line of audit for each call", function()
    local path = directory .. "/audit.jsonl"
    local log = assert(audit.open(path, { workspace_root = root }))
    local bash = tool("mode = \"read-only\"", { audit = log, approve = answers "allowed-once", jobs = true })
    assert.is_nil(bash:execute({ command = "exit 3", description = "d" }).structured.audit_error)
    bash:execute { command = "touch x", description = "d", sandbox_permissions = "workspace-write",
      justification = "Why not." }
    bash:execute { command = "touch x", description = "d", sandbox_permissions = "workspace-write" }
    bash:execute { command = "true", description = "d", run_in_background = true }
    bash:execute { command = "" }
    local entries = {}
    for line in io.lines(path) do
      entries[#entries + 1] = cjson.decode(line)
    end
    assert.equal(5, #entries)
    assert.equal(3, entries[1].exit_code)
    assert.equal("allowed-once", entries[2].decision)
    assert.equal("person", entries[2].decided_by)
    assert.equal("ESCALATION_INVALID", entries[3].error)
    assert.equal("started", entries[4].outcome)
    assert.equal("refused", entries[5].outcome)
  end)
end)
