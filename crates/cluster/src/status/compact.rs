//! Statuses of many objects in little memory.
//!
//! Most statuses are the same text but for the times of their transitions: ten thousand routes of one Gateway that are
//! all fine differ in nothing else. So the times are cut out, and equal texts are kept once.

use std::{collections::HashSet, sync::Arc};

use jiff::Timestamp;

/// What stands before a time.
const BEFORE: &str = "\"lastTransitionTime\":\"";
/// The length of a time as the API server writes it, such as `2026-01-31T23:59:59Z`.
const LENGTH: usize = 20;

/// Keeps equal texts once.
#[derive(Debug, Default)]
pub(super) struct Interner {
    known: HashSet<Arc<str>>,
    /// So many were in use when unused ones were thrown out last.
    used: usize,
}

impl Interner {
    /// The kept text that equals `text`.
    pub(super) fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.known.get(text) {
            return Arc::clone(known);
        }
        if self.known.len() > 2 * self.used + 256 {
            self.known.retain(|text| Arc::strong_count(text) > 1);
            self.used = self.known.len();
        }
        let text: Arc<str> = text.into();
        self.known.insert(Arc::clone(&text));
        text
    }
}

/// A JSON text without the times of its transitions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Compact {
    /// The text; where a time was cut out, nothing stands between the quotes.
    template: Arc<str>,
    /// The times in their order, in seconds; none if the text is kept as it is.
    times: Option<Box<[i64]>>,
}

impl Compact {
    /// Takes `text` apart.
    pub(super) fn new(text: &str, interner: &mut Interner) -> Self {
        let mut template = String::with_capacity(text.len());
        let mut times = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(BEFORE) {
            let (head, tail) = rest.split_at(at + BEFORE.len());
            if tail.starts_with('"') {
                // It looks like a place where a time was cut out.
                return Self { template: interner.intern(text), times: None };
            }
            template.push_str(head);
            rest = tail;
            if let Some(time) = tail.get(..LENGTH).filter(|_| tail[LENGTH..].starts_with('"')).and_then(seconds) {
                times.push(time);
                rest = &tail[LENGTH..];
            }
        }
        template.push_str(rest);
        Self { template: interner.intern(&template), times: Some(times.into()) }
    }

    /// The text but for its times, and whether they were cut out of it. Texts with equal ones differ in their times alone.
    pub(super) fn without_times(&self) -> (&str, bool) {
        (&self.template, self.times.is_some())
    }

    /// The text as it was, byte for byte.
    pub(super) fn text(&self) -> String {
        let Some(times) = &self.times else { return self.template.as_ref().into() };
        let mut text = String::with_capacity(self.template.len() + times.len() * LENGTH);
        let mut rest = &*self.template;
        let mut times = times.iter();
        while let Some(at) = rest.find(BEFORE) {
            let (head, tail) = rest.split_at(at + BEFORE.len());
            text.push_str(head);
            rest = tail;
            if tail.starts_with('"') {
                text.push_str(&times.next().and_then(|time| written(*time)).unwrap_or_default());
            }
        }
        text + rest
    }
}

/// The seconds of a time that is written in exactly the usual way.
fn seconds(text: &str) -> Option<i64> {
    let seconds = text.parse::<Timestamp>().ok()?.as_second();
    (written(seconds).as_deref() == Some(text)).then_some(seconds)
}

fn written(seconds: i64) -> Option<String> {
    Some(Timestamp::from_second(seconds).ok()?.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;

    #[test]
    fn texts_that_differ_in_times_share_their_template() {
        let mut interner = Interner::default();
        let status = |time: &str| format!(r#"{{"conditions":[{{"lastTransitionTime":"{time}","type":"Accepted"}}]}}"#);
        let a = Compact::new(&status("2026-01-31T23:59:59Z"), &mut interner);
        let b = Compact::new(&status("2026-02-01T00:00:00Z"), &mut interner);
        assert!(Arc::ptr_eq(&a.template, &b.template));
        assert_eq!(b.text(), status("2026-02-01T00:00:00Z"));
        assert_ne!(a, b);
    }

    #[test]
    fn texts_that_nobody_has_any_more_are_thrown_out() {
        let mut interner = Interner::default();
        let kept = interner.intern("kept");
        for n in 0..10_000 {
            interner.intern(&n.to_string());
        }
        assert!(interner.known.len() < 1000, "{}", interner.known.len());
        assert!(Arc::ptr_eq(&kept, &interner.intern("kept")));
    }

    proptest! {
        #[test]
        fn every_text_comes_back_byte_for_byte(parts in vec(select(vec![
            BEFORE, "\"", "2026-01-31T23:59:59Z", "2026-01-31T23:59:60Z", "2026-01-31t23:59:59z", "1970-01-01T00:00:00Z",
            "2026-01-31T23:59:59+00:00", "9999-12-31T23:59:59Z", "\\\"lastTransitionTime\\\":\\\"", "ü", "{", "x",
        ]), 0..12)) {
            let text = parts.concat();
            prop_assert_eq!(Compact::new(&text, &mut Interner::default()).text(), text);
        }
    }
}
