//! Who the proxies are that are connected, and what they took of route configurations.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use ir::NsName;
use xds::{EnvoyVersion, Event, ResourceType, Version};

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
}

impl Streams {
    pub(super) fn take(&mut self, event: &Event) {
        match event {
            Event::Connected { gateway, envoy, stream, .. } => {
                let Some((namespace, name)) = gateway.split_once('/') else { return };
                let (gateway, taken, refused) = (NsName::new(namespace, name), BTreeMap::new(), BTreeMap::new());
                let refused_clusters = BTreeSet::new();
                self.0.insert(*stream, Proxy { gateway, envoy: *envoy, taken, refused, refused_clusters });
            }
            Event::Disconnected { stream, .. } => _ = self.0.remove(stream),
            Event::Acked { stream, kind: ResourceType::RouteConfiguration, versions, .. } => {
                if let Some(proxy) = self.0.get_mut(stream) {
                    proxy.taken.extend(versions.iter().cloned());
                }
            }
            Event::Nacked { stream, kind: ResourceType::RouteConfiguration, names, versions, .. } => {
                if let Some(proxy) = self.0.get_mut(stream) {
                    proxy.refused.extend(names.iter().cloned().zip(versions.iter().copied()));
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

    /// Whether a proxy has all clusters of these names that it was sent.
    pub(super) fn has_clusters(&self, stream: u64, names: &[Arc<str>]) -> bool {
        self.0.get(&stream).is_some_and(|proxy| names.iter().all(|name| !proxy.refused_clusters.contains(&**name)))
    }

    /// Whether another proxy of a Gateway, of this version, has still to say whether it takes a version of a route configuration of
    /// which it has another one.
    pub(super) fn are_undecided(&self, gateway: &NsName, name: &str, version: Version, envoy: EnvoyVersion) -> bool {
        self.0.values().filter(|proxy| proxy.gateway == *gateway && proxy.envoy == Some(envoy)).any(|proxy| {
            proxy.taken.get(name).is_some_and(|taken| *taken != version) && proxy.refused.get(name) != Some(&version)
        })
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
