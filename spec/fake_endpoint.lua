-- An endpoint that speaks as much of chat completions as an agent needs, with a script in the place of a model.
-- A program of its own: prints its port, serves three requests, and exits 0 when each was as it should be.
local cjson = require "cjson"
local socket = require "posix.sys.socket"
local unistd = require "posix.unistd"

local listener = assert(socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0))
assert(socket.bind(listener, { family = socket.AF_INET, addr = "127.0.0.1", port = 0 }))
assert(socket.listen(listener, 5))
print(socket.getsockname(listener).port)
io.stdout:flush()

local function read_request(connection)
  local text = ""
  repeat
    text = text .. assert(unistd.read(connection, 65536))
  until text:find("\r\n\r\n", 1, true)
  local head, body = text:match("^(.-\r\n\r\n)(.*)$")
  local length = tonumber(head:lower():match("content%-length: (%d+)"))
  while #body < length do
    body = body .. assert(unistd.read(connection, 65536))
  end
  return head, cjson.decode(body)
end

local function call(arguments)
  return { role = "assistant", content = cjson.null, tool_calls = {
    { id = "call-1", type = "function", ["function"] = { name = "bash", arguments = cjson.encode(arguments) } },
  } }
end

local command = "echo \"it's\" > note; cat note; echo \"key: $OPENAI_API_KEY\""

local turns = {
  function(request)
    assert(request.tools[1]["function"].parameters.properties.sandbox_permissions)
    assert(request.messages[1].content:find("File policy: read-only", 1, true))
    return call { command = "test -e note; echo x > note", description = "Try" }
  end,
  function(request)
    local last = request.messages[#request.messages]
    assert(last.role == "tool" and last.tool_call_id == "call-1")
    assert(last.content:find("[sandbox: escalation available", 1, true), last.content)
    return call { command = command, description = "Write", sandbox_permissions = "workspace-write",
      justification = "The note is to be written." }
  end,
  function(request)
    return { role = "assistant", content = "DONE " .. request.messages[#request.messages].content }
  end,
}

for _, turn in ipairs(turns) do
  local connection = assert(socket.accept(listener))
  local head, request = read_request(connection)
  assert(head:find("^POST /v1/chat/completions "), head)
  assert(head:find("Bearer se\"cret\\key\r\n", 1, true), head)
  local body = cjson.encode { choices = { { message = turn(request) } } }
  local answer = ("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
    .. "Connection: close\r\n\r\n%s"):format(#body, body)
  assert(unistd.write(connection, answer) == #answer)
  unistd.close(connection)
end
