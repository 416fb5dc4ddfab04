//! What was judged goes, what was not waits, and nobody waits for ever.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    mem::take,
    sync::Arc,
    time::{Duration, Instant},
};

use api::{Kind as ObjectKind, ObjectId};
use envoy::{
    judged::Kind,
    resource::{Encoded, ResourceKey, ResourceKind},
};
use ir::{ListenerId, NsName, RouteId, rule::ExtensionEntry, settings::WhenUnavailable};

use super::{
    asking::{Asking, Bounds, FragmentId, NOT_JUDGED, Verdict, Word},
    roots::Roots,
};
use crate::{
    Translator,
    inspect::{
        Sent,
        sent::{of_message, owner},
    },
    policy::wide::{section, whole},
    tables::{
        backend::ClusterId,
        input::{ClearedPart, ObjectKey, RefusedListener, RefusedPart, RefusedWide, Strict},
        output::{OutputId, Outputs},
        policy::Target,
        strict::{Offered, OfferedPart, OfferedWide, Part, PartId, RefusedPartWords},
    },
};

/// What is held back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Gateways of which nothing but endpoints and secrets is published.
    pub gateways: BTreeSet<NsName>,
    /// Trees of routes that are served as they were.
    pub routes: usize,
    /// The routes that wait for longer than it takes to notice, and for how long.
    pub since: Option<Duration>,
}

/// How many fragments are remembered that were sent though nobody had judged them, to be judged later.
const MOST_WAIVED: usize = 50_000;

/// A Gateway whose own words changed.
#[derive(Debug, Default)]
struct WideState {
    /// Its listeners that changed since they were judged.
    listeners: BTreeSet<ListenerId>,
    /// Messages of listeners, likewise.
    messages: BTreeMap<Arc<str>, Encoded>,
    /// Trees that changed at the same time and wait, and since when.
    entangled: BTreeMap<RouteId, Instant>,
}

impl WideState {
    fn is_done(&self) -> bool {
        self.listeners.is_empty() && self.messages.is_empty() && self.entangled.is_empty()
    }
}

/// What waits for Envoy's word.
#[derive(Debug)]
pub struct Gate {
    bounds: Bounds,
    roots: Roots,
    /// Parts of which another content is offered than was cleared.
    parts: BTreeSet<PartId>,
    /// Parts that are refused: they are looked at though nobody asks for them.
    refused: BTreeSet<PartId>,
    wide: BTreeMap<NsName, WideState>,
    waived: BTreeMap<FragmentId, Sent>,
    unknown: Vec<Sent>,
    /// Since when each of these is asked about.
    since: HashMap<FragmentId, Instant>,
}

