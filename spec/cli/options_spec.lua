-- How command lines are read, and what is said of those that cannot be; section 10 of the design.
local options = require "moonsand.cli.options"

local run = {
  name = "run", usage = "run [options] COMMAND", about = "About run.",
  options = { "mode", "workspace", "timeout-ms", "json", "help" }, operand = "command",
}
local exec = { name = "exec", options = { "mode", "json", "help" }, operand = "argv" }
local doctor = { name = "doctor", options = { "json", "help" }, operand = "none" }

local function read(command, ...)
  return options.read(command, { command.name, ... }, 2)
end

local function wrong(command, words, ...)
  local parsed, message = read(command, ...)
  assert.is_nil(parsed)
  assert.truthy(message:find(words, 1, true), message)
end

describe("a command line", function()
  it("is options, each with its value beside or behind a sign, and then the operand", function()
    assert.same({ operand = "make test" }, read(run, "make test"))
    assert.same({ mode = "read-only", json = true, operand = "x" }, read(run, "--mode", "read-only", "--json", "x"))
    assert.same({ mode = "a=b", ["timeout-ms"] = 5, operand = "x" }, read(run, "--mode=a=b", "--timeout-ms=5", "x"))
    assert.same({ operand = "-x" }, read(run, "--", "-x"))
    assert.same({ operand = "-" }, read(run, "-"))
    assert.same({ operand = "" }, read(run, "")) -- for the request to refuse
    assert.same({ operand = { "ls", "-l", "--json" } }, read(exec, "ls", "-l", "--json"))
    assert.same({ mode = "m", operand = { "--", "x" } }, read(exec, "--mode", "m", "--", "--", "x"))
  end)

  it("asks for help without an operand", function()
    assert.is_true(read(run, "--help").help)
    assert.is_true(read(run, "--json", "-h", "rest").help)
  end)

  it("with an unknown option is told the nearest one", function()
    wrong(run, "unknown option '--jsno'; did you mean '--json'?", "--jsno", "x")
    wrong(run, "unknown option '--timeout'; did you mean '--timeout-ms'?", "--timeout=5", "x")
    wrong(run, "unknown option '-j'", "-j", "x")
    wrong(doctor, "unknown option '--mode'", "--mode", "x")
  end)

  it("is told about values that are missing, too many, or twice", function()
    wrong(run, "--mode needs a value: --mode M", "--mode")
    wrong(run, "--mode needs a value: --mode M", "--mode=", "x")
    wrong(run, "--json takes no value", "--json=yes", "x")
    wrong(run, "--mode is given twice", "--mode", "a", "--mode", "b", "x")
  end)

  it("has counts that are positive whole numbers", function()
    for _, text in ipairs { "0", "-5", "nan", "inf", "1e3", "1.5", "0x10", "five", " 5", "99999999999999999999" } do
      wrong(run, "--timeout-ms needs a positive whole number, not '" .. text .. "'", "--timeout-ms", text, "x")
    end
    assert.equal(600001, read(run, "--timeout-ms", "600001", "x")["timeout-ms"])
  end)

  it("of a command that is in several words is told to quote it", function()
    wrong(run, "a COMMAND is missing")
    wrong(run, "quote it: 'echo hi there'", "echo", "hi", "there")
    wrong(run, "options go in front of the COMMAND: put --json there", "true", "--json")
    wrong(exec, "a program to run is missing")
    wrong(exec, "a program to run is missing", "--")
    wrong(doctor, "there is nothing to do with 'now' here", "now")
  end)
end)

describe("the help", function()
  it("has a line for each option, from the table that reads them", function()
    local text = options.help(run)
    assert.truthy(text:find("usage: moonsand run [options] COMMAND", 1, true))
    for _, name in ipairs(run.options) do
      assert.truthy(text:find("\n  --" .. name, 1, true), name)
    end
    for line in text:gmatch("[^\n]+") do
      assert.is_true(#line <= 100, line)
    end
  end)
end)
