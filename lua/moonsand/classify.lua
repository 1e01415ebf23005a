--- What a finished run means, decided from its facts alone.
--
-- Pure functions over the outcome of a run and the signatures of its runner (`moonsand.signatures`). They know no
-- process, no file and no clock. The launcher's report, where there is one, has already said whether the command ran;
-- the runner-failure rules here decide only where no report could be had. See section 5 of the design.
-- @module moonsand.classify

local classify = {}

--- Error codes of an exec that say: this program cannot be executed, and no other step would have helped. execve(2).
classify.executable_class = {
  ENOENT = true, -- not there, or its interpreter is not
  ENOTDIR = true,
  EACCES = true, -- not executable, or on a file system mounted noexec
  EPERM = true,
  ELOOP = true,
  ENAMETOOLONG = true,
  EISDIR = true,
  ENOEXEC = true, -- not a format the kernel loads
  ELIBBAD = true, -- its ELF interpreter is not loadable
  EINVAL = true, -- several ELF interpreters
  ETXTBSY = true, -- open for writing
}

local function is_blank(text)
  return not text:find("%S")
end

-- Any signature, in any case, anywhere in the text. A blank signature is no evidence: it would be found everywhere.
local function find_signature(text, signatures)
  for _, signature in ipairs(signatures) do
    if not is_blank(signature) and text:find(signature:lower(), 1, true) then
      return true
    end
  end
  return false
end

local function contains(list, value)
  for _, entry in ipairs(list) do
    if entry == value then
      return true
    end
  end
  return false
end

local function is_informational(lowered_line, informational)
  for _, line in ipairs(informational or {}) do
    if line:lower() == lowered_line then
      return true
    end
  end
  return false
end

-- The first line that speaks of a failure of the runner, as it was printed.
local function fatal_line(stderr, rule)
  for line in (stderr .. "\n"):gmatch("(.-)\r?\n") do
    local lowered = line:lower()
    if not is_informational(lowered, rule.informational) and find_signature(lowered, rule.fatal) then
      return line
    end
  end
  return nil
end

--- Whether what a run left behind says that its runner failed, and the command never ran.
--
-- For runs without a report. A run that exited 0 ran.
-- @tparam table outcome `{ exit_code?, signal?, stderr }`, stderr being the collected tail
-- @tparam table rules a list of `{ exit_codes?, informational?, fatal }`: with `exit_codes`, no other exit counts;
--   lines equal to one of `informational` do not count; one of the other lines contains one of `fatal`
-- @treturn ?string the line that says so, or nil: no evidence
function classify.runner_failure(outcome, rules)
  if outcome.exit_code == 0 then
    return nil
  end
  for _, rule in ipairs(rules) do
    if not rule.exit_codes or contains(rule.exit_codes, outcome.exit_code) then
      local line = fatal_line(outcome.stderr, rule)
      if line then
        return line
      end
    end
  end
  return nil
end

--- Whether the sandbox stopped a file effect of the command.
--
-- An inference, and a conservative one: the command failed by its own exit, and its last words contain the words of
-- this runner's denial. An unrelated error in the same words counts too; a denial that the command kept to itself does
-- not.
-- @tparam table outcome `{ exit_code?, signal?, stderr }`
-- @tparam {string,...} signatures
-- @treturn boolean
function classify.denied(outcome, signatures)
  local exit_code = outcome.exit_code
  if exit_code == nil or exit_code == 0 or outcome.signal or outcome.stderr == "" then
    return false
  end
  return find_signature(outcome.stderr:lower(), signatures)
end

--- Whose failure it is when a process could not be started at all.
-- @tparam table failure the core's: `{ stage, code, path, ... }`
-- @string runner_path `argv[1]` of the wrap
-- @tparam boolean workdir_usable whether the caller's workdir could be entered on its own
-- @treturn string `"runner"`, or `"start"`: an ordinary start error
function classify.start_failure(failure, runner_path, workdir_usable)
  local about_runner = failure.stage == "exec"
    and classify.executable_class[failure.code]
    and (failure.path == nil or failure.path == runner_path)
  return about_runner and workdir_usable and "runner" or "start"
end

--- The last line of a text that has one, for a person: what a runner said before it gave up.
-- @string text
-- @treturn ?string
function classify.last_line(text)
  local last
  for line in (text .. "\n"):gmatch("(.-)\r?\n") do
    if not is_blank(line) then
      last = line
    end
  end
  return last
end

-- A host replaces a function by assigning to it; what is no function is refused there.
return require("moonsand.overridable")("classify", classify, function(name, value)
  local expected = name == "executable_class" and "table" or "function"
  return type(value) ~= expected and ("a %s is expected, not a %s"):format(expected, type(value)) or nil
end)
