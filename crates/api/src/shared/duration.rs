//! Durations as Gateway API writes them (GEP-2257).

use std::{fmt, time};

use serde::{Deserialize, Serialize};

/// Most digits of one number of a duration.
const MAX_DIGITS: usize = 5;

/// Most pairs of number and unit in one duration.
const MAX_PAIRS: usize = 4;

/// A duration as written, such as `1h30m` or `500ms`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Duration(pub Box<str>);

impl Duration {
    /// The length of time that the text stands for, as [`parse_duration`] reads it.
    pub fn parse(&self) -> Result<time::Duration, &'static str> {
        parse_duration(&self.0)
    }
}

impl From<&str> for Duration {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads a Gateway API duration: one to four pairs of up to five digits and `h`, `m`, `s` or `ms`, added up.
///
/// The longest, four times 99999 hours, is about 46 years, which protobuf and Envoy hold. Zero is a value; what it
/// means (mostly *no timeout*) is the field's business. Go's other forms are refused, each with its reason.
pub fn parse_duration(text: &str) -> Result<time::Duration, &'static str> {
    if text.is_empty() {
        return Err("the duration is empty");
    }
    let mut total = time::Duration::ZERO;
    let mut rest = text;
    for _ in 0..MAX_PAIRS {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, behind) = rest.split_at(digits);
        let Ok(number) = number.parse::<u64>() else {
            return Err(match behind.chars().next() {
                _ if digits > 0 => "a number of the duration has more than five digits",
                Some('+' | '-') => "a duration has no sign",
                Some('.') => "a duration has no fractions",
                Some(' ' | '\t') => "a duration has no blanks",
                None => "the duration has a unit without a number",
                Some(_) => "the duration does not begin with a number, or has a unit other than h, m, s and ms",
            });
        };
        if digits > MAX_DIGITS {
            return Err("a number of the duration has more than five digits");
        }
        let (unit, behind) = if let Some(behind) = behind.strip_prefix("ms") {
            (time::Duration::from_millis(1), behind)
        } else if let Some(behind) = behind.strip_prefix('h') {
            (time::Duration::from_hours(1), behind)
        } else if let Some(behind) = behind.strip_prefix('m') {
            (time::Duration::from_mins(1), behind)
        } else if let Some(behind) = behind.strip_prefix('s') {
            (time::Duration::from_secs(1), behind)
        } else {
            return Err(match behind.chars().next() {
                None => "a number of the duration has no unit",
                Some('.') => "a duration has no fractions",
                Some('d') => "a duration has no unit for days",
                Some('u' | 'µ' | 'μ' | 'n') => "a duration has no unit below the millisecond",
                Some(_) => "the duration has a unit other than h, m, s and ms",
            });
        };
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        total = total.saturating_add(unit.saturating_mul(number));
        if behind.is_empty() {
            return Ok(total);
        }
        rest = behind;
    }
    Err("the duration has more than four numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_gep_2257_is_read() {
        for (text, millis) in [
            ("0s", 0),
            ("0h0m0s0ms", 0),
            ("1h", 3_600_000),
            ("30m", 1_800_000),
            ("10s", 10_000),
            ("500ms", 500),
            ("2h45m", 9_900_000),
            ("5s20m", 1_205_000),
            ("1h1h", 7_200_000),
            ("00001s", 1_000),
            ("1h22m10s500ms", 4_930_500),
            ("99999h99999h99999h99999h", 4 * 99_999 * 3_600_000),
        ] {
            assert_eq!(parse_duration(text), Ok(time::Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn every_other_form_is_refused_with_a_reason() {
        for (text, why) in [
            ("", "empty"),
            ("1", "no unit"),
            ("0", "no unit"),
            ("s", "does not begin with a number"),
            ("1.5h", "fractions"),
            (".5s", "fractions"),
            ("-1s", "sign"),
            ("+1s", "sign"),
            ("1d", "days"),
            ("1us", "below the millisecond"),
            ("1µs", "below the millisecond"),
            ("1ns", "below the millisecond"),
            ("100000s", "five digits"),
            ("99999999999999999999999999s", "five digits"),
            ("1h1m1s1ms1s", "more than four"),
            ("1s 1m", "blanks"),
            (" 1s", "blanks"),
            ("1S", "unit other"),
            ("1sé", "does not begin"),
            ("infinity", "does not begin"),
        ] {
            let refused = parse_duration(text).expect_err(text);
            assert!(refused.contains(why), "{text:?}: {refused}");
        }
    }
}
