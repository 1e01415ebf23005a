-- What is wrong with a request, field by field; sections 7 and 11 of the design.
local request = require "moonsand.executor.request"
local cancel = require "moonsand.cancel"

local settings = assert(request.settings {})

local function resolve(fields, base)
  local asked = { command = "true" }
  for name, value in pairs(fields) do
    asked[name] = value
  end
  return request.resolve(asked, settings, base)
end

describe("a request", function()
  it("gets the defaults", function()
    local spec = assert(resolve({}, "/w"))
    assert.equal(120000, spec.timeout_ms)
    assert.equal(64000, spec.max_output_bytes)
    assert.equal(64 * 1024 * 1024, spec.max_spill_bytes)
    assert.equal(3000, spec.grace_ms)
    assert.equal("/w", spec.workdir)
  end)

  it("has its timeout cut down to the cap", function()
    assert.equal(600000, resolve({ timeout_ms = 600001 }).timeout_ms)
    assert.equal(600000, resolve({ timeout_ms = 1e300 }).timeout_ms)
    assert.equal(599999, resolve({ timeout_ms = 599999 }).timeout_ms)
  end)

  it("has a fraction of a millisecond rounded up, so that it is never 0", function()
    assert.equal(1, resolve({ timeout_ms = 0.25 }).timeout_ms)
    assert.equal("integer", math.type(resolve({ timeout_ms = 1500.0 }).timeout_ms))
  end)

  it("has a workdir below the workspace, unless it is absolute", function()
    assert.equal("/w/src", resolve({ workdir = "src" }, "/w").workdir)
    assert.equal("/src", resolve({ workdir = "src" }, "/").workdir)
    assert.equal("/etc", resolve({ workdir = "/etc" }, "/w").workdir)
    assert.equal("/w/link/..", resolve({ workdir = "link/.." }, "/w").workdir)
    assert.equal("src", resolve({ workdir = "src" }).workdir)
  end)

  it("is not changed", function()
    local asked = { command = "true", timeout_ms = 5 }
    request.resolve(asked, settings, "/w", { mode = "read-only" })
    assert.same({ command = "true", timeout_ms = 5 }, asked)
  end)

  local faults = {
    { "command", { command = "" } },
    { "command", { command = " \n\t" } },
    { "command", { command = "echo \0" } },
    { "command", { command = 5 } },
    { "workdir", { workdir = "" } },
    { "workdir", { workdir = "/a\0b" } },
    { "workdir", { workdir = {} } },
    { "stdin", { stdin = 5 } },
    { "env", { env = "A=B" } },
    { "env", { env = { ["A=B"] = "x" } } },
    { "env", { env = { A = "x\0" } } },
    { "on_output", { on_output = "print" } },
    { "cancel", { cancel = {} } },
    { "cancel", { cancel = true } },
    { "mode", { mode = 5 } },
    { "timeout", { timeout = 5 } },
    { "1", { "true" } },
  }
  for _, field in ipairs { "timeout_ms", "max_output_bytes", "max_spill_bytes", "grace_ms" } do
    for _, value in ipairs { 0, -1, -0.5, 0 / 0, math.huge, -math.huge, "5", "soon", true, {} } do
      faults[#faults + 1] = { field, { [field] = value } }
    end
  end
  for _, fault in ipairs(faults) do
    local field, fields = fault[1], fault[2]
    it(("is invalid with %s = %s"):format(field, tostring(fields[field])), function()
      local spec, err = resolve(fields)
      assert.is_nil(spec)
      assert.equal("INVALID_REQUEST", err.code)
      assert.equal(field, err.detail)
      assert.truthy(tostring(err):find("^" .. field .. ": "))
    end)
  end

  it("without a command is invalid", function()
    local spec, err = request.resolve({}, settings)
    assert.is_nil(spec)
    assert.equal("command", err.detail)
  end)

  it("may have a token", function()
    local token = cancel.new()
    assert.equal(token, resolve({ cancel = token }).cancel)
  end)
end)

describe("the numbers of an executor", function()
  it("are validated in the same way", function()
    for field in pairs(request.defaults) do
      local made, err = request.settings { [field] = 0 }
      assert.is_nil(made)
      assert.equal("INVALID_REQUEST", err.code)
      assert.equal(field, err.detail)
    end
  end)

  it("are what a request gets", function()
    local made = request.settings { timeout_ms = 7, grace_ms = 8, max_timeout_ms = 5 }
    local spec = request.resolve({ command = "true" }, made)
    assert.equal(5, spec.timeout_ms)
    assert.equal(8, spec.grace_ms)
  end)
end)
