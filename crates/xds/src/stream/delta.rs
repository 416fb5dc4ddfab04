//! The delta variant: subscriptions are changed one by one, and each resource has its own version.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use super::subscription::WILDCARD;
use super::{Response, Stream, Violation};
use crate::frame;
use crate::request::DeltaRequest;
use crate::resource::{Resource, ResourceType, Version};
use crate::snapshot::Resources;

impl Stream {
    /// A request arrived. One of a type that is not served, or not to this client, is left unanswered.
    pub fn on_delta(&mut self, request: DeltaRequest) -> Result<(), Violation> {
        self.check_node(request.node.as_ref())?;
        let Some(kind) = self.served(&request.type_url) else { return Ok(()) };
        let first = !std::mem::replace(&mut self.types[kind.index()].asked, true);
        if !request.nonce.is_empty() {
            self.answered_delta(kind, &request.nonce, request.error);
        }
        // The nonce only names the response that is answered: subscriptions are honoured whatever it is.
        if first {
            self.first_delta(kind, &request.subscribe, request.initial_versions);
        } else {
            self.subscribe(kind, &request.subscribe, |_| true);
        }
        self.unsubscribe(kind, &request.unsubscribe);
        self.check_limits(kind)
    }

    fn answered_delta(&mut self, kind: ResourceType, nonce: &str, error: Option<String>) {
        let in_flight = &mut self.types[kind.index()].in_flight;
        let Some(at) = in_flight.iter().position(|flight| flight.nonce.to_string() == nonce) else { return };
        let Some(flight) = in_flight.remove(at) else { return };
        self.answered(kind, flight, error);
    }

    /// The first request of a type on this stream: it may list what the client has from an earlier one.
    fn first_delta(&mut self, kind: ResourceType, subscribe: &[String], initial: Vec<(String, String)>) {
        let state = &mut self.types[kind.index()];
        state.sent = Resources::new();
        let nothing_known = initial.is_empty();
        for (name, version) in initial {
            let name: Arc<str> = name.into();
            // A version that is not one of ours differs from every one of ours.
            let version = Version::parse(&version).unwrap_or(Version::from([0; 16]));
            if kind == ResourceType::RouteConfiguration {
                self.trials.brings(&name);
                let latest = self.rollout.latest.as_ref().and_then(|latest| latest.get(kind, &name));
                if let Some(same) = latest.filter(|latest| latest.content_version() == version) {
                    self.acknowledged.insert(name.clone(), same.clone());
                }
            }
            state.sent.insert(name.clone(), Resource::unknown(kind, name, version));
        }
        if subscribe.is_empty() && kind.is_complete_set() {
            state.subscription.wildcard = true;
        }
        let known = state.sent.clone();
        // Endpoints may be on their way already, unasked: then the client will not have what it lists.
        let on_the_way: BTreeSet<Arc<str>> =
            state.in_flight.iter().flat_map(|flight| &flight.versions).map(|(name, _)| name.clone()).collect();
        self.subscribe(kind, subscribe, |name| !known.contains_key(name) || on_the_way.contains(name));
        let state = &mut self.types[kind.index()];
        state.sent = known;
        // A client that starts waits for an answer, even if there is nothing to send.
        state.answer_due = state.subscription.wildcard && nothing_known;
    }

    /// Adds names. Those of which `resend` is true are answered even if the client should have them: it may have
    /// dropped them since.
    fn subscribe(&mut self, kind: ResourceType, names: &[String], resend: impl Fn(&str) -> bool) {
        let state = &mut self.types[kind.index()];
        for name in names {
            if name == WILDCARD {
                if state.subscription.wildcard {
                    state.forced.extend(state.sent.keys().filter(|name| resend(name)).cloned());
                } else {
                    state.subscription.wildcard = true;
                    // What was sent is unknown of names that were not subscribed to.
                    let listed = &state.subscription.names;
                    state.sent = state
                        .sent
                        .iter()
                        .filter(|(name, _)| listed.contains(*name))
                        .map(|(name, resource)| (name.clone(), resource.clone()))
                        .collect();
                }
                state.answer_due = true;
                continue;
            }
            let name: Arc<str> = name.as_str().into();
            state.subscription.insert(&name);
            if resend(&name) {
                state.forced.insert(name);
            }
        }
    }

    fn unsubscribe(&mut self, kind: ResourceType, names: &[String]) {
        for name in names {
            let state = &mut self.types[kind.index()];
            if name == WILDCARD {
                state.subscription.wildcard = false;
                self.forget_unlisted(kind);
                continue;
            }
            let name: Arc<str> = name.as_str().into();
            state.subscription.remove(&name);
            if state.subscription.wildcard {
                // All are meant, so this one still is: the client drops it now and must be sent it again.
                state.forced.insert(name);
            } else {
                self.forget(kind, &name);
            }
        }
    }

    /// The response of this type that is due, if any.
    pub(super) fn compose_delta(&mut self, kind: ResourceType, now: Instant) -> Option<Response> {
        let (source, pending) = self.pending(kind)?;
        let source = source.clone();
        let state = &mut self.types[kind.index()];
        state.holding = !pending.held.is_empty();
        let due = state.answer_due || !pending.upserts.is_empty() || !pending.removed.is_empty();
        state.blocked = due && state.awaits_answer();
        if state.blocked {
            return None;
        }
        if !due {
            if pending.dirty || !pending.answered.is_empty() {
                state.commit(&source, &pending);
            }
            return None;
        }
        let resources: Vec<_> = pending.upserts.values().cloned().collect();
        let names = pending.upserts.keys().cloned().collect();
        let removed: Vec<_> = pending.removed.iter().cloned().collect();
        self.report_unknown(kind, &pending.unknown);
        self.types[kind.index()].commit(&source, &pending);
        let number = self.sent(kind, now, pending);
        let nonce = number.to_string();
        match frame::delta(kind, &nonce, &resources, &removed) {
            Ok(frames) => Some(Response { kind, nonce, names, removed, frames }),
            Err(error) => {
                self.cannot_send(kind, number, &error);
                None
            }
        }
    }
}
