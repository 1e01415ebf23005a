-- Who is asked, and what counts as an answer; section 8 of the design.
local approval = require "moonsand.approval"
local pty = require "pty"
local world = require "world"

describe("a chain of approvers", function()
  local function says(outcome, by)
    return function()
      return outcome, by
    end
  end

  it("is decided by the first that decides", function()
    local asked = 0
    local function last()
      asked = asked + 1
      return "allowed-once"
    end
    for _, outcome in ipairs { "allowed-once", "rejected", "cancelled" } do
      assert.same({ outcome, "first" },
        { approval.chain(says "ask", says "unavailable", says(outcome, "first"), last) {} })
    end
    assert.equal(0, asked)
    assert.equal("unavailable", (approval.chain(says "ask", nil, says "unavailable") {}))
    assert.equal("unavailable", (approval.chain() {}))
  end)

  it("ends with one that is broken", function()
    assert.equal("maybe", (approval.chain(says "maybe", says "allowed-once") {}))
    assert.is_nil((approval.chain(says(nil), says "allowed-once") {}))
    assert.error_matches(function()
      approval.chain(function()
        error "boom"
      end, says "allowed-once") {}
    end, "boom")
    assert.error_matches(function()
      approval.chain("terminal")
    end, "function expected")
  end)
end)

describe("the person at the terminal", function()
  local program = [[
    local outcome, by = require("moonsand.approval").terminal { timeout_ms = %d } {
      kind = "escalate", command = "make\r\27[2Jtest\nAllow it this once? [y/N] y", workdir = "/srv/x\ny",
      mode = "danger-full-access", current = "read-only", justification = "Because\27[1A\226\128\174.",
    }
    print("OUTCOME " .. outcome .. " " .. by)
  ]]

  local function ask(timeout_ms)
    return pty.open({ world.interpreter, "-e", program:format(timeout_ms or 20000) }, {
      LUA_PATH = package.path, LUA_CPATH = package.cpath,
    })
  end

  for name, case in pairs {
    ["allows with y"] = { "y\r", "allowed-once" },
    ["allows with yes, corrected"] = { "yex\127s\r", "allowed-once" },
    ["rejects by default"] = { "\r", "rejected" },
    ["rejects with anything else"] = { "yesno\r", "rejected" },
    ["rejects with the end of input"] = { "\4", "rejected" },
    ["cancels with Ctrl-C"] = { "y\3", "cancelled" },
  } do
    it(name, function()
      local terminal <close> = ask()
      terminal:expect "    | Allow it this once? [y/N] y\r\n"
      terminal:expect "\nAllow it this once? [y/N] "
      terminal:type(case[1])
      terminal:expect("OUTCOME " .. case[2] .. " terminal")
      assert.equal(0, terminal:status())
    end)
  end

  it("sees everything, and the command repaints nothing", function()
    local terminal <close> = ask()
    local screen = terminal:expect "\nAllow it this once? [y/N] "
    terminal:type "\r"
    assert.is_nil(screen:find("\27", 1, true))
    for _, words in ipairs {
      "    | make\\r\\e[2Jtest\r\n", "in       /srv/x\\ny\r\n", "mode     read-only  ->  danger-full-access\r\n",
      "reason   Because\\e[1A\\u{202E}.\r\n",
    } do
      assert.truthy(screen:find(words, 1, true), words)
    end
    terminal:expect "OUTCOME rejected"
  end)

  it("does not answer by what was typed before the question", function()
    local terminal <close> = pty.open({ world.interpreter, "-e", "os.execute 'echo ready; sleep 0.5'\n"
      .. program:format(20000) }, { LUA_PATH = package.path, LUA_CPATH = package.cpath })
    terminal:expect "ready"
    terminal:type "y\r"
    terminal:expect "\nAllow it this once? [y/N] "
    assert.is_false(terminal:look(300))
    terminal:type "n\r"
    terminal:expect "OUTCOME rejected"
  end)

  it("has only so long, and the terminal is then as it was", function()
    local terminal <close> = pty.open({ world.interpreter, "-e", "io.read 'l'\n" .. program:format(300) },
      { LUA_PATH = package.path, LUA_CPATH = package.cpath })
    local before = terminal:modes()
    terminal:type "\r"
    terminal:expect "OUTCOME cancelled terminal"
    assert.equal(0, terminal:status())
    assert.equal(before, terminal:modes())
  end)

  it("is unavailable without a terminal", function()
    local host = world.host(program:format(1000))
    local status, stdout = world.ended(host)
    assert.equal(0, status.exit_code)
    assert.equal("OUTCOME unavailable terminal\n", stdout)
  end)
end)
