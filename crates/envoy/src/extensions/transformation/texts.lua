-- Changes headers and bodies as routes say. The program is the same for all: what a route says is data, its filter context, and is
-- never run. `crates/units/src/transformation/program.rs` writes it.
--
-- A context has one field, `t`: the version of its form, changes of the request, changes of the response, and what is
-- kept of the request for the response. A change is `set`, `add` or `remove` with a name, `meta` with a namespace and a
-- key, or `body`, and then the instructions that make its value, for a machine with a stack: a letter, and what belongs to
-- it. Before all others stands `read` where the body is needed: as a text (`s`), as JSON (`j`), or to be replaced (`w`).
--
-- All values are made before anything is changed. An error that leaves a script lets the request pass unchanged, so none
-- does: a request for which a value cannot be made is answered.

local VERSION = "1"
local KEPT = "portcullis.transformation"
-- Bytes that one direction may make and read, beside four times its body.
local MOST_BYTES = 262144
-- Longest text that is looked for.
local MOST_SOUGHT = 256

-- Things that the templates of one direction may look at and do, and items that they may put into lists.
local MOST_STEPS = 100000

-- Says that what was asked for cannot stand where it shall, and that a body is too large to be read.
local BAD, LARGE = {}, {}

local byte, char, concat, find, floor, gsub, lower, sub =
  string.byte, string.char, table.concat, string.find, math.floor, string.gsub, string.lower, string.sub

-- Bytes are paid before they are read or made: all that functions, filters, tests and operators are given where they are
-- called, and what they make where that is known.
local function spend(state, bytes)
  state.left = state.left - bytes
  if state.left < 0 then error(BAD, 0) end
end

-- Each thing that is looked at counts, so that no template takes a worker for long, and each item of a list that is made,
-- before it is.
local function step(state, count)
  state.steps = state.steps - (count or 1)
  if state.steps < 0 then error(BAD, 0) end
end

local function trim(text)
  local first, last = 1, #text
  local function is_blank(at)
    local c = byte(text, at)
    return c == 32 or c == 9
  end
  while first <= last and is_blank(first) do first = first + 1 end
  while last >= first and is_blank(last) do last = last - 1 end
  return sub(text, first, last)
end

-- Whether a byte of UTF-8 does not begin a character.
local function continues(text, at)
  local c = byte(text, at)
  return c ~= nil and c >= 128 and c < 192
end

-- Where a text is not UTF-8, and how many bytes there begin a character all the same.
local function broken(text, from)
  local at = find(text, "[\128-\255]", from)
  while at do
    local a, b = byte(text, at, at + 1)
    b = b or 0
    local more
    if a >= 194 and a <= 223 then
      more = 1
    elseif a >= 224 and a <= 239 then
      more = 2
      if (a == 224 and b < 160) or (a == 237 and b > 159) then return at, 1 end
    elseif a >= 240 and a <= 244 then
      more = 3
      if (a == 240 and b < 144) or (a == 244 and b > 143) then return at, 1 end
    else
      return at, 1
    end
    for index = at + 1, at + more do
      if not continues(text, index) then return at, index - at end
    end
    at = find(text, "[\128-\255]", at + more + 1)
  end
end

local function is_utf8(text) return not broken(text) end

