--- `moonsand policy check` and `moonsand policy explain`: an operator's script, tried out.
-- @module moonsand.cli.policy

local output = require "moonsand.cli.output"

local policy = {
  name = "policy",
  usage = "policy check [options] FILE\n       moonsand policy explain [options] FILE COMMAND",
  about = "check: says whether FILE, an operator's policy script, can be used, and what it states.\n"
    .. "explain: says what it decides about COMMAND, and by which line. Runs nothing.",
  options = { "mode", "workspace", "json", "help" },
  operand = "words",
}

local verbs = { "check", "explain" }

local function load_script(parsed, path)
  local base, err = require("moonsand.policy").new { mode = parsed.mode, workspace_root = parsed.workspace }
  if not base then
    return nil, err
  end
  local script
  script, err = require("moonsand.operator").load(path, { workspace_root = base.workspace_root })
  if not script then
    return nil, err
  end
  return script, { mode = parsed.mode or script.mode, workspace_root = base.workspace_root }
end

local function check(script, parsed)
  if parsed.json then
    return output.encode { ok = true, mode = script.mode, rules = script.rules.count, approves = script.approves }
  end
  return ("%s: good; mode %s, %d rules%s\n"):format(script.path, script.mode, script.rules.count,
    script.approves and ", approves by itself" or "")
end

local meaning = {
  default = "runs, as no rule is about it",
  allow = "runs, nobody is asked",
  ask = "runs once somebody said yes",
  forbid = "is not run",
}

local function explain(script, base, parsed, text)
  local verdict, err = script:decide({ command = text }, base)
  if not verdict then
    return nil, err
  end
  local seen = require("moonsand.operator.words").parse(text)
  if parsed.json then
    local null = require("cjson").null
    return output.encode {
      decision = verdict.decision, mode = verdict.mode, by = verdict.by, source = verdict.source or null,
      reason = verdict.reason or null, certain = seen.certain ~= nil, doubt = seen.doubt or null,
    }
  end
  local lines = {
    ("decision:   %s: %s"):format(verdict.decision, meaning[verdict.decision]),
    "mode:       " .. verdict.mode,
    "by:         " .. (verdict.source or verdict.by),
  }
  if verdict.reason then
    lines[#lines + 1] = "reason:     " .. verdict.reason
  end
  lines[#lines + 1] = "certain:    "
    .. (seen.certain and "yes" or ("no: %s, so that no allow holds"):format(seen.doubt))
  return table.concat(lines, "\n") .. "\n"
end

--- Do it.
-- @tparam table parsed of `moonsand.cli.options`
-- @treturn integer exit status
function policy.main(parsed)
  local verb, path, command = table.unpack(parsed.operand)
  if verb ~= "check" and verb ~= "explain" then
    local what = verb and ("unknown '%s'%s"):format(verb, require("moonsand.nearest").hint(verb, verbs))
      or "check or explain is missing"
    return output.usage(what, "policy", parsed.json)
  elseif #parsed.operand ~= (verb == "check" and 2 or 3) then
    return output.usage(verb == "check" and "one FILE is expected" or "a FILE and a COMMAND, one string, are expected",
      "policy", parsed.json)
  end
  local script, base = load_script(parsed, path)
  if not script then
    return output.fail(base, parsed.json)
  end
  local text, err
  if verb == "check" then
    text = check(script, parsed)
  else
    text, err = explain(script, base, parsed, command)
  end
  if not text then
    return output.fail(err, parsed.json)
  end
  return output.print(text) or output.status.ok
end

return policy