impl Gate {
    /// One that nothing waits at yet.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            roots: Roots::default(),
            parts: BTreeSet::new(),
            refused: BTreeSet::new(),
            wide: BTreeMap::new(),
            waived: BTreeMap::new(),
            unknown: Vec::new(),
            since: HashMap::new(),
        }
    }

    /// Takes note of what settled, with the resources that changed, and writes what is known by `word`. Whether anything was
    /// written, so that it has to settle and be noted again.
    pub fn pass(
        &mut self,
        translator: &mut Translator,
        resources: &[(ResourceKey, Option<Encoded>)],
        now: Instant,
        word: &mut dyn FnMut(&Sent) -> Word,
    ) -> bool {
        if translator.engine().get::<Strict>(&()).is_none() {
            return false;
        }
        let mut wrote = self.note(translator, resources, now);
        let mut asking = Asking {
            now,
            bounds: self.bounds,
            word,
            unknown: Vec::new(),
            since: HashMap::new(),
            before: take(&mut self.since),
            waived: &mut self.waived,
        };
        wrote |= judge_parts(&mut self.parts, &mut self.refused, translator, &mut asking);
        wrote |= self.roots.pass(translator, &self.parts, &mut asking);
        wrote |= judge_wide(&mut self.wide, &self.parts, &self.refused, translator, &mut asking);
        // What was sent without a word is asked about for as long as nobody knows.
        let waived: Vec<_> = asking.waived.values().cloned().collect();
        let mut anew = false;
        for sent in waived {
            if let Verdict::Refused(words, is_said) = asking.about(sent.clone()) {
                if let Some(route) = &sent.route {
                    self.roots.refuse(translator, route, sent.fragment.hash, &words, is_said);
                } else {
                    anew = true;
                }
                wrote = true;
            }
        }
        (self.unknown, self.since) = (asking.unknown, asking.since);
        while self.waived.len() > MOST_WAIVED {
            self.waived.pop_first();
        }
        if anew {
            self.look_at_all(translator);
        }
        for state in self.wide.values_mut() {
            state.entangled.retain(|route, since| {
                let is_late = now.saturating_duration_since(*since) >= 3 * self.bounds.timeout;
                if is_late && self.bounds.then == WhenUnavailable::Standard && self.roots.is_waiting(route) {
                    // What it leaves to the Gateway may not be said there any more.
                    wrote |= self.roots.withdraw(translator, route);
                    return false;
                }
                self.roots.is_waiting(route)
            });
        }
        self.wide.retain(|_, state| !state.is_done());
        wrote
    }

    /// Looks at all parts, listeners and policies of Gateways once more.
    fn look_at_all(&mut self, translator: &Translator) {
        let engine = translator.engine();
        self.parts.extend(engine.rows::<OfferedPart>().into_iter().map(|(part, _)| part));
        for (listener, _) in engine.rows::<OfferedWide>() {
            self.wide.entry(listener.gateway.clone()).or_default().listeners.insert(listener);
        }
        for (id, encoded) in engine.rows::<Outputs>() {
            if let OutputId::Listener(gateway, _) = &id {
                let messages = &mut self.wide.entry(gateway.clone()).or_default().messages;
                messages.insert(id.resource().name, (*encoded).clone());
            }
        }
    }

    /// Of what nobody knows, the longest waiting first of each object's.
    pub fn unknown(&self) -> &[Sent] {
        &self.unknown
    }

    /// What is held back at the moment.
    pub fn held(&self, now: Instant) -> Held {
        Held {
            gateways: self.wide.keys().cloned().collect(),
            routes: self.roots.len(),
            since: self.roots.oldest().map(|since| now.saturating_duration_since(since)),
        }
    }

    /// How many fragments are sent though nobody judged them.
    pub fn waived(&self) -> usize {
        self.waived.len()
    }

    /// Takes note of what changed. Whether a part is gone, so that something was written.
    fn note(
        &mut self,
        translator: &mut Translator,
        resources: &[(ResourceKey, Option<Encoded>)],
        now: Instant,
    ) -> bool {
        let mut wrote = self.roots.note(translator, now);
        let engine = translator.engine_mut();
        for part in engine.take_changes::<OfferedPart>() {
            let Some(offered) = engine.get::<OfferedPart>(&part) else {
                self.parts.remove(&part);
                // The tables were built anew, and know no more who looks at it.
                if self.refused.contains(&part) {
                    engine.demand::<OfferedPart>(part.clone());
                    wrote = true;
                }
                wrote |= engine.set::<ClearedPart>(part, None);
                continue;
            };
            let Offered(content) = &*offered;
            let cleared = engine.get::<ClearedPart>(&part);
            if content.as_ref() == cleared.as_deref() && !self.refused.contains(&part) {
                self.parts.remove(&part);
            } else {
                self.parts.insert(part);
            }
        }
        let mut turned = BTreeSet::new();
        for listener in engine.take_changes::<OfferedWide>() {
            turned.insert(listener.gateway.clone());
            self.wide.entry(listener.gateway.clone()).or_default().listeners.insert(listener);
        }
        for (key, encoded) in resources.iter().filter(|(key, _)| key.kind == ResourceKind::Listener) {
            let messages = &mut self.wide.entry(key.gateway.clone()).or_default().messages;
            match encoded {
                Some(encoded) => drop(messages.insert(key.name.clone(), encoded.clone())),
                None => drop(messages.remove(&key.name)),
            }
        }
        for gateway in turned {
            let state = self.wide.entry(gateway.clone()).or_default();
            for route in self.roots.waiting_at(&gateway) {
                state.entangled.entry(route).or_insert(now);
            }
        }
        wrote
    }
}

fn object_of(part: &PartId) -> ObjectId {
    match part {
        PartId::Cluster(cluster) => owner(cluster),
        PartId::Entry(ExtensionEntry::Tokens(id) | ExtensionEntry::Login(id) | ExtensionEntry::LoginTokens(id)) => {
            id.clone().id(ObjectKind::GatewayExtension)
        }
        // It stands in rules of whoever says the same.
        PartId::Entry(ExtensionEntry::LocalRate(_)) => NsName::new("", "").id(ObjectKind::TrafficPolicy),
    }
}

