//! What is known of one object. There are many: it is small.

use std::{
    hash::{BuildHasher, Hash},
    sync::Arc,
    time::Instant,
};

use api::Kind;

use super::{
    Version,
    rival::{Rival, Turn},
};
use crate::status::compact::{Compact, Texts};

/// One object.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) said: Said,
    /// The digest of what is said; none of what was never told.
    pub(super) last: Option<u64>,
    pub(super) known: Option<Known>,
    pub(super) phase: Phase,
    /// Since when something else is desired than what is there, as far as nothing is under way for it.
    pub(super) since: Option<Instant>,
    /// Not before then.
    pub(super) earliest: Option<Instant>,
    /// Failures in a row.
    pub(super) failures: u32,
    /// The refusal that was told last.
    pub(super) told: Option<u64>,
    /// Digests of what was written last and of what the API server made of it.
    pub(super) wrote: Option<(Option<u64>, u64)>,
    /// Somebody who overwrote that.
    pub(super) rival: Option<Box<Rival>>,
}

/// What is desired.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Said {
    /// Nobody said anything yet.
    #[default]
    Untold,
    /// Nothing of ours.
    Nothing,
    /// Nothing any more; this was the last.
    Was(Arc<str>),
    /// This.
    Is(Arc<str>),
}

impl Entry {
    /// What the API server has from now on. Gives whether the object that was known is gone: then nothing of what happened
    /// to it concerns another one of its name.
    pub(super) fn learn(&mut self, known: Option<Known>) -> bool {
        let before = std::mem::replace(&mut self.known, known);
        let gone = before.is_some_and(|before| self.known.as_ref().is_none_or(|known| known.uid != before.uid));
        if gone {
            (self.wrote, self.rival, self.told, self.earliest) = (None, None, None, None);
            self.failures = 0;
        }
        gone
    }

    /// What to do about somebody who overwrote the very words that are to be written, and whether that is news; none if
    /// nobody did.
    pub(super) fn overwritten(&mut self, now: Instant, hasher: &impl BuildHasher) -> Option<(Turn, bool)> {
        let (said, kept) = self.wrote?;
        let same = said == self.last && self.known.as_ref()?.digest(hasher) != kept;
        same.then(|| self.rival.get_or_insert_default().overwrites(now))
    }

    /// What was to be written was, or came too late.
    pub(super) fn written(&mut self) {
        if let Some(rival) = &mut self.rival {
            rival.written();
        }
    }

    /// All that decides whether anything is to be written.
    pub(super) fn question(&self, kind: Kind, complete: bool) -> impl Hash {
        let status = self.known.as_ref().map(|known| known.status.as_ref().map(Compact::words));
        (kind, complete, &self.said, status)
    }
}

impl Said {
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
        version: Version<'_>,
        ahead_until: Option<Instant>,
        texts: &mut Texts,
        hasher: &impl BuildHasher,
    ) -> Self {
        Self {
            uid: digest(hasher, version.uid),
            resource_version: version.resource_version.into(),
            status: version.status.map(|status| Compact::new(status, texts)),
            ahead_until,
        }
    }

    /// Digest of the status.
    pub(super) fn digest(&self, hasher: &impl BuildHasher) -> u64 {
        hasher.hash_one(&self.status)
    }
}

/// What is being done about an object.
#[derive(Debug, Default)]
pub(super) enum Phase {
    /// Nothing.
    #[default]
    Idle,
    /// It is in the line, to be compared or to be read.
    Queued { read: bool },
    /// A request is made.
    UnderWay {
        serial: u64,
        /// Whether something turned since.
        turned: bool,
        /// Since when what is written was desired.
        since: Option<Instant>,
        /// Digest of what is written.
        said: Option<u64>,
        /// The version that it was made for.
        resource_version: Option<Arc<str>>,
        read: bool,
    },
    /// It waits for a time.
    Waiting { key: (Instant, u64), why: Waiting },
}

/// Why an object waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waiting {
    /// For the watch to explain a conflict.
    News,
    /// It was refused; once something turned, until `earliest` only.
    Refused { earliest: Instant },
    /// It failed.
    Failed,
    /// It was written a moment ago.
    Spacing,
    /// Somebody else overwrites what is written.
    Rival,
}

pub(super) fn digest<T: Hash + ?Sized>(hasher: &impl BuildHasher, value: &T) -> u64 {
    hasher.hash_one(value)
}
