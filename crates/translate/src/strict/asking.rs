//! What is asked about, and what becomes of the answer.

use std::{
    collections::{BTreeMap, HashSet},
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
    /// For a word, from when a tree, a part or a Gateway began to wait, however often it changes. Zero for no wait at all.
    pub timeout: Duration,
    /// What becomes of it then, unless it is a suspect.
    pub then: WhenUnavailable,
}

impl Bounds {
    /// How long anything waits at most while somebody can be asked: what has not had its turn waits longer, since that is not its
    /// owner's fault.
    pub fn longest(&self) -> Duration {
        3 * self.timeout
    }
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
    /// The same, each once.
    pub(super) asked: HashSet<FragmentId>,
    /// Whether nobody can be asked.
    pub(super) is_away: bool,
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
    /// Whether what waits since then has waited for long enough.
    pub(super) fn is_late(&self, since: Instant) -> bool {
        self.now.saturating_duration_since(since) >= self.bounds.timeout
    }

    /// Whether it has, had it never its turn. Never while nobody can be asked.
    pub(super) fn is_too_late(&self, since: Instant) -> bool {
        !self.is_away && self.now.saturating_duration_since(since) >= self.bounds.longest()
    }

    /// What becomes of a fragment of what waits since then.
    pub(super) fn about(&mut self, sent: Sent, since: Instant) -> Verdict {
        let id = (sent.fragment.kind, sent.fragment.hash);
        let word = (self.word)(&sent);
        let is_late = self.is_late(since);
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
            Word::Judging if self.now.saturating_duration_since(since) >= self.bounds.longest() => Verdict::NotJudged,
            Word::Suspect | Word::Judging | Word::Unknown => Verdict::Waits,
        };
        self.is_away |= word == Word::Unknown;
        if self.asked.insert(id) {
            self.unknown.push(sent);
        }
        verdict
    }
}
