-- The rules of section 5 of the design, case by case.
local classify = require "moonsand.classify"

local bwrap = { { fatal = { "bwrap: " } } }
local landlock = { {
  exit_codes = { 125 },
  informational = { "moonsand-launch: note: an older ABI" },
  fatal = { "moonsand-launch: " },
} }

describe("a runner failure, where there is no report,", function()
  local cases = {
    { "is a fatal line", bwrap, 1, "bwrap: No permissions to create a namespace\n", true },
    { "is a fatal line without a newline", bwrap, 1, "bwrap: setting up uid map: Permission denied", true },
    { "is a fatal line among others", bwrap, 1, "hello\nbwrap: oops\nbye\n", true },
    { "is a fatal line in any case", bwrap, 1, "BWRAP: oops\n", true },
    { "is a fatal line that ends in CR LF", bwrap, 1, "bwrap: oops\r\n", true },
    { "may end by a signal", bwrap, nil, "bwrap: oops\n", true },
    { "is not an exit status alone", bwrap, 1, "", false },
    { "is not another program's line", bwrap, 1, "make: *** [all] Error 1\n", false },
    { "is not a run that exited 0", bwrap, 0, "bwrap: oops\n", false },
    { "needs one of the exit codes that the rule names", landlock, 1, "moonsand-launch: landlock: no\n", false },
    { "with the exit code and a fatal line is one", landlock, 125, "moonsand-launch: landlock: no\n", true },
    { "is not the exit code without a line", landlock, 125, "", false },
    { "is not an informational line", landlock, 125, "moonsand-launch: note: an older ABI\n", false },
    { "is not an informational line in another case", landlock, 125, "MOONSAND-launch: NOTE: an older ABI\n", false },
    { "is a line that merely contains an informational one", landlock, 125,
      "moonsand-launch: note: an older ABI!\n", true },
    { "is a fatal line after an informational one", landlock, 125,
      "moonsand-launch: note: an older ABI\nmoonsand-launch: prctl: no\n", true },
    { "with an exit code, does not end by a signal", landlock, nil, "moonsand-launch: landlock: no\n", false },
    { "is not found by a blank signature", { { fatal = { "", "  ", "\t" } } }, 1, "anything\n", false },
    { "is not found without rules", {}, 1, "bwrap: oops\n", false },
    { "is found by the second rule as well", { landlock[1], bwrap[1] }, 1, "bwrap: oops\n", true },
  }
  for _, case in ipairs(cases) do
    local name, rules, exit_code, stderr, expected = table.unpack(case, 1, 5)
    it(name, function()
      local line = classify.runner_failure({ exit_code = exit_code, stderr = stderr }, rules)
      assert.equal(expected, line ~= nil)
    end)
  end

  it("is told by the line, as it was printed", function()
    local outcome = { exit_code = 1, stderr = "one\nBwrap: Can't do It\r\ntwo\n" }
    assert.equal("Bwrap: Can't do It", classify.runner_failure(outcome, bwrap))
  end)
end)

describe("a denial", function()
  local signatures = { "read-only file system" }
  local cases = {
    { "is a failed run with the signature", { exit_code = 1, stderr = "touch: x: Read-only file system\n" }, true },
    { "may have any exit code but 0", { exit_code = 127, stderr = "READ-ONLY FILE SYSTEM" }, true },
    { "is not a run that exited 0", { exit_code = 0, stderr = "Read-only file system\n" }, false },
    { "is not a run that ended by a signal", { signal = "SIGTERM", stderr = "Read-only file system\n" }, false },
    { "is not a run whose end is unknown", { stderr = "Read-only file system\n" }, false },
    { "is not another runner's wording", { exit_code = 1, stderr = "Permission denied\n" }, false },
    { "is not a silent failure", { exit_code = 1, stderr = "" }, false },
  }
  for _, case in ipairs(cases) do
    it(case[1], function()
      assert.equal(case[3], classify.denied(case[2], signatures))
    end)
  end

  it("is found in capital letters in the signature as well", function()
    local outcome = { exit_code = 1, stderr = "operation not permitted" }
    assert.is_true(classify.denied(outcome, { "Operation Not Permitted" }))
  end)

  it("is not found by a blank signature", function()
    assert.is_false(classify.denied({ exit_code = 1, stderr = "anything" }, { "", " " }))
  end)

  it("takes signatures literally", function()
    assert.is_false(classify.denied({ exit_code = 1, stderr = "abc" }, { "a.c" }))
    assert.is_true(classify.denied({ exit_code = 1, stderr = "a.c [x]" }, { "c [" }))
  end)
end)

describe("a process that could not be started", function()
  local runner = "/usr/bin/bwrap"
  for _, code in ipairs { "ENOENT", "EACCES", "ENOEXEC", "ENOTDIR", "ELOOP", "ELIBBAD" } do
    it("is the runner's failure when its exec says " .. code, function()
      local failure = { stage = "exec", code = code, path = runner }
      assert.equal("runner", classify.start_failure(failure, runner, true))
    end)
  end

  local ordinary = {
    { "the workdir is unusable", { stage = "exec", code = "ENOENT", path = runner }, false },
    { "the stage is another one", { stage = "chdir", code = "ENOENT", path = "/nope" }, true },
    { "the machine is out of memory", { stage = "exec", code = "ENOMEM", path = runner }, true },
    { "the arguments are too long", { stage = "exec", code = "E2BIG", path = runner }, true },
    { "no process can be made", { stage = "fork", code = "EAGAIN" }, true },
    { "no descriptor is left", { stage = "pipe", code = "EMFILE" }, true },
    { "the path is another one", { stage = "exec", code = "ENOENT", path = "/bin/bash" }, true },
  }
  for _, case in ipairs(ordinary) do
    it("is an ordinary start error when " .. case[1], function()
      assert.equal("start", classify.start_failure(case[2], runner, case[3]))
    end)
  end
end)

describe("a classification that a host replaces", function()
  it("is a function, or is refused when it is set", function()
    assert.error_matches(function()
      classify.denied = true
    end, "a function is expected")
    assert.error_matches(function()
      classify.denyed = print
    end, "did you mean 'denied'")
    classify.denied = function()
      return true
    end
    assert.is_true(classify.denied({ exit_code = 0, stderr = "" }, {}))
    classify.denied = nil
    assert.is_false(classify.denied({ exit_code = 0, stderr = "" }, {}))
  end)
end)
