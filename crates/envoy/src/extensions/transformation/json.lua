-- Reads JSON as serde_json does. What is no JSON is an error.

local MOST_NESTED = 127
local UNESCAPED = { ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

local function utf8(code)
  if code < 128 then return char(code) end
  if code < 2048 then return char(192 + floor(code / 64), 128 + code % 64) end
  if code < 65536 then return char(224 + floor(code / 4096), 128 + floor(code / 64) % 64, 128 + code % 64) end
  return char(
    240 + floor(code / 262144), 128 + floor(code / 4096) % 64, 128 + floor(code / 64) % 64, 128 + code % 64
  )
end

local function hex(text, at)
  local code = string.match(text, "^%x%x%x%x", at)
  if not code then error(BAD, 0) end
  return tonumber(code, 16)
end

-- A text from behind its quote on, and where what follows begins.
local function json_text(text, at)
  local plain = find(text, '[%z\1-\31"\\]', at)
  if not plain then error(BAD, 0) end
  if byte(text, plain) == 34 then return sub(text, at, plain - 1), plain + 1 end
  local out = {}
  while true do
    out[#out + 1] = sub(text, at, plain - 1)
    local sign = byte(text, plain)
    if sign == 34 then return concat(out), plain + 1 end
    if sign ~= 92 then error(BAD, 0) end
    local letter = sub(text, plain + 1, plain + 1)
    at = plain + 2
    if letter == "u" then
      local code = hex(text, at)
      at = at + 4
      if code >= 55296 and code < 56320 then
        if sub(text, at, at + 1) ~= "\\u" then error(BAD, 0) end
        local low = hex(text, at + 2)
        if low < 56320 or low > 57343 then error(BAD, 0) end
        code, at = 65536 + (code - 55296) * 1024 + low - 56320, at + 6
      elseif code >= 56320 and code < 57344 then
        error(BAD, 0)
      end
      out[#out + 1] = utf8(code)
    else
      out[#out + 1] = UNESCAPED[letter] or error(BAD, 0)
    end
    plain = find(text, '[%z\1-\31"\\]', at)
    if not plain then error(BAD, 0) end
  end
end

local function is_up_to(number, most)
  return #number < #most or #number == #most and number <= most
end

local function json_number(state, text, at)
  -- What most numbers are.
  local _, last = find(text, "^[1-9]%d*", at)
  if last and last - at < 15 then
    local sign = byte(text, last + 1)
    if sign == 44 or sign == 93 or sign == 125 then return tonumber(sub(text, at, last)), last + 1 end
  end
  _, last = find(text, "^-?%d+", at)
  if not last or find(text, "^-?0%d", at) then error(BAD, 0) end
  local _, point = find(text, "^%.%d+", last + 1)
  local _, power = find(text, "^[eE][+-]?%d+", (point or last) + 1)
  local stop = power or point or last
  if find(text, "^[%w%.+-]", stop + 1) then error(BAD, 0) end
  local said = sub(text, at, stop)
  pay_number(state, said)
  local number = tonumber(said)
  if not (point or power) and said ~= "-0" then
    if number > -MOST_WHOLE and number < MOST_WHOLE then return number, stop + 1 end
    local of = gsub(said, "-", "")
    if is_up_to(of, of == said and "18446744073709551615" or "9223372036854775808") then
      return { kind = "b", digits = said }, stop + 1
    end
  end
  if number - number ~= 0 then error(BAD, 0) end
  return fraction(number), stop + 1
end

local WORDS = { t = { "true", true }, f = { "false", false }, n = { "null", NONE } }

local json_value

local function json_list(state, text, at, depth)
  local all, count = {}, 0
  at = find(text, "[^ \n\r\t]", at)
  if byte(text, at or 0) == 93 then return list(all, 0), at + 1 end
  while at do
    count = count + 1
    all[count], at = json_value(state, text, at, depth)
    at = find(text, "[^ \n\r\t]", at)
    local sign = at and byte(text, at)
    if sign == 93 then return list(all, count), at + 1 end
    if sign ~= 44 then break end
    at = at + 1
  end
  error(BAD, 0)
end

local function json_map(state, text, at, depth)
  local of = {}
  at = find(text, "[^ \n\r\t]", at)
  if byte(text, at or 0) == 125 then return map(of), at + 1 end
  while at and byte(text, at) == 34 do
    local key
    key, at = json_text(text, at + 1)
    at = find(text, "[^ \n\r\t]", at)
    if byte(text, at or 0) ~= 58 then break end
    of[key], at = json_value(state, text, at + 1, depth)
    at = find(text, "[^ \n\r\t]", at)
    local sign = at and byte(text, at)
    if sign == 125 then return map(of), at + 1 end
    if sign ~= 44 then break end
    at = find(text, "[^ \n\r\t]", at + 1)
  end
  error(BAD, 0)
end

function json_value(state, text, at, depth)
  at = find(text, "[^ \n\r\t]", at)
  local sign = at and sub(text, at, at)
  if sign == '"' then return json_text(text, at + 1) end
  if sign == "{" or sign == "[" then
    if depth >= MOST_NESTED then error(BAD, 0) end
    local read = sign == "{" and json_map or json_list
    return read(state, text, at + 1, depth + 1)
  end
  local word = WORDS[sign]
  if word then
    if sub(text, at, at + #word[1] - 1) ~= word[1] then error(BAD, 0) end
    return word[2], at + #word[1]
  end
  if not at then error(BAD, 0) end
  return json_number(state, text, at)
end

local function decode_json(state, text)
  if not is_utf8(text) then error(BAD, 0) end
  local value, at = json_value(state, text, 1, 0)
  if find(text, "[^ \n\r\t]", at) then error(BAD, 0) end
  return value
end
