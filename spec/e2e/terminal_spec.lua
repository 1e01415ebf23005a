-- `moonsand exec` at a terminal: what a program and its user notice of it, namely nothing.
local pty = require "pty"
local world = require "world"
local core = require "moonsand.core"
local signal = require "posix.signal"

local PROMPT <const> = "ready> "

-- A user at an interactive bash.
local function shell()
  local user = pty.open({ "bash", "--norc", "--noprofile", "-i" }, {
    PS1 = PROMPT, HISTFILE = "/dev/null", TERM = "dumb", LC_ALL = "C", ENV = "", BASH_SILENCE_DEPRECATION_WARNING = "1",
  })
  user:expect(PROMPT)
  return user
end

-- Runs a command line to the end; what it printed.
local function line(user, text)
  user:type(text .. "\r")
  user:expect("\n") -- the echo of what was typed
  return (user:expect(PROMPT))
end

local function status(user)
  return line(user, "echo $?"):match("%d+")
end

-- The state of the process that is `sleep WORD`, as proc(5) has it: S sleeping, T stopped; nil when there is none.
local function sleeper_state(word)
  for pid in require("posix.dirent").files("/proc") do
    local file <close> = pid:find("^%d+$") and io.open("/proc/" .. pid .. "/cmdline", "rb") or nil
    local arguments = file and file:read("a")
    if arguments and arguments:match("^[^\0]*sleep\0([^\0]*)\0$") == word then
      local stat <close> = io.open("/proc/" .. pid .. "/stat", "rb")
      return stat and stat:read("a"):match("%) (%a)")
    end
  end
end

