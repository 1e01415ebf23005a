-- An agent with a real model: any endpoint that speaks OpenAI's chat completions.
--
--     export OPENAI_API_KEY=...                          # none for most local servers
--     export OPENAI_BASE_URL=http://127.0.0.1:8080/v1    # default: https://api.openai.com/v1
--     lua5.4 examples/llm_agent.lua --model NAME [--workspace DIR] [--allow MODE] 'the task'
--
-- What the model asks for beyond read-only is asked at the terminal; with --allow, up to that mode is allowed unasked.
-- HTTP is curl's. The key goes to it through a pipe, so that no process list and no command of the model's shows it:
-- commands do not get variables that look like credentials.
local cjson = require "cjson"
local moonsand = require "moonsand"

local LONGEST_CONVERSATION <const> = 50 -- calls of the model

local function parse_arguments(words)
  local options, position = { workspace = os.getenv "PWD" }, 1
  while words[position] do
    local name = words[position]:match("^%-%-(%a+)$")
    if name == "model" or name == "workspace" or name == "allow" then
      options[name], position = words[position + 1], position + 1
    else
      options.task = words[position]
    end
    position = position + 1
  end
  if not options.model or not options.task then
    io.stderr:write("usage: llm_agent.lua --model NAME [--workspace DIR] [--allow MODE] TASK\n")
    os.exit(2)
  end
  return options
end

local function quoted(text)
  return '"' .. text:gsub('[\\"]', "\\%0"):gsub("\n", "\\n") .. '"'
end

-- One request. curl reads all of it, the key included, as a configuration file from its stdin.
local function post(host, url, body)
  local lines = {
    "url = " .. quoted(url),
    'header = "Content-Type: application/json"',
    "data-binary = " .. quoted(cjson.encode(body)),
  }
  local key = os.getenv "OPENAI_API_KEY"
  if key then
    lines[#lines + 1] = "header = " .. quoted("Authorization: Bearer " .. key)
  end
  local result = assert(host:run {
    command = "exec curl --silent --show-error --fail-with-body --max-time 300 --config -",
    stdin = table.concat(lines, "\n") .. "\n",
  })
  if result.exit_code ~= 0 then
    error(("the endpoint failed: %s%s"):format(result.stderr.text, result.stdout.text), 0)
  end
  return cjson.decode(result.stdout.text)
end

local function approver(allow)
  local policy = moonsand.policy
  return moonsand.approval.chain(allow and function(ask)
    return policy.wider(ask.mode, allow) and "ask" or "allowed-once", "--allow"
  end, moonsand.approval.terminal())
end

local options = parse_arguments(arg)
local shell <close> = assert(moonsand.shell { mode = "read-only", workspace_root = options.workspace })
local host <close> = assert(moonsand.unconfined_shell { max_output_bytes = 16 << 20, timeout_ms = 310000 })
local bash = moonsand.tool.bash(shell, { approve = approver(options.allow), jobs = true })

local by_name, functions = {}, {}
for _, tool in ipairs(bash:tools()) do
  by_name[tool.name] = tool
  functions[#functions + 1] = { type = "function", ["function"] = tool:schema() }
end

local url = (os.getenv "OPENAI_BASE_URL" or "https://api.openai.com/v1"):gsub("/+$", "") .. "/chat/completions"
local messages = {
  { role = "system", content = "You are a careful engineer. Use the tools to do the task, then say what you did.\n"
    .. shell.policy:context() },
  { role = "user", content = options.task },
}

local function call_tool(call)
  local tool = by_name[call["function"].name]
  if not tool then
    return ("there is no tool '%s'"):format(call["function"].name)
  end
  io.stderr:write(("-> %s %s\n"):format(tool.name, require("moonsand.visible").line(call["function"].arguments)))
  return tool:execute(call["function"].arguments).content
end

for _ = 1, LONGEST_CONVERSATION do
  local response = post(host, url, { model = options.model, messages = messages, tools = functions })
  local message = response.choices[1].message
  local calls = message.tool_calls
  calls = calls ~= cjson.null and calls or nil
  -- What is sent back is what is ours to say of it; servers add fields that they do not take.
  messages[#messages + 1] = { role = "assistant", content = message.content or cjson.null, tool_calls = calls }
  if not calls or not calls[1] then
    print(message.content)
    return
  end
  for _, call in ipairs(calls) do
    messages[#messages + 1] = { role = "tool", tool_call_id = call.id, content = call_tool(call) }
  end
  -- A changed policy is told after the history, which stays as it is for the endpoint's cache.
  local update = shell.policy:context_update()
  if update then
    messages[#messages + 1] = { role = "system", content = update }
  end
end
error("the model did not come to an end", 0)
