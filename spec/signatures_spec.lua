-- The words by which runners are recognised, and what may replace them; section 5 of the design.
local signatures = require "moonsand.signatures"

describe("denial signatures", function()
  it("are those of the design", function()
    assert.same({ "read-only file system" }, signatures.denials().bwrap)
    assert.same({ "permission denied" }, signatures.denials().landlock)
    assert.same({ "operation not permitted" }, signatures.denials().seatbelt)
    assert.same({ "read-only file system", "permission denied" }, signatures.denials().custom)
  end)

  it("are a host's own where it gives some, and stay where it does not", function()
    local merged = assert(signatures.denials { landlock = { "zugriff verweigert" } })
    assert.same({ "zugriff verweigert" }, merged.landlock)
    assert.same({ "read-only file system" }, merged.bwrap)
    assert.same({ "permission denied" }, signatures.denials().landlock)
  end)

  it("that prove nothing are refused, by name", function()
    local bad = {
      { { landlock = {} }, "denial_signatures.landlock: the list is empty" },
      { { landlock = { "ok", " \t" } }, "denial_signatures.landlock: entry 2 is blank" },
      { { bwrap = { "two\nlines" } }, "denial_signatures.bwrap: entry 1 has more than one line" },
      { { bwrap = { 7 } }, "denial_signatures.bwrap: entry 1 is a number, not a string" },
      { { bwrap = "text" }, "denial_signatures.bwrap: a list of strings is expected, not a string" },
      { { bubblewrap = { "x" } }, "denial_signatures: unknown runner 'bubblewrap'" },
      { "text", "denial_signatures: a table by runner is expected, not a string" },
    }
    for _, case in ipairs(bad) do
      local merged, err = signatures.denials(case[1])
      assert.is_nil(merged)
      assert.equal("INVALID_REQUEST", err.code)
      assert.equal(case[2], err.message:sub(1, #case[2]))
    end
  end)
end)

describe("runner-failure rules", function()
  it("are those of the design", function()
    assert.same({ { fatal = { "bwrap: " } } }, signatures.runner_failure.bwrap)
    assert.same({ { fatal = { "sandbox-exec: " } } }, signatures.runner_failure.seatbelt)
    local rule = signatures.runner_failure.landlock[1]
    assert.same({ 125 }, rule.exit_codes)
    assert.same({ "moonsand-launch: " }, rule.fatal)
  end)

  it("of a custom runner are its operator's signatures", function()
    assert.same({ { fatal = { "my-runner: " } } }, signatures.custom_rules { "my-runner: " })
    for _, list in ipairs { {}, { "" }, { "a\nb" }, { false } } do
      local rules, err = signatures.custom_rules(list)
      assert.is_nil(rules)
      assert.equal("INVALID_REQUEST", err.code)
    end
  end)
end)

describe("a signature table that a host replaces", function()
  it("is checked when it is set, and nil brings the first one back", function()
    for words, list in pairs { ["entry 1 is blank"] = { " " }, ["the list is empty"] = {},
      ["more than one line"] = { "a\nb" } } do
      assert.error_matches(function()
        signatures.denial.bwrap = list
      end, words)
    end
    assert.error_matches(function()
      signatures.denial.bwarp = { "x" }
    end, "did you mean 'bwrap'")
    assert.error_matches(function()
      signatures.runner_failure.bwrap = { { fatal = {} } }
    end, "rule 1: fatal: the list is empty")
    assert.error_matches(function()
      signatures.runner_failure.bwrap = { { fatal = { "x" }, exit_codes = { "1" } } }
    end, "rule 1: exit_codes")
    signatures.denial.bwrap = { "nur lesbar" }
    assert.same({ "nur lesbar" }, signatures.denials().bwrap)
    signatures.denial.bwrap = nil
    assert.same({ "read-only file system" }, signatures.denials().bwrap)
  end)
end)
