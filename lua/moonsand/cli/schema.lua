--- `moonsand schema`: the tool's JSON schema, as a model's API takes it.
-- @module moonsand.cli.schema

local output = require "moonsand.cli.output"

local schema = {
  name = "schema",
  usage = "schema [options]",
  about = "Prints the JSON schema of the bash tool under this mode: one object. With --jobs, a list: the tools for\n"
    .. "background jobs, too. Runs nothing.",
  options = { "mode", "jobs", "help" },
  operand = "none",
}

--- Print it.
-- @tparam table parsed of `moonsand.cli.options`
-- @treturn integer exit status
function schema.main(parsed)
  local shell, err = require("moonsand.executor.sandboxed").new { mode = parsed.mode }
  if not shell then
    return output.fail(err, true)
  end
  local bash = require("moonsand.tool").bash(shell, { jobs = parsed.jobs or nil })
  local answer
  if parsed.jobs then
    answer = {}
    for position, tool in ipairs(bash:tools()) do
      answer[position] = tool:schema()
    end
  else
    answer = bash:schema()
  end
  return output.print(output.encode(answer)) or output.status.ok
end

return schema
