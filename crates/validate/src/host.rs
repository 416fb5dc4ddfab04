//! Hosts that proxies connect to by the word of somebody else.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Invalid, hostname::MAX_LENGTH};

/// Longest label of a name in DNS, in bytes.
const MAX_LABEL: usize = 63;

/// A host that can be connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// An address of one host.
    Address(IpAddr),
    /// A name in DNS, in lower case.
    Name(String),
}

/// Reads an address or a name in DNS.
pub fn check(text: &str) -> Result<Host, Invalid> {
    let refuse = |why: &str, remedy: &str| Err(Invalid::new(text, why, remedy));
    if let Ok(address) = text.parse::<IpAddr>() {
        let many = match address {
            IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast(),
            IpAddr::V6(v6) => v6.is_multicast(),
        };
        return if many {
            refuse("it is the address of many hosts", "use an address of one")
        } else {
            Ok(Host::Address(address.to_canonical()))
        };
    }
    let remedy = "write an IP address such as 192.0.2.1 or 2001:db8::1, or a name in DNS such as example.com; the port has a \
                  field of its own";
    let name = text.to_ascii_lowercase();
    let labels = || name.strip_suffix('.').unwrap_or(&name).split('.');
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
        (1..=MAX_LABEL).contains(&label.len())
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() > MAX_LENGTH || !labels().all(is_label) {
        return refuse("it is neither an IP address nor a name in DNS", remedy);
    }
    // What resolvers take for an address in an odd form: 127.1, 2130706433, 0x7f000001.
    let last = labels().next_back().unwrap_or_default();
    let digits = last.strip_prefix("0x").unwrap_or(last);
    if last.bytes().all(|byte| byte.is_ascii_digit())
        || digits.len() < last.len() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        return refuse("its last label is a number, so that it could be taken for an address", remedy);
    }
    Ok(Host::Name(name))
}

/// Addresses outside those ranges at which clouds tell who a machine is, and let it act as that.
const METADATA: [IpAddr; 10] = [
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    // What gives pods of AWS their credentials.
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x100, 0, 0, 0, 0, 0x100, 0x200)),
];

/// Whether an address means something else to each host that connects to it: itself, its link, or the metadata of the cloud
/// that it runs in. Kubernetes refuses the first two as endpoints.
pub fn is_local(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let in_range = match address {
        IpAddr::V4(v4) => is_local_v4(v4),
        IpAddr::V6(v6) => {
            let segments = v6.segments();
            // IPv4 addresses in other forms; nothing else is in the first of these ranges.
            segments[..6] == [0; 6] || segments[..6] == [0x64, 0xff9b, 0, 0, 0, 0] || v6.is_unicast_link_local()
        }
    };
    in_range || METADATA.contains(&address)
}

fn is_local_v4(address: Ipv4Addr) -> bool {
    address.octets()[0] == 0 || address.is_loopback() || address.is_link_local()
}

/// Whether a name is one of the host that resolves it (RFC 6761 section 6.3).
pub fn is_local_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}

/// What finds an address that [`is_local`] in `ADDRESS:PORT`, as Envoy writes it; IPv6 addresses stand in brackets. Envoy takes
/// none that is larger than RE2's program of 100 instructions, so there are two.
pub const LOCAL: [&str; 2] = [
    r"^(0\.|127\.|169\.254\.|168\.63\.129\.16:|100\.100\.100\.200:|192\.0\.0\.192:|\[(::|64:ff9b::|fe[89ab]))",
    r"^\[fd(00:(ec2::(254|23)|42::42|a9fe:a9fe::1|c1::a9fe:a9fe|100::100:200)|20:ce::254)\]",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_an_address_of_one_host_or_a_name() {
        for (text, name) in [
            ("example.com", "example.com"),
            ("Example.COM.", "example.com."),
            ("a", "a"),
            ("_grpc.svc_1.example", "_grpc.svc_1.example"),
            ("db-1.apps.svc.cluster.local", "db-1.apps.svc.cluster.local"),
            ("1.example", "1.example"),
        ] {
            assert_eq!(check(text), Ok(Host::Name(name.into())), "{text}");
        }
        for (text, address) in
            [("192.0.2.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::1"), ("::ffff:10.0.0.1", "10.0.0.1")]
        {
            assert_eq!(check(text), Ok(Host::Address(address.parse().expect("an address"))), "{text}");
        }
        let long = format!("{}.example", "a".repeat(64));
        for text in [
            "",
            ".",
            "a..b",
            "-a.example",
            "a-.example",
            "a b",
            "a/b",
            "a:80",
            "[::1]",
            "fe80::1%eth0",
            "http://a",
            "*.a",
            "ä.example",
            "127.1",
            "2130706433",
            "0x7f000001",
            "127.0.0.0x1",
            "1.2.3.4.5",
            "224.0.0.1",
            "255.255.255.255",
            "ff02::1",
            &long,
            &"a.".repeat(127),
        ] {
            assert!(check(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_is_local_where_the_pattern_finds_it() {
        let patterns = LOCAL.map(|pattern| regex_lite::Regex::new(pattern).expect("a pattern"));
        for (text, local) in [
            ("0.0.0.0", true),
            ("0.1.2.3", true),
            ("127.0.0.1", true),
            ("127.255.0.9", true),
            ("169.254.169.254", true),
            ("168.63.129.16", true),
            ("100.100.100.200", true),
            ("192.0.0.192", true),
            ("::", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("::127.0.0.1", true),
            ("64:ff9b::7f00:1", true),
            ("fe80::1", true),
            ("febf::1", true),
            ("fd00:ec2::254", true),
            ("fd00:ec2::23", true),
            ("fd00:42::42", true),
            ("fd00:a9fe:a9fe::1", true),
            ("fd00:c1::a9fe:a9fe", true),
            ("fd00:100::100:200", true),
            ("fd20:ce::254", true),
            ("10.0.0.1", false),
            ("1.127.0.1", false),
            ("168.63.129.161", false),
            ("100.100.100.20", false),
            ("192.0.0.1", false),
            ("192.168.0.1", false),
            ("2001:db8::1", false),
            ("fec0::1", false),
            ("fd00:ec2::2541", false),
            ("fd00:ec2::2", false),
            ("fd00:42::", false),
            ("fd00:a9fe:a9fe::11", false),
            ("fd00:c1::a9fe", false),
            ("64:ff9c::1", false),
        ] {
            let address: IpAddr = text.parse().expect("an address");
            // As a socket has it, mapped or not.
            let written = std::net::SocketAddr::new(address, 80).to_string();
            assert_eq!(patterns.iter().any(|pattern| pattern.is_match(&written)), local, "{written}");
            assert_eq!(is_local(address), local, "{text}");
        }
        assert!(is_local_name("localhost") && is_local_name("a.localhost.") && !is_local_name("localhost.example"));
    }
}
