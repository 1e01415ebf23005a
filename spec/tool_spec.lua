-- The bash tool and its background jobs, as a model and a host see them; section 8 of the design.
local cjson = require "cjson"
local moonsand = require "moonsand"
local world = require "world"

local runner = world.runner_works "bwrap" and "bwrap" or world.runner_works "landlock" and "landlock"

local function keys(map)
  local list = {}
  for name in pairs(map) do
    list[#list + 1] = name
  end
  table.sort(list)
  return list
end

describe("the bash tool", function()
  local directory, shell

  before_each(function()
    directory = world.directory()
    shell = assert(moonsand.unconfined_shell { workdir = directory })
  end)

  after_each(function()
    shell:close()
    world.remove(directory)
  end)

  local function fields(tool)
    return keys(tool:schema().parameters.properties)
  end

  it("has fields for what is possible, and no others", function()
    local plain = { "command", "description", "timeout_ms", "workdir" }
    local jobs = { "command", "description", "run_in_background", "timeout_ms", "workdir" }
    local both = { "command", "description", "justification", "run_in_background", "sandbox_permissions", "timeout_ms",
      "workdir" }
    assert.same(plain, fields(moonsand.tool.bash(shell)))
    assert.same(jobs, fields(moonsand.tool.bash(shell, { jobs = true })))
    local full <close> = assert(moonsand.shell { mode = "danger-full-access" })
    assert.same(plain, fields(moonsand.tool.bash(full)))
    local confined <close> = assert(moonsand.shell { workspace_root = directory })
    assert.same(both, fields(moonsand.tool.bash(confined, { jobs = true })))
    local schema = cjson.decode(cjson.encode(moonsand.tool.bash(confined):schema()))
    assert.same({ "workspace-write", "danger-full-access" }, schema.parameters.properties.sandbox_permissions.enum)
    assert.same({ "command", "description" }, schema.parameters.required)
    assert.is_false(schema.parameters.additionalProperties)
    local ladder = moonsand.escalation.new { ladder = { "workspace-write" } }
    assert.same({ "workspace-write" }, moonsand.tool.bash(confined, { escalation = ladder })
      :schema().parameters.properties.sandbox_permissions.enum)
  end)

  it("adds nothing to an unremarkable run", function()
    local result = moonsand.tool.bash(shell):execute { command = "echo hi", description = "Say hi" }
    assert.equal("hi\n", result.content)
    assert.is_false(result.is_error)
    assert.equal(0, result.structured.exit_code)
    assert.equal("hi\n", result.structured.stdout.text)
  end)

  it("takes its arguments as JSON, nulls and all, and a failing command is no error", function()
    local result = moonsand.tool.bash(shell):execute('{"command":"exit 3","description":"d","workdir":null}')
    assert.equal("(no output)\n[exit code: 3]", result.content)
    assert.is_false(result.is_error)
  end)

  it("knows JSON's null also where nobody else uses cjson", function()
    local host = world.host [[
      local moonsand = require "moonsand"
      local shell <close> = assert(moonsand.unconfined_shell())
      io.write(moonsand.tool.bash(shell):execute('{"command":"echo hi","description":"d","timeout_ms":null}').content)
    ]]
    local status, stdout, stderr = world.ended(host)
    assert.equal(0, status.exit_code, stderr)
    assert.equal("hi\n", stdout)
  end)

  it("refuses what is not in its schema, and runs nothing", function()
    local tool = moonsand.tool.bash(shell)
    for words, arguments in pairs {
      ["command: is required"] = { description = "d" },
      ["description: is required"] = { command = "touch x" },
      ["description: is required, "] = { command = "touch x", description = " " },
      ["unknown argument 'mode'"] = { command = "touch x", description = "d", mode = "danger-full-access" },
      ["unknown argument 'session'"] = { command = "touch x", description = "d", session = "other" },
      ["unknown argument 'env'"] = { command = "touch x", description = "d", env = {} },
      ["did you mean 'timeout_ms'"] = { command = "touch x", description = "d", timeout = 3 },
      ["timeout_ms: must be a number"] = { command = "touch x", description = "d", timeout_ms = "1" },
      ["timeout_ms: must be positive"] = { command = "touch x", description = "d", timeout_ms = -1 },
      ["unknown argument 'run_in_background'"] = { command = "touch x", description = "d", run_in_background = true },
      ["not a JSON object"] = "{",
      ["must be an object"] = 7,
      ["must not contain a NUL"] = { command = "touch x\0", description = "d" },
    } do
      local result = tool:execute(arguments)
      assert.is_true(result.is_error, words)
      assert.truthy(result.content:find(words, 1, true), result.content)
      assert.equal("INVALID_REQUEST", result.structured.error.code)
    end
    assert.is_false(world.exists(directory .. "/x"))
  end)

  it("offers escalation after a denial, where somebody could be asked", function()
    if not runner then
      pending("no runner works here")
      return
    end
    local confined <close> = assert(moonsand.shell { runner = runner, workspace_root = directory })
    local arguments = { command = "echo x > file", description = "d" }
    local function approve()
      return "rejected"
    end
    local denied = "[sandbox: file access denied under read-only mode]\n"
    local offer = "[sandbox: escalation available — retry this exact command once with sandbox_permissions (the "
      .. "narrowest wider mode that suffices) + justification; the approval prompt asks the user]\n"
    local function ending(options)
      return moonsand.tool.bash(confined, options):execute(arguments).content:match("\n(%[sandbox.*)$")
    end
    assert.equal(denied .. offer .. "[exit code: 1]", ending { approve = approve })
    assert.equal(denied .. "[exit code: 1]", ending {})
    assert.equal("[no]\n[exit code: 1]", ending({ markers = { denied = "[sandbox no]" } }):gsub("sandbox ", ""))
  end)

  it("checks the host's markers when it is made, and survives their functions", function()
    for words, markers in pairs {
      ["must not be empty"] = { denied = "" }, ["single line"] = { denied = "a\nb" }, ["number"] = { denied = 7 },
      ["did you mean 'denied'"] = { deneid = "x" },
    } do
      assert.error_matches(function()
        moonsand.tool.bash(shell, { markers = markers })
      end, words)
    end
    assert.error_matches(function()
      moonsand.markers.lines.denied = "a\nb"
    end, "single line")
    local tool = moonsand.tool.bash(shell, { markers = { exit_code = function()
      error "boom"
    end, no_output = false } })
    assert.equal("[exit code: 3]", tool:execute({ command = "exit 3", description = "d" }).content)
  end)

  it("renders as the host likes, and as ever where that fails", function()
    local arguments = { command = "echo hi", description = "d" }
    local function with(render)
      return moonsand.tool.bash(shell, { render = render }):execute(arguments).content
    end
    assert.equal("exit 0", with(function(result)
      return "exit " .. result.exit_code
    end))
    assert.equal("hi\n", with(function()
      error "boom"
    end))
    assert.equal("hi\n", with(function()
      return 7
    end))
  end)

  it("tells one entry a call, whatever became of it, without output or environment", function()
    local entries = {}
    local tool = moonsand.tool.bash(shell, { jobs = true, on_call = function(entry)
      entries[#entries + 1] = entry
    end })
    tool:execute { command = "echo secret; exit 2", description = "d" }
    tool:execute { command = "echo x" }
    tool:execute { command = "true", description = "d", run_in_background = true }
    assert.equal(3, #entries)
    assert.equal("exited", entries[1].outcome)
    assert.equal(2, entries[1].exit_code)
    assert.equal("echo secret; exit 2", entries[1].command)
    assert.equal(directory, entries[1].workdir)
    assert.equal("refused", entries[2].outcome)
    assert.equal("INVALID_REQUEST", entries[2].error)
    assert.equal("started", entries[3].outcome)
    for _, entry in ipairs(entries) do
      assert.is_nil(entry.stdout)
      assert.is_nil(entry.env)
    end
  end)

  it("is not failed by an audit that fails, and says so to the program", function()
    local result = moonsand.tool.bash(shell, { on_call = function()
      error("full", 0)
    end }):execute { command = "echo hi", description = "d" }
    assert.equal("hi\n", result.content)
    assert.equal("full", result.structured.audit_error)
  end)

  it("repairs what is no UTF-8 in errors too", function()
    local result = moonsand.tool.bash(shell):execute { command = "true", description = "d", workdir = "\xff" }
    assert.is_true(result.is_error)
    assert.truthy(utf8.len(result.content))
  end)
end)

describe("a background job", function()
  local directory, shell, bash, output, list, kill

  before_each(function()
    directory = world.directory()
    shell = assert(moonsand.shell { mode = "danger-full-access", workspace_root = directory })
    bash = moonsand.tool.bash(shell, { jobs = moonsand.jobs.new { max_running = 3, max_kept = 2 } })
    local tools = bash:tools()
    output, list, kill = tools[2], tools[3], tools[4]
  end)

  after_each(function()
    shell:close()
    world.remove(directory)
  end)

  local function start(command, session)
    return bash:execute({ command = command, description = "Do " .. command, run_in_background = true },
      { session = session })
  end

  it("says its id, and what is new at each read, once", function()
    assert.equal("started background job job-1", start("echo a; sleep 0.3; echo b; exit 4").content)
    world.eventually(2000, function()
      return bash.jobs.by_id["job-1"].handle.process:status().stdout.bytes > 0
    end)
    assert.equal("a\n", output:execute({ id = "job-1" }).content)
    assert.equal("(no output)", output:execute({ id = "job-1" }).content)
    assert.equal("b\n[exit code: 4]", output:execute({ id = "job-1", wait_ms = 5000 }).content)
    assert.equal("(no output)\n[exit code: 4]", output:execute({ id = "job-1" }).content)
    assert.equal("job-1 completed with 4: Do echo a; sleep 0.3; echo b; exit 4", list:execute({}).content)
  end)

  it("is stopped with its processes, once", function()
    local seconds = world.unique_sleep()
    start("sleep " .. seconds)
    assert.equal("stopped background job job-1", kill:execute({ id = "job-1" }).content)
    assert.equal(0, world.processes_with(seconds))
    assert.equal("background job job-1 was over already", kill:execute({ id = "job-1" }).content)
  end)

  it("has an id that none had before, also when others are forgotten", function()
    for n = 1, 6 do
      assert.equal("started background job job-" .. n, start("true").content)
      output:execute({ id = "job-" .. n, wait_ms = 5000 })
    end
    assert.equal("there is no background job 'job-1'; job_list shows those there are",
      output:execute({ id = "job-1" }).content)
  end)

  it("that could not be started says why when it is read", function()
    bash:execute { command = "true", description = "d", run_in_background = true, workdir = "/nonexistent" }
    local result = output:execute { id = "job-1", wait_ms = 5000 }
    assert.truthy(result.content:find("could not be started: chdir /nonexistent: No such file", 1, true))
    assert.equal("killed", result.structured.status)
    assert.equal("START_FAILED", result.structured.error.code)
    assert.equal("unknown argument 'id'; this tool takes none", list:execute({ id = "job-1" }).content)
  end)

  it("is one of a bounded number", function()
    local seconds = world.unique_sleep()
    for _ = 1, 3 do
      assert.is_false(start("sleep " .. seconds).is_error)
    end
    local result = start("touch over")
    assert.is_true(result.is_error)
    assert.truthy(result.content:find("3 background jobs are running, which is as many as may", 1, true))
    assert.is_false(world.exists(directory .. "/over"))
    kill:execute { id = "job-2" }
    assert.is_false(start("true").is_error)
  end)

  it("is its session's alone, and ends with it", function()
    local one = assert(shell.policy:begin("one", { cwd = directory }))
    local two = assert(shell.policy:begin("two", { cwd = directory }))
    local mine, theirs = world.unique_sleep(), world.unique_sleep()
    start("sleep " .. mine, one)
    start("sleep " .. theirs, two)
    for _, tool in ipairs { output, kill } do
      local result = tool:execute({ id = "job-1" }, { session = two })
      assert.is_true(result.is_error)
      assert.equal("there is no background job 'job-1'; job_list shows those there are", result.content)
      assert.equal(result.content:gsub("job%-1", "job-9"),
        (tool:execute({ id = "job-9" }, { session = two }).content:gsub("job%-9", "job-9")))
      assert.is_true(tool:execute({ id = "job-1" }).is_error)
    end
    assert.equal("job-2 running: Do sleep " .. theirs, list:execute({}, { session = two }).content)
    assert.equal("(no background jobs)", list:execute({}).content)
    world.eventually(2000, function()
      return world.processes_with(mine) == 1 and world.processes_with(theirs) == 1
    end)
    assert(shell.policy:finish(one))
    assert.equal(0, world.processes_with(mine))
    assert.equal(1, world.processes_with(theirs))
    assert.is_true(start("true", one).is_error)
    assert.is_true(list:execute({}, { session = one }).is_error)
  end)
end)

describe("two sessions with fifty overlapping commands each", function()
  it("have each command under its own mode and root, and each write in its own place", function()
    if not runner then
      pending("no runner works here")
      return
    end
    local directory = world.directory()
    os.execute(("mkdir '%s/one' '%s/two'"):format(directory, directory))
    local shell <close> = assert(moonsand.shell { runner = runner, workspace_root = directory })
    local bash = moonsand.tool.bash(shell, { jobs = moonsand.jobs.new { max_running = 50 } })
    local output = bash:tools()[2]
    local modes = { one = "workspace-write", two = "read-only" }
    local ids = { one = {}, two = {} }
    for name, mode in pairs(modes) do
      assert(shell.policy:begin(name, { cwd = directory .. "/" .. name }))
      assert(shell.policy:switch(name, mode))
    end
    for n = 1, 50 do
      for name in pairs(modes) do
        local result = bash:execute({
          command = ("pwd; sleep 0.3; echo %s > file-%d"):format(name, n),
          description = "d",
          run_in_background = true,
        }, { session = name })
        assert.is_false(result.is_error, result.content)
        ids[name][n] = result.structured.job
      end
    end
    for name, mode in pairs(modes) do
      for n = 1, 50 do
        local result = output:execute({ id = ids[name][n], wait_ms = 20000 }, { session = name })
        assert.equal(mode, result.structured.sandbox.mode)
        assert.equal(mode == "read-only", result.structured.sandbox.denied)
        assert.equal(directory .. "/" .. name, result.content:match("^([^\n]*)\n"))
        assert.equal(mode ~= "read-only", world.exists(("%s/%s/file-%d"):format(directory, name, n)))
      end
    end
    world.remove(directory)
  end)
end)
