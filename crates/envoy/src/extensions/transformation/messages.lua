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

-- Whether the value of a change is made of the body, by the first of its instructions.
local function asks(item)
  local first = item[item[1] == "meta" and 4 or item[1] == "body" and 2 or 3]
  return first == "V" or first == "W", first == "V"
end

local function make(state, items)
  local made = {}
  for _, item in ipairs(items) do
    local kind, name = item[1], item[2]
    local change = { kind = kind, name = name }
    local is_asked, is_json = asks(item)
    if kind == "body" and state.is_told then
      -- Of a body that nobody makes nobody knows how long it would be, and it would not be encoded.
      made[#made + 1] = { kind = "remove", name = "content-encoding" }
      change = { kind = "remove", name = "content-length" }
    elseif kind == "read" or state.bare and (is_asked or kind == "body") then
      -- Nothing is said of a body that cannot be there.
      change = nil
    elseif kind == "body" then
      change.value = is_json and state.json == nil and "" or evaluate(state, item, 2)
    elseif kind == "meta" then
      change.key = item[3]
      change.value = evaluate(state, item, 4)
      -- Envoy would cut it there.
      if find(change.value, "%z") then error(BAD, 0) end
    elseif kind ~= "remove" then
      assert(kind == "set" or kind == "add")
      change.value = checked(state, name, evaluate(state, item, 3))
    end
    made[#made + 1] = change
  end
  return made
end

-- Puts a text in place of the body. What was said of the one that came does not hold of it.
local function replace_body(handle, state, value)
  if not state.buffer and value == "" then return end
  local buffer = state.buffer or handle:body(true)
  buffer:setBytes(value)
  state.headers:remove("content-encoding")
  if value == "" then state.headers:remove("content-type") end
end

local function change(handle, state, made)
  local headers = state.headers
  for _, change in ipairs(made) do
    local value = change.value
    if change.kind == "body" then
      replace_body(handle, state, value)
    elseif change.kind == "remove" or (change.kind == "set" and value == "") then
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

local function new_state(headers, kept)
  return { headers = headers, left = MOST_BYTES, steps = MOST_STEPS, kept = kept }
end

-- How the body is needed; none where it is not.
local function needs(items)
  local first = items[1]
  return first and first[1] == "read" and first[2] or nil
end

-- Waits for all of the body, and reads it as `how` says.
local function read_body(handle, state, how)
  local size = tonumber(state.headers:get("content-length") or "")
  if size and size > MOST_BODY then error(LARGE, 0) end
  local encoding = state.headers:get("content-encoding")
  if how ~= "w" and encoding and lower(encoding) ~= "identity" then error(BAD, 0) end
  state.buffer = handle:body()
  state.headers = handle:headers()
  local length = state.buffer and state.buffer:length() or 0
  if length > MOST_BODY then error(LARGE, 0) end
  local bytes = length > 0 and how ~= "w" and state.buffer:getBytes(0, length) or ""
  state.left = state.left + 4 * length
  if how == "j" and bytes ~= "" then
    local json = decode_json(state, bytes)
    -- As if there were none.
    if json ~= NONE then state.json = json end
  end
  state.text = readable(bytes)
end

-- Whether a request leads to a tunnel, which has no end.
local function is_tunnel(headers)
  return headers:get(":method") == "CONNECT" or headers:get("upgrade") ~= nil
end

local function on_request(handle)
  local all = said(handle)
  local state = new_state(handle:headers())
  local how = needs(all[2])
  if how then
    if is_tunnel(state.headers) then error(BAD, 0) end
    read_body(handle, state, how)
  end
  local made = make(state, all[2])
  if needs(all[3]) then
    local is_head = state.headers:get(":method") == "HEAD"
    handle:streamInfo():dynamicMetadata():set(KEPT, "head", is_head and "yes" or "no")
  end
  if #all[4] > 0 then
    local kept = {}
    for index, item in ipairs(all[4]) do
      local text = evaluate(state, item, 1)
      if find(text, "%z") then error(BAD, 0) end
      kept[index] = text
    end
    handle:streamInfo():dynamicMetadata():set(KEPT, "request", kept)
  end
  change(handle, state, made)
end

-- Statuses of responses that shall have no body. Envoy sends one on all the same where a backend sends it.
local BARE = { ["204"] = true, ["205"] = true, ["304"] = true }

local function lacks_body(handle, state)
  state.buffer = handle:body()
  -- Those from before are gone where it was waited for.
  state.headers = handle:headers()
  return not state.buffer or state.buffer:length() == 0
end

local function on_response(handle, state)
  local all = said(handle)
  if #all[3] == 0 then return end
  local kept = handle:streamInfo():dynamicMetadata():get(KEPT)
  state.headers, state.kept = handle:headers(), kept and kept.request
  local how, status = needs(all[3]), state.headers:get(":status")
  if how then
    local is_head = kept and kept.head == "yes"
    -- A filter before has answered where nothing was kept.
    state.bare = not kept or kept.head ~= "no" or tonumber(status) < 200 or BARE[status] and lacks_body(handle, state)
    -- Whether it tells of a body that another response would have.
    state.is_told = is_head or state.bare and status == "304"
    if not state.bare then read_body(handle, state, how) end
  end
  change(handle, state, make(state, all[3]))
end

function envoy_on_request(handle)
  local done, why = pcall(on_request, handle)
  if done then return end
  if why == BAD or why == LARGE then
    handle:respond({ [":status"] = why == BAD and "400" or "413" }, "")
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
  local state = new_state()
  local done, why = pcall(on_response, handle, state)
  if done then return end
  if why ~= BAD and why ~= LARGE then handle:logErr("transformation: " .. tostring(why)) end
  local headers = handle:headers()
  clear(headers)
  headers:replace(":status", "500")
  if state.buffer then
    state.buffer:setBytes("")
  else
    for chunk in handle:bodyChunks() do chunk:setBytes("") end
  end
  local trailers = handle:trailers()
  if trailers then clear(trailers) end
end
