--- A table whose entries a host may replace, each checked at the moment it is set.
--
-- What is wrong with a replacement is said to who writes it, in the line that sets it, and not to a model weeks later
-- when a denial is rendered for the first time. Relies on nothing.
-- @module moonsand.overridable

--- Guard a table.
-- @string name what it is called in messages
-- @tparam table values the entries as they are; kept, and the place where replacements go
-- @tparam function fault `fault(key, value)` returns what is wrong with it, or nil. A key that is not there is refused
--   before it is asked.
-- @treturn table reads, iterates and assigns as the table does; `nil` restores what was there at first
return function(name, values, fault)
  local originals, keys = {}, {}
  for key, value in pairs(values) do
    originals[key] = value
    keys[#keys + 1] = tostring(key)
  end
  table.sort(keys)
  return setmetatable({}, {
    __index = values,
    __newindex = function(_, key, value)
      if originals[key] == nil then
        local hint = require("moonsand.nearest").hint(tostring(key), keys)
        error(("%s: unknown name '%s'%s"):format(name, tostring(key), hint), 2)
      elseif value == nil then
        values[key] = originals[key]
        return
      end
      local what = fault(key, value)
      if what then
        error(("%s.%s: %s"):format(name, tostring(key), what), 2)
      end
      values[key] = value
    end,
    __pairs = function()
      return next, values, nil
    end,
  })
end
