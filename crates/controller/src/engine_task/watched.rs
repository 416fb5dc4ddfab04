//! What a cluster says, and what it is told.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use api::{Kind, ObjectId};
use cluster::{apply::Applier, status::Writer, watch::Observed};
use ir::NsName;
use tokio::sync::watch;
use translate::{Change, Changes, Proxies, Translator};

use super::classes::Classes;
use crate::metrics::{KindLabel, Metrics};

/// Whose proxies run as which ServiceAccount.
pub type Accounts = Arc<HashMap<NsName, NsName>>;

/// Where a cluster is told what was made of its objects.
#[derive(Clone, Debug)]
pub struct Outlets {
    /// Statuses.
    pub statuses: Writer,
    /// The objects that run the proxies of each Gateway; none where that is not this controller's business.
    pub proxies: Option<Applier>,
    /// Which ServiceAccounts they run as.
    pub accounts: watch::Sender<Accounts>,
}

/// A cluster as the source of objects.
#[derive(Debug)]
pub(super) struct Watched {
    outlets: Outlets,
    classes: Classes,
    /// Kinds of which not everything was read yet.
    awaited: BTreeSet<Kind>,
    /// Kinds whose watch fails, and why.
    stale: BTreeMap<Kind, String>,
    /// Objects that cannot be decoded, or read, as they are now, and why, where what stands in their place does not tell.
    undecodable: BTreeMap<ObjectId, String>,
    /// Objects whose status turned before everything was read: what would be said of them may not be true.
    held: BTreeSet<ObjectId>,
    /// As which ServiceAccount the proxies of a Gateway run.
    accounts: HashMap<NsName, NsName>,
}

impl Watched {
    pub(super) fn new(outlets: Outlets) -> Self {
        Self {
            outlets,
            classes: Classes::default(),
            awaited: Kind::all_read().collect(),
            stale: BTreeMap::new(),
            undecodable: BTreeMap::new(),
            held: BTreeSet::new(),
            accounts: HashMap::new(),
        }
    }

    /// Whether everything was read once.
    pub(super) fn is_complete(&self) -> bool {
        self.awaited.is_empty()
    }

    /// Kinds whose watch fails, and why.
    pub(super) fn stale(&self) -> &BTreeMap<Kind, String> {
        &self.stale
    }

    /// Objects that cannot be decoded, or read, as they are now, and why.
    pub(super) fn undecodable(&self) -> &BTreeMap<ObjectId, String> {
        &self.undecodable
    }

    /// GatewayClasses that hold although they are deleted.
    pub(super) fn held(&self) -> &BTreeSet<Arc<str>> {
        self.classes.held()
    }

    /// Takes in what was observed.
    pub(super) fn take(&mut self, observed: Vec<Observed>, translator: &mut Translator, metrics: &Metrics) {
        for observed in observed {
            match observed {
                Observed::Put { object, stored } => {
                    if !self.undecodable.is_empty() {
                        self.undecodable.remove(&object.id());
                    }
                    if let Some(stored) = stored {
                        self.outlets.statuses.stored(&object.id(), Some(&stored));
                    }
                    self.classes.pass(Change::Put(object)).for_each(|change| translator.apply(change));
                }
                Observed::Remove(id) => {
                    self.undecodable.remove(&id);
                    if id.kind.has_status_of_ours() {
                        self.outlets.statuses.stored(&id, None);
                    }
                    self.classes.pass(Change::Remove(id)).for_each(|change| translator.apply(change));
                }
                Observed::Synced(kind) | Observed::Absent(kind) => {
                    self.awaited.remove(&kind);
                }
                Observed::Stale { kind, why } => {
                    tracing::warn!(%kind, why, "cannot be watched; what it said last holds");
                    metrics.stale_watches.get_or_create(&KindLabel::of(kind.as_str())).set(1);
                    self.stale.insert(kind, why);
                }
                Observed::Fresh(kind) => {
                    tracing::info!(%kind, "is watched again");
                    metrics.stale_watches.get_or_create(&KindLabel::of(kind.as_str())).set(0);
                    self.stale.remove(&kind);
                }
                Observed::Undecodable { id, why, refused } => {
                    metrics.undecodable.get_or_create(&KindLabel::of(id.kind.as_str())).inc();
                    if refused {
                        tracing::warn!(%id, why, "cannot be decoded; what it targets is closed");
                    } else {
                        tracing::warn!(%id, why, "cannot be decoded; what it said last holds");
                        self.undecodable.insert(id, format!("it cannot be decoded: {why}"));
                    }
                }
                Observed::Unreadable { id, why } => {
                    tracing::warn!(%id, why, "cannot be read; what it said last holds, and who refers to it waits no more");
                    self.undecodable.insert(id, format!("it cannot be read: {why}"));
                }
            }
        }
    }

    /// Who writes statuses.
    pub(super) fn statuses(&self) -> &Writer {
        &self.outlets.statuses
    }

    /// Tells the cluster what changed, once everything was read.
    pub(super) fn tell(&mut self, turned: &BTreeSet<ObjectId>, translator: &Translator) {
        if !self.is_complete() {
            self.held.extend(turned.iter().cloned());
            return;
        }
        let held = std::mem::take(&mut self.held);
        for id in held.iter().chain(turned) {
            self.outlets.statuses.desired(id, translator.status(id).as_deref());
        }
    }

    /// Says that everything was read, and told, once.
    pub(super) fn complete(&self) {
        self.outlets.statuses.complete();
        if let Some(applier) = &self.outlets.proxies {
            applier.complete();
        }
    }

    /// Notes what proxies are run by, and as whom.
    pub(super) fn run_proxies(&mut self, changes: &mut Changes, translator: &Translator) {
        if changes.proxies.is_empty() {
            return;
        }
        let turned = std::mem::take(&mut changes.proxies);
        self.outlets.accounts.send_modify(|accounts| {
            let accounts = Arc::make_mut(accounts);
            for (gateway, _) in &turned {
                // Another Gateway's proxies may run as it by now.
                if let Some(account) = self.accounts.remove(gateway)
                    && accounts.get(&account) == Some(gateway)
                {
                    accounts.remove(&account);
                }
                if let Some(account) = translator.account(gateway) {
                    self.accounts.insert(gateway.clone(), account.clone());
                    accounts.insert(account, gateway.clone());
                }
            }
        });
        let Some(applier) = &self.outlets.proxies else { return };
        for (gateway, proxies) in turned {
            match proxies {
                Some(Proxies::Kept) => applier.retain(&gateway),
                Some(Proxies::Objects(objects)) => {
                    let objects = objects.iter().map(|manifest| manifest.object.clone()).collect();
                    applier.desired(&gateway, Some(objects));
                }
                _ => applier.desired(&gateway, None),
            }
        }
    }
}

#[cfg(test)]
mod tests;
