-- Adds up what `ctest -V` (of cmocka programs that print TAP) and busted with busted_tap.lua said. Used by script/test.
--
--   lua5.4 script/tally.lua CTEST-LOG BUSTED-LOG
--
-- Prints the names of the skipped and the failed, and as the last line `N passed, N failed, N skipped`. A program that
-- announced more tests than it finished, or a runner that failed without a failed test, counts as a failure: a crash
-- must never look like success. Exit status 1 when something failed, or when nothing passed.

local passed, failures, skips = 0, {}, {}

local function lines_of(path)
    local file = path and io.open(path, "rb")
    if not file then
        return function() end
    end
    return file:lines()
end

-- One line of TAP. cmocka writes `not ok 3 # SKIP name`, busted `ok 3 - # SKIP name`.
local function take(line, where)
    local negation, rest = line:match("^(n?o?t? ?)ok %d+(.*)$")
    if not negation or (negation ~= "" and negation ~= "not ") then
        return false
    end
    local skipped = rest:match("# SKIP%s*(.*)$")
    local name = where .. (skipped or rest:gsub("^ %- ", ""))
    if skipped then
        skips[#skips + 1] = name
    elseif negation == "" then
        passed = passed + 1
    else
        failures[#failures + 1] = name
    end
    return true
end

-- ctest: lines of a program are prefixed with its number.
do
    local names, planned, seen, output, exit_status = {}, {}, {}, {}, "0"
    local before = 0
    for line in lines_of(arg[1]) do
        local number, name = line:match("^%s*Start%s+(%d+): (%S+)")
        if number then
            names[number], seen[number], output[number] = name, 0, {}
        end
        local owner, text = line:match("^(%d+): (.*)$")
        if owner and names[owner] then
            table.insert(output[owner], text)
            local plan = text:match("^1%.%.(%d+)$")
            if plan then
                planned[owner] = (planned[owner] or 0) + tonumber(plan)
            elseif take(text, names[owner] .. ": ") then
                seen[owner] = seen[owner] + 1
            end
        end
        -- The verdict on a whole program: `1/2 Test #1: test_spawn ....***Failed  0.01 sec`
        local judged, verdict = line:match("^%s*%d+/%d+ Test%s+#(%d+): %S+ %.*(.-)%s+[%d.]+ sec")
        if judged then
            local missing = (planned[judged] or 1) - seen[judged]
            local unexplained = #failures == before and not verdict:find("Passed") and not verdict:find("Skipped")
            if missing > 0 then
                failures[#failures + 1] = ("%s: ended early (%s), %d of its tests did not run"):format(
                    names[judged], verdict:gsub("^%s*%**%s*", ""), missing)
            elseif unexplained then
                failures[#failures + 1] = names[judged] .. ":" .. verdict
            end
            if #failures > before then
                print("# " .. names[judged] .. "\n" .. table.concat(output[judged], "\n"))
            end
            before = #failures
        end
        exit_status = line:match("^exit (%d+)$") or exit_status
    end
    if exit_status ~= "0" and #failures == 0 then
        failures[#failures + 1] = "ctest itself: exit " .. exit_status
    end
end

do
    local before, exit_status = #failures, "0"
    for line in lines_of(arg[2]) do
        take(line, "")
        exit_status = line:match("^exit (%d+)$") or exit_status
    end
    if exit_status ~= "0" and #failures == before then
        failures[#failures + 1] = "busted itself: exit " .. exit_status
    end
end

for _, name in ipairs(skips) do
    print("skipped: " .. name)
end
for _, name in ipairs(failures) do
    print("failed: " .. name)
end
print(("%d passed, %d failed, %d skipped"):format(passed, #failures, #skips))
os.exit(#failures == 0 and passed > 0)
