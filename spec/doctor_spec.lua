-- What the doctor finds, on this machine and on machines that were made up; section 10 of the design.
local doctor = require "moonsand.doctor"
local words = require "moonsand.cli.doctor"
local trial = require "moonsand.trial"
local world = require "world"

local function count_trials()
  local found = 0
  for name in require("posix.dirent").files("/var/tmp") do
    found = found + (name:find("^moonsand%-trial") and 1 or 0)
  end
  return found
end

describe("the doctor", function()
  it("says of each runner what its own trial established, and leaves nothing behind", function()
    local before = count_trials()
    local findings = doctor.examine()
    assert.equal(before, count_trials())
    local seen = {}
    for _, runner in ipairs(findings.runners) do
      seen[runner.name] = runner
      for position, tried in ipairs(runner.modes) do
        assert.equal(doctor.modes[position], tried.mode)
        local works = world.runner_works(runner.name)
        assert.equal(works, tried.enforcement ~= "unavailable", runner.name .. " " .. tried.mode)
        if tried.enforcement == "partial" then
          assert.is_string(tried.gaps[1])
        elseif tried.enforcement == "full" then
          assert.same({}, tried.gaps)
        else
          assert.is_string(tried.why)
        end
      end
    end
    assert.truthy(seen.bwrap and seen.landlock and seen.seatbelt)
    assert.is_string(findings.why)
    if findings.chosen then
      assert.is_true(world.runner_works(findings.chosen))
    end
  end)

  it("sees that moonsand's own files can be replaced where it works", function()
    local unistd = require "posix.unistd"
    local here, root = unistd.getcwd(), world.directory()
    world.write(root .. "/moonsand", "")
    unistd.chdir(root)
    local findings = doctor.examine { root .. "/moonsand" }
    unistd.chdir(here)
    local own
    for _, file in ipairs(findings.own_files) do
      own = file.path == root .. "/moonsand" and file or own
    end
    assert.equal(root, own.replaceable_in)
    -- The text names one such place; in a tree below /tmp that is another one.
    assert.truthy(words.text(findings):find("they lie in /", 1, true))
    world.remove(root)
  end)
end)

describe("a trial", function()
  it("objects to effects that a mode promises to stop, and to missing ones that it promises", function()
    local works = { inside = true }
    assert.is_nil(trial.objection("workspace-write", nil, works))
    assert.is_nil(trial.objection("read-only", nil, {}))
    assert.truthy(trial.objection("read-only", "kept mode 777", {}):find("kept mode 777", 1, true))
    assert.truthy(trial.objection("read-only", nil, { knob = true }):find("/proc/sys", 1, true))
    assert.truthy(trial.objection("read-only", nil, works):find("could be created", 1, true))
    assert.truthy(trial.objection("workspace-write", nil, {}):find("could not be written", 1, true))
    assert.truthy(trial.objection("read-only", nil, { nosink = true }):find("/dev/null", 1, true))
  end)

  -- A provider whose runner reports that it confined, and does not.
  local function impostor()
    local core = require "moonsand.core"
    return {
      probe = function(_, _, _, argv)
        local env = { "PATH=/usr/bin:/bin" }
        local process <close> = assert(core.spawn { argv = argv, env = env, max_output_bytes = 999 })
        local status, stdout = world.ended(process)
        return { confined = true, gaps = {}, status = status, stdout = stdout }
      end,
    }
  end

  it("does not take a report's word for what the files show otherwise", function()
    local ground <close> = trial.new()
    for _, mode in ipairs(doctor.modes) do
      local found = ground:try(impostor(), "bwrap", mode, "/bin/bash")
      assert.equal("unavailable", found.enforcement)
      assert.truthy(found.why:find("a file outside the workspace could be changed", 1, true), found.why)
    end
  end)
end)

local function findings(changes)
  local made = {
    machine = {
      platform = "linux", kernel = "6.8.0", euid = 1000, container = {}, security = {}, seccomp = false,
      settings = { ["user.max_user_namespaces"] = "0" },
    },
    workspace = "/srv/w", own_files = {}, spill = { path = "/home/u/.cache/moonsand", usable = true },
    runners = {
      {
        name = "bwrap", path = "/usr/bin/bwrap", version = "bubblewrap 0.8.0",
        modes = {
          { mode = "read-only", enforcement = "unavailable", why = "bwrap: no namespace", advice = "do this" },
          { mode = "workspace-write", enforcement = "unavailable", why = "bwrap: no namespace", advice = "do this" },
        },
      },
      {
        name = "landlock", path = "/opt/moonsand-launch",
        modes = {
          { mode = "read-only", enforcement = "partial", gaps = { "truncate" } },
          { mode = "workspace-write", enforcement = "full", gaps = {} },
        },
      },
      { name = "seatbelt", modes = {}, why = "it does not exist on this platform (linux)" },
    },
    chosen = "landlock", why = "bwrap does not work here",
  }
  for name, value in pairs(changes or {}) do
    made[name] = value
  end
  return made
end

describe("the findings in words", function()
  it("have every runner, mode, reason and remedy, each once", function()
    local text = words.text(findings())
    for _, expected in ipairs {
      "user.max_user_namespaces = 0", "/usr/bin/bwrap, bubblewrap 0.8.0", "read-only        unavailable",
      "why: bwrap: no namespace", "to do: do this", "read-only        partial",
      "not covered: files that can be read can be emptied (truncate); covered with Linux 6.2",
      "workspace-write  full", "it does not exist on this platform", "landlock: bwrap does not work here",
    } do
      assert.truthy(text:find(expected, 1, true), expected .. "\n" .. text)
    end
    local _, times = text:gsub("to do: do this", "")
    assert.equal(1, times)
  end)

  it("say that nothing is run where nothing works", function()
    local none = findings { why = "bwrap, landlock does not work here" }
    none.chosen = nil
    assert.truthy(words.text(none):find("chosen       none", 1, true))
    assert.truthy(words.text(none):find("no command is run", 1, true))
  end)

  it("warn of files that everybody may write, or that cannot be executed", function()
    local text = words.text(findings {
      own_files = { { path = "/opt/moonsand", writable_by_others = true, noexec = true } },
      spill = { why = "no directory" },
    })
    assert.truthy(text:find("everybody may write it", 1, true))
    assert.truthy(text:find("noexec", 1, true))
    assert.truthy(text:find("long outputs are not kept", 1, true))
    assert.truthy(text:find("why: no directory", 1, true))
  end)

  it("are data in JSON, with every mode of every runner", function()
    local null = {}
    local data = words.json(findings(), null)
    assert.equal("landlock", data.chosen)
    assert.equal("unavailable", data.runners[1].modes["read-only"].enforcement)
    assert.equal("truncate", data.runners[2].modes["read-only"].not_covered[1].name)
    assert.equal("full", data.runners[2].modes["workspace-write"].enforcement)
    assert.is_nil(data.runners[2].modes["workspace-write"].not_covered)
    assert.equal("unavailable", data.runners[3].modes["workspace-write"].enforcement)
    local none = findings()
    none.chosen = nil
    assert.equal(null, words.json(none, null).chosen)
  end)
end)
