-- What takes as many values from the stack as it says and puts a text there. All of them are texts, which are paid before.
local CALLS = {
  h = { 1, function(state, name) return concat(values(state, name), ", ") end },
  c = { 1, function(state, name) return cookies(state).exact[name] or "" end },
  i = { 1, function(state, name) return cookies(state).folded[lower(name)] or "" end },
  e = { 1, function(state, text) return encode(state, text, STANDARD) end },
  d = { 1, function(state, text) return decode(text, STANDARD) end },
  E = { 1, function(state, text) return encode(state, text, URL) end },
  D = { 1, function(state, text) return decode(text, URL) end },
  r = { 1, raw },
  s = { 3, replace },
  x = { 2, function(state, text, sought) return replace(state, text, sought, random(state)) end },
}

local function substring(state, text, start, length)
  local first, last = start + 1, #text
  if length and start + length <= last then last = start + length end
  -- No half characters.
  while continues(text, first) do first = first + 1 end
  while continues(text, last + 1) do last = last - 1 end
  spend(state, math.max(0, last - first + 1))
  return sub(text, first, last)
end

-- The place where a part begins or ends that may be counted from the end.
local function bound(value, count, otherwise)
  if value == NONE then return otherwise end
  local number = whole_of(value)
  return number < 0 and math.max(0, count + number) or number
end

local function slice(state, value, first, last, by)
  local of = kind(value)
  if of == "u" or of == "n" then return list({}) end
  if of ~= "s" and of ~= "l" then error(BAD, 0) end
  local items, out, count = iterate(state, value), {}, 0
  by = bound(by, 0, 1)
  if by < 1 then error(BAD, 0) end
  for index = bound(first, items.n, 0) + 1, math.min(bound(last, items.n, items.n), items.n), by do
    step(state)
    count = count + 1
    out[count] = items[index]
  end
  return of == "s" and concat(out) or made(out, count)
end

-- What a loop says of itself.
local function loop_of(frame)
  return {
    kind = "o",
    says = function(name)
      local index, count = frame.index, frame.items.n
      if name == "index" then return index end
      if name == "index0" then return index - 1 end
      if name == "first" then return index == 1 end
      if name == "previtem" then return frame.items[index - 1] end
      if name == "nextitem" then return frame.items[index + 1] end
      -- How many characters a text has is not known.
      if frame.is_text then
        if name == "last" then return false end
        return nil
      end
      if name == "revindex" then return count - index + 1 end
      if name == "revindex0" then return count - index end
      if name == "length" then return count end
      if name == "last" then return index == count end
    end,
  }
end

local function variable(state, frames, name)
  for index = #frames, 1, -1 do
    local frame = frames[index]
    local value = frame.locals[name]
    if value ~= nil then return value end
    if name == "loop" and frame.is_loop then return frame.loop end
  end
  local value
  if kind(state.json) == "m" then value = state.json.of[name] end
  if value == nil then return UNDEFINED end
  return value
end

local CONSTANTS = { t = true, f = false, n = NONE, u = UNDEFINED }

-- Instructions that take values from the stack and put one there: how many, and what they make.
local MADE = {
  ["."] = { 1, function(state, name, value) return item_of(state, value, name) end },
  ["["] = { 2, function(state, _, value, key) return item_of(state, value, key) end },
  [":"] = { 4, function(state, _, value, first, last, by) return slice(state, value, first, last, by) end },
  ["!"] = { 1, function(_, _, value) return not is_true(value) end },
  ["-"] = { 1, function(_, _, value) return negative(value) end },
  o = {
    2,
    function(state, sign, a, b)
      pay(state, a, "o" .. sign)
      pay(state, b, "o" .. sign)
      return OPERATORS[sign](state, a, b)
    end,
  },
  q = {
    3,
    function(state, _, text, start, length)
      if type(text) ~= "string" then error(BAD, 0) end
      start, length = whole_of(start), optional(length, nil)
      length = length and whole_of(length)
      if start < 0 or length and length < 0 then error(BAD, 0) end
      return substring(state, text, start, length)
    end,
  },
}

