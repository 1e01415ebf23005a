-- What a person meant who mistyped a name.
local nearest = require "moonsand.nearest"

local modes = { "read-only", "workspace-write", "danger-full-access" }

describe("the nearest name", function()
  it("is found through a letter too many, too few, wrong or swapped", function()
    for _, word in ipairs { "read-onlyy", "readonly", "raed-only", "read-onli", "READ_ONLY" } do
      assert.equal("read-only", nearest.name(word, modes), word)
    end
  end)

  it("is the one that a part of it was said of", function()
    assert.equal("workspace-write", nearest.name("write", modes))
    assert.equal("danger-full-access", nearest.name("full", modes))
  end)

  it("is none where nothing is near", function()
    for _, word in ipairs { "", "x", "banana", "sandbox" } do
      assert.is_nil(nearest.name(word, modes), word)
    end
  end)

  it("makes the end of a sentence, and lists what there is where nothing is near", function()
    assert.equal("; did you mean 'read-only'?", nearest.hint("readonly", modes))
    assert.equal("; it is one of read-only, workspace-write, danger-full-access", nearest.hint("banana", modes))
  end)
end)
