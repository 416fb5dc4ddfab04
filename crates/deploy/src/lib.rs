//! The Kubernetes objects that run a Gateway's proxies: pure functions from what a Gateway asks for to manifests.
//!
//! ```text
//! GatewayParameters of the class ─┐
//! GatewayParameters of the Gateway ┴─▶ Parameters ─┐
//! Gateway, its ports, the bootstrap ───────────────┴─▶ Plan ──render──▶ manifests, in a stable order
//! ```
//!
//! * [`Parameters::read`] merges and checks the two documents. Each field of the schema is honoured or refused.
//! * [`render()`] makes the manifests: `ServiceAccount`, ConfigMap, Deployment of stock Envoy, Service, and autoscalers and
//!   budgets where the parameters ask for them. Overlays come last. A [`Fault`] is a value, told where its owner looks.
//! * [`names()`] says how the objects are called (GEP-1762).
//!
//! What holds of the manifests:
//!
//! * Objects change in place: what is immutable (names, the selector) depends on nothing that may change during the life
//!   of a Gateway of one class.
//! * Pods are replaced when the bootstrap or the pod template changes, and at no other time: a port that comes or goes
//!   changes the Service alone, another CA certificate the ConfigMap alone.
//! * Pods pass the restricted Pod Security Standard, and nobody who may write parameters gets Secrets, accounts or nodes by
//!   them, unless the parameters are trusted further ([`Trust`](ir::settings::Trust)).
//!
//! # How a proxy ends
//!
//! Envoy ends at once when it is sent SIGTERM, with whatever it was doing, so everything happens before: in the
//! container's `preStop` hook. The image of stock Envoy has neither a shell nor a client to speak to the admin interface
//! with, but it has Envoy. The hook runs a second Envoy, with a configuration of its own ([`DRAIN_FILE`]), as the client:
//! its health check of the cluster `proxy` is a `POST /healthcheck/fail` to the first one's admin interface. From then on
//! the proxy answers `/ready` with 503, goes on accepting connections, ends each HTTP/1 connection with its next response
//! and each HTTP/2 connection with a GOAWAY. After the time to drain the second Envoy ends itself, by a health check that
//! posts to its own admin interface through a listener that delays it, and with the hook over, SIGTERM follows.
//!
//! What is lost even so: a request that takes longer than the time to drain, a WebSocket or TCP connection that is open
//! then, and the request that a client sends on an idle HTTP/1 connection in the very moment in which Envoy goes.

mod check;
pub mod names;
mod overlay;
mod parameters;
mod render;
mod reserved;
mod restricted;

use std::{net::IpAddr, net::SocketAddr, sync::Arc, time::Duration};

use ir::{NsName, backend::Transport};
use serde_json::Value;

pub use self::{
    names::{MANAGED_BY, Names, names},
    parameters::Parameters,
    render::{
        ADMIN_PORT, BOOTSTRAP_FILE, CONFIG_FOLDER, DRAIN_FILE, STATS_PORT, TOKEN_FILE, TRUST_BUNDLE_FILE, render,
    },
};

/// What a Gateway's proxies are to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The Gateway.
    pub gateway: NsName,
    /// `metadata.uid` of the Gateway, which owns the objects.
    pub uid: Arc<str>,
    /// The name of its GatewayClass.
    pub class: Arc<str>,
    /// What the Service listens on, in the order that it is to have. Without any there is no Service.
    pub ports: Vec<Port>,
    /// `spec.infrastructure.labels`, for every object and every pod.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// `spec.infrastructure.annotations`, likewise.
    pub annotations: Vec<(Arc<str>, Arc<str>)>,
    /// The addresses that `spec.addresses` asks for.
    pub addresses: Vec<IpAddr>,
    /// What the `GatewayParameters` come to.
    pub parameters: Parameters,
    /// The bootstrap of Envoy: JSON.
    pub bootstrap: Arc<str>,
    /// What else stands beside the bootstrap, as names and contents.
    pub files: Vec<(Arc<str>, Arc<str>)>,
    /// The certificates that the xDS server's is checked against: PEM. None where Envoy finds them elsewhere.
    pub trust_bundle: Option<Arc<str>>,
}

/// A port of the Service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    /// Its name, which need not be one that Kubernetes takes: then it is called by its number.
    pub name: Arc<str>,
    /// Where clients connect.
    pub port: u16,
    /// Where Envoy listens.
    pub target: u16,
    /// What its packets are of: one number in TCP and in UDP is two ports.
    pub transport: Transport,
    /// Whether there is a Service without it, should Kubernetes refuse the one that has it.
    pub optional: bool,
}

