//! The protocol, without IO.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Leadership, Settings};

/// So many of our own durations a Lease is held at most that does not change, whatever it says: else whoever may write it
/// once keeps everybody from leading for years. Replicas of one release say the same duration.
const LONGEST: u32 = 4;

/// What a Lease says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Who holds it; none if it was given back.
    pub holder: Option<Arc<str>>,
    /// For how long it is held after the last renewal, as the holder says; believed up to four times our own.
    pub duration: Option<Duration>,
    /// How often the holder changed.
    pub transitions: i32,
    /// When it was acquired and renewed, as the holder wrote it. They are compared with what they were before, never with
    /// a clock.
    pub times: [Option<String>; 2],
    /// The version of the object.
    pub resource_version: String,
}

impl Record {
    /// Whether nobody did anything since. The version turns by a label, too.
    fn says_the_same(&self, other: &Self) -> bool {
        (&self.holder, self.duration, self.transitions, &self.times)
            == (&other.holder, other.duration, other.transitions, &other.times)
    }
}

/// How the lease is to be taken, or renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taking {
    /// The version that must be there; none if the Lease is to be made.
    pub resource_version: Option<String>,
    /// `leaseTransitions`.
    pub transitions: i32,
    /// Whether the holder changes, so that there is another `acquireTime`.
    pub acquired: bool,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read the Lease.
    Read,
    /// Write it.
    Take(Taking),
    /// Nothing until then.
    Wait(Instant),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Read,
    Take,
}

/// One elector's view of the election.
#[derive(Debug)]
pub struct Election {
    identity: Arc<str>,
    duration: Duration,
    renew: Duration,
    retry: Duration,
    /// What the Lease says, and since when it says so as far as was seen here.
    observed: Option<(Record, Instant)>,
    /// Whether the Lease was not there when it was read last.
    absent: bool,
    leads_until: Option<Instant>,
    next: Next,
    at: Instant,
}

impl Election {
    /// An elector that has not read the Lease yet.
    pub fn new(settings: &Settings, now: Instant) -> Self {
        Self {
            identity: Arc::clone(&settings.identity),
            duration: settings.duration,
            renew: settings.renew,
            retry: settings.retry,
            observed: None,
            absent: false,
            leads_until: None,
            next: Next::Read,
            at: now,
        }
    }

    /// What to do now. After a request, [`Election::read`], [`Election::took`], [`Election::conflict`] or
    /// [`Election::failed`] is called before the next step.
    pub fn step(&mut self, now: Instant) -> Step {
        self.leads_until = self.leadership(now).until;
        if now < self.at {
            return Step::Wait(self.leads_until.map_or(self.at, |until| until.min(self.at)));
        }
        match self.next {
            Next::Read => Step::Read,
            Next::Take => {
                let record = self.observed.as_ref().map(|(record, _)| record);
                let ours = record.is_some_and(|record| record.holder.as_ref() == Some(&self.identity));
                let acquired = !ours || self.absent;
                let before = record.map_or(0, |record| record.transitions);
                let transitions = if record.is_some() && !ours { before.saturating_add(1) } else { before };
                let present = record.filter(|_| !self.absent);
                let resource_version = present.map(|record| record.resource_version.clone());
                Step::Take(Taking { resource_version, transitions, acquired })
            }
        }
    }

    /// The Lease was read; none if there is none.
    pub fn read(&mut self, record: Option<Record>, now: Instant) {
        self.absent = record.is_none();
        if let Some(record) = record {
            self.observe(record, now);
        }
        match &self.observed {
            // Whoever held a Lease that somebody deleted still believes in it.
            Some((Record { holder: Some(holder), duration, .. }, since)) if *holder != self.identity => {
                self.leads_until = None;
                let over = *since + duration.unwrap_or(self.duration).min(self.duration * LONGEST);
                (self.next, self.at) =
                    if now >= over { (Next::Take, now) } else { (Next::Read, over.min(now + self.retry)) };
            }
            _ => (self.next, self.at) = (Next::Take, now),
        }
    }

    /// The Lease was written by a request that was sent at `sent`; this is what it says now.
    pub fn took(&mut self, record: Record, sent: Instant, now: Instant) {
        let ours = record.holder.as_ref() == Some(&self.identity);
        self.absent = false;
        self.observe(record, now);
        if ours {
            // Others count from when they saw the renewal, which was later than `sent`, and wait for the whole duration.
            self.leads_until = Some(sent + self.duration * 2 / 3);
            (self.next, self.at) = (Next::Take, sent + self.renew);
        } else {
            self.leads_until = None;
            (self.next, self.at) = (Next::Read, now + self.retry);
        }
    }

    /// The Lease is not of the version that was to be written.
    pub fn conflict(&mut self, now: Instant) {
        // Who leads wants to know who leads; who does not came too late.
        let pause = if self.leads_until.is_some() { self.retry / 10 } else { self.retry };
        (self.next, self.at) = (Next::Read, now + pause);
    }

    /// The API server did not answer, or not what was asked. A write may have been carried out, so the Lease is read.
    pub fn failed(&mut self, now: Instant) {
        (self.next, self.at) = (Next::Read, now + self.retry);
    }

    /// Who leads, as far as is known.
    pub fn leadership(&self, now: Instant) -> Leadership {
        let holder = self.observed.as_ref().and_then(|(record, _)| record.holder.clone());
        Leadership { holder, until: self.leads_until.filter(|until| now < *until) }
    }

    fn observe(&mut self, record: Record, now: Instant) {
        match &mut self.observed {
            Some((known, _)) if known.says_the_same(&record) => *known = record,
            observed => *observed = Some((record, now)),
        }
    }
}
