-- What a command costs through moonsand, as ratios to the same command started bare in the same run.
--
--   lua5.4 bench/latency.lua [--rounds N] [--json]
--
-- Everything is measured in turn, round by round, so that a machine that slows down slows all of them; a ratio is the
-- median over the rounds of the ratio of the round's medians. See bench/README.md.

local here = arg[0]:match("^(.*)/[^/]*$") or "."
local top = here .. "/.."
local build = os.getenv("MOONSAND_BUILD") or top .. "/build"
package.path = ("%s/lua/?.lua;%s/lua/?/init.lua;%s"):format(top, top, package.path)
package.cpath = ("%s/?.so;%s"):format(build, package.cpath)

local moonsand = require "moonsand"
local time = require "posix.time"
local stdlib = require "posix.stdlib"

local rounds, json = 20, false
for position, word in ipairs(arg) do
  if word == "--rounds" then
    rounds = assert(math.tointeger(tonumber(arg[position + 1])), "--rounds wants a number")
  elseif word == "--json" then
    json = true
  end
end

local PER_ROUND <const> = 15
local FLOOR = build .. "/bench_floor"

local function microseconds()
  local now = time.clock_gettime(time.CLOCK_MONOTONIC)
  return now.tv_sec * 1e6 + now.tv_nsec / 1e3
end

local function median(values)
  local sorted = table.move(values, 1, #values, 1, {})
  table.sort(sorted)
  return sorted[#sorted // 2 + 1]
end

local function quote(argv)
  local words = {}
  for position, word in ipairs(argv) do
    words[position] = "'" .. word:gsub("'", [['\'']]) .. "'"
  end
  return table.concat(words, " ")
end

-- A sample is a function that returns PER_ROUND durations in microseconds.
local function bare(argv)
  local command = quote(table.move(argv, 1, #argv, 3, { FLOOR, tostring(PER_ROUND) }))
  return function()
    local samples, pipe = {}, assert(io.popen(command))
    for line in pipe:lines() do
      samples[#samples + 1] = assert(tonumber(line))
    end
    assert(pipe:close(), "the floor itself failed: " .. command)
    return samples
  end
end

local function through(shell)
  return function()
    local samples = {}
    for position = 1, PER_ROUND do
      local begun = microseconds()
      local result = assert(shell:run { command = "true" })
      samples[position] = microseconds() - begun
      assert(result.exit_code == 0)
    end
    return samples
  end
end

local workspace = assert(stdlib.mkdtemp("/var/tmp/moonsand-bench-XXXXXX"))
local function shell_of(runner, mode)
  local shell, err = moonsand.shell { runner = runner, mode = mode, workspace_root = workspace }
  if not shell then
    return nil, tostring(err)
  end
  local ran, why = shell:run { command = "true" }
  if not ran then
    return nil, tostring(why)
  end
  return shell
end

local BASH = { "/bin/bash", "-c", "true" }

-- The profile that moonsand gives bwrap, with the launcher left out: the same namespaces and mounts around a bare bash.
local function bwrap_argv(mode)
  local policy = assert(require("moonsand.policy").new { mode = mode, workspace_root = workspace }):resolve {}
  local provider = assert(require("moonsand.sandbox").new { runner = "bwrap" })
  local wrap = assert(provider:confine(BASH, policy))
  local argv = {}
  for _, word in ipairs(wrap.argv) do
    if word == "--" then
      break
    end
    argv[#argv + 1] = word
  end
  argv[#argv + 1] = "--"
  return table.move(BASH, 1, #BASH, #argv + 1, argv)
end

local rows = {} -- { name, sample, floor }
local skipped = {}
local function row(name, sample, floor)
  rows[#rows + 1] = { name = name, sample = sample, floor = floor, medians = {} }
  return #rows
end

local bash_floor = row("`bash -c true`, spawned bare", bare(BASH))
for _, mode in ipairs { "danger-full-access", "read-only", "workspace-write" } do
  local shell, why = shell_of(mode ~= "danger-full-access" and "landlock" or nil, mode)
  local name = mode == "danger-full-access" and "moonsand, full access" or "moonsand, Landlock, " .. mode
  if shell then
    row(name, through(shell), bash_floor)
  else
    skipped[#skipped + 1] = ("%s: %s"):format(name, why)
  end
end
for _, mode in ipairs { "read-only", "workspace-write" } do
  local shell, why = shell_of("bwrap", mode)
  if shell then
    local floor = row("bare bwrap, profile of " .. mode, bare(bwrap_argv(mode)))
    row("moonsand, bwrap, " .. mode, through(shell), floor)
    if mode == "read-only" and require("posix.unistd").access(top .. "/bin/moonsand", "x") then
      row("`moonsand run true`, whole process, bwrap",
        bare { top .. "/bin/moonsand", "run", "--runner", "bwrap", "true" }, floor)
    end
  else
    skipped[#skipped + 1] = ("bwrap, %s: %s"):format(mode, why)
  end
end

for round = 1, rounds + 1 do
  for _, each in ipairs(rows) do
    local value = median(each.sample())
    if round > 1 then -- the first warms caches
      table.insert(each.medians, value)
    end
  end
end
os.execute("rm -rf " .. quote { workspace })

local results = {}
for position, each in ipairs(rows) do
  local ratios = {}
  if each.floor then
    for round, value in ipairs(each.medians) do
      ratios[round] = value / rows[each.floor].medians[round]
    end
  end
  results[position] = {
    name = each.name,
    ms = median(each.medians) / 1000,
    ratio = each.floor and median(ratios) or nil,
    floor = each.floor and rows[each.floor].name or nil,
  }
end

if json then
  print(require("cjson").encode { results = results, skipped = skipped, rounds = rounds, per_round = PER_ROUND })
  return
end
print("| | ms, median | times its floor |")
print("|---|---|---|")
for _, result in ipairs(results) do
  print(("| %s | %.2f | %s |"):format(result.name, result.ms, result.ratio and ("%.2f"):format(result.ratio) or "1"))
end
for _, line in ipairs(skipped) do
  print("skipped: " .. line)
end
