//! What others do to the objects that were applied.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream::FuturesUnordered};
use kube::Client;

use super::{Applier, kind::Kind};
use crate::watch::{self, Limits, MetadataEvent};

/// How often a kind is looked for whose CRD is not there.
const ABSENT: Duration = Duration::from_mins(1);

/// Watches while this process leads, for ever: who does not lead puts nothing right.
pub(super) async fn run(applier: &Applier, client: Client) {
    let mut leads = applier.0.leads.subscribe();
    // The applier has the sender.
    while leads.wait_for(|leads| *leads).await.is_ok() {
        tokio::select! {
            () = all(applier, &client) => return,
            _ = leads.wait_for(|leads| !leads) => {}
        }
    }
}

/// One watch a kind, or one a namespace and kind where only some namespaces may be read.
async fn all(applier: &Applier, client: &Client) {
    let namespaces: Vec<Option<Arc<str>>> = match &*applier.0.settings.namespaces {
        [] => vec![None],
        namespaces => namespaces.iter().map(|namespace| Some(namespace.as_str().into())).collect(),
    };
    let targets =
        Kind::ALL.into_iter().flat_map(|kind| namespaces.iter().cloned().map(move |namespace| (kind, namespace)));
    let mut watches: FuturesUnordered<_> =
        targets.map(|(kind, namespace)| one(applier.clone(), client.clone(), kind, namespace)).collect();
    while watches.next().await.is_some() {}
}

async fn one(applier: Applier, client: Client, kind: Kind, namespace: Option<Arc<str>>) {
    let mut kinds = applier.0.kinds.subscribe();
    if kinds.wait_for(|kinds| kinds.contains(&kind)).await.is_err() {
        return;
    }
    let limits = Limits { absent_poll: ABSENT, ..Limits::default() };
    let (metrics, watched) = (applier.0.settings.watches.clone(), namespace.clone());
    let on_event = move |event| {
        applier.update(|reconciler, now| match event {
            MetadataEvent::Applied(metadata) => reconciler.applied(kind, &metadata, now),
            MetadataEvent::Deleted { namespace, name } => reconciler.deleted(kind, &namespace, &name, now),
            MetadataEvent::Relisted(there) => reconciler.relisted(kind, watched.as_deref(), &there, now),
        });
    };
    watch::watch_metadata(client, kind.labelled(), namespace, limits, &metrics, on_event).await;
}
