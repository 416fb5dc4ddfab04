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
    below(body, MAX_LEVELS).map_err(|refused| {
        refused.unwrap_or_else(|| {
            let why = format!("it nests more than {MAX_LEVELS} levels deep, which Envoy cannot read");
            Invalid::new(&body.to_string(), why, "flatten it")
        })
    })
}

/// Fails without a word where there are more levels.
fn below(value: &Value, levels: usize) -> Result<(), Option<Invalid>> {
    match value {
        Value::String(written) => text(written).map_err(Some),
        Value::Array(_) | Value::Object(_) if levels == 0 => Err(None),
        Value::Array(list) => list.iter().try_for_each(|value| below(value, levels - 1)),
        Value::Object(fields) => fields.values().try_for_each(|value| below(value, levels - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn is_known(operator: &str) -> bool {
    if PLAIN.contains(&operator) {
        return true;
    }
    let Some(rest) = operator.strip_prefix("REQ(") else { return false };
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
    use super::text;

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
