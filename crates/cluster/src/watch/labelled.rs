//! What becomes known of the metadata of objects with a label.

use std::{
    collections::HashSet,
    sync::{Arc, LazyLock},
};

use futures::FutureExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use tokio::sync::watch;

use super::{
    Limits,
    crds::Crds,
    decoder::{Decoder, Name, Payload},
    event::Event,
    metrics::Metrics,
    reflector::Reflector,
    request::{Labelled, ListWatch, Only, Target},
};

/// Nobody reads here which CRDs there are.
static NO_CRDS: LazyLock<watch::Sender<Arc<Crds>>> = LazyLock::new(|| watch::Sender::new(Arc::new(Crds::hidden())));

/// What became known.
#[derive(Debug)]
pub(crate) enum MetadataEvent {
    /// An object is there, or is now so.
    Applied(Box<ObjectMeta>),
    /// An object has gone, or lost the label.
    Deleted {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
    },
    /// There are these, by namespace and name, and no others: a list is complete.
    Relisted(HashSet<(Arc<str>, Arc<str>)>),
}

/// Watches for ever, in one namespace or all, and calls `on_event`.
pub(crate) async fn watch_metadata(
    client: Client,
    labelled: &'static Labelled,
    namespace: Option<Arc<str>>,
    limits: Limits,
    metrics: &Metrics,
    mut on_event: impl FnMut(MetadataEvent) + Send + 'static,
) {
    let target = Target::Labelled(labelled);
    let mut state = State::default();
    let reflector = Reflector {
        client,
        list_watch: ListWatch { target, namespace, only: Only::All },
        decoder: Decoder::new(target),
        limits,
        crds: NO_CRDS.subscribe(),
        sink: async move |events| {
            for event in events {
                state.take(event, labelled.kind, &mut on_event);
            }
            Ok(())
        },
        metrics: metrics.reflector(target.name()),
    };
    // Boxed, so that it is known here that it can be sent between threads.
    reflector.run().boxed().await;
}

/// What is remembered from one event to the next.
#[derive(Debug, Default)]
struct State {
    /// What the list that is being read has so far; none between lists.
    listed: Option<HashSet<(Arc<str>, Arc<str>)>>,
    /// Why the watch does not work, if it does not: logged once.
    failing: Option<String>,
}

impl State {
    fn take(&mut self, event: Event, kind: &'static str, on_event: &mut impl FnMut(MetadataEvent)) {
        match event {
            Event::ListStarted => self.listed = Some(HashSet::new()),
            Event::Applied(watched) => {
                let Payload::Metadata(metadata) = watched.payload else { return };
                if let Some(listed) = &mut self.listed {
                    listed.insert((watched.name.namespace, watched.name.name));
                }
                on_event(MetadataEvent::Applied(metadata));
            }
            Event::Deleted(Name { namespace, name }) => {
                if let Some(listed) = &mut self.listed {
                    listed.remove(&(Arc::clone(&namespace), Arc::clone(&name)));
                }
                on_event(MetadataEvent::Deleted { namespace, name });
            }
            Event::ListComplete => on_event(MetadataEvent::Relisted(self.listed.take().unwrap_or_default())),
            // Without a CRD there are no objects.
            Event::NotServed => {
                self.listed = None;
                on_event(MetadataEvent::Relisted(HashSet::new()));
            }
            Event::Failing { why, .. } => {
                if self.failing.as_ref() != Some(&why) {
                    tracing::warn!(kind, why, "cannot be watched, so that what others change is not put right at once");
                    self.failing = Some(why);
                }
            }
            Event::Recovered => {
                tracing::info!(kind, "is watched again");
                self.failing = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::decoder::WatchedObject;

    static SERVICE: Labelled = Labelled {
        group: "",
        version: ["v1"],
        kind: "Service",
        plural: "services",
        custom: false,
        label: ("made-by", "us"),
    };

    fn put(name: &str) -> Event {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        Event::Applied(WatchedObject { name: named(name), version: 0, payload: Payload::Metadata(metadata.into()) })
    }

    fn named(name: &str) -> Name {
        Name { namespace: "n".into(), name: name.into() }
    }

    fn seen(events: Vec<Event>) -> Vec<String> {
        let mut seen = Vec::new();
        let mut state = State::default();
        for event in events {
            state.take(event, SERVICE.kind, &mut |event| {
                seen.push(match event {
                    MetadataEvent::Applied(metadata) => format!("there {}", metadata.name.expect("a name")),
                    MetadataEvent::Deleted { name, .. } => format!("gone {name}"),
                    MetadataEvent::Relisted(all) => {
                        let mut names: Vec<_> = all.iter().map(|(_, name)| name.to_string()).collect();
                        names.sort();
                        format!("all {}", names.join(" "))
                    }
                });
            });
        }
        seen
    }

    #[test]
    fn the_end_of_a_list_says_what_there_is_and_so_what_is_gone() {
        let first = [Event::ListStarted, put("a"), put("b"), put("c"), Event::Deleted(named("b")), Event::ListComplete];
        let then = [put("d"), Event::ListStarted, put("c"), Event::ListComplete];
        let found = seen(first.into_iter().chain(then).collect());
        assert_eq!(found, ["there a", "there b", "there c", "gone b", "all a c", "there d", "there c", "all c"]);
    }

    #[test]
    fn a_list_that_breaks_says_nothing_and_the_next_one_begins_anew() {
        let found = seen(vec![
            Event::ListStarted,
            put("a"),
            Event::Failing { why: "cut".to_owned(), forbidden: false },
            Event::ListStarted,
            put("b"),
            Event::Recovered,
            Event::ListComplete,
        ]);
        assert_eq!(found, ["there a", "there b", "all b"]);
    }

    #[test]
    fn of_a_kind_that_is_not_served_there_is_nothing() {
        assert_eq!(seen(vec![put("a"), Event::NotServed]), ["there a", "all "]);
    }
}
