-- What operators, filters and tests make of values. `crates/units/src/transformation/template/names.rs` has their names.
-- The machine has them paid for the texts and lists that they are given. They pay for what they make, and for what they
-- look at more than once.

-- Bytes of a text that is read as a number.
local MOST_NUMBER = 400

-- Blanks outside of ASCII.
local BLANKS = {}
for _, code in ipairs({ 133, 160, 5760, 8232, 8233, 8239, 8287, 12288 }) do BLANKS[utf8(code)] = true end
for code = 8192, 8202 do BLANKS[utf8(code)] = true end

local function is_space(character)
  return find(character, "^[ \t-\r]") ~= nil or BLANKS[character] == true
end

-- What puts a text in other letters, as `known` lists those outside of ASCII.
local function cased(ascii, known)
  local letters
  return function(text)
    text = ascii(text)
    if not find(text, "[\128-\255]") then return text end
    if not letters then
      letters = {}
      for letter, other in string.gmatch(known, "([\194-\244][\128-\191]*)(%S+)") do letters[letter] = other end
    end
    return (gsub(text, "[\194-\244][\128-\191]*", letters))
  end
end

local upper_case, lower_case = cased(string.upper, CAPITAL), cased(lower, SMALL)

-- Takes off both ends what `is` is true of.
local function strip(state, text, is)
  local first, last = 1, #text
  while first <= last do
    local character = string.match(text, "^[%z\1-\127\194-\244][\128-\191]*", first)
    step(state)
    if not is(character) then break end
    first = first + #character
  end
  while last >= first do
    local start = last
    while start > first and continues(text, start) do start = start - 1 end
    step(state)
    if not is(sub(text, start, last)) then break end
    last = start - 1
  end
  return sub(text, first, last)
end

local function whole_of(value)
  local number = number_of(value)
  if not number or type(value) == "boolean" or number ~= floor(number) then error(BAD, 0) end
  return number
end

local function optional(value, otherwise)
  if value == UNDEFINED or value == NONE then return otherwise end
  return value
end

local function is_set(value)
  value = optional(value, false)
  if type(value) ~= "boolean" then error(BAD, 0) end
  return value
end

