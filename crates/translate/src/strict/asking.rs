//! What is asked about, and what becomes of the answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use ir::settings::WhenUnavailable;

use super::waiters::{FragmentId, Item, id};
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

/// How long a route waits before it is told.
pub const NOTICED: Duration = Duration::from_secs(5);

/// How long what lets others in than before is served as it was while somebody is about to judge it: some batches. Closed at
/// once, each change of a policy would cost requests.
const GRACE: Duration = Duration::from_secs(1);

impl Bounds {
    /// How long anything waits at most while somebody can be asked: what has not had its turn waits longer, since that is not its
    /// owner's fault.
    pub fn longest(&self) -> Duration {
        3 * self.timeout
    }

    /// How long what may not be served any more is, while somebody is about to judge what stands for it.
    pub(super) fn grace(&self) -> Duration {
        GRACE.min(self.timeout)
    }

    /// When something may become of what waits, though nobody says anything.
    pub(super) fn moments(&self, since: Instant) -> [Instant; 4] {
        [self.grace(), NOTICED, self.timeout, self.longest()].map(|after| since + after)
    }
}

/// How something waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) since: Instant,
    /// Whether it may not go on as it was meanwhile: it lets others in than before.
    pub(super) is_urgent: bool,
    /// Whether it waits for a word, and never goes without one.
    needs_word: bool,
}

impl Wait {
    /// Since then; `is_urgent` where it lets others in than before.
    pub(super) fn since(since: Instant, is_urgent: bool) -> Self {
        Self { since, is_urgent, needs_word: false }
    }

    /// Of what is closed, and stays so until there is a word.
    pub(super) fn forever(now: Instant) -> Self {
        Self::since(now, false)
    }

    /// For a word, however long that takes.
    pub(super) fn for_a_word(now: Instant) -> Self {
        Self { needs_word: true, ..Self::forever(now) }
    }
}

/// What becomes of what was asked about.
pub(super) enum Verdict {
    /// It may be sent.
    Fine,
    /// It is refused in these words; and whether Envoy said so.
    Refused(Arc<str>, bool),
    /// It waited long enough, and cannot be sent without a word.
    NotJudged,
    /// It waits; and whether nobody is about to judge it.
    Waits(bool),
}

/// What the owner of something is told of which nobody knows.
pub(super) const NOT_JUDGED: &str = "no Envoy said in time whether it takes it; it is asked again";

/// What the owner of something is told that lets others in than before, and waits.
pub(super) const UNJUDGED: &str = "who is let in changes, and no Envoy has said yet whether it takes that; it is asked";

/// What is sent though nobody judged it, and for whom.
pub(super) type Waived = BTreeMap<FragmentId, (Sent, BTreeSet<Item>)>;

/// Asks for words.
pub(super) struct Asking<'a> {
    pub(super) now: Instant,
    pub(super) bounds: Bounds,
    pub(super) word: &'a mut dyn FnMut(&Sent) -> Word,
    pub(super) waived: &'a mut Waived,
    /// What of it was not before.
    pub(super) fresh: Vec<FragmentId>,
    /// Whether nobody can be asked.
    pub(super) is_away: bool,
}

impl Asking<'_> {
    /// Whether what waits since then has waited for long enough.
    pub(super) fn is_late(&self, since: Instant) -> bool {
        self.has_passed(since, self.bounds.timeout)
    }

    /// Whether its owner is told that it waits.
    pub(super) fn is_noticed(&self, since: Instant) -> bool {
        self.has_passed(since, NOTICED)
    }

    /// Whether it has, had it never its turn.
    pub(super) fn is_too_late(&self, since: Instant) -> bool {
        self.has_passed(since, self.bounds.longest())
    }

    /// Whether what waits since then, and may not be served any more, is closed. `is_hopeless` where nobody is about to judge it.
    pub(super) fn closes(&self, since: Instant, is_hopeless: bool) -> bool {
        is_hopeless || self.has_passed(since, self.bounds.grace())
    }

    /// Whether what waits is sent though nobody judged it, once it may not wait any longer.
    pub(super) fn waives(&self) -> bool {
        self.is_away && self.bounds.then == WhenUnavailable::Standard
    }

    /// From when something waits that did since then, had it not waited while nobody could be asked, which was since `away`.
    pub(super) fn resumed(&self, since: Instant, away: Instant) -> Instant {
        since + self.now.saturating_duration_since(away.max(since))
    }

    fn has_passed(&self, since: Instant, time: Duration) -> bool {
        self.now.saturating_duration_since(since) >= time
    }

    /// What becomes of a fragment of what waits so.
    pub(super) fn about(&mut self, item: &Item, sent: &Sent, wait: Wait) -> Verdict {
        let id = id(sent);
        let word = (self.word)(sent);
        let is_late = self.is_late(wait.since);
        self.is_away |= word == Word::Unknown;
        match &word {
            Word::Accepted => {
                self.waived.remove(&id);
                Verdict::Fine
            }
            Word::Refused(words) | Word::Fatal(words) => {
                self.waived.remove(&id);
                Verdict::Refused(words.clone(), matches!(word, Word::Refused(_)))
            }
            // Who says the same has waited for nothing yet.
            _ if self.waived.get(&id).is_some_and(|(_, of)| of.contains(item)) => Verdict::Fine,
            // Of what closes meanwhile nobody has anything from waiting.
            Word::Unknown
                if (is_late || wait.is_urgent) && self.bounds.then == WhenUnavailable::Standard && !wait.needs_word =>
            {
                let (_, of) = self.waived.entry(id).or_insert_with(|| {
                    self.fresh.push(id);
                    (sent.clone(), BTreeSet::new())
                });
                of.insert(item.clone());
                Verdict::Fine
            }
            Word::Suspect if is_late && !wait.needs_word => Verdict::NotJudged,
            Word::Judging if self.is_too_late(wait.since) && !wait.needs_word => Verdict::NotJudged,
            Word::Judging => Verdict::Waits(false),
            Word::Suspect | Word::Unknown => Verdict::Waits(true),
        }
    }
}
