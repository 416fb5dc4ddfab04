//! Asking a client that rejected a route configuration what it takes of it.
//!
//! A trial is one more version of that resource, for this client alone. It is sent when nothing else of its type is due, and waits
//! no longer for its answer than any other response. Whatever the client answers, it has rejected what it rejected, and keeps what
//! it goes on with: what may be taken from it and what it shall have stay as they are, and no rollout waits for a trial. What is
//! newer ends the trials. A client that took one gets back what it had acknowledged when they end, unless it gets something newer
//! and takes that.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use super::state::InFlight;
use super::subscription::WILDCARD;
use super::{Observation, Protocol, Response, Stream};
use crate::frame;
use crate::resource::{Resource, ResourceType, Version};
use crate::trial::{Answer, Trial};

const KIND: ResourceType = ResourceType::RouteConfiguration;

/// Where the trials of a stream stand.
#[derive(Default)]
pub(super) struct Trials {
    /// What the client is to be asked, or is being asked.
    asked: Option<Trial>,
    is_sent: bool,
    /// Whether more may follow.
    is_open: bool,
    /// Route configurations of which the client has a trial, or may have.
    owed: BTreeSet<Arc<str>>,
    /// Those that the client had from an earlier stream. What they say is not known.
    brought: BTreeSet<Arc<str>>,
}

/// What a response is that is none of an update.
pub(super) struct Tried {
    name: Arc<str>,
    /// The number of the trial; none where the client gets back what it acknowledged.
    number: Option<u64>,
}

impl Trials {
    /// The client has this of an earlier stream. With [`WILDCARD`]: it may have any.
    pub(super) fn brings(&mut self, name: &str) {
        self.brought.insert(name.into());
    }

    /// The client has what it shall have of a name, or wants none.
    pub(super) fn settle(&mut self, name: &str) {
        self.owed.remove(name);
    }
}

impl Stream {
    /// The client shall be asked this, instead of anything before; with none nothing more will follow.
    pub fn on_trial(&mut self, trial: Option<Trial>) {
        self.trials.is_open = trial.is_some();
        self.trials.is_sent = false;
        self.trials.asked = trial;
    }

    /// Ends a trial that makes no sense any more, or is not answered.
    pub(super) fn review_trial(&mut self) {
        let Some(trial) = &self.trials.asked else { return };
        let (number, name) = (trial.number, trial.resource.shared_name());
        let is_late = |flight: &InFlight| {
            flight.overdue && flight.trial.as_ref().is_some_and(|tried| tried.number == Some(number))
        };
        let is_late = self.types[KIND.index()].in_flight.iter().any(is_late);
        if !is_late && self.may_try(trial) {
            return;
        }
        if is_late {
            self.trials.owed.insert(name);
        }
        self.end_trial(number, Answer::Ended);
        self.trials.is_open = false;
    }

    fn may_try(&self, trial: &Trial) -> bool {
        let name = trial.resource.name();
        let state = &self.types[KIND.index()];
        let has = self.acknowledged.get(name).map(Resource::content_version);
        let is_known = has.is_some() || ![name, WILDCARD].iter().any(|name| self.trials.brought.contains(*name));
        state.subscription.covers(name)
            && self.rejects(name) == Some(trial.rejected)
            && (state.has_rejected_last(name) || state.is_alone_due(name))
            && has == trial.before
            && is_known
    }

    /// The version that the client shall have of a name, if it rejected that.
    fn rejects(&self, name: &str) -> Option<Version> {
        let latest = self.rollout.latest.as_ref()?.get(KIND, name)?.content_version();
        let (rejected, _) = self.types[KIND.index()].rejected.get(name)?;
        (*rejected == latest).then_some(latest)
    }

    fn end_trial(&mut self, number: u64, answer: Answer) {
        self.trials.asked = None;
        self.observations.push(Observation::Tried(number, answer));
    }

    /// The client answered.
    pub(super) fn tried(&mut self, Tried { name, number }: Tried, error: Option<String>) {
        let Some(number) = number else { return };
        // A late answer says nothing of what the client got since.
        let is_back =
            |flight: &InFlight| flight.trial.as_ref().is_some_and(|tried| tried.number.is_none() && tried.name == name);
        if error.is_none() && !self.types[KIND.index()].in_flight.iter().any(is_back) {
            self.trials.owed.insert(name);
        }
        if self.trials.asked.as_ref().is_some_and(|trial| trial.number == number && self.trials.is_sent) {
            self.end_trial(number, error.map_or(Answer::Taken, Answer::Rejected));
        }
    }

    /// What is due of trials. Asked for when nothing else is due.
    pub(super) fn compose_trial(&mut self, now: Instant) -> Option<Response> {
        let (resource, number) = match &self.trials.asked {
            // What was rejected together is not known to be rejected.
            Some(trial) if self.types[KIND.index()].is_alone_due(trial.resource.name()) => return None,
            Some(trial) if !self.trials.is_sent => (trial.resource.clone(), Some(trial.number)),
            None if !self.trials.is_open => (self.owed()?, None),
            _ => return None,
        };
        let state = &mut self.types[KIND.index()];
        if state.awaits_answer() {
            state.blocked = true;
            return None;
        }
        let name = resource.shared_name();
        match number {
            Some(_) => self.trials.is_sent = true,
            None => _ = self.trials.owed.remove(&name),
        }
        self.last_nonce += 1;
        let (nonce, resources) = (self.last_nonce.to_string(), [resource]);
        let frames = match self.protocol {
            Protocol::Delta => frame::delta(KIND, &nonce, &resources, &[]),
            Protocol::Sotw => frame::sotw(KIND, &nonce, &resources[0].version(), &resources),
        };
        let Ok(frames) = frames else {
            if let Some(number) = number {
                self.end_trial(number, Answer::Ended);
            }
            return None;
        };
        let state = &mut self.types[KIND.index()];
        if self.protocol == Protocol::Sotw {
            state.last_nonce = Some(self.last_nonce);
        }
        let trial = Some(Tried { name: name.clone(), number });
        state.push(InFlight { trial, ..InFlight::new(self.last_nonce, now) });
        Some(Response { kind: KIND, nonce, names: vec![name], removed: Vec::new(), frames })
    }

    /// What the client gets back: nothing in place of which something newer is on its way.
    fn owed(&mut self) -> Option<Resource> {
        self.trials.owed.retain(|name| self.acknowledged.contains_key(name));
        let state = &self.types[KIND.index()];
        let name =
            self.trials.owed.iter().find(|name| state.has_rejected_last(name) && self.rejects(name).is_some())?;
        self.acknowledged.get(name).cloned()
    }
}