fn sent_part(id: &PartId, part: &Part) -> Sent {
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

fn judge_parts(
    parts: &mut BTreeSet<PartId>,
    refused: &mut BTreeSet<PartId>,
    translator: &mut Translator,
    asking: &mut Asking<'_>,
) -> bool {
    let engine = translator.engine_mut();
    let mut wrote = false;
    parts.retain(|id| {
        let offered = engine.get::<OfferedPart>(id);
        // What was cleared stays for as long as it is asked for.
        let content = offered.as_deref().and_then(|Offered(content)| content.as_ref());
        let verdict = content.map_or(Verdict::Fine, |part| asking.about(sent_part(id, part)));
        let words: Option<Arc<str>> = match &verdict {
            Verdict::Waits => return true,
            Verdict::Fine => None,
            Verdict::Refused(words, _) => Some(words.clone()),
            Verdict::NotJudged => Some(NOT_JUDGED.into()),
        };
        if words.is_none() {
            if content.is_some() {
                wrote |= engine.set::<ClearedPart>(id.clone(), content.cloned());
            }
            if refused.remove(id) {
                engine.release::<OfferedPart>(id);
            }
        } else {
            wrote |= engine.set::<ClearedPart>(id.clone(), None);
            if refused.insert(id.clone()) {
                engine.demand::<OfferedPart>(id.clone());
            }
        }
        let words = words.map(|words| RefusedPartWords { object: object_of(id), words });
        wrote |= engine.set::<RefusedPart>(id.clone(), words);
        matches!(verdict, Verdict::NotJudged)
    });
    wrote
}

fn judge_wide(
    wide: &mut BTreeMap<NsName, WideState>,
    parts: &BTreeSet<PartId>,
    refused: &BTreeSet<PartId>,
    translator: &mut Translator,
    asking: &mut Asking<'_>,
) -> bool {
    let mut wrote = false;
    for (gateway, state) in wide {
        let object = || gateway.clone().id(ObjectKind::Gateway);
        let engine = translator.engine_mut();
        let mut now_refused: BTreeMap<Target, Option<Arc<str>>> = BTreeMap::new();
        state.listeners.retain(|listener| {
            let Some(wide) = engine.get::<OfferedWide>(listener) else { return false };
            let mut waits = false;
            for target in [whole(gateway), section(listener)] {
                now_refused.entry(target).or_default();
            }
            for scope in &wide.scopes {
                let names = scope.parts.iter().filter_map(|part| match part {
                    PartId::Cluster(cluster) => Some(Arc::from(cluster.name())),
                    PartId::Entry(_) => None,
                });
                match asking.about(of_message(Kind::RouteConfiguration, &scope.head, object(), names.collect())) {
                    Verdict::Fine => {}
                    Verdict::Refused(words, _) => drop(now_refused.insert(scope.target.clone(), Some(words))),
                    Verdict::Waits | Verdict::NotJudged => waits = true,
                }
                waits |= scope.parts.iter().any(|part| parts.contains(part) && !refused.contains(part));
            }
            waits
        });
        for (target, words) in now_refused {
            wrote |= engine.set::<RefusedWide>(target, words);
        }
        state.messages.retain(|name, encoded| {
            let sinks = sinks(engine, gateway, name);
            let missing = sinks.iter().find(|part| refused.contains(*part)).map(object_of);
            let verdict = match missing {
                Some(object) => Verdict::Refused(format!("it needs {object}, which is refused").into(), true),
                None => asking.about(of_message(Kind::Listener, encoded, object(), Arc::default())),
            };
            let waits = matches!(verdict, Verdict::Waits | Verdict::NotJudged);
            if !waits {
                let refused = match verdict {
                    Verdict::Refused(words, _) => Some((encoded.version, words)),
                    _ => None,
                };
                wrote |= engine.set::<RefusedListener>((gateway.clone(), name.clone()), refused);
            }
            waits || sinks.iter().any(|part| parts.contains(part) && !refused.contains(part))
        });
    }
    wrote
}

/// The clusters of those who are told of requests by a listener.
fn sinks(engine: &engine::Engine, gateway: &NsName, name: &str) -> Vec<PartId> {
    let port = name.rsplit('/').next().and_then(|port| port.parse().ok()).unwrap_or_default();
    let merged = engine.get::<crate::gateway::policy::DownstreamOf>(&(gateway.clone(), port));
    let sinks = merged.iter().flat_map(|merged| merged.config.http.sinks()).filter(|sink| sink.is_there);
    sinks.map(|sink| PartId::Cluster(ClusterId::from(sink))).collect()
}
