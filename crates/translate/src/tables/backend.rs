//! Clusters: what they stand for, and what is known of the Services behind them.

use std::{
    cmp::Ordering,
    hash::{Hash, Hasher},
    sync::Arc,
};

use api::ObjectId;
use engine::Scope;
use envoy::resource::Encoded;
use ir::{
    Chain, Port, Problem, Reason,
    backend::{Asked, Destination, Protocol, ServicePort},
    chain::fingerprint,
    stream::PlaceId,
    telemetry::{Sink, told_cluster_name},
    upstream::HashPolicy,
};
use units::upstream::UpstreamSaid;

tables! {
    /// A port of a Service; absent where the Service is.
    ServicePorts: ServicePort => PortState;
    /// What a BackendConfigPolicy says, or why nobody knows what.
    ConfigPolicyRow: ObjectId => Result<UpstreamSaid, Problem>;
    /// What a sender has to know of a backend; absent where its object is. Who sends there is woken by nothing else of it.
    Reached: Sought => Reach;
    /// The backends of a rule whose sessions hold across them: see [`shares_of`].
    SessionCluster: (Chain, u32) => Shares;
    /// A cluster's message.
    ClusterBytes: ClusterId => Encoded;
    /// Whether proxies show the certificate of their Gateway to a cluster's endpoints, if it has one.
    ShownThere: ClusterId => ();
    /// The message with a cluster's endpoints.
    AssignmentBytes: ClusterId => Encoded;
}

/// What a cluster stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ClusterId {
    /// One backend.
    To(Destination),
    /// A Backend, for requests in gRPC, that does not say that it speaks HTTP/2.
    Http2(Destination),
    /// A Backend, for what proxies send of their own: left out where it has hosts by name, unless these may be local.
    Own(Destination),
    /// The same of any backend that is asked in gRPC, and does not say that it speaks HTTP/2; of a Service for requests too.
    Grpc(Destination),
    /// The same of whoever is told of requests, in calls of which few are under way at a time.
    Told(Destination),
    /// All backends of a rule in one, a weighted locality each, so that a session can hold across them. Which these are is part of
    /// its name, since endpoints reach a proxy before routes do: were the same cluster to lead elsewhere, requests would go there
    /// by the routes of before.
    Rule(Chain, u32, NamedShares),
    /// All backends of whichever route serves a place of streams.
    Place(PlaceId),
}

impl ClusterId {
    /// The backend, if it is of one.
    pub(crate) fn to(&self) -> Option<Destination> {
        match self {
            Self::To(to) | Self::Http2(to) | Self::Own(to) | Self::Grpc(to) | Self::Told(to) => Some(to.clone()),
            Self::Rule(..) | Self::Place(_) => None,
        }
    }

    /// The name of the cluster and of its endpoints.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::To(destination) => destination.cluster_name(),
            Self::Http2(to) => format!("{}/http2", to.cluster_name()),
            Self::Own(to) => Asked::Own(to.clone()).cluster_name(),
            Self::Grpc(to) => Asked::Grpc(to.clone()).cluster_name(),
            Self::Told(to) => told_cluster_name(to),
            Self::Place(place) => place.name(),
            Self::Rule(chain, rule, NamedShares { fingerprint, .. }) => {
                let route = chain.route();
                let name = format!("{}/{}/rule/{rule}/{fingerprint:016x}", route.kind.lower_case(), route.name);
                if chain.depth() == 0 { name } else { format!("{name}/below/{:016x}", chain.fingerprint()) }
            }
        }
    }
}

impl From<&Asked> for ClusterId {
    fn from(asked: &Asked) -> Self {
        match asked {
            Asked::Own(to) if to.port().is_some() => Self::To(to.clone()),
            Asked::Own(to) => Self::Own(to.clone()),
            Asked::Grpc(to) => Self::Grpc(to.clone()),
        }
    }
}

impl From<&Sink> for ClusterId {
    fn from(sink: &Sink) -> Self {
        let to = sink.to.clone();
        if sink.unary { Self::Told(to) } else { Self::Grpc(to) }
    }
}

/// A backend, and how somebody means to speak to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Sought {
    pub(crate) to: Destination,
    /// In gRPC, so that HTTP/2 is spoken where nothing else is said.
    pub(crate) in_grpc: bool,
}

/// What a route needs to know of a Service's port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortState {
    /// The port's name, by which slices know it; empty where it has none.
    pub(crate) name: Arc<str>,
    /// What is spoken there, or why it cannot be used.
    pub(crate) protocol: Result<Protocol, Unusable>,
    /// What its owner should know, though it is used.
    pub(crate) warning: Option<String>,
    /// Whether a BackendTLSPolicy says how to connect there.
    pub(crate) is_secured: bool,
}

