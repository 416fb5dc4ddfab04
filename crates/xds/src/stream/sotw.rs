//! The state-of-the-world variant: a request lists all names of interest; a response of clusters or listeners is the
//! complete set, one of another type may hold only what changed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use super::subscription::{Subscription, WILDCARD};
use super::{Response, Stream, Violation};
use crate::frame;
use crate::request::SotwRequest;
use crate::resource::{Resource, ResourceType, Version};

impl Stream {
    /// A request arrived. One of a type that is not served, or not to this client, is left unanswered.
    pub fn on_sotw(&mut self, request: SotwRequest) -> Result<(), Violation> {
        self.check_node(request.node.as_ref())?;
        let Some(kind) = self.served(&request.type_url) else { return Ok(()) };
        let state = &mut self.types[kind.index()];
        let first = !std::mem::replace(&mut state.asked, true);
        if let Some(last) = state.last_nonce {
            if request.nonce != last.to_string() {
                // The client had not seen the last response when it wrote this. It will answer that, with all names.
                // But names that are missing here it has dropped: should they be there again, it needs them anew.
                let names: BTreeSet<&str> = request.names.iter().map(String::as_str).collect();
                let listed = state.subscription.names.iter();
                state.dropped.extend(listed.filter(|name| !names.contains(&***name)).cloned());
                return Ok(());
            }
            // An answer to the last response settles those before it.
            let flight = state.in_flight.pop_back();
            state.in_flight.clear();
            // If it was answered before, this only changes the subscription.
            if let Some(flight) = flight {
                self.answered(kind, flight, request.error);
            }
        } else if kind == ResourceType::RouteConfiguration && !request.version.is_empty() {
            // One of an earlier stream, of whatever names.
            self.trials.brings(WILDCARD);
        }
        self.set_names(kind, request.names, first);
        self.check_limits(kind)
    }

    fn set_names(&mut self, kind: ResourceType, names: Vec<String>, first: bool) {
        let state = &mut self.types[kind.index()];
        let old = std::mem::take(&mut state.subscription);
        let mut new = Subscription::default();
        for name in names {
            if name == WILDCARD {
                new.wildcard = true;
            } else {
                new.insert(&name.into());
            }
        }
        state.named |= new.wildcard || !new.names.is_empty();
        if !state.named && kind.is_complete_set() {
            // No name was ever given: all are meant. After any name was given, none means none.
            new.wildcard = true;
        }
        let changed = first || new != old;
        let left: Vec<_> = old.names.iter().filter(|name| !new.covers(name)).cloned().collect();
        let dropped = std::mem::take(&mut state.dropped);
        if kind.is_complete_set() {
            state.answer_due |= changed || dropped.iter().any(|name| new.names.contains(name));
        } else {
            if new.wildcard && !old.wildcard {
                state.sent = state.sent.iter().filter(|(name, _)| old.names.contains(*name)).map(clone_entry).collect();
            }
            let added = new.names.iter().filter(|name| !old.covers(name) || dropped.contains(*name));
            state.forced.extend(added.cloned());
        }
        state.subscription = new;
        for name in left {
            self.forget(kind, &name);
        }
        if old.wildcard && !self.types[kind.index()].subscription.wildcard {
            self.forget_unlisted(kind);
        }
    }

    /// The response of this type that is due, if any.
    pub(super) fn compose_sotw(&mut self, kind: ResourceType, now: Instant) -> Option<Response> {
        let (source, pending) = self.pending(kind)?;
        let source = source.clone();
        let state = &mut self.types[kind.index()];
        state.holding = !pending.held.is_empty();
        let due = if kind.is_complete_set() {
            state.answer_due || !pending.upserts.is_empty() || !pending.removed.is_empty()
        } else {
            !pending.upserts.is_empty()
        };
        state.blocked = due && state.awaits_answer();
        if state.blocked {
            return None;
        }
        self.report_unknown(kind, &pending.unknown);
        let state = &mut self.types[kind.index()];
        if !due {
            if pending.dirty || !pending.answered.is_empty() {
                state.commit(&source, &pending);
            }
            return None;
        }
        let resources: Vec<Resource> = if kind.is_complete_set() {
            let mut all: Vec<_> =
                source.iter().filter(|(name, _)| state.subscription.covers(name)).map(|(_, r)| r.clone()).collect();
            all.extend(pending.held.iter().cloned());
            all
        } else {
            pending.upserts.values().cloned().collect()
        };
        state.commit(&source, &pending);
        let number = self.sent(kind, now, pending);
        let nonce = number.to_string();
        let version = Version::of_all(resources.iter().map(Resource::content_version));
        let frames = match frame::sotw(kind, &nonce, &version.to_string(), &resources) {
            Ok(frames) => frames,
            Err(error) => {
                self.cannot_send(kind, number, &error);
                return None;
            }
        };
        self.types[kind.index()].last_nonce = Some(number);
        let names = resources.iter().map(Resource::shared_name).collect();
        Some(Response { kind, nonce, names, removed: Vec::new(), frames })
    }
}

fn clone_entry((name, resource): (&Arc<str>, &Resource)) -> (Arc<str>, Resource) {
    (name.clone(), resource.clone())
}
