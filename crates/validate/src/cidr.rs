//! Ranges of IP addresses.

use std::{fmt, net::IpAddr};

use super::Invalid;

/// The bits that IPv4 addresses have in front when they are written as IPv6 ones (`::ffff:0:0/96`).
const MAPPED: u128 = 0xffff << 32;
const MAPPED_LENGTH: u8 = 96;

/// A range of addresses: all that begin with the same bits.
///
/// IPv4 addresses count as IPv6 ones that begin with `::ffff`, so that all ranges lie in one order: by their first address, the
/// wider first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    first: u128,
    length: u8,
}

impl Cidr {
    /// All IPv4 addresses.
    pub const V4: Self = Self { first: MAPPED, length: MAPPED_LENGTH };

    /// Whether all addresses of `other` lie in it too.
    pub fn covers(self, other: Self) -> bool {
        self.length <= other.length && first(other.first, self.length) == self.first
    }

    /// Whether its addresses are IPv4 ones.
    pub fn is_v4(self) -> bool {
        Self::V4.covers(self)
    }

    /// Its first address and how many bits all have in common; of IPv4 addresses as such.
    pub fn parts(self) -> (IpAddr, u8) {
        let (address, length) = self.v6_parts();
        match address {
            IpAddr::V6(v6) if self.is_v4() => {
                v6.to_ipv4_mapped().map_or((address, length), |v4| (v4.into(), length - MAPPED_LENGTH))
            }
            _ => (address, length),
        }
    }

    /// The same, with IPv4 addresses written as IPv6 ones.
    pub fn v6_parts(self) -> (IpAddr, u8) {
        (IpAddr::V6(self.first.into()), self.length)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, length) = self.parts();
        write!(f, "{address}/{length}")
    }
}

/// Reads a range, such as `10.0.0.0/8`, or a single address.
///
/// Refused are a range that begins elsewhere than it is said to, and IPv4 addresses that are written as IPv6 ones.
pub fn parse(text: &str) -> Result<Cidr, Invalid> {
    const EXAMPLES: &str = "write one such as 10.0.0.0/8, 2001:db8::/32 or 192.0.2.1";
    let not_one = || Invalid::new(text, "it is not a range of IP addresses", EXAMPLES);
    let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let address: IpAddr = address.parse().map_err(|_| not_one())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        None => most,
        Some(digits) if (1..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok().filter(|length| *length <= most).ok_or_else(not_one)?
        }
        Some(_) => return Err(not_one()),
    };
    let cidr = match address {
        IpAddr::V4(v4) => Cidr { first: v4.to_ipv6_mapped().to_bits(), length: MAPPED_LENGTH + length },
        IpAddr::V6(v6) => Cidr { first: v6.to_bits(), length },
    };
    if address.is_ipv6() && cidr.is_v4() {
        return Err(Invalid::new(text, "it is a range of IPv4 addresses in the form of IPv6", format!("write {cidr}")));
    }
    let begins = Cidr { first: first(cidr.first, cidr.length), ..cidr };
    if begins != cidr {
        let why = format!("a range of this length begins at {}", begins.parts().0);
        return Err(Invalid::new(text, why, format!("write {begins}, or a longer prefix")));
    }
    Ok(cidr)
}

/// An address with nothing but its first bits.
fn first(address: u128, length: u8) -> u128 {
    address & u128::MAX.checked_shl(u32::from(128 - length)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        parse(text).unwrap_or_else(|refused| panic!("{refused}"))
    }

    #[test]
    fn a_range_is_read_and_printed() {
        for text in ["10.0.0.0/8", "0.0.0.0/0", "1.2.3.4/32", "::/0", "2001:db8::/32", "::1/128", "::/96"] {
            assert_eq!(cidr(text).to_string(), text);
        }
        assert_eq!(cidr("1.2.3.4").to_string(), "1.2.3.4/32");
        assert_eq!(cidr("2001:db8::1").to_string(), "2001:db8::1/128");
        let (address, length) = cidr("10.0.0.0/8").v6_parts();
        assert_eq!((address.to_string(), length), ("::ffff:10.0.0.0".to_owned(), 104));
    }

    #[test]
    fn a_wider_range_covers_a_narrower_one_and_comes_before_it() {
        let order = ["::/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "2001:db8::/32"].map(cidr);
        assert!(order.is_sorted());
        assert!(order[0].covers(order[1]) && order[1].covers(order[2]) && order[1].covers(order[1]));
        assert!(!order[2].covers(order[1]) && !order[1].covers(order[4]) && !order[3].covers(order[2]));
        assert!(cidr("0.0.0.0/0") == Cidr::V4 && !cidr("::/95").is_v4());
    }

    #[test]
    fn what_is_no_range_is_refused_with_a_remedy() {
        for (text, words) in [
            ("", "not a range"),
            ("10.0.0.0/33", "not a range"),
            ("10.0.0.0/", "not a range"),
            ("10.0.0.0/+8", "not a range"),
            ("10.0.0.0/8/8", "not a range"),
            ("010.0.0.0/8", "not a range"),
            ("::/129", "not a range"),
            ("::/0000", "not a range"),
            ("fe80::1%eth0", "not a range"),
            ("example.com", "such as 10.0.0.0/8"),
            ("172.18.0.0/12", "write 172.16.0.0/12"),
            ("10.0.0.1/0", "write 0.0.0.0/0"),
            ("2001:db8::1/32", "write 2001:db8::/32"),
            ("::1/0", "write ::/0"),
            ("::ffff:10.0.0.0/104", "write 10.0.0.0/8"),
            ("::ffff:0:0/96", "write 0.0.0.0/0"),
        ] {
            let refused = parse(text).expect_err(text).to_string();
            assert!(refused.contains(words), "{text}: {refused}");
        }
    }
}
