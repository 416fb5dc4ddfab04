//! Names and values of headers, and HTTP methods.

use super::{Invalid, at_most, is_token_byte, is_unchecked, quoted, token};

/// Longest header or query parameter name of Gateway API, in characters.
pub const MAX_NAME: usize = 256;

/// Longest header value of Gateway API, in characters.
pub const MAX_VALUE: usize = 4096;

/// Longest header name or value that Envoy's protos take, in bytes, after [`escape_percent`].
pub const MAX_ENVOY_BYTES: usize = 16_384;

/// Most headers that one filter sets and adds. Envoy takes 1,000 a route, and a rule's come together with a backend's.
pub const MAX_CHANGES: usize = 500;

/// Refuses a filter that sets and adds more headers than Envoy takes.
pub fn changes(count: usize) -> Result<(), Invalid> {
    if count <= MAX_CHANGES {
        return Ok(());
    }
    Err(Invalid::new(
        &count.to_string(),
        format!("one filter sets and adds at most {MAX_CHANGES} headers"),
        "leave some out",
    ))
}

/// A header name to match on, in lower case, as Envoy keeps header names.
///
/// Beyond [`name`], a name without an underscore: listeners refuse requests with such a header, so that the match would
/// never hold. `host` is one that holds: Envoy knows `:authority` by that name too.
pub fn match_name(header: &str) -> Result<String, Invalid> {
    let lower = name(header)?;
    if lower.contains('_') {
        return Err(Invalid::new(
            header,
            "requests with an underscore in the name of a header are refused, so that it would never match",
            "write '-', as clients do",
        ));
    }
    Ok(lower)
}

/// The name of any header, in lower case: an RFC 9110 token of at most 256 characters.
pub fn name(name: &str) -> Result<String, Invalid> {
    if name.starts_with(':') {
        return Err(Invalid::new(
            name,
            "a name that begins with ':' is a pseudo header of HTTP/2, not a header",
            "match on hostname, path or method instead",
        ));
    }
    token(name, "the header name")?;
    at_most(name, MAX_NAME)?;
    Ok(name.to_ascii_lowercase())
}