-- What the instructions of `item` from `first` on make.
local function evaluate(state, item, first)
  local stack, top, at, count = {}, 0, first, #item
  local frames = { { locals = {} } }
  local out
  while at <= count do
    step(state)
    local instruction = item[at]
    at = at + 1
    local letter, operand = sub(instruction, 1, 1), sub(instruction, 2)
    local call, made = CALLS[letter], MADE[letter]
    if letter == "=" then
      top = top + 1
      stack[top] = operand
    elseif call then
      top = top - call[1] + 1
      for index = top, top + call[1] - 1 do
        if type(stack[index]) ~= "string" then error(BAD, 0) end
        spend(state, #stack[index])
      end
      stack[top] = call[2](state, stack[top], stack[top + 1], stack[top + 2])
    elseif made then
      top = top - made[1] + 1
      stack[top] = made[2](state, operand, stack[top], stack[top + 1], stack[top + 2], stack[top + 3])
    elseif letter == "~" then
      local parts = assert(tonumber(operand))
      top = top - parts + 1
      for index = top, top + parts - 1 do
        stack[index] = text_of(state, stack[index])
        spend(state, #stack[index])
      end
      stack[top] = concat(stack, "", top, top + parts - 1)
    elseif letter == "u" then
      local start, length = string.match(operand, "^(%d+):(%d*)$")
      if type(stack[top]) ~= "string" then error(BAD, 0) end
      stack[top] = substring(state, stack[top], assert(tonumber(start)), tonumber(length))
    elseif letter == "k" then
      top = top + 1
      stack[top] = state.kept and state.kept[assert(tonumber(operand))] or ""
    elseif letter == "v" then
      top = top + 1
      stack[top] = variable(state, frames, operand)
    elseif letter == "#" then
      top = top + 1
      stack[top] = assert(tonumber(operand))
    elseif letter == "%" then
      top = top + 1
      pay_number(state, operand)
      stack[top] = fraction(assert(tonumber(operand)))
    elseif letter == "@" then
      top = top + 1
      stack[top] = CONSTANTS[operand]
    elseif letter == "|" or letter == "?" then
      local parts, name = string.match(operand, "^(%d)(%l+)$")
      local by = assert((letter == "|" and FILTERS or TESTS)[name])
      top = top - parts + 1
      for index = top, top + parts - 1 do pay(state, stack[index], letter .. name) end
      stack[top] = by(state, stack[top], stack[top + 1], stack[top + 2], stack[top + 3])
    elseif letter == "l" then
      local parts, items = assert(tonumber(operand)), {}
      step(state, parts)
      top = top - parts + 1
      for index = 1, parts do items[index] = stack[top + index - 1] end
      stack[top] = list(items, parts)
    elseif letter == "m" then
      local parts, of = assert(tonumber(operand)), {}
      step(state, 4 * parts)
      top = top - parts * 2 + 1
      for index = top, top + parts * 2 - 2, 2 do of[stack[index]] = stack[index + 1] end
      stack[top] = map(of)
    elseif letter == ">" then
      local text = text_of(state, stack[top])
      spend(state, #text)
      top = top - 1
      out[#out + 1] = text
    elseif letter == "<" then
      out = {}
    elseif letter == "J" then
      at = first + operand
    elseif letter == "F" then
      if not is_true(stack[top]) then at = first + operand end
      top = top - 1
    elseif letter == "A" or letter == "O" then
      if is_true(stack[top]) == (letter == "O") then at = first + operand else top = top - 1 end
    elseif letter == "S" then
      frames[#frames].locals[operand] = stack[top]
      top = top - 1
    elseif letter == "U" then
      local items, parts = iterate(state, stack[top]), assert(tonumber(operand))
      if items.n ~= parts then error(BAD, 0) end
      for index = 1, parts do stack[top + index - 1] = items[parts - index + 1] end
      top = top + parts - 1
    elseif letter == "L" then
      local frame = { locals = {}, index = 0, items = iterate(state, stack[top]), is_loop = operand == "", kept = {} }
      frame.is_text = type(stack[top]) == "string"
      frame.loop = loop_of(frame)
      frames[#frames + 1] = frame
      top = top - 1
    elseif letter == "I" then
      local frame = frames[#frames]
      if frame.index == frame.items.n then
        at = first + operand
      else
        frame.index, frame.locals = frame.index + 1, {}
        top = top + 1
        stack[top] = frame.items[frame.index]
      end
    elseif letter == "K" then
      local frame = frames[#frames]
      if is_true(stack[top]) then frame.kept[#frame.kept + 1] = frame.items[frame.index] end
      top = top - 1
    elseif letter == "P" then
      local frame = frames[#frames]
      frames[#frames] = nil
      if operand ~= "" then
        top = top + 1
        stack[top] = operand == "k" and list(frame.kept) or frame.index == 0
      end
    elseif letter == "B" then
      top = top + 1
      stack[top] = state.text or ""
    elseif letter == "X" then
      top = top + 1
      stack[top] = state.json == nil and UNDEFINED or state.json
    elseif letter == "V" or letter == "W" then
      -- Says that the body is read, and whether there must be JSON.
      if letter == "V" and state.json == nil then error(BAD, 0) end
    else
      error("no such instruction")
    end
  end
  if out then
    assert(top == 0)
    return concat(out)
  end
  assert(top == 1)
  return text_of(state, stack[1])
end
