//! Gateways of ours: what their spec asks for, decided without looking at anything but the spec, its class and the
//! settings. What a listener needs of other objects is decided in [`listener`].

mod certificate;
mod clients;
mod conflict;
mod listener;
pub(crate) mod name;
pub(crate) mod policy;
pub(crate) mod port;
pub(crate) mod set;
mod spec;

use engine::{Derived, Emitter};
use ir::{ListenerId, NsName, RouteKind};

use crate::tables::{
    gateway::{Admission, GatewayModel, GatewayRow, PortClaim, PortClaims},
    input::{AbsentKinds, Config, Gateways, object_kind},
    listener::ListenerRow,
    proxies::{OurClasses, ProxiesOf},
};

impl Derived for GatewayRow {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<GatewayModel> {
        let gateway = scope.get::<Gateways>(key)?;
        scope.demand::<ProxiesOf>(key.clone());
        let config = scope.get::<Config>(&())?;
        scope.get::<OurClasses>(&gateway.spec.gateway_class_name)?;
        let is_there = |kind: &RouteKind| scope.get::<AbsentKinds>(&object_kind(*kind)).is_none();
        let model = spec::read(key, &gateway, &config, is_there);
        for listener in &model.listeners {
            scope.demand::<ListenerRow>(ListenerId::of_gateway(key.clone(), listener.name.clone()));
        }
        if config.shared_host && model.refused.is_none() {
            for port in model.bind_ports() {
                let claim = PortClaim { by_set: false, gateway: model.age.clone(), set: None };
                scope.emit::<PortClaims>(port, claim, model.addresses.clone());
            }
        }
        // Where nobody is admitted, nobody else asks.
        if model.admits != Admission::None {
            conflict::ask(scope, key, &None, model.listeners.iter().map(AsRef::as_ref));
        }
        Some(model)
    }
}

tables! {
    /// Whether a Gateway of ours gets proxies: it is not refused.
    Served: NsName => bool;
}

impl Derived for Served {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<bool> {
        is_served(scope, key)
    }

    /// Listeners of ListenerSets keep what they have by it.
    fn poisoned(scope: &Emitter<'_>, key: &NsName, _: &engine::Fault) -> Option<bool> {
        is_served(scope, key)
    }
}

fn is_served(scope: &Emitter<'_>, key: &NsName) -> Option<bool> {
    Some(scope.get::<GatewayRow>(key)?.refused.is_none())
}
