-- Nothing gets out: attacks from inside the sandbox, and canaries outside (README.md beside this file).
local matrix = require "escape.matrix"

local function runs(command)
  return (os.execute(command .. " >/dev/null 2>&1"))
end

-- Why the suite, or a runner's part of it, cannot be had here.
local function obstacle(runner)
  if not runs("uname -s | grep -qx Linux") then
    return "the attacks are about Linux"
  elseif not runs("test -x build/adversary && test -x build/witness") then
    return "build/adversary is not built"
  elseif not runs("test $(id -u) = 0") then
    return "an arena that keeps the machine from harm takes root to make"
  elseif not runs("unshare --mount --ipc --uts --pid --fork --kill-child true") then
    return "unshare(1) makes no namespaces here"
  elseif not runs("command -v setpriv") then
    return "setpriv(1) is not installed"
  elseif runner == "bwrap" and not runs("command -v bwrap") then
    return "bwrap is not installed"
  elseif runner == "landlock" and not runs("build/moonsand/moonsand-launch --probe") then
    return "this kernel has no Landlock"
  end
end

-- What the modes do not cover, and say so (docs): these may leave their mark, and the table shows whether they do. The
-- reason is the promise's own boundary, or the effect of every read.
local known = {
  landlock = {
    ["read-time"] = "reading a file may move its time of access, where the file system is mounted so",
    ["device-terminal"] = "a terminal's node exists while the command holds it open",
  },
  bwrap = {},
}

local families, by_family = {}, {}
if not obstacle() then
  for _, attack in ipairs(matrix.attacks()) do
    if not by_family[attack.family] then
      families[#families + 1] = attack.family
      by_family[attack.family] = {}
    end
    table.insert(by_family[attack.family], attack)
  end
end

describe("The escape suite", function()
  local why = obstacle()
  if why then
    it("runs", function() pending(why) end)
    return
  end

  it("has at least 80 distinct attacks", function()
    local seen, count = {}, 0
    for _, attack in ipairs(matrix.attacks()) do
      assert.is_nil(seen[attack.name])
      seen[attack.name] = true
      count = count + 1
    end
    assert.is_true(count >= 80)
  end)

  for _, user in ipairs(matrix.users) do
    describe("unconfined, as " .. user .. ",", function()
      for _, family in ipairs(families) do
        for _, attack in ipairs(by_family[family]) do
          if matrix.concerns(attack, user) then
            it(("%s would leave its mark: %s"):format(attack.name, attack.what), function()
              local cell = matrix.cell("none", "workspace-write", user)
              local result = cell.attacks[attack.name]
              assert(result, "it was not run: " .. table.concat(cell.complaints, "\n"))
              if result.verdict == "absent" then
                pending("not applicable here: " .. result.remark:gsub("^absent:? ?", ""))
              elseif result.verdict == "unproven" then
                pending("cannot be shown unconfined: " .. result.remark)
              end
              assert(result.verdict == "proven", ("%s: %s"):format(result.verdict, result.remark))
            end)
          end
        end
      end
    end)
  end

  for _, mode in ipairs(matrix.modes) do
    for _, user in ipairs(matrix.users) do
      for _, runner in ipairs(matrix.runners) do
        describe(("%s, %s, %s:"):format(runner, mode, user), function()
          local absent = obstacle(runner)

          for _, family in ipairs(families) do
            it("no mark by " .. family, function()
              if absent then
                pending(absent)
              end
              local cell = matrix.cell(runner, mode, user)
              local failures = {}
              for _, attack in ipairs(by_family[family]) do
                local result = cell.attacks[attack.name]
                local excused = attack.beyond or known[runner][attack.name]
                if matrix.concerns(attack, user) and not (result and (result.verdict == "held" or excused)) then
                  result = result or { verdict = "was not run", remark = table.concat(cell.complaints, "\n") }
                  failures[#failures + 1] = ("%s (%s) %s: %s"):format(
                    attack.name, attack.what, result.verdict, result.remark)
                end
              end
              assert(#failures == 0, table.concat(failures, "\n"))
            end)
          end

          it("no change that no attack owns up to, and what was enforced is said", function()
            if absent then
              pending(absent)
            end
            local cell = matrix.cell(runner, mode, user)
            assert.equal("", table.concat(cell.strays, "\n"))
            assert.is_true(cell.enforcement == "full" or cell.enforcement == "partial")
          end)
        end)
      end
    end
  end
end)
