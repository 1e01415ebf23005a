--- A trial of a runner: a command that attempts what a mode promises to stop, on files made for the purpose, and a look
-- at the files afterwards.
--
-- What is established is said by the launcher's report; the trial is there to object. Relies on luaposix, and on a
-- directory that this user may write and that no mode makes writable. Promises to leave nothing behind.
-- @module moonsand.trial

local stat = require "posix.sys.stat"

local trial = {}

local Ground = {}
Ground.__index = Ground

-- Where the files are made that a trial attempts to change: not in /tmp, which is writable in workspace-write.
local ground_directories = { "/var/tmp", "." }

-- What the trial attempts, in the directory it is given: `outside` holds what must stay as it is.
local script <const> = [[
cd "$1/outside" 2>/dev/null || exit 1
{ : > created; mkdir directory; ln -s kept link; ln kept hard; mkfifo fifo
  echo more >> changed; : > emptied; rm -f removed; mv moved away
  chmod 777 kept; touch -d '1970-01-02' kept; } 2>/dev/null
{ : >> /proc/sys/kernel/core_pattern; } 2>/dev/null && echo knob
{ echo > ../inside/created && chmod 700 ../inside/created; } 2>/dev/null && echo inside
echo sink > /dev/null || echo nosink
exit 0
]]

local function write(path, text)
  local file <close> = assert(io.open(path, "w"))
  file:write(text)
end

-- A description of everything in a directory, to compare.
local function describe(directory)
  local lines = {}
  for name in require("posix.dirent").files(directory) do
    if name ~= "." and name ~= ".." then
      local facts = stat.lstat(directory .. "/" .. name)
      lines[#lines + 1] = ("%s mode %o, %d bytes, %d links, changed at %d"):format(
        name, facts.st_mode, facts.st_size, facts.st_nlink, facts.st_mtime)
    end
  end
  table.sort(lines)
  return lines
end

--- Find a place for trials.
-- @treturn ?table to `try` on, and to `close`; nil where no directory will do
function trial.new()
  local stdlib = require "posix.stdlib"
  for _, base in ipairs(ground_directories) do
    local canonical = stdlib.realpath(base)
    local path = canonical and stdlib.mkdtemp(canonical .. "/moonsand-trial-XXXXXX")
    if path then
      return setmetatable({ path = path }, Ground)
    end
  end
  return nil
end

local kept_files = { "kept", "changed", "emptied", "removed", "moved" }

local function fill(ground)
  stat.mkdir(ground .. "/outside", 448)
  stat.mkdir(ground .. "/inside", 448)
  for _, name in ipairs(kept_files) do
    write(ground .. "/outside/" .. name, name)
  end
end

local function remove_tree(path)
  local facts = stat.lstat(path)
  if facts and stat.S_ISDIR(facts.st_mode) ~= 0 then
    for name in require("posix.dirent").files(path) do
      if name ~= "." and name ~= ".." then
        remove_tree(path .. "/" .. name)
      end
    end
  end
  os.remove(path)
end

-- The first line that is in one list and not in the other.
local function difference(before, after)
  local known = {}
  for _, line in ipairs(before) do
    known[line] = true
  end
  for _, line in ipairs(after) do
    if not known[line] then
      return line
    end
  end
  return #before ~= #after and "a file is gone" or nil
end

--- What the effects of a trial say against a mode. Pure.
-- @string mode
-- @tparam ?string difference_outside what changed that must not, or nil
-- @tparam table said the set of words that the command printed
-- @treturn ?string nil: nothing
function trial.objection(mode, difference_outside, said)
  if difference_outside then
    return "a file outside the workspace could be changed: " .. difference_outside
  elseif said.knob then
    return "a setting of the kernel under /proc/sys could be opened for writing"
  elseif said.inside and mode == "read-only" then
    return "a file could be created"
  elseif not said.inside and mode == "workspace-write" then
    return "the workspace could not be written"
  elseif said.nosink then
    return "/dev/null could not be written"
  end
  return nil
end

local function words_of(text)
  local words = {}
  for word in text:gmatch("%S+") do
    words[word] = true
  end
  return words
end

--- Try one runner under one mode.
-- @tparam sandbox provider
-- @string name the runner
-- @string mode one that confines
-- @string bash the path of bash
-- @treturn table `mode`; `enforcement`: `full`, `partial` (with `gaps`), as reported, or `unavailable` (with `why`)
function Ground:try(provider, name, mode, bash)
  local ground = self.path
  fill(ground)
  local before = describe(ground .. "/outside")
  local outcome = provider:probe(name, { mode = mode, workspace_root = ground .. "/inside" },
    { bash, "-c", script, "bash", ground })
  local found = { mode = mode, enforcement = "unavailable" }
  if not outcome.confined then
    found.why = outcome.detail
  elseif outcome.status.start_failure then
    found.why = "it confined, but bash could not be started: " .. outcome.status.start_failure.message
  elseif outcome.status.exit_code ~= 0 then
    found.why = "it confined, but the trial did not come to its end"
  else
    found.why = trial.objection(mode, difference(before, describe(ground .. "/outside")), words_of(outcome.stdout))
    if not found.why then
      found.enforcement, found.gaps = outcome.gaps[1] and "partial" or "full", outcome.gaps
    end
  end
  remove_tree(ground .. "/outside")
  remove_tree(ground .. "/inside")
  return found
end

--- Take the place away again.
function Ground:close()
  remove_tree(self.path)
end

Ground.__close = Ground.close

return trial
