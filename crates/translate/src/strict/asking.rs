//! What is asked about, and what becomes of the answer.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use envoy::{bytes::Hash, judged::Kind};
use ir::settings::WhenUnavailable;

use crate::inspect::Sent;

/// What is known of a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// Envoy takes it.
    Accepted,
    /// It does not, as it says itself: one clause, fit for the owner of its object.
    Refused(Arc<str>),
    /// It ends when it reads it, likewise. That may have another cause.
    Fatal(Arc<str>),
    /// Nobody knows yet. It was in a batch that ended without a word, or its owner has used up the time of judging that is his:
    /// it is never sent for want of a word.
    Suspect,
    /// Nobody knows yet, and somebody is about to say it.
    Judging,
    /// Nobody knows, since nobody can be asked.
    Unknown,
}

/// How long anything waits.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// For a word. Zero for no wait at all.
    pub timeout: Duration,
    /// What becomes of it then, unless it is a suspect.
    pub then: WhenUnavailable,
}

/// A fragment, whatever object it is of.
pub(super) type FragmentId = (Kind, Hash);

/// Asks for words, and says what shall be asked about.
pub(super) struct Asking<'a> {
    pub(super) now: Instant,
    pub(super) bounds: Bounds,
    pub(super) word: &'a mut dyn FnMut(&Sent) -> Word,
    /// Of which nobody knows.
    pub(super) unknown: Vec<Sent>,
    /// Since when each of them is asked about, and was before.
    pub(super) since: HashMap<FragmentId, Instant>,
    pub(super) before: HashMap<FragmentId, Instant>,
    /// What is sent though nobody judged it.
    pub(super) waived: &'a mut BTreeMap<FragmentId, Sent>,
}

/// What becomes of what was asked about.
pub(super) enum Verdict {
    /// It may be sent.
    Fine,
    /// It is refused in these words; and whether Envoy said so.
    Refused(Arc<str>, bool),
    /// It waited long enough, and cannot be sent without a word.
    NotJudged,
    /// It waits.
    Waits,
}

/// What the owner of something is told of which nobody knows.
pub(super) const NOT_JUDGED: &str = "no Envoy said in time whether it takes it; it is asked again";

impl Asking<'_> {
    /// What becomes of a fragment.
    pub(super) fn about(&mut self, sent: Sent) -> Verdict {
        let id = (sent.fragment.kind, sent.fragment.hash);
        let word = (self.word)(&sent);
        let since = self.before.get(&id).copied().unwrap_or(self.now);
        let is_late = self.now.saturating_duration_since(since) >= self.bounds.timeout;
        let verdict = match &word {
            Word::Accepted => {
                self.waived.remove(&id);
                return Verdict::Fine;
            }
            Word::Refused(words) | Word::Fatal(words) => {
                self.waived.remove(&id);
                return Verdict::Refused(words.clone(), matches!(word, Word::Refused(_)));
            }
            _ if self.waived.contains_key(&id) => Verdict::Fine,
            Word::Unknown if is_late && self.bounds.then == WhenUnavailable::Standard => {
                self.waived.insert(id, sent.clone());
                Verdict::Fine
            }
            Word::Suspect if is_late => Verdict::NotJudged,
            Word::Suspect | Word::Judging | Word::Unknown => Verdict::Waits,
        };
        if self.since.insert(id, since).is_none() {
            self.unknown.push(sent);
        }
        verdict
    }
}
