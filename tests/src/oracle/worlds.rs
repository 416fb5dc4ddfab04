//! Worlds of manifests to ask the oracle about, and requests that aim at what is easily got wrong in them.
//!
//! Names, paths and conditions come from small sets, so that matches meet, overlap and tie. A rule has a backend of its
//! own wherever there are enough, so that the answer tells which rule it was.

mod draw;
mod policies;
mod questions;
mod requests;
mod routes;

use std::fmt;

use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use serde_json::{Value, json};

use super::Settings;
use crate::client::Request;
use crate::echo::{RESPOND, Respond};
use draw::Draw;

/// The Gateways of every world, with the ports that they have as they are written.
pub const GATEWAYS: [(&str, &[u16]); 2] = [("infra/g0", &[80, 81]), ("infra/g1", &[80])];

/// The host of a listener that every port has, and that no generated route asks for.
pub const SENTINEL: &str = "sentinel.test";

/// The namespaces: roots mostly stand in the first, their children in the second, and so on.
const NAMESPACES: [&str; 4] = ["infra", "team-a", "team-b", "team-c"];

/// Services of each namespace, `b0` and so on.
const BACKENDS: usize = 12;

/// A world larger than this is drawn anew.
const MOST_MATCHES: usize = 1000;

/// What a world has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Routes that send to backends, and no others.
    Plain,
    /// Routes that delegate to others too.
    Trees,
    /// The same with policies on all levels.
    Policies,
}

/// A world.
#[derive(Clone, Debug)]
pub struct World {
    /// Gateways, routes and policies. What all worlds share is in [`fixtures`].
    pub manifests: Vec<Value>,
    /// What to ask.
    pub requests: Vec<Asked>,
}

/// A request, and where it is sent.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The Gateway.
    pub gateway: &'static str,
    /// The port as the Gateway has it.
    pub port: u16,
    /// The request.
    pub request: Request,
    /// Whether the same went just before.
    pub is_repeated: bool,
}

impl Asked {
    /// What the backend is asked to answer.
    pub fn respond(&self) -> Respond {
        let header = self.request.headers.iter().find(|(name, _)| name == RESPOND);
        header.and_then(|(_, text)| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Whether the backend is asked for a redirect.
    pub fn is_redirected(&self) -> bool {
        self.respond().status.is_some_and(|status| (300..400).contains(&status))
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { method, path, host, headers, .. } = &self.request;
        write!(f, "{method} {host}{path} {headers:?} to {}:{}", self.gateway, self.port)
    }
}

/// Worlds that the oracle knows, all settings as by default.
pub fn worlds(kind: Kind) -> impl Strategy<Value = World> {
    vec(any::<u16>(), if kind == Kind::Policies { 6000 } else { 1500 })
        .prop_filter_map("too large", move |choices| world(kind, choices))
}

fn read(manifests: &[Value]) -> super::Oracle {
    let all: Vec<Value> = fixtures().into_iter().chain(manifests.iter().cloned()).collect();
    super::Oracle::read(&all, &Settings::default()).expect("a world that the oracle knows")
}

fn world(kind: Kind, choices: Vec<u16>) -> Option<World> {
    let mut draw = Draw::new(choices);
    let mut manifests: Vec<Value> =
        GATEWAYS.iter().map(|(name, ports)| gateway(&mut draw, kind, name, ports)).collect();
    let (routes, written) = routes::routes(&mut draw, kind);
    manifests.extend(routes);
    let oracle = read(&manifests);
    let mut requests = requests::requests(&mut draw, &oracle.paths(), &written);
    if kind == Kind::Policies {
        // Many are for what no backend answers.
        let units = policies::add(&mut draw, &mut manifests);
        requests.extend(requests::requests(&mut draw, &oracle.paths(), &written));
        // What is closed is asked too.
        let aimed = questions::answered(&oracle, &requests);
        requests = questions::questions(&mut draw, &read(&manifests), &units, &aimed);
    }
    (oracle.size() <= MOST_MATCHES).then_some(World { manifests, requests })
}

fn gateway(draw: &mut Draw, kind: Kind, name: &str, ports: &[u16]) -> Value {
    let (namespace, name) = name.split_once('/').unwrap_or_default();
    // Where trees are the matter most requests have to reach one.
    let (any, others, same) = if kind == Kind::Plain { (85, 30, 15) } else { (97, 10, 4) };
    let mut listeners = Vec::new();
    for port in ports {
        let mut add = |name: String, hostname: &str, from: &str| {
            let mut listener = json!({"name": name, "port": port, "protocol": "HTTP"});
            listener["allowedRoutes"] = json!({"namespaces": {"from": from}});
            if !hostname.is_empty() {
                listener["hostname"] = json!(hostname);
            }
            listeners.push(listener);
        };
        add(format!("sentinel-{port}"), SENTINEL, "Same");
        for (index, hostname) in ["", "*.example.com", "a.example.com", "*.b.example.com"].into_iter().enumerate() {
            if draw.percent(if hostname.is_empty() { any } else { others }) {
                add(format!("l{index}-{port}"), hostname, if draw.percent(same) { "Same" } else { "All" });
            }
        }
    }
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"gatewayClassName": "oracle", "listeners": listeners},
    })
}

/// What every world needs beside its own: a class, namespaces, and backends.
pub fn fixtures() -> Vec<Value> {
    let mut fixtures = vec![json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "oracle"},
        "spec": {"controllerName": "portcullis.dev/gateway-controller"},
    })];
    for (number, namespace) in NAMESPACES.into_iter().enumerate() {
        fixtures.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
        for backend in 0..BACKENDS {
            let (name, address) = (format!("b{backend}"), format!("10.0.0.{}", 1 + number * BACKENDS + backend));
            fixtures.push(json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
                "spec": {"ports": [{"name": "http", "port": 8080, "targetPort": 3000}]},
            }));
            let labels = json!({"kubernetes.io/service-name": name});
            fixtures.push(json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {"name": name, "namespace": namespace, "labels": labels}, "addressType": "IPv4",
                "ports": [{"name": "http", "port": 3000}], "endpoints": [{"addresses": [address]}],
            }));
        }
    }
    fixtures
}
