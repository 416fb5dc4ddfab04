//! What listeners of ListenerSets take of the memory of a Gateway's proxies by themselves, whatever routes do: one of HTTPS is a filter
//! chain with all HTTP filters and a route configuration, and what policies say of a listener stands there, or in its virtual hosts. That
//! is shared out between namespaces.

use std::sync::Arc;

use engine::{Derived, Emitter, Lookup, Scope};
use ir::{
    ListenerId, NsName, Reason,
    filter::Scheme,
    rule::{ExtensionEntry, Slot},
};

use crate::{
    backend::most_endpoints,
    extension::ExtensionRow,
    policy::wide::{ListenerSlots, WideSlots, section},
    share::level,
    tables::{
        gateway::{Fault, ListenerModel},
        input::Config,
        set::{
            Beyond, ListenerRoom, ListenerRooms, NamespaceRoom, RoomAsks, RoomBeyond, RoomShare, SetHead, SetRow,
            WithoutRoom,
        },
    },
    weight,
    words::in_words,
};

/// Of what the proxies of a Gateway may take, the part that this may besides.
const PART: u64 = 4;

fn scheme(listener: &ListenerModel) -> Option<Scheme> {
    listener.protocol?.scheme()
}

impl Derived for ListenerRoom {
    /// One of HTTP of which no policy says anything is a hostname and nothing else.
    fn compute(scope: &Emitter<'_>, key: &ListenerId) -> Option<()> {
        let set = key.name.set.as_ref()?;
        let model = scope.get::<SetRow>(set)?;
        let listener = model.listener(&key.name)?;
        let bytes = match scheme(listener)? {
            Scheme::Https => {
                weight::HTTPS_LISTENER + scope.get::<WideSlots>(&section(key)).map_or(0, |slots| said(scope, &slots))
            }
            Scheme::Http => scope.get::<ListenerSlots>(key).map(|slots| said(scope, &slots))?,
        };
        let of = (key.gateway.clone(), set.namespace.clone());
        let sort = (scope.get::<SetHead>(set)?.age.clone(), listener.index);
        scope.emit::<ListenerRooms>(of.clone(), sort, bytes.min(weight::MOST));
        scope.demand::<NamespaceRoom>(of);
        Some(())
    }
}

/// What slots take, with whom they ask.
fn said(scope: &Scope<'_>, slots: &[Slot]) -> u64 {
    let asked = slots.iter().flat_map(|slot| slot.asks.iter());
    let asked = asked.map(|asked| weight::cluster(most_endpoints(scope, &asked.into())));
    let tokens = slots.iter().filter_map(|slot| match slot.entry.as_ref()? {
        ExtensionEntry::Tokens(id) | ExtensionEntry::LoginTokens(id) => {
            let judged = scope.get::<ExtensionRow>(id)?;
            Some(weight::tokens(&judged.extension.as_ref().ok()?.provider))
        }
        ExtensionEntry::LocalRate(_) | ExtensionEntry::Login(_) => None,
    });
    weight::slots(slots).saturating_add(asked.fold(0, u64::saturating_add)).saturating_add(tokens.sum())
}

impl Derived for NamespaceRoom {
    fn compute(scope: &Emitter<'_>, of: &(NsName, Arc<str>)) -> Option<()> {
        let asked = *scope.group::<ListenerRooms>(of).summary();
        scope.emit::<RoomAsks>(of.0.clone(), of.1.clone(), asked);
        Some(())
    }
}

impl Lookup for RoomShare {
    fn compute(scope: &Scope<'_>, gateway: &NsName) -> Option<u64> {
        let most = scope.get::<Config>(&())?.capacity.max_bytes / PART;
        let asks = scope.group::<RoomAsks>(gateway);
        (*asks.summary() > most).then(|| level(most, asks.iter().map(|(_, asked)| *asked)))
    }

    /// What nobody can tell is not bounded.
    fn poisoned(_: &Scope<'_>, _: &NsName, _: &engine::Fault) -> Option<u64> {
        None
    }
}

impl Lookup for RoomBeyond {
    fn compute(scope: &Scope<'_>, of: &(NsName, Arc<str>)) -> Option<Beyond> {
        let share = *scope.get::<RoomShare>(&of.0)?;
        let listeners = scope.group::<ListenerRooms>(of);
        let mut left = share;
        let first = listeners.iter().find(|(_, bytes)| match left.checked_sub(**bytes) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        })?;
        Some(Beyond { first: first.0.clone(), asked: *listeners.summary(), share })
    }

    /// What nobody can tell is not bounded.
    fn poisoned(_: &Scope<'_>, _: &(NsName, Arc<str>), _: &engine::Fault) -> Option<Beyond> {
        None
    }
}

impl Lookup for WithoutRoom {
    fn compute(scope: &Scope<'_>, key: &ListenerId) -> Option<Fault> {
        let set = key.name.set.as_ref()?;
        let beyond = scope.get::<RoomBeyond>(&(key.gateway.clone(), set.namespace.clone()))?;
        let Beyond { first, asked, share } = &*beyond;
        let model = scope.get::<SetRow>(set)?;
        let listener = model.listener(&key.name)?;
        let own = (scope.get::<SetHead>(set)?.age.clone(), listener.index);
        if own < *first || (scheme(listener)? == Scheme::Http && scope.get::<ListenerSlots>(key).is_none()) {
            return None;
        }
        let message = format!(
            "listeners of ListenerSets of this namespace, with what policies say of them, would take {} of the memory of the Gateway's \
             proxies, and its share is {}: the oldest are served; have fewer listeners of HTTPS or smaller policies, or ask the owner \
             of the Gateway for more (capacity.maxBytes)",
            in_words(*asked),
            in_words(*share)
        );
        Some(Fault::at(Reason::TooManyListeners, format!("spec.listeners[{}]", listener.index), message))
    }

    /// What nobody can tell is not bounded.
    fn poisoned(_: &Scope<'_>, _: &ListenerId, _: &engine::Fault) -> Option<Fault> {
        None
    }
}
