//! What listeners of ListenerSets take of the memory of a Gateway's proxies by themselves, whatever routes do: one of HTTPS is a filter
//! chain with all HTTP filters and a route configuration, one of HTTP a virtual host, and what policies say of a listener stands there. That
//! is shared out between namespaces.

use std::sync::Arc;

use engine::{Derived, Emitter, Lookup, Scope};
use ir::{
    ListenerId, ListenerName, NsName, Reason,
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
            Beyond, Crowded, ListenerRooms, NamespaceRoom, RoomAsks, RoomBeyond, RoomShare, SetHead, SetRoom, SetRow,
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

impl Derived for SetRoom {
    fn compute(scope: &Emitter<'_>, set: &NsName) -> Option<()> {
        ask(scope, set, |id, scheme| match scheme {
            Scheme::Https => scope.get::<WideSlots>(&section(id)).map_or(0, |slots| said(scope, &slots)),
            Scheme::Http => scope.get::<ListenerSlots>(id).map_or(0, |slots| said(scope, &slots)),
        })
    }

    /// Without what nobody knows: it answers by itself.
    fn poisoned(scope: &Emitter<'_>, set: &NsName, _: &engine::Fault) -> Option<()> {
        ask(scope, set, |_, _| 0)
    }
}

/// Has room be asked for by the listeners of a ListenerSet, with what policies say of each.
fn ask(scope: &Emitter<'_>, set: &NsName, said: impl Fn(&ListenerId, Scheme) -> u64) -> Option<()> {
    let model = scope.get::<SetRow>(set)?;
    let age = &scope.get::<SetHead>(set)?.age;
    let of = (model.gateway.clone(), set.namespace.clone());
    let name = Arc::new(set.clone());
    for listener in model.listeners.iter().filter(|listener| listener.is_sound()) {
        let Some(scheme) = scheme(listener) else { continue };
        let alone = match scheme {
            Scheme::Https => weight::HTTPS_LISTENER,
            Scheme::Http => weight::HOST,
        };
        let name = ListenerName { set: Some(name.clone()), section: listener.name.clone() };
        let bytes = alone.saturating_add(said(&ListenerId::new(model.gateway.clone(), name), scheme));
        scope.emit::<ListenerRooms>(of.clone(), (age.clone(), listener.index), bytes.min(weight::MOST));
    }
    scope.demand::<NamespaceRoom>(of);
    Some(())
}

/// What slots take, with whom they ask.
fn said(scope: &Scope<'_>, slots: &[Slot]) -> u64 {
    let asked = slots.iter().flat_map(|slot| slot.asks.iter());
    let asked = asked.map(|asked| weight::cluster(most_endpoints(scope, &asked.into())));
    let tokens = slots.iter().filter_map(|slot| match slot.entry.as_deref()? {
        ExtensionEntry::Tokens(id) | ExtensionEntry::LoginTokens(id) => {
            let judged = scope.get::<ExtensionRow>(id)?;
            Some(weight::tokens(&judged.extension.as_ref().ok()?.provider))
        }
        ExtensionEntry::LocalRate(_) | ExtensionEntry::Login(_) | ExtensionEntry::Program(_) => None,
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
        let mut fits = |bytes: u64| {
            let rest = left.checked_sub(bytes);
            left = rest.unwrap_or(left);
            rest.is_some()
        };
        let page = listeners.pages().find(|page| !fits(*page.summary()))?;
        let (first, _) = page.iter().find(|(_, bytes)| !fits(**bytes))?;
        Some(Beyond { first: first.clone(), asked: in_words(*listeners.summary()), share: in_words(share) })
    }

    /// What nobody can tell is not bounded.
    fn poisoned(_: &Scope<'_>, _: &(NsName, Arc<str>), _: &engine::Fault) -> Option<Beyond> {
        None
    }
}

impl Lookup for Crowded {
    fn compute(scope: &Scope<'_>, of: &(NsName, Arc<str>)) -> Option<()> {
        scope.get::<RoomBeyond>(of).map(|_| ())
    }
}

impl Lookup for WithoutRoom {
    fn compute(scope: &Scope<'_>, key: &ListenerId) -> Option<Fault> {
        let set = key.name.set.as_ref()?;
        let beyond = scope.get::<RoomBeyond>(&(key.gateway.clone(), set.namespace.clone()))?;
        let Beyond { first, asked, share } = &*beyond;
        let model = scope.get::<SetRow>(set)?;
        let listener = model.listener(&key.name)?;
        scheme(listener)?;
        if (scope.get::<SetHead>(set)?.age.clone(), listener.index) < *first {
            return None;
        }
        let message = format!(
            "listeners of ListenerSets of this namespace, with what policies say of them, would take {asked} of the memory of the \
             Gateway's proxies, and its share is {share}: the oldest are served; have fewer listeners or smaller policies, or ask the \
             owner of the Gateway for more (capacity.maxBytes)"
        );
        Some(Fault::at(Reason::TooManyListeners, format!("spec.listeners[{}]", listener.index), message))
    }

    /// What nobody can tell is not bounded.
    fn poisoned(_: &Scope<'_>, _: &ListenerId, _: &engine::Fault) -> Option<Fault> {
        None
    }
}
