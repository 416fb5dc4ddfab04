//! What a CORS filter names: origins, methods and headers.

use super::regex::{self, Regex};
use super::{Invalid, at_most, header, number, token};

/// Longest origin of Gateway API, in characters.
pub const MAX_ORIGIN: usize = 253;

/// An origin, in the form in which Envoy compares it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// `*`: every origin.
    Any,
    /// Exactly this one, in lower case and without the scheme's own port, as browsers send it.
    Exact(String),
    /// Every origin that this expression matches in full; browsers send origins in lower case.
    Pattern(Regex),
}

/// Accepts an origin: `*`, or `http` or `https` with a host and perhaps a port.
///
/// The host is `*`, a DNS name whose first label may be `*` (which stands for one label or more), or an IPv4 address.
/// A port that the scheme implies is left out, since no browser sends it.
pub fn origin(origin: &str) -> Result<Origin, Invalid> {
    let refuse = |why: &str| {
        Err(Invalid::new(origin, why, "write an origin such as https://example.com or https://*.example.com:8443"))
    };
    if origin == "*" {
        return Ok(Origin::Any);
    }
    at_most(origin, MAX_ORIGIN)?;
    let (scheme, implied, rest) = if let Some(rest) = origin.strip_prefix("http://") {
        ("http", 80, rest)
    } else if let Some(rest) = origin.strip_prefix("https://") {
        ("https", 443, rest)
    } else {
        return refuse("an origin begins with http:// or https://");
    };
    let (host, port) = match rest.split_once(':') {
        None => (rest, None),
        Some((host, port)) => {
            let digits = (1..=5).contains(&port.len()) && port.bytes().all(|b| b.is_ascii_digit());
            let Some(port) = port.parse().ok().filter(|_| digits) else {
                return refuse("the port of the origin is not a number");
            };
            (host, Some(number::port(port)?))
        }
    };
    let port = port.filter(|&port| port != implied).map(|port| format!(":{port}")).unwrap_or_default();
    let host = host.to_ascii_lowercase();
    let labels = host.strip_prefix("*.").unwrap_or(&host);
    let plain = |label: &str| !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if host == "*" {
        return regex::check(&format!("{scheme}://[^/:]+{port}")).map(Origin::Pattern);
    }
    if !labels.split('.').all(plain) {
        return refuse("the host of the origin is not a DNS name, whose first label may be '*'");
    }
    if host.starts_with("*.") {
        let suffix = regex::quote(labels);
        return regex::check(&format!(r"{scheme}://[^/:]+\.{suffix}{port}")).map(Origin::Pattern);
    }
    Ok(Origin::Exact(format!("{scheme}://{host}{port}")))
}

/// Accepts a method that may be asked for, or `*`.
pub fn method(method: &str) -> Result<(), Invalid> {
    if method == "*" { Ok(()) } else { header::method(method) }
}

/// Accepts a header that may be sent or exposed, or `*`.
pub fn header(name: &str) -> Result<(), Invalid> {
    if name == "*" {
        return Ok(());
    }
    token(name, "the header name")?;
    at_most(name, header::MAX_NAME)
}

/// Refuses `*` beside other entries of one list.
pub fn alone(list: &[impl AsRef<str>]) -> Result<(), Invalid> {
    if list.len() > 1 && list.iter().any(|entry| entry.as_ref() == "*") {
        return Err(Invalid::new("*", "the list names '*' beside other entries", "write '*' alone, or remove it"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn exact_origins_are_written_as_browsers_send_them() {
        for (given, sent) in [
            ("https://www.foo.com", "https://www.foo.com"),
            ("https://WWW.Foo.com:443", "https://www.foo.com"),
            ("http://a:80", "http://a"),
            ("http://a:443", "http://a:443"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ] {
            assert_eq!(origin(given).unwrap(), Origin::Exact(sent.to_owned()), "{given}");
        }
        assert_eq!(origin("*").unwrap(), Origin::Any);
    }

    #[test]
    fn a_wildcard_becomes_a_pattern_that_ends_where_the_host_ends() {
        let pattern = |given: &str| match origin(given).unwrap() {
            Origin::Pattern(regex) => regex.into_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(pattern("https://*.bar.com"), r"https://[^/:]+\.bar\.com");
        assert_eq!(pattern("https://*.bar.com:8443"), r"https://[^/:]+\.bar\.com:8443");
        assert_eq!(pattern("http://*"), "http://[^/:]+");
    }

    #[test]
    fn what_no_browser_sends_is_refused() {
        let long = format!("https://{}", "a".repeat(253));
        for bad in [
            "",
            "foo.com",
            "ftp://a",
            "HTTPS://a",
            "https://",
            "https://a/",
            "https://a/b",
            "https://a:0",
            "https://a:65536",
            "https://a:",
            "https://a:+80",
            "https://a:x",
            "https://a..b",
            "https://a.*.b",
            "https://*a",
            "https://u@a",
            "https://a b",
            "https://a\n",
            "https://é",
            "null",
            "**",
            &long,
        ] {
            assert!(origin(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_star_stands_alone() {
        assert!(alone(&["*"]).is_ok());
        assert!(alone(&["a", "b"]).is_ok());
        assert!(alone(&["a", "*"]).is_err());
        assert!(alone(&["a"]).is_ok());
        assert!(method("*").is_ok() && header("*").is_ok() && header("X-A").is_ok());
        assert!(header("a b").is_err() && method("get").is_err());
    }
}
