//! A cluster as the source of objects, which gets back what became of them.

mod classes;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    mem::take,
    sync::Arc,
};

use api::{Kind, ObjectId};
use cluster::{apply::Applier, status::Writer, watch::Observed};
use ir::NsName;
use tokio::sync::watch;
use translate::{Change, Deploying, Proxies, Translator};

use crate::{
    guarded::Guarded,
    metrics::{KindLabel, Metrics},
};
use classes::Classes;

/// The Gateway whose proxies run as a ServiceAccount.
pub type Accounts = Arc<HashMap<NsName, NsName>>;

/// Where a cluster gets what became of its objects.
#[derive(Clone, Debug)]
pub struct ClusterSinks {
    /// Writes statuses.
    pub statuses: Writer,
    /// Applies the objects that run the proxies of each Gateway; none where that is not this controller's business.
    pub applier: Option<Applier>,
    /// Which ServiceAccounts they run as.
    pub accounts: watch::Sender<Accounts>,
}

/// A cluster as the source of objects.
#[derive(Debug)]
pub struct ClusterSource {
    sinks: ClusterSinks,
    deploying: Option<Deploying>,
    classes: Classes,
    /// Kinds of which not everything was read yet.
    awaited: BTreeSet<Kind>,
    /// Kinds whose watch fails, and why.
    stale: BTreeMap<Kind, String>,
    /// Objects that cannot be decoded, or read, as they are now, and why, unless they are in force as refused policies.
    undecodable: BTreeMap<ObjectId, String>,
    /// Objects whose status changed before everything was read: it may not be true, and is not written yet.
    deferred: BTreeSet<ObjectId>,
    /// As which ServiceAccount the proxies of a Gateway run.
    accounts: HashMap<NsName, NsName>,
    metrics: Metrics,
}

impl ClusterSource {
    pub(super) fn new(sinks: ClusterSinks, deploying: Option<Deploying>, metrics: Metrics) -> Self {
        Self {
            sinks,
            deploying,
            classes: Classes::default(),
            awaited: Kind::ALL.iter().copied().collect(),
            stale: BTreeMap::new(),
            undecodable: BTreeMap::new(),
            deferred: BTreeSet::new(),
            accounts: HashMap::new(),
            metrics,
        }
    }

    /// Kinds whose watch fails, and why.
    pub fn stale(&self) -> &BTreeMap<Kind, String> {
        &self.stale
    }

    /// Objects that cannot be decoded, or read, as they are now, and why.
    pub fn undecodable(&self) -> &BTreeMap<ObjectId, String> {
        &self.undecodable
    }

    /// GatewayClasses that are deleted, and stay in force since Gateways name them.
    pub fn deleted_classes(&self) -> &BTreeSet<Arc<str>> {
        self.classes.deleted_in_use()
    }

    /// Who else writes statuses of ours, a line each.
    pub fn contested_statuses(&self) -> Vec<String> {
        self.sinks.statuses.contested()
    }

    /// Whether everything was read once.
    pub(super) fn is_complete(&self) -> bool {
        self.awaited.is_empty()
    }

    /// Lets what is left over be removed: everything was read, and what shall be there is known.
    pub(super) fn complete(&self) {
        self.sinks.statuses.complete();
        if let Some(applier) = &self.sinks.applier {
            applier.complete();
        }
    }

