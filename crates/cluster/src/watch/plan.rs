//! How one watch goes on.
//!
//! A list comes first: streaming, or in pages where the server has no other. From its version on changes are watched, over
//! as many connections as it takes. When the server no longer knows that version, there is a list again, which is reported as
//! differences. A list after the first is never read from a cache that may be behind what was read before.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    Limits,
    decoder::Status,
    request::{Ask, Target},
};
use crate::workqueue::Backoff;

/// Whether the CRD of a kind is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// Nobody knows yet, or the kind needs none.
    Unknown,
    /// Nobody may know.
    Hidden,
    /// It is.
    Present,
    /// It is not.
    Absent,
}

/// How an attempt came to its end.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The server ended the watch, or the connection did, after this time. Not a failure, unless it is over at once.
    Ended { why: String, lasted: Duration },
    /// The server refused.
    Refused { status: Status, retry_after: Option<Duration> },
    /// Nothing came of it.
    Failed(String),
    /// The server did not answer in time, or did not go on with a list.
    Slow,
    /// Nothing came over a watch for too long.
    Silent,
}

impl Outcome {
    /// The HTTP status code of a refusal.
    pub(super) fn code(&self) -> Option<u16> {
        if let Self::Refused { status, .. } = self { Some(status.code) } else { None }
    }

    /// Why it is not as it should be, for a metric; none if it is. A watch that lasted as long as `settle` is as it should be.
    pub(super) fn reason(&self, settle: Duration) -> Option<&'static str> {
        Some(match self {
            Self::Ended { lasted, .. } if *lasted >= settle => return None,
            Self::Ended { .. } => "ended",
            Self::Failed(_) => "connection",
            Self::Slow => "timeout",
            Self::Silent => "silent",
            Self::Refused { status, .. } => match status.code {
                400 | 422 => "unsupported",
                401 | 403 => "forbidden",
                404 => "not_found",
                410 => "expired",
                429 => "overloaded",
                500.. => "server_error",
                _ => "refused",
            },
        })
    }
}

/// What to do after an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// When to go on.
    pub(super) next: Next,
    /// Why the watch does not work, if it does not.
    pub(super) failing: Option<String>,
}

/// When to go on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// At once.
    Now,
    /// After a while.
    Wait(Duration),
    /// When the CRD comes, or after a while: the kind is not served.
    Absent(Duration),
}

/// Where a watch is, and how well it goes.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(super) struct Plan {
    target: Target,
    limits: Limits,
    /// Index of the version of the API that is asked for, and how many in turn were not found.
    version: usize,
    not_found: usize,
    /// Since when no version is found.
    not_found_since: Option<Instant>,
    absent: bool,
    /// The version from which changes are watched; none while there is a list.
    at: Option<String>,
    /// Whether the next list must be up to date.
    latest: bool,
    streaming: bool,
    /// What to ask the next page with.
    next_page: Option<String>,
    /// Whether a list in pages is too slow for the server to remember what it is of.
    whole: bool,
    /// Whether the version was unknown since the last list.
    expired: bool,
    /// Whether nothing came since the last list or change, for longer than there should be nothing.
    silent: bool,
    /// Whether the server has had no time for it.
    busy: bool,
    failures: u32,
}

impl Plan {
    pub(super) fn new(target: Target, limits: Limits) -> Self {
        Self {
            target,
            limits,
            version: 0,
            not_found: 0,
            not_found_since: None,
            absent: false,
            at: None,
            latest: false,
            streaming: true,
            next_page: None,
            whole: false,
            expired: false,
            silent: false,
            busy: false,
            failures: 0,
        }
    }

    /// The plan of a list alone, in pages.
    pub(super) fn paged(target: Target, limits: Limits) -> Self {
        Self { streaming: false, ..Self::new(target, limits) }
    }

    /// The version of the API, and what to ask.
    pub(super) fn ask(&self) -> (&'static str, Ask) {
        let ask = match (&self.at, self.streaming) {
            (Some(at), _) => Ask::Changes { since: at.clone() },
            (None, true) => Ask::Initial { latest: self.latest },
            (None, false) => Ask::Page { next: self.next_page.clone(), whole: self.whole },
        };
        (self.target.versions()[self.version], ask)
    }

    /// Whether what is asked begins a list.
    pub(super) fn begins_list(&self) -> bool {
        self.at.is_none() && self.next_page.is_none()
    }

    /// Whether there is a list, or changes are watched.
    pub(super) fn lists(&self) -> bool {
        self.at.is_none()
    }

    /// The server began to answer.
    pub(super) fn answered(&mut self) {
        (self.not_found, self.not_found_since, self.absent, self.busy) = (0, None, false, false);
    }

    /// A page came; gives whether it was the last.
    pub(super) fn page(&mut self, version: &str, next: Option<String>) -> bool {
        self.next_page = next;
        if self.next_page.is_none() {
            self.listed(version);
        }
        self.next_page.is_none()
    }

    /// All that there was at this version has been read.
    pub(super) fn listed(&mut self, version: &str) {
        self.at = Some(version.to_owned());
        (self.latest, self.whole, self.expired, self.silent) = (true, false, false, false);
    }

