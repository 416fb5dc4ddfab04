//! What becomes known of the metadata of objects with a label.

use std::{
    collections::HashSet,
    pin::pin,
    sync::{Arc, LazyLock},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use tokio::sync::{mpsc, watch};

use super::{
    Limits,
    crds::Crds,
    event::{Event, Message},
    reader::Reader,
    request::{Labelled, Place, Target},
    wire::{Name, What, Wire},
};

/// Batches that wait; when so many do, the API server is made to wait.
const WAITING: usize = 16;

/// Nobody knows here which CRDs there are.
static NO_CRDS: LazyLock<watch::Sender<Arc<Crds>>> = LazyLock::new(watch::Sender::default);

/// What became known.
#[derive(Debug)]
pub(crate) enum Heard {
    /// An object is there, or is now so.
    There(Box<ObjectMeta>),
    /// An object has gone, or lost the label.
    Gone {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
    },
    /// There are these, by namespace and name, and no others: a list is complete.
    All(HashSet<(Arc<str>, Arc<str>)>),
}

/// Watches for ever, in one namespace or all, and tells `hear`.
pub(crate) async fn follow(
    client: Client,
    labelled: &'static Labelled,
    namespace: Option<Arc<str>>,
    limits: Limits,
    mut hear: impl FnMut(Heard),
) {
    let target = Target::Labelled(labelled);
    let (out, mut messages) = mpsc::channel(WAITING);
    let place = Place { target, namespace };
    let reader = Reader { client, place, wire: Wire::new(target), limits, crds: NO_CRDS.subscribe(), out };
    let mut reading = pin!(reader.run());
    let mut listed = None;
    loop {
        let message = tokio::select! {
            () = &mut reading => return,
            message = messages.recv() => message,
        };
        let Some(Message::Read(_, events)) = message else { return };
        for event in events {
            take(event, &mut listed, labelled, &mut hear);
        }
    }
}

/// Takes in an event. `listed` is what the list that is being read has so far; none between lists.
fn take(
    event: Event,
    listed: &mut Option<HashSet<(Arc<str>, Arc<str>)>>,
    labelled: &Labelled,
    hear: &mut impl FnMut(Heard),
) {
    match event {
        Event::Begin => *listed = Some(HashSet::new()),
        Event::Put(said) => {
            let What::Metadata(metadata) = said.what else { return };
            if let Some(listed) = listed {
                listed.insert((said.name.namespace, said.name.name));
            }
            hear(Heard::There(metadata));
        }
        Event::Gone(Name { namespace, name }) => {
            if let Some(listed) = listed {
                listed.remove(&(Arc::clone(&namespace), Arc::clone(&name)));
            }
            hear(Heard::Gone { namespace, name });
        }
        Event::End => hear(Heard::All(listed.take().unwrap_or_default())),
        // Without a CRD there are no objects.
        Event::NotServed => hear(Heard::All(HashSet::new())),
        Event::Failing(why) => tracing::warn!(kind = labelled.kind, why, "cannot be watched; it is tried again"),
        Event::Working => tracing::info!(kind = labelled.kind, "is watched again"),
    }
}
