-- Values of templates. Texts, whole numbers up to 2^53 and booleans are Lua's own; all else is a table with its kind:
-- `u` undefined, `n` none, `f` a number with a fraction, `b` the digits of a larger whole number, which are never
-- reckoned with, `l` a list with its length `n`, `m` a map `of` texts to values, `o` the state of a loop.

local UNDEFINED, NONE = { kind = "u" }, { kind = "n" }
local MOST_WHOLE = 9007199254740992

local function kind(value)
  local of = type(value)
  if of == "table" then return value.kind end
  return of == "string" and "s" or of == "number" and "i" or "t"
end

local function whole(number)
  if number ~= number or number > MOST_WHOLE or number < -MOST_WHOLE then error(BAD, 0) end
  -- No negative zero.
  return number + 0 == 0 and 0 or number
end

local function fraction(number) return { kind = "f", number = number } end

local function list(items, count) items.kind, items.n = "l", count or #items return items end

-- A list that is not one of JSON, or written as one: it comes last in an order, and is no sequence.
local function made(items, count)
  items = list(items, count)
  items.is_made = true
  return items
end

local function map(of) return { kind = "m", of = of } end

-- The keys of a map, sorted.
local function keys(state, value)
  if not value.keys then
    local all = {}
    for key in pairs(value.of) do all[#all + 1] = key end
    step(state, 8 * #all)
    table.sort(all)
    value.keys = list(all)
  end
  return value.keys
end

-- The fewest digits that stand for a number, and where its point stands among them.
local function digits(number)
  for count = 14, 16 do
    local text = string.format("%." .. count .. "e", number)
    if tonumber(text) == number or count == 16 then
      local first, rest, power = string.match(text, "^(%d)%.(%d+)e([+-]%d+)$")
      return (gsub(first .. rest, "0+$", "", 1)), tonumber(power) + 1
    end
  end
end

-- Pays for a number with a fraction that is written: the larger or smaller it is, the longer it takes.
local function pay_decimal(state, number)
  local _, power = math.frexp(number)
  step(state, 10 + math.abs(power) / 4)
end

-- Pays for one that is read, the same way.
local function pay_number(state, text)
  local power = string.match(text, "[eE]([+-]?%d+)$") or 0
  step(state, (#text > 20 and #text or 0) + math.min(math.abs(tonumber(power)), 400) / 2)
end

-- A number with a fraction. It has an exponent where the point would stand in front of `least` or behind `most`, which
-- begins with `plus` where it is positive.
local function decimal(number, least, most, plus)
  if number ~= number then return "NaN" end
  if number == math.huge then return "inf" elseif number == -math.huge then return "-inf" end
  local sign = (number < 0 or 1 / number < 0) and "-" or ""
  if number == 0 then return sign .. "0.0" end
  local all, point = digits(math.abs(number))
  if least and (point < least or point > most) then
    local rest = sub(all, 2)
    return sign .. sub(all, 1, 1) .. (rest ~= "" and "." .. rest or "") .. (point > 0 and plus or "e") .. (point - 1)
  end
  if point <= 0 then return sign .. "0." .. string.rep("0", -point) .. all end
  if #all <= point then return sign .. all .. string.rep("0", point - #all) .. ".0" end
  return sign .. sub(all, 1, point) .. "." .. sub(all, point + 1)
end

local IN_QUOTES = { ["\127"] = "\\u{7f}" }
for code = 0, 31 do IN_QUOTES[char(code)] = string.format("\\u{%x}", code) end
for sign, written in pairs({
  ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\0"] = "\\0",
}) do
  IN_QUOTES[sign] = written
end

local IN_JSON = { ["<"] = "\\u003c", [">"] = "\\u003e", ["&"] = "\\u0026", ["'"] = "\\u0027" }
for sign, written in pairs(ESCAPES) do IN_JSON[sign] = written end

local function write(state, out, text)
  spend(state, #text)
  step(state)
  out[#out + 1] = text
end

-- Puts a value into `out`: as JSON, or as lists show what is in them.
local function show(state, out, value, json)
  local of = kind(value)
  if of == "s" then
    write(state, out, '"')
    out[#out + 1] = json and escaped(state, value, '[%z\1-\31"\\<>&\']', IN_JSON)
      or escaped(state, value, '[%z\1-\31"\\\127]', IN_QUOTES)
    write(state, out, '"')
  elseif of == "i" then
    write(state, out, string.format("%.0f", value))
  elseif of == "t" then
    write(state, out, tostring(value))
  elseif of == "f" then
    pay_decimal(state, value.number)
    local finite = value.number - value.number == 0
    local text = json and (finite and decimal(value.number, -4, 16, "e+") or "null")
    write(state, out, text or decimal(value.number, -3, 16, "e"))
  elseif of == "b" then
    write(state, out, value.digits)
  elseif of == "n" then
    write(state, out, json and "null" or "none")
  elseif of == "u" then
    write(state, out, json and "null" or "undefined")
  elseif of == "l" then
    write(state, out, "[")
    for index = 1, value.n do
      if index > 1 then write(state, out, json and "," or ", ") end
      show(state, out, value[index], json)
    end
    write(state, out, "]")
  elseif of == "m" then
    write(state, out, "{")
    for index, key in ipairs(keys(state, value)) do
      if index > 1 then write(state, out, json and "," or ", ") end
      show(state, out, key, json)
      write(state, out, json and ":" or ": ")
      show(state, out, value.of[key], json)
    end
    write(state, out, "}")
  else
    error(BAD, 0)
  end
end

-- What a value is where a text is asked for.
local function text_of(state, value)
  local of = kind(value)
  if of == "s" then return value end
  if of == "u" then return "" end
  if of == "f" then
    pay_decimal(state, value.number)
    return decimal(value.number)
  end
  local out = {}
  show(state, out, value, false)
  return concat(out)
end

local function is_true(value)
  local of = kind(value)
  if of == "t" then return value end
  if of == "s" then return value ~= "" end
  if of == "i" then return value ~= 0 end
  if of == "f" then return value.number ~= 0 end
  if of == "l" then return value.n > 0 end
  if of == "m" then return next(value.of) ~= nil end
  return of == "b" or of == "o"
end

-- The characters of a text.
local function characters(state, text)
  local all, count = {}, 0
  for character in string.gmatch(text, "[%z\1-\127\192-\255][\128-\191]*") do
    step(state)
    count = count + 1
    all[count] = character
  end
  return list(all, count)
end

-- What a loop goes through.
local function iterate(state, value)
  local of = kind(value)
  if of == "l" then return value end
  if of == "m" then
    local all = keys(state, value)
    step(state, all.n)
    return all
  end
  if of == "s" then return characters(state, value) end
  if of == "u" or of == "n" then return list({}) end
  error(BAD, 0)
end

-- A number for reckoning, and whether it is a whole one; a boolean is 1 or 0.
local function number_of(value)
  local of = kind(value)
  if of == "i" then return value, true end
  if of == "f" then return value.number, false end
  if of == "t" then return value and 1 or 0, true end
end

local function is_equal(state, a, b)
  step(state)
  local x, y = kind(a), kind(b)
  if x == "l" and y == "l" then
    if a.n ~= b.n then return false end
    for index = 1, a.n do
      if not is_equal(state, a[index], b[index]) then return false end
    end
    return true
  elseif x == "m" and y == "m" then
    if keys(state, a).n ~= keys(state, b).n then return false end
    for key, value in pairs(a.of) do
      local other = b.of[key]
      if other == nil or not is_equal(state, value, other) then return false end
    end
    return true
  elseif x == "s" and y == "s" then
    -- Lua has each text once.
    return a == b
  elseif x == "b" or y == "b" then
    if x == "f" or y == "f" then error(BAD, 0) end
    return x == y and a.digits == b.digits
  elseif x == "n" or x == "u" then
    return x == y
  end
  local left, right = number_of(a), number_of(b)
  return left ~= nil and left == right
end

local ORDER = { u = 1, n = 2, t = 3, i = 4, f = 4, b = 4, s = 5, l = 6, m = 7 }

local function order_of(value, of) return of == "l" and value.is_made and 8 or ORDER[of] end

-- -1, 0 or 1.
local function compare(state, a, b)
  step(state)
  local x, y = kind(a), kind(b)
  local left, right = order_of(a, x), order_of(b, y)
  if not left or not right or (x == "b" or y == "b") and left == right then error(BAD, 0) end
  if left ~= right then return left < right and -1 or 1 end
  if x == "s" then
    spend(state, math.min(#a, #b) / 8)
    left, right = a, b
  elseif x == "l" or x == "m" then
    local first, second = iterate(state, a), iterate(state, b)
    for index = 1, math.min(first.n, second.n) do
      local order = compare(state, first[index], second[index])
      if order == 0 and x == "m" then order = compare(state, a.of[first[index]], b.of[second[index]]) end
      if order ~= 0 then return order end
    end
    left, right = first.n, second.n
  elseif x == "u" or x == "n" then
    return 0
  else
    left, right = number_of(a), number_of(b)
    if left ~= left or right ~= right then error(BAD, 0) end
  end
  return left == right and 0 or left < right and -1 or 1
end

-- The place in a list or text that a number means, from 1 on; none that is not there.
local function place(value, count)
  local number = number_of(value)
  if not number or type(value) == "boolean" or number ~= floor(number) then return nil end
  if number < 0 then number = number + count end
  return number >= 0 and number < count and number + 1 or nil
end

local function item_of(state, value, key)
  local of = kind(value)
  if of == "u" then error(BAD, 0) end
  local found
  if of == "m" then
    if type(key) == "string" then found = value.of[key] end
  elseif of == "l" then
    local at = place(key, value.n)
    found = at and value[at]
  elseif of == "s" then
    local all = characters(state, value)
    local at = place(key, all.n)
    found = at and all[at]
  elseif of == "o" then
    if type(key) == "string" then found = value.says(key) end
  end
  if found == nil then return UNDEFINED end
  return found
end

-- What leads to what stands at `a.b.0` of a value; nothing where it leads through what is not there.
local function path_to(state, path)
  local parts = {}
  for part in string.gmatch(path, "[^.]+") do
    step(state)
    parts[#parts + 1] = { name = part, place = find(part, "^%d+$") and tonumber(part) }
  end
  return function(value)
    step(state, 1 + #parts)
    for _, part in ipairs(parts) do
      if value == UNDEFINED then return nil end
      value = item_of(state, value, kind(value) ~= "m" and part.place or part.name)
    end
    return value
  end
end
