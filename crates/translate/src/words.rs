//! Words that many messages have.

use std::fmt::Write as _;

/// How many things a message names before it counts the rest.
pub(crate) const MAX_LISTED: usize = 8;

/// The first of these, and how many more there are.
pub(crate) fn listed_with<T: ToString>(separator: &str, items: &[T]) -> String {
    let mut text = items.iter().take(MAX_LISTED).map(ToString::to_string).collect::<Vec<_>>().join(separator);
    if items.len() > MAX_LISTED {
        let _ = write!(text, "{separator}and {} more", items.len() - MAX_LISTED);
    }
    text
}

/// Bytes, in units in which memory is counted.
pub(crate) fn in_words(bytes: u64) -> String {
    const KIB: u64 = 1024;
    match bytes {
        ..1_048_576 => format!("{} KiB", bytes.div_ceil(KIB)),
        _ => format!("{} MiB", bytes.div_ceil(KIB * KIB)),
    }
}
