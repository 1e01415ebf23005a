-- Every example runs, and does what it says.
local core = require "moonsand.core"
local world = require "world"

local runner = world.runner_works "bwrap" or world.runner_works "landlock"

describe("the example", function()
  local directory

  before_each(function()
    directory = world.directory()
  end)

  after_each(function()
    world.remove(directory)
  end)

  local function start(script, arguments, variables)
    local env = { "PATH=" .. os.getenv "PATH", "HOME=" .. (os.getenv "HOME" or "/"), "LUA_PATH=" .. package.path,
      "LUA_CPATH=" .. package.cpath }
    table.move(variables or {}, 1, #(variables or {}), #env + 1, env)
    local argv = { world.interpreter, script }
    table.move(arguments, 1, #arguments, 3, argv)
    return assert(core.spawn { argv = argv, env = env, max_output_bytes = 100000, timeout_ms = 30000 })
  end

  local function run(...)
    local status, stdout, stderr = world.ended(start(...))
    assert.equal(0, status.exit_code, stderr)
    return stdout
  end

  local function contains(text, ...)
    local from = 1
    for _, words in ipairs { ... } do
      local _, to = text:find(words, from, true)
      assert.truthy(to, ("%q is not in %s"):format(words, text:sub(from)))
      from = to + 1
    end
  end

  it("agent.lua is denied, asks, is allowed and succeeds; then is rejected, and stops", function()
    if not runner then
      pending("no runner works here")
      return
    end
    local stdout = run("examples/agent.lua", { directory })
    contains(stdout, "policy> File policy: read-only", "tool>   Helo, world",
      "[sandbox: file access denied under read-only mode]", "[sandbox: escalation available",
      "person> escalate sandbox to workspace-write: The correction has to be written to greet.sh.", "allowed-once",
      "tool>   Hello, world", "person> escalate sandbox to danger-full-access", "rejected",
      "tool>   escalation to danger-full-access was rejected by the user", "model>  I was not allowed")
    assert.equal('echo "Hello, world"\n', world.read(directory .. "/greet.sh"))
    assert.is_false(world.exists "/usr/local/bin/greet")
  end)

  it("two_sessions.lua writes in one project and not in the other", function()
    if not runner then
      pending("no runner works here")
      return
    end
    local stdout = run("examples/two_sessions.lua", { directory })
    contains(stdout, "website: 5 written, 0 denied\n", "archive: 0 written, 5 denied\n",
      "archive asks for a job of website: there is no background job")
    assert.is_true(world.exists(directory .. "/website/note-5"))
    assert.is_false(world.exists(directory .. "/archive/note-5"))
  end)

  it("llm_agent.lua speaks to an endpoint, and the model never sees the key", function()
    if not runner then
      pending("no runner works here")
      return
    elseif not core.find_program("curl", os.getenv "PATH") then
      pending("there is no curl")
      return
    end
    local server = start("spec/fake_endpoint.lua", {})
    assert.is_true(world.eventually(5000, function()
      return (server:read "stdout"):find("\n", 1, true) ~= nil
    end))
    local port = (server:read "stdout"):match "^%d+"
    local stdout = run("examples/llm_agent.lua",
      { "--model", "scripted", "--workspace", directory, "--allow", "workspace-write", "write a note" },
      { ("OPENAI_BASE_URL=http://127.0.0.1:%s/v1/"):format(port), 'OPENAI_API_KEY=se"cret\\key' })
    local status, _, stderr = world.ended(server)
    assert.equal(0, status.exit_code, stderr)
    assert.equal("DONE it's\nkey: \n\n", stdout)
    assert.equal("it's\n", world.read(directory .. "/note"))
  end)
end)
