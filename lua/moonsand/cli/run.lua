--- `moonsand run`: one command string, and what the model would see of it.
-- @module moonsand.cli.run

local output = require "moonsand.cli.output"
local setup = require "moonsand.cli.setup"

local run = {
  name = "run",
  usage = "run [options] COMMAND",
  about = "Runs COMMAND, one string, with bash, confined; prints what a model would see of it.\n"
    .. "Exit status: the command's own; 128+n when it died of signal n; 124 timed out; 125 no sandbox could\n"
    .. "confine it (nothing ran); 126, 127 it could not be started; 2 usage.",
  options = { "mode", "workspace", "workdir", "runner", "timeout-ms", "max-output-bytes", "policy", "audit", "json",
    "help" },
  operand = "command",
}

local function stream(captured)
  return {
    text = output.valid(captured.text),
    truncated = captured.truncated,
    bytes = captured.bytes,
    spill_path = captured.spill_path,
  }
end

--- A result as JSON says it: the same fields, null for what does not apply, texts that are valid UTF-8. Pure.
-- @tparam table result of an executor
-- @treturn table
function run.facts(result)
  local null = require("cjson").null
  local facts = {}
  for name, value in pairs(result) do
    facts[name] = value
  end
  facts.exit_code = result.exit_code or null
  facts.signal = result.signal or null
  facts.stdout, facts.stderr = stream(result.stdout), stream(result.stderr)
  return facts
end

-- What is read in a terminal or a file ends with a newline.
local function as_text(result, script)
  local text = require("moonsand.markers").render(result, script and { markers = script.markers })
  return text:sub(-1) == "\n" and text or text .. "\n"
end

--- Run it.
-- @tparam table parsed of `moonsand.cli.options`
-- @treturn integer exit status
function run.main(parsed)
  local asked, err = setup.read(parsed)
  if not asked then
    return output.fail(err, parsed.json)
  end
  local timeout_ms = parsed["timeout-ms"]
  local shell
  shell, err = require("moonsand.executor.sandboxed").new {
    policy = asked.policy,
    sandbox = asked.sandbox,
    timeout_ms = timeout_ms,
    max_timeout_ms = timeout_ms, -- the cap is for models; whoever types a number means it
    max_output_bytes = parsed["max-output-bytes"],
    keep_spill = true,
    operator = asked.operator,
    keep = asked.env.keep, drop = asked.env.drop, env = asked.env.set,
  }
  if not shell then
    return output.fail(err, parsed.json)
  end
  local spec, result, verdict
  spec, err, verdict = shell:resolve { command = parsed.operand, workdir = asked.workdir }
  if spec then
    result, err = shell:run(spec)
  end
  setup.record(asked, parsed.operand, verdict, spec and spec.policy, result, err)
  if not result then
    return output.fail(err, parsed.json)
  end
  local unwritable = output.print(parsed.json and output.encode(run.facts(result)) or as_text(result, asked.operator))
  return unwritable or output.exit_status(result)
end

return run
