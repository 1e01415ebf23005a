-- Escapes that take more than one command: what one command does to the next one's confinement.
local core = require "moonsand.core"
local world = require "world"

local moonsand = require "moonsand"

local function runs(command)
  return (os.execute(command .. " >/dev/null 2>&1"))
end

local function obstacle(runner)
  if core.platform ~= "linux" then
    return runner .. ": the attacks are about Linux"
  elseif not runs("test -x build/adversary") then
    return "build/adversary is not built"
  elseif runner == "bwrap" and not runs("bwrap --ro-bind / / true") then
    return "bwrap does not work here"
  elseif runner == "landlock" and not runs("build/moonsand/moonsand-launch --probe") then
    return "this kernel has no Landlock"
  end
end

for _, runner in ipairs { "bwrap", "landlock" } do
  describe("Under " .. runner, function()
    local directory

    before_each(function()
      directory = world.directory()
    end)

    after_each(function()
      world.remove(directory)
    end)

    -- A command whose workspace lies around another session's can move the other's root away and put a link there.
    it("a workspace root that is exchanged for a link all the time lets nobody write where the link leads", function()
      local why = obstacle(runner)
      if why then
        pending(why)
      end
      local seconds <const> = 5
      assert(runs("cd " .. directory .. " && mkdir around around/root outside && echo canary >outside/file"
        .. " && ln -s ../outside around/link"))
      local shell <close> = assert(moonsand.shell {
        mode = "workspace-write", workspace_root = directory .. "/around/root", runner = runner,
      })
      assert(shell:run { command = "true", workdir = "/" }) -- the runner works, whatever fails later
      local swap = assert(io.popen(("build/adversary swap %s/around/root %s/around/link %d"):format(
        directory, directory, seconds)))
      local command = ("for d in %s/outside %s/around/root; do echo marked >$d/file; : >$d/new; done"):format(
        directory, directory)
      local ran, last = 0, os.time() + seconds
      while os.time() < last do
        ran = ran + (shell:run { command = command, workdir = "/" } and 1 or 0)
      end
      swap:close()
      assert.equal("canary\n", world.read(directory .. "/outside/file"))
      assert.is_false(world.exists(directory .. "/outside/new"))
    end)

    it("moonsand's own files in the workspace are not the command's to replace, or it is said that they are", function()
      local why = obstacle(runner)
      if why then
        pending(why)
      end
      local tree = directory .. "/tree"
      assert(runs(("mkdir -p %s/build && cp -r lua %s/ && cp -r build/moonsand %s/build/"):format(tree, tree, tree)))
      local own = { "/lua/moonsand/init.lua", "/build/moonsand/core.so", "/build/moonsand/moonsand-launch" }
      local command = ("cp /bin/true %s/new; mv %s/new %s%s; echo '-- mine' >>%s%s; rm -f %s%s; mv %s %s/moved"):format(
        directory, directory, tree, own[3], tree, own[1], tree, own[2], tree, directory)
      local script = ([[
        local shell = require "moonsand".shell { mode = "workspace-write", workspace_root = %q, runner = %q }
        local result = shell and shell:run { command = %q, workdir = "/" }
        io.write(result and result.sandbox.gaps and table.concat(result.sandbox.gaps, " ") or "")]]):format(
          directory, runner, command)
      local paths = ("LUA_PATH='%s/lua/?.lua;%s/lua/?/init.lua;;' LUA_CPATH='%s/build/?.so;;'"):format(tree, tree, tree)
      local admitted = io.popen(("%s lua5.4 - <<'END'\n%s\nEND"):format(paths, script)):read("a")
      for _, name in ipairs(own) do
        local intact = runs(("cmp .%s %s%s"):format(name, tree, name))
        assert(intact or admitted:find("own-files", 1, true), name .. " was replaced, and nobody said that it could")
      end
    end)
  end)
end
