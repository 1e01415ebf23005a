--- `moonsand doctor`: the findings of `moonsand.doctor`, in words. Only `main` looks at anything but its arguments.
-- @module moonsand.cli.doctor

local advice = require "moonsand.advice"
local examination = require "moonsand.doctor"
local machine = require "moonsand.machine"
local output = require "moonsand.cli.output"

local doctor = {
  name = "doctor",
  usage = "doctor [options]",
  about = "Tries every sandbox runner under every mode, and says which one is used, why, what it does not cover, and\n"
    .. "what to do about those that do not work. Exit status: 0 when one works, 125 when none does.",
  options = { "json", "help" },
  operand = "none",
}

local Page = {}
Page.__index = Page

function Page:row(label, text)
  self[#self + 1] = ("%-12s %s"):format(label, text)
end

-- Something to do, under the line it is about.
function Page:note(label, text)
  local indent = (" "):rep(13)
  self[#self + 1] = indent .. label .. ": " .. text:gsub("%s+$", ""):gsub("\n", "\n" .. indent)
end

local function machine_rows(page, here)
  page:row("kernel", ("%s (%s)"):format(here.kernel, here.platform))
  page:row("user", here.euid == 0 and "root" or ("uid %d"):format(here.euid))
  for _, hint in ipairs(here.container) do
    page:row("container", hint)
  end
  local security = here.security
  if security.list then
    page:row("security", security.list)
  end
  if security.apparmor then
    page:row("apparmor", security.profile and "on; this process is under " .. security.profile or "on")
  end
  if security.selinux then
    page:row("selinux", security.selinux)
  end
  if here.seccomp then
    page:row("seccomp", "a filter is on this process")
  end
  for _, name in ipairs(machine.settings) do
    if here.settings[name] then
      page:row("setting", ("%s = %s"):format(name, here.settings[name]))
    end
  end
end

local function mode_rows(page, tried)
  page:row("", ("%-16s %s"):format(tried.mode, tried.enforcement))
  if tried.why then
    page:note("why", tried.why)
  end
  for _, name in ipairs(tried.gaps or {}) do
    local gap = advice.gaps[name] or { effect = name }
    page:note("not covered", gap.effect .. (gap.remedy and "; covered with " .. gap.remedy or ""))
  end
  if tried.advice then
    page:note("to do", tried.advice)
  end
end

local function runner_rows(page, runner)
  local about = runner.path or "unavailable"
  for _, more in ipairs { runner.version or false, runner.probe or false } do
    about = more and about .. ", " .. more or about
  end
  page:row(runner.name, about)
  if runner.why then
    page:note("why", runner.why)
  end
  if runner.advice then
    page:note("to do", runner.advice)
  end
  local before
  for _, tried in ipairs(runner.modes) do
    local again = before and before.advice == tried.advice and before.why == tried.why
    mode_rows(page, again and { mode = tried.mode, enforcement = tried.enforcement, gaps = tried.gaps } or tried)
    before = tried
  end
end

local function file_rows(page, findings)
  local replaceable_in
  for _, file in ipairs(findings.own_files) do
    page:row("own files", file.path)
    if file.writable_by_others then
      page:note("danger", "everybody may write it, and moonsand runs it unconfined: `chmod o-w` it")
    end
    if file.noexec then
      page:note("danger", "its file system is mounted noexec; what lies there cannot be started")
    end
    replaceable_in = replaceable_in or file.replaceable_in
  end
  if replaceable_in then
    page:note("danger", ("they lie in %s, which commands may write in workspace-write; bwrap keeps them as they are,\n"
      .. "landlock cannot: install moonsand elsewhere, or work elsewhere"):format(replaceable_in))
  end
  local spill = findings.spill
  page:row("long outputs", spill.usable and "are kept below " .. spill.path or "are not kept")
  if spill.why then
    page:note("why", (spill.path and spill.path .. ": " or "") .. spill.why)
  end
end

--- The findings as text. Pure.
-- @tparam table findings of `examine`
-- @treturn string
function doctor.text(findings)
  local page = setmetatable({}, Page)
  machine_rows(page, findings.machine)
  page[#page + 1] = ""
  for _, runner in ipairs(findings.runners) do
    runner_rows(page, runner)
  end
  page[#page + 1] = ""
  file_rows(page, findings)
  page[#page + 1] = ""
  page:row("chosen", ("%s: %s"):format(findings.chosen or "none", findings.why))
  if not findings.chosen then
    page:note("so", "no command is run, unless in the mode danger-full-access")
  end
  return table.concat(page, "\n") .. "\n"
end

--- The findings as plain data for JSON. Pure, but for the null it needs.
-- @tparam table findings of `examine`
-- @param null what stands for nothing
-- @treturn table
function doctor.json(findings, null)
  local gaps = {}
  for name, gap in pairs(advice.gaps) do
    gaps[name] = gap.effect
  end
  local runners = {}
  for position, runner in ipairs(findings.runners) do
    local modes = {}
    for _, tried in ipairs(runner.modes) do
      local not_covered = {}
      for index, name in ipairs(tried.gaps or {}) do
        not_covered[index] = { name = name, effect = gaps[name] or name }
      end
      modes[tried.mode] = {
        enforcement = tried.enforcement,
        why = tried.why,
        advice = tried.advice,
        not_covered = not_covered[1] and not_covered or nil,
      }
    end
    for _, mode in ipairs(examination.modes) do
      modes[mode] = modes[mode] or { enforcement = "unavailable", why = runner.why, advice = runner.advice }
    end
    runners[position] = {
      name = runner.name, path = runner.path, version = runner.version, probe = runner.probe, modes = modes,
    }
  end
  return {
    machine = findings.machine,
    runners = runners,
    own_files = findings.own_files,
    workspace = findings.workspace,
    spill = findings.spill,
    chosen = findings.chosen or null,
    why = findings.why,
  }
end

-- A copy whose strings are valid UTF-8: paths and what programs say may be anything.
local function valid(value)
  if type(value) == "string" then
    return output.valid(value)
  elseif type(value) ~= "table" then
    return value
  end
  local copy = {}
  for key, each in pairs(value) do
    copy[key] = valid(each)
  end
  return copy
end

--- Examine and print.
-- @tparam table parsed of `moonsand.cli.options`
-- @treturn integer exit status
function doctor.main(parsed)
  local findings = examination.examine(require("moonsand.cli.setup").own_command())
  local text = parsed.json and output.encode(valid(doctor.json(findings, require("cjson").null)))
    or output.valid(doctor.text(findings))
  return output.print(text) or (findings.chosen and output.status.ok or output.status.sandbox)
end

return doctor
