--- Text from elsewhere, made harmless to look at: what could repaint a screen or hide in a line is shown as an escape.
--
-- A command, a file name or a justification comes from a model; the person who is asked about it must see what it is.
-- Control characters of both sets, marks that reorder a line or take no room, line separators of Unicode and bytes that
-- are no characters all become visible. Pure; relies on nothing.
-- @module moonsand.visible

local visible = {}

local names = { [7] = "\\a", [8] = "\\b", [9] = "\\t", [10] = "\\n", [11] = "\\v", [12] = "\\f", [13] = "\\r",
  [27] = "\\e" }

-- Ranges of characters that are not seen as themselves: C0, C1 and DEL; then Unicode's format characters (category Cf),
-- separators of lines, fillers and variation selectors.
local hidden = {
  { 0x00, 0x1F }, { 0x7F, 0x9F }, { 0xAD, 0xAD }, { 0x34F, 0x34F }, { 0x600, 0x605 }, { 0x61C, 0x61C },
  { 0x6DD, 0x6DD }, { 0x70F, 0x70F }, { 0x115F, 0x1160 }, { 0x17B4, 0x17B5 }, { 0x180B, 0x180F }, { 0x200B, 0x200F },
  { 0x2028, 0x202E }, { 0x2060, 0x206F }, { 0x3164, 0x3164 }, { 0xFE00, 0xFE0F }, { 0xFEFF, 0xFEFF },
  { 0xFFA0, 0xFFA0 }, { 0xFFF9, 0xFFFB }, { 0x1BCA0, 0x1BCA3 }, { 0x1D173, 0x1D17A }, { 0xE0000, 0xE0FFF },
}

local function is_hidden(code)
  for _, range in ipairs(hidden) do
    if code >= range[1] and code <= range[2] then
      return true
    end
  end
  return false
end

local function escaped(code)
  return names[code] or (code < 0x80 and ("\\x%02X"):format(code)) or ("\\u{%X}"):format(code)
end

--- A text as one line that shows all there is in it.
-- @string text any bytes
-- @treturn string valid UTF-8 without control characters
function visible.line(text)
  if not text:find("[^\32-\126]") then
    return text
  end
  local pieces, position = {}, 1
  while position <= #text do
    local good, bad = utf8.len(text, position)
    local upto = good and #text or bad - 1
    if upto >= position then
      for _, code in utf8.codes(text:sub(position, upto)) do
        pieces[#pieces + 1] = is_hidden(code) and escaped(code) or utf8.char(code)
      end
    end
    if not good then
      pieces[#pieces + 1] = ("\\x%02X"):format(text:byte(bad))
    end
    position = upto + 2
  end
  return table.concat(pieces)
end

--- A text of several lines, each of them visible and with the same beginning, so that none can pass for another's.
-- @string text
-- @string margin what each line begins with
-- @treturn string without a newline at its end
function visible.block(text, margin)
  local lines = {}
  for line in (text:gsub("\n$", "") .. "\n"):gmatch("(.-)\n") do
    lines[#lines + 1] = margin .. visible.line(line)
  end
  return table.concat(lines, "\n")
end

return visible
