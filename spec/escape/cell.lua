-- One cell of the matrix: plants canaries, runs attacks as a user under a runner and a mode, looks what has changed.
--
--   lua5.4 cell.lua RUNNER MODE USER [ATTACK...]      as root, called by arena.sh, in a built tree
--
-- RUNNER `none` is the proof: each attack by itself, unconfined; what it changes then is what the sandbox must keep it
-- from changing. Prints a line for each attack: name, verdict, remark. Verdicts: `fell` (a mark was left), `held`,
-- `absent` (this machine does not have what it takes), and of a proof `proven`, `dud`. Changes that no attack owns
-- up to are printed as `stray`.

local signal = require "posix.signal"
local stat = require "posix.sys.stat"
local unistd = require "posix.unistd"

local runner, mode, user = arg[1], arg[2], arg[3]
local tree <const> = os.getenv("MOONSAND_TREE") or unistd.getcwd()
local build <const> = os.getenv("MOONSAND_BUILD") or (tree .. "/build")
local uid <const> = user == "root" and 0 or 65534
local confined <const> = runner ~= "none"

local function quote(word)
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

local function quoted(words)
  local out = {}
  for position, word in ipairs(words) do
    out[position] = quote(word)
  end
  return table.concat(out, " ")
end

local function output(command)
  local pipe <close> = assert(io.popen(command))
  return pipe:read("a")
end

local function must(command)
  local good, how, code = os.execute(command)
  if not good then
    error(("%s: %s %s"):format(command, how, code))
  end
end

local function write(path, content)
  local file <close> = assert(io.open(path, "w"))
  assert(file:write(content))
end

local function read(path)
  local file <close> = io.open(path, "r")
  return file and file:read("a")
end

-- --- the table ---------------------------------------------------------------------------------------------

