//! What is known of one object. There are many: it is small.

use std::{
    hash::{BuildHasher, Hash},
    sync::Arc,
    time::Instant,
};

use api::Kind;

use super::rival::{Rival, Turn};
use crate::{
    status::compact::{Compact, Interner},
    watch::Stored,
};

/// One object.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) desired: DesiredStatus,
    /// The digest of what is desired; none as long as that was never known.
    pub(super) desired_digest: Option<u64>,
    pub(super) known: Option<Known>,
    /// The request that is in flight.
    pub(super) in_flight: Option<Box<InFlight>>,
    /// Why the object waits in the queue, if not for its turn alone.
    pub(super) hold: Option<Hold>,
    /// Since when something else is desired than what is there, as far as nothing is in flight for it.
    pub(super) since: Option<Instant>,
    /// No write before then.
    pub(super) earliest: Option<Instant>,
    /// Digest of the refusal that was logged last.
    pub(super) refusal: Option<u64>,
    /// Digests of what was written last and of what the API server made of it.
    pub(super) wrote: Option<(Option<u64>, u64)>,
    /// Somebody who overwrote that.
    pub(super) rival: Option<Box<Rival>>,
}

/// What is desired of an object's status.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum DesiredStatus {
    /// That is not known yet.
    #[default]
    Unknown,
    /// Nothing of ours.
    None,
    /// Nothing of ours any more; this was the last.
    Withdrawn(Arc<str>),
    /// This.
    Status(Arc<str>),
}

/// A request.
#[derive(Debug)]
pub(super) struct InFlight {
    /// Since when what is written was desired.
    pub(super) since: Option<Instant>,
    /// Digest of what is written.
    pub(super) desired_digest: Option<u64>,
    /// The version that it was made for.
    pub(super) resource_version: Option<Arc<str>>,
    /// Whether it reads.
    pub(super) read: bool,
}

/// Why an object waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hold {
    /// The watch is to explain a conflict.
    Conflict,
    /// The API server refused. If the object changes, it waits until `earliest` only.
    Refused { earliest: Instant },
    /// The request failed.
    Failed,
    /// Somebody else overwrites what is written.
    Overwritten,
}

impl Entry {
    /// What the API server has from now on. Gives whether the object that was known is gone: then nothing of what happened
    /// to it concerns another one of its name.
    pub(super) fn learn(&mut self, known: Option<Known>) -> bool {
        let before = std::mem::replace(&mut self.known, known);
        let gone = before.is_some_and(|before| self.known.as_ref().is_none_or(|known| known.uid != before.uid));
        if gone {
            (self.wrote, self.rival, self.refusal, self.earliest, self.hold) = (None, None, None, None, None);
        }
        gone
    }

    /// What to do about somebody who overwrote the very status that is to be written, and whether that is news; none if
    /// nobody did.
    pub(super) fn overwritten(&mut self, now: Instant, hasher: &impl BuildHasher) -> Option<(Turn, bool)> {
        let (written, kept) = self.wrote?;
        let same = written == self.desired_digest && self.known.as_ref()?.digest(hasher) != kept;
        same.then(|| self.rival.get_or_insert_default().overwrites(now))
    }

    /// When the object may be compared at the earliest.
    pub(super) fn not_before(&self, now: Instant) -> Instant {
        self.earliest.map_or(now, |earliest| earliest.max(now))
    }

    /// What was to be written was, or came too late.
    pub(super) fn written(&mut self) {
        if let Some(rival) = &mut self.rival {
            rival.written();
        }
    }

    /// All that decides whether anything is to be written.
    pub(super) fn question(&self, kind: Kind, complete: bool) -> impl Hash {
        let status = self.known.as_ref().map(|known| known.status.as_ref().map(Compact::without_times));
        (kind, complete, &self.desired, status)
    }
}

impl DesiredStatus {
    pub(super) fn digest(&self, hasher: &impl BuildHasher) -> u64 {
        hasher.hash_one(self)
    }
}

/// What the API server has.
#[derive(Debug)]
pub(super) struct Known {
    /// Digest of the uid.
    pub(super) uid: u64,
    pub(super) resource_version: Arc<str>,
    pub(super) status: Option<Compact>,
    /// Set while this is newer than what the watch has brought: until then at the latest.
    pub(super) ahead_until: Option<Instant>,
}

impl Known {
    pub(super) fn new(
        stored: &Stored,
        ahead_until: Option<Instant>,
        interner: &mut Interner,
        hasher: &impl BuildHasher,
    ) -> Self {
        Self {
            uid: digest(hasher, &*stored.uid),
            resource_version: Arc::clone(&stored.resource_version),
            status: stored.status.as_ref().map(|status| Compact::new(status.get(), interner)),
            ahead_until,
        }
    }

    /// Digest of the status.
    pub(super) fn digest(&self, hasher: &impl BuildHasher) -> u64 {
        hasher.hash_one(&self.status)
    }
}

pub(super) fn digest<T: Hash + ?Sized>(hasher: &impl BuildHasher, value: &T) -> u64 {
    hasher.hash_one(value)
}
