//! Where snapshots are published and streams find them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::snapshot::Snapshot;
use crate::trial::Trial;

/// The latest snapshot of every gateway. One per process; clones are handles to the same hub.
///
/// Publishing never waits for a stream: streams look when they are ready, and then see the latest.
#[derive(Clone, Default)]
pub struct Hub(Arc<Shared>);

struct Shared {
    gateways: Mutex<HashMap<String, watch::Sender<Publication>>>,
    ready: watch::Sender<bool>,
    /// What the clients of streams are to be asked.
    trials: Mutex<HashMap<u64, watch::Sender<Option<Trial>>>>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { gateways: Mutex::default(), ready: watch::Sender::new(false), trials: Mutex::default() }
    }
}

/// What is published for one gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Publication {
    /// Nothing yet. A stream for it stays open and is answered once there is something.
    #[default]
    Awaited,
    /// This is what its proxies shall have.
    Current(Snapshot),
    /// It was published and is no longer: its streams end, and its proxies keep what they have.
    Withdrawn,
}

impl Hub {
    /// A hub with no gateways that is not ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes `snapshot` what the proxies of `gateway` (`NAMESPACE/NAME`) shall have.
    ///
    /// Costs nothing when it equals what is published already.
    pub fn publish(&self, gateway: &str, snapshot: Snapshot) {
        let mut gateways = self.gateways();
        let next = Publication::Current(snapshot);
        match gateways.get(gateway) {
            Some(sender) => {
                sender.send_if_modified(|current| {
                    let changed = *current != next;
                    if changed {
                        *current = next;
                    }
                    changed
                });
            }
            None => {
                gateways.insert(gateway.to_owned(), watch::Sender::new(next));
            }
        }
    }

    /// Forgets `gateway`. Streams for it end, and new ones wait until it is published again. Proxies keep the
    /// configuration they have: to take it from them, publish an empty snapshot.
    pub fn withdraw(&self, gateway: &str) {
        if let Some(sender) = self.gateways().remove(gateway) {
            sender.send_replace(Publication::Withdrawn);
        }
    }

    /// The snapshot that is published for `gateway`.
    pub fn snapshot(&self, gateway: &str) -> Option<Snapshot> {
        match &*self.gateways().get(gateway)?.borrow() {
            Publication::Current(snapshot) => Some(snapshot.clone()),
            Publication::Awaited | Publication::Withdrawn => None,
        }
    }

    /// The gateways that have a snapshot, in name order.
    pub fn published(&self) -> Vec<String> {
        let mut names: Vec<_> = self
            .gateways()
            .iter()
            .filter(|(_, sender)| matches!(*sender.borrow(), Publication::Current(_)))
            .map(|(name, _)| name.clone())
            .collect();
        names.sort_unstable();
        names
    }

    /// Says that everything that is to be read was read once and is published. Until then streams wait, for
    /// [`Config::ready_timeout`](crate::Config::ready_timeout) at most, and proxies keep what they have.
    pub fn ready(&self) {
        self.0.ready.send_replace(true);
    }

    /// Whether [`Hub::ready`] was called.
    pub fn is_ready(&self) -> bool {
        *self.0.ready.borrow()
    }

    /// Waits for [`Hub::ready`].
    pub(crate) async fn until_ready(&self) {
        // The sender lives as long as this hub.
        let _ = self.0.ready.subscribe().wait_for(|ready| *ready).await;
    }

    /// A view of what is published for `gateway`, now and later.
    pub(crate) fn subscribe(&self, gateway: &str) -> watch::Receiver<Publication> {
        let mut gateways = self.gateways();
        match gateways.get(gateway) {
            Some(sender) => sender.subscribe(),
            None => gateways.entry(gateway.to_owned()).or_default().subscribe(),
        }
    }

    /// Gives a view back. A gateway that only ever was asked for is forgotten with its last asker, so that names
    /// chosen by clients do not accumulate.
    pub(crate) fn unsubscribe(&self, gateway: &str, view: watch::Receiver<Publication>) {
        let mut gateways = self.gateways();
        drop(view);
        if gateways
            .get(gateway)
            .is_some_and(|sender| sender.receiver_count() == 0 && *sender.borrow() == Publication::Awaited)
        {
            gateways.remove(gateway);
        }
    }

    /// Has the client of a stream, which rejected a route configuration, be asked what it takes of it: instead of anything that it
    /// was to be asked before. With none it gets back what it acknowledged, if it took anything else since. What comes of it is
    /// [`crate::Event::Tried`]; of a stream that ended, nothing.
    pub fn try_out(&self, stream: u64, trial: Option<Trial>) {
        if let Some(sender) = self.trials().get(&stream) {
            sender.send_replace(trial);
        }
    }

    /// What the client of a stream is to be asked, until [`Hub::end_trials`].
    pub(crate) fn trials_of(&self, stream: u64) -> watch::Receiver<Option<Trial>> {
        self.trials().entry(stream).or_default().subscribe()
    }

    /// The stream ended.
    pub(crate) fn end_trials(&self, stream: u64) {
        self.trials().remove(&stream);
    }

    fn trials(&self) -> MutexGuard<'_, HashMap<u64, watch::Sender<Option<Trial>>>> {
        self.0.trials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gateways(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<Publication>>> {
        // The map is whole at every moment, so a panic of another holder leaves nothing half done.
        self.0.gateways.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::resource::{Resource, ResourceType};

    fn snapshot(version: u8) -> Snapshot {
        Snapshot::new().with(Resource::new(ResourceType::Cluster, "a", [version; 16], Bytes::new()))
    }

    #[test]
    fn publishing_the_same_again_wakes_nobody() {
        let hub = Hub::new();
        hub.publish("ns/gw", snapshot(1));
        let mut view = hub.subscribe("ns/gw");
        view.mark_unchanged();
        hub.publish("ns/gw", snapshot(1));
        assert!(!view.has_changed().expect("the hub holds the sender"));
        hub.publish("ns/gw", snapshot(2));
        assert!(view.has_changed().expect("the hub holds the sender"));
        assert_eq!(hub.published(), ["ns/gw"]);
    }

    #[test]
    fn a_gateway_that_was_only_asked_for_is_forgotten_with_its_last_asker() {
        let hub = Hub::new();
        let (first, second) = (hub.subscribe("ns/gw"), hub.subscribe("ns/gw"));
        hub.unsubscribe("ns/gw", first);
        assert_eq!(hub.gateways().len(), 1);
        hub.unsubscribe("ns/gw", second);
        assert_eq!(hub.gateways().len(), 0);
        hub.publish("ns/gw", snapshot(1));
        let view = hub.subscribe("ns/gw");
        hub.unsubscribe("ns/gw", view);
        assert_eq!(hub.snapshot("ns/gw"), Some(snapshot(1)));
    }

    #[test]
    fn withdrawing_tells_those_who_look_and_forgets_the_gateway() {
        let hub = Hub::new();
        hub.publish("ns/gw", snapshot(1));
        let view = hub.subscribe("ns/gw");
        hub.withdraw("ns/gw");
        assert_eq!(*view.borrow(), Publication::Withdrawn);
        assert_eq!(*hub.subscribe("ns/gw").borrow(), Publication::Awaited);
        assert_eq!(hub.snapshot("ns/gw"), None);
    }
}