/// What a sender has to know of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each says something of its own")]
pub(crate) struct Reach {
    /// What is spoken there, or why it cannot be used.
    pub(crate) protocol: Result<Protocol, Unusable>,
    /// Whether it does not say so itself.
    pub(crate) is_unsaid: bool,
    /// What its owner should know, though it is used.
    pub(crate) warning: Option<String>,
    /// The ports of a Backend's hosts.
    pub(crate) ports: Box<[Port]>,
    /// Whether proxies look for its hosts by their names.
    pub(crate) by_name: bool,
    /// Whether a policy has proxies connect by TLS.
    pub(crate) is_secured: bool,
    /// Whether policies say something of connections to it.
    pub(crate) is_configured: bool,
    /// What of a request is hashed, where its endpoints are chosen by that.
    pub(crate) hash: Arc<[HashPolicy]>,
    /// Its cluster, where it cannot be used since proxies refused that.
    pub(crate) refused: Option<Box<Encoded>>,
}

impl Default for Reach {
    fn default() -> Self {
        Self {
            protocol: Ok(Protocol::default()),
            is_unsaid: false,
            warning: None,
            ports: Box::default(),
            by_name: false,
            is_secured: false,
            is_configured: false,
            hash: Arc::default(),
            refused: None,
        }
    }
}

/// Why a backend cannot be used: a reason of Gateway API's `ResolvedRefs`, and words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unusable {
    pub(crate) reason: Reason,
    pub(crate) message: String,
}

/// The cluster of a rule whose sessions hold across its backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    pub(crate) protocol: Protocol,
    /// Each backend with its weight, in the order of the spec.
    pub(crate) shares: Vec<(Destination, u32)>,
}

impl Shares {
    /// The same as long as the same backends get requests, and the same others none but those of sessions.
    fn fingerprint(&self) -> u64 {
        let mut shares: Vec<_> = self.shares.iter().map(|(to, weight)| (to.cluster_name(), *weight > 0)).collect();
        shares.sort_unstable();
        let texts: Vec<_> = shares.iter().map(|(to, is_chosen)| format!("{to} {is_chosen}")).collect();
        fingerprint(&texts.join("\n"))
    }
}

/// The shares by which a cluster is named: the same ones whatever their weights.
#[derive(Clone, Debug)]
pub(crate) struct NamedShares {
    fingerprint: u64,
    shares: Arc<Shares>,
}

impl NamedShares {
    pub(crate) fn new(shares: Shares) -> Self {
        Self { fingerprint: shares.fingerprint(), shares: shares.into() }
    }
}

impl PartialEq for NamedShares {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl Eq for NamedShares {}

impl Hash for NamedShares {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fingerprint.hash(state);
    }
}

impl PartialOrd for NamedShares {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for NamedShares {
    fn cmp(&self, other: &Self) -> Ordering {
        self.fingerprint.cmp(&other.fingerprint)
    }
}

/// What a [`ClusterId::Rule`] stands for: by the weights that the rule has now, or, where it leads elsewhere by now, by those that it
/// had. A route of before may still be served, and its endpoints follow.
pub(crate) fn shares_of(scope: &Scope<'_>, (chain, rule, named): (&Chain, u32, &NamedShares)) -> Arc<Shares> {
    let now = scope.get::<SessionCluster>(&(chain.clone(), rule));
    now.filter(|now| now.fingerprint() == named.fingerprint).unwrap_or_else(|| named.shares.clone())
}

#[cfg(test)]
mod tests {
    use ir::RouteId;

    use super::*;

    #[test]
    fn names_of_clusters_are_the_same_in_every_build() {
        let root = Chain::root(RouteId::http("platform", "shop"));
        let orders = root.below(2, RouteId::http("orders", "orders"));
        let returns = orders.below(0, RouteId::http("returns", "returns"));
        let shares = Shares { protocol: Protocol::default(), shares: Vec::new() };
        let named = NamedShares { fingerprint: 255, shares: shares.into() };
        for (chain, name) in [
            (root, "httproute/platform/shop/rule/1/00000000000000ff"),
            (orders, "httproute/orders/orders/rule/1/00000000000000ff/below/65b1bdf135dcd854"),
            (returns, "httproute/returns/returns/rule/1/00000000000000ff/below/bdacae21e100f638"),
        ] {
            assert_eq!(ClusterId::Rule(chain, 1, named.clone()).name(), name);
        }
    }

    #[test]
    fn a_cluster_of_sessions_keeps_its_name_as_long_as_it_leads_to_the_same_backends() {
        let to = |name: &str| Destination::Backend(ir::NsName::new("apps", name));
        let of = |shares: &[(&str, u32)]| {
            let shares = shares.iter().map(|(name, weight)| (to(name), *weight)).collect();
            Shares { protocol: Protocol::default(), shares }.fingerprint()
        };
        let before = of(&[("a", 9), ("b", 1)]);
        assert_eq!(before, of(&[("b", 5), ("a", 5)]));
        for other in [of(&[("a", 9)]), of(&[("a", 9), ("c", 1)]), of(&[("a", 9), ("b", 0)]), of(&[("a", 0), ("b", 9)])]
        {
            assert_ne!(before, other);
        }
    }
}
