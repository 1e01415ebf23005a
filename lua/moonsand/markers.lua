--- Every line the model sees that the command did not print.
--
-- The lines are data: a string, or a function of facts that returns one. A host replaces any of them, for one rendering
-- (`render(result, { markers = { denied = ... } })`) or for all (`markers.lines.denied = ...`). Section 8 of the design
-- fixes their words; models and tests rely on them.
--
-- Two promises hold for everything rendered here with the lines as they are: it is valid UTF-8, and
-- `parse_exit_status(render(result))` is how the command ended, whatever the command printed.
-- @module moonsand.markers

local markers = {}

local function full_output(facts)
  return facts.path or "(unavailable)"
end

--- The lines.
markers.lines = {
  no_output = "(no output)",
  stderr = "[stderr]",
  truncated = function(facts)
    return ("[output truncated; full output: %s]"):format(full_output(facts))
  end,
  denied = function(facts)
    return ("[sandbox: file access denied under %s mode]"):format(facts.mode)
  end,
  escalation = "[sandbox: escalation available — retry this exact command once with sandbox_permissions (the narrowest "
    .. "wider mode that suffices) + justification; the approval prompt asks the user]",
  runner_failed = function(facts)
    return ("[sandbox: the sandbox runner itself failed under %s mode — the command did not run; this is a sandbox "
      .. "problem, not a command failure]"):format(facts.mode)
  end,
  dropped = function(facts)
    return ("[some output was dropped from memory; full output: %s]"):format(full_output(facts))
  end,
  timed_out = function(facts)
    return ("[timed out after %dms]"):format(facts.timeout_ms)
  end,
  killed_by_signal = function(facts)
    return ("[killed by signal: %s]"):format(facts.signal)
  end,
  exit_code = function(facts)
    return ("[exit code: %d]"):format(facts.exit_code)
  end,
}

-- The lines as they are here, for where a host's own function fails.
local defaults = {}
for name, line in pairs(markers.lines) do
  defaults[name] = line
end

-- What is wrong with a line that is to replace one, or nil.
local function fault(_, line)
  if type(line) == "function" or line == false then
    return nil
  elseif type(line) ~= "string" then
    return ("a string, a function, or false for no line is expected, not a %s"):format(type(line))
  elseif not line:find("%S") then
    return "must not be empty; false leaves the line out"
  elseif line:find("[\r\n]") then
    return "must be a single line"
  end
  return nil
end
markers.lines = require("moonsand.overridable")("markers.lines", markers.lines, fault)

