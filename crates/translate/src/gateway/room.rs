//! How many HTTPS listeners ListenerSets have at a Gateway. Each is a filter chain with all HTTP filters, and a route configuration, in
//! the memory of its proxies, so they are shared out between namespaces.

use std::sync::Arc;

use engine::{Derived, Emitter, Lookup, Scope};
use ir::{ListenerId, NsName, Reason, listener::ListenerProtocol};

use crate::{
    share::level,
    tables::{
        gateway::{Fault, ListenerModel},
        input::Config,
        set::{Head, HttpsAsked, HttpsAsks, HttpsBeyond, HttpsListeners, HttpsShare, SetHead, SetModel},
    },
    weight,
};

/// Of what the proxies of a Gateway may take, the part that HTTPS listeners of ListenerSets may.
const PART: u64 = 4;

/// Has room be asked for the HTTPS listeners of a ListenerSet that can be served.
pub(super) fn ask(scope: &Emitter<'_>, head: &Head, model: &SetModel) {
    let of = (model.gateway.clone(), head.age.name.namespace.clone());
    let sound = model.listeners.iter().filter(|listener| listener.is_sound());
    for listener in sound.filter(|listener| listener.protocol == Some(ListenerProtocol::Https)) {
        scope.emit::<HttpsListeners>(of.clone(), (head.age.clone(), listener.index), ());
        scope.demand::<HttpsAsked>(of.clone());
    }
}

impl Derived for HttpsAsked {
    fn compute(scope: &Emitter<'_>, of: &(NsName, Arc<str>)) -> Option<()> {
        let asked = scope.group::<HttpsListeners>(of).len() as u64;
        scope.emit::<HttpsAsks>(of.0.clone(), of.1.clone(), asked);
        Some(())
    }
}

impl Lookup for HttpsShare {
    fn compute(scope: &Scope<'_>, gateway: &NsName) -> Option<u64> {
        let most = scope.get::<Config>(&())?.capacity.max_bytes / PART / weight::HTTPS_LISTENER;
        let asks = scope.group::<HttpsAsks>(gateway);
        (*asks.summary() > most).then(|| level(most, asks.iter().map(|(_, asked)| *asked)))
    }

    /// What nobody can tell is not bounded.
    fn poisoned(_: &Scope<'_>, _: &NsName, _: &engine::Fault) -> Option<u64> {
        None
    }
}

impl Lookup for HttpsBeyond {
    fn compute(scope: &Scope<'_>, of: &(NsName, Arc<str>)) -> Option<Self::Value> {
        let share = usize::try_from(*scope.get::<HttpsShare>(&of.0)?).ok()?;
        let listeners = scope.group::<HttpsListeners>(of);
        Some((listeners.iter().nth(share)?.0.clone(), share))
    }

    /// What nobody can tell is not bounded.
    fn poisoned(_: &Scope<'_>, _: &(NsName, Arc<str>), _: &engine::Fault) -> Option<Self::Value> {
        None
    }
}

/// Why there is no room for an HTTPS listener of a ListenerSet.
pub(super) fn fault(scope: &Scope<'_>, key: &ListenerId, model: &ListenerModel) -> Option<Fault> {
    let set = key.name.set.as_ref().filter(|_| model.protocol == Some(ListenerProtocol::Https))?;
    let beyond = scope.get::<HttpsBeyond>(&(key.gateway.clone(), set.namespace.clone()))?;
    let (first, share) = &*beyond;
    let own = (scope.get::<SetHead>(set)?.age.clone(), model.index);
    (own >= *first).then(|| {
        let message = format!(
            "the proxies of the Gateway have room for {share} HTTPS listeners of ListenerSets of this namespace, the oldest of which are \
             served; have fewer, or ask the owner of the Gateway for more memory (capacity.maxBytes)"
        );
        Fault::at(Reason::TooManyListeners, format!("spec.listeners[{}]", model.index), message)
    })
}