    /// Takes in what was observed.
    pub(super) fn take(&mut self, observed: Vec<Observed>, guarded: &mut Guarded) {
        for observed in observed {
            match observed {
                Observed::Put { object, stored, version } => {
                    if !self.undecodable.is_empty() {
                        self.undecodable.remove(&object.id());
                    }
                    if let Some(stored) = stored {
                        // A policy may hold for no more Gateways than its status names.
                        if object.kind() == Kind::BackendTlsPolicy {
                            let foreign = self.sinks.statuses.foreign_ancestors(&stored);
                            guarded.translator_mut().set_foreign_ancestors(&object.id(), foreign);
                        }
                        self.sinks.statuses.stored(&object.id(), Some(&stored));
                    }
                    self.classes.pass(Change::Put(object)).for_each(|change| guarded.apply(change, version));
                }
                Observed::Remove(id) => {
                    self.undecodable.remove(&id);
                    if id.kind.has_status_of_ours() {
                        self.sinks.statuses.stored(&id, None);
                    }
                    if id.kind == Kind::BackendTlsPolicy {
                        guarded.translator_mut().set_foreign_ancestors(&id, 0);
                    }
                    self.classes.pass(Change::Remove(id)).for_each(|change| guarded.apply(change, 0));
                }
                Observed::Synced(kind) => self.known(kind, false, guarded.translator_mut()),
                Observed::Absent(kind) => self.known(kind, true, guarded.translator_mut()),
                Observed::Stale { kind, why } => {
                    tracing::warn!(%kind, why, "cannot be watched; what was read last stays in force");
                    self.metrics.stale_watches.get_or_create(&KindLabel::of(kind.as_str())).set(1);
                    self.stale.insert(kind, why);
                }
                Observed::Fresh(kind) => {
                    tracing::info!(%kind, "is watched again");
                    self.metrics.stale_watches.get_or_create(&KindLabel::of(kind.as_str())).set(0);
                    self.stale.remove(&kind);
                }
                Observed::Undecodable { id, why, refused } => {
                    self.metrics.undecodable.get_or_create(&KindLabel::of(id.kind.as_str())).inc();
                    if refused {
                        tracing::warn!(%id, why, "cannot be decoded; what it targets is closed");
                    } else {
                        tracing::warn!(%id, why, "cannot be decoded; its last version stays in force");
                        self.undecodable.insert(id, format!("it cannot be decoded: {why}"));
                    }
                }
                Observed::Unreadable { id, why } => {
                    tracing::warn!(%id, why, "cannot be read; its last version stays in force, and who refers to it waits no more");
                    self.undecodable.insert(id, format!("it cannot be read: {why}"));
                }
            }
        }
    }

    /// Takes in that everything of a kind was read, or that there is no such kind.
    fn known(&mut self, kind: Kind, is_absent: bool, translator: &mut Translator) {
        self.awaited.remove(&kind);
        translator.set_absent(kind, is_absent);
    }

    /// Has proxies trust these authorities, in PEM, from now on.
    pub(super) fn trust(&mut self, authorities: Arc<str>, translator: &mut Translator) {
        if let Some(deploying) = &mut self.deploying {
            deploying.authorities = Some(authorities);
            translator.set_deploying(Some(deploying.clone()));
        }
    }

    /// Has statuses written that changed, once everything was read.
    pub(super) fn write_statuses(&mut self, changed: &BTreeSet<ObjectId>, translator: &Translator) {
        if !self.is_complete() {
            self.deferred.extend(changed.iter().cloned());
            return;
        }
        for id in take(&mut self.deferred).iter().chain(changed) {
            self.sinks.statuses.desired(id, translator.status(id).as_deref());
        }
    }

    /// Has the objects applied that run proxies, and notes the ServiceAccounts of these.
    pub(super) fn deploy(&mut self, changed: Vec<(NsName, Option<Proxies>)>, translator: &Translator) {
        if changed.is_empty() {
            return;
        }
        self.sinks.accounts.send_modify(|accounts| {
            let accounts = Arc::make_mut(accounts);
            for (gateway, proxies) in &changed {
                let account = translator.account(gateway);
                let is_it = |id: &ObjectId| {
                    id.kind == Kind::Gateway && id.namespace == gateway.namespace && id.name == gateway.name
                };
                // One that is set aside keeps its proxies, and they their account.
                if account.is_none() && *proxies == Some(Proxies::Kept) && translator.quarantined().any(is_it) {
                    continue;
                }
                // Another Gateway's proxies may run as it by now.
                if let Some(account) = self.accounts.remove(gateway)
                    && accounts.get(&account) == Some(gateway)
                {
                    accounts.remove(&account);
                }
                if let Some(account) = account {
                    self.accounts.insert(gateway.clone(), account.clone());
                    accounts.insert(account, gateway.clone());
                }
            }
        });
        let Some(applier) = &self.sinks.applier else { return };
        for (gateway, proxies) in changed {
            match proxies {
                Some(Proxies::Kept) => applier.retain(&gateway),
                Some(Proxies::Objects(objects)) => {
                    let optional = objects.iter().flat_map(|manifest| manifest.optional_ports.iter().copied());
                    let optional = optional.collect();
                    let objects = objects.iter().map(|manifest| manifest.object.clone()).collect();
                    applier.desired_or_without(&gateway, Some(objects), optional);
                }
                _ => applier.desired(&gateway, None),
            }
        }
    }
}

#[cfg(test)]
mod tests;