/// What holds for the proxies of all Gateways, unless `GatewayParameters` say otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The image of Envoy.
    pub image: Image,
    /// `resources.requests` by name.
    pub requests: Vec<(String, String)>,
    /// `resources.limits` by name.
    pub limits: Vec<(String, String)>,
    /// The audience of the token that a proxy shows to the xDS server.
    pub token_audience: String,
    /// How long such a token lives. The kubelet renews it when a fifth of that is left; Kubernetes wants ten minutes.
    pub token_lifetime: Duration,
    /// Where the bootstrap has the listener that serves `/ready` and `/stats/prometheus`.
    pub stats_port: u16,
    /// Where the bootstrap has the admin interface. On loopback.
    pub admin: SocketAddr,
    /// The user and group that Envoy runs as.
    pub user: u32,
    /// Envoy's `--log-level`.
    pub log_level: String,
    /// How long a proxy that goes drains before it ends.
    pub drain: Duration,
    /// What is left to it to end after that.
    pub end: Duration,
    /// Envoy's `--drain-time-s`: how long connections of a listener that was changed may go on.
    pub listener_drain: Duration,
    /// The program, as the image has it.
    pub program: String,
}

impl Default for Settings {
    fn default() -> Self {
        let pairs = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        Self {
            image: Image {
                registry: "docker.io".to_owned(),
                repository: "envoyproxy/envoy".to_owned(),
                tag: "distroless-v1.40.0".to_owned(),
                digest: String::new(),
                pull_policy: "IfNotPresent".to_owned(),
            },
            requests: pairs(&[("cpu", "100m"), ("memory", "128Mi")]),
            limits: pairs(&[("memory", "1Gi")]),
            token_audience: ir::settings::XDS_TOKEN_AUDIENCE.to_owned(),
            token_lifetime: Duration::from_hours(1),
            stats_port: STATS_PORT,
            admin: SocketAddr::from(([127, 0, 0, 1], ADMIN_PORT)),
            user: 65532,
            log_level: "warning".to_owned(),
            drain: Duration::from_secs(10),
            end: Duration::from_secs(20),
            listener_drain: Duration::from_mins(5),
            program: "envoy".to_owned(),
        }
    }
}

/// An image, in parts; empty ones are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Where it is, such as `docker.io`.
    pub registry: String,
    /// Its name there.
    pub repository: String,
    /// Its tag.
    pub tag: String,
    /// Its digest, `sha256:…`.
    pub digest: String,
    /// `Always`, `IfNotPresent` or `Never`.
    pub pull_policy: String,
}

impl Image {
    /// Reads `[REGISTRY/]REPOSITORY[:TAG][@DIGEST]`. What stands before the first slash is a registry if it looks like a
    /// host: with a dot or a port, or `localhost`.
    pub fn parse(text: &str) -> Self {
        let (text, digest) = text.split_once('@').unwrap_or((text, ""));
        let (registry, rest) = match text.split_once('/') {
            Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => (host, rest),
            _ => ("", text),
        };
        let (repository, tag) = rest.rsplit_once(':').unwrap_or((rest, ""));
        let [registry, repository, tag, digest] = [registry, repository, tag, digest].map(str::to_owned);
        Self { registry, repository, tag, digest, pull_policy: "IfNotPresent".to_owned() }
    }
}

/// An object as it is to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Its `apiVersion`.
    pub api_version: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace, which is that of the Gateway.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// All of it.
    pub object: Value,
    /// The ports of a Service that are left out, should Kubernetes refuse it with them.
    pub optional_ports: Vec<(u16, Transport)>,
}

/// Why there are no manifests. What runs stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Fault {
    /// Whose owner must act.
    pub about: About,
    /// The field in that object, such as `spec.kube.deployment.replicas`.
    pub field: String,
    /// What is wrong with it and what to do.
    pub message: String,
}

/// The object that a [`Fault`] stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum About {
    /// The `GatewayParameters` of the GatewayClass.
    ClassParameters,
    /// The `GatewayParameters` of the Gateway.
    GatewayParameters,
    /// The Gateway, but for its addresses.
    Gateway,
    /// The addresses that the Gateway asks for: they are not usable.
    Addresses,
}

impl Fault {
    pub(crate) fn new(about: About, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { about, field: field.into(), message: message.into() }
    }
}
