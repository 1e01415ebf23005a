-- `moonsand explain`: it shows, and does nothing; section 10 of the design.
local command = require "cli.command"
local explain = require "moonsand.cli.explain"
local world = require "world"

describe("a word", function()
  it("is quoted so that a shell reads it back", function()
    for _, word in ipairs {
      "", "plain", "/a/b-c_d.e=f:g,h@i%j+k", "a b", "it's", "$HOME", "new\nline", "*", "-x", "~", '"', "\\",
    } do
      local shell <close> = io.popen("printf %s. " .. explain.quote(word))
      assert.equal(word .. ".", shell:read("a"))
    end
    assert.equal("plain/word", explain.quote("plain/word"))
  end)
end)

describe("moonsand explain", function()
  local directory

  before_each(function()
    directory = world.directory()
  end)

  after_each(function()
    world.remove(directory)
  end)

  it("shows the policy and the command line, and runs nothing", function()
    for _, mode in ipairs { "read-only", "workspace-write", "danger-full-access" } do
      local text = "touch '" .. directory .. "/ran'"
      local ended = command.run({ "explain", "--mode", mode, text }, { cwd = directory })
      if ended.status == 125 then
        pending("there is no runner here")
        return
      end
      assert.equal(0, ended.status)
      assert.truthy(ended.stdout:find("mode:       " .. mode, 1, true))
      assert.truthy(ended.stdout:find("workspace:  " .. directory, 1, true))
      local line = ended.stdout:match("\n([^\n]*)\n$")
      local shell <close> = io.popen("printf '%s\\n' " .. line)
      local words = {}
      for word in shell:lines() do
        words[#words + 1] = word
      end
      assert.equal(text, words[#words])
      assert.equal("-c", words[#words - 1])
      local said = command.json({ "explain", "--json", "--mode", mode, text }, { cwd = directory })
      assert.same(words, said.argv)
      assert.same({ mode = mode, workspace_root = directory }, said.policy)
    end
    assert.is_false(world.exists(directory .. "/ran"))
  end)

  it("shows what `moonsand run` would refuse as refused", function()
    assert.equal(2, command.run({ "explain", "" }).status)
    assert.equal(2, command.run({ "explain", "--mode", "x", "true" }).status)
    assert.equal(125, command.run({ "explain", "--runner",
      require("moonsand.core").platform == "darwin" and "landlock" or "seatbelt", "true" }).status)
  end)
end)
