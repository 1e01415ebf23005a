-- The escalation sequence through the tool: every branch, in order, and nothing spawned on any but the granted one;
-- section 8 of the design.
local moonsand = require "moonsand"
local world = require "world"

local runner = world.runner_works "bwrap" and "bwrap" or world.runner_works "landlock" and "landlock"

describe("an escalation", function()
  local directory, shell, asked, side

  before_each(function()
    directory, asked = world.directory(), {}
    side = directory .. "/side"
    if runner then
      shell = assert(moonsand.shell { runner = runner, workspace_root = directory })
    end
  end)

  after_each(function()
    if shell then
      shell:close()
    end
    world.remove(directory)
  end)

  local function promise(name, check)
    it(name, function()
      if not runner then
        pending("no runner works here")
        return
      end
      check()
    end)
  end

  local function answers(outcome, by)
    return function(ask)
      asked[#asked + 1] = ask
      return outcome, by
    end
  end

  local function bash(options)
    options.escalation = options.escalation or moonsand.escalation.new { timeout_ms = 300 }
    return moonsand.tool.bash(shell, options)
  end

  local function escalate(more)
    local arguments = {
      command = "echo ran > side",
      description = "Leave a mark",
      sandbox_permissions = "workspace-write",
      justification = "The mark is needed.",
    }
    for name, value in pairs(more or {}) do
      arguments[name] = value or nil
    end
    return arguments
  end

  -- Nothing was started: the core was not asked to.
  local function spawns_nothing(act)
    local core = require "moonsand.core"
    local spawn, spawned = core.spawn, 0
    core.spawn = function(...)
      spawned = spawned + 1
      return spawn(...)
    end
    local result = act()
    core.spawn = spawn
    assert.equal(0, spawned)
    assert.is_false(world.exists(side))
    return result
  end

  local yes = answers("allowed-once")
  local refusals = {
    { "has permissions without a justification", "ESCALATION_INVALID", escalate { justification = false }, yes,
      "sandbox_permissions requires justification: one sentence that says why this command needs the wider mode" },
    { "has a justification without permissions", "ESCALATION_INVALID", escalate { sandbox_permissions = false }, yes,
      "justification requires sandbox_permissions: name the mode that is asked for" },
    { "has a blank justification", "ESCALATION_INVALID", escalate { justification = " \n" }, yes,
      "justification must be a sentence that is not empty" },
    { "has a justification that is no text", "ESCALATION_INVALID", escalate { justification = 7 }, yes,
      "justification must be a sentence that is not empty" },
    { "names no mode of the ladder", "ESCALATION_INVALID", escalate { sandbox_permissions = "read-only" }, yes,
      "sandbox_permissions must be one of workspace-write, danger-full-access" },
    { "has nobody to ask", "ESCALATION_NO_APPROVER", escalate(), nil,
      "escalation to workspace-write is not possible: nobody is there to approve it; the command was not run" },
    { "is rejected", "ESCALATION_REJECTED", escalate(), answers("rejected"),
      "escalation to workspace-write was rejected by the user; the command was not run", true },
    { "is cancelled", "ESCALATION_CANCELLED", escalate(), answers("cancelled"),
      "the request to escalate to workspace-write was cancelled; the command was not run", true },
    { "can reach nobody", "ESCALATION_UNAVAILABLE", escalate(), answers("unavailable"),
      "escalation to workspace-write could not be approved: nobody could be reached; the command was not run", true },
    { "is answered by an error", "ESCALATION_FAILED", escalate(), function(ask)
      asked[#asked + 1] = ask
      error("boom\27", 0)
    end, "escalation to workspace-write failed: the approver raised an error: boom\\e; the command was not run", true },
    { "is answered in no time at all", "ESCALATION_TIMED_OUT", escalate(), function(ask)
      asked[#asked + 1] = ask
      while ask do
        asked.spinning = true
      end
    end, "escalation to workspace-write was not answered in time (300 ms); the command was not run", true },
    { "is yielded where nobody resumes", "ESCALATION_FAILED", escalate(), function(ask)
      asked[#asked + 1] = ask
      coroutine.yield()
      return "allowed-once"
    end, "escalation to workspace-write failed: the approver yielded where nobody can resume it; the command was not "
      .. "run", true },
  }
  for _, garbage in ipairs { "yes", "Allowed-once", "ask", true, 1, {}, "allowed-once\n", false } do
    refusals[#refusals + 1] = { "is answered by " .. tostring(garbage):gsub("0x%x+", ""):gsub("\n", "\\n"),
      "ESCALATION_FAILED", escalate(), answers(garbage),
      "escalation to workspace-write failed: the approver gave no valid answer; the command was not run", true }
  end

  for _, case in ipairs(refusals) do
    local name, code, arguments, approve, text, is_asked = table.unpack(case, 1, 6)
    for _, background in ipairs { false, true } do
      promise("that " .. name .. (background and " in the background" or "") .. " runs nothing", function()
        local tool = bash { approve = approve, jobs = true }
        arguments.run_in_background = background
        local result = spawns_nothing(function()
          return tool:execute(arguments)
        end)
        assert.is_true(result.is_error)
        assert.equal(code, result.structured.error.code)
        assert.equal(text, result.content)
        assert.equal(is_asked and 1 or 0, #asked)
      end)
    end
  end

  it("has a text of its own for each refusal", function()
    local seen = {}
    for name, text in pairs(moonsand.escalation.texts) do
      text = type(text) == "function" and text { mode = "m", current = "c", detail = "d", justification = "j" } or text
      assert.is_nil(seen[text], name)
      seen[text] = name
    end
  end)

  promise("to what is allowed already asks nobody", function()
    local wide = assert(moonsand.shell { runner = runner, workspace_root = directory, mode = "workspace-write" })
    local tool = moonsand.tool.bash(wide, { approve = yes })
    local result = spawns_nothing(function()
      return tool:execute(escalate())
    end)
    assert.equal("ESCALATION_NOT_WIDER", result.structured.error.code)
    assert.equal("sandbox_permissions 'workspace-write' is not wider than the current mode 'workspace-write'; run the "
      .. "command without it", result.content)
    assert.equal(0, #asked)
    wide:close()
  end)

  promise("is measured against the session's mode, not the default", function()
    local session = assert(shell.policy:begin("s", { cwd = directory }))
    assert(shell.policy:switch(session, "workspace-write"))
    local result = bash({ approve = yes, session = session }):execute(escalate())
    assert.equal("ESCALATION_NOT_WIDER", result.structured.error.code)
    assert.equal(0, #asked)
  end)

  promise("that is granted runs, and is asked in these words", function()
    local result = bash({ approve = answers("allowed-once", "Ann") }):execute(escalate())
    assert.is_false(result.is_error)
    assert.equal("(no output)", result.content)
    assert.equal("workspace-write", result.structured.sandbox.mode)
    assert.equal("ran\n", world.read(side))
    assert.equal(1, #asked)
    assert.same({
      text = "escalate sandbox to workspace-write: The mark is needed.",
      kind = "escalate",
      command = "echo ran > side",
      description = "Leave a mark",
      workdir = directory,
      workspace_root = directory,
      mode = "workspace-write",
      current = "read-only",
      justification = "The mark is needed.",
    }, asked[1])
  end)

  promise("to full access does not consult the sandbox", function()
    shell.sandbox = setmetatable({}, { __index = function(_, name)
      error("the sandbox was asked for " .. name)
    end })
    local result = bash({ approve = yes }):execute(escalate { sandbox_permissions = "danger-full-access" })
    assert.equal("(no output)", result.content)
    assert.same({ mode = "danger-full-access", denied = false }, result.structured.sandbox)
    assert.is_true(world.exists(side))
  end)

  local plain = escalate { sandbox_permissions = false, justification = false }

  promise("does not leak to the next call", function()
    local tool = bash { approve = yes }
    tool:execute(escalate { command = "true" })
    local result = tool:execute(plain)
    assert.equal("read-only", result.structured.sandbox.mode)
    assert.is_true(result.structured.sandbox.denied)
    assert.is_false(world.exists(side))
  end)

  promise("does not leak to a call that runs while it is asked for, nor to one while it runs", function()
    local tool, during
    tool = bash { approve = function()
      during = tool:execute(plain)
      return "allowed-once"
    end }
    local inner
    local result = tool:execute(escalate { command = "echo go; sleep 0.1" }, { on_output = function()
      inner = tool:execute(plain)
    end })
    assert.equal("workspace-write", result.structured.sandbox.mode)
    for _, other in ipairs { during, inner } do
      assert.equal("read-only", other.structured.sandbox.mode)
      assert.is_true(other.structured.sandbox.denied)
    end
    assert.is_false(world.exists(side))
  end)

  promise("does not leak to another session's background job", function()
    local one = assert(shell.policy:begin("one", { cwd = directory }))
    local two = assert(shell.policy:begin("two", { cwd = directory }))
    local tool = bash { jobs = true, approve = yes }
    local job_output = tool:tools()[2]
    tool:execute({ command = "sleep 0.2; " .. plain.command, description = "d", run_in_background = true },
      { session = two })
    local granted = escalate { command = "sleep 0.1; echo mine > one", run_in_background = true }
    tool:execute(granted, { session = one })
    local result = job_output:execute({ id = "job-1", wait_ms = 5000 }, { session = two })
    assert.equal("read-only", result.structured.sandbox.mode)
    assert.is_true(result.structured.sandbox.denied)
    result = job_output:execute({ id = "job-2", wait_ms = 5000 }, { session = one })
    assert.equal("workspace-write", result.structured.sandbox.mode)
    assert.is_false(world.exists(side))
    assert.is_true(world.exists(directory .. "/one"))
  end)

  promise("of arguments that change while they are asked about runs what was asked about", function()
    local arguments = escalate()
    bash({ approve = function()
      arguments.command = "echo other > other"
      return "allowed-once"
    end }):execute(arguments)
    assert.is_true(world.exists(side))
    assert.is_false(world.exists(directory .. "/other"))
  end)

  promise("in a coroutine waits for whoever resumes it", function()
    local thread = coroutine.wrap(function()
      return bash({ approve = coroutine.yield }):execute(escalate())
    end)
    assert.equal("workspace-write", thread().mode)
    assert.is_false(world.exists(side))
    assert.equal("(no output)", thread("allowed-once").content)
    assert.is_true(world.exists(side))
  end)

  promise("where commands are not confined has no fields and is refused", function()
    local free <close> = assert(moonsand.unconfined_shell { workdir = directory })
    local tool = moonsand.tool.bash(free, { approve = yes })
    assert.is_nil(tool:schema().parameters.properties.sandbox_permissions)
    local result = tool:execute(escalate())
    assert.equal("ESCALATION_INVALID", result.structured.error.code)
    assert.is_false(world.exists(side))
  end)
end)

describe("an escalation of a host's own", function()
  it("is checked when it is made", function()
    for words, options in pairs {
      ["ladder.*empty"] = { ladder = {} },
      ["ladder.*entry 1"] = { ladder = { "read-only" } },
      ["ladder.*entry 2"] = { ladder = { "danger-full-access", "workspace-write" } },
      ["texts.rejected.*empty"] = { texts = { rejected = " " } },
      ["texts.rejected.*single line"] = { texts = { rejected = "a\nb" } },
      ["texts.rejected.*number"] = { texts = { rejected = 7 } },
      ["texts.refused.*unknown"] = { texts = { refused = "no" } },
      ["timeout_ms"] = { timeout_ms = 0 },
      ["rungs"] = { rungs = {} },
    } do
      assert.error_matches(function()
        moonsand.escalation.new(options)
      end, words)
    end
    assert.error_matches(function()
      moonsand.escalation.texts.rejected = ""
    end, "must not be empty")
  end)

  it("has its own ladder and words", function()
    local made = moonsand.escalation.new { ladder = { "workspace-write" }, texts = { rejected = "Nope." } }
    assert.is_false(made:possible "workspace-write")
    assert.is_true(made:possible "read-only")
    assert.is_nil((made:check("danger-full-access", "why", true)))
    local _, err = made:decide("workspace-write", "read-only", function()
      return "rejected"
    end, {})
    assert.equal("Nope.", err.message)
  end)
end)
