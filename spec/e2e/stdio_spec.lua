-- `moonsand exec` among pipes and files: the bytes arrive, and no file of the host does.
local world = require "world"

-- Runs a line of shell with $EXEC in it; exit status and what it printed.
local function shell(script, exec, directory)
  local path = directory .. "/line.sh"
  world.write(path, "cd '" .. directory .. "'\nEXEC='" .. exec .. "'\n" .. script .. "\n")
  local pipe <close> = assert(io.popen("timeout 30 bash " .. path .. " 2>&1; echo \"status $?\""))
  local text = pipe:read("a")
  return tonumber(text:match("status (%d+)\n$")), (text:gsub("status %d+\n$", ""))
end

for _, runner in ipairs { "bwrap", "landlock", "none" } do
  describe("moonsand exec among pipes and files (" .. runner .. ")", function()
    local directory
    local root = require("posix.unistd").getcwd()
    local exec = ("%s/bin/moonsand exec %s --"):format(root,
      runner == "none" and "--mode danger-full-access" or "--runner " .. runner)

    before_each(function()
      if runner ~= "none" and not world.runner_works(runner) then
        pending(runner .. " does not work here")
      end
      directory = world.directory()
    end)

    after_each(function()
      if directory then
        world.remove(directory)
      end
      directory = nil
    end)

    it("passes pipes through, both ways", function()
      local status, text = shell("echo in | $EXEC cat | tr a-z A-Z", exec, directory)
      assert.equal("IN\n", text)
      assert.equal(0, status)
      _, text = shell("$EXEC sh -c 'echo out; echo err >&2' 2>&1 >/dev/null | cat", exec, directory)
      assert.equal("err\n", text)
    end)

    it("ends a program whose reader has ended", function()
      local status, text = shell("set -o pipefail; $EXEC yes | head -n 1", exec, directory)
      assert.equal("y\n", text)
      assert.equal(128 + 13, status)
    end)

    it("reads from a file and writes to one, with its own exit status", function()
      local status, text = shell(
        "seq 100000 > in; $EXEC sh -c 'cat; exit 7' < in > out; s=$?; cmp in out && exit $s", exec, directory)
      assert.equal("", text)
      assert.equal(7, status)
    end)

    it("appends where the user appends, and keeps the order of stdout and stderr in one file", function()
      local _, text = shell(
        "echo 0 > log; $EXEC sh -c 'echo 1; echo 2 >&2; echo 3; echo 4 >&2' >> log 2>&1; cat log", exec, directory)
      assert.equal("0\n1\n2\n3\n4\n", text)
    end)

    it("hands the program no descriptor that leads to a file of the host", function()
      -- Descriptors 0 and 1 alone: another may be the host's /dev/null, which full access would change.
      shell("echo x > in; chmod 640 in; $EXEC sh -c 'chmod 777 /proc/self/fd/0 /proc/self/fd/1; "
        .. "readlink /proc/self/fd/0 /proc/self/fd/1' < in > out 2>err; stat -c %a in out err > modes", exec, directory)
      assert.matches("^pipe:%[%d+%]\npipe:%[%d+%]\n$", world.read(directory .. "/out"))
      assert.is_nil(world.read(directory .. "/modes"):find("777", 1, true))
    end)

    it("gives back what the program did not read of a file", function()
      local _, text = shell(
        "seq 5 > in; { $EXEC sh -c 'read a; read b; echo $a $b'; cat; } < in", exec, directory)
      assert.equal("1 2\n3\n4\n5\n", text)
    end)

    it("knows an empty stdin, a closed stdin, and closed output", function()
      local status, text = shell("$EXEC cat < /dev/null; $EXEC cat <&-; $EXEC echo dropped >&-", exec, directory)
      assert.equal("", text)
      assert.equal(0, status)
    end)

    it("reads from a named pipe and a device", function()
      local _, text = shell(
        "mkfifo f; echo through >f & $EXEC cat <f; $EXEC head -c 3 </dev/zero | od -An -tx1", exec, directory)
      assert.equal("through\n 00 00 00\n", text)
    end)

    it("says so when what the program printed could not be written", function()
      local status, text = shell("$EXEC echo lost > /dev/full", exec, directory)
      assert.matches("No space left on device", text)
      assert.are_not.equal(0, status)
    end)

    it("does not wait for what the program leaves behind", function()
      local word = world.unique_sleep()
      local _, text = shell("$EXEC sh -c 'setsid sleep " .. word .. " & echo done' > out; cat out", exec, directory)
      assert.equal("done\n", text)
      assert.is_true(world.eventually(2000, function() return world.processes_with(word) == 0 end))
    end)

    it("carries much, both ways, intact", function()
      local status, text = shell(
        "head -c 30000000 /dev/urandom > in; $EXEC cat < in > out; cmp in out", exec, directory)
      assert.equal("", text)
      assert.equal(0, status)
    end)

    it("passes SIGINT and SIGUSR1 on, and ends with grace on SIGTERM", function()
      for name, caught in pairs { INT = "INT", USR1 = "USR1", TERM = "TERM", HUP = "TERM" } do
        local status, text = shell(([[
          # without job control a shell starts what is in the background with SIGINT ignored
          set -m; rm -f out
          $EXEC bash -c 'trap "echo caught; exit 4" %s; echo go; while :; do sleep 0.02; done' > out 2>err &
          until grep -qs go out; do sleep 0.02; done
          kill -%s $!
          wait $!; s=$?
          cat out; exit $s]]):format(caught, name), exec, directory)
        assert.equal("go\ncaught\n", text)
        assert.equal(4, status)
      end
    end)

    it("leaves a signal ignored that was ignored", function()
      local status, text = shell([[
        trap '' HUP
        $EXEC bash -c 'echo go; sleep 0.5; echo end' > out &
        until grep -qs go out; do sleep 0.02; done
        kill -HUP $!
        wait $!; s=$?
        cat out; exit $s]], exec, directory)
      assert.equal("go\nend\n", text)
      assert.equal(0, status)
    end)

    it("stops and continues with its job, without any terminal", function()
      local word = world.unique_sleep()
      local status, text = shell(([[
        set -m
        $EXEC sleep %s </dev/null >out 2>&1 &
        pid() { pgrep -f '^[^ ]*sleep %s$'; }
        until pid >/dev/null; do sleep 0.02; done
        kill -TSTP $!; sleep 0.2; ps -o state= -p $(pid); ps -o state= -p $!
        kill -CONT $!; sleep 0.2; ps -o state= -p $(pid)
        kill -TERM $!; wait $!]]):format(word, word), exec, directory)
      assert.equal("T\nT\nS\n", (text:gsub("%[%d+%][^\n]*\n", "")))
      assert.equal(128 + 15, status)
    end)
  end)
end
