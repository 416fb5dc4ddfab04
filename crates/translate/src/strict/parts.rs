//! Clusters, entries of extensions and chains of TLSRoutes, each of which goes by itself.

use std::{collections::BTreeMap, mem::replace, sync::Arc, time::Instant};

use api::ObjectId;
use envoy::judged::Kind;
use ir::RouteId;

use super::{
    asking::{Asking, NOT_JUDGED, UNJUDGED, Verdict, Wait},
    told::{Cause, Told},
    waiters::{Item, Waiters},
};
use crate::{
    Translator,
    inspect::{Sent, sent::of_message},
    tables::{
        input::{ClearedPart, ObjectKey, RefusedPart},
        strict::{Offered, OfferedPart, Owner, Part, PartId, RefusedPartWords},
    },
};

/// Parts of which another content is offered than was cleared.
#[derive(Debug, Default)]
pub(super) struct Parts {
    waiting: BTreeMap<PartId, Waiting>,
    told: Told,
}

#[derive(Debug)]
struct Waiting {
    since: Instant,
    /// Whether it is closed, by what was said of it before or for want of a word: then nobody waits for it.
    is_closed: bool,
    /// The route of streams that is told.
    told: Option<RouteId>,
}

impl Parts {
    /// Whether whoever needs it waits for it. What is closed is a fault of who needs it.
    pub(super) fn is_waiting(&self, part: &PartId) -> bool {
        self.waiting.get(part).is_some_and(|state| !state.is_closed)
    }

    /// Since when each waits that is not closed.
    pub(super) fn holding(&self) -> impl Iterator<Item = Instant> {
        self.waiting.values().filter(|state| !state.is_closed).map(|state| state.since)
    }

    /// Takes note of what is offered. Whether anything was written.
    pub(super) fn note(&mut self, translator: &mut Translator, waiters: &mut Waiters, asking: &Asking<'_>) -> bool {
        let mut wrote = false;
        for part in translator.engine_mut().take_changes::<OfferedPart>() {
            let engine = translator.engine_mut();
            let offered = engine.get::<OfferedPart>(&part);
            let Some(Offered { part: content, .. }) = offered.as_deref() else {
                // Nobody needs it any more, nor would if it were taken.
                wrote |= engine.set::<ClearedPart>(part.clone(), None);
                wrote |= engine.set::<RefusedPart>(part.clone(), None);
                wrote |= self.done(&part, translator, waiters, asking);
                continue;
            };
            // What was cleared stays for as long as it is asked for.
            if content.is_none() || content.as_ref() == engine.get::<ClearedPart>(&part).as_deref() {
                wrote |= engine.set::<RefusedPart>(part.clone(), None);
                wrote |= self.done(&part, translator, waiters, asking);
            } else {
                self.wait(&part, translator, waiters, asking);
            }
        }
        wrote
    }

    /// Has a part be judged.
    pub(super) fn wait(&mut self, part: &PartId, translator: &Translator, waiters: &mut Waiters, asking: &Asking<'_>) {
        let item = Item::Part(part.clone());
        let is_closed = translator.engine().get::<RefusedPart>(part).is_some();
        self.waiting.entry(part.clone()).or_insert_with(|| {
            waiters.alarm(&item, asking.bounds.moments(asking.now));
            Waiting { since: asking.now, is_closed, told: None }
        });
        waiters.wake(item);
        waiters.wake_for_part(part);
    }

    /// Has all that is refused be judged anew.
    pub(super) fn ask_again(&mut self, translator: &Translator, waiters: &mut Waiters, asking: &Asking<'_>) {
        for (part, _) in translator.engine().rows::<RefusedPart>() {
            self.wait(&part, translator, waiters, asking);
        }
    }

    /// The time since `away`, when nobody could be asked, counts for nobody.
    pub(super) fn resume(&mut self, away: Instant, waiters: &mut Waiters, asking: &Asking<'_>) {
        for (part, state) in &mut self.waiting {
            let item = Item::Part(part.clone());
            waiters.silence(&item, asking.bounds.moments(state.since));
            state.since = asking.resumed(state.since, away);
            waiters.alarm(&item, asking.bounds.moments(state.since));
        }
    }

    /// A part waits no more. Whether anything was written.
    fn done(&mut self, part: &PartId, translator: &mut Translator, waiters: &mut Waiters, asking: &Asking<'_>) -> bool {
        let wrote = self.tell(part, None, translator);
        if let Some(state) = self.waiting.remove(part) {
            let item = Item::Part(part.clone());
            waiters.forget(&item);
            waiters.silence(&item, asking.bounds.moments(state.since));
            waiters.wake_for_part(part);
        }
        wrote
    }

