//! Publishes what proxies shall have, and which Gateways are served.

use std::{
    collections::{BTreeSet, HashMap},
    mem::take,
    sync::Arc,
};

use bytes::Bytes;
use envoy::{Body, Encoded, ResourceKey, ResourceKind};
use ir::NsName;
use tokio::sync::watch;
use xds::{Hub, Pieces, Resource, ResourceType, Snapshot};

use crate::metrics::Metrics;

/// The snapshots of all Gateways, kept up to date by what changed.
pub(super) struct Publisher {
    hub: Hub,
    controller_name: Arc<str>,
    gateways: HashMap<NsName, Entry>,
    /// Gateways that changed since they were published.
    changed: BTreeSet<NsName>,
    served: watch::Sender<BTreeSet<NsName>>,
    metrics: Metrics,
}

#[derive(Debug, Default)]
struct Entry {
    snapshot: Snapshot,
    served: bool,
    /// Whether anything was ever published for it.
    published: bool,
}

impl Entry {
    fn write(&mut self, key: &ResourceKey, encoded: Option<Encoded>) {
        let kind = resource_type(key.kind);
        match encoded {
            Some(Encoded { version, body, ends }) => {
                let body = Composed(body);
                self.snapshot.insert(if ends {
                    Resource::ending(kind, &key.name, version, body)
                } else {
                    Resource::in_pieces(kind, &key.name, version, body)
                });
            }
            None => drop(self.snapshot.remove(kind, &key.name)),
        }
    }
}

/// A message that is put together for the first proxy which needs it, by whoever serves that.
struct Composed(Body);

impl Pieces for Composed {
    fn total_len(&self) -> usize {
        self.0.len()
    }

    fn pieces(&self) -> &[Bytes] {
        self.0.pieces()
    }
}

impl Publisher {
    pub(super) fn new(hub: Hub, controller_name: Arc<str>, metrics: Metrics) -> Self {
        let (gateways, changed, served) = (HashMap::new(), BTreeSet::new(), watch::Sender::default());
        Self { hub, controller_name, gateways, changed, served, metrics }
    }

    /// The Gateways that are served, as they change.
    pub(super) fn served(&self) -> watch::Receiver<BTreeSet<NsName>> {
        self.served.subscribe()
    }

    /// Takes in resources that are now so, or gone, and Gateways that are served from now on, or no longer.
    pub(super) fn take(&mut self, resources: Vec<(ResourceKey, Option<Encoded>)>, gateways: Vec<(NsName, bool)>) {
        for (key, encoded) in resources {
            self.set(key, encoded);
        }
        if gateways.is_empty() {
            return;
        }
        for (gateway, served) in &gateways {
            self.gateways.entry(gateway.clone()).or_default().served = *served;
            self.changed.insert(gateway.clone());
        }
        self.served.send_modify(|all| {
            for (gateway, served) in gateways {
                if served {
                    all.insert(gateway)
                } else {
                    all.remove(&gateway)
                };
            }
        });
        self.metrics.gateways.set(i64::try_from(self.served.borrow().len()).unwrap_or(i64::MAX));
    }

    fn set(&mut self, key: ResourceKey, encoded: Option<Encoded>) {
        let kind = resource_type(key.kind);
        let label = xds::TypeLabel::from(kind);
        self.metrics.resources.get_or_create(&label).inc();
        let bytes = encoded.as_ref().map_or(0, |encoded| encoded.body.len());
        self.metrics.bytes.get_or_create(&label).inc_by(bytes as u64);
        let entry = self.gateways.entry(key.gateway.clone()).or_default();
        entry.write(&key, encoded);
        self.changed.insert(key.gateway);
    }

    /// Publishes what changed since the last time.
    pub(super) fn publish(&mut self) {
        for gateway in take(&mut self.changed) {
            let Some(entry) = self.gateways.get_mut(&gateway) else { continue };
            if entry.served {
                entry.published = true;
                self.hub.publish(&gateway.to_string(), entry.snapshot.clone());
            } else if entry.published {
                // A proxy that gets nothing keeps what it has, so one that shall serve nothing gets an empty snapshot.
                self.hub.publish(&gateway.to_string(), Snapshot::new());
            }
        }
    }

    /// Whether streams are served.
    pub(super) fn is_ready(&self) -> bool {
        self.hub.is_ready()
    }

    /// Everything was read and is published: streams are served from now on.
    pub(super) fn ready(&self) {
        let gateways = self.served.borrow().len();
        tracing::info!(gateways, "everything is read and published");
        if gateways == 0 {
            tracing::warn!(controller = %self.controller_name, "no Gateway is served: none has a class of this controller");
        }
        self.hub.ready();
    }
}

/// What the ADS server calls a kind of resource.
fn resource_type(kind: ResourceKind) -> ResourceType {
    match kind {
        ResourceKind::Cluster => ResourceType::Cluster,
        ResourceKind::Endpoints => ResourceType::Endpoints,
        ResourceKind::Secret => ResourceType::Secret,
        ResourceKind::ExtensionConfig => ResourceType::ExtensionConfig,
        ResourceKind::Listener => ResourceType::Listener,
        ResourceKind::RouteConfiguration => ResourceType::RouteConfiguration,
    }
}
