-- The provider: which runner is chosen, when it is tried, and what is said when there is none; section 5 of the design.
--
-- What a failing first run leads to is in spec/executor/sandboxed_spec.lua; here the provider is asked alone.
local core = require "moonsand.core"
local sandbox_of = require "moonsand.sandbox"
local world = require "world"

local argv = { "/bin/sh", "-c", "true" }

describe("a sandbox", function()
  local directory, policy

  before_each(function()
    directory = world.directory()
    os.execute(("mkdir '%s/w' '%s/bin'"):format(directory, directory))
    policy = { mode = "read-only", workspace_root = directory .. "/w" }
  end)

  after_each(function()
    world.remove(directory)
  end)

  local function refused(options, words)
    local made, err = sandbox_of.new(options)
    assert.is_nil(made)
    assert.equal("INVALID_REQUEST", err.code)
    assert.truthy(err.message:find(words, 1, true), err.message)
  end

  it("refuses options that make no sense, naming them", function()
    refused({ runner = "bubblewrap" }, "unknown runner 'bubblewrap'")
    refused({ runner = "landlok" }, "did you mean 'landlock'?")
    refused({ runner_failure_signatures = { "x" } }, "there is none")
    refused({ runner_command = "/bin/run" }, "needs runner_failure_signatures")
    refused({ runner_command = "/bin/run", runner_failure_signatures = { " " } }, "entry 1 is blank")
    refused({ runner_command = {}, runner_failure_signatures = { "x" } }, "runner_command is empty")
    refused({ runner_command = { "a", 3 }, runner_failure_signatures = { "x" } }, "word 2")
    refused({ runner_command = "/r", runner_failure_signatures = { "x" }, runner = "bwrap" }, "exclude each other")
    refused({ denial_signatures = { bwrap = {} } }, "denial_signatures.bwrap")
    for _, bound in ipairs { 0, -1, 0 / 0, math.huge, 2 ^ 40 } do
      refused({ probe_timeout_ms = bound }, "probe_timeout_ms is")
    end
    assert.has_error(function()
      sandbox_of.new { probe_timeout_ms = "5" }
    end, "bad option 'probe_timeout_ms' (number expected, got string)")
    assert.has_error(function()
      sandbox_of.new { runner = 3 }
    end, "bad option 'runner' (string expected, got number)")
  end)

  it("is never asked about full access", function()
    assert.has_error(function()
      sandbox_of.new():confine(argv, { mode = "danger-full-access", workspace_root = directory })
    end)
  end)

  it("takes the first candidate unprobed for a command that can start over, and bounds it", function()
    local sandbox = assert(sandbox_of.new { probe_timeout_ms = 1234 })
    local first = sandbox_of.candidates[core.platform][1]
    if not world.runner_works(first) then
      pending(first .. " does not work here")
      return
    end
    local wrap = assert(sandbox:confine(argv, policy))
    assert.equal(first, wrap.runner)
    assert.equal(1234, wrap.confine_timeout_ms)
    assert.is_nil(wrap.enforcement) -- nothing was verified yet
    sandbox:confirmed(wrap, { gaps = {} })
    wrap = assert(sandbox:confine(argv, policy))
    assert.is_nil(wrap.confine_timeout_ms)
    assert.equal("full", wrap.enforcement)
    local wider = { mode = "workspace-write", workspace_root = policy.workspace_root }
    wrap = assert(sandbox:confine(argv, wider))
    assert.is_nil(wrap.enforcement)
    sandbox:confirmed(wrap, { gaps = { "metadata" } })
    assert.equal("partial", sandbox:confine(argv, wider).enforcement)
  end)

  it("goes through its candidates as they are refused, and keeps the one that confined", function()
    local sandbox = assert(sandbox_of.new())
    sandbox.candidates = { "landlock", "bwrap" }
    local wrap = assert(sandbox:confine(argv, policy))
    assert.equal("landlock", wrap.runner)
    assert.is_true(sandbox:refused(wrap, "no"))
    local second = sandbox:confine(argv, policy)
    if not second then
      pending("there is no bwrap here")
      return
    end
    assert.equal("bwrap", second.runner)
    sandbox:confirmed(second)
    -- A runner that stops working is no reason to try another one.
    local again, err = sandbox:refused(second, "gone")
    assert.is_nil(again)
    assert.equal("SANDBOX_UNAVAILABLE", err.code)
    assert.truthy(err.message:find("Runner failure: bwrap: gone$"))
    assert.equal("bwrap", sandbox:confine(argv, policy).runner)
  end)

  it("says what became of every candidate when none is left", function()
    local sandbox = assert(sandbox_of.new())
    sandbox.candidates = { "landlock" }
    local wrap = assert(sandbox:confine(argv, policy))
    local again, err = sandbox:refused(wrap, "moonsand-launch: landlock: no", { stage = "x" })
    assert.is_nil(again)
    assert.equal("SANDBOX_UNAVAILABLE", err.code)
    assert.truthy(err.message:find("moonsand doctor", 1, true))
    assert.truthy(err.message:find("Runner failure: landlock: moonsand%-launch: landlock: no$"))
    assert.same({ stage = "x" }, err.cause)
    wrap, err = sandbox:confine(argv, policy)
    assert.is_nil(wrap)
    assert.truthy(err.message:find("Runner failure: landlock: moonsand%-launch: landlock: no$"))
  end)

  it("says what to do, where the cause is known", function()
    local sandbox = assert(sandbox_of.new { runner = "bwrap" })
    local _, err = sandbox:refused(
      { runner = "bwrap", mode = "read-only" }, "moonsand-launch: expected pid 1: No such process")
    assert.truthy(err.message:find("To use bwrap, ", 1, true), err.message)
  end)

  it("has nothing for another platform's runner", function()
    local foreign = core.platform == "darwin" and "landlock" or "seatbelt"
    local wrap, err = assert(sandbox_of.new { runner = foreign }):confine(argv, policy)
    assert.is_nil(wrap)
    assert.equal("SANDBOX_UNAVAILABLE", err.code)
    assert.truthy(err.message:find("Runner failure: " .. foreign .. ": it does not exist on this platform", 1, true))
  end)

  it("has nothing where its runner is not installed, and finds it once it is", function()
    local system = require("moonsand.program").system_directories
    local kept = table.move(system, 1, #system, 1, {})
    for position in ipairs(kept) do
      system[position] = nil
    end
    finally(function()
      table.move(kept, 1, #kept, 1, system)
    end)
    local sandbox = assert(sandbox_of.new { runner = "bwrap", path = directory .. "/bin" })
    local wrap, err = sandbox:confine(argv, policy)
    assert.is_nil(wrap)
    assert.truthy(err.message:find("install bubblewrap", 1, true), err.message)
    world.script(directory .. "/bin/bwrap", "#!/bin/sh\n")
    assert.equal(directory .. "/bin/bwrap", assert(sandbox:confine(argv, policy)).argv[1])
  end)

  it("passes over a runner that was planted in the workspace, for this workspace only", function()
    local planted = world.script(directory .. "/w/my-runner", "#!/bin/sh\n")
    local sandbox = assert(sandbox_of.new { runner_command = planted, runner_failure_signatures = { "x" } })
    local wrap, err = sandbox:confine(argv, policy)
    assert.is_nil(wrap)
    assert.equal("SANDBOX_UNAVAILABLE", err.code)
    assert.truthy(err.message:find("where commands may write", 1, true))
    assert(sandbox:confine(argv, { mode = "read-only", workspace_root = directory .. "/bin" }))
  end)

  it("asserts a custom runner, unprobed and unbounded, with both dialects and the operator's rules", function()
    local runner = world.script(directory .. "/bin/run", "#!/bin/sh\n")
    local sandbox = assert(sandbox_of.new {
      runner_command = { runner, "-q" }, runner_failure_signatures = { "run: " },
    })
    local wrap = assert(sandbox:confine(argv, policy, { verified = true, quiet = true }))
    assert.same({ runner, "-q" }, { wrap.argv[1], wrap.argv[2] })
    assert.equal("custom", wrap.runner)
    assert.equal("full", wrap.enforcement)
    assert.is_true(wrap.asserted)
    assert.is_true(wrap.report_optional)
    assert.is_nil(wrap.confine_timeout_ms)
    assert.same({ "read-only file system", "permission denied" }, wrap.denial_signatures)
    assert.same({ { fatal = { "run: " } } }, wrap.runner_failure_rules)
  end)

  -- Several candidates, of which the first is a script.
  local function with_runner(text, options)
    local script = world.script(directory .. "/bin/bwrap", "#!/bin/bash\n" .. text)
    local sandbox = assert(sandbox_of.new(options))
    sandbox.programs.bwrap = { [policy.workspace_root] = { path = script } }
    return sandbox
  end

  local broken = {
    { "says why", "echo 'bwrap: no permissions' >&2; exit 1", "^bwrap: no permissions$" },
    { "says nothing", "exit 3", "exit code 3" },
    { "hangs", "sleep 60", "within the time allowed" },
    { "is killed", "kill -KILL $$", "SIGKILL" },
    { "confines nothing", 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"', "expected" },
  }
  for _, case in ipairs(broken) do
    it("probes before a command that cannot start over, and goes on when a runner " .. case[1], function()
      if not world.runner_works("landlock") then
        pending("landlock does not work here")
        return
      end
      local sandbox = with_runner(case[2], { probe_timeout_ms = 500 })
      local wrap = assert(sandbox:confine(argv, policy, { verified = true }))
      assert.equal("landlock", wrap.runner)
      assert.is_nil(wrap.confine_timeout_ms)
      assert.truthy(sandbox.refusals.bwrap:find(case[3]), sandbox.refusals.bwrap)
    end)
  end

  it("takes a sole candidate unprobed, unless what it prints would be seen", function()
    local sandbox = with_runner("echo ran >> '" .. directory .. "/ran'; exit 1", { runner = "bwrap" })
    assert(sandbox:confine(argv, policy, { verified = true }))
    assert.is_false(world.exists(directory .. "/ran"))
    local wrap, err = sandbox:confine(argv, policy, { quiet = true })
    assert.is_nil(wrap)
    assert.equal("SANDBOX_UNAVAILABLE", err.code)
    assert.is_true(world.exists(directory .. "/ran"))
  end)

  it("believes no runner that says it is done before the launcher has looked", function()
    local sandbox = with_runner("exit 0", { runner = "bwrap" })
    assert.is_false(sandbox:probe("bwrap", policy).confined)
  end)

  it("probes with the very profile of the policy", function()
    for _, name in ipairs(sandbox_of.candidates[core.platform]) do
      if world.runner_works(name) then
        local sandbox = assert(sandbox_of.new { runner = name })
        local wider = { mode = "workspace-write", workspace_root = directory .. "/w" }
        local outcome = sandbox:probe(name, wider, { "/bin/sh", "-c", "echo x > '" .. directory .. "/w/file'" })
        assert.is_true(outcome.confined)
        assert.is_true(world.exists(directory .. "/w/file"))
        os.remove(directory .. "/w/file")
        outcome = sandbox:probe(name, policy, { "/bin/sh", "-c", "echo x > '" .. directory .. "/w/file'" })
        assert.is_true(outcome.confined)
        assert.is_false(world.exists(directory .. "/w/file"))
      end
    end
  end)

  it("keeps its own files from a command whose workspace they lie in", function()
    if not world.runner_works("bwrap") then
      pending("bwrap does not work here")
      return
    end
    local tools = directory .. "/w/tools"
    os.execute(("mkdir -p '%s/moonsand/inner' '%s/bin'; echo own > '%s/moonsand/file'; echo own > '%s/bin/moonsand'")
      :format(tools, tools, tools, tools))
    local own_files = { tools .. "/moonsand", tools .. "/moonsand/inner", tools .. "/bin/moonsand" }
    local sandbox = assert(sandbox_of.new { runner = "bwrap", own_files = own_files })
    local script = [[cd "$1"; echo x > tools/moonsand/file; rm -f tools/moonsand/file; mv tools away; rmdir tools;
      mv tools/moonsand elsewhere; echo x > tools/beside
      echo x > tools/bin/moonsand; mv tools/bin away; echo x > tools/bin/n]]
    local outcome = sandbox:probe("bwrap", { mode = "workspace-write", workspace_root = directory .. "/w" },
      { "/bin/sh", "-c", script, "sh", directory .. "/w" })
    assert.is_true(outcome.confined)
    assert.equal("own\n", world.read(tools .. "/moonsand/file"))
    assert.equal("own\n", world.read(tools .. "/bin/moonsand"))
    assert.is_true(world.exists(tools .. "/beside"))
    assert.is_true(world.exists(tools .. "/bin/n"))
  end)
end)
