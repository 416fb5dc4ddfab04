//! Hostnames of listeners, routes, redirects and rewrites.

use std::net::{Ipv4Addr, SocketAddr};

use super::{Invalid, number};

/// Longest hostname, in characters.
pub const MAX_LENGTH: usize = 253;

/// Longest label of a hostname, in characters.
const MAX_LABEL: usize = 63;

/// Accepts a Gateway API `Hostname`: a DNS name in lower case whose first label may be `*`; never an IP address.
pub fn check(host: &str) -> Result<(), Invalid> {
    if host == "*" {
        return Err(Invalid::new(host, "a lone '*' is not a hostname", "leave the hostname out to mean every host"));
    }
    match host.strip_prefix("*.") {
        Some(rest) => dns_name(host, rest),
        None => dns_name(host, host),
    }
}

/// Accepts a Gateway API `PreciseHostname`: a hostname as in [`check`] without a wildcard.
pub fn precise(host: &str) -> Result<(), Invalid> {
    if host.contains('*') {
        return Err(Invalid::new(host, "a wildcard cannot be used here", "write one exact hostname"));
    }
    dns_name(host, host)
}

/// Accepts what a request can be asked under: a hostname as in [`precise`] or an IP address, perhaps with a port.
pub fn authority(text: &str) -> Result<(), Invalid> {
    if text.parse::<Ipv4Addr>().is_ok() || text.parse::<SocketAddr>().is_ok() {
        return Ok(());
    }
    let Some((host, port)) = text.rsplit_once(':') else { return precise(text) };
    match port.parse() {
        Ok(port) => number::port(port).and_then(|_| precise(host)),
        Err(_) => {
            Err(Invalid::new(text, "its port is not a number", "write a host such as example.com or example.com:8080"))
        }
    }
}

/// `host` as hosts are compared: in lower case, without the dot of a fully qualified name.
pub fn normalise(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

/// Checks `name`, the part of `whole` behind its wildcard.
fn dns_name(whole: &str, name: &str) -> Result<(), Invalid> {
    let refuse = |why: &str, remedy: &str| Err(Invalid::new(whole, why, remedy));
    if name.is_empty() {
        return refuse("the hostname is empty", "write a DNS name such as example.com");
    }
    if whole.len() > MAX_LENGTH {
        return refuse("the hostname is longer than 253 characters", "shorten it");
    }
    if name.contains(':') || name.parse::<Ipv4Addr>().is_ok() {
        return refuse("a hostname must not be an IP address and has no port", "write a DNS name such as example.com");
    }
    for label in name.split('.') {
        if label.is_empty() {
            return refuse("the hostname has an empty label", "remove the surplus dot");
        }
        if label.len() > MAX_LABEL {
            return refuse("a label of the hostname is longer than 63 characters", "shorten the label");
        }
        if label.starts_with('-') || label.ends_with('-') {
            return refuse("a label of the hostname begins or ends with '-'", "remove the hyphen");
        }
        if label.bytes().any(|b| b.is_ascii_uppercase()) {
            return refuse("hostnames are written in lower case", "write it in lower case");
        }
        if label.contains('*') {
            return refuse("only the whole first label may be '*'", "write *.example.com or an exact hostname");
        }
        if !label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
            return refuse(
                "the hostname has a character other than letters, digits, '-' and '.'",
                "write international names in their xn-- form",
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostnames_are_lower_case_dns_names_with_one_leading_wildcard() {
        for good in
            ["a", "example.com", "*.example.com", "*.com", "xn--bcher-kva.example", "1.2.3.example", "1a", "a-b.c"]
        {
            assert!(check(good).is_ok(), "{good}");
        }
        let (long, label) = (format!("{}.a", "a.".repeat(126)), "a".repeat(64));
        for bad in [
            "",
            "*",
            "*.",
            "*.*.com",
            "a.*.com",
            "*a.com",
            "a*.com",
            "Example.com",
            "example.com.",
            ".com",
            "a..b",
            "-a.com",
            "a-.com",
            "a_b.com",
            "bücher.example",
            "1.2.3.4",
            "*.1.2.3.4",
            "::1",
            "[::1]",
            "a:80",
            "a b",
            "a\n",
            "a\u{0}",
            &long,
            &label,
        ] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn precise_hostnames_have_no_wildcard() {
        assert!(precise("example.com").is_ok());
        assert!(precise("*.example.com").is_err());
        assert!(precise("10.0.0.1").is_err());
    }

    #[test]
    fn normalising_makes_equal_hosts_equal() {
        assert_eq!(normalise("EXAMPLE.com."), normalise("example.COM"));
        assert_eq!(normalise(""), "");
    }

    #[test]
    fn a_request_is_asked_under_a_host_with_or_without_a_port() {
        for good in ["a", "a.example", "a.example:8080", "10.0.0.1", "10.0.0.1:80", "[::1]:80"] {
            assert!(authority(good).is_ok(), "{good}");
        }
        for bad in ["", ":80", "a:", "a:0", "a:65536", "a:x", "a b", "A", "*.a", "a:1:2", "::1", "a/b", "a\n", "%x%"] {
            assert!(authority(bad).is_err(), "{bad:?}");
        }
    }
}
