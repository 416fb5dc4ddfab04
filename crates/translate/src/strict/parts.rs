//! Clusters and entries of extensions, each of which goes by itself.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use api::{Kind as ObjectKind, ObjectId};
use envoy::judged::Kind;
use ir::{NsName, rule::ExtensionEntry};

use super::{
    asking::{Asking, NOT_JUDGED, UNJUDGED, Verdict, Wait},
    waiters::{Item, Waiters},
};
use crate::{
    Translator,
    inspect::{
        Sent,
        sent::{of_message, owner},
    },
    tables::{
        input::{ClearedPart, ObjectKey, RefusedPart},
        strict::{Offered, OfferedPart, Part, PartId, RefusedPartWords},
    },
};

/// Parts of which another content is offered than was cleared.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Since when.
    waiting: BTreeMap<PartId, Instant>,
}

impl Parts {
    /// Whether whoever needs it waits for it. What is closed is a fault of who needs it.
    pub(super) fn is_waiting(&self, translator: &Translator, part: &PartId) -> bool {
        self.waiting.contains_key(part) && translator.engine().get::<RefusedPart>(part).is_none()
    }

    /// Takes note of what is offered. Whether anything was written.
    pub(super) fn note(&mut self, translator: &mut Translator, waiters: &mut Waiters, asking: &Asking<'_>) -> bool {
        let engine = translator.engine_mut();
        let mut wrote = false;
        for part in engine.take_changes::<OfferedPart>() {
            let offered = engine.get::<OfferedPart>(&part);
            let Some(Offered(content)) = offered.as_deref() else {
                // Nobody needs it any more, nor would if it were taken.
                wrote |= engine.set::<ClearedPart>(part.clone(), None);
                wrote |= engine.set::<RefusedPart>(part.clone(), None);
                self.done(&part, waiters, asking);
                continue;
            };
            // What was cleared stays for as long as it is asked for.
            if content.is_none() || content.as_ref() == engine.get::<ClearedPart>(&part).as_deref() {
                wrote |= engine.set::<RefusedPart>(part.clone(), None);
                self.done(&part, waiters, asking);
            } else {
                self.wait(part, waiters, asking);
            }
        }
        wrote
    }

    /// Has a part be judged.
    pub(super) fn wait(&mut self, part: PartId, waiters: &mut Waiters, asking: &Asking<'_>) {
        let item = Item::Part(part.clone());
        self.waiting.entry(part).or_insert_with(|| {
            waiters.alarm(&item, asking.bounds.moments(asking.now));
            asking.now
        });
        waiters.wake(item);
    }

    /// Has all wait from now on, since nobody could be asked before.
    pub(super) fn restart(&mut self, waiters: &mut Waiters, asking: &Asking<'_>) {
        for (part, since) in &mut self.waiting {
            let item = Item::Part(part.clone());
            waiters.silence(&item, asking.bounds.moments(*since));
            *since = asking.now;
            waiters.alarm(&item, asking.bounds.moments(*since));
        }
    }

    fn done(&mut self, part: &PartId, waiters: &mut Waiters, asking: &Asking<'_>) {
        if let Some(since) = self.waiting.remove(part) {
            let item = Item::Part(part.clone());
            waiters.forget(&item);
            waiters.silence(&item, asking.bounds.moments(since));
            waiters.wake_for_part(part);
        }
    }

