//! Addresses to listen on.

use std::net::IpAddr;

use super::Invalid;

/// Reads an IP address that a socket can be bound to, on a host that has it.
///
/// Refused is what no host has for itself alone (multicast, broadcast), and what a socket takes in another form only:
/// an IPv6 address of a link, which needs an interface, and an IPv4 address written as an IPv6 one.
pub fn listen(text: &str) -> Result<IpAddr, Invalid> {
    let refuse = |why: &str, remedy: &str| Err(Invalid::new(text, why, remedy));
    let Ok(address) = text.parse::<IpAddr>() else {
        return refuse("it is not an IP address", "write one such as 192.0.2.1 or 2001:db8::1, or leave addresses out");
    };
    match address {
        IpAddr::V4(v4) if v4.is_multicast() || v4.is_broadcast() => {
            refuse("it is the address of many hosts", "use an address of one")
        }
        IpAddr::V6(v6) if v6.is_multicast() => refuse("it is the address of many hosts", "use an address of one"),
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            refuse("an address of a link needs an interface, which there is no place for", "use a global address")
        }
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            refuse("it is an IPv4 address in the form of an IPv6 address", "write it as an IPv4 address")
        }
        address => Ok(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_that_a_socket_can_be_bound_to() {
        for good in ["127.0.0.1", "0.0.0.0", "192.0.2.1", "169.254.0.1", "::", "::1", "2001:db8::1", "fd00::1"] {
            assert_eq!(listen(good).map(|address| address.to_string()), Ok(good.to_owned()));
        }
        for (bad, why) in [
            ("", "not an IP address"),
            ("example.com", "not an IP address"),
            ("1.2.3", "not an IP address"),
            ("01.2.3.4", "not an IP address"),
            ("[::1]", "not an IP address"),
            ("fe80::1%eth0", "not an IP address"),
            ("224.0.0.1", "many hosts"),
            ("255.255.255.255", "many hosts"),
            ("ff02::1", "many hosts"),
            ("fe80::1", "interface"),
            ("::ffff:127.0.0.1", "IPv4 address in the form"),
        ] {
            let refused = listen(bad).expect_err(bad);
            assert!(refused.why.contains(why), "{refused}");
        }
    }
}
