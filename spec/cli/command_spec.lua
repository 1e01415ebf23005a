-- The moonsand command as such: what it loads, from where it runs, what it says about itself; section 10 of the design.
local command = require "cli.command"
local core = require "moonsand.core"
local world = require "world"

describe("moonsand", function()
  local directory

  before_each(function()
    directory = world.directory()
  end)

  after_each(function()
    world.remove(directory)
  end)

  it("says what its commands are, and its version", function()
    for _, words in ipairs { { "--help" }, { "-h" }, { "help" } } do
      local ended = command.run(words)
      assert.equal(0, ended.status)
      for _, name in ipairs { "run", "exec", "doctor", "explain" } do
        assert.truthy(ended.stdout:find("\n  " .. name .. " ", 1, true))
        local help = command.run { name, "--help" }
        assert.equal(0, help.status)
        assert.truthy(help.stdout:find("^usage: moonsand " .. name))
      end
    end
    assert.equal("moonsand " .. core.version .. "\n", command.run({ "--version" }).stdout)
  end)

  it("returns 2 for a command that is missing or unknown, and names the nearest", function()
    local ended = command.run {}
    assert.equal(2, ended.status)
    assert.truthy(ended.stderr:find("it is one of run, exec, doctor, explain", 1, true))
    ended = command.run { "rum", "true" }
    assert.equal(2, ended.status)
    assert.truthy(ended.stderr:find("unknown command 'rum'; did you mean 'run'?", 1, true))
    assert.equal("INVALID_REQUEST", command.json({ "rum", "--json", "true" }).error.code)
  end)

  it("runs through a link, from anywhere", function()
    local link = directory .. "/link"
    os.execute(("ln -s '%s' '%s' && ln -s link '%s'"):format(command.path, link, directory .. "/second"))
    local ended = command.run({ "run", "--mode", "danger-full-access", "pwd" },
      { path = directory .. "/second", cwd = directory })
    assert.equal(directory .. "\n", ended.stdout, ended.stderr)
  end)

  it("loads nothing from where commands may write", function()
    for _, name in ipairs {
      "posix/stdlib", "posix/signal", "moonsand/cli", "moonsand/core", "moonsand/errors", "moonsand/nearest", "cjson",
    } do
      os.execute(("mkdir -p '%s/%s'"):format(directory, name:match("^(.*)/") or "."))
      world.write(directory .. "/" .. name .. ".lua", "os.execute('touch planted') return {}")
    end
    for _, env in ipairs { {}, { LUA_PATH = "?.lua;./?.lua;;", LUA_CPATH = "?.so;./?.so;;" } } do
      local words = { "run", "--json", "--mode=danger-full-access", "kill $$" }
      local ended = command.run(words, { cwd = directory, env = env })
      assert.equal(143, ended.status, ended.stderr)
      command.run({ "rum" }, { cwd = directory, env = env })
      command.run({ "doctor", "--json" }, { cwd = directory, env = env })
    end
    assert.is_false(world.exists(directory .. "/planted"))
  end)

  it("runs from an installation", function()
    if not os.execute("cmake --version >/dev/null 2>&1 && test -w build && test -f build/cmake_install.cmake") then
      pending("there is no build by cmake here that this user may install from")
      return
    end
    assert(os.execute(("cmake --install build --prefix '%s/prefix' >/dev/null 2>&1"):format(directory)))
    local moved = directory .. "/moved"
    assert(os.rename(directory .. "/prefix", moved))
    local installed = { path = moved .. "/bin/moonsand", cwd = directory, env = { HOME = directory } }
    assert.equal("moonsand " .. core.version .. "\n", command.run({ "--version" }, installed).stdout)
    local said = command.json({ "explain", "--json", "true" }, installed)
    local inside = false
    for _, word in ipairs(said.argv) do
      inside = inside or word:sub(1, #moved) == moved
    end
    assert.is_true(inside)
    if command.confines() then
      local result = command.json({ "run", "--json", "--mode", "workspace-write",
        "echo x > file; echo y > moved/bin/moonsand; rm -rf moved" }, installed)
      assert.is_true(world.exists(directory .. "/file"))
      if result.sandbox.runner == "bwrap" then -- which keeps moonsand as it is, also in a workspace
        assert.equal("moonsand " .. core.version .. "\n", command.run({ "--version" }, installed).stdout)
        assert.equal(0, command.run({ "run", "true" }, installed).status)
      end
    end
  end)

  it("works for a user without privileges", function()
    if require("posix.unistd").geteuid() ~= 0 or not os.execute("setpriv --version >/dev/null 2>&1") then
      pending("this user cannot become another one")
      return
    end
    local before = { "/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--" }
    local ended = command.run({ "doctor", "--json" }, { before = before, cwd = "/" })
    local data = require("cjson").decode(ended.stdout)
    assert.equal(65534, data.machine.euid)
    if data.chosen ~= require("cjson").null then
      assert.equal("65534\n", command.run({ "run", "id -u" }, { before = before, cwd = "/" }).stdout)
    end
  end)
end)
