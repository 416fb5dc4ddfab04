-- Changes headers as routes say. The program is the same for all: what a route says is data, its filter context, and is
-- never run. `crates/units/src/transformation/program.rs` writes it.
--
-- A context has one field, `t`: the version of its form, changes of the request, changes of the response, and what is
-- kept of the request for the response. A change is `set`, `add` or `remove` with a name, or `meta` with a namespace and a
-- key, and then the instructions that make its value, for a machine with a stack: a letter, and what belongs to it.
--
-- All values are made before anything is changed. An error that leaves a script lets the request pass unchanged, so none
-- does: a request for which a value cannot be made is answered.

local VERSION = "1"
local KEPT = "portcullis.transformation"
-- Bytes that one direction may make and read.
local MOST_BYTES = 262144
-- Longest text that is looked for.
local MOST_SOUGHT = 256

-- Says that what was asked for cannot stand where it shall.
local BAD = {}

local byte, char, concat, find, floor, gsub, lower, sub =
  string.byte, string.char, table.concat, string.find, math.floor, string.gsub, string.lower, string.sub

local function spend(state, bytes)
  state.left = state.left - bytes
  if state.left < 0 then error(BAD, 0) end
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

local function is_utf8(text)
  local at = find(text, "[\128-\255]")
  while at do
    local a, b = byte(text, at, at + 1)
    b = b or 0
    local more
    if a >= 194 and a <= 223 then
      more = 1
    elseif a >= 224 and a <= 239 then
      more = 2
      if (a == 224 and b < 160) or (a == 237 and b > 159) then return false end
    elseif a >= 240 and a <= 244 then
      more = 3
      if (a == 240 and b < 144) or (a == 244 and b > 143) then return false end
    else
      return false
    end
    for index = at + 1, at + more do
      if not continues(text, index) then return false end
    end
    at = find(text, "[\128-\255]", at + more + 1)
  end
  return true
end

