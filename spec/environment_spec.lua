-- What a command finds in its environment; section 7 of the design. And what the runner does not.
local environment = require "moonsand.environment"

-- The pairs of a list, as a table.
local function by_name(list)
  local variables = {}
  for _, pair in ipairs(list or {}) do
    local name, value = pair:match("^([^=]*)=(.*)$")
    assert.is_nil(variables[name])
    variables[name] = value
  end
  return variables
end

-- What the command sees: the runner's variables, and over them the launcher's.
local function command_sees(made, options)
  local runner, launch = made:compose(options or {})
  local seen = by_name(runner)
  for name, value in pairs(by_name(launch)) do
    seen[name] = value
  end
  return seen
end

local function compose(ambient, options, settings)
  settings = settings or {}
  settings.ambient = ambient
  return command_sees(environment.new(settings), options)
end

describe("the ambient environment", function()
  it("is passed on", function()
    assert.equal("/home/u", compose({ HOME = "/home/u" }).HOME)
  end)

  for _, name in ipairs {
    "API_KEY", "KEY", "MONKEY", "github_token", "TOKENS", "AWS_SECRET_ACCESS", "secret", "PGPASSWORD", "DB_Password_1",
  } do
    it("loses what looks like a credential: " .. name, function()
      assert.is_nil(compose({ [name] = "x" })[name])
    end)
  end

  for _, name in ipairs { "PASSWD", "PASS", "SECRE", "KE_Y", "TO_KEN" } do
    it("keeps what only almost looks like one: " .. name, function()
      assert.equal("x", compose({ [name] = "x" })[name])
    end)
  end

  it("keeps a credential that the operator wants kept", function()
    local seen = compose({ SSH_KEY = "a", API_KEY = "b", MY_TOKEN_A = "c" }, nil, { keep = { "ssh_key", "MY_*" } })
    assert.equal("a", seen.SSH_KEY)
    assert.is_nil(seen.API_KEY)
    assert.equal("c", seen.MY_TOKEN_A)
  end)

  it("loses what the operator wants dropped, also when it is to be kept", function()
    local seen = compose({ EDITOR = "vi", AWS_REGION = "x", SSH_KEY = "y" }, nil,
      { drop = { "EDITOR", "aws_*", "SSH_KEY" }, keep = { "SSH_KEY" } })
    assert.is_nil(seen.EDITOR)
    assert.is_nil(seen.AWS_REGION)
    assert.is_nil(seen.SSH_KEY)
  end)

  it("loses moonsand's facts about another command, whatever is to be kept", function()
    assert.is_nil(compose({ MOONSAND_ANYTHING = "x" }, nil, { keep = { "MOONSAND_*" } }).MOONSAND_ANYTHING)
  end)

  it("takes a pattern literally but for its stars", function()
    assert.equal("x", compose({ AXB = "x" }, nil, { drop = { "A.B", "A%B", "A+B" } }).AXB)
  end)

  it("is read from the process", function()
    assert.equal(os.getenv("PATH"), command_sees(environment.new()).PATH)
  end)
end)

describe("the environment of a command", function()
  it("suits a reader that is no person", function()
    local seen = compose({ TERM = "xterm", PAGER = "less" })
    assert.equal("dumb", seen.TERM)
    assert.equal("cat", seen.PAGER)
    assert.equal("cat", seen.GIT_PAGER)
    assert.equal("1", seen.NO_COLOR)
  end)

  it("stays a person's where one reads along", function()
    local seen = compose({ TERM = "xterm" }, { terminal = true })
    assert.equal("xterm", seen.TERM)
    assert.is_nil(seen.NO_COLOR)
  end)

  it("has what the caller gives over all of that, credentials too", function()
    local seen = compose({ TERM = "xterm" }, { env = { TERM = "vt100", API_KEY = "given", N = 5 } })
    assert.equal("vt100", seen.TERM)
    assert.equal("given", seen.API_KEY)
    assert.equal("5", seen.N)
  end)

  it("lacks what the caller takes out", function()
    assert.is_nil(compose({ EDITOR = "vi" }, { env = { EDITOR = false } }).EDITOR)
  end)

  it("has the executor's own variables under the command's", function()
    local made = environment.new { ambient = {}, env = { A = "executor", B = "executor" } }
    local seen = command_sees(made, { env = { B = "command" } })
    assert.equal("executor", seen.A)
    assert.equal("command", seen.B)
    assert.equal("executor", command_sees(made).B)
  end)

  it("has moonsand's facts over the caller's", function()
    local policy = { mode = "workspace-write", workspace_root = "/w", session_id = "s1" }
    local seen = compose({}, { policy = policy, env = { MOONSAND_MODE = "forged" } })
    assert.equal("workspace-write", seen.MOONSAND_MODE)
    assert.equal("/w", seen.MOONSAND_WORKSPACE_ROOT)
    assert.equal("s1", seen.MOONSAND_SESSION_ID)
  end)

  it("follows the policy from one command to the next", function()
    local made = environment.new { ambient = {} }
    for _, mode in ipairs { "read-only", "workspace-write", "read-only" } do
      assert.equal(mode, command_sees(made, { policy = { mode = mode, workspace_root = "/w" } }).MOONSAND_MODE)
    end
    for _, root in ipairs { "/a", "/b", "/a" } do
      local policy = { mode = "workspace-write", workspace_root = root }
      assert.equal(root, command_sees(made, { policy = policy }).MOONSAND_WORKSPACE_ROOT)
    end
  end)

  it("has a writable TMPDIR in workspace-write, and the caller's where there is one", function()
    local policy = { mode = "workspace-write", workspace_root = "/w" }
    assert.equal("/tmp", compose({ TMPDIR = "/var/tmp/mine" }, { policy = policy }).TMPDIR)
    assert.equal("/w/tmp", compose({}, { policy = policy, env = { TMPDIR = "/w/tmp" } }).TMPDIR)
    assert.equal("/x", compose({ TMPDIR = "/x" }, { policy = { mode = "read-only", workspace_root = "/w" } }).TMPDIR)
  end)
end)

