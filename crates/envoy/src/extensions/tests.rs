//! Limits whose buckets stand apart from routes.

use super::*;

#[test]
fn all_rates_together_have_a_bounded_number_of_buckets() {
    let each = |rates: u32| {
        let rates: Vec<_> = (1..=rates).map(|most| LocalRate { most, more: 1, interval: NEVER }).collect();
        let limits = local_limits(rates.iter());
        (limits.descriptors.len(), limits.max_dynamic_descriptors.map(|most| most.value))
    };
    assert_eq!(each(0), (0, Some(100_000)));
    assert_eq!(each(1), (2, Some(100_000)));
    assert_eq!(each(10), (20, Some(10_000)));
    assert_eq!(each(5_000), (10_000, Some(1_000)), "no rate has fewer");
}

#[test]
fn a_rate_that_is_not_known_lets_not_even_the_first_request_through() {
    assert_eq!(local_limits([].iter()).token_bucket.map(|bucket| bucket.max_tokens), Some(0));
}
