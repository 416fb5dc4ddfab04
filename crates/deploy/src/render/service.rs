//! The Service before the proxies.

use std::{collections::BTreeSet, net::IpAddr};

use ir::backend::Transport;
use serde_json::{Value, json};

use super::Rendering;
use crate::{About, Fault, Port, check, parameters::Overlaid};

pub(super) fn service(plan: &Rendering<'_>) -> Result<Value, Fault> {
    let asked = &plan.plan.parameters.kube.service;
    let kind = asked.r#type.as_deref().unwrap_or("LoadBalancer");
    let mut spec = json!({"type": kind, "selector": plan.selector(), "ports": ports(plan)});
    let mut set = |name: &str, value: Value| spec[name] = value;
    match requested(&plan.plan.addresses, kind, asked.cluster_ip.as_deref())? {
        Some(address) if kind == "LoadBalancer" => set("loadBalancerIP", address.to_string().into()),
        _ => {}
    }
    if let Some(policy) = &asked.external_traffic_policy {
        set("externalTrafficPolicy", policy.as_str().into());
    }
    if let Some(class) = &asked.load_balancer_class {
        set("loadBalancerClass", class.as_str().into());
    }
    if !asked.load_balancer_source_ranges.is_empty() {
        set("loadBalancerSourceRanges", json!(asked.load_balancer_source_ranges));
    }
    if let Some(address) = asked.cluster_ip.as_deref().filter(|address| !address.is_empty()) {
        set("clusterIP", address.into());
    }
    Ok(json!({"metadata": plan.metadata(&asked.extra_labels, &asked.extra_annotations), "spec": spec}))
}

fn ports(plan: &Rendering<'_>) -> Value {
    let asked = &plan.plan.parameters.kube.service;
    // What a port is called whose listener's name cannot be its own is no other's.
    let by_number = |port: &Port| {
        let suffix = if port.transport == Transport::Udp { "-udp" } else { "" };
        format!("port-{}{suffix}", port.port)
    };
    let mut taken: BTreeSet<_> = plan.plan.ports.iter().map(by_number).collect();
    let ports = plan.plan.ports.iter().map(|port| {
        // The name of a listener may be none of a Service's port, and two may share a port.
        let name = Some(port.name.to_string()).filter(|name| check::dns_label(name) && taken.insert(name.clone()));
        let name = name.unwrap_or_else(|| by_number(port));
        let protocol = port.transport.name();
        let mut spec = json!({"name": name, "port": port.port, "targetPort": port.target, "protocol": protocol});
        // What is said of a port that this Gateway does not have is said for another of the class.
        if let Some(node_port) =
            asked.ports.iter().find(|asked| asked.port == port.port).and_then(|asked| asked.node_port)
        {
            spec["nodePort"] = node_port.into();
        }
        spec
    });
    ports.collect()
}

pub(super) fn optional(plan: &Rendering<'_>) -> Vec<(u16, Transport)> {
    plan.plan.ports.iter().filter(|port| port.optional).map(|port| (port.port, port.transport)).collect()
}

/// The one address that a Service can ask for.
fn requested(addresses: &[IpAddr], kind: &str, cluster_ip: Option<&str>) -> Result<Option<IpAddr>, Fault> {
    let fault =
        |index: usize, message: String| Err(Fault::new(About::Addresses, format!("spec.addresses[{index}]"), message));
    match addresses {
        [] => Ok(None),
        [first, second, ..] => fault(
            1,
            format!("{second} cannot be had beside {first}: a Service asks for one address; remove one of them"),
        ),
        [address] if kind == "LoadBalancer" => Ok(Some(*address)),
        // Asked for already, in other words.
        [address] if cluster_ip.and_then(|text| text.parse().ok()) == Some(*address) => Ok(None),
        [address] => fault(
            0,
            format!(
                "{address} cannot be had: the Service has the type {kind}, and only a LoadBalancer asks for an address"
            ),
        ),
    }
}

/// What an overlay must not make of the Service.
pub(super) fn check(plan: &Rendering<'_>, object: &Value) -> Result<(), Fault> {
    if object["spec"]["selector"] != plan.selector() {
        return Err(plan.overlaid(Overlaid::Service, "spec.selector", "must be that of the proxies; remove it"));
    }
    if object["spec"]["ports"].as_array().is_none_or(Vec::is_empty) {
        return Err(plan.overlaid(Overlaid::Service, "spec.ports", "must have a port; keep one of the Gateway's"));
    }
    Ok(())
}
