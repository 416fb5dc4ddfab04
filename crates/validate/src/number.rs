//! Weights, shares, status codes and ports.

use super::Invalid;

/// Largest weight of one backend.
pub const MAX_WEIGHT: i64 = 1_000_000;

/// Accepts the weight of one backend: 0 to 1,000,000.
pub fn weight(weight: i64) -> Result<u32, Invalid> {
    bounded(weight, 0, MAX_WEIGHT, "a weight")
}

/// The sum of the weights of one rule; `None` if all are zero, which means that nothing is served (500).
///
/// Envoy refuses a weighted cluster whose sum is zero or above 4,294,967,295.
pub fn total_weight(weights: impl IntoIterator<Item = u32>) -> Result<Option<u32>, Invalid> {
    let total: u64 = weights.into_iter().map(u64::from).sum();
    match u32::try_from(total) {
        Ok(0) => Ok(None),
        Ok(total) => Ok(Some(total)),
        Err(_) => Err(Invalid::new(
            &total.to_string(),
            "the weights of one rule add up to more than 4294967295",
            "lower them all in proportion",
        )),
    }
}

/// Accepts a percentage: 0 to 100.
pub fn percent(percent: i64) -> Result<u32, Invalid> {
    bounded(percent, 0, 100, "a percentage")
}

/// A fraction in parts of a million, rounded down but never to zero; `denominator` counts as 100 when it is absent.
///
/// Envoy knows the denominators 100, 10,000 and 1,000,000 only.
pub fn fraction(numerator: i64, denominator: Option<i64>) -> Result<u32, Invalid> {
    let denominator = denominator.unwrap_or(100);
    let shown = format!("{numerator}/{denominator}");
    if denominator < 1 {
        return Err(Invalid::new(&shown, "the denominator is below 1", "write a denominator of 1 or more"));
    }
    if numerator < 0 {
        return Err(Invalid::new(&shown, "the numerator is below 0", "write a numerator of 0 or more"));
    }
    if numerator > denominator {
        return Err(Invalid::new(
            &shown,
            "the numerator is larger than the denominator",
            "write a fraction of at most one",
        ));
    }
    let millionths = i128::from(numerator) * 1_000_000 / i128::from(denominator);
    let millionths = u32::try_from(millionths).unwrap_or(1_000_000);
    Ok(if numerator > 0 { millionths.max(1) } else { 0 })
}

/// Accepts the status of a direct response: 200 to 599, as Envoy's proto has it.
pub fn response_status(status: i64) -> Result<u32, Invalid> {
    bounded(status, 200, 599, "a response status")
}

/// Accepts the status of a redirect: 301, 302, 303, 307 or 308.
pub fn redirect_status(status: i64) -> Result<u32, Invalid> {
    if matches!(status, 301 | 302 | 303 | 307 | 308) {
        bounded(status, 301, 308, "a redirect status")
    } else {
        Err(Invalid::new(
            &status.to_string(),
            "it is not the status of a redirect that keeps the target",
            "use 301, 302, 303, 307 or 308",
        ))
    }
}

/// Accepts a status on which a request is tried again: 400 to 599.
pub fn retry_status(status: i64) -> Result<u32, Invalid> {
    bounded(status, 400, 599, "a status to retry on")
}

/// Accepts a port: 1 to 65535.
pub fn port(port: i64) -> Result<u16, Invalid> {
    let port = bounded(port, 1, i64::from(u16::MAX), "a port")?;
    Ok(u16::try_from(port).unwrap_or(u16::MAX))
}

fn bounded(number: i64, least: i64, most: i64, what: &str) -> Result<u32, Invalid> {
    match u32::try_from(number) {
        Ok(fits) if (least..=most).contains(&number) => Ok(fits),
        _ => Err(Invalid::new(
            &number.to_string(),
            format!("{what} lies between {least} and {most}"),
            "write a number in these bounds",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive() {
        assert_eq!(weight(0), Ok(0));
        assert_eq!(weight(1_000_000), Ok(1_000_000));
        assert!(weight(-1).is_err() && weight(1_000_001).is_err());
        assert_eq!(port(65_535), Ok(65_535));
        assert!(port(0).is_err() && port(65_536).is_err() && port(i64::MIN).is_err());
        assert!(percent(101).is_err());
        assert_eq!(percent(100), Ok(100));
        assert!(response_status(199).is_err() && response_status(600).is_err());
        assert!(retry_status(399).is_err());
        assert_eq!(retry_status(503), Ok(503));
        assert_eq!(redirect_status(308), Ok(308));
        assert!(redirect_status(304).is_err() && redirect_status(200).is_err());
    }

    #[test]
    fn a_sum_of_weights_is_one_that_envoy_takes() {
        assert_eq!(total_weight([]), Ok(None));
        assert_eq!(total_weight([0, 0]), Ok(None));
        assert_eq!(total_weight([1, 0, 2]), Ok(Some(3)));
        assert_eq!(total_weight([u32::MAX]), Ok(Some(u32::MAX)));
        assert!(total_weight([u32::MAX, 1]).is_err());
    }

    #[test]
    fn fractions_are_at_most_one_and_never_rounded_away() {
        assert_eq!(fraction(1, None), Ok(10_000));
        assert_eq!(fraction(1, Some(3)), Ok(333_333));
        assert_eq!(fraction(1, Some(1_000_000_000)), Ok(1));
        assert_eq!(fraction(0, Some(7)), Ok(0));
        assert_eq!(fraction(i64::MAX, Some(i64::MAX)), Ok(1_000_000));
        assert!(fraction(1, Some(0)).is_err());
        assert!(fraction(-1, Some(2)).is_err());
        assert!(fraction(3, Some(2)).is_err());
        assert!(fraction(101, None).is_err());
    }
}
