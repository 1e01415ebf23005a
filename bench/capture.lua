-- What the capture of a command's output costs, as ratios to a pipe into cat in the same run.
--
--   lua5.4 bench/capture.lua [--rounds N]
--
-- 1 GB that is too long for a spill file (the tail stays), and 40 MB that go into one. See bench/README.md.

local here = arg[0]:match("^(.*)/[^/]*$") or "."
local top = here .. "/.."
local build = os.getenv("MOONSAND_BUILD") or top .. "/build"
package.path = ("%s/lua/?.lua;%s/lua/?/init.lua;%s"):format(top, top, package.path)
package.cpath = ("%s/?.so;%s"):format(build, package.cpath)

local moonsand = require "moonsand"
local time = require "posix.time"
local stdlib = require "posix.stdlib"

local rounds = tonumber(arg[1] == "--rounds" and arg[2]) or 5

local function seconds()
  local now = time.clock_gettime(time.CLOCK_MONOTONIC)
  return now.tv_sec + now.tv_nsec / 1e9
end

local function median(values)
  table.sort(values)
  return values[#values // 2 + 1]
end

local function resident_kb()
  for line in io.lines("/proc/self/status") do
    local kb = line:match("^VmHWM:%s+(%d+) kB")
    if kb then
      return tonumber(kb)
    end
  end
  return 0
end

local directory = assert(stdlib.mkdtemp("/var/tmp/moonsand-bench-XXXXXX"))
local shell = assert(moonsand.shell { mode = "danger-full-access", workspace_root = directory })
assert(shell:run { command = "true" })

local cases = {
  { name = "1 GB, tail kept", bytes = 1 << 30, sink = "/dev/null" },
  { name = "40 MB, spilled", bytes = 40 << 20, sink = directory .. "/floor" },
}

-- Both are started by moonsand and wait the same way: what differs is who reads the gigabyte.
local function timed(command, expected)
  local begun = seconds()
  local result = assert(shell:run { command = command })
  local took = seconds() - begun
  assert(result.exit_code == 0)
  assert(result.stdout.bytes == expected, "bytes are missing")
  if result.stdout.spill_path then
    os.remove(result.stdout.spill_path)
  end
  return took
end

print("| | floor, s | moonsand, s | times its floor |")
print("|---|---|---|---|")
local before = resident_kb()
for _, case in ipairs(cases) do
  local source = ("head -c %d /dev/zero"):format(case.bytes)
  local floors, ours, ratios = {}, {}, {}
  for round = 1, rounds do
    floors[round] = timed(("%s | cat > %s"):format(source, case.sink), 0)
    ours[round] = timed(source, case.bytes)
    ratios[round] = ours[round] / floors[round]
  end
  print(("| %s | %.3f | %.3f | %.2f |"):format(case.name, median(floors), median(ours), median(ratios)))
end
print(("\nThe host grew by %d kB while it captured; it keeps at most %d kB of a stream."):format(
  resident_kb() - before, 64000 // 1024))
os.execute("rm -rf '" .. directory .. "'")
