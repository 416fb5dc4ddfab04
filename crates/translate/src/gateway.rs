//! Gateways of ours: what their spec asks for, decided without looking at anything but the spec, its class and the
//! settings. What a listener needs of other objects is decided in [`listener`].

mod conflict;
pub(crate) mod listener;
pub(crate) mod model;
pub(crate) mod port;

use std::{net::IpAddr, sync::Arc};

use engine::{Derived, Emitter, Table};
use ir::{ListenerId, NsName, matching::Age};

use self::{
    listener::ListenerRow,
    model::{Fault, ListenerModel},
    port::PortClaims,
};
use crate::{
    class::OurClasses,
    input::{Config, Gateways},
};

/// A Gateway of one of our classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GatewayModel {
    /// Decides between Gateways that want the same port.
    pub(crate) age: Age,
    /// Of the spec that this was made from.
    pub(crate) generation: i64,
    /// The addresses its listeners bind; empty means all of the host.
    pub(crate) addresses: Vec<IpAddr>,
    /// As written.
    pub(crate) listeners: Vec<Arc<ListenerModel>>,
    /// Why the Gateway as a whole is not accepted.
    pub(crate) refused: Option<Fault>,
    /// What has no effect, as field and message.
    pub(crate) ignored: Vec<(String, &'static str)>,
}

/// Gateways of ours, by name; absent for one that is another controller's.
pub(crate) struct GatewayRow;

impl Table for GatewayRow {
    const NAME: &'static str = "GatewayRow";
    type Key = NsName;
    type Value = GatewayModel;
}

impl Derived for GatewayRow {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<GatewayModel> {
        let gateway = scope.get::<Gateways>(key)?;
        let class = scope.get::<OurClasses>(&gateway.spec.gateway_class_name)?;
        let config = scope.get::<Config>(&())?;
        let model = model::read(key, &gateway, class.accepted, &config);
        for listener in &model.listeners {
            scope.demand::<ListenerRow>(ListenerId { gateway: key.clone(), name: listener.name.clone() });
        }
        if config.shared_host && model.refused.is_none() {
            for port in model.bind_ports() {
                scope.emit::<PortClaims>(port, model.age.clone(), model.addresses.clone());
            }
        }
        Some(model)
    }
}

impl GatewayModel {
    /// The ports that its listeners want bound, each once.
    pub(crate) fn bind_ports(&self) -> Vec<ir::Port> {
        let usable = self.listeners.iter().filter(|listener| listener.is_sound());
        let mut ports: Vec<_> = usable.map(|listener| listener.bind_port).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }
}

/// Whether a Gateway of ours gets proxies: its class is accepted, and it is not refused itself.
pub(crate) struct Served;

impl Table for Served {
    const NAME: &'static str = "Served";
    type Key = NsName;
    type Value = bool;
}

impl Derived for Served {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<bool> {
        Some(scope.get::<GatewayRow>(key)?.refused.is_none())
    }
}