    /// Clears or refuses a part. Whether anything was written, and whether it is refused from now on or no longer.
    pub(super) fn judge(
        &mut self,
        part: &PartId,
        translator: &mut Translator,
        waiters: &mut Waiters,
        asking: &mut Asking<'_>,
    ) -> (bool, bool) {
        let Some(since) = self.waiting.get(part).copied() else { return (false, false) };
        let engine = translator.engine_mut();
        let offered = engine.get::<OfferedPart>(part);
        let Some(Offered(Some(content))) = offered.as_deref() else { return (false, false) };
        let is_closed = engine.get::<RefusedPart>(part).is_some();
        // Tokens are taken by the keys of those who give them out.
        let is_urgent = matches!(content, Part::Tokens(_)) && engine.get::<ClearedPart>(part).is_some();
        let wait = if is_closed { Wait::forever(asking.now) } else { Wait { since, is_urgent } };
        let item = Item::Part(part.clone());
        let (sent, verdict) = about(part, content, &item, wait, waiters, asking);
        let content = content.clone();
        let words: Arc<str> = match verdict {
            Verdict::Fine => {
                let mut wrote = engine.set::<ClearedPart>(part.clone(), Some(content));
                wrote |= engine.set::<RefusedPart>(part.clone(), None);
                self.done(part, waiters, asking);
                return (wrote, is_closed);
            }
            Verdict::Refused(words, _) => words,
            Verdict::NotJudged => NOT_JUDGED.into(),
            Verdict::Waits(is_hopeless) => {
                waiters.set(&item, vec![sent.clone()], Vec::new());
                if is_closed || !is_urgent || !asking.closes(since, is_hopeless) {
                    return (false, false);
                }
                UNJUDGED.into()
            }
        };
        let is_over = !matches!(&*words, NOT_JUDGED | UNJUDGED);
        let mut wrote = engine.set::<ClearedPart>(part.clone(), None);
        let words = RefusedPartWords { object: object_of(part), words };
        wrote |= engine.set::<RefusedPart>(part.clone(), Some(words));
        if is_over {
            self.done(part, waiters, asking);
        } else {
            waiters.set(&item, vec![sent], Vec::new());
            waiters.wake_for_part(part);
        }
        (wrote, !is_closed)
    }
}

/// Asks about a part: where it is nobody's own, in the name of somebody who asks for it and is judged soon.
fn about(
    part: &PartId,
    content: &Part,
    item: &Item,
    wait: Wait,
    waiters: &Waiters,
    asking: &mut Asking<'_>,
) -> (Sent, Verdict) {
    let sent = sent(part, content);
    let mut names = if sent.object.namespace.is_empty() { waiters.namespaces(part) } else { Vec::new() };
    if names.is_empty() {
        names.push(sent.object.namespace.clone());
    }
    let mut best = None;
    for namespace in names {
        let object = ObjectId { namespace, ..sent.object.clone() };
        let sent = Sent { object, ..sent.clone() };
        let verdict = asking.about(item, &sent, wait);
        let is_soon = !matches!(verdict, Verdict::Waits(true) | Verdict::NotJudged);
        if is_soon {
            return (sent, verdict);
        }
        best.get_or_insert((sent, verdict));
    }
    best.unwrap_or((sent, Verdict::Waits(true)))
}

/// Whose a part is; nobody's of what is the same for all who say the same.
pub(super) fn object_of(part: &PartId) -> ObjectId {
    match part {
        PartId::Cluster(cluster) => owner(cluster),
        PartId::Entry(ExtensionEntry::Tokens(id) | ExtensionEntry::Login(id) | ExtensionEntry::LoginTokens(id)) => {
            id.clone().id(ObjectKind::GatewayExtension)
        }
        PartId::Entry(ExtensionEntry::LocalRate(_)) => NsName::new("", "").id(ObjectKind::TrafficPolicy),
    }
}

fn sent(id: &PartId, part: &Part) -> Sent {
    let object = object_of(id);
    let judges = match (id, part) {
        (_, Part::Cluster(encoded)) => return of_message(Kind::Cluster, encoded, object, Arc::default()),
        (_, Part::Tokens(judges)) => Some(judges),
        (_, Part::Rate) => None,
    };
    let entry = match id {
        PartId::Entry(entry) => Some(entry),
        PartId::Cluster(_) => None,
    };
    let holder = entry.and_then(envoy::extensions::holder).unwrap_or_default();
    let encoded = envoy::extensions::extension(holder, entry, |_| judges.cloned(), 0);
    of_message(Kind::Extension, &encoded, object, Arc::default())
}
