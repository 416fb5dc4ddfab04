//! Settings of the server: limits, waits, and authentication.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tonic::Status;

use crate::identity::Authenticate;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::peer::Peer;
use crate::request::{EnvoyVersion, Node};

/// Decides which gateway's resources a stream may read: `NAMESPACE/NAME`, or the status with which it is refused.
///
/// Asked once a stream, with the node of its first message, where [`Config::authenticate`] is not set.
pub type Authorize = Arc<dyn Fn(&Peer, &Node) -> Result<String, Status> + Send + Sync>;

/// Settings of a [`crate::Server`].
#[derive(Clone)]
#[non_exhaustive]
pub struct Config {
    /// What one client may make the server hold.
    pub limits: Limits,
    /// How many streams there may be. When there are as many, the gateway with the most gives one up for each stream of
    /// a gateway that has fewer: what that gateway itself wants beyond is refused with `UNAVAILABLE`.
    pub max_streams: usize,
    /// How many streams there may be on one connection. An Envoy needs one, and a second while it reconnects.
    pub max_streams_per_connection: u32,
    /// The bound of every wait for a proxy: for clusters to be acknowledged before routes follow, for routes to be
    /// acknowledged before clusters go, for a response to be acknowledged before the next of its type.
    pub gate_timeout: Duration,
    /// A response of this many bytes or more is large.
    pub large_response_bytes: usize,
    /// How many large responses may be on their way to the kernel at once. Others wait, [`Config::gate_timeout`] at
    /// most.
    pub max_concurrent_large_sends: usize,
    /// How often a silent connection is asked for a sign of life. A stream or connection on which nothing is asked for
    /// ends after this time and [`Config::keepalive_timeout`].
    pub keepalive_interval: Duration,
    /// How long the sign of life may take.
    pub keepalive_timeout: Duration,
    /// After this time, plus or minus a tenth of it by chance, a connection is asked to go, so that proxies spread
    /// over replicas again. `None`: never.
    pub max_connection_age: Option<Duration>,
    /// How long a connection that was asked to go may take before it is cut. One without a stream takes a second at most.
    pub drain_timeout: Duration,
    /// How many connections there may be without a stream: none was authenticated yet, or all ended. When there are more,
    /// those give way that keep the server waiting, first those of an address with more than a
    /// thirty-second part of these permits; see [`accept::FairSemaphore`].
    pub max_idle_connections: usize,
    /// How long a connection without a stream may keep the server waiting before it gives way to another.
    pub idle_grace_period: Duration,
    /// How long a connection may be without a stream before it is closed, with the TLS handshake, the wait for
    /// [`Hub::ready`](crate::Hub::ready) and the authentication: more than [`Config::ready_timeout`] and
    /// [`Config::authentication_timeout`] together.
    pub idle_timeout: Duration,
    /// How long a stream waits for [`Hub::ready`](crate::Hub::ready) before it is refused with `UNAVAILABLE`: a proxy that
    /// is there first has its configuration sooner so than if it came again.
    pub ready_timeout: Duration,
    /// Authenticates a stream, which decides which gateway's resources it may read, whatever its node claims: a claim of
    /// another gateway is refused. `None`: no token is asked for; for loopback and Unix sockets only
    /// ([`crate::check_bind`]).
    pub authenticate: Option<Arc<dyn Authenticate>>,
    /// How many tokens may be checked at once. Others wait in line.
    pub max_concurrent_authentications: usize,
    /// How long it may take to check a token, the wait in line included.
    pub authentication_timeout: Duration,
    /// After how long the token of a running stream is checked again when that failed.
    pub recheck_interval: Duration,
    /// The least version that the resources are made for. An Envoy that reports an older one is sent no listeners and no route
    /// configurations, which it might refuse or, worse, take for less than they mean; see [`crate::stream`]. `None`: for
    /// every Envoy.
    pub least_envoy: Option<EnvoyVersion>,
    /// What is counted.
    pub metrics: Metrics,
    /// Which gateway a node belongs to where no token is asked for. Default: [`trust_node_cluster`].
    pub authorize: Authorize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            max_streams: 10_000,
            max_streams_per_connection: 8,
            gate_timeout: Duration::from_secs(3),
            large_response_bytes: 256 << 10,
            max_concurrent_large_sends: 25,
            keepalive_interval: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(20),
            max_connection_age: None,
            drain_timeout: Duration::from_secs(5),
            max_idle_connections: 512,
            idle_grace_period: Duration::from_secs(1),
            idle_timeout: Duration::from_secs(10),
            ready_timeout: Duration::from_secs(3),
            authenticate: None,
            max_concurrent_authentications: 256,
            authentication_timeout: Duration::from_secs(5),
            recheck_interval: Duration::from_secs(10),
            least_envoy: None,
            metrics: Metrics::default(),
            authorize: Arc::new(|_, node| trust_node_cluster(node)),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("limits", &self.limits)
            .field("max_streams", &self.max_streams)
            .field("gate_timeout", &self.gate_timeout)
            .field("max_concurrent_large_sends", &self.max_concurrent_large_sends)
            .field("keepalive_interval", &self.keepalive_interval)
            .field("max_connection_age", &self.max_connection_age)
            .field("drain_timeout", &self.drain_timeout)
            .field("max_idle_connections", &self.max_idle_connections)
            .field("ready_timeout", &self.ready_timeout)
            .field("authenticates", &self.authenticate.is_some())
            .finish_non_exhaustive()
    }
}

/// Believes the node: `node.cluster` is the gateway, `NAMESPACE/NAME`.
///
/// That is a claim and not an identity, so it is for loopback and Unix sockets only ([`crate::check_bind`]). Whether
/// such a gateway exists is not checked: a proxy may start before its gateway, its stream then stays open and is
/// answered as soon as the gateway is published.
pub fn trust_node_cluster(node: &Node) -> Result<String, Status> {
    match node.cluster.split_once('/') {
        Some((namespace, name)) if is_name(namespace) && is_name(name) => Ok(node.cluster.clone()),
        _ => Err(Status::permission_denied("node.cluster must be NAMESPACE/NAME of a Gateway")),
    }
}

/// The shape of a Kubernetes object name (RFC 1123 subdomain), loosely.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 253
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_cluster_must_name_a_gateway() {
        let node = |cluster: &str| Node { id: "envoy".into(), cluster: cluster.into(), ..Node::default() };
        assert_eq!(trust_node_cluster(&node("infra/edge")).expect("a gateway"), "infra/edge");
        for cluster in ["", "edge", "/edge", "infra/", "a/b/c", "Infra/edge", "infra/ed ge"] {
            let refused = trust_node_cluster(&node(cluster)).expect_err(cluster);
            assert_eq!(refused.code(), tonic::Code::PermissionDenied, "{cluster}");
        }
    }
}