--- Check lines that are to replace some of `markers.lines`, before there is anything to render.
-- @tparam {[string]=string|function|false} lines by name; a function is given facts and returns a line, false leaves
--   the line out
-- @treturn[1] boolean true
-- @treturn[2] nil
-- @treturn[2] string what is wrong, naming the line
function markers.check(lines)
  if type(lines) ~= "table" then
    return nil, ("markers: a table of lines is expected, not a %s"):format(type(lines))
  end
  for name, line in pairs(lines) do
    local what = fault(name, line)
    if defaults[name] == nil then
      local known = {}
      for other in pairs(defaults) do
        known[#known + 1] = other
      end
      table.sort(known)
      what = "there is no such line" .. require("moonsand.nearest").hint(tostring(name), known)
    end
    if what then
      return nil, ("markers.%s: %s"):format(tostring(name), what)
    end
  end
  return true
end

local function call_default(name, facts)
  local line = defaults[name]
  return type(line) == "function" and line(facts) or line
end

-- A line for these facts. A host's function that raises, or returns what is no line, does not cost the model the fact.
local function say(overrides, name, facts)
  local line = overrides and overrides[name]
  if line == nil then
    line = markers.lines[name]
  end
  if type(line) == "function" then
    if line == defaults[name] then
      return line(facts)
    end
    local worked, made = pcall(line, facts)
    if not worked or (made and (type(made) ~= "string" or made:find("[\r\n]"))) then
      return call_default(name, facts)
    end
    line = made
  end
  return line
end

-- How many bytes at `position` belong to one damaged character: as long a beginning of a valid sequence as there is
-- (The Unicode Standard, 3.9, "maximal subpart"), else one byte.
local function damaged_length(text, position)
  local lead, second, third = text:byte(position, position + 2)
  local low, high = 0x80, 0xBF
  local continuations
  if lead >= 0xC2 and lead <= 0xDF then
    continuations = 1
  elseif lead >= 0xE0 and lead <= 0xEF then
    continuations = 2
    if lead == 0xE0 then
      low = 0xA0
    elseif lead == 0xED then
      high = 0x9F
    end
  elseif lead >= 0xF0 and lead <= 0xF4 then
    continuations = 3
    if lead == 0xF0 then
      low = 0x90
    elseif lead == 0xF4 then
      high = 0x8F
    end
  else
    return 1
  end
  if not second or second < low or second > high or continuations == 1 then
    return 1
  elseif not third or third < 0x80 or third > 0xBF or continuations == 2 then
    return 2
  end
  return 3
end

--- Make a text valid UTF-8: each damaged character becomes U+FFFD. A valid text is returned as it is.
-- @string text
-- @treturn string
function markers.repair_utf8(text)
  local valid, position = utf8.len(text)
  if valid then
    return text
  end
  local pieces, from = {}, 1
  repeat
    pieces[#pieces + 1] = text:sub(from, position - 1)
    pieces[#pieces + 1] = "\u{FFFD}"
    from = position + damaged_length(text, position)
    valid, position = utf8.len(text, from)
  until valid or from > #text
  pieces[#pieces + 1] = text:sub(from)
  return table.concat(pieces)
end

--- How many bytes at the start of a text are the rest of a character that began before it.
-- @string text
-- @treturn integer 0 to 3
function markers.leading_fragment(text)
  local length = 0
  while length < 3 do
    local byte = text:byte(length + 1)
    if not byte or byte < 0x80 or byte > 0xBF then
      break
    end
    length = length + 1
  end
  return length
end

--- How many bytes at the end of a text are the beginning of a character that is not complete yet.
-- @string text
-- @treturn integer 0 to 3
function markers.trailing_fragment(text)
  for length = 1, math.min(3, #text) do
    local byte = text:byte(-length)
    if byte >= 0xC2 then
      local whole = byte >= 0xF0 and 4 or byte >= 0xE0 and 3 or 2
      return (byte <= 0xF4 and length < whole) and length or 0
    elseif byte < 0x80 then
      return 0
    end
  end
  return 0
end

--- How a command ended, from a rendered text: the inverse of its last line.
--
-- An ordinary end is not worth a line, so a text without one is of a command that exited 0.
-- @string text
-- @treturn table `{ exit_code = n }` or `{ signal = "SIGKILL" }`
function markers.parse_exit_status(text)
  local last = text:match("([^\n]*)\n?$")
  local signal = last:match("^%[killed by signal: ([%w+%-]+)%]$")
  if signal then
    return { signal = signal }
  end
  local exit_code = last:match("^%[exit code: (%-?%d+)%]$")
  return { exit_code = exit_code and math.tointeger(tonumber(exit_code)) or 0 }
end

-- A text that is put together line by line.
local Page = {}
Page.__index = Page

local function new_page()
  return setmetatable({ pieces = {}, at_line_start = true }, Page)
end

function Page:begin_line()
  if not self.at_line_start then
    self.pieces[#self.pieces + 1] = "\n"
    self.at_line_start = true
  end
end

-- Output, exactly as it came.
function Page:text(text)
  if text ~= "" then
    self.pieces[#self.pieces + 1] = text
    self.at_line_start = text:byte(-1) == 10
  end
end

-- A line of its own. It is left unfinished, so that the page does not end with an empty line.
function Page:line(line)
  if line and line ~= "" then
    self:begin_line()
    self.pieces[#self.pieces + 1] = line
    self.at_line_start = false
  end
end

function Page:finish()
  return markers.repair_utf8(table.concat(self.pieces))
end

local function ends_like_a_status(text)
  local last = text:match("([^\n]*)\n?$")
  return last:find("^%[exit code: ") or last:find("^%[killed by signal: ")
end

-- The last line. Exit 0 goes without saying, unless something else was remarkable or the command printed a line that
-- would be taken for it.
local function status_line(page, facts, overrides, remarkable)
  if facts.signal then
    page:line(say(overrides, "killed_by_signal", facts))
  elseif facts.exit_code then
    local last = page.pieces[#page.pieces]
    if facts.exit_code ~= 0 or remarkable or (last and ends_like_a_status(last)) then
      page:line(say(overrides, "exit_code", facts))
    end
  end
end

local function stream(page, captured, overrides)
  page:text(captured.text)
  if captured.truncated then
    page:line(say(overrides, "truncated", { path = captured.spill_path }))
  end
end

local function sandbox_lines(page, sandbox, options)
  if sandbox and sandbox.denied then
    local overrides = options and options.markers
    page:line(say(overrides, "denied", sandbox))
    if options and options.escalation then
      page:line(say(overrides, "escalation", sandbox))
    end
  end
end

--- The text of a foreground result, for the model.
--
-- Ends with a newline only where the command's output does and nothing follows it.
-- @tparam table result what `shell:run` returned
-- @tparam[opt] table options
-- @tparam[opt] boolean options.escalation whether the model could ask for a wider mode now
-- @tparam[opt] table options.markers lines to use instead of `markers.lines`, by name
-- @treturn string
function markers.render(result, options)
  local overrides = options and options.markers
  local page, stdout, stderr = new_page(), result.stdout, result.stderr
  if stdout.text == "" and stderr.text == "" then
    page:line(say(overrides, "no_output", result))
  end
  stream(page, stdout, overrides)
  if stderr.text ~= "" or stderr.truncated then
    page:line(say(overrides, "stderr", result))
    page:begin_line()
    stream(page, stderr, overrides)
  end
  sandbox_lines(page, result.sandbox, options)
  if result.timed_out then
    page:line(say(overrides, "timed_out", result))
  end
  status_line(page, result, overrides, result.timed_out)
  return page:finish()
end

--- The text of one read of a background command, for the model.
-- @tparam table read what `handle:read()` returned
-- @tparam table handle the handle: its `status`, `exit_code`, `signal` and `sandbox` are rendered once it is settled
-- @tparam[opt] table options as of `render`; with `ended`, a settled command's exit 0 has its line too
-- @treturn string
function markers.render_read(read, handle, options)
  local overrides = options and options.markers
  local page = new_page()
  if read.delta == "" then
    page:line(say(overrides, "no_output", read))
  else
    page:text(read.delta)
  end
  if read.lossy then
    local paths = {}
    for _, path in ipairs { read.stdout_spill_path or false, read.stderr_spill_path or false } do
      paths[#paths + 1] = path or nil
    end
    page:line(say(overrides, "dropped", { path = paths[1] and table.concat(paths, ", ") }))
  end
  if handle.status == "running" then
    return page:finish()
  end
  local sandbox = handle.sandbox
  if sandbox and sandbox.runner_failed then
    page:line(say(overrides, "runner_failed", sandbox))
    return page:finish()
  end
  sandbox_lines(page, sandbox, options)
  status_line(page, handle, overrides, options and options.ended)
  return page:finish()
end

return markers
