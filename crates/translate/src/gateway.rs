//! Gateways of ours: what their spec asks for, decided without looking at anything but the spec, its class and the
//! settings. What a listener needs of other objects is decided in [`listener`].

mod certificate;
mod clients;
mod conflict;
mod listener;
pub(crate) mod name;
pub(crate) mod policy;
pub(crate) mod port;
mod spec;

use engine::{Derived, Emitter};
use ir::{ListenerId, NsName, RouteKind};

use crate::tables::{
    gateway::{GatewayModel, GatewayRow, PortClaims},
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
                scope.emit::<PortClaims>(port, model.age.clone(), model.addresses.clone());
            }
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
        Some(scope.get::<GatewayRow>(key)?.refused.is_none())
    }
}
