--- The escape suite's results: the table of attacks, and what became of each in a cell of the matrix.
--
-- Relies on a built tree as the current directory, and on being root: the cells run in an arena (arena.sh) that only
-- root can make. Two run at a time. See README.md beside this file.
local matrix = {}

matrix.runners = { "bwrap", "landlock" }
matrix.modes = { "read-only", "workspace-write" }
matrix.users = { "root", "nobody" }

local SECONDS <const> = 150 -- a cell takes about ten

local function lines(text)
  return text:gmatch("[^\n]+")
end

--- The table of attacks.
-- @treturn {table,...} in its order: `name`, `family`, `mark`, `what`, and a field for each flag that is set
-- (spec/escape/adversary/attack.h)
function matrix.attacks()
  local list = {}
  local pipe <close> = assert(io.popen("build/adversary list"))
  for line in lines(pipe:read("a")) do
    local name, family, mark, flags, what = line:match("^([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t(.*)$")
    local attack = { name = name, family = family, mark = mark, what = what }
    for flag in flags:gmatch("%S+") do
      attack[flag] = true
    end
    list[#list + 1] = attack
  end
  return list
end

--- Whether an attack is about this user at all.
-- @tparam table attack
-- @string user `root` or `nobody`
-- @treturn boolean
function matrix.concerns(attack, user)
  return not (attack.root and user ~= "root") and not (attack.ordinary and user == "root")
end

-- Into a file, because a pipe that nobody reads yet would hold the one up while the other is waited for.
local function start(runner, mode, user)
  local lock = runner == "none" and user == "root" and "--exclusive" or "--shared" -- root's proofs turn switches
  local path = os.tmpname()
  local command = ("ARENA_LOCK=%s sh spec/escape/arena.sh %d lua5.4 spec/escape/cell.lua %s %s %s >%s 2>&1"):format(
    lock, SECONDS, runner, mode, user, path)
  local pipe = assert(io.popen(command))
  return { pipe = pipe, path = path }
end

local function finish(started)
  started.pipe:close()
  local cell = { attacks = {}, strays = {}, complaints = {} }
  for line in io.lines(started.path) do
    local name, verdict, remark = line:match("^([^\t]+)\t([^\t]*)\t?(.*)$")
    if name == "stray" then
      cell.strays[#cell.strays + 1] = verdict
    elseif name == "enforcement" then
      cell.enforcement = verdict
    elseif name then
      cell.attacks[name] = { verdict = verdict, remark = remark }
    else
      cell.complaints[#cell.complaints + 1] = line
    end
  end
  os.remove(started.path)
  return cell
end

local done = {}

--- What became of the attacks in one cell. Cells are run two at a time, each once.
-- @string runner one of `matrix.runners`, or `none` for the proofs
-- @string mode
-- @string user
-- @treturn table `attacks`: by name, `verdict` and `remark`; `strays`: changes that no attack owns up to;
-- `enforcement`, as moonsand reported it; `complaints`: other output
function matrix.cell(runner, mode, user)
  local key = runner .. " " .. mode .. " " .. user
  if not done[key] then
    local two
    if runner == "none" then
      two = { { runner, mode, "root" }, { runner, mode, "nobody" } }
    else
      two = { { "bwrap", mode, user }, { "landlock", mode, user } }
    end
    local started = { start(table.unpack(two[1])), start(table.unpack(two[2])) }
    for position, which in ipairs(two) do
      done[table.concat(which, " ")] = finish(started[position])
    end
  end
  return done[key]
end

return matrix
