--- `moonsand explain`: what `moonsand run` would do, without doing it.
-- @module moonsand.cli.explain

local output = require "moonsand.cli.output"
local setup = require "moonsand.cli.setup"

local explain = {
  name = "explain",
  usage = "explain [options] COMMAND",
  about = "Shows the policy and the exact command line with which `moonsand run` would run COMMAND. Runs nothing, so\n"
    .. "whether the runner works here is not known: `moonsand doctor` tries.",
  options = { "mode", "workspace", "workdir", "runner", "policy", "json", "help" },
  operand = "command",
}

--- A word as a POSIX shell reads it back. Pure.
-- @string word
-- @treturn string
function explain.quote(word)
  if word ~= "" and not word:find("[^%w@%%_+=:,./-]") then
    return word
  end
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

--- An argv as a command line. Pure.
-- @tparam {string,...} argv
-- @treturn string
function explain.command_line(argv)
  local words = {}
  for position, word in ipairs(argv) do
    words[position] = explain.quote(word)
  end
  return table.concat(words, " ")
end

-- Where a mode lets a command write, in words, by runner.
local writes = {
  ["read-only"] = function()
    return "nothing; /dev/null works as a sink"
  end,
  ["workspace-write"] = function(facts)
    local tmp = {
      bwrap = "a private /tmp that vanishes with the command",
      custom = "a private /tmp that vanishes with the command",
      landlock = "the host's /tmp",
      seatbelt = "/private/tmp and the user's own temporary directory",
    }
    return ("below %s; %s"):format(facts.workspace_root, tmp[facts.runner])
  end,
  ["danger-full-access"] = function()
    return "everything that this user may"
  end,
}

--- What there is to say, as text. Pure.
-- @tparam table facts `{ mode, workspace_root, workdir, runner?, argv }`
-- @treturn string
function explain.text(facts)
  return table.concat({
    "mode:       " .. facts.mode,
    "workspace:  " .. facts.workspace_root,
    "workdir:    " .. facts.workdir,
    "runner:     " .. (facts.runner and facts.runner .. " (not tried; `moonsand doctor` tries)" or "none: unconfined"),
    "writes:     " .. writes[facts.mode](facts),
    "command line:",
    explain.command_line(facts.argv),
  }, "\n") .. "\n"
end

local function as_json(facts)
  local argv = {}
  for position, word in ipairs(facts.argv) do
    argv[position] = output.valid(word)
  end
  return output.encode {
    policy = { mode = facts.mode, workspace_root = output.valid(facts.workspace_root) },
    workdir = output.valid(facts.workdir),
    runner = facts.runner or require("cjson").null,
    argv = argv,
  }
end

--- Show it.
-- @tparam table parsed of `moonsand.cli.options`
-- @treturn integer exit status
function explain.main(parsed)
  local asked, policy, err
  parsed.dry = true
  asked, err = setup.read(parsed)
  if asked then
    policy, err = setup.resolve(asked, { command = parsed.operand, workdir = asked.workdir })
  end
  local spec
  if policy then
    local request = require "moonsand.executor.request"
    spec, err = request.resolve({ command = parsed.operand, workdir = asked.workdir }, request.settings {}, nil, policy)
  end
  if not spec then
    return output.fail(err, parsed.json)
  end
  local confined = policy.mode ~= "danger-full-access"
  local _, launch_env, path = require("moonsand.environment").new {
    keep = asked.env.keep, drop = asked.env.drop, env = asked.env.set,
  }:compose { policy = policy, confined = confined }
  local argv = require("moonsand.executor.command").argv(spec.command, path)
  local wrap
  wrap, err = setup.wrap(asked, policy, argv, { chdir = spec.workdir, stdin_null = true, env = launch_env })
  if not wrap then
    return output.fail(err, parsed.json)
  end
  local facts = {
    mode = policy.mode,
    workspace_root = policy.workspace_root,
    workdir = spec.workdir,
    runner = wrap.runner,
    argv = wrap.argv,
  }
  return output.print(parsed.json and as_json(facts) or explain.text(facts)) or output.status.ok
end

return explain
