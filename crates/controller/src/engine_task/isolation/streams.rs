//! Who the proxies are that are connected, and what they took of route configurations.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use ir::NsName;
use xds::{EnvoyVersion, Event, Hub, ResourceType, Version};

/// How many names of a proxy nobody looks at twice.
const FEW: usize = 64;

/// Route configurations, each with its Gateway and the version of it.
pub(super) type Taken = BTreeSet<(NsName, Arc<str>, Version)>;

/// The streams of proxies.
#[derive(Debug, Default)]
pub(super) struct Streams(HashMap<u64, Proxy>);

#[derive(Debug)]
struct Proxy {
    gateway: NsName,
    envoy: Option<EnvoyVersion>,
    /// The version that it took last of each route configuration.
    taken: BTreeMap<Arc<str>, Version>,
    /// The version that it refused last of each.
    refused: BTreeMap<String, Version>,
    /// The clusters that it refuses.
    refused_clusters: BTreeSet<String>,
    /// With how many names it is looked which are gone.
    most: usize,
}

impl Proxy {
    fn new(gateway: NsName, envoy: Option<EnvoyVersion>) -> Self {
        let (taken, refused, refused_clusters) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { gateway, envoy, taken, refused, refused_clusters, most: FEW }
    }

    /// Forgets the names that its Gateway does not have any more, when they may be half of all.
    fn forget_gone(&mut self, hub: &Hub) {
        if self.taken.len() + self.refused.len() <= self.most {
            return;
        }
        let served = hub.snapshot(&self.gateway.to_string()).unwrap_or_default();
        let is_served = |name: &str| served.get(ResourceType::RouteConfiguration, name).is_some();
        self.taken.retain(|name, _| is_served(name));
        self.refused.retain(|name, _| is_served(name));
        self.most = FEW + 2 * (self.taken.len() + self.refused.len());
    }
}

impl Streams {
    /// Takes note of what a proxy reports.
    pub(super) fn take(&mut self, event: &Event, hub: &Hub) {
        match event {
            Event::Connected { gateway, envoy, stream, .. } => {
                let Some((namespace, name)) = gateway.split_once('/') else { return };
                self.0.insert(*stream, Proxy::new(NsName::new(namespace, name), *envoy));
            }
            Event::Disconnected { stream, .. } => _ = self.0.remove(stream),
            Event::Acked { stream, kind: ResourceType::RouteConfiguration, versions, .. } => {
                if let Some(proxy) = self.0.get_mut(stream) {
                    proxy.taken.extend(versions.iter().cloned());
                    proxy.forget_gone(hub);
                }
            }
            Event::Nacked { stream, kind: ResourceType::RouteConfiguration, names, versions, .. } => {
                if let Some(proxy) = self.0.get_mut(stream) {
                    proxy.refused.extend(names.iter().cloned().zip(versions.iter().copied()));
                    proxy.forget_gone(hub);
                }
            }
            Event::Nacked { stream, kind: ResourceType::Cluster, names, .. } => {
                if let Some(proxy) = self.0.get_mut(stream) {
                    proxy.refused_clusters.extend(names.iter().cloned());
                }
            }
            Event::Recovered { stream, kind: ResourceType::Cluster, names, .. } => {
                if let Some(proxy) = self.0.get_mut(stream) {
                    proxy.refused_clusters.retain(|name| !names.contains(name));
                }
            }
            _ => {}
        }
    }

    /// The Envoy of a proxy that is connected and says what it is.
    pub(super) fn envoy(&self, stream: u64) -> Option<EnvoyVersion> {
        self.0.get(&stream)?.envoy
    }

    /// The proxies of a Gateway that are of this version.
    fn of(&self, gateway: &NsName, envoy: EnvoyVersion) -> impl Iterator<Item = &Proxy> {
        self.0.values().filter(move |proxy| proxy.gateway == *gateway && proxy.envoy == Some(envoy))
    }

    /// Whether a proxy has all clusters of these names that it was sent.
    pub(super) fn has_clusters(&self, stream: u64, names: &[Arc<str>]) -> bool {
        self.0.get(&stream).is_some_and(|proxy| names.iter().all(|name| !proxy.refused_clusters.contains(&**name)))
    }

    /// Whether another proxy of a Gateway, of this version, has still to say whether it takes a version of a route configuration of
    /// which it has another one.
    pub(super) fn are_undecided(&self, gateway: &NsName, name: &str, version: Version, envoy: EnvoyVersion) -> bool {
        self.of(gateway, envoy).any(|proxy| {
            proxy.taken.get(name).is_some_and(|taken| *taken != version) && proxy.refused.get(name) != Some(&version)
        })
    }

    /// Whether a proxy of a Gateway, of this version, took a version of a route configuration last.
    pub(super) fn are_taken(&self, gateway: &NsName, name: &str, version: Version, envoy: EnvoyVersion) -> bool {
        self.of(gateway, envoy).any(|proxy| proxy.taken.get(name) == Some(&version))
    }

    /// What proxies of this version took last.
    pub(super) fn taken(&self, envoy: EnvoyVersion) -> Taken {
        let proxies = self.0.values().filter(|proxy| proxy.envoy == Some(envoy));
        let taken = proxies.flat_map(|proxy| {
            let of = |(name, version): (&Arc<str>, &Version)| (proxy.gateway.clone(), name.clone(), *version);
            proxy.taken.iter().map(of)
        });
        taken.collect()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use xds::{Resource, Snapshot};

    use super::*;

    const KIND: ResourceType = ResourceType::RouteConfiguration;

    #[test]
    fn names_that_come_and_go_are_forgotten_and_those_that_are_served_stay() {
        let (hub, mut streams) = (Hub::new(), Streams::default());
        let (gateway, stream) = ("infra/edge".to_owned(), 1);
        let resource = |name: &str| Resource::new(KIND, name, [1; 16], Bytes::new());
        let served: Vec<String> = (0..100).map(|index| format!("served/{index}")).collect();
        hub.publish(&gateway, served.iter().fold(Snapshot::new(), |all, name| all.with(resource(name))));
        let envoy = EnvoyVersion { major: 1, minor: 40, patch: 0 };
        let connected =
            Event::Connected { gateway: gateway.clone(), node_id: String::new(), envoy: Some(envoy), stream };
        streams.take(&connected, &hub);
        let version = resource("a").content_version();
        for name in served.iter().cloned().chain((0..10_000).map(|index| format!("gone/{index}"))) {
            let gateway = gateway.clone();
            let event = if name.ends_with('1') && name.starts_with("gone") {
                let (names, versions, acknowledged) = (vec![name], vec![version], vec![None]);
                let message = String::new();
                Event::Nacked { gateway, stream, kind: KIND, names, versions, acknowledged, envoy: None, message }
            } else {
                Event::Acked { gateway, stream, kind: KIND, versions: vec![(name.into(), version)] }
            };
            streams.take(&event, &hub);
            let proxy = &streams.0[&stream];
            assert!(proxy.taken.len() + proxy.refused.len() <= FEW + 2 * served.len());
        }
        let taken = streams.taken(envoy);
        let is_taken = |name: &String| taken.contains(&(NsName::new("infra", "edge"), name.as_str().into(), version));
        assert!(served.iter().all(is_taken));
    }
}
