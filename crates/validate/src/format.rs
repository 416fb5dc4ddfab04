//! Texts in which Envoy fills something in (its command operators), such as `%PROTOCOL%`.

use serde_json::Value;

use super::{Invalid, is_token_byte};

/// Operators that take nothing, and that Envoy knows wherever an answer is written.
pub const PLAIN: &[&str] = &[
    "BYTES_RECEIVED",
    "CONNECTION_ID",
    "DOWNSTREAM_LOCAL_ADDRESS",
    "DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_LOCAL_PORT",
    "DOWNSTREAM_REMOTE_ADDRESS",
    "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_REMOTE_PORT",
    "HOSTNAME",
    "LOCAL_REPLY_BODY",
    "PROTOCOL",
    "REQUESTED_SERVER_NAME",
    "RESPONSE_CODE",
    "RESPONSE_CODE_DETAILS",
    "RESPONSE_FLAGS",
    "ROUTE_NAME",
    "START_TIME",
    "STREAM_ID",
];

/// Accepts a text whose operators Envoy fills in: those without parameters that are listed here, and `%REQ(NAME)%`,
/// `%REQ(NAME?OTHER)%` and `%REQ(NAME):LENGTH%`. Two percent signs stand for one.
pub fn text(text: &str) -> Result<(), Invalid> {
    written(text, is_known)
}

/// Operators that take nothing, and that Envoy knows beside [`PLAIN`] where a request is logged.
pub const LOGGED: &[&str] = &[
    "ACCESS_LOG_TYPE",
    "CONNECTION_TERMINATION_DETAILS",
    "DOWNSTREAM_DIRECT_REMOTE_ADDRESS",
    "DOWNSTREAM_HEADER_BYTES_RECEIVED",
    "DOWNSTREAM_HEADER_BYTES_SENT",
    "DOWNSTREAM_TLS_CIPHER",
    "DOWNSTREAM_TLS_VERSION",
    "DOWNSTREAM_TRANSPORT_FAILURE_REASON",
    "DOWNSTREAM_WIRE_BYTES_RECEIVED",
    "DOWNSTREAM_WIRE_BYTES_SENT",
    "DURATION",
    "FILTER_CHAIN_NAME",
    "GRPC_STATUS",
    "GRPC_STATUS_NUMBER",
    "REQUEST_DURATION",
    "REQUEST_TX_DURATION",
    "RESPONSE_DURATION",
    "RESPONSE_FLAGS_LONG",
    "RESPONSE_TX_DURATION",
    "TRACE_ID",
    "UPSTREAM_CLUSTER",
    "UPSTREAM_CLUSTER_RAW",
    "UPSTREAM_HEADER_BYTES_RECEIVED",
    "UPSTREAM_HEADER_BYTES_SENT",
    "UPSTREAM_HOST",
    "UPSTREAM_LOCAL_ADDRESS",
    "UPSTREAM_REMOTE_ADDRESS",
    "UPSTREAM_REQUEST_ATTEMPT_COUNT",
    "UPSTREAM_TRANSPORT_FAILURE_REASON",
    "UPSTREAM_WIRE_BYTES_RECEIVED",
    "UPSTREAM_WIRE_BYTES_SENT",
    "VIRTUAL_CLUSTER_NAME",
];

/// The most operators in what one log says of a request: each may fill in as much as a request brings.
pub const MAX_OPERATORS: usize = 64;

/// How many bytes are told of a header where a format does not say how many, as it would say so.
const LOGGED_BYTES: &str = ":4096";

/// Accepts what a log says of a request: what [`text`] accepts, [`LOGGED`], and `%RESP(NAME)%` and `%TRAILER(NAME)%` as
/// `%REQ(NAME)%`. What tells of the proxy's own environment is not among them.
///
/// The operators are counted in `operators`, [`MAX_OPERATORS`] at most, and what is given back tells no more than 4096 bytes of
/// a header where the text does not say how many, so that no request makes a line of any length.
pub fn log_text(text: &str, operators: &mut usize) -> Result<String, Invalid> {
    written(text, is_logged)?;
    let mut cut = String::with_capacity(text.len());
    for (index, piece) in text.split('%').enumerate() {
        let is_operator = index % 2 == 1;
        if index > 0 {
            cut.push('%');
        }
        cut.push_str(piece);
        if is_operator && piece.ends_with(')') {
            cut.push_str(LOGGED_BYTES);
        }
        *operators += usize::from(is_operator && !piece.is_empty());
    }
    if *operators > MAX_OPERATORS {
        let why = format!("a log has {MAX_OPERATORS} operators at most");
        return Err(Invalid::new(text, why, "leave some out"));
    }
    Ok(cut)
}

/// The same of a JSON object.
pub fn log_json(json: &Value, operators: &mut usize) -> Result<Value, Invalid> {
    below_with(json, MAX_LEVELS, is_logged).map_err(|refused| refused.unwrap_or_else(|| too_deep(json)))?;
    cut(json, operators)
}

