--- The known name that a mistyped one most likely meant.
--
-- Every place that refuses a name it does not know (a mode, a runner, an option, later an operator's variable) says the
-- nearest one it does know. Pure; relies on nothing.
-- @module moonsand.nearest

local nearest = {}

local DISTANT <const> = 3 -- edits; beyond that a suggestion would be noise

-- Edits between two words: insertions, deletions, replacements, and neighbours swapped (the usual slip of fingers).
local function distance(a, b)
  local before, previous = nil, {}
  for j = 0, #b do
    previous[j] = j
  end
  for i = 1, #a do
    local current = { [0] = i }
    for j = 1, #b do
      local same = a:byte(i) == b:byte(j)
      current[j] = math.min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (same and 0 or 1))
      if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
        current[j] = math.min(current[j], before[j - 2] + 1)
      end
    end
    before, previous = previous, current
  end
  return previous[#b]
end

--- Find the nearest name.
-- @string word what was said
-- @tparam {string,...} names what is known
-- @treturn ?string the one that is closest, or that `word` begins; nil when none is close
function nearest.name(word, names)
  word = word:lower():gsub("_", "-")
  local best, fewest = nil, math.huge
  for _, name in ipairs(names) do
    local edits = distance(word, name)
    if #word >= 2 and name:find(word, 1, true) then
      edits = math.min(edits, 1) -- `write` for `workspace-write`
    end
    if edits < fewest then
      best, fewest = name, edits
    end
  end
  return fewest <= math.min(DISTANT, #word - 1) and best or nil
end

--- The same as the end of a sentence, to append to an error.
-- @string word
-- @tparam {string,...} names
-- @treturn string `; did you mean '...'?`, or `; it is one of a, b, c`
function nearest.hint(word, names)
  local name = nearest.name(word, names)
  if name then
    return ("; did you mean '%s'?"):format(name)
  end
  return "; it is one of " .. table.concat(names, ", ")
end

return nearest
