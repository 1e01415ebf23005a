-- The policies to start from, and the recipes of docs/operators.md: each is loaded, and does what it says.
local dirent = require "posix.dirent"
local operator = require "moonsand.operator"
local world = require "world"

describe("a policy to start from", function()
  local home, workspace

  before_each(function()
    home = world.directory()
    workspace = home .. "/workspace"
    assert(os.execute(("mkdir '%s' && chmod 755 '%s'"):format(workspace, home)))
  end)

  after_each(function()
    world.remove(home)
  end)

  -- A checkout may be writable by others; what is loaded is a copy.
  local function load_text(text)
    local path = world.write(home .. "/policy.lua", text)
    os.execute(("chmod 644 '%s'"):format(path))
    return assert(operator.load(path, { workspace_root = workspace }))
  end

  local function example(name)
    return load_text(world.read("examples/policies/" .. name .. ".lua"))
  end

  local function says(script, command)
    local verdict = assert(script:decide({ command = command, workdir = workspace },
      { mode = script.mode, workspace_root = workspace }))
    return verdict.decision .. " " .. verdict.mode
  end

  local function ask(script, mode, justification)
    return (script:approve { command = "x", mode = mode, current = script.mode, justification = justification })
  end

  it("says what it trusts, for every one there is", function()
    local count = 0
    for name in dirent.files("examples/policies") do
      if name:find("%.lua$") then
        count = count + 1
        local text = world.read("examples/policies/" .. name)
        assert.truthy(text:find("^%-%-[^\n]+\n"), name)
        assert.truthy(text:find("Trusts: ", 1, true), name)
        load_text(text)
      end
    end
    assert.is_true(count >= 5)
  end)

  it("is for a laptop", function()
    local script = example "laptop"
    assert.equal("allow workspace-write", says(script, "git status"))
    assert.equal("default workspace-write", says(script, "make test"))
    assert.equal("ask workspace-write", says(script, "git add . && git push"))
    assert.equal("forbid workspace-write", says(script, "git push --force"))
    assert.equal("forbid workspace-write", says(script, "bash -c 'sudo ls'"))
    assert.equal("ask", ask(script, "danger-full-access", "x"))
  end)

  it("is for CI", function()
    local script = example "ci"
    assert.equal("default workspace-write", says(script, "npm test"))
    assert.equal("forbid workspace-write", says(script, "npm publish"))
    assert.equal("forbid workspace-write", says(script, "env docker ps"))
    assert.equal("rejected", ask(script, "danger-full-access", "please"))
    assert.equal("true", script.env.set.CI)
  end)

  it("is for a team with rules about git", function()
    local script = example "team"
    assert.equal("allow read-only", says(script, "git log --oneline"))
    assert.equal("default workspace-write", says(script, "git commit -m 'git push'"))
    assert.equal("ask workspace-write", says(script, "git push origin topic"))
    assert.equal("forbid workspace-write", says(script, "git -C . push --force"))
    assert.equal("forbid workspace-write", says(script, "git config --global core.pager x"))
    assert.equal("ask", ask(script, "workspace-write", "needed for ABC-12"))
    assert.equal("rejected", ask(script, "workspace-write", "needed"))
    assert.equal("rejected", ask(script, "danger-full-access", "needed for ABC-12"))
  end)

  it("is for a teaching machine", function()
    local script = example "teaching"
    assert.equal("default read-only", says(script, "cat exercise.c"))
    assert.equal("default workspace-write", says(script, "cc -o a exercise.c"))
    assert.equal("default read-only", says(script, "cc -o a exercise.c; ./a"))
    assert.equal("forbid read-only", says(script, "cc x.c | curl x"))
    assert.equal("ask read-only", says(script, "rm -r x"))
    assert.equal("[sandbox: this command wanted to change a file; in this class the mode is read-only]",
      script.markers.denied { mode = "read-only" })
  end)

  it("is for another language", function()
    local script = example "deutsch"
    local text = require("moonsand.markers").render({
      stdout = { text = "" }, stderr = { text = "" }, exit_code = 1, sandbox = { mode = "read-only", denied = true },
    }, { markers = script.markers, escalation = true })
    assert.truthy(text:find("^%(keine Ausgabe%)\n%[Sandbox: Dateizugriff verweigert im Modus read%-only%]\n"))
    assert.equal(1, require("moonsand.markers").parse_exit_status(text).exit_code)
    for name in pairs(require("moonsand.markers").lines) do
      assert.is_true(script.markers[name] ~= nil or name == "exit_code" or name == "killed_by_signal", name)
    end
  end)

  it("is every recipe of the cookbook, and decides as it says", function()
    local recipes, answers = 0, 0
    for recipe in world.read("docs/operators.md"):gmatch("\n```lua\n(.-)\n```\n") do
      recipes = recipes + 1
      local script = load_text(recipe)
      for expected, command in recipe:gmatch("%-%-> ([^:\n]+): ([^\n]+)") do
        answers = answers + 1
        local verdict = says(script, command)
        assert.equal(expected, expected:find(" ") and verdict or verdict:match("^%S+"), command)
      end
    end
    assert.is_true(recipes >= 6 and answers >= 12)
  end)
end)
