-- The words the model sees, exactly; section 8 of the design.
local markers = require "moonsand.markers"

-- A result with an unremarkable run's facts, changed by `changes`.
local function result(changes)
  local made = {
    exit_code = 0,
    timed_out = false,
    aborted = false,
    timeout_ms = 500,
    leftovers = 0,
    stdout = { text = "", truncated = false, bytes = 0 },
    stderr = { text = "", truncated = false, bytes = 0 },
    sandbox = { mode = "read-only", denied = false, enforcement = "full", runner = "bwrap" },
  }
  for name, value in pairs(changes) do
    made[name] = value
  end
  if changes.signal then
    made.exit_code = nil
  end
  return made
end

local function text(content)
  return { text = content, truncated = false, bytes = #content }
end

describe("a rendered result", function()
  local cases = {
    { "is the output and nothing else, when the run was unremarkable", { stdout = text "hi\n" }, "hi\n" },
    { "leaves an unfinished last line as it is", { stdout = text "hi" }, "hi" },
    { "says when there is no output", {}, "(no output)" },
    { "has stderr under a line of its own", { stderr = text "oops\n" }, "[stderr]\noops\n" },
    { "has stdout first", { stdout = text "hi\n", stderr = text "oops\n" }, "hi\n[stderr]\noops\n" },
    { "ends an unfinished line before a marker", { stdout = text "hi", stderr = text "oops" }, "hi\n[stderr]\noops" },
    { "ends with the exit code", { stdout = text "hi\n", exit_code = 3 }, "hi\n[exit code: 3]" },
    { "ends with the exit code on a line of its own", { stdout = text "hi", exit_code = 3 }, "hi\n[exit code: 3]" },
    { "has the exit code after (no output)", { exit_code = 1 }, "(no output)\n[exit code: 1]" },
    { "ends with the signal", { signal = "SIGSEGV" }, "(no output)\n[killed by signal: SIGSEGV]" },
    { "says that it timed out before it says how it ended",
      { stdout = text "hi\n", timed_out = true, signal = "SIGTERM" },
      "hi\n[timed out after 500ms]\n[killed by signal: SIGTERM]" },
    { "says both when a command timed out and exited 0", { timed_out = true, exit_code = 0 },
      "(no output)\n[timed out after 500ms]\n[exit code: 0]" },
    { "names the spill file after the stream it is about",
      { stdout = { text = "tail\n", truncated = true, bytes = 99, spill_path = "/c/out" }, stderr = text "oops\n" },
      "tail\n[output truncated; full output: /c/out]\n[stderr]\noops\n" },
    { "says when there is no spill file", { stderr = { text = "tail", truncated = true, bytes = 9999 } },
      "[stderr]\ntail\n[output truncated; full output: (unavailable)]" },
    { "says that an access was denied",
      { stderr = text "no\n", exit_code = 1, sandbox = { mode = "workspace-write", denied = true } },
      "[stderr]\nno\n[sandbox: file access denied under workspace-write mode]\n[exit code: 1]" },
    { "replaces what is not UTF-8", { stdout = text "a\xffb\xe2\x82" }, "a\u{FFFD}b\u{FFFD}" },
    { "marks exit 0 when the output ends like a marker", { stdout = text "[exit code: 7]\n" },
      "[exit code: 7]\n[exit code: 0]" },
    { "has no sandbox line for an unconfined run", { sandbox = false, exit_code = 1 }, "(no output)\n[exit code: 1]" },
  }
  for _, case in ipairs(cases) do
    it(case[1], function()
      assert.equal(case[3], markers.render(result(case[2])))
    end)
  end

  it("offers escalation after the denial, only where there is any", function()
    local denied = result { exit_code = 1, stderr = text "no\n", sandbox = { mode = "read-only", denied = true } }
    assert.equal("[stderr]\nno\n[sandbox: file access denied under read-only mode]\n"
      .. "[sandbox: escalation available — retry this exact command once with sandbox_permissions (the narrowest wider "
      .. "mode that suffices) + justification; the approval prompt asks the user]\n[exit code: 1]",
      markers.render(denied, { escalation = true }))
    assert.equal("hi", markers.render(result { stdout = text "hi" }, { escalation = true }))
  end)

  it("uses the host's own lines, strings or functions", function()
    local denied = result { exit_code = 1, sandbox = { mode = "read-only", denied = true } }
    local rendered = markers.render(denied, {
      markers = {
        no_output = "(silence)",
        denied = function(facts)
          return "[no: " .. facts.mode .. "]"
        end,
      },
    })
    assert.equal("(silence)\n[no: read-only]\n[exit code: 1]", rendered)
  end)

  it("leaves out a line that the host replaced by nothing", function()
    assert.equal("[exit code: 1]", markers.render(result { exit_code = 1 }, { markers = { no_output = "" } }))
  end)
end)

describe("every line the model sees", function()
  local offer = "[sandbox: escalation available — retry this exact command once with sandbox_permissions (the "
    .. "narrowest wider mode that suffices) + justification; the approval prompt asks the user]"

  -- What a stream may be, and its lines.
  local streams = {
    { text "", {} },
    { text "a\nb\n", { "a", "b" } },
    { { text = "b\n", truncated = true, bytes = 9, spill_path = "/c/x" }, { "b",
      "[output truncated; full output: /c/x]" } },
    { { text = "b\n", truncated = true, bytes = 9 }, { "b", "[output truncated; full output: (unavailable)]" } },
  }
  local endings = {
    { { exit_code = 0 }, nil }, { { exit_code = 7 }, "[exit code: 7]" },
    { { signal = "SIGKILL" }, "[killed by signal: SIGKILL]" },
  }

  it("is byte-exact, in its place, in every combination", function()
    local checked = 0
    for _, stdout in ipairs(streams) do
      for _, stderr in ipairs(streams) do
        for _, ending in ipairs(endings) do
          for _, timed_out in ipairs { false, true } do
            for _, mode in ipairs { false, "read-only", "workspace-write" } do
              for _, escalation in ipairs { false, true } do
                local expected = {}
                if stdout[1].text == "" and stderr[1].text == "" then
                  expected[1] = "(no output)"
                end
                table.move(stdout[2], 1, #stdout[2], #expected + 1, expected)
                if stderr[2][1] then
                  expected[#expected + 1] = "[stderr]"
                  table.move(stderr[2], 1, #stderr[2], #expected + 1, expected)
                end
                if mode then
                  expected[#expected + 1] = "[sandbox: file access denied under " .. mode .. " mode]"
                  expected[#expected + 1] = escalation and offer or nil
                end
                if timed_out then
                  expected[#expected + 1] = "[timed out after 500ms]"
                end
                expected[#expected + 1] = ending[2] or timed_out and "[exit code: 0]" or nil
                local made = result {
                  stdout = stdout[1], stderr = stderr[1], exit_code = ending[1].exit_code, signal = ending[1].signal,
                  timed_out = timed_out, sandbox = mode and { mode = mode, denied = true } or nil,
                }
                local rendered = markers.render(made, { escalation = escalation })
                assert.equal(table.concat(expected, "\n"), (rendered:gsub("\n$", "")))
                assert.same(ending[1], markers.parse_exit_status(rendered))
                checked = checked + 1
              end
            end
          end
        end
      end
    end
    assert.equal(4 * 4 * 3 * 2 * 3 * 2, checked)
  end)
end)

describe("a line that a host replaces", function()
  it("is checked when it is set, and nil brings the first one back", function()
    for words, line in pairs { ["must not be empty"] = " ", ["single line"] = "a\rb", ["not a boolean"] = true } do
      assert.error_matches(function()
        markers.lines.stderr = line
      end, words)
    end
    assert.error_matches(function()
      markers.lines.stder = "x"
    end, "did you mean 'stderr'")
    markers.lines.stderr = "<stderr>"
    assert.equal("<stderr>\nx", markers.render(result { stderr = text "x" }))
    markers.lines.stderr = nil
    assert.equal("[stderr]\nx", markers.render(result { stderr = text "x" }))
  end)

  it("does not cost the model the fact when its function fails", function()
    for _, made in ipairs { "a\nb", 7, true } do
      assert.equal("(no output)\n[exit code: 1]", markers.render(result { exit_code = 1 }, { markers = {
        exit_code = function()
          return made
        end,
      } }))
    end
  end)
end)

describe("a rendered read of a background command", function()
  local running = { status = "running" }

  it("is what is new", function()
    assert.equal("more\n", markers.render_read({ delta = "more\n", lossy = false }, running))
  end)

  it("says when there is nothing new", function()
    assert.equal("(no output)", markers.render_read({ delta = "", lossy = false }, running))
  end)

  it("says what was dropped, and where all of it is", function()
    local read = { delta = "tail", lossy = true, stdout_spill_path = "/c/out", stderr_spill_path = "/c/err" }
    assert.equal("tail\n[some output was dropped from memory; full output: /c/out, /c/err]",
      markers.render_read(read, running))
    assert.equal("tail\n[some output was dropped from memory; full output: /c/err]",
      markers.render_read({ delta = "tail", lossy = true, stderr_spill_path = "/c/err" }, running))
    assert.equal("tail\n[some output was dropped from memory; full output: (unavailable)]",
      markers.render_read({ delta = "tail", lossy = true }, running))
  end)

  it("ends with how it ended", function()
    assert.equal("bye\n[exit code: 2]",
      markers.render_read({ delta = "bye\n", lossy = false }, { status = "completed", exit_code = 2 }))
  end)

  it("says that the runner failed instead of an exit code", function()
    local handle = { status = "completed", exit_code = 1, sandbox = { mode = "read-only", runner_failed = true } }
    assert.equal("bwrap: no\n[sandbox: the sandbox runner itself failed under read-only mode — the command did not "
      .. "run; this is a sandbox problem, not a command failure]",
      markers.render_read({ delta = "bwrap: no\n", lossy = false }, handle))
  end)
end)

describe("parse_exit_status", function()
  it("inverts the last line of whatever was rendered", function()
    local endings = {
      { exit_code = 0 }, { exit_code = 1 }, { exit_code = 255 }, { signal = "SIGKILL" }, { signal = "SIG34" },
    }
    local outputs = {
      "", "hi", "hi\n", "[exit code: 7]", "[exit code: 7]\n", "[killed by signal: SIGHUP]\n", "\n", "a\n\n", "\xff\n",
    }
    for _, ending in ipairs(endings) do
      for _, output in ipairs(outputs) do
        for _, timed_out in ipairs { true, false } do
          for _, stream in ipairs { "stdout", "stderr" } do
            local made = result { exit_code = ending.exit_code, signal = ending.signal, timed_out = timed_out }
            made[stream] = text(output)
            assert.same(ending, markers.parse_exit_status(markers.render(made)))
          end
        end
      end
    end
  end)

  it("reads a text without a last line as exit 0", function()
    assert.same({ exit_code = 0 }, markers.parse_exit_status("whatever\n"))
    assert.same({ exit_code = 0 }, markers.parse_exit_status(""))
  end)
end)

describe("repair_utf8", function()
  local cases = {
    { "valid text, as it is", "h€llo\0\u{10FFFF}", "h€llo\0\u{10FFFF}" },
    { "a stray continuation byte", "a\x80b", "a\u{FFFD}b" },
    { "a character that was cut off, as one", "a\xe2\x82", "a\u{FFFD}" },
    { "a character that was cut off by another", "\xf0\x9f\x98x", "\u{FFFD}x" },
    { "an overlong form, byte by byte", "\xc0\xaf", "\u{FFFD}\u{FFFD}" },
    { "a surrogate, byte by byte", "\xed\xa0\x80", "\u{FFFD}\u{FFFD}\u{FFFD}" },
    { "a number beyond Unicode, byte by byte", "\xf4\x90\x80\x80", ("\u{FFFD}"):rep(4) },
    { "the very last byte", "abc\xff", "abc\u{FFFD}" },
  }
  for _, case in ipairs(cases) do
    it("takes " .. case[1], function()
      assert.equal(case[3], markers.repair_utf8(case[2]))
    end)
  end

  it("makes anything valid, and takes time in proportion", function()
    local bytes = {}
    for i = 1, 200000 do
      bytes[i] = string.char((i * 7919 + (i >> 3)) % 256)
    end
    local started = os.clock()
    assert.truthy(utf8.len(markers.repair_utf8(table.concat(bytes))))
    assert.is_true(os.clock() - started < 2)
  end)
end)

describe("a text that was cut", function()
  it("begins with the fragment of a character", function()
    assert.equal(0, markers.leading_fragment("abc"))
    assert.equal(2, markers.leading_fragment(("€x"):sub(2)))
    assert.equal(3, markers.leading_fragment(("\u{1F600}"):sub(2)))
    assert.equal(3, markers.leading_fragment("\x80\x80\x80\x80"))
    assert.equal(0, markers.leading_fragment(""))
  end)

  it("ends with the fragment of a character", function()
    assert.equal(0, markers.trailing_fragment("abc€"))
    assert.equal(1, markers.trailing_fragment("abc\xe2"))
    assert.equal(2, markers.trailing_fragment("abc\xe2\x82"))
    assert.equal(3, markers.trailing_fragment("\xf0\x9f\x98"))
    assert.equal(0, markers.trailing_fragment("\xff"))
    assert.equal(0, markers.trailing_fragment("\x80"))
    assert.equal(0, markers.trailing_fragment(""))
  end)
end)
