//! Reading a Gateway's spec.

use std::{
    collections::{BTreeMap, HashSet},
    net::IpAddr,
    sync::Arc,
};

use api::{
    gateway::{
        AddressType, FromNamespaces, FrontendTlsValidation, FrontendValidationModeType, ProtocolType, TlsModeType,
    },
    meta::{ObjectMeta, StringMap},
};
use ir::{
    Hostname, NsName, Port, Reason, RouteKind, Settings,
    listener::{ClientMode, ListenerProtocol, PortClass},
    matching::Age,
    settings::PortMapping,
};

use super::conflict;
use crate::{
    kept,
    route::annotations,
    tables::gateway::{Admission, Fault, GatewayModel, ListenerModel, Validation},
};

/// Reads the spec of Gateway `key`, which is of a class of ours; `is_there` tells of which kinds routes can be written.
pub(crate) fn read(
    key: &NsName,
    gateway: &api::Gateway,
    config: &Settings,
    is_there: impl Fn(&RouteKind) -> bool,
) -> GatewayModel {
    let mut refused = None;
    let mut ignored = Vec::new();
    for api::RefusedField { path, affects, reason } in gateway.spec.refused_fields() {
        match affects {
            api::Affects::Nothing => ignored.push((path, reason)),
            api::Affects::Rule(_) | api::Affects::Object => {
                refused.get_or_insert_with(|| Fault::at(Reason::Invalid, path, reason));
            }
        }
    }
    if !annotations::priority_is_sound(&gateway.metadata) {
        ignored.push((format!("metadata.annotations[{}]", annotations::PRIORITY), annotations::PRIORITY_REMEDY));
    }
    ignored.extend(kept::problem(&gateway.metadata, config.freeze));
    let addresses = match addresses(gateway) {
        Ok(addresses) => addresses,
        Err(fault) => {
            refused.get_or_insert(fault);
            Vec::new()
        }
    };
    let ports = bind_ports(gateway, config.ports);
    let mut listeners = listeners(&gateway.spec.listeners, is_there, &mut ignored);
    for listener in &mut listeners {
        listener.bind_port = ports.get(&listener.port).copied().unwrap_or(listener.port);
        judge_clients(listener, asked(gateway, listener.port));
    }
    conflict::mark(&mut listeners);
    let admits = admits(gateway, &mut ignored);
    // A port may be that of a ListenerSet.
    ignored.extend(unvalidated(gateway, &listeners, admits == Admission::None));
    GatewayModel {
        age: age(key, gateway),
        generation: gateway.metadata.generation,
        addresses,
        listeners: listeners.into_iter().map(Arc::new).collect(),
        admits,
        client_certificate: gateway
            .spec
            .tls
            .as_ref()
            .and_then(|tls| tls.backend.as_ref()?.client_certificate_ref.clone()),
        refused,
        ignored,
    }
}