fn cut(json: &Value, operators: &mut usize) -> Result<Value, Invalid> {
    Ok(match json {
        Value::String(text) => Value::String(log_text(text, operators)?),
        Value::Array(list) => list.iter().map(|value| cut(value, operators)).collect::<Result<_, _>>()?,
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| Ok((name.clone(), cut(value, operators)?)));
            Value::Object(fields.collect::<Result<_, Invalid>>()?)
        }
        other => other.clone(),
    })
}

fn is_logged(operator: &str) -> bool {
    is_known(operator)
        || LOGGED.contains(&operator)
        || ["RESP", "TRAILER"].iter().any(|name| operator.strip_prefix(name).is_some_and(is_of_header))
}

fn written(text: &str, is_known: fn(&str) -> bool) -> Result<(), Invalid> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('%') {
        if let Some(after) = after.strip_prefix('%') {
            rest = after;
            continue;
        }
        let Some((operator, after)) = after.split_once('%') else {
            return Err(Invalid::new(
                text,
                "a percent sign begins an operator that does not end",
                "write %% for the sign",
            ));
        };
        if !is_known(operator) {
            let why = format!("%{}% is not an operator that is known here", super::shown(operator));
            return Err(Invalid::new(text, why, "use one such as %PROTOCOL% or %REQ(NAME)%, or write %% for the sign"));
        }
        rest = after;
    }
    Ok(())
}

/// The most levels of a JSON body, mappings and lists counted alike.
///
/// Envoy reads 100 messages in each other. A mapping is three of them, and four stand around the body, which makes 32
/// levels at most; what is left is for what stands around a route in times to come.
pub const MAX_LEVELS: usize = 30;

/// Accepts a JSON body: not too deep, and every text in it one that [`text`] accepts.
pub fn json(body: &Value) -> Result<(), Invalid> {
    below_with(body, MAX_LEVELS, is_known).map_err(|refused| refused.unwrap_or_else(|| too_deep(body)))
}

fn too_deep(body: &Value) -> Invalid {
    let why = format!("it nests more than {MAX_LEVELS} levels deep, which Envoy cannot read");
    Invalid::new(&body.to_string(), why, "flatten it")
}

/// Fails without a word where there are more levels.
fn below_with(value: &Value, levels: usize, is_known: fn(&str) -> bool) -> Result<(), Option<Invalid>> {
    match value {
        Value::String(text) => written(text, is_known).map_err(Some),
        Value::Array(_) | Value::Object(_) if levels == 0 => Err(None),
        Value::Array(list) => list.iter().try_for_each(|value| below_with(value, levels - 1, is_known)),
        Value::Object(fields) => fields.values().try_for_each(|value| below_with(value, levels - 1, is_known)),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn is_known(operator: &str) -> bool {
    if PLAIN.contains(&operator) {
        return true;
    }
    operator.strip_prefix("REQ").is_some_and(is_of_header)
}

/// Whether it is `(NAME)`, `(NAME?OTHER)`, and perhaps `:LENGTH`.
fn is_of_header(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix('(') else { return false };
    let Some((names, length)) = rest.split_once(')') else { return false };
    let length = length.is_empty()
        || length
            .strip_prefix(':')
            .is_some_and(|digits| (1..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit()));
    let mut names = names.split('?');
    let is_name = |name: &str| {
        let name = name.strip_prefix(':').unwrap_or(name);
        !name.is_empty() && name.bytes().all(is_token_byte)
    };
    let (first, second) = (names.next(), names.next());
    length && first.is_some_and(is_name) && second.is_none_or(is_name) && names.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::{MAX_OPERATORS, log_json, log_text, text};

    #[test]
    fn a_log_says_a_bounded_amount_of_a_request() {
        let cut = |format: &str| log_text(format, &mut 0).expect("sound");
        assert_eq!(cut("%REQ(a)%%PROTOCOL%%%%RESP(b?c):9%"), "%REQ(a):4096%%PROTOCOL%%%%RESP(b?c):9%");
        assert_eq!(cut("50%% (a)"), "50%% (a)");
        let json = serde_json::json!({"a": ["%TRAILER(b)%", 1]});
        assert_eq!(log_json(&json, &mut 0).expect("sound"), serde_json::json!({"a": ["%TRAILER(b):4096%", 1]}));
        let most = "%PROTOCOL%".repeat(MAX_OPERATORS);
        assert!(log_text(&most, &mut 0).is_ok());
        assert!(log_text(&most, &mut 1).is_err(), "what stands before counts too");
    }

    #[test]
    fn only_operators_that_envoy_knows_pass() {
        for sound in
            ["", "100%%", "%RESPONSE_CODE%: %REQ(:path)% %REQ(x-a?x-b):12%", "%%%PROTOCOL%%%", "%START_TIME%%HOSTNAME%"]
        {
            assert!(text(sound).is_ok(), "{sound}");
        }
        for broken in [
            "100%",
            "%",
            "%%%",
            "% %",
            "%UNKNOWN%",
            "%REQ()%",
            "%REQ(a?b?c)%",
            "%REQ(a b)%",
            "%REQ(a):%",
            "%REQ(a)",
            "%PROTOCOL()%",
        ] {
            assert!(text(broken).is_err(), "{broken}");
        }
    }
}