-- The values of a header; one that is not UTF-8 counts as none.
local function values(state, name)
  local all = {}
  if name == "" then return all end
  for index = 0, state.headers:getNumValues(name) - 1 do
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
local function decode(state, text, by)
  spend(state, #text)
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
    return with .. gsub(text, "[^\128-\191][\128-\191]*", function(character) return character .. with end)
  end
  local out, from = {}, 1
  while true do
    local first, last = find(text, sought, from, true)
    if not first then break end
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
  RANDOM = RANDOM or assert(io.open("/dev/urandom", "rb"))
  local bytes = RANDOM:read(16)
  assert(bytes and #bytes == 16)
  return sub(encode(state, bytes, STANDARD), 1, 22)
end

local ESCAPES = {
  ['"'] = '\\"', ["\\"] = "\\\\", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t",
}

local function escape(character)
  return ESCAPES[character] or string.format("\\u%04x", byte(character))
end

local function raw(state, text)
  spend(state, #text)
  local _, escaped = gsub(text, '[%z\1-\31"\\]', "")
  spend(state, escaped * 5)
  return (gsub(text, '[%z\1-\31"\\]', escape))
end

-- What takes as many texts from the stack as it says and puts one there.
local CALLS = {
  h = { 1, function(state, name) return concat(values(state, name), ", ") end },
  c = { 1, function(state, name) return cookies(state).exact[name] or "" end },
  i = { 1, function(state, name) return cookies(state).folded[lower(name)] or "" end },
  e = { 1, function(state, text) return encode(state, text, STANDARD) end },
  d = { 1, function(state, text) return decode(state, text, STANDARD) end },
  E = { 1, function(state, text) return encode(state, text, URL) end },
  D = { 1, function(state, text) return decode(state, text, URL) end },
  r = { 1, raw },
  s = { 3, replace },
  x = { 2, function(state, text, sought) return replace(state, text, sought, random(state)) end },
}

local function substring(text, start, length)
  local first, last = start + 1, #text
  if length and start + length <= last then last = start + length end
  -- No half characters.
  while continues(text, first) do first = first + 1 end
  while continues(text, last + 1) do last = last - 1 end
  return sub(text, first, last)
end

-- What the instructions of `item` from `first` on make.
local function evaluate(state, item, first)
  local stack, top = {}, 0
  for index = first, #item do
    local instruction = item[index]
    local letter, operand = sub(instruction, 1, 1), sub(instruction, 2)
    local call = CALLS[letter]
    if call then
      top = top - call[1] + 1
      stack[top] = call[2](state, stack[top], stack[top + 1], stack[top + 2])
      spend(state, #stack[top])
    elseif letter == "=" then
      spend(state, #operand)
      top = top + 1
      stack[top] = operand
    elseif letter == "~" then
      local count = assert(tonumber(operand))
      top = top - count + 1
      local joined = concat(stack, "", top, top + count - 1)
      spend(state, #joined)
      stack[top] = joined
    elseif letter == "u" then
      local start, length = string.match(operand, "^(%d+):(%d*)$")
      stack[top] = substring(stack[top], assert(tonumber(start)), tonumber(length))
      spend(state, #stack[top])
    elseif letter == "k" then
      top = top + 1
      stack[top] = state.kept and state.kept[assert(tonumber(operand))] or ""
      spend(state, #stack[top])
    else
      error("no such instruction")
    end
  end
  assert(top == 1 and type(stack[1]) == "string")
  return stack[1]
end

-- What a part of the start line may be.
local PARTS = {
  [":path"] = function(value) return find(value, "^/[!-\"$-~]*$") end,
  [":authority"] = function(value) return #value <= 255 and find(value, "^[%w%.%-:%[%]_]+$") end,
  -- The other methods change what a message is.
  [":method"] = function(value, was)
    return #value <= 32 and find(value, "^[A-Z][A-Z%-]*$") and value ~= "CONNECT" and was ~= "CONNECT"
      and (value == "HEAD") == (was == "HEAD")
  end,
}

local function checked(state, name, value)
  value = trim(value)
  if find(value, "[%z\1-\8\10-\31\127]") then error(BAD, 0) end
  local part = PARTS[name]
  if part and not part(value, state.headers:get(name)) then error(BAD, 0) end
  return value
end

local function make(state, items)
  local made = {}
  for index, item in ipairs(items) do
    local kind, name = item[1], item[2]
    local change = { kind = kind, name = name }
    if kind == "meta" then
      change.key = item[3]
      change.value = evaluate(state, item, 4)
      -- Envoy would cut it there.
      if find(change.value, "%z") then error(BAD, 0) end
    elseif kind ~= "remove" then
      assert(kind == "set" or kind == "add")
      change.value = checked(state, name, evaluate(state, item, 3))
    end
    made[index] = change
  end
  return made
end

local function change(handle, headers, made)
  for _, change in ipairs(made) do
    local value = change.value
    if change.kind == "remove" or (change.kind == "set" and value == "") then
      headers:remove(change.name)
    elseif value == "" then
      -- Nothing is added.
    elseif change.kind == "meta" then
      handle:streamInfo():dynamicMetadata():set(change.name, change.key, value)
    elseif change.kind == "add" then
      headers:add(change.name, value)
    elseif PARTS[change.name] then
      headers:replace(change.name, value)
    else
      headers:remove(change.name)
      headers:add(change.name, value)
    end
  end
end

local function said(handle)
  local all = handle:filterContext():get("t")
  assert(all[1] == VERSION)
  return all
end

local function on_request(handle)
  local all = said(handle)
  local headers = handle:headers()
  local state = { headers = headers, left = MOST_BYTES }
  local made = make(state, all[2])
  if #all[4] > 0 then
    local kept = {}
    for index, item in ipairs(all[4]) do
      local text = evaluate(state, item, 1)
      if find(text, "%z") then error(BAD, 0) end
      kept[index] = text
    end
    handle:streamInfo():dynamicMetadata():set(KEPT, "request", kept)
  end
  change(handle, headers, made)
end

local function on_response(handle)
  local all = said(handle)
  if #all[3] == 0 then return end
  local headers = handle:headers()
  local kept = handle:streamInfo():dynamicMetadata():get(KEPT)
  local state = { headers = headers, left = MOST_BYTES, kept = kept and kept.request }
  change(handle, headers, make(state, all[3]))
end

function envoy_on_request(handle)
  local done, why = pcall(on_request, handle)
  if done then return end
  if why == BAD then
    handle:respond({ [":status"] = "400" }, "")
  else
    handle:logErr("transformation: " .. tostring(why))
    handle:respond({ [":status"] = "500" }, "")
  end
end

-- Removes all of some headers but what begins with a colon.
local function clear(headers)
  local names = {}
  for name in pairs(headers) do
    if sub(name, 1, 1) ~= ":" then names[#names + 1] = name end
  end
  for _, name in ipairs(names) do headers:remove(name) end
end

-- Envoy lets no script answer here. What the backend said goes, status, headers, body and trailers.
function envoy_on_response(handle)
  local done, why = pcall(on_response, handle)
  if done then return end
  if why ~= BAD then handle:logErr("transformation: " .. tostring(why)) end
  local headers = handle:headers()
  clear(headers)
  headers:replace(":status", "500")
  for chunk in handle:bodyChunks() do chunk:setBytes("") end
  local trailers = handle:trailers()
  if trailers then clear(trailers) end
end