describe("the messages of a confined command", function()
  local confined = { confined = true }

  it("are English, and the characters stay as they were", function()
    local seen = compose({ LANG = "de_DE.UTF-8", LANGUAGE = "de:fr", LC_CTYPE = "ja_JP.eucJP" }, confined)
    assert.equal("C", seen.LC_MESSAGES)
    assert.is_nil(seen.LANGUAGE)
    assert.equal("de_DE.UTF-8", seen.LANG)
    assert.equal("ja_JP.eucJP", seen.LC_CTYPE)
  end)

  it("are English under LC_ALL, which goes on to hold for everything else", function()
    local seen = compose({ LC_ALL = "de_DE.UTF-8", LANG = "fr_FR", LC_CTYPE = "ja_JP.eucJP" }, confined)
    assert.is_nil(seen.LC_ALL)
    assert.equal("C", seen.LC_MESSAGES)
    assert.equal("de_DE.UTF-8", seen.LANG)
    assert.is_nil(seen.LC_CTYPE)
  end)

  it("are English also when the caller wants another language", function()
    local seen = compose({}, { confined = true, env = { LC_ALL = "de_DE.UTF-8", LC_MESSAGES = "de_DE.UTF-8" } })
    assert.equal("C", seen.LC_MESSAGES)
    assert.is_nil(seen.LC_ALL)
  end)

  it("are in the user's language when nothing is confined", function()
    local seen = compose({ LC_ALL = "de_DE.UTF-8", LANGUAGE = "de" })
    assert.equal("de_DE.UTF-8", seen.LC_ALL)
    assert.equal("de", seen.LANGUAGE)
    assert.is_nil(seen.LC_MESSAGES)
  end)
end)

describe("the environment of a runner", function()
  for _, name in ipairs {
    "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "DYLD_INSERT_LIBRARIES",
    "MALLOC_TRACE", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "BASH_FUNC_ls%%", "PYTHONPATH", "PERL5LIB",
    "RUBYOPT", "NODE_OPTIONS", "LUA_INIT_5_4",
  } do
    it("has no " .. name .. ", but the command's has", function()
      local runner, launch = environment.new({ ambient = { [name] = "x" } }):compose {}
      assert.is_nil(by_name(runner)[name])
      assert.equal("x", by_name(launch)[name])
      runner, launch = environment.new({ ambient = {} }):compose { env = { [name] = "y" } }
      assert.is_nil(by_name(runner)[name])
      assert.equal("y", by_name(launch)[name])
    end)
  end

  it("has no PATH entry that the command could fill, but the command's has", function()
    local path = ".:/usr/bin::bin:/w:/w/node_modules/.bin:/wide/bin:/bin"
    local runner, launch = environment.new({ ambient = { PATH = path } }):compose {
      policy = { mode = "workspace-write", workspace_root = "/w" },
    }
    assert.equal("/usr/bin:/wide/bin:/bin", by_name(runner).PATH)
    assert.equal(path, by_name(launch).PATH)
  end)

  it("needs nothing of its own when nothing steers it", function()
    local runner, launch = environment.new({ ambient = { PATH = "/usr/bin" } }):compose {}
    assert.equal("/usr/bin", by_name(runner).PATH)
    assert.is_nil(launch)
  end)
end)

describe("a fault in variables", function()
  local cases = {
    { "a name with an equals sign", { ["A=B"] = "x" } },
    { "an empty name", { [""] = "x" } },
    { "a name with a NUL byte", { ["A\0"] = "x" } },
    { "a value with a NUL byte", { A = "x\0y" } },
    { "a value that is a table", { A = {} } },
    { "a name that is a number", { "x" } },
  }
  for _, case in ipairs(cases) do
    it("is " .. case[1], function()
      assert.is_string(environment.fault(case[2]))
    end)
  end

  it("is not a string, a number, or false", function()
    assert.is_nil(environment.fault { A = "x", B = 5, C = false })
  end)

  it("of an executor is raised", function()
    assert.error_matches(function()
      environment.new { env = { ["A=B"] = "x" } }
    end, "bad option 'env'")
    assert.error_matches(function()
      environment.new { keep = "A" }
    end, "bad option 'keep'")
  end)
end)