    /// Nobody waits for a part any more, and its route is not told that it does. Whether anything was written.
    fn close(&mut self, part: &PartId, translator: &mut Translator) -> bool {
        let wrote = self.tell(part, None, translator);
        if let Some(state) = self.waiting.get_mut(part) {
            state.is_closed = true;
        }
        wrote
    }

    /// Has this route of streams be told that a part waits, and no other. Whether anything was written.
    fn tell(&mut self, part: &PartId, route: Option<RouteId>, translator: &mut Translator) -> bool {
        let Some(state) = self.waiting.get_mut(part).filter(|state| state.told != route) else { return false };
        let before = replace(&mut state.told, route.clone());
        let told = [(before, false), (route, true)].into_iter().filter_map(|(route, is_so)| Some((route?, is_so)));
        told.fold(false, |wrote, (route, is_so)| {
            self.told.say(translator, &route, Cause::Part(part.clone()), is_so) | wrote
        })
    }

    /// Clears or refuses a part. Whether anything was written, and whether it is refused from now on or no longer.
    pub(super) fn judge(
        &mut self,
        part: &PartId,
        translator: &mut Translator,
        waiters: &mut Waiters,
        asking: &mut Asking<'_>,
    ) -> (bool, bool) {
        let Some(Waiting { since, is_closed, .. }) = self.waiting.get(part) else { return (false, false) };
        let (since, is_closed) = (*since, *is_closed);
        let engine = translator.engine();
        let offered = engine.get::<OfferedPart>(part);
        let Some(Offered { part: Some(content), owner }) = offered.as_deref() else { return (false, false) };
        // Tokens are taken by the keys of those who give them out.
        let is_urgent = matches!(content, Part::Tokens(_)) && engine.get::<ClearedPart>(part).is_some();
        let wait = if is_closed { Wait::forever(asking.now) } else { Wait::since(since, is_urgent) };
        let item = Item::Part(part.clone());
        let (sent, verdict) = about(part, content, owner, &item, wait, waiters, asking);
        let content = content.clone();
        let words: Arc<str> = match verdict {
            Verdict::Fine => {
                let engine = translator.engine_mut();
                let mut wrote = engine.set::<ClearedPart>(part.clone(), Some(content));
                wrote |= engine.set::<RefusedPart>(part.clone(), None);
                wrote |= self.done(part, translator, waiters, asking);
                return (wrote, is_closed);
            }
            Verdict::Refused(words, _) => words,
            // What it is of stands as it did: of its route nothing is in it but the hostname.
            Verdict::NotJudged if matches!(part, PartId::Chain(..)) && engine.get::<ClearedPart>(part).is_some() => {
                waiters.set(&item, vec![sent], Vec::new());
                return (self.close(part, translator), false);
            }
            Verdict::NotJudged => NOT_JUDGED.into(),
            Verdict::Waits(is_hopeless) => {
                waiters.set(&item, vec![sent.clone()], Vec::new());
                if is_closed || !is_urgent || !asking.closes(since, is_hopeless) {
                    let route = RouteId::of(&owner.object).filter(|route| route.kind.is_stream());
                    let route = route.filter(|_| !is_closed && asking.is_noticed(since));
                    return (self.tell(part, route, translator), false);
                }
                UNJUDGED.into()
            }
        };
        let is_over = !matches!(&*words, NOT_JUDGED | UNJUDGED);
        let engine = translator.engine_mut();
        let mut wrote = engine.set::<ClearedPart>(part.clone(), None);
        let words = RefusedPartWords { object: owner.object.clone(), words, is_judged: is_over };
        wrote |= engine.set::<RefusedPart>(part.clone(), Some(words));
        if is_over {
            wrote |= self.done(part, translator, waiters, asking);
        } else {
            wrote |= self.close(part, translator);
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
    owner: &Owner,
    item: &Item,
    wait: Wait,
    waiters: &Waiters,
    asking: &mut Asking<'_>,
) -> (Sent, Verdict) {
    let sent = sent(part, content, owner);
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

pub(super) fn sent(id: &PartId, part: &Part, owner: &Owner) -> Sent {
    let judges = match part {
        Part::Cluster(encoded) => return of_message(Kind::Cluster, encoded, owner, Arc::default()),
        Part::Chain(_, encoded) => return of_message(Kind::Listener, encoded, owner, Arc::default()),
        Part::Tokens(judges) => Some(judges),
        Part::Rate => None,
    };
    let entry = match id {
        PartId::Entry(entry) => Some(entry),
        PartId::Cluster(_) | PartId::Chain(..) => None,
    };
    let holder = entry.and_then(envoy::extensions::holder).unwrap_or_default();
    let encoded = envoy::extensions::extension(holder, entry, |_| judges.cloned(), 0);
    of_message(Kind::Extension, &encoded, owner, Arc::default())
}