    /// All changes up to this version have been read.
    pub(super) fn reached(&mut self, version: String) {
        // Before the list is complete, versions come in any order.
        if self.at.is_some() && !version.is_empty() {
            self.at = Some(version);
            self.silent = false;
        }
    }

    /// It has gone well for a while.
    pub(super) fn settled(&mut self) {
        self.answered();
        self.failures = 0;
    }

    /// What to do after an attempt.
    pub(super) fn judge(&mut self, outcome: Outcome, presence: Presence, now: Instant) -> Verdict {
        let initial = self.lists() && self.streaming;
        match outcome {
            Outcome::Ended { why, lasted } => {
                self.latest = true;
                if lasted >= self.limits.settle {
                    self.settled();
                    return NOW;
                }
                // Once is nothing: that server is perhaps about to go, and another one is there.
                self.failures += 1;
                if self.failures == 1 { NOW } else { self.wait(why, None) }
            }
            Outcome::Refused { status, retry_after } => match status.code {
                404 => self.not_found(&status, presence, now),
                400 | 422 if initial => {
                    self.streaming = false;
                    NOW
                }
                400 | 410 | 422 => self.expired(&status),
                _ if status.is_too_large_resource_version() => self.expired(&status),
                // The storage of a kind that is new says so for a moment.
                429 if !std::mem::replace(&mut self.busy, true) => {
                    Verdict { failing: None, ..self.failed(status.to_string(), retry_after) }
                }
                _ => self.failed(status.to_string(), retry_after),
            },
            Outcome::Failed(why) => self.failed(why, None),
            Outcome::Silent => {
                self.settled();
                // A server whose data come from a backup may never again come to the version that it is asked for.
                if std::mem::replace(&mut self.silent, true) {
                    self.at = None;
                }
                NOW
            }
            Outcome::Slow => {
                // Some servers cannot tell when a streaming list is complete.
                self.streaming &= !initial;
                self.failed("the API server does not answer in time".to_owned(), None)
            }
        }
    }

    fn failed(&mut self, why: String, retry_after: Option<Duration>) -> Verdict {
        self.failures += 1;
        self.wait(why, retry_after)
    }

    fn wait(&self, why: String, retry_after: Option<Duration>) -> Verdict {
        Verdict { next: Next::Wait(self.backoff(retry_after)), failing: Some(why) }
    }

    /// Twice as long each time and never the same for all, so that a server that comes back is not run over.
    fn backoff(&self, retry_after: Option<Duration>) -> Duration {
        let Limits { backoff_min, backoff_max, .. } = self.limits;
        let longest = Backoff::new(backoff_min, backoff_max).delay(self.failures);
        let wait = longest.mul_f64(0.5 + fastrand::f64() / 2.0);
        // Nobody waits for ever because a server says so.
        wait.max(retry_after.unwrap_or_default().min(backoff_max))
    }

    /// The server does not know the version any more.
    fn expired(&mut self, status: &Status) -> Verdict {
        self.whole |= self.next_page.is_some();
        (self.at, self.next_page, self.latest) = (None, None, true);
        if std::mem::replace(&mut self.expired, true) { self.failed(status.to_string(), None) } else { NOW }
    }

    fn not_found(&mut self, status: &Status, presence: Presence, now: Instant) -> Verdict {
        let versions = self.target.versions().len();
        self.version = (self.version + 1) % versions;
        self.not_found += 1;
        if self.not_found < versions {
            return NOW;
        }
        self.not_found = 0;
        let Some(crd) = self.target.crd() else { return self.failed(status.to_string(), None) };
        let since = *self.not_found_since.get_or_insert(now);
        let doubted = now.duration_since(since) >= self.limits.doubt;
        // All objects of a kind hang on this, and servers that start, or that stand before one that is away, answer so too:
        // that a definition has gone is known from the definitions, and from time only where they may not be read.
        self.absent |= presence == Presence::Absent || (presence == Presence::Hidden && doubted);
        if !self.absent {
            let why = match presence {
                Presence::Present => {
                    let versions = self.target.versions().join(" or ");
                    format!("{status}, although there is a CustomResourceDefinition {crd}: it must serve {versions}")
                }
                _ => status.to_string(),
            };
            let verdict = self.failed(why, None);
            // Before the first list most likely there is no such kind, which is no failure.
            return if self.latest || doubted { verdict } else { Verdict { failing: None, ..verdict } };
        }
        (self.at, self.next_page) = (None, None);
        self.failures += 1;
        Verdict {
            next: Next::Absent(match presence {
                // It is served any moment, or another version of it is.
                Presence::Present => self.backoff(None),
                Presence::Unknown | Presence::Hidden => self.limits.absent_poll,
                Presence::Absent => 6 * self.limits.absent_poll,
            }),
            failing: None,
        }
    }

    /// Whether the CRD is there has changed: what failed before says nothing now.
    pub(super) fn hurry(&mut self) {
        self.failures = 0;
    }
}

const NOW: Verdict = Verdict { next: Next::Now, failing: None };

#[cfg(test)]
mod tests;