local attacks, by_name = {}, {}
for line in output(quote(build .. "/adversary") .. " list"):gmatch("[^\n]+") do
  local name, family, mark, flags, what = line:match("^([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t(.*)$")
  local attack = { name = name, family = family, mark = mark, what = what }
  for flag in flags:gmatch("%S+") do
    attack[flag] = true
  end
  if mark == "own" then
    attack.mark = "own/" .. name .. "/"
  elseif mark == "alive:" then
    attack.mark = "alive:" .. name
  end
  local wanted = #arg == 3
  for position = 4, #arg do
    wanted = wanted or arg[position] == name
  end
  if wanted and not (attack.root and uid ~= 0) and not (attack.ordinary and uid == 0) then
    attacks[#attacks + 1] = attack
    by_name[name] = attack
  end
end

-- --- the place ---------------------------------------------------------------------------------------------

local base <const> = assert(os.getenv("ARENA"), "to be run by arena.sh")
local workspace <const> = base .. "/nest/room/workspace"
local group <const> = base:match("[^/]+$")
local knobs <const> = {
  "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/stat_interval",
  "/proc/sys/fs/lease-break-time", "/proc/sys/net/ipv4/ip_default_ttl", "/sys/kernel/mm/ksm/sleep_millisecs",
  "/sys/kernel/uevent_helper", "/sys/fs/cgroup/systemd/release_agent", "/sys/fs/cgroup/memory/memory.swappiness",
  "/sys/module/printk/parameters/ignore_loglevel", "/proc/1/oom_score_adj",
}
local kept = {}
local loop, cgroup, victim
local loop_held -- open until the end, for what it keeps

local function as_user(command)
  return uid == 0 and command or ("setpriv --reuid %d --regid %d --clear-groups %s"):format(uid, uid, command)
end

local function names_of(list)
  local names = {}
  for position, attack in ipairs(list) do
    names[position] = attack.name
  end
  return names
end

-- A shell script in the base directory, with what the run's names are.
local function script(text)
  local names = { base = base, build = build, uid = uid, workspace = workspace, loop = loop, cgroup = cgroup }
  must("cd " .. base .. " && " .. text:gsub("{(%w+)}", names))
end

-- A device that is given back at once stays for as long as somebody has it open: it goes with this process, however
-- this process ends. Another cell may take the same free number, so that it takes a few tries.
local function lend_loop()
  script "head -c 65536 /dev/zero >loop"
  for _ = 1, 10 do
    loop = output("losetup -f 2>/dev/null"):match("/dev/loop(%d+)")
    if not loop then
      return
    end
    script "[ -e /dev/loop{loop} ] || mknod -m 600 /dev/loop{loop} b 7 {loop}"
    if os.execute(("losetup /dev/loop%s %s/loop 2>/dev/null"):format(loop, base)) then
      loop_held = assert(io.open("/dev/loop" .. loop, "r"))
      script "losetup -d /dev/loop{loop} && truncate -s {loop} loop-number"
      return
    end
  end
  loop = nil
end

local function delegate_cgroup()
  for _, mounted in ipairs { "/sys/fs/cgroup/unified", "/sys/fs/cgroup" } do
    if not cgroup and stat.stat(mounted .. "/cgroup.controllers") then
      cgroup = mounted .. "/" .. group
      script "mkdir {cgroup} && chown -R {uid} {cgroup}"
    end
  end
end

local function raise_victim()
  victim = assert(io.popen(as_user(("%s/witness victim %s >%s/victim.facts"):format(build, base, base)), "w"))
  for _ = 1, 200 do
    if (read(base .. "/victim.facts") or ""):find("queue=") then
      return
    end
    os.execute("sleep 0.02")
  end
  error("the victim does not come up")
end

local function prepare()
  for _, knob in ipairs(knobs) do
    kept[knob] = read(knob)
  end
  script "chmod 755 . && mkdir own victim home late source held input nest nest/room {workspace}"
  script "echo canary >held/file && echo canary >input/file && echo canary >source/file"
  script "cp {build}/witness setid && chmod 4755 setid"
  script "cp {build}/witness capable && setcap cap_dac_override+ep capable"
  script "chown -R {uid}:{uid} victim home late source held input nest"
  script("WORKSPACE={workspace} {build}/witness plant {base}/own {uid} " .. quoted(names_of(attacks)))
  script "find home late source held input nest -exec {build}/witness settle {} +"
  lend_loop()
  delegate_cgroup()
  raise_victim()
  local spring = confined and mode == "read-only" and "/tmp" or workspace
  local facts = {
    "base=" .. base,
    "spring=" .. spring,
    "program=" .. build .. "/adversary",
    "launcher=" .. build .. "/moonsand/moonsand-launch",
  }
  if spring == workspace then
    facts[#facts + 1] = "workspace=" .. workspace
  end
  if loop then
    facts[#facts + 1] = "loop=/dev/loop" .. loop
  end
  write(base .. "/facts", table.concat(facts, "\n") .. "\n" .. read(base .. "/victim.facts"))
end

-- Only what later attacks would stumble over: arena.sh puts everything back in the end.
local function restore_knobs()
  for _, knob in ipairs(knobs) do
    if kept[knob] and read(knob) ~= kept[knob] then
      write(knob, kept[knob] == "" and "\n" or kept[knob])
    end
  end
end

-- --- looking -----------------------------------------------------------------------------------------------

local function snapshot(list)
  local state = {}
  for line in output(("%s/witness snapshot %s %s"):format(build, base, quoted(names_of(list)))):gmatch("[^\n]+") do
    local key, value = line:match("^([^\t]*)\t(.*)$")
    state[key] = value
  end
  return state
end

local function changes(before, after)
  local list = {}
  for key, value in pairs(after) do
    local gone = key == "keys:marks" and tonumber(value) < tonumber(before[key]) -- a key that expired
    if before[key] ~= value and not gone then
      list[#list + 1] = { key = key, before = before[key] or "(not there)", after = value }
    end
  end
  for key, value in pairs(before) do
    if after[key] == nil then
      list[#list + 1] = { key = key, before = value, after = "(gone)" }
    end
  end
  table.sort(list, function(a, b)
    return a.key < b.key
  end)
  return list
end

local function described(change)
  return (("%s: %s => %s"):format(change.key, change.before:sub(1, 400), change.after:sub(1, 400)):gsub("[\t\n]", " "))
end

local function begins(text, beginning)
  return text:sub(1, #beginning) == beginning
end

-- The attacks of a list whose mark a change may be.
local function suspects(list, change)
  local found = {}
  for _, attack in ipairs(list) do
    local own = begins(attack.mark, "own/") and change.key == attack.mark:sub(1, -2) -- the directory itself
    if own or begins(change.key, attack.mark) then
      found[#found + 1] = attack
    end
  end
  return found
end

-- --- running -----------------------------------------------------------------------------------------------

local function agent(list)
  local names = names_of(list)
  local first = list[1]
  local adversary = quoted { build .. "/adversary", "run", base .. "/facts", table.unpack(names) }
  local command
  if confined then
    local way = begins(first.name, "input-") and "exec" or first.alone and "alone" or "run"
    command = ("lua5.4 %s/spec/escape/agent.lua %s %s %s %s %s"):format(tree, runner, mode, workspace, way, adversary)
  elseif first.launched then
    command = ("timeout -s KILL 2 %s/moonsand/moonsand-launch -- %s"):format(build, adversary)
  else
    command = "timeout -s KILL 20 " .. adversary
  end
  local home = ("env HOME=%s/home LUA_PATH='%s/lua/?.lua;%s/lua/?/init.lua;;' LUA_CPATH='%s/?.so;;' "):format(
    base, tree, tree, build)
  local wrapped = ("cd %s; %s exec setsid -w %s <%s/input/file 8<%s 9<>%s/held/file 2>>%s/stderr"):format(
    tree, cgroup and ("echo $$ >" .. cgroup .. "/cgroup.procs;") or "", as_user(home .. command),
    base, base, base, base)
  return wrapped
end

local remarks, enforcement = {}, nil

local function run(list)
  local seen = ""
  local background = {}
  local first = list[1]
  if begins(first.name, "mount-late") then
    background = { ("(sleep 0.3; mount --bind %s/source %s/late) >/dev/null 2>&1 &"):format(base, base) }
  elseif begins(first.mark, "watch:") then
    background = { ("(for i in 1 2 3 4 5 6 7 8 9 10; do ls %s; sleep 0.04; done >%s/watched) 2>/dev/null &"):format(
      first.mark:match(":(.*)"), base) }
  end
  local text = output("sh -c " .. quote(table.concat(background, " ") .. " " .. agent(list)))
  for line in text:gmatch("[^\n]+") do
    local name, outcome, remark = line:match("^([^\t]*)\t([^\t]*)\t?(.*)$")
    if name == "enforcement" then
      enforcement = outcome
    elseif name and by_name[name] then
      remarks[name] = outcome .. (remark ~= "" and (": " .. remark) or "")
    elseif name == "settled" then
      seen = outcome
    end
  end
  if #list == 1 and seen ~= "" and not remarks[first.name] then
    remarks[first.name] = "ended with its sandbox: " .. seen
  end
end

local verdicts, strays = {}, {}

local function fell(attack, change)
  verdicts[attack.name] = "fell"
  remarks[attack.name] = (remarks[attack.name] or "") .. " | " .. described(change)
end

local function clean_up(list)
  local first = list[1]
  if first.name == "path-move-parent" then
    os.rename(base .. "/nest/moved", base .. "/nest/room")
  elseif begins(first.name, "mount-late") then
    os.execute("umount -l " .. base .. "/late 2>/dev/null")
  end
  for line in output("ps -eo pid,args"):gmatch("[^\n]+") do
    local pid
    for _, name in ipairs { "moonsand%-linger", "%S*/adversary", "%[adversary%]" } do
      pid = pid or line:match("^%s*(%d+) " .. name)
    end
    if pid then
      signal.kill(tonumber(pid), signal.SIGKILL)
    end
  end
end

local function watched_change(attack, before)
  local known = {}
  for name in before:gmatch("[^\n]+") do
    known[name] = true
  end
  for name in (read(base .. "/watched") or ""):gmatch("[^\n]+") do
    if not known[name] then
      return { key = attack.mark .. "/" .. name, before = "(not there)", after = "there for a while" }
    end
  end
end

-- Runs these attacks in one sandbox, and finds out whose the marks are.
local function batch(list, before)
  before = before or snapshot(list)
  local listing = begins(list[1].mark, "watch:") and output("ls " .. list[1].mark:match(":(.*)"))
  run(list)
  local after = snapshot(list)
  local found = changes(before, after)
  if listing then
    found[#found + 1] = watched_change(list[1], listing)
  end
  clean_up(list)
  local doubtful = {}
  for _, change in ipairs(found) do
    local who = suspects(list, change)
    if #who == 1 then
      fell(who[1], change)
    elseif #who == 0 then
      strays[#strays + 1] = change
    else
      for _, attack in ipairs(who) do
        doubtful[attack.name] = attack
      end
    end
  end
  for _, attack in pairs(doubtful) do
    batch { attack }
  end
  -- What could not be done twice was done by one of them.
  for _, change in ipairs(found) do
    local who, owned = suspects(list, change), false
    for _, attack in ipairs(who) do
      owned = owned or verdicts[attack.name] == "fell"
    end
    for _, attack in ipairs(owned and {} or who) do
      fell(attack, change)
    end
  end
end

-- Only what has run can have been kept from leaving a mark.
local function complete()
  for _, attack in ipairs(attacks) do
    if not remarks[attack.name] then
      verdicts[attack.name] = "did not run"
    end
  end
end

local function held()
  local together, inputs, alone = {}, {}, {}
  for _, attack in ipairs(attacks) do
    verdicts[attack.name] = "held"
    local where = begins(attack.name, "input-") and inputs or attack.alone and alone or together
    where[#where + 1] = attack
  end
  if #together > 0 then
    batch(together)
  end
  if #inputs > 0 then
    batch(inputs)
  end
  for _, attack in ipairs(alone) do
    batch { attack }
  end
  complete()
end

local function prove()
  for _, attack in ipairs(attacks) do
    local before = snapshot { attack }
    local listing = begins(attack.mark, "watch:") and output("ls " .. attack.mark:match(":(.*)"))
    run { attack }
    local after = snapshot { attack }
    local found = changes(before, after)
    if listing then
      found[#found + 1] = watched_change(attack, listing)
    end
    clean_up { attack }
    local marked
    for _, change in ipairs(found) do
      marked = marked or (#suspects({ attack }, change) > 0 and change)
    end
    local remark = remarks[attack.name] or "said nothing"
    if marked then
      verdicts[attack.name] = "proven"
      remarks[attack.name] = described(marked)
    elseif begins(remark, "absent") then
      verdicts[attack.name] = "absent"
    else
      verdicts[attack.name] = attack.unproven and "unproven" or "dud"
    end
    restore_knobs()
    os.execute("rm -f /dev/moonsand-mark /dev/shm/moonsand-mark; [ -e /dev/full ] || mknod -m 666 /dev/full c 1 7")
    if attack.mark == "uts:" then
      os.execute("echo arena >/proc/sys/kernel/domainname; hostname arena")
    end
  end
end

local good, problem = xpcall(function()
  prepare()
  if confined then
    held()
  else
    prove()
  end
end, debug.traceback)
if victim then
  victim:close()
end
if loop_held then
  loop_held:close()
end
local complaints = read(base .. "/stderr") or ""
pcall(restore_knobs)
if not good then
  io.stderr:write(problem, "\n", complaints, "\n")
  os.exit(1)
end
for _, attack in ipairs(attacks) do
  print(table.concat({ attack.name, verdicts[attack.name], (remarks[attack.name] or "did not run") }, "\t"))
end
for _, change in ipairs(strays) do
  print("stray\t" .. described(change))
end
print("enforcement\t" .. tostring(enforcement))
