//! Rules across fields of a Gateway.

use std::{collections::HashSet, net::IpAddr};

use crate::{
    gateway::{
        AddressType, GatewayInfrastructure, GatewaySpec, GatewaySpecAddress, Listener, ProtocolType, TlsModeType,
    },
    meta::StringMap,
    schema::{
        openapi::values::{HOSTNAME_PATTERN, LABEL_KEY_PATTERN},
        rules::Broken,
    },
};

pub(super) fn check(spec: &GatewaySpec, broken: &mut Broken) {
    listeners(&spec.listeners, broken);
    addresses(&spec.addresses, broken);
    if let Some(GatewayInfrastructure { labels, annotations, .. }) = &spec.infrastructure {
        keys(labels, "spec.infrastructure.labels", broken);
        keys(annotations, "spec.infrastructure.annotations", broken);
    }
}

/// Rules of the listeners of one object.
pub(in crate::kinds) fn listeners(listeners: &[Listener], broken: &mut Broken) {
    let mut seen = HashSet::new();
    for (index, listener) in listeners.iter().enumerate() {
        let path = format!("spec.listeners[{index}]");
        protocol(listener, &path, broken);
        if let Some(tls) = &listener.tls
            && tls.mode == TlsModeType::Terminate
            && tls.certificate_refs.is_empty()
            && tls.options.is_empty()
        {
            let message = "must name at least one certificate when mode is Terminate (or set options)";
            broken.add_without_value(format!("{path}.tls.certificateRefs"), message);
        }
        if !seen.insert((listener.port, &listener.protocol, &listener.hostname)) {
            let hostname = listener.hostname.as_deref().unwrap_or("no hostname");
            broken.add(
                path,
                format_args!("port {}, {}, {hostname}", listener.port, listener.protocol),
                "must differ from every other listener in port, protocol or hostname",
            );
        }
    }
}

fn protocol(listener: &Listener, path: &str, broken: &mut Broken) {
    use ProtocolType::{Http, Https, Tcp, Tls, Udp};
    let protocol = &listener.protocol;
    match (protocol, &listener.tls) {
        (Http | Tcp | Udp, Some(_)) => {
            broken.add_without_value(format!("{path}.tls"), format!("must not be set for protocol {protocol}"));
        }
        (Https, Some(tls)) if !matches!(tls.mode, TlsModeType::Terminate) => {
            broken.add(format!("{path}.tls.mode"), &tls.mode, "must be Terminate for protocol HTTPS");
        }
        (Tls, None) => broken.add_without_value(format!("{path}.tls"), "must be set, with a mode, for protocol TLS"),
        _ => {}
    }
    if let (Tcp | Udp, Some(hostname)) = (protocol, listener.hostname.as_ref().filter(|name| !name.is_empty())) {
        broken.add(format!("{path}.hostname"), hostname, format!("must not be set for protocol {protocol}"));
    }
}

fn addresses(addresses: &[GatewaySpecAddress], broken: &mut Broken) {
    let mut seen = HashSet::new();
    for (index, GatewaySpecAddress { r#type, value }) in addresses.iter().enumerate() {
        if value.is_empty() || !matches!(r#type, AddressType::IpAddress | AddressType::Hostname) {
            continue;
        }
        let path = format!("spec.addresses[{index}].value");
        if !seen.insert((r#type, value)) {
            broken.add(&*path, value, format!("must not occur twice among addresses of type {type}"));
        }
        if *r#type == AddressType::IpAddress && value.parse::<IpAddr>().is_err() {
            broken.add(&*path, value, "must be an IPv4 or IPv6 address, or its type another one than IPAddress");
        }
        if *r#type == AddressType::Hostname && !HOSTNAME_PATTERN.is_match(value) {
            broken.add(&*path, value, format!("must be {}", HOSTNAME_PATTERN.means));
        }
    }
}

fn keys(map: &StringMap, path: &str, broken: &mut Broken) {
    for key in map.keys() {
        if !LABEL_KEY_PATTERN.is_match(key) {
            broken.add(format!("{path}[{key}]"), key, format!("the key must be {}", LABEL_KEY_PATTERN.means));
        }
        if key.split('/').next().is_some_and(|prefix| prefix.chars().count() >= 253) {
            broken.add(
                format!("{path}[{key}]"),
                key,
                "the part of the key before / must be shorter than 253 characters",
            );
        }
    }
}
