--- The end of every runner's command line: moonsand-launch, and what it is told. Pure.
--
-- See csrc/launcher/options.c for the options, and section 4 of the design for what they promise.
-- @module moonsand.runners.launcher

local launcher = {}

local REPORT_FD <const> = "3" -- MS_REPORT_FD in csrc/core/report.h

--- Append words to a list.
-- @tparam {string,...} list
-- @param ... strings
function launcher.add(list, ...)
  local size = #list
  for position = 1, select("#", ...) do
    list[size + position] = (select(position, ...))
  end
end

--- Append the launcher's command line, up to and with the command's own.
-- @tparam {string,...} list what comes before: the runner's own words, or nothing
-- @tparam table facts `launcher`: its path; `launch`: what the caller wants it to be told
--   (`chdir`, `stdin_null`, `terminal`, `background`, `env`, `unset`; see `moonsand.sandbox`)
-- @tparam {string,...} confinement what to enforce or to expect
-- @tparam {string,...} argv the command
-- @treturn {string,...} the list
function launcher.append(list, facts, confinement, argv)
  local launch = facts.launch
  launcher.add(list, facts.launcher, "--report-fd", REPORT_FD, table.unpack(confinement))
  if launch.chdir then
    launcher.add(list, "--chdir", launch.chdir)
  end
  if launch.stdin_null then
    list[#list + 1] = "--stdin-null"
  end
  if launch.terminal then
    list[#list + 1] = "--terminal"
  end
  if launch.background then
    list[#list + 1] = "--background"
  end
  for _, name in ipairs(launch.unset or {}) do
    launcher.add(list, "--unset", name)
  end
  for _, pair in ipairs(launch.env or {}) do
    launcher.add(list, "--env", pair)
  end
  list[#list + 1] = "--"
  return table.move(argv, 1, #argv, #list + 1, list)
end

return launcher
