--- The tools a model is given: `bash`, and with background jobs `job_output`, `job_list` and `job_kill`.
--
--     local bash = moonsand.tool.bash(shell, { approve = moonsand.approval.terminal() })
--     api.tools = { bash:schema() }
--     local answer = bash:execute({ command = "make test", description = "Run the tests" })
--     reply(answer.content, answer.is_error)
--
-- A tool takes from the model what its schema says and nothing else: no mode, no session, no environment. Fields come
-- and go with what is possible: escalation where the executor confines, jobs where they are enabled. Each call is
-- decided by itself, and a grant is a local variable of that call. Section 8 of the design.
--
-- Relies on an executor, `moonsand.escalation`, `moonsand.jobs` and `moonsand.markers`.
-- @module moonsand.tool

local core = require "moonsand.core"
local errors = require "moonsand.errors"
local escalation_of = require "moonsand.escalation"
local markers = require "moonsand.markers"

local tool = {}

local full_access <const> = "danger-full-access"

--- What the model is told about each tool and argument. Assigning replaces a text for every tool.
tool.descriptions = {
  bash = "Run a command with bash and return its output. Each call is a fresh shell: no state is kept between calls.",
  bash_confined = "Run a command with bash and return its output. Each call is a fresh shell: no state is kept between "
    .. "calls. Commands are confined by the current file policy. When a command was denied a file access that it needs "
    .. "and the result says that escalation is available, retry that exact command once with sandbox_permissions and "
    .. "justification; do not work around a denial.",
  command = "The command line, for bash -c.",
  description = "What the command does, in a few words, for the person who watches.",
  timeout_ms = "Stop the command after so many milliseconds.",
  workdir = "The directory to run in; a relative one is relative to the workspace. Default: the workspace.",
  run_in_background = "Start the command and return at once with the id of a background job.",
  sandbox_permissions = "The narrowest wider mode that suffices, for this call only. Requires justification; a person "
    .. "is asked.",
  justification = "One sentence for the person who is asked: why this command needs it.",
  job_output = "What a background job has printed since it was last asked for, and how it ended if it did.",
  job_list = "The background jobs there are.",
  job_kill = "Stop a background job and all of its processes.",
  id = "The id of the background job.",
  wait_ms = "Wait at most so long for the job to end before reading.",
}
tool.descriptions = require("moonsand.overridable")("tool.descriptions", tool.descriptions, function(_, text)
  if type(text) ~= "string" or not text:find("%S") then
    return "a string that is not empty is expected"
  end
  return nil
end)

local Tool = {}
Tool.__index = Tool
Tool.__name = "moonsand.tool"

-- JSON's null, which a model may give for a field that it leaves out. It is there only once one of cjson's modules is.
local function is_null(value)
  if type(value) ~= "userdata" then
    return false
  end
  local cjson = package.loaded["cjson.safe"] or package.loaded["cjson"]
  return type(cjson) == "table" and value == cjson.null
end

-- How a tool says what it returns. `structured` is for programs, `content` for the model.
local function answer(content, structured, is_error)
  return { content = markers.repair_utf8(content), structured = structured, is_error = is_error or false }
end

local function failure(err)
  return answer(err.message, { error = { code = err.code, message = err.message, detail = err.detail } }, true)
end

local function invalid(what)
  return nil, errors.new("INVALID_REQUEST", what)
end