for _, runner in ipairs { "bwrap", "landlock", "none" } do
  describe("moonsand exec at a terminal (" .. runner .. ")", function()
    local user
    local exec = ("bin/moonsand exec %s -- "):format(
      runner == "none" and "--mode danger-full-access" or "--mode workspace-write --runner " .. runner)

    before_each(function()
      if runner ~= "none" and not world.runner_works(runner) then
        pending(runner .. " does not work here")
      end
      user = shell()
    end)

    after_each(function()
      if user then
        user:close()
      end
      user = nil
    end)

    it("gives the program a terminal of its own, with the user's window size and modes", function()
      assert.matches("24 80", line(user, exec .. "stty size"))
      assert.matches("yes yes yes", line(user, exec .. "sh -c 'for i in 0 1 2; do [ -t $i ] && printf \"yes \"; done'"))
      local own = line(user, exec .. "sh -c 'stat -Lc %t:%T /proc/self/fd/0'"):match("%x+:%x+")
      assert.is_string(own)
      assert.is_nil(line(user, "stat -Lc %t:%T /proc/self/fd/0"):find(own, 1, true))
      line(user, "stty -ixon erase ^H")
      assert.matches("erase = %^H", line(user, exec .. "stty -a"))
      assert.matches("%-ixon", line(user, exec .. "stty -a"))
      assert.matches("ctty", line(user, exec .. "sh -c 'exec 3<>/dev/tty && echo ctty >&3'"))
      assert.is_nil(line(user, exec .. "tty"):find("not a tty", 1, true))
    end)

    it("passes a new window size on while the program runs", function()
      user:type(exec .. "bash -c 'trap \"stty size; exit\" WINCH; echo go; while :; do sleep 0.05; done'\r")
      user:expect("\ngo\r\n")
      user:resize(33, 111)
      user:expect("33 111")
      user:expect(PROMPT)
      user:resize(24, 80)
    end)

    it("sends Ctrl-C and Ctrl-\\ to the program, not to itself", function()
      local word = world.unique_sleep()
      user:type(exec .. "sleep " .. word .. "\r")
      assert.is_true(world.eventually(5000, function() return sleeper_state(word) == "S" end))
      user:type("\3")
      user:expect(PROMPT)
      assert.equal("130", status(user))
      user:type(exec .. "bash -c 'trap \"echo interrupted; exit 9\" INT; echo go; while :; do sleep 0.05; done'\r")
      user:expect("\ngo\r\n")
      user:type("\3")
      user:expect("interrupted")
      user:expect(PROMPT)
      assert.equal("9", status(user))
      user:type(exec .. "sh -c 'ulimit -c 0; exec sleep " .. word .. "'\r")
      assert.is_true(world.eventually(5000, function() return sleeper_state(word) == "S" end))
      user:type("\28")
      user:expect(PROMPT)
      assert.equal("131", status(user))
    end)

    it("stops with the program on Ctrl-Z, gives the terminal back, and goes on with it on fg", function()
      local modes = user:modes()
      local word = world.unique_sleep()
      user:type(exec .. "sh -c 'sleep " .. word .. " ; echo never'\r")
      assert.is_true(world.eventually(5000, function() return sleeper_state(word) == "S" end))
      for _ = 1, 2 do
        user:type("\26")
        user:expect("Stopped")
        user:expect(PROMPT)
        assert.is_true(world.eventually(2000, function() return sleeper_state(word) == "T" end))
        assert.equal("done", line(user, "echo done"):match("%a+"))
        user:type("fg\r")
        assert.is_true(world.eventually(5000, function() return sleeper_state(word) == "S" end))
      end
      user:type("\3")
      user:expect(PROMPT)
      assert.equal("130", status(user))
      assert.equal(modes, user:modes())
    end)

    it("lets a stopped program go on in the background, until it reads", function()
      user:type(exec .. "sh -c 'echo one; read a; echo got $a; sleep 0.5; echo two'\r")
      user:expect("one\r\n")
      user:type("\26")
      user:expect("Stopped")
      user:expect(PROMPT)
      user:type("bg\r")
      user:expect(PROMPT)
      assert.is_true(world.eventually(5000, function()
        return line(user, "jobs"):find("Stopped") ~= nil
      end))
      user:type("fg\r")
      user:expect("\n")
      user:type("word\r")
      user:expect("got word")
      user:expect("two")
      user:expect(PROMPT)
      assert.equal("0", status(user))
    end)

    it("runs in the background without taking the keys", function()
      local before = user:modes()
      user:type(exec .. "sh -c 'sleep 0.1; echo begun; sleep 0.3; echo ended' &\r")
      user:expect(PROMPT)
      user:expect("begun")
      assert.equal(before, user:modes())
      assert.equal("mine", line(user, "echo mine"):match("mine"))
      user:expect("ended")
      assert.matches("7", line(user, "wait; echo 7"))
    end)

    it("runs an interactive shell with job control of its own", function()
      local modes = user:modes()
      local word = world.unique_sleep()
      user:type("PS1='inner> ' " .. exec .. "bash --norc --noprofile -i\r")
      user:expect("inner> ")
      assert.is_nil(user.screen:find("job control", 1, true))
      user:type("sleep " .. word .. "\r")
      assert.is_true(world.eventually(5000, function() return sleeper_state(word) == "S" end))
      user:type("\26")
      user:expect("Stopped")
      user:expect("inner> ")
      user:type("jobs; fg\r")
      assert.is_true(world.eventually(5000, function() return sleeper_state(word) == "S" end))
      user:type("\3")
      user:expect("inner> ")
      user:type("suspend\r")
      user:expect("Stopped")
      user:expect(PROMPT)
      user:type("fg\r")
      user:expect("\n")
      user:type("\r")
      user:expect("inner> ")
      user:type("exit 5\r")
      user:expect(PROMPT)
      assert.equal("5", status(user))
      assert.equal(modes, user:modes())
    end)

    it("carries every key to a program in raw mode, and what it draws back", function()
      user:type(exec .. "bash -c 'stty raw -echo; printf \"go\\r\\n\"; head -c 6 | od -An -tx1; stty sane'\r")
      user:expect("\ngo\r\n")
      user:type("a\3\26\4\27\r")
      user:expect("61 03 1a 04 1b 0d")
      user:expect(PROMPT)
    end)

    it("does not take the keys of a pipeline's other programs, until the program asks for them", function()
      user:type(exec .. "sh -c 'sleep 0.3; echo piped' | (echo asks; read a </dev/tty; echo \"got $a\"; cat)\r")
      user:expect("\nasks")
      user:type("word\r")
      user:expect("got word")
      user:expect("piped")
      user:expect(PROMPT)
      user:type("echo data | " .. exec .. "sh -c 'read a; printf \"ask \"; read b </dev/tty; echo \"$a $b\"'\r")
      user:expect("\n")
      user:expect("ask ")
      user:type("answer\r")
      user:expect("data answer")
      user:expect(PROMPT)
      local word = world.unique_sleep()
      user:type(exec .. "sleep " .. word .. " | cat\r")
      assert.is_true(world.eventually(5000, function() return sleeper_state(word) == "S" end))
      user:type("\26")
      user:expect("Stopped")
      user:expect(PROMPT)
      assert.is_true(world.eventually(2000, function() return sleeper_state(word) == "T" end))
      user:type("fg\r")
      assert.is_true(world.eventually(5000, function() return sleeper_state(word) == "S" end))
      user:type("\3")
      user:expect(PROMPT)
      assert.is_true(world.eventually(5000, function() return sleeper_state(word) == nil end))
    end)

    it("leaves a typed-ahead line to the shell when the program has a stdin of its own", function()
      user:type(exec .. "sleep 0.3 </dev/null\recho ahead\r")
      user:expect(PROMPT)
      user:expect("\nahead")
    end)

    it("prints the last words of a program that ends at once, whatever holds its terminal", function()
      local word = world.unique_sleep()
      local begun = core.monotonic_ms()
      local text = line(user, exec .. "sh -c 'setsid sleep " .. word .. " & seq 20000; echo last-words'")
      assert.is_true(core.monotonic_ms() - begun < 5000)
      assert.matches("19999\r\n20000\r\nlast%-words\r\n$", text)
      assert.is_true(world.eventually(2000, function() return sleeper_state(word) == nil end))
    end)

    it("restores the terminal and ends the program with grace on SIGTERM and SIGHUP", function()
      local modes = user:modes()
      for _, number in ipairs { signal.SIGTERM, signal.SIGHUP } do
        user:type("sh -c 'echo pid=$$; exec " .. exec
          .. "bash -c \"trap \\\"echo cleaned; exit 6\\\" TERM; echo go; while :; do sleep 0.05; done\"'\r")
        user:expect("\n")
        user:expect("pid=")
        local pid = tonumber(user:expect("\r"))
        user:expect("go\r\n")
        assert.are_not.equal(modes, user:modes())
        signal.kill(pid, number)
        user:expect("cleaned")
        user:expect(PROMPT)
        assert.equal(modes, user:modes())
        assert.equal("6", status(user)) -- the program's own
      end
    end)

    it("ends with the program's own status", function()
      line(user, exec .. "sh -c 'exit 42'")
      assert.equal("42", status(user))
      line(user, exec .. "sh -c 'kill -KILL $$'")
      assert.equal("137", status(user))
    end)

    it("never gives the program a way to type into the user's terminal", function()
      -- What is pushed into the program's own terminal must not reach the shell that comes after it.
      local push = [[perl -e 'ioctl(STDIN, 0x5412, $_) for split //, "touch pushed\n"; print "tried\n"']]
      if not os.execute("command -v perl >/dev/null") then
        pending("perl is not here")
      end
      assert.matches("tried", line(user, exec .. push))
      os.execute("sleep 0.2")
      assert.equal("empty", line(user, "echo empty"):match("%a+"))
      assert.is_false(world.exists("pushed"))
    end)
  end)
end
