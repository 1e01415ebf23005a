-- Operator scripts: read from a safe place, run within bounds, closed when anything is wrong. Section 9 of the design.
local core = require "moonsand.core"
local operator = require "moonsand.operator"
local policy_of = require "moonsand.policy"
local world = require "world"

describe("an operator's script", function()
  local home, workspace, path

  before_each(function()
    home = world.directory()
    workspace = home .. "/workspace"
    assert(os.execute(("mkdir '%s' && chmod 755 '%s' '%s'"):format(workspace, home, workspace)))
    path = home .. "/policy.lua"
  end)

  after_each(function()
    world.remove(home)
  end)

  local function load_text(text, facts)
    world.write(path, text)
    os.execute(("chmod 644 '%s'"):format(path))
    return operator.load(path, facts or { workspace_root = workspace })
  end

  local function decide(script, command, mode, more)
    local request = { command = command, workdir = workspace }
    for name, value in pairs(more or {}) do
      request[name] = value
    end
    return script:decide(request, { mode = mode or "read-only", workspace_root = workspace })
  end

  it("states a mode, markers, signatures, variables and a log, and gets what it states", function()
    local script = assert(load_text [[
      mode = "workspace-write"
      audit = "/var/log/moonsand.jsonl"
      denial_signatures.landlock = { "permission denied", "keine berechtigung" }
      env.keep = { "CI_TOKEN" }
      env.drop = { "AWS_*" }
      env.set = { GREETING = "hello" }
      markers.no_output = "(nothing)"
      markers.denied = function(facts) return "[" .. facts.mode:upper() .. "]" end
    ]])
    assert.equal("workspace-write", script.mode)
    assert.equal("/var/log/moonsand.jsonl", script.audit)
    assert.same({ landlock = { "permission denied", "keine berechtigung" } }, script.denial_signatures)
    assert.same({ keep = { "CI_TOKEN" }, drop = { "AWS_*" }, set = { GREETING = "hello" } }, script.env)
    assert.equal("(nothing)", script.markers.no_output)
    assert.equal("[READ-ONLY]", script.markers.denied { mode = "read-only" })
    assert.is_false(script.approves)
    assert.equal("read-only", assert(load_text "").mode)
  end)

  it("is told file, line and nearest name of what is wrong with it", function()
    for text, expected in pairs {
      ["\nmoode = 'read-only'"] = ":2: unknown name 'moode'; did you mean 'mode'?",
      ["mode = 'readonly'"] = ":1: unknown mode 'readonly'; did you mean 'read-only'?",
      ["\n\nrule { prefix = { 'git' }, decision = 'alow' }"] = ":3: unknown decision 'alow'; did you mean 'allow'?",
      ["rule { prefx = { 'git' }, decision = 'allow' }"] = ":1: unknown field 'prefx' of a rule; did you mean",
      ["rule { prefix = 'git push', decision = 'ask' }"] = ":1: a rule needs a prefix",
      ["rule { prefix = { 'git push' }, decision = 'ask' }"] = ':1: a prefix is a list of words: { "git", "push" }',
      ["rule { prefix = { 'env' }, decision = 'allow' }"] = ":1: an allow for 'env' would never hold",
      ["rule { prefix = { './x' }, decision = 'allow' }"] = ":1: an allow for './x' would never hold",
      ["rule { prefix = { 'x' }, decision = 'forbid', mode = 'read-only' }"] = ":1: a rule that forbids has no mode",
      ["markers.denid = 'x'"] = ":1: unknown marker 'denid'; did you mean 'denied'?",
      ["markers.denied = 'a\\nb'"] = ":1: markers.denied is one line of text",
      ["denial_signatures.bwarp = { 'x' }"] = ":1: denial_signatures: unknown runner 'bwarp'; did you mean 'bwrap'?",
      ["env.sett = {}"] = ":1: unknown field env.sett; did you mean 'set'?",
      ["env.set = { A = {} }"] = ":1: env.set: the value of A is a table",
      ["resolve = 1"] = ":1: resolve is a function, not a number",
      ["audit = 'log'"] = ":1: audit is the absolute path of a file",
      ["local x = \n="] = ":2: unexpected symbol near '='",
      ["\nos.execute('true')"] = ":2: unknown name 'os'",
      ["io.open('x')"] = ":1: unknown name 'io'",
      ["require 'posix'"] = ":1: unknown name 'require'",
      ["load 'x'"] = ":1: unknown name 'load'",
      ["local x = getmetatable('')"] = ":1: unknown name 'getmetatable'",
      ["debug.sethook()"] = ":1: unknown name 'debug'",
      ["pcall(error)"] = ":1: unknown name 'pcall'",
      ["error('no')"] = ":1: no",
      ["error({})"] = ":1: raised a table instead of a message",
    } do
      local script, err = load_text(text)
      assert.is_nil(script, text)
      assert.equal("POLICY_ERROR", err.code)
      assert.equal(path .. expected, err.message:sub(1, #path + #expected), text)
    end
  end)

  it("is refused as bytecode", function()
    local script, err = load_text(string.dump(function() end))
    assert.is_nil(script)
    assert.truthy(err.message:find("compiled Lua", 1, true))
  end)

  it("is stopped when it has no end, no measure or no patience, and nothing is run", function()
    for _, body in ipairs {
      "while true do end", "local s = 'x' while true do s = s .. s end",
      "local t = {} while true do t[#t + 1] = {} end",
      "local function f() return 1 + f() end f()", "local function f() return f() end return f()", "('x'):rep(1e9)",
      "string.rep('x', 1e9)", "local s = ('x'):rep(1e6) s = s..s..s..s..s..s..s..s..s..s..s..s..s..s..s..s..s..s..s",
      "('a'):rep(30):find(('a?'):rep(30) .. ('a'):rep(30))", "('x'):rep(1e5):find('.-.-.-.-y')", "error('x')",
      "local t = {} for i = 1, 9000 do t[i] = -i end while true do table.sort(t) end", "nothing.x = 1", "mode = 'x'",
      "rule { prefix = { 'a' }, decision = 'allow' }", "return 'no-such-mode'", "return 1", "return { moode = 'x' }",
      "return { decision = 'alow' }", "string.format = nil string.rep = nil return ('x'):rep(2)", "return false",
    } do
      local script = assert(load_text("\nfunction resolve(request, policy) " .. body .. " end"))
      local before = core.monotonic_ms()
      local verdict, err = decide(script, "ls", "workspace-write")
      assert.is_nil(verdict, body)
      assert.equal("POLICY_ERROR", err.code)
      assert.truthy(err.message:find(path, 1, true), err.message)
      assert.is_true(core.monotonic_ms() - before < 2500, body)
      assert.equal("xx", ("x"):rep(2)) -- the host's own strings are as they were
      assert.is_nil(debug.gethook())
    end
    local script, err = load_text("\nwhile true do end")
    assert.is_nil(script)
    assert.equal(path .. ":2: stopped after 2000000 instructions: it seems to have no end", err.message)
  end)

  it("is refused where confined commands, or others, could write it", function()
    local text = "mode = 'danger-full-access'"
    assert(load_text(text))
    local function refused(name, expected, facts)
      local script, err = operator.load(name, facts or { workspace_root = workspace })
      assert.is_nil(script, expected)
      assert.truthy(err.message:find(expected, 1, true), err.message)
    end
    world.write(workspace .. "/own.lua", text)
    refused(workspace .. "/own.lua", "which commands may write")
    refused(home .. "/workspace/../workspace/own.lua", "which commands may write")
    os.execute(("ln -s '%s/own.lua' '%s/link.lua'; ln -s '%s' '%s/dir'"):format(workspace, home, workspace, home))
    refused(home .. "/link.lua", "which commands may write")
    refused(home .. "/dir/own.lua", "which commands may write")
    os.execute(("ln -s '%s' '%s/out.lua'"):format(path, workspace))
    refused(workspace .. "/out.lua", "which commands may write") -- the link could be turned
    os.execute(("ln -s '%s/out.lua' '%s/twice.lua'"):format(workspace, home))
    refused(home .. "/twice.lua", "which commands may write")
    refused(path, "which commands may write", { workspace_root = home })
    refused(path, "which commands may write", { workspace_root = "/" })
    refused(path, "which commands may write", { writable = { home } })
    os.execute(("ln '%s' '%s/hard.lua'"):format(path, workspace))
    refused(path, "hard link")
    os.remove(workspace .. "/hard.lua")
    assert(operator.load(path, { workspace_root = workspace }))
    os.execute(("chmod 666 '%s'"):format(path))
    refused(path, "can be written by others")
    os.execute(("chmod 644 '%s'; chmod 777 '%s'"):format(path, home))
    refused(path, "can be written by others")
    os.execute(("chmod 755 '%s'"):format(home))
    refused(home, "not a regular file")
    refused(home .. "/none.lua", "No such file")
    refused("/dev/null", "can be written by others")
    refused("", "not the name of a file")
    if core.geteuid() == 0 then
      os.execute(("chown 65534 '%s'"):format(path))
      refused(path, "belongs to another user")
    end
  end)

  it("is refused when it changes between the check and its use", function()
    local fcntl, unistd = require "posix.fcntl", require "posix.unistd"
    local open, read = fcntl.open, unistd.read
    finally(function()
      fcntl.open, unistd.read = open, read
    end)
    local function exchange(source) -- the very file, at the very moment
      assert(os.rename(source, path))
    end
    local function refused(expected)
      local script, err = operator.load(path, { workspace_root = workspace })
      fcntl.open, unistd.read = open, read
      assert.is_nil(script)
      assert.truthy(err.message:find(expected, 1, true), err.message)
    end
    local wider = "mode = 'danger-full-access'"

    assert(load_text("mode = 'read-only'"))
    world.write(workspace .. "/own.lua", wider)
    os.execute(("ln -s '%s/own.lua' '%s/link'"):format(workspace, home))
    fcntl.open = function(...)
      exchange(home .. "/link") -- the path was looked at, and leads into the workspace now
      return open(...)
    end
    refused("was replaced while it was being read")

    os.remove(path)
    assert(load_text("mode = 'read-only'"))
    world.write(home .. "/other", wider)
    fcntl.open = function(...)
      local descriptor = open(...)
      exchange(home .. "/other")
      return descriptor
    end
    refused("was replaced while it was being read")

    assert(load_text("mode = 'read-only'"))
    unistd.read = function(...)
      world.write(path, wider .. " -- longer")
      return read(...)
    end
    refused("changed while it was being read")
  end)

  it("keeps its last good version when an edit breaks it, and says so", function()
    world.write(path, "rule { prefix = { 'rm' }, decision = 'forbid' }")
    local script = assert(operator.watch(path, { workspace_root = workspace }))
    assert.is_false(script:reload())
    world.write(path, "rule { prefix = ")
    local changed, err = script:reload()
    assert.is_nil(changed)
    assert.truthy(err.message:find("the policy of before stays in force", 1, true))
    assert.equal(err, script.stale)
    assert.equal("forbid", decide(script, "rm x").decision)
    world.write(path, "mode = 'workspace-write'")
    assert.is_true(script:reload())
    assert.is_nil(script.stale)
    assert.equal("workspace-write", script.mode)
    assert.equal("default", decide(script, "rm x").decision)
  end)

  describe("with rules", function()
    local script

    before_each(function()
      script = assert(load_text [[
        rule { prefix = { "git", "status" }, decision = "allow" }
        rule { prefix = { "ls" }, decision = "allow", mode = "danger-full-access" }
        rule { prefix = { "git", "push" }, decision = "ask", mode = "danger-full-access", reason = "it leaves" }
        rule { prefix = { "git", "push", "--force" }, decision = "forbid" }
        rule { prefix = { "rm" }, decision = "forbid" }
      ]])
    end)

    it("takes the strictest that holds, wherever it is", function()
      assert.equal("allow", decide(script, "git status").decision)
      assert.equal("ask", decide(script, "git push").decision)
      assert.equal("it leaves", decide(script, "git push").reason)
      assert.equal(path .. ":3", decide(script, "git push").source)
      assert.equal("forbid", decide(script, "git push --force").decision)
      assert.equal("forbid", decide(script, "git -C x push -q --force").decision)
      assert.equal("forbid", decide(script, "git push; rm x").decision)
      assert.equal("forbid", decide(script, "git status && bash -c '/bin/rm x'").decision)
      assert.equal("default", decide(script, "git log").decision)
      assert.equal("default", decide(script, "echo rm; cat <<E\nrm\nE").decision)
      assert.equal("ask", decide(script, "$x y").decision)
      assert.equal("ask", decide(script, "echo 'x").decision)
      assert.equal("forbid", script:decide({ argv = { "/bin/rm", "x" } }, { mode = "read-only" }).decision)
      assert.equal("forbid", script:decide({ argv = { "sh", "-c", "rm x" } }, { mode = "read-only" }).decision)
    end)

    it("widens only for a command that is certain", function()
      assert.equal("danger-full-access", decide(script, "ls -l").mode)
      assert.equal("danger-full-access", decide(script, "git push").mode)
      for _, text in ipairs { "ls; x", "ls $(x)", "A=1 ls", "./ls", "ls > x", "ls\nx", "command ls", "git push; x" } do
        assert.equal("read-only", decide(script, text).mode, text)
      end
    end)

    it("is not widened by anything that an agent controls", function()
      for _, env in ipairs { { PATH = workspace }, { BASH_ENV = "x" }, { ["BASH_FUNC_ls%%"] = "() { x; }" },
        { LD_PRELOAD = "x" } } do
        assert.equal("read-only", decide(script, "ls", nil, { env = env }).mode)
      end
      for _, more in ipairs {
        { session = "danger-full-access" }, { session = "x\nmode = 'danger-full-access'" }, { workdir = "/" },
        { workdir = workspace .. "/a\nb" }, { description = "ls" },
      } do
        assert.equal("read-only", decide(script, "touch x", nil, more).mode)
        assert.equal("forbid", decide(script, "rm x", nil, more).decision)
      end
      world.script(workspace .. "/ls", "#!/bin/sh\n")
      local planted = ([[
        local core = require "moonsand.core"
        local script = assert(require("moonsand.operator").load(%q, { workspace_root = %q }))
        io.write(script:decide({ command = "ls" }, { mode = "read-only", workspace_root = %q }).mode)
      ]]):format(path, workspace, workspace)
      local function mode_with(search)
        local host <close> = core.spawn {
          argv = { world.interpreter, "-e", planted },
          env = { "PATH=" .. search, "LUA_PATH=" .. package.path, "LUA_CPATH=" .. package.cpath },
          max_output_bytes = 10000, timeout_ms = 10000,
        }
        return select(2, world.ended(host))
      end
      assert.equal("danger-full-access", mode_with("/usr/bin:/bin"))
      assert.equal("read-only", mode_with(workspace .. ":/usr/bin:/bin"))
      assert.equal("read-only", mode_with(".:/usr/bin"))
      os.execute(("ln -s '%s' '%s/bin'"):format(workspace, home))
      assert.equal("read-only", mode_with(home .. "/bin:/usr/bin"))
    end)

    it("answers 10,000 times with 200 rules in less than a second", function()
      local text = {}
      for number = 1, 200 do
        text[number] = ('rule { prefix = { "%s", "sub%d" }, decision = "%s" }'):format(
          number % 2 == 0 and "git" or "tool" .. number, number, number % 3 == 0 and "allow" or "ask")
      end
      script = assert(load_text(table.concat(text, "\n") .. "\nfunction resolve(request, policy) end"))
      local before = core.monotonic_ms()
      for number = 1, 10000 do
        decide(script, "git commit -m 'some message' file" .. number)
      end
      local took = core.monotonic_ms() - before
      assert.is_true(took < 1000, took .. " ms")
    end)
  end)

  it("decides per command with resolve, but never against a rule that is stricter", function()
    local script = assert(load_text [[
      rule { prefix = { "rm" }, decision = "forbid" }
      rule { prefix = { "mv" }, decision = "ask" }
      function resolve(request, policy)
        if request.words and request.words[1] == "make" then return "workspace-write" end
        if request.command == "odd" then return { decision = "ask", reason = "it is odd" } end
        if request.command == "narrow" then return "read-only" end
        return "allow"
      end
    ]])
    assert.equal("workspace-write", decide(script, "make all").mode)
    assert.equal("read-only", decide(script, "make all; x").mode)
    assert.equal("ask", decide(script, "odd").decision)
    assert.equal("read-only", decide(script, "narrow", "workspace-write").mode)
    assert.equal("forbid", decide(script, "rm x").decision)
    assert.equal("ask", decide(script, "mv x").decision)
  end)

  it("answers a question, or leaves it, and is a no when it fails", function()
    local script = assert(load_text [[
      function approve(ask)
        if ask.command == "fail" then error("oh") end
        if ask.command == "bad" then return "yes" end
        if ask.command == "loop" then while true do end end
        if ask.command == "none" then return nil end
        return ask.mode == "workspace-write" and "allowed-once" or "ask"
      end
    ]])
    assert.is_true(script.approves)
    local function ask(command, mode)
      return script:approve { command = command, mode = mode or "workspace-write", current = "read-only" }
    end
    assert.equal("allowed-once", ask("x"))
    assert.equal("ask", ask("x", "danger-full-access"))
    assert.equal("ask", ask("none"))
    for _, command in ipairs { "fail", "bad", "loop" } do
      local outcome, err = ask(command)
      assert.equal("rejected", outcome)
      assert.equal("POLICY_ERROR", err.code)
    end
    assert.equal("ask", assert(load_text ""):approve { command = "x", mode = "workspace-write" })
  end)

  it("stamps a policy on a request, or refuses it", function()
    local script = assert(load_text [[
      rule { prefix = { "rm" }, decision = "forbid" }
      rule { prefix = { "mv" }, decision = "ask" }
      rule { prefix = { "ls" }, decision = "allow", mode = "workspace-write" }
    ]])
    local policy = assert(policy_of.new { workspace_root = workspace }):resolve()
    assert.equal("workspace-write", script:policy_for({ command = "ls" }, policy).mode)
    assert.equal("read-only", policy.mode)
    assert.equal("POLICY_ERROR", select(2, script:policy_for({ command = "rm x" }, policy)).code)
    assert.equal("ESCALATION_UNAVAILABLE", select(2, script:policy_for({ command = "mv x" }, policy)).code)
    local wide = { mode = "danger-full-access", workspace_root = workspace }
    local granted = { command = "mv x", mode = "danger-full-access" }
    assert.equal("danger-full-access", script:policy_for(granted, wide, "read-only").mode)
    granted.command = "rm x"
    assert.is_nil(script:policy_for(granted, wide, "read-only"))
  end)

  it("has a line that cannot be used replaced by the ordinary one", function()
    local script = assert(load_text "markers.denied = function(facts) return 1 end")
    assert.equal("[sandbox: file access denied under read-only mode]", script.markers.denied { mode = "read-only" })
    assert.equal("POLICY_ERROR", script.marker_error.code)
  end)
end)
