//! Durations as Gateway API writes them (GEP-2257).

use std::{fmt, time};

use serde::{Deserialize, Serialize};

/// A duration as written, such as `1h30m` or `500ms`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Duration(pub Box<str>);

/// Text that is not a Gateway API duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration: write one to four numbers of at most five digits, each with h, m, s or ms")]
pub struct DurationError {
    /// The text.
    pub text: Box<str>,
}

impl Duration {
    /// The length of time that the text stands for.
    ///
    /// # Errors
    /// If the text is not one to four pairs of a number of at most five digits and a unit.
    pub fn parse(&self) -> Result<time::Duration, DurationError> {
        parse(&self.0).ok_or_else(|| DurationError { text: self.0.clone() })
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

fn parse(mut text: &str) -> Option<time::Duration> {
    let mut total = time::Duration::ZERO;
    for _ in 0..4 {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        if !(1..=5).contains(&digits) {
            return None;
        }
        let (number, rest) = text.split_at(digits);
        let number: u64 = number.parse().ok()?;
        // "ms" before "m": the longer unit must win, as it does in Go.
        let (unit, rest) = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)]
            .iter()
            .find_map(|(name, millis)| rest.strip_prefix(name).map(|rest| (*millis, rest)))?;
        total += time::Duration::from_millis(number * unit);
        text = rest;
        if text.is_empty() {
            return Some(total);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gep_2257_allows_is_read() {
        for (text, millis) in [
            ("0s", 0),
            ("1ms", 1),
            ("500ms", 500),
            ("10s", 10_000),
            ("1h30m10s500ms", 5_410_500),
            ("1h1h1h1h", 4 * 3_600_000),
            ("99999h", 99_999 * 3_600_000),
        ] {
            assert_eq!(Duration::from(text).parse(), Ok(time::Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for text in ["", "1", "s", "1.5s", "-1s", "100000s", "1s1s1s1s1s", "1d", "1 s", "1sm", "1us", "1ms1"] {
            assert!(Duration::from(text).parse().is_err(), "{text}");
        }
    }
}