-- The arguments, as a table of the known ones: a copy, so that nobody changes them while somebody is asked.
local function read_arguments(arguments, properties, required, extra)
  if type(arguments) == "string" then
    local decoded, why = require("cjson.safe").decode(arguments)
    if type(decoded) ~= "table" then
      return invalid("the arguments are not a JSON object" .. (why and ": " .. why or ""))
    end
    arguments = decoded
  elseif type(arguments) ~= "table" then
    return invalid("the arguments must be an object")
  end
  local known = {}
  for name, value in pairs(arguments) do
    if not properties[name] and not (extra and extra[name]) then
      local names = {}
      for property in pairs(properties) do
        names[#names + 1] = property
      end
      table.sort(names)
      local hint = names[1] and require("moonsand.nearest").hint(tostring(name), names) or "; this tool takes none"
      return invalid(("unknown argument '%s'%s"):format(require("moonsand.visible").line(tostring(name)), hint))
    elseif not is_null(value) then
      known[name] = value
    end
  end
  for _, name in ipairs(required) do
    local value = known[name]
    if type(value) ~= "string" or not value:find("%S") then
      return invalid(("%s: is required, as a string that is not empty"):format(name))
    end
  end
  return known
end

local function schema(name, description, properties, required)
  return {
    name = name,
    description = description,
    parameters = {
      type = "object",
      properties = properties,
      required = required,
      additionalProperties = false,
    },
  }
end

local function property(kind, name)
  return { type = kind, description = tool.descriptions[name] }
end

local required_of_bash = { "command", "description" }

local escalation_arguments = { sandbox_permissions = true, justification = true }

-- Whether escalation is a thing here: the executor confines unless it is told otherwise.
local function confines(self)
  local mode = self.shell.sandbox_mode
  return mode ~= nil and mode ~= full_access
end

local function bash_properties(self)
  local properties = {
    command = property("string", "command"),
    description = property("string", "description"),
    timeout_ms = property("number", "timeout_ms"),
    workdir = property("string", "workdir"),
  }
  if self.jobs then
    properties.run_in_background = property("boolean", "run_in_background")
  end
  if confines(self) then
    properties.sandbox_permissions = property("string", "sandbox_permissions")
    properties.sandbox_permissions.enum = table.move(self.escalation.ladder, 1, #self.escalation.ladder, 1, {})
    properties.justification = property("string", "justification")
  end
  return properties
end

local function bash_schema(self)
  local description = tool.descriptions[confines(self) and "bash_confined" or "bash"]
  return schema(self.name, description, bash_properties(self), table.move(required_of_bash, 1, 2, 1, {}))
end

-- Whose call it is.
local function session_of(self, call)
  if call and call.session ~= nil then
    return call.session
  end
  return self.session
end

-- Under whose name a session's jobs are kept: its id, or false; or nil and the error.
local function owner_of(self, host_call)
  local session = session_of(self, host_call)
  if session == nil then
    return false
  end
  local policy = self.shell.policy
  if policy and policy.sessions then
    local found, err = policy.sessions:find(session)
    if not found then
      return nil, err
    end
    return found.id
  end
  return type(session) == "string" and session or type(session) == "table" and session.id or false
end

-- The one line of the audit about this call, complete when it is told. Whoever listens cannot make the call fail: the
-- command has run. What went wrong there is said to the program.
local function tell(self, entry, result)
  local problems
  if self.audit then
    local written, err = self.audit:write(entry)
    if not written then
      problems = tostring(err)
    end
  end
  if self.on_call then
    local worked, err = pcall(self.on_call, entry)
    if not worked then
      problems = tostring(err)
    end
  end
  if problems then
    result.structured.audit_error = problems
  end
  return result
end

local function refused(self, entry, err)
  entry.outcome = entry.outcome or "refused"
  entry.error = err.code
  return tell(self, entry, failure(err))
end

-- Who is asked: the operator's script before the host's approver. Looked up for each call, as a script that is reloaded
-- may have another say.
local function approver_of(self)
  local operator = self.operator
  if not operator or not operator.approves then
    return self.approve
  end
  return require("moonsand.approval").chain(function(ask)
    return operator:approve(ask), "operator"
  end, self.approve)
end

local function lines_of(self)
  return self.markers or self.operator and self.operator.markers
end

-- What the operator's script says about the command: a mode for it, or a refusal.
local function consult(self, call, policy)
  local verdict, err = self.operator:decide({
    command = call.arguments.command,
    description = call.arguments.description,
    workdir = call.arguments.workdir,
    session = policy and policy.session_id,
  }, policy)
  if not verdict then
    return nil, err
  elseif verdict.decision == "forbid" then
    call.entry.decision, call.entry.decided_by = "forbid", verdict.source or verdict.by
    return nil, errors.new("POLICY_ERROR", "this command is forbidden by the operator's policy"
      .. (verdict.reason and ": " .. verdict.reason or ""), verdict.source)
  end
  return verdict
end

local function ask_for(call, policy, kind, workdir)
  local arguments = call.arguments
  return {
    kind = kind,
    command = arguments.command,
    description = arguments.description,
    workdir = workdir,
    workspace_root = policy and policy.workspace_root,
    justification = arguments.justification or arguments.description,
    session = policy and policy.session_id,
  }
end

-- Asks, and notes how long that took and who decided.
local function decide(self, call, question, ...)
  local before = core.monotonic_ms()
  local granted, err, by = self.escalation[question](self.escalation, ...)
  local entry = call.entry
  entry.wait_ms = (entry.wait_ms or 0) + core.monotonic_ms() - before
  if granted then
    entry.decision, entry.decided_by = "allowed-once", err
    return granted
  end
  entry.decision, entry.decided_by = err.code:match("^ESCALATION_(.*)$"):lower():gsub("_", "-"), by
  return nil, err
end

-- The explicit mode this very call is resolved with, nil for none; or false and the error. The sequence of section 8:
-- nothing has been started, and nothing here starts anything.
local function authorise(self, call, spec, asked_mode)
  local policy = spec.policy
  local current = policy and policy.mode or full_access
  local mode, verdict, granted, err
  if self.operator then
    verdict, err = consult(self, call, policy)
    if not verdict then
      return false, err
    end
    if not self.shell.operator and verdict.mode ~= current then
      mode = verdict.mode -- an executor that knows the script applies this itself
    end
    current = verdict.mode
    call.entry.mode, call.entry.decision = current, verdict.decision
    call.entry.decided_by = verdict.source or verdict.by
  end
  if asked_mode then
    granted, err = decide(self, call, "decide", asked_mode, current, approver_of(self),
      ask_for(call, policy, "escalate", spec.workdir))
    return granted or false, err
  elseif verdict and verdict.decision == "ask" then
    local ask = ask_for(call, policy, "run", spec.workdir)
    ask.mode, ask.current = current, current
    granted, err = decide(self, call, "ask", approver_of(self), ask)
    return granted and current or false, err
  end
  return mode
end

local function structured_result(result)
  return {
    exit_code = result.exit_code,
    signal = result.signal,
    timed_out = result.timed_out,
    aborted = result.aborted,
    timeout_ms = result.timeout_ms,
    duration_ms = result.duration_ms,
    leftovers = result.leftovers,
    stdout = result.stdout,
    stderr = result.stderr,
    sandbox = result.sandbox,
  }
end

local function outcome_of(result)
  return result.timed_out and "timed-out" or result.aborted and "aborted" or result.signal and "killed" or "exited"
end

-- The text of a result; the host's own rendering where it works.
local function render(self, result, options)
  if self.render then
    local worked, text = pcall(self.render, result, options)
    if worked and type(text) == "string" then
      return text
    end
  end
  return markers.render(result, options)
end

-- Whether the model could ask for more than this call had.
local function could_ask(self, mode)
  return approver_of(self) ~= nil and confines(self) and mode ~= nil and self.escalation:possible(mode)
end

local function run(self, spec, entry)
  local result, err = self.shell:run(spec)
  if not result then
    entry.outcome = "failed"
    return refused(self, entry, err)
  end
  local sandbox = result.sandbox
  local text = render(self, result, {
    escalation = sandbox ~= nil and sandbox.denied and could_ask(self, sandbox.mode),
    markers = lines_of(self),
  })
  entry.outcome = outcome_of(result)
  entry.exit_code, entry.signal, entry.duration_ms = result.exit_code, result.signal, result.duration_ms
  if sandbox then
    entry.runner, entry.denied = sandbox.runner, sandbox.denied
  end
  return tell(self, entry, answer(text, structured_result(result)))
end

local function start(self, spec, call)
  local entry, policy = call.entry, spec.policy
  local owner, err = owner_of(self, call)
  if owner == nil then
    return refused(self, entry, err)
  end
  local room
  room, err = self.jobs:room(owner)
  if not room then
    return refused(self, entry, err)
  end
  local handle
  handle, err = self.shell:start(spec)
  if not handle or err then
    entry.outcome = "failed"
    return refused(self, entry, err)
  end
  local job = self.jobs:add(owner, handle, {
    command = spec.command,
    description = call.arguments.description,
    mode = policy and policy.mode,
  })
  if call.session ~= nil and policy then
    local sessions = self.shell.policy.sessions
    local session = sessions and sessions:find(call.session)
    if session then
      self.jobs:watch(sessions, session)
    end
  end
  entry.outcome = "started"
  return tell(self, entry, answer("started background job " .. job.id, { job = job.id, status = "running" }))
end

local optional_types = { workdir = "string", timeout_ms = "number", run_in_background = "boolean" }

-- What the call would be without any grant. An operator's script that wants somebody to be asked lets the executor
-- resolve nothing before that, so there it is the policy alone.
local function preview(self, request)
  local policy_source = self.operator and self.shell.policy
  if not policy_source then
    return self.shell:resolve(request)
  end
  local policy, err = policy_source:resolve { session = request.session }
  if not policy then
    return nil, err
  end
  local root, workdir = policy.workspace_root, request.workdir
  if workdir and workdir:sub(1, 1) ~= "/" then
    workdir = (root == "/" and "" or root) .. "/" .. workdir
  end
  return { policy = policy, workdir = workdir or root }
end

-- What the audit says of the call before anything is decided.
local function describe_call(call, spec)
  local policy, entry = spec.policy, call.entry
  entry.session, entry.workdir = policy and policy.session_id, spec.workdir
  entry.mode, entry.workspace_root = policy and policy.mode or full_access, policy and policy.workspace_root
  entry.decision, entry.decided_by = "default", "policy"
end

local function execute_bash(self, arguments, host_call)
  local session = session_of(self, host_call)
  local call = { session = session, entry = { outcome = nil } }
  local entry = call.entry
  local err
  call.arguments, err = read_arguments(arguments, self.properties, required_of_bash, escalation_arguments)
  if not call.arguments then
    return refused(self, entry, err)
  end
  arguments = call.arguments
  entry.command = arguments.command
  for name, kind in pairs(optional_types) do
    if arguments[name] ~= nil and type(arguments[name]) ~= kind then
      err = errors.new("INVALID_REQUEST", ("%s: must be a %s, not a %s"):format(name, kind, type(arguments[name])))
      return refused(self, entry, err)
    end
  end
  local asked_mode
  asked_mode, err = self.escalation:check(arguments.sandbox_permissions, arguments.justification, confines(self))
  if asked_mode == nil then
    entry.decision, entry.decided_by = "invalid", "rules"
    return refused(self, entry, err)
  end

  local request = {
    command = arguments.command,
    workdir = arguments.workdir,
    timeout_ms = arguments.timeout_ms,
    session = session,
    cancel = host_call and host_call.cancel,
    on_output = host_call and host_call.on_output,
  }
  local spec
  spec, err = preview(self, request)
  if not spec then
    return refused(self, entry, err)
  end
  describe_call(call, spec)
  if asked_mode or self.operator then
    request.mode, err = authorise(self, call, spec, asked_mode)
    if request.mode == false then
      return refused(self, entry, err)
    end
    spec, err = self.shell:resolve(request)
    if not spec then
      return refused(self, entry, err)
    end
    entry.mode = spec.policy and spec.policy.mode or full_access
  end
  if arguments.run_in_background then
    return start(self, spec, call)
  end
  return run(self, spec, entry)
end

-- The tools of background jobs.

-- Reads the arguments and finds the job they name; or the answer that says why not.
local function job_call(self, arguments, host_call, required)
  local known, err = read_arguments(arguments, self.properties, required)
  if not known then
    return nil, failure(err)
  end
  local owner
  owner, err = owner_of(self, host_call)
  if owner == nil then
    return nil, failure(err)
  elseif #required == 0 then
    return owner, known
  end
  local job
  job, err = self.jobs:find(owner, known.id)
  if not job then
    return nil, failure(err)
  end
  return job, known
end

local function facts_of(job)
  local handle = job.handle
  local status = handle.status
  local over = status ~= "running"
  return {
    id = job.id,
    status = status,
    description = job.description,
    exit_code = over and handle.exit_code or nil,
    signal = over and handle.signal or nil,
    duration_ms = over and handle.duration_ms or nil,
    sandbox = over and handle.sandbox or nil,
    error = over and handle.error and { code = handle.error.code, message = handle.error.message } or nil,
  }
end

local longest_wait_ms <const> = 600000

local function execute_job_output(self, arguments, host_call)
  local job, known = job_call(self, arguments, host_call, { "id" })
  if not job then
    return known
  end
  local wait_ms = known.wait_ms
  if wait_ms ~= nil then
    if type(wait_ms) ~= "number" or not (wait_ms >= 0 and wait_ms < math.huge) then
      return failure(errors.new("INVALID_REQUEST", "wait_ms: must be a number that is not negative"))
    end
    job.handle:wait(math.min(wait_ms, longest_wait_ms))
  end
  -- The status first: what is printed between the two is then read the next time, and never lost.
  local facts = facts_of(job)
  local read = job.handle:read()
  local text = markers.render_read(read, facts, {
    ended = true,
    escalation = facts.sandbox ~= nil and facts.sandbox.denied and could_ask(self.bash, facts.sandbox.mode),
    markers = lines_of(self.bash),
  })
  facts.delta, facts.lossy = markers.repair_utf8(read.delta), read.lossy
  facts.stdout_spill_path, facts.stderr_spill_path = read.stdout_spill_path, read.stderr_spill_path
  return answer(text, facts)
end

local function execute_job_list(self, arguments, host_call)
  local owner, known = job_call(self, arguments == nil and {} or arguments, host_call, {})
  if owner == nil then
    return known
  end
  local lines, list = {}, {}
  for position, job in ipairs(self.jobs:of(owner)) do
    local facts = facts_of(job)
    list[position] = facts
    local ended = facts.signal and (" by " .. facts.signal) or facts.exit_code and (" with " .. facts.exit_code) or ""
    lines[position] = ("%s %s%s: %s"):format(job.id, facts.status, ended,
      require("moonsand.visible").line(job.description))
  end
  return answer(lines[1] and table.concat(lines, "\n") or "(no background jobs)", { jobs = list })
end

local function execute_job_kill(self, arguments, host_call)
  local job, known = job_call(self, arguments, host_call, { "id" })
  if not job then
    return known
  end
  local killed = job.handle:kill()
  job.handle:wait()
  local facts = facts_of(job)
  facts.killed = killed
  return answer(killed and "stopped background job " .. job.id
    or ("background job %s was over already"):format(job.id), facts)
end

local function no_fields()
  return {}
end

local job_tools = {
  { name = "job_output", run = execute_job_output, required = { "id" }, fields = function()
    return { id = property("string", "id"), wait_ms = property("number", "wait_ms") }
  end },
  { name = "job_list", run = execute_job_list, required = {}, fields = no_fields },
  { name = "job_kill", run = execute_job_kill, required = { "id" }, fields = function()
    return { id = property("string", "id") }
  end },
}

-- "No fields" is `{}` in JSON, as cjson makes of an empty table; an empty list of required ones is left out.
local function job_tool(bash, kind)
  local made = setmetatable({
    name = kind.name, kind = kind, bash = bash, shell = bash.shell, jobs = bash.jobs, session = bash.session,
    properties = kind.fields(),
  }, Tool)
  made.describe = function()
    local required = #kind.required > 0 and table.move(kind.required, 1, #kind.required, 1, {}) or nil
    return schema(kind.name, tool.descriptions[kind.name], kind.fields(), required)
  end
  made.perform = kind.run
  return made
end

--- What a model's API wants to know about the tool.
-- @treturn table `{ name, description, parameters }`; `parameters` is a JSON Schema
function Tool:schema()
  return self.describe(self)
end

--- Do what the model asks for. Never raises for what the model said or the command did.
-- @param arguments a table, or the JSON text of one
-- @tparam[opt] table call of the host: `session` (instead of the tool's), `cancel`, `on_output`
-- @treturn table `{ content, structured, is_error }`: a text in valid UTF-8 for the model; facts for programs, or
--   `{ error = { code, message, detail } }`; whether nothing was run. A command that failed is no error
function Tool:execute(arguments, call)
  return self.perform(self, arguments, call)
end

--- The tool and those that go with it.
-- @treturn {tool,...} `bash`, and with jobs `job_output`, `job_list` and `job_kill`
function Tool:tools()
  local list = { self }
  if self.jobs and not self.bash then
    for _, kind in ipairs(job_tools) do
      list[#list + 1] = job_tool(self, kind)
    end
  end
  return list
end

local option_types = {
  session = "any", approve = "function", markers = "table", render = "function", jobs = "any", operator = "table",
  audit = "any", on_call = "function", escalation = "table", approve_timeout_ms = "number", name = "string",
}

local function check_options(options)
  for name, value in pairs(options) do
    local expected = option_types[name]
    if not expected then
      local known = {}
      for other in pairs(option_types) do
        known[#known + 1] = other
      end
      table.sort(known)
      error(("bad argument #2 to 'bash' (unknown option '%s'%s)"):format(tostring(name),
        require("moonsand.nearest").hint(tostring(name), known)), 3)
    elseif expected ~= "any" and type(value) ~= expected then
      error(("bad option '%s' (%s expected, got %s)"):format(name, expected, type(value)), 3)
    end
  end
  if options.markers then
    local fine, what = markers.check(options.markers)
    if not fine then
      error("bad option '" .. what .. "'", 3)
    end
  end
end

--- Make the `bash` tool.
-- @tparam table shell an executor
-- @tparam[opt] table options
-- @param[opt] options.session whose calls these are: a session, or its id; a call may name another
-- @tparam[opt] function options.approve who is asked (`moonsand.approval`); nobody where there is none
-- @tparam[opt=600000] number options.approve_timeout_ms
-- @param[opt] options.jobs true, or a registry of `moonsand.jobs`: commands may run in the background
-- @tparam[opt] table options.markers lines in place of `markers.lines`, checked here
-- @tparam[opt] function options.render `render(result, options)` in place of `markers.render`
-- @tparam[opt] table options.escalation of `moonsand.escalation.new`
-- @tparam[opt] table options.operator a script of `moonsand.operator`; default: the shell's
-- @param[opt] options.audit a log of `moonsand.audit`: one entry a call
-- @tparam[opt] function options.on_call given the same entry
-- @string[opt="bash"] options.name
-- @treturn tool with `schema()`, `execute(arguments, call)` and `tools()`
function tool.bash(shell, options)
  if type(shell) ~= "table" or type(shell.resolve) ~= "function" then
    error("bad argument #1 to 'bash' (an executor expected)", 2)
  end
  options = options or {}
  check_options(options)
  local registry = options.jobs
  if registry == true then
    registry = require("moonsand.jobs").new()
  elseif registry and not require("moonsand.jobs").is(registry) then
    error("bad option 'jobs' (true or a registry of moonsand.jobs expected)", 2)
  end
  local operator = options.operator or shell.operator
  local self = setmetatable({
    name = options.name or "bash",
    shell = shell,
    session = options.session,
    approve = options.approve,
    markers = options.markers,
    render = options.render,
    jobs = registry or nil,
    operator = operator,
    audit = options.audit or nil,
    on_call = options.on_call,
    escalation = options.escalation or escalation_of.new { timeout_ms = options.approve_timeout_ms },
    describe = bash_schema,
    perform = execute_bash,
  }, Tool)
  self.properties = bash_properties(self)
  return self
end

return tool