/// Headers by which one hop of HTTP/1.1 tells where a message ends and what becomes of the connection (RFC 9110 sections
/// 7.6.1 and 8.6, RFC 9112 section 6).
const FRAMING: [&str; 6] =
    ["connection", "content-length", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// The header in which the Gateways that a request came through are noted (RFC 8586), in lower case.
pub const PASSED: &str = "cdn-loop";

/// Accepts the name of something that a header may have as its value: at most as long as the name of a header.
pub fn at_most_name(name: &str) -> Result<(), Invalid> {
    at_most(name, MAX_NAME)
}

/// A header name to set or add, in lower case.
///
/// Beyond [`modifiable_name`], Envoy writes a length that a filter gave and then the body as it is. Whoever reads it
/// takes the rest for another message, and connections to backends are shared by routes of all namespaces.
pub fn settable_name(header: &str) -> Result<String, Invalid> {
    let lower = modifiable_name(header)?;
    unless_framing(header, &lower)?;
    Ok(lower)
}

/// A header name to copy from one message into another, in lower case: what frames the one does not fit the other.
pub fn copied_name(header: &str) -> Result<String, Invalid> {
    let lower = name(header)?;
    unless_framing(header, &lower)?;
    Ok(lower)
}

fn unless_framing(header: &str, lower: &str) -> Result<(), Invalid> {
    if !FRAMING.contains(&lower) {
        return Ok(());
    }
    Err(Invalid::new(
        header,
        "it frames the message or steers the connection, so a value of a filter could pass a body off as a request \
         of its own",
        "leave it to Envoy, which writes what fits the message",
    ))
}

/// A header name that a policy may set in requests, in lower case.
///
/// Beyond [`settable_name`], proxies write some headers themselves and keep those of clients out: by them a proxy is steered,
/// and backends trust them. A request that a proxy sends to another route, as a redirect has it, is not looked at again.
pub fn client_name(header: &str) -> Result<String, Invalid> {
    let lower = settable_name(header)?;
    if is_of_proxy(&lower) {
        return Err(Invalid::new(
            header,
            "it steers the proxy, or is what backends know of it alone, and a client cannot send it",
            "use another name, of letters, digits and dashes",
        ));
    }
    Ok(lower)
}

/// The names that [`is_of_proxy`] tells by nothing but themselves.
pub const OF_PROXY: [&str; 4] = ["x-forwarded-client-cert", "x-forwarded-for", "x-forwarded-proto", "x-request-id"];

/// Whether a proxy keeps a header of this name, in lower case, from its clients: it writes it itself, or refuses it.
pub fn is_of_proxy(lower: &str) -> bool {
    lower.starts_with("x-envoy-") || lower.contains('_') || OF_PROXY.contains(&lower)
}

/// A header name to remove, in lower case.
///
/// Beyond [`name`], Envoy refuses a whole configuration that changes `Host`, in requests and in responses, and a request
/// that goes in circles would never end if [`PASSED`] could be changed.
pub fn modifiable_name(header: &str) -> Result<String, Invalid> {
    let lower = if header.starts_with(':') {
        return Err(Invalid::new(
            header,
            "a name that begins with ':' is a pseudo header of HTTP/2, which Envoy does not modify",
            "use a URLRewrite filter for host and path",
        ));
    } else {
        name(header)?
    };
    if lower == "host" {
        return Err(Invalid::new(
            header,
            "Envoy does not modify the Host header this way",
            "use the hostname of a URLRewrite filter",
        ));
    }
    if lower == PASSED {
        return Err(Invalid::new(
            header,
            "it tells the Gateways that a request came through, so that one that goes in circles ends",
            "leave it to Envoy",
        ));
    }
    Ok(lower)
}

/// Accepts a header value to set or add, and gives it back as Envoy's formatter must get it, with `%` doubled.
///
/// Printable characters with blanks and tabs between them; obsolete text outside ASCII passes. Blanks at the ends do
/// not survive HTTP/1.1 and make an HTTP/2 peer reset the stream, so they are refused like control characters.
pub fn value(value: &str) -> Result<String, Invalid> {
    if value.is_empty() {
        return Err(Invalid::new(value, "the header value is empty", "give it a value, or remove the header instead"));
    }
    if is_unchecked(value) {
        return Ok(value.to_owned());
    }
    field_value(value)?;
    at_most(value, MAX_VALUE)?;
    let escaped = escape_percent(value);
    if escaped.len() > MAX_ENVOY_BYTES {
        return Err(Invalid::new(
            value,
            format!("the header value is longer than {MAX_ENVOY_BYTES} bytes, each '%' counted twice"),
            "shorten it",
        ));
    }
    Ok(escaped)
}

/// Accepts the value of an exact header match.
///
/// What no header can carry would make a match that never holds; it is refused rather than served.
pub fn match_value(value: &str) -> Result<(), Invalid> {
    if value.is_empty() {
        return Err(Invalid::new(
            value,
            "the header value to match is empty",
            "write the value, or a regular expression that says when the header may be empty",
        ));
    }
    field_value(value)?;
    at_most(value, MAX_VALUE)
}

/// Accepts an HTTP method: one of those that Gateway API names, in capitals.
pub fn method(method: &str) -> Result<(), Invalid> {
    const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
    if METHODS.contains(&method) {
        Ok(())
    } else {
        Err(Invalid::new(method, "it is not a method of Gateway API", format!("use one of {}", METHODS.join(", "))))
    }
}

/// `value` with every `%` doubled, so that Envoy's header formatter takes it as text and not as a command.
pub fn escape_percent(value: &str) -> String {
    value.replace('%', "%%")
}

/// Refuses what no HTTP peer takes in a field value.
fn field_value(value: &str) -> Result<(), Invalid> {
    if let Some(bad) = value.chars().find(|&c| c != '\t' && c.is_control()) {
        return Err(Invalid::new(
            value,
            format!("a header value must not contain {}", quoted(bad)),
            "remove control characters and line breaks",
        ));
    }
    if value.starts_with([' ', '\t']) || value.ends_with([' ', '\t']) {
        return Err(Invalid::new(
            value,
            "a header value must not begin or end with a blank",
            "remove the blanks at its ends",
        ));
    }
    Ok(())
}

/// Whether every byte of `text` may stand in an RFC 9110 token; the empty string is none.
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token_byte)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn names_are_tokens_in_lower_case() {
        assert_eq!(match_name("X-Request-ID").unwrap(), "x-request-id");
        assert_eq!(match_name("Host").unwrap(), "host");
        assert_eq!(match_name(&"x".repeat(256)).unwrap().len(), 256);
        let long = "x".repeat(257);
        for bad in ["", "a b", "a:b", ":path", "é", "a\tb", "a\u{0}", "a\r\nb", "a,b", "(x)", "\"x\"", long.as_str()] {
            assert!(match_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_underscore_is_for_headers_that_envoy_itself_writes() {
        assert!(match_name("x_user").is_err());
        assert_eq!(modifiable_name("X_User").unwrap(), "x_user");
    }

    #[test]
    fn what_envoy_does_not_modify_is_refused_to_modify() {
        assert_eq!(modifiable_name("Content-Length").unwrap(), "content-length");
        for bad in ["Host", "host", "HOST", "CDN-Loop", ":authority", ":path", ":status", ""] {
            assert!(modifiable_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_frames_a_message_is_removed_at_most() {
        for bad in ["Content-Length", "transfer-encoding", "Connection", "UPGRADE", "keep-alive", "Proxy-Connection"] {
            assert!(modifiable_name(bad).is_ok(), "{bad}");
            assert!(settable_name(bad).is_err(), "{bad}");
        }
        for bad in ["Host", ":path", "a b", ""] {
            assert!(settable_name(bad).is_err(), "{bad:?}");
        }
        assert_eq!(settable_name("TE").unwrap(), "te");
        assert_eq!(settable_name("X-Content-Length").unwrap(), "x-content-length");
    }

    #[test]
    fn as_many_headers_change_as_envoy_takes() {
        assert!(changes(0).is_ok() && changes(MAX_CHANGES).is_ok());
        assert!(changes(MAX_CHANGES + 1).is_err());
    }

    #[test]
    fn values_are_one_line_without_blanks_at_the_ends_and_never_a_command() {
        assert_eq!(value("a  b\tc").unwrap(), "a  b\tc");
        assert_eq!(value("100%").unwrap(), "100%%");
        assert_eq!(value("%REQ(cookie)%").unwrap(), "%%REQ(cookie)%%");
        assert_eq!(value("é").unwrap(), "é");
        assert_eq!(value(&"%".repeat(4096)).unwrap().len(), 8192);
        let (long, wide) = ("v".repeat(4097), "😀".repeat(4097));
        for bad in ["", " a", "a ", "\ta", "a\n", "a\rb", "a\u{0}b", "a\u{1}b", "a\u{7f}", "a\u{85}", &long, &wide] {
            assert!(value(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn match_values_are_what_a_header_can_carry() {
        assert!(match_value("text/html; q=0.9").is_ok());
        assert!(match_value("").is_err());
        assert!(match_value("a\nb").is_err());
    }

    #[test]
    fn methods_are_written_in_capitals() {
        assert!(method("PATCH").is_ok());
        for bad in ["get", "", "PURGE", "*", "GET "] {
            assert!(method(bad).is_err(), "{bad:?}");
        }
    }
}
