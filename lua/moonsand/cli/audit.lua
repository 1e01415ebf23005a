--- `moonsand audit`: an audit log as a readable table.
-- @module moonsand.cli.audit

local output = require "moonsand.cli.output"

local audit = {
  name = "audit",
  usage = "audit [options] FILE",
  about = "Shows the commands that FILE, an audit log, has taken down: those that every option asks for.",
  options = { "session", "decision", "outcome", "since", "last", "json", "help" },
  operand = "words",
}

--- Show it.
-- @tparam table parsed of `moonsand.cli.options`
-- @treturn integer exit status
function audit.main(parsed)
  if #parsed.operand ~= 1 then
    return output.usage("one FILE is expected: the audit log", "audit", parsed.json)
  end
  local log = require "moonsand.audit"
  local filters = {}
  for _, name in ipairs { "session", "decision", "outcome", "since", "last" } do
    filters[name] = parsed[name]
  end
  local entries, broken = log.read(parsed.operand[1], filters)
  if not entries then
    return output.fail(broken, parsed.json)
  end
  local text
  if parsed.json then
    local cjson = require "cjson"
    text = output.encode(#entries > 0 and entries or cjson.empty_array or cjson.decode("[]"))
  else
    text = log.table(entries)
  end
  if broken > 0 then
    output.complain(("%d lines of the log are not whole, and were left out"):format(broken))
  end
  return output.print(text) or output.status.ok
end

return audit
