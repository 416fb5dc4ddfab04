//! What proxies shall have, kept up to date by what changed.

use std::collections::{BTreeSet, HashMap};

use envoy::{Encoded, ResourceKey, ResourceKind};
use ir::NsName;
use xds::{Hub, Resource, ResourceType, Snapshot};

/// The snapshots of all Gateways.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    gateways: HashMap<NsName, Entry>,
    touched: BTreeSet<NsName>,
}

#[derive(Debug, Default)]
struct Entry {
    snapshot: Snapshot,
    served: bool,
    /// Whether proxies were ever told of it.
    known: bool,
}

impl Snapshots {
    /// A resource is now so, or gone.
    pub(super) fn set(&mut self, key: ResourceKey, encoded: Option<Encoded>) {
        let entry = self.gateways.entry(key.gateway.clone()).or_default();
        let kind = resource_type(key.kind);
        match encoded {
            Some(Encoded { version, body }) => {
                entry.snapshot.insert(Resource::in_pieces(kind, &key.name, version, body.pieces().clone()));
            }
            None => {
                entry.snapshot.remove(kind, &key.name);
            }
        }
        self.touched.insert(key.gateway);
    }

    /// A Gateway is served from now on, or no longer.
    pub(super) fn serve(&mut self, gateway: &NsName, served: bool) {
        self.gateways.entry(gateway.clone()).or_default().served = served;
        self.touched.insert(gateway.clone());
    }

    /// Publishes what changed since the last time.
    pub(super) fn publish(&mut self, hub: &Hub) {
        for gateway in std::mem::take(&mut self.touched) {
            let Some(entry) = self.gateways.get_mut(&gateway) else { continue };
            if entry.served {
                entry.known = true;
                hub.publish(&gateway.to_string(), entry.snapshot.clone());
            } else if entry.known {
                // A proxy that is told nothing keeps what it has, so one that shall serve nothing is told so.
                hub.publish(&gateway.to_string(), Snapshot::new());
            }
        }
    }
}

/// What the ADS server calls a kind of resource.
pub(super) fn resource_type(kind: ResourceKind) -> ResourceType {
    match kind {
        ResourceKind::Cluster => ResourceType::Cluster,
        ResourceKind::Endpoints => ResourceType::Endpoints,
        ResourceKind::Secret => ResourceType::Secret,
        ResourceKind::Listener => ResourceType::Listener,
        ResourceKind::RouteConfiguration => ResourceType::RouteConfiguration,
    }
}