-- The same with a mark in place of what is not UTF-8.
local function readable(text)
  local out, from = {}, 1
  while true do
    local at, count = broken(text, from)
    if not at then break end
    out[#out + 1] = sub(text, from, at - 1)
    out[#out + 1] = "\239\191\189"
    from = at + count
  end
  out[#out + 1] = sub(text, from)
  return concat(out)
end

-- The values of a header; one that is not UTF-8 counts as none.
local function values(state, name)
  local all = {}
  if name == "" then return all end
  local count = state.headers:getNumValues(name)
  -- Envoy looks for all of them to give one.
  step(state, 4 + 4 * count + count * count / 8)
  for index = 0, count - 1 do
    local value = state.headers:getAtIndex(name, index) or ""
    spend(state, #value)
    if is_utf8(value) then all[#all + 1] = value end
  end
  return all
end

local function cookies(state)
  if state.cookies then return state.cookies end
  local all = { exact = {}, folded = {} }
  for _, header in ipairs(values(state, "cookie")) do
    for pair in string.gmatch(header, "[^;]+") do
      local sign = find(pair, "=", 1, true)
      local name = sign and trim(sub(pair, 1, sign - 1)) or ""
      if name ~= "" then
        local value = trim(sub(pair, sign + 1))
        all.exact[name] = all.exact[name] or value
        all.folded[lower(name)] = all.folded[lower(name)] or value
      end
    end
  end
  state.cookies = all
  return all
end

local function alphabet(last)
  local letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" .. last
  local letter, value = {}, {}
  for index = 1, 64 do
    letter[index - 1] = byte(letters, index)
    value[byte(letters, index)] = index - 1
  end
  return { letter = letter, value = value }
end

local STANDARD, URL = alphabet("+/"), alphabet("-_")

local function encode(state, text, by)
  spend(state, floor((#text + 2) / 3) * 4)
  local out, letter = {}, by.letter
  for at = 1, #text, 3 do
    local a, b, c = byte(text, at, at + 2)
    local bits = a * 65536 + (b or 0) * 256 + (c or 0)
    out[#out + 1] = char(
      letter[floor(bits / 262144)],
      letter[floor(bits / 4096) % 64],
      b and letter[floor(bits / 64) % 64] or 61,
      c and letter[bits % 64] or 61
    )
  end
  return concat(out)
end

-- The empty text where it is not well formed, or no text.
local function decode(text, by)
  if #text % 4 ~= 0 then return "" end
  local out, value = {}, by.value
  for at = 1, #text, 4 do
    local a, b, c, d = byte(text, at, at + 3)
    local is_last = at + 3 == #text
    local first, second, third, fourth = value[a], value[b], value[c], value[d]
    if not first or not second then return "" end
    local bits = first * 262144 + second * 4096
    if third and fourth then
      bits = bits + third * 64 + fourth
      out[#out + 1] = char(floor(bits / 65536), floor(bits / 256) % 256, bits % 256)
    elseif third and is_last and d == 61 and third % 4 == 0 then
      bits = bits + third * 64
      out[#out + 1] = char(floor(bits / 65536), floor(bits / 256) % 256)
    elseif is_last and c == 61 and d == 61 and second % 16 == 0 then
      out[#out + 1] = char(floor(bits / 65536))
    else
      return ""
    end
  end
  local decoded = concat(out)
  return is_utf8(decoded) and decoded or ""
end

local function replace(state, text, sought, with)
  if #sought > MOST_SOUGHT then error(BAD, 0) end
  if sought == "" then
    -- In front of each character and behind the last.
    local _, characters = gsub(text, "[^\128-\191]", "")
    spend(state, #text + (characters + 1) * #with)
    return with .. gsub(text, "[^\128-\191][\128-\191]*", "%0" .. gsub(with, "%%", "%%%%"))
  end
  local out, from = {}, 1
  while true do
    local first, last = find(text, sought, from, true)
    if not first then break end
    step(state)
    spend(state, first - from + #with)
    out[#out + 1] = sub(text, from, first - 1)
    out[#out + 1] = with
    from = last + 1
  end
  spend(state, #text - from + 1)
  out[#out + 1] = sub(text, from)
  return concat(out)
end

local RANDOM

local function random(state)
  step(state, 10)
  RANDOM = RANDOM or assert(io.open("/dev/urandom", "rb"))
  local bytes = RANDOM:read(16)
  assert(bytes and #bytes == 16)
  return sub(encode(state, bytes, STANDARD), 1, 22)
end

-- A text with some signs written as `by` has them, in six bytes at most.
local function escaped(state, text, signs, by)
  spend(state, #text)
  local _, count = gsub(text, signs, "")
  spend(state, 5 * count)
  if count == 0 then return text end
  return (gsub(text, signs, by))
end

local ESCAPES = {}
for code = 0, 31 do ESCAPES[char(code)] = string.format("\\u%04x", code) end
for sign, written in pairs({
  ['"'] = '\\"', ["\\"] = "\\\\", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t",
}) do
  ESCAPES[sign] = written
end

local function raw(state, text) return escaped(state, text, '[%z\1-\31"\\]', ESCAPES) end