/// Reads the listeners of a Gateway or a ListenerSet as far as its own spec decides; `is_there` tells of which kinds routes can be
/// written. What has no effect joins `ignored`.
pub(super) fn listeners(
    specs: &[api::gateway::Listener],
    is_there: impl Fn(&RouteKind) -> bool,
    ignored: &mut Vec<(String, &'static str)>,
) -> Vec<ListenerModel> {
    let routes: Vec<_> = RouteKind::ALL.iter().copied().filter(is_there).collect();
    let mut names = HashSet::new();
    let mut listeners = Vec::with_capacity(specs.len());
    for (index, spec) in specs.iter().enumerate() {
        if names.insert(&spec.name) {
            let tls = spec.tls.as_ref().filter(|tls| tls.mode == TlsModeType::Passthrough);
            if spec.protocol == ProtocolType::Tls && tls.is_some_and(|tls| !tls.certificate_refs.is_empty()) {
                let field = format!("spec.listeners[{index}].tls.certificateRefs");
                ignored.push((
                    field,
                    "no certificate is presented where TLS is passed through; remove it, or use Terminate",
                ));
            }
            listeners.push(listener(index, spec, &routes));
        } else {
            ignored
                .push((format!("spec.listeners[{index}].name"), "stands here twice, and the first counts; rename it"));
        }
    }
    listeners
}

/// Has a listener ask clients for what its Gateway says of its port, if TLS ends there.
pub(super) fn judge_clients(listener: &mut ListenerModel, asked: Option<(Validation, Option<Fault>)>) {
    let ends_tls = listener.protocol.is_some_and(ListenerProtocol::ends_tls);
    let (validation, fault) = asked.filter(|_| ends_tls).unzip();
    listener.refused = listener.refused.take().or(fault.flatten());
    listener.validation = validation;
}

/// The namespaces whose ListenerSets a Gateway admits; of what cannot be read nobody.
fn admits(gateway: &api::Gateway, ignored: &mut Vec<(String, &'static str)>) -> Admission {
    const FIELD: &str = "spec.allowedListeners.namespaces";
    let Some(allowed) = &gateway.spec.allowed_listeners else { return Admission::None };
    let namespaces = &allowed.namespaces;
    let mut ignore = |name: &str, why| ignored.push((format!("{FIELD}.{name}"), why));
    match (&namespaces.from, &namespaces.selector) {
        (FromNamespaces::All, _) => return Admission::All,
        (FromNamespaces::Same, _) => return Admission::Same,
        (FromNamespaces::None, _) => {}
        (FromNamespaces::Selector, Some(selector)) if selector.matches(&StringMap::default()).is_ok() => {
            return Admission::Selector(selector.clone());
        }
        (FromNamespaces::Selector, Some(_)) => {
            ignore("selector", "cannot be read, so that no ListenerSet is admitted; correct its operators and values");
        }
        (FromNamespaces::Selector, None) => {
            ignore("selector", "missing, though from is Selector, so that no ListenerSet is admitted; add it");
        }
        (FromNamespaces::Unknown(_), _) => {
            ignore("from", "not known, so that no ListenerSet is admitted; use Same, All, Selector or None");
        }
    }
    Admission::None
}

/// Decides between Gateways that want the same.
pub(super) fn age(key: &NsName, gateway: &api::Gateway) -> Age {
    age_of(key, &gateway.metadata)
}

/// Decides between objects of a kind that want the same.
pub(super) fn age_of(key: &NsName, metadata: &ObjectMeta) -> Age {
    let created = metadata.creation_timestamp.map_or(0, jiff::Timestamp::as_second);
    Age { created, name: key.clone() }
}

fn addresses(gateway: &api::Gateway) -> Result<Vec<IpAddr>, Fault> {
    let mut addresses = Vec::new();
    for (index, address) in gateway.spec.addresses.iter().enumerate() {
        if address.r#type != AddressType::IpAddress {
            let message =
                format!("{:?} is not supported; use IPAddress, or leave addresses out", address.r#type.as_str());
            return Err(Fault::at(Reason::UnsupportedAddress, format!("spec.addresses[{index}].type"), message));
        }
        if address.value.is_empty() {
            continue; // any address will do
        }
        match validate::address::listen(&address.value) {
            Ok(ip) => addresses.push(ip),
            Err(invalid) => {
                let field = format!("spec.addresses[{index}].value");
                return Err(Fault::at(Reason::UnsupportedAddress, field, invalid.to_string()));
            }
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}

/// Which port Envoy binds for each of a Gateway's own ports. A mapped port that is taken moves to the next free one, the
/// lower Gateway port choosing first, so that it depends on the set of ports alone.
fn bind_ports(gateway: &api::Gateway, mapping: PortMapping) -> BTreeMap<Port, Port> {
    let ports = gateway.spec.listeners.iter().filter_map(|listener| Port::try_from(listener.port).ok());
    let mut bound = BTreeMap::new();
    super::port::bind(&mut bound, &ports.collect(), mapping);
    bound
}

fn listener(index: usize, spec: &api::gateway::Listener, routes: &[RouteKind]) -> ListenerModel {
    let port = Port::try_from(spec.port).unwrap_or(0);
    let mut refused: Option<Fault> = None;
    let mut refuse = |reason, name: &str, message: String| {
        refused.get_or_insert_with(|| Fault::at(reason, format!("spec.listeners[{index}].{name}"), message));
    };
    if port == 0 {
        refuse(Reason::PortUnavailable, "port", format!("{} is not a port; use 1 to 65535", spec.port));
    }
    let tls = spec.tls.as_ref();
    let protocol = protocol(spec);
    if protocol.is_none() {
        let message = format!("{:?} is not supported; use HTTP, HTTPS, TLS, TCP or UDP", spec.protocol.as_str());
        refuse(Reason::UnsupportedProtocol, "protocol", message);
    }
    let mut claims = protocol.and_then(ListenerProtocol::told_by).filter(|_| port != 0);
    let is_alone = protocol.is_some() && protocol.and_then(ListenerProtocol::told_by).is_none();
    let written = spec.hostname.as_deref().unwrap_or_default();
    let hostname = match validate::hostname::check(written) {
        _ if written.is_empty() => Hostname::Any,
        _ if is_alone => {
            let message = format!("not allowed on a {} listener, whose clients name no host; remove it", spec.protocol);
            refuse(Reason::UnsupportedValue, "hostname", message);
            Hostname::Any
        }
        Ok(()) => Hostname::parse(written),
        Err(invalid) => {
            refuse(Reason::UnsupportedValue, "hostname", invalid.to_string());
            claims = None;
            Hostname::Any
        }
    };
    for (name, message) in tls_faults(spec, protocol) {
        refuse(Reason::UnsupportedValue, name, message);
    }
    let namespaces = &spec.allowed_routes.namespaces;
    let admits = match (&namespaces.from, &namespaces.selector) {
        (FromNamespaces::All, _) => Admission::All,
        (FromNamespaces::Same, _) => Admission::Same,
        (FromNamespaces::None, _) => Admission::None,
        (FromNamespaces::Selector, Some(selector)) => match selector.matches(&StringMap::default()) {
            Ok(_) => Admission::Selector(selector.clone()),
            Err(error) => {
                refuse(Reason::UnsupportedValue, "allowedRoutes.namespaces.selector", error.to_string());
                Admission::None
            }
        },
        (FromNamespaces::Selector, None) => {
            let message = "missing, though from is Selector".to_owned();
            refuse(Reason::UnsupportedValue, "allowedRoutes.namespaces.selector", message);
            Admission::None
        }
        (FromNamespaces::Unknown(from), _) => {
            let message = format!("{from:?} is not known; use Same, All, Selector or None");
            refuse(Reason::UnsupportedValue, "allowedRoutes.namespaces.from", message);
            Admission::None
        }
    };
    let (kinds, bad_kinds) = kinds(spec, index, routes);
    ListenerModel {
        name: spec.name.clone(),
        index,
        port,
        bind_port: port,
        protocol,
        hostname,
        claims,
        admits,
        kinds,
        certificates: tls.map(|tls| tls.certificate_refs.clone()).unwrap_or_default(),
        refused,
        conflicted: None,
        lost: false,
        bad_kinds,
        validation: None,
    }
}

/// What a listener speaks; none for what is not served. One with a mode that nobody knows is refused, and passes through.
fn protocol(spec: &api::gateway::Listener) -> Option<ListenerProtocol> {
    let ends = spec.tls.as_ref().is_none_or(|tls| tls.mode == TlsModeType::Terminate);
    match spec.protocol {
        ProtocolType::Http => Some(ListenerProtocol::Http),
        ProtocolType::Https => Some(ListenerProtocol::Https),
        ProtocolType::Tls if ends => Some(ListenerProtocol::TlsTerminate),
        ProtocolType::Tls => Some(ListenerProtocol::TlsPassthrough),
        ProtocolType::Tcp => Some(ListenerProtocol::Tcp),
        ProtocolType::Udp => Some(ListenerProtocol::Udp),
        ProtocolType::Unknown(_) => None,
    }
}

/// What is wrong with what a listener says of TLS: fields and messages.
fn tls_faults(spec: &api::gateway::Listener, protocol: Option<ListenerProtocol>) -> Vec<(&'static str, String)> {
    let mut faults = Vec::new();
    match (protocol, &spec.tls) {
        (Some(ListenerProtocol::Https), None) => {
            let message = "missing, and an HTTPS listener needs it; name its certificates in certificateRefs";
            faults.push(("tls", message.to_owned()));
        }
        (Some(ListenerProtocol::TlsTerminate), None) => {
            faults.push(("tls", "missing, and a TLS listener needs it; set its mode".to_owned()));
        }
        (
            Some(own @ (ListenerProtocol::Https | ListenerProtocol::TlsTerminate | ListenerProtocol::TlsPassthrough)),
            Some(tls),
        ) => {
            if own == ListenerProtocol::Https && tls.mode != TlsModeType::Terminate {
                let mode = tls.mode.as_str();
                faults.push(("tls.mode", format!("{mode:?} is not supported on an HTTPS listener; use Terminate")));
            } else if let TlsModeType::Unknown(mode) = &tls.mode {
                faults.push(("tls.mode", format!("{mode:?} is not known; use Terminate or Passthrough")));
            }
            if let Some(option) = tls.options.keys().next() {
                let message = format!(
                    "option {option:?} is not known, and a TLS option that is not honoured could be a hole; remove it"
                );
                faults.push(("tls.options", message));
            }
        }
        (Some(ListenerProtocol::Http), Some(_)) => {
            faults.push(("tls", "not allowed on an HTTP listener; use HTTPS".to_owned()));
        }
        (Some(ListenerProtocol::Tcp | ListenerProtocol::Udp), Some(_)) => {
            faults.push(("tls", format!("not allowed on a {} listener; use TLS", spec.protocol)));
        }
        _ => {}
    }
    faults
}

fn kinds(spec: &api::gateway::Listener, index: usize, routes: &[RouteKind]) -> (Vec<RouteKind>, Option<Fault>) {
    let supported: Vec<_> =
        RouteKind::of_protocol(spec.protocol.as_str()).filter(|kind| routes.contains(kind)).collect();
    if spec.allowed_routes.kinds.is_empty() {
        return (supported, None);
    }
    let mut seen = HashSet::new();
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for written in spec.allowed_routes.kinds.iter().filter(|kind| seen.insert(*kind)) {
        match RouteKind::named(&written.group, &written.kind).filter(|kind| supported.contains(kind)) {
            Some(kind) => good.push(kind),
            None => bad.push(written.to_string()),
        }
    }
    let fault = (!bad.is_empty()).then(|| {
        let supported: Vec<_> = supported.iter().map(|kind| kind.name()).collect();
        let supported = if supported.is_empty() { "none".into() } else { supported.join(", ") };
        let message = format!("{} cannot attach here; supported is {supported}", bad.join(", "));
        Fault::at(Reason::InvalidRouteKinds, format!("spec.listeners[{index}].allowedRoutes.kinds"), message)
    });
    (good, fault)
}

/// What is asked of certificates of clients on a port, and where that is said: what is said of the port holds in place of all that is
/// said of the others.
fn validation(gateway: &api::Gateway, port: Port) -> Option<(String, &FrontendTlsValidation)> {
    const FIELD: &str = "spec.tls.frontend";
    let frontend = gateway.spec.tls.as_ref()?.frontend.as_ref()?;
    let own = frontend.per_port.iter().enumerate().find(|(_, config)| config.port == i32::from(port));
    let (field, config) = match own {
        Some((index, config)) => (format!("{FIELD}.perPort[{index}].tls.validation"), &config.tls),
        None => (format!("{FIELD}.default.validation"), &frontend.default),
    };
    Some((field, config.validation.as_ref()?))
}

/// What is asked of certificates of clients on a port, and what is wrong with it.
pub(super) fn asked(gateway: &api::Gateway, port: Port) -> Option<(Validation, Option<Fault>)> {
    let (field, said) = validation(gateway, port)?;
    let (mode, fault) = match &said.mode {
        FrontendValidationModeType::AllowInsecureFallback => (ClientMode::Anybody, None),
        FrontendValidationModeType::AllowValidOnly => (ClientMode::ValidOnly, None),
        FrontendValidationModeType::Unknown(mode) => {
            let message = format!("{mode:?} is not known; use AllowValidOnly or AllowInsecureFallback");
            let fault = Fault::at(Reason::UnsupportedValue, format!("{field}.mode"), message);
            (ClientMode::ValidOnly, Some(fault))
        }
    };
    Some((Validation { field, references: said.ca_certificate_refs.clone(), mode }, fault))
}

/// What is said of certificates of clients and has no effect; a port may be that of a ListenerSet, unless the Gateway `is_alone`.
fn unvalidated(gateway: &api::Gateway, listeners: &[ListenerModel], is_alone: bool) -> Vec<(String, &'static str)> {
    let frontend = gateway.spec.tls.as_ref().and_then(|tls| tls.frontend.as_ref());
    let per_port = frontend.iter().flat_map(|frontend| frontend.per_port.iter().enumerate());
    let is_over_tls = |port: i32| {
        let mut there = listeners.iter().filter(|listener| i32::from(listener.port) == port);
        there.any(|listener| listener.protocol.is_some_and(|protocol| protocol.class() == PortClass::Tls))
    };
    let unused = per_port.filter(|(_, config)| is_alone && !is_over_tls(config.port)).map(|(index, _)| {
        let why = "no listener of protocol HTTPS or TLS has this port, so it has no effect; correct or remove it";
        (format!("spec.tls.frontend.perPort[{index}].port"), why)
    });
    let passed_through = listeners.iter().filter(|listener| {
        listener.protocol == Some(ListenerProtocol::TlsPassthrough) && validation(gateway, listener.port).is_some()
    });
    let passed_through = passed_through.map(|listener| {
        let why = "who is passed through shows a certificate to the backend alone, so spec.tls.frontend has no effect here; have \
                   spec.tls.frontend.perPort ask for none on this port";
        (format!("spec.listeners[{}].tls.mode", listener.index), why)
    });
    unused.chain(passed_through).collect()
}
