-- Takes what shows who sends a request out of it, and leaves all else as it was sent. A route says what: pairs of a kind and a
-- name. All that is read is sent by clients, so nothing here takes more than a few looks at each byte.

-- Parameters of a query, or cookies of a header: each takes a worker a third of a microsecond.
local MOST_PARTS = 2000

-- Says that there are more.
local MANY = {}

-- The name of a parameter as Envoy reads it, which finds credentials by it.
local function decoded(name)
  return (name:gsub("%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end))
end

-- What is left of the parts of `text` that `separator` divides, and whether `is_hidden` takes any away.
local function without(text, separator, is_hidden)
  local kept, some, count = {}, false, 0
  for part in (text .. separator):gmatch("([^" .. separator .. "]*)" .. separator) do
    count = count + 1
    if count > MOST_PARTS then error(MANY, 0) end
    if is_hidden(part) then some = true else kept[#kept + 1] = part end
  end
  return table.concat(kept, separator), some
end

local function hide_parameters(headers, names)
  local path = headers:get(":path") or ""
  local start = path:find("?", 1, true)
  if not start then return end
  local query, some = without(path:sub(start + 1), "&", function(part) return names[decoded(part:match("^[^=]*"))] end)
  if not some then return end
  headers:replace(":path", path:sub(1, start - 1) .. (query ~= "" and "?" .. query or ""))
end

-- What begins with something else than a blank; none where there is nothing else.
local function stripped(text)
  local start = text:find("[^ \t]")
  return start and text:sub(start)
end

local function hide_cookies(headers, names)
  local kept, some = {}, false
  for index = 0, headers:getNumValues("cookie") - 1 do
    local cookies, any = without(headers:getAtIndex("cookie", index), ";", function(part)
      local cookie = stripped(part)
      return cookie and names[cookie:match("^[^=]*")]
    end)
    some = some or any
    kept[#kept + 1] = stripped(cookies)
  end
  if not some then return end
  headers:remove("cookie")
  for _, cookies in ipairs(kept) do headers:add("cookie", cookies) end
end

local function hide(handle)
  local names = { header = {}, query = {}, cookie = {} }
  for _, part in ipairs(handle:filterContext():get("t")) do names[part[1]][part[2]] = true end
  local headers = handle:headers()
  for name in pairs(names.header) do headers:remove(name) end
  if next(names.query) then hide_parameters(headers, names.query) end
  if next(names.cookie) then hide_cookies(headers, names.cookie) end
end

function envoy_on_request(handle)
  local done, why = pcall(hide, handle)
  -- Envoy goes on where a program fails.
  if not done then handle:respond({ [":status"] = why == MANY and "400" or "500" }, "") end
end
