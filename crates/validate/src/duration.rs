//! Durations in the form of GEP-2257.

use std::time::Duration;

use super::Invalid;

/// Reads a Gateway API duration. Zero is a value; what it means (mostly *no timeout*) is the field's business.
pub fn parse(text: &str) -> Result<Duration, Invalid> {
    api::shared::parse_duration(text)
        .map_err(|why| Invalid::new(text, why, "write a duration such as 500ms, 10s or 1h30m"))
}

/// Reads a duration that Envoy takes only above zero, such as a back-off interval.
pub fn positive(text: &str) -> Result<Duration, Invalid> {
    let duration = parse(text)?;
    if duration.is_zero() {
        return Err(Invalid::new(text, "the duration is zero", "write a duration above zero, or leave it out"));
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_refused_only_where_envoy_needs_more() {
        assert!(positive("0ms").is_err());
        assert_eq!(positive("1ms"), Ok(Duration::from_millis(1)));
    }
}
