//! The proxies of a Gateway, as far as its status depends on them.

use std::net::IpAddr;

use api::{gateway::AddressType, status::GatewayStatusAddress};
use engine::Scope;
use ir::{NsName, Reason};

use crate::{
    proxies,
    tables::{
        gateway::{Fault, GatewayModel},
        input::{DeployConfig, Deployments, Gateways, Services, Unapplied},
        proxies::{DeployFault, Proxies, ProxiesOf},
    },
};

/// The state of the proxies of a Gateway.
pub(super) struct Infrastructure {
    pub(super) addresses: Vec<GatewayStatusAddress>,
    /// Why the Gateway is not accepted: they cannot be run as it asks.
    pub(super) fault: Option<Fault>,
    /// Why nobody can reach them yet.
    pub(super) missing: Option<Fault>,
}

impl Infrastructure {
    pub(super) fn read(scope: &Scope<'_>, key: &NsName, model: &GatewayModel) -> Self {
        let gateway = scope.get::<Gateways>(key);
        if let Some(fault) = gateway.as_ref().and_then(|gateway| proxies::name_taken(scope, key, gateway)) {
            // The objects of that name belong to another Gateway.
            return Self { addresses: Vec::new(), fault: Some(fault.clone()), missing: Some(fault) };
        }
        let deployed = scope.get::<ProxiesOf>(key);
        let (fault, unusable) = match deployed.as_ref().and_then(|deployed| deployed.fault.clone()) {
            Some(DeployFault::Refused(fault)) => (Some(fault), None),
            Some(DeployFault::AddressNotUsable(fault)) => (None, Some(fault)),
            None => (None, None),
        };
        let managed = deployed.is_some_and(|deployed| deployed.proxies != Proxies::Unmanaged);
        let applied = scope.get::<DeployConfig>(&()).is_some_and(|deploying| deploying.applied);
        let name = gateway.map(|gateway| proxies::name(key, &gateway.spec.gateway_class_name));
        let Some(name) = name.filter(|_| managed && applied) else {
            let addresses = model.addresses.iter().map(|address| status_address(&address.to_string())).collect();
            return Self { addresses, fault, missing: None };
        };
        let service = scope.get::<Services>(&name);
        let addresses = service.map(|service| proxies::addresses(&service)).unwrap_or_default();
        let missing = unusable.or_else(|| missing(scope, key, &model.addresses, &name, &addresses));
        Self { addresses: addresses.iter().map(|address| status_address(address)).collect(), fault, missing }
    }
}

/// What the objects called `name` lack; their Service has `addresses`.
fn missing(scope: &Scope<'_>, key: &NsName, wanted: &[IpAddr], name: &NsName, addresses: &[Box<str>]) -> Option<Fault> {
    if let Some(words) = scope.get::<Unapplied>(key) {
        return Some(Fault::new(Reason::NoResources, format!("its proxies cannot be run as they should: {words}")));
    }
    if let Some(wanted) = wanted.iter().find(|wanted| !addresses.contains(&wanted.to_string().into())) {
        let others = if addresses.is_empty() { "none".to_owned() } else { addresses.join(", ") };
        let message = format!("the address {wanted} cannot be had; its Service has {others}");
        return Some(Fault::at(Reason::AddressNotUsable, "spec.addresses", message));
    }
    if addresses.is_empty() {
        return Some(Fault::new(Reason::AddressNotAssigned, format!("Service {name} has no address yet")));
    }
    let available = scope.get::<Deployments>(name).is_some_and(|deployment| deployment.available > 0);
    (!available).then(|| Fault::new(Reason::NoResources, format!("no pod of Deployment {name} is ready")))
}

fn status_address(address: &str) -> GatewayStatusAddress {
    let is_ip = address.parse::<IpAddr>().is_ok();
    let r#type = if is_ip { AddressType::IpAddress } else { AddressType::Hostname };
    GatewayStatusAddress { r#type, value: address.into() }
}