-- Numbers as Rust reads them from a text, which is not long.
local function parsed(state, text)
  if #text > MOST_NUMBER then error(BAD, 0) end
  pay_number(state, text)
  local start, before, behind, power = string.match(text, "^[+-]?()(%d*)%.?(%d*)()")
  local is_one = before .. behind ~= "" and (power > #text or find(text, "^[eE][+-]?%d+$", power))
  if not is_one then error(BAD, 0) end
  return tonumber(byte(text) == 43 and sub(text, start) or text)
end

local function cut(number)
  if number ~= number then return 0 end
  return whole(number < 0 and -floor(-number) or floor(number))
end

-- It is found bit by bit.
local function modulo(state, a, b)
  local _, x = math.frexp(a)
  local _, y = math.frexp(b)
  step(state, math.max(0, x - y) / 2)
  return math.fmod(a, b)
end

local function remainder(state, a, b)
  local rest = modulo(state, a, b)
  return rest < 0 and rest + math.abs(b) or rest
end

-- What reckons with two numbers: whole ones, and others.
local RECKONED = {
  ["+"] = function(_, a, b) return a + b end,
  ["-"] = function(_, a, b) return a - b end,
  ["*"] = function(_, a, b) return a * b end,
  ["%"] = function(state, a, b, is_whole)
    if not is_whole then return modulo(state, a, b) end
    if b == 0 then error(BAD, 0) end
    return remainder(state, a, b)
  end,
  ["//"] = function(state, a, b, is_whole)
    if is_whole and b == 0 then error(BAD, 0) end
    if is_whole then return (a - remainder(state, a, b)) / b end
    local quotient = a / b
    quotient = quotient < 0 and -floor(-quotient) or floor(quotient)
    if modulo(state, a, b) < 0 then quotient = b > 0 and quotient - 1 or quotient + 1 end
    return quotient
  end,
  ["**"] = function(_, a, b, is_whole)
    if is_whole and b < 0 then error(BAD, 0) end
    return a ^ b
  end,
}

local function reckon(state, a, b, by)
  local left, left_whole = number_of(a)
  local right, right_whole = number_of(b)
  if not left or not right then error(BAD, 0) end
  local is_whole = left_whole and right_whole
  local number = by(state, left, right, is_whole)
  return is_whole and whole(number) or fraction(number)
end

-- A text or list so many times.
local function times(state, value, count)
  local number, is_whole = number_of(count)
  if not is_whole or number < 0 then error(BAD, 0) end
  if type(value) == "string" then
    -- Nothing may be had very often.
    if value == "" then return "" end
    spend(state, #value * number)
    return string.rep(value, number)
  end
  if value.n == 0 then return made({}, 0) end
  step(state, value.n * number)
  local all, last = {}, 0
  for _ = 1, number do
    for index = 1, value.n do
      last = last + 1
      all[last] = value[index]
    end
  end
  return made(all, last)
end

local function contains(state, container, value)
  local of = kind(container)
  if of == "u" then return false end
  if of == "s" then
    local sought = text_of(state, value)
    if #sought > MOST_SOUGHT then error(BAD, 0) end
    return find(container, sought, 1, true) ~= nil
  elseif of == "m" then
    return type(value) == "string" and container.of[value] ~= nil
  elseif of == "l" then
    for index = 1, container.n do
      if is_equal(state, container[index], value) then return true end
    end
    return false
  end
  error(BAD, 0)
end

local OPERATORS = {
  ["=="] = is_equal,
  ["!="] = function(state, a, b) return not is_equal(state, a, b) end,
  ["<"] = function(state, a, b) return compare(state, a, b) < 0 end,
  ["<="] = function(state, a, b) return compare(state, a, b) <= 0 end,
  [">"] = function(state, a, b) return compare(state, a, b) > 0 end,
  [">="] = function(state, a, b) return compare(state, a, b) >= 0 end,
  ["in"] = function(state, a, b) return contains(state, b, a) end,
  ["/"] = function(_, a, b)
    local left, right = number_of(a), number_of(b)
    if not left or not right then error(BAD, 0) end
    return fraction(left / right)
  end,
}
for sign, by in pairs(RECKONED) do
  OPERATORS[sign] = function(state, a, b)
    local x, y = kind(a), kind(b)
    if sign == "+" and x == "s" and y == "s" then
      spend(state, #a + #b)
      return a .. b
    elseif sign == "+" and x == "l" and y == "l" then
      step(state, a.n + b.n)
      local all = {}
      for index = 1, a.n do all[index] = a[index] end
      for index = 1, b.n do all[a.n + index] = b[index] end
      return made(all, a.n + b.n)
    elseif sign == "*" and (x == "s" or x == "l") then
      return times(state, a, b)
    elseif sign == "*" and (y == "s" or y == "l") then
      return times(state, b, a)
    end
    return reckon(state, a, b, by)
  end
end

local function negative(value)
  local of = kind(value)
  if of == "i" then return whole(-value) end
  if of == "f" then return fraction(-value.number) end
  error(BAD, 0)
end

-- A text as it is compared where capital and small letters are alike.
local function folded(state, text)
  spend(state, #text)
  return lower(text)
end

-- Whether a value may stand in front of another one; in front of what is not there may anything.
local function follows(state, a, b)
  if a == nil or b == nil then
    step(state)
    return true
  end
  return compare(state, a, b) <= 0
end

-- Sorts without changing the order of what is equal. `by` makes of a value what is compared.
local function sorted(state, items, by, is_exact)
  local all, count = {}, items.n
  step(state, 2 * count)
  for index = 1, count do
    local key = by(items[index])
    if type(key) == "string" and not is_exact then key = folded(state, key) end
    all[index] = { key, items[index] }
  end
  local width = 1
  while width < count do
    local merged = {}
    for from = 1, count, width * 2 do
      local left, right = from, from + width
      local middle, last = math.min(right, count + 1), math.min(from + width * 2, count + 1)
      for at = from, last - 1 do
        local takes_left = left < middle and (right >= last or follows(state, all[left][1], all[right][1]))
        merged[at] = all[takes_left and left or right]
        if takes_left then left = left + 1 else right = right + 1 end
      end
    end
    all, width = merged, width * 2
  end
  for index = 1, count do all[index] = all[index][2] end
  return list(all, count)
end

local function turned(state, items)
  step(state, items.n)
  local all = {}
  for index = 1, items.n do all[index] = items[items.n + 1 - index] end
  return list(all, items.n)
end

local function same(value) return value end

local function pairs_of(state, value)
  if kind(value) ~= "m" then error(BAD, 0) end
  local names, all = keys(state, value), {}
  step(state, 4 * names.n)
  for index = 1, names.n do all[index] = list({ names[index], value.of[names[index]] }, 2) end
  return list(all, names.n)
end

local function path_of(state, attribute)
  attribute = optional(attribute, nil)
  if attribute == nil then return same end
  if type(attribute) ~= "string" then error(BAD, 0) end
  return path_to(state, attribute)
end

local function extreme(wanted)
  return function(state, value)
    local items = iterate(state, value)
    local found = items[1]
    for index = 2, items.n do
      local order = compare(state, items[index], found)
      -- Of what is equal, the first least and the last greatest.
      if order == wanted or order == 0 and wanted == 1 then found = items[index] end
    end
    if found == nil then return UNDEFINED end
    return found
  end
end

local function split_by_blanks(state, text, most)
  local out, word, all = {}, {}, characters(state, text)
  local at = 1
  while at <= all.n do
    if is_space(all[at]) then
      if #word > 0 then out[#out + 1], word = concat(word), {} end
      at = at + 1
    elseif #word == 0 and most and #out + 1 >= most then
      out[#out + 1] = concat(all, "", at, all.n)
      return made(out)
    else
      word[#word + 1] = all[at]
      at = at + 1
    end
  end
  if #word > 0 then out[#out + 1] = concat(word) end
  return made(out)
end

-- The text of a value, of which another one is made that is as long.
local function text_made(state, value)
  local text = text_of(state, value)
  spend(state, #text)
  return text
end

local FILTERS = {
  upper = function(state, value) return upper_case(text_made(state, value)) end,
  lower = function(state, value) return lower_case(text_made(state, value)) end,
  capitalize = function(state, value)
    local text = text_made(state, value)
    local first, rest = string.match(text, "^([%z\1-\127\194-\244][\128-\191]*)(.*)$")
    return first and upper_case(first) .. lower_case(rest) or ""
  end,
  title = function(state, value)
    local all, begins = characters(state, text_made(state, value)), true
    step(state, 3 * all.n)
    for index = 1, all.n do
      local character = all[index]
      local parts = find(character, "^%p") ~= nil or is_space(character)
      all[index] = begins and upper_case(character) or lower_case(character)
      begins = parts
    end
    return concat(all)
  end,
  trim = function(state, value, signs)
    local text = text_made(state, value)
    if signs == UNDEFINED or signs == NONE then return strip(state, text, is_space) end
    local known = {}
    for _, character in ipairs(characters(state, text_of(state, signs))) do known[character] = true end
    return strip(state, text, function(character) return known[character] end)
  end,
  length = function(state, value)
    local of = kind(value)
    if of == "s" then
      local _, count = gsub(value, "[^\128-\191]", "")
      return count
    end
    if of == "l" then return value.n end
    if of == "m" then return keys(state, value).n end
    error(BAD, 0)
  end,
  replace = function(state, value, sought, with)
    return replace(state, text_of(state, value), text_of(state, sought), text_of(state, with))
  end,
  split = function(state, value, by, most)
    if type(value) ~= "string" then error(BAD, 0) end
    spend(state, #value)
    by, most = optional(by, nil), optional(most, nil)
    most = most and whole_of(most)
    most = most and most >= 0 and most + 1 or nil
    if by == nil then return split_by_blanks(state, value, most) end
    if type(by) ~= "string" or #by > MOST_SOUGHT then error(BAD, 0) end
    if by == "" then error(BAD, 0) end
    local out, from = {}, 1
    while not most or #out + 1 < most do
      local first, last = find(value, by, from, true)
      if not first then break end
      step(state)
      out[#out + 1] = sub(value, from, first - 1)
      from = last + 1
    end
    out[#out + 1] = sub(value, from)
    return made(out)
  end,
  join = function(state, value, by)
    local items, out = iterate(state, value), {}
    by = text_of(state, optional(by, ""))
    for index = 1, items.n do
      local text = text_of(state, items[index])
      spend(state, #text + #by)
      out[index] = text
    end
    return concat(out, by)
  end,
  default = function(_, value, other, lax)
    local is_lax = is_set(lax)
    if value ~= UNDEFINED and not (is_lax and not is_true(value)) then return value end
    return optional(other, "")
  end,
  first = function(state, value)
    local of = kind(value)
    if of ~= "s" and of ~= "l" and of ~= "m" then error(BAD, 0) end
    local found = iterate(state, value)[1]
    if found == nil then return UNDEFINED end
    return found
  end,
  last = function(state, value)
    local of = kind(value)
    if of ~= "s" and of ~= "l" then error(BAD, 0) end
    local items = iterate(state, value)
    local found = items[items.n]
    if found == nil then return UNDEFINED end
    return found
  end,
  reverse = function(state, value)
    local of = kind(value)
    if of == "u" or of == "n" then return value end
    local all = turned(state, iterate(state, value))
    return of == "s" and concat(all) or made(all, all.n)
  end,
  list = function(state, value)
    local items, all = iterate(state, value), {}
    for index = 1, items.n do all[index] = items[index] end
    return list(all, items.n)
  end,
  string = text_of,
  bool = function(_, value) return is_true(value) end,
  abs = function(_, value)
    local of = kind(value)
    if of == "i" then return math.abs(value) end
    if of == "f" then return fraction(math.abs(value.number)) end
    error(BAD, 0)
  end,
  round = function(_, value, precision)
    local of = kind(value)
    if of == "i" or of == "b" then return value end
    if of ~= "f" then error(BAD, 0) end
    local by = 10 ^ whole_of(optional(precision, 0))
    local number = value.number * by
    local rounded = number < 0 and -floor(-number + 0.5) or floor(number + 0.5)
    -- What has no fraction stays, and half of the least stays below it.
    if number == floor(number) then rounded = number end
    if math.abs(number) < 0.5 then rounded = number < 0 and -0 or 0 end
    return fraction(rounded / by)
  end,
  int = function(state, value)
    local of = kind(value)
    if of == "u" or of == "n" then return 0 end
    if of == "i" or of == "b" then return value end
    if of == "t" then return value and 1 or 0 end
    if of == "f" then return cut(value.number) end
    if of == "s" then return cut(parsed(state, value)) end
    error(BAD, 0)
  end,
  float = function(state, value)
    local of = kind(value)
    if of == "u" or of == "n" then return fraction(0) end
    if of == "b" then return fraction(tonumber(value.digits)) end
    if of == "s" then return fraction(parsed(state, value)) end
    local number = number_of(value)
    return number and fraction(number) or error(BAD, 0)
  end,
  sum = function(state, value)
    local items, all = iterate(state, value), 0
    for index = 1, items.n do
      local item = items[index]
      local of = kind(item)
      if of ~= "u" then
        if of ~= "i" and of ~= "f" then error(BAD, 0) end
        all = reckon(state, all, item, RECKONED["+"])
      end
    end
    return all
  end,
  min = extreme(-1),
  max = extreme(1),
  sort = function(state, value, attribute, is_exact, backwards)
    local all = sorted(state, iterate(state, value), path_of(state, attribute), is_set(is_exact))
    return is_set(backwards) and turned(state, all) or all
  end,
  dictsort = function(state, value, by, is_exact, backwards)
    local at = optional(by, "key") == "value" and 2 or 1
    local all = sorted(state, pairs_of(state, value), function(pair) return pair[at] end, is_set(is_exact))
    return is_set(backwards) and turned(state, all) or all
  end,
  items = function(state, value)
    local all = pairs_of(state, value)
    return made(all, all.n)
  end,
  map = function(state, value, attribute, otherwise)
    local items, all, path = iterate(state, value), {}, path_of(state, attribute)
    for index = 1, items.n do
      local found = path(items[index])
      if found == nil or found == UNDEFINED then found = otherwise end
      all[index] = found
    end
    return list(all, items.n)
  end,
  unique = function(state, value, attribute, is_exact)
    local items, all, path = iterate(state, value), {}, path_of(state, attribute)
    local exact, seen, known = is_set(is_exact), {}, {}
    for index = 1, items.n do
      local key = path(items[index])
      if key == nil then key = UNDEFINED end
      if type(key) == "string" and not exact then key = lower_case(folded(state, key)) end
      local is_new
      if type(key) == "string" then
        is_new = not known[key]
        known[key] = true
        step(state)
      else
        is_new = true
        for _, other in ipairs(seen) do is_new = is_new and compare(state, other, key) ~= 0 end
        if is_new then seen[#seen + 1] = key end
      end
      if is_new then all[#all + 1] = items[index] end
    end
    return list(all)
  end,
  tojson = function(state, value)
    local out = {}
    show(state, out, value, true)
    return concat(out)
  end,
}

local function is_kind(...)
  local wanted = {}
  for _, of in ipairs({ ... }) do wanted[of] = true end
  return function(_, value) return wanted[kind(value)] == true end
end

local function remains(by)
  return function(_, value)
    local number = number_of(value)
    return number ~= nil and number == floor(number) and (number % 2 == 0) == by
  end
end

local TESTS = {
  defined = function(_, value) return value ~= UNDEFINED end,
  undefined = is_kind("u"),
  none = is_kind("n"),
  string = is_kind("s"),
  number = is_kind("i", "f", "b"),
  integer = is_kind("i", "b"),
  float = is_kind("f"),
  boolean = is_kind("t"),
  mapping = is_kind("m"),
  sequence = function(_, value) return kind(value) == "l" and not value.is_made end,
  iterable = is_kind("l", "m", "s", "u", "n"),
  ["true"] = function(_, value) return value == true end,
  ["false"] = function(_, value) return value == false end,
  odd = remains(false),
  even = remains(true),
  divisibleby = function(state, value, by)
    local a, b = number_of(value), number_of(by)
    if not a or not b then return false end
    if b == 0 then error(BAD, 0) end
    return modulo(state, a, b) == 0
  end,
  startingwith = function(state, value, with)
    with = text_of(state, with)
    return sub(text_of(state, value), 1, #with) == with
  end,
  endingwith = function(state, value, with)
    with = text_of(state, with)
    return with == "" or sub(text_of(state, value), -#with) == with
  end,
  eq = OPERATORS["=="],
  ne = OPERATORS["!="],
  lt = OPERATORS["<"],
  le = OPERATORS["<="],
  gt = OPERATORS[">"],
  ge = OPERATORS[">="],
  ["in"] = OPERATORS["in"],
}

local function named(names)
  local all = {}
  for name in string.gmatch(names, "%S+") do all[name] = true end
  return all
end

-- Instructions that look at nothing of texts that they are given.
local NO_TEXT = named([[
  |default |bool o== o!= ?eq ?ne ?boolean ?defined ?divisibleby ?even ?false ?float ?integer ?iterable ?mapping ?none ?number
  ?odd ?sequence ?string ?true ?undefined
]])
-- Instructions that look at nothing of lists that they are given, or pay for each item by themselves.
local NO_LIST = named([[
  |default |bool |first |last |length o== o!= o< o<= o> o>= oin o+ o* ?eq ?ne ?lt ?le ?gt ?ge ?in ?boolean ?defined ?divisibleby
  ?even ?false ?float ?integer ?iterable ?mapping ?none ?number ?odd ?sequence ?string ?true ?undefined
]])

-- What an instruction pays for a value that it is given, before it does anything.
local function pay(state, value, name)
  local of = kind(value)
  if of == "s" then
    if not NO_TEXT[name] then spend(state, #value) end
  elseif of == "l" then
    if not NO_LIST[name] then step(state, value.n) end
  end
end
