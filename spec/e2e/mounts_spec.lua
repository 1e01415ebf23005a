-- What else is mounted on the host, and a user without privileges.
local world = require "world"
local unistd = require "posix.unistd"

describe("bwrap for a user without privileges", function()
  local directory

  after_each(function()
    if directory then
      world.remove(directory)
    end
    directory = nil
  end)

  -- As `nobody`, where a file system is mounted in a directory that only root may search.
  local function run(command)
    directory = world.directory()
    world.write(directory .. "/run.sh", ([[
      set -e
      mount --make-rprivate /
      chmod 755 %s
      mkdir -p %s/closed/inner
      mount -t tmpfs -o mode=777 tmpfs %s/closed/inner
      chmod 700 %s/closed
      cd /
      exec setpriv --reuid=65534 --regid=65534 --clear-groups TREE/bin/moonsand run --runner bwrap --json "$1"
    ]]):format(directory, directory, directory, directory):gsub("TREE", (unistd.getcwd())))
    command = command:gsub("DIRECTORY", directory)
    local pipe <close> = assert(io.popen(("unshare -m sh %s/run.sh '%s' 2>&1"):format(directory, command)))
    local text = pipe:read("a")
    local good, facts = pcall(require("cjson").decode, text)
    assert(good, text)
    return facts
  end

  it("works where something is mounted that this user cannot reach", function()
    local as_nobody <const> = "setpriv --reuid=65534 --clear-groups "
    if unistd.geteuid() ~= 0 or not os.execute(as_nobody .. "bwrap --ro-bind / / true 2>/dev/null") then
      pending("this needs root, and bwrap for others")
    elseif not os.execute(as_nobody .. "test -r bin/moonsand") then
      pending("nobody cannot reach this folder")
    end
    local facts = run("echo here; touch DIRECTORY/closed/inner/x; echo $?")
    assert.is_nil(facts.error)
    assert.equal("here\n1\n", facts.stdout.text)
    assert.equal("bwrap", facts.sandbox.runner)
  end)
end)
