-- Refuses a body of more bytes than a route says. A filter in front has waited for all of it, or it is here in one piece.

-- Whether a request leads to a tunnel, which has no end. Judges are not shown any of it either.
local function is_tunnel(headers)
  if headers:get(":method") == "CONNECT" then return true end
  local upgrade, connection = headers:get("upgrade"), headers:get("connection")
  return upgrade and connection and upgrade:lower() == "websocket" and connection:lower():find("upgrade", 1, true)
end

local function is_short(handle)
  if is_tunnel(handle:headers()) then return true end
  local body = handle:body()
  return not body or body:length() <= handle:filterContext():get("t")
end

function envoy_on_request(handle)
  local ran, fits = pcall(is_short, handle)
  -- Envoy goes on where a program fails.
  if not ran then
    handle:respond({ [":status"] = "500" }, "")
  elseif not fits then
    handle:respond({ [":status"] = "413" }, "Payload Too Large")
  end
end
