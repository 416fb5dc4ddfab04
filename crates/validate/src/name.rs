//! Names of query parameters, and of the cookies and headers that carry a session.

use super::{Invalid, at_most, escaped, header, quoted, token};

/// Longest session name of Gateway API, in characters.
pub const MAX_SESSION_NAME: usize = 128;

/// Longest value of a query parameter match of Gateway API, in characters.
pub const MAX_QUERY_VALUE: usize = 1024;

/// Accepts the name of a query parameter to match on. Case counts, unlike in header names.
///
/// The rules of [`query_value`] hold here too.
pub fn query_parameter(name: &str) -> Result<(), Invalid> {
    token(name, "the query parameter name")?;
    as_sent(name)?;
    at_most(name, header::MAX_NAME)
}

/// Accepts the value of an exact query parameter match.
///
/// Envoy compares it with the parameter as it was sent, escapes and all. What no client can send in a value would be a
/// match that never holds, and what it is meant for would go to a broader one.
pub fn query_value(value: &str) -> Result<(), Invalid> {
    if value.is_empty() {
        return Err(Invalid::new(value, "the query parameter value to match is empty", "write the value"));
    }
    as_sent(value)?;
    at_most(value, MAX_QUERY_VALUE)
}

/// Refuses what cannot stand in a query parameter of a URL.
fn as_sent(text: &str) -> Result<(), Invalid> {
    match text.chars().find(|&c| !c.is_ascii_graphic() || matches!(c, '&' | '#')) {
        None => Ok(()),
        Some(bad) => Err(Invalid::new(
            text,
            format!("a query is compared as it was sent, where {} cannot stand", quoted(bad)),
            format!("write {}", escaped(bad)),
        )),
    }
}

/// Accepts a session name that becomes a cookie: an RFC 6265 token.
///
/// Browsers drop a cookie whose name promises an attribute that is not set, so the prefixes `__Host-` and `__Secure-`
/// are refused: the session would never hold.
pub fn cookie(name: &str) -> Result<(), Invalid> {
    token(name, "the cookie name")?;
    at_most(name, MAX_SESSION_NAME)?;
    let lower = name.to_ascii_lowercase();
    if lower.starts_with("__host-") || lower.starts_with("__secure-") {
        return Err(Invalid::new(
            name,
            "browsers keep a cookie of this prefix only with the attribute Secure",
            "choose a name without the prefix",
        ));
    }
    Ok(())
}

/// Accepts a session name that becomes a header, and gives it back in lower case.
pub fn session_header(name: &str) -> Result<String, Invalid> {
    let lower = header::settable_name(name)?;
    at_most(name, MAX_SESSION_NAME)?;
    Ok(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_name_is_a_token_that_browsers_keep() {
        assert!(cookie("session_id").is_ok());
        assert!(cookie(&"a".repeat(128)).is_ok());
        let long = "a".repeat(129);
        for bad in ["", "a b", "a=b", "a;b", "a,b", "\"a\"", "é", "a\n", "__Host-a", "__secure-a", &long] {
            assert!(cookie(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_session_header_is_one_that_envoy_may_set() {
        assert_eq!(session_header("X-Session"), Ok("x-session".to_owned()));
        for bad in ["", "Host", "Content-Length", ":path", "a b", &"a".repeat(129)] {
            assert!(session_header(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn query_parameters_have_the_bounds_of_gateway_api() {
        assert!(query_parameter("Page").is_ok());
        assert!(query_parameter("a b").is_err());
        assert!(query_value("a+b%20=\"<").is_ok());
        assert!(query_value("").is_err());
        assert!(query_value(&"v".repeat(1025)).is_err());
    }

    #[test]
    fn a_query_is_written_as_it_is_sent() {
        for (bad, remedy) in [("a b", "%20"), ("a&b", "%26"), ("a#b", "%23"), ("é", "%C3%A9"), ("a\n", "%0A")] {
            assert_eq!(query_value(bad).expect_err(bad).remedy, format!("write {remedy}"));
        }
        assert!(query_value("a%20b").is_ok() && query_parameter("a%20b").is_ok());
        assert!(query_parameter("a&b").is_err() && query_parameter("a#b").is_err());
    }
}
