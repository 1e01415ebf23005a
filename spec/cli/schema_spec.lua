-- `moonsand schema`: what a model's API is given; sections 8 and 10 of the design.
local command = require "cli.command"

describe("moonsand schema", function()
  it("prints the tool's schema, whose fields come and go with what is possible", function()
    local schema = command.json { "schema" }
    assert.equal("bash", schema.name)
    assert.equal("object", schema.parameters.type)
    table.sort(schema.parameters.required)
    assert.same({ "command", "description" }, schema.parameters.required)
    assert.is_table(schema.parameters.properties.sandbox_permissions)
    assert.is_nil(schema.parameters.properties.run_in_background)
    assert.is_nil(command.json({ "schema", "--mode", "danger-full-access" }).parameters.properties.sandbox_permissions)
    local list = command.json { "schema", "--jobs" }
    assert.equal(4, #list)
    assert.is_table(list[1].parameters.properties.run_in_background)
    assert.equal(2, command.run({ "schema", "--mode", "x" }).status)
  end)
end)
