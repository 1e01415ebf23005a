-- A busted output handler: one TAP line a test, as each ends. Unlike busted's own, a skipped test has its name and why.
--
--   busted -o script/busted_tap.lua

local busted = require "busted"
local handler = require "busted.outputHandlers.base" ()

local count = 0

local function line(text)
    io.stdout:write(text, "\n")
    io.stdout:flush() -- what a crash would otherwise take with it
end

local function commented(text)
    return "# " .. tostring(text):gsub("\n", "\n# ")
end

local function failed(entry)
    local message = entry.message
    if type(message) ~= "string" then
        message = require "pl.pretty".write(message or "no message")
    end
    line(("not ok %d - %s"):format(count, entry.name))
    line(commented(message))
    local trace = entry.trace and entry.trace.traceback
    if trace then
        line(commented(trace:gsub("^\n", "")))
    end
end

function handler.testEnd(element, _, status)
    count = count + 1
    local name = handler.getFullName(element)
    if status == "success" then
        line(("ok %d - %s"):format(count, name))
    elseif status == "pending" then
        local entry = handler.pendings[#handler.pendings]
        local why = entry and type(entry.message) == "string" and entry.message:gsub("^[^%s:]+:%d+: ", "")
        line(("ok %d - # SKIP %s%s"):format(count, name, why and " (" .. why .. ")" or ""))
    else
        local list = status == "failure" and handler.failures or handler.errors
        failed(list[#list])
    end
    return nil, true
end

-- Errors outside a test: a file that does not load, a failing setup.
function handler.error(element)
    if element.descriptor ~= "it" then
        count = count + 1
        failed(handler.errors[#handler.errors])
    end
    return nil, true
end

function handler.suiteEnd()
    line("1.." .. count)
    return nil, true
end

busted.subscribe({ "test", "end" }, handler.testEnd, { predicate = handler.cancelOnPending })
busted.subscribe({ "error" }, handler.error)
busted.subscribe({ "suite", "end" }, handler.suiteEnd)

-- busted calls this with its options, then subscribes the base.
return setmetatable({ subscribe = handler.subscribe }, { __call = function() return handler end })
