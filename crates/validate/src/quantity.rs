//! Quantities of Kubernetes, such as `10Mi`.

use super::Invalid;

/// Binary and decimal suffixes: what a number in front of them is multiplied by, as 1024^n or 1000^n.
const SUFFIXES: [(&str, u128, u32); 13] = [
    ("Ki", 1024, 1),
    ("Mi", 1024, 2),
    ("Gi", 1024, 3),
    ("Ti", 1024, 4),
    ("Pi", 1024, 5),
    ("Ei", 1024, 6),
    ("k", 1000, 1),
    ("M", 1000, 2),
    ("G", 1000, 3),
    ("T", 1000, 4),
    ("P", 1000, 5),
    ("E", 1000, 6),
    ("", 1, 1),
];
/// Suffixes of parts of one: what they divide by, as 1000^n.
const PARTS: [(&str, u32); 3] = [("m", 1), ("u", 2), ("n", 3)];

/// A quantity as a whole number, rounded up as Kubernetes does it.
pub fn bytes(text: &str) -> Result<u64, Invalid> {
    parse(text).ok_or_else(|| Invalid::new(text, "it is not a quantity of bytes", "write one such as 512Ki or 10Mi"))
}

fn parse(text: &str) -> Option<u64> {
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // More digits than fit in what is multiplied below mean more than anybody has.
    if (whole.is_empty() && fraction.is_empty()) || whole.len() > 19 || fraction.len() > 9 || fraction.contains('.') {
        return None;
    }
    let mut divisor = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let mut value: u128 = format!("{whole}{fraction}").parse().ok()?;
    if let Some((_, base, power)) = SUFFIXES.iter().find(|(known, ..)| *known == suffix) {
        value = value.checked_mul(base.pow(*power))?;
    } else if let Some((_, power)) = PARTS.iter().find(|(known, _)| *known == suffix) {
        divisor *= 1000_u128.pow(*power);
    } else {
        let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
        let power = 10_u128.checked_pow(exponent.unsigned_abs())?;
        if exponent < 0 {
            divisor = divisor.checked_mul(power)?;
        } else {
            value = value.checked_mul(power)?;
        }
    }
    u64::try_from(value.div_ceil(divisor)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        for (text, expected) in [
            ("0", 0),
            ("1", 1),
            ("+7", 7),
            ("10Mi", 10 << 20),
            ("1.5Ki", 1536),
            (".5Ki", 512),
            ("1.", 1),
            ("2k", 2_000),
            ("1e3", 1_000),
            ("12E-1", 2),
            ("100m", 1),
            ("1000m", 1),
            ("1001m", 2),
            ("1n", 1),
            ("3E", 3_000_000_000_000_000_000),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", ".", "-1", "1 Mi", "1mi", "1.2.3", "Mi", "1e", "1e99", "99E", "٣", "0x10", "1KiB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
