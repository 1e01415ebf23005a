--- Seatbelt, macOS's own: sandbox-exec with a profile, and the kernel says EPERM.
--
-- Pure. The profile allows everything but changes to files, and then allows these where the mode does; of rules that
-- match, the last counts. Paths in it are canonical, because Seatbelt compares those (/tmp is /private/tmp).
-- See section 5 of the design and sandbox-exec(1).
-- @module moonsand.runners.seatbelt

local launcher = require "moonsand.runners.launcher"
local policy_of = require "moonsand.policy"

local seatbelt = { name = "seatbelt", program = "sandbox-exec" }

local at_or_below = policy_of.at_or_below

-- A string of the profile language. It knows no escape but these two.
local function quoted(path)
  return '"' .. path:gsub('[\\"]', "\\%0") .. '"'
end

local function writable_places(policy, facts)
  if policy.mode ~= "workspace-write" then
    return {}
  end
  local places, seen = {}, {}
  local function place(path)
    if path and not seen[path] then
      seen[path] = true
      places[#places + 1] = path
    end
  end
  place(policy.workspace_root)
  place(facts.tmp)
  place(facts.user_tmp)
  return places
end

-- moonsand's own files stay unwritable in a writable place, and so does the name of each directory above them.
local function protect(rules, places, own_files)
  for _, own in ipairs(own_files) do
    for _, place in ipairs(places) do
      if at_or_below(own, place) then
        rules[#rules + 1] = ("(deny file-write* (subpath %s))"):format(quoted(own))
        local directory = own:match("^(.+)/[^/]*$") or "/"
        while directory ~= place and at_or_below(directory, place) do
          rules[#rules + 1] = ("(deny file-write-unlink (literal %s))"):format(quoted(directory))
          directory = directory:match("^(.+)/[^/]*$") or "/"
        end
      end
    end
  end
end

--- The profile's text for a policy.
-- @tparam table policy a resolved one that confines
-- @tparam table facts canonical paths: `tmp`, /tmp's; `user_tmp`, the user's own temporary directory, or nil;
--   `own_files`, to keep unwritable
-- @treturn string
function seatbelt.profile(policy, facts)
  local rules = {
    "(version 1)",
    "(allow default)",
    "(deny file-write*)",
    -- The sink's data only: uid 0 owns the node, whose mode bits are file-write too.
    '(allow file-write-data (literal "/dev/null"))',
  }
  local places = writable_places(policy, facts)
  if places[1] then
    local filters = {}
    for position, place in ipairs(places) do
      filters[position] = ("(subpath %s)"):format(quoted(place))
    end
    rules[#rules + 1] = ("(allow file-write* %s)"):format(table.concat(filters, " "))
    protect(rules, places, facts.own_files)
  end
  return table.concat(rules, "\n")
end

--- The argv that runs a command confined.
-- @tparam {string,...} argv the command, exact; its first word is a path
-- @tparam table policy
-- @tparam table facts those of `profile`; `program`: the path of sandbox-exec; `launcher` and `launch` (see
--   `moonsand.runners.launcher`)
-- @treturn {string,...}
function seatbelt.wrap(argv, policy, facts)
  local list = { facts.program, "-p", seatbelt.profile(policy, facts) }
  return launcher.append(list, facts, { "--expect", "read-only" }, argv)
end

return seatbelt
