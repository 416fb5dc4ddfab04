//! From where policies of Gateways are read: as they are, or, of a Gateway that asks for that by its annotation, as they are kept
//! ([`crate::edition::wide`] has what is kept, and what it comes to).

use std::sync::Arc;

use api::{Kind, meta::ObjectMeta};
use engine::{Lookup, Scope};
use ir::{Edition, NsName, RootId, settings::Freeze};

use crate::tables::{
    edition::{ServedFrom, WideFreezing},
    input::{Config, EditionObjects, Editions, Gateways, Kept, ObjectKey},
    policy::Target,
};

/// What becomes of all that a Gateway serves when its policies break.
const FAILURE_MODE: &str = "portcullis.dev/failure-mode";
const FREEZE: &str = "FreezeConfig";
const REPLACE: &str = "RouteReplacement";

/// Whether a Gateway asks that its policies keep their last good version.
pub(crate) fn asks(metadata: &ObjectMeta) -> bool {
    metadata.annotations.get(FAILURE_MODE).is_some_and(|mode| mode == FREEZE)
}

/// What is wrong with what a Gateway asks, as field and remedy: it counts as if nothing was asked.
pub(crate) fn problem(metadata: &ObjectMeta, freeze: Freeze) -> Option<(String, &'static str)> {
    let why = match metadata.annotations.get(FAILURE_MODE)? {
        REPLACE => return None,
        FREEZE if freeze.enabled => return None,
        FREEZE => {
            "FreezeConfig is not heard without freeze.enabled: where a policy is broken, all answers 500; set that, or use \
             RouteReplacement"
        }
        _ => "it counts as RouteReplacement: where a policy is broken, all answers 500; use that, or FreezeConfig",
    };
    Some((format!("metadata.annotations[{FAILURE_MODE}]"), why))
}

impl Lookup for WideFreezing {
    fn compute(scope: &Scope<'_>, gateway: &NsName) -> Option<ServedFrom> {
        if !asks(&scope.get::<Gateways>(gateway)?.metadata) {
            return None;
        }
        let is_kept = scope.get::<Editions>(&RootId::Gateway(gateway.clone())).is_some();
        Some(if is_kept { ServedFrom::Edition } else { ServedFrom::Objects })
    }
}

/// How the policies of a Gateway are served that shall be kept; none where it does not ask for that.
pub(crate) fn freezing(scope: &Scope<'_>, gateway: &NsName) -> Option<ServedFrom> {
    let may = scope.get::<Config>(&())?.freeze.enabled;
    may.then(|| scope.get::<WideFreezing>(gateway)).flatten().map(|from| *from)
}

/// A Gateway as it is in its edition; none in one that answers 500, since this program fails on what is in it.
pub(crate) fn gateway_in(scope: &Scope<'_>, edition: &Edition, gateway: &NsName) -> Option<Arc<api::Gateway>> {
    let object = gateway.clone().id(Kind::Gateway);
    match &scope.get::<EditionObjects>(&(edition.clone(), object))?.0 {
        Kept::Gateway(gateway) => Some(Arc::clone(gateway)),
        _ => None,
    }
}

/// The edition from which the policies of a Gateway are served, if they are from one.
fn edition_of(scope: &Scope<'_>, gateway: &NsName) -> Option<Edition> {
    let is_kept = freezing(scope, gateway)? == ServedFrom::Edition;
    is_kept.then(|| Arc::new(RootId::Gateway(gateway.clone())))
}

/// A Gateway as it says how its policies are merged with those of routes.
pub(crate) fn merging(scope: &Scope<'_>, gateway: &NsName) -> Option<Arc<api::Gateway>> {
    match edition_of(scope, gateway) {
        Some(edition) => gateway_in(scope, &edition, gateway),
        None => scope.get::<Gateways>(gateway),
    }
}

/// Whether what is kept of a Gateway's policies answers 500, since this program fails on it.
pub(crate) fn is_closed(scope: &Scope<'_>, gateway: &NsName) -> bool {
    edition_of(scope, gateway).is_some_and(|edition| gateway_in(scope, &edition, gateway).is_none())
}

/// A Gateway, a ListenerSet or a listener with the policies that are served there: those as they are, or those that are kept.
pub(crate) fn served(scope: &Scope<'_>, target: &Target) -> Target {
    let mut served = target.clone();
    if target.object.kind != Kind::Gateway {
        return served;
    }
    let gateway = NsName::new(target.object.namespace.clone(), target.object.name.clone());
    let Some(edition) = edition_of(scope, &gateway) else { return served };
    let is_new = |name: &Arc<str>| {
        let kept = gateway_in(scope, &edition, &gateway);
        kept.is_some_and(|kept| kept.spec.listeners.iter().all(|listener| listener.name != *name))
    };
    if !target.section.as_ref().is_some_and(is_new) {
        served.edition = Some(edition);
    }
    served
}
