//! What was judged goes, what was not waits, and nobody waits for ever.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use api::{Kind as ObjectKind, ObjectId};
use envoy::{
    judged::Kind,
    resource::{Encoded, ResourceKey, ResourceKind},
};
use ir::{ListenerId, NsName, RouteId, rule::ExtensionEntry};

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
        strict::{Offered, OfferedPart, OfferedWide, Part, PartId, RefusedPartWords, Wide},
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
    /// Its listeners that changed since they were judged, and since when.
    listeners: BTreeMap<ListenerId, Instant>,
    /// Messages of listeners, likewise.
    messages: BTreeMap<Arc<str>, (Encoded, Instant)>,
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
    parts: BTreeMap<PartId, Instant>,
    /// Parts that are refused: they are looked at though nobody asks for them.
    refused: BTreeSet<PartId>,
    wide: BTreeMap<NsName, WideState>,
    /// Gateways of which something turned in this settling.
    turned: BTreeSet<NsName>,
    /// Scopes and listeners that are closed because nobody said anything in time: they are asked about still.
    wordless: Wordless,
    waived: BTreeMap<FragmentId, Sent>,
    unknown: Vec<Sent>,
}

/// What of Gateways is closed because nobody said anything in time.
#[derive(Debug, Default)]
struct Wordless {
    listeners: BTreeSet<ListenerId>,
    messages: BTreeMap<(NsName, Arc<str>), Encoded>,
}

impl Gate {
    /// One that nothing waits at yet.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            roots: Roots::default(),
            parts: BTreeMap::new(),
            refused: BTreeSet::new(),
            wide: BTreeMap::new(),
            turned: BTreeSet::new(),
            wordless: Wordless::default(),
            waived: BTreeMap::new(),
            unknown: Vec::new(),
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
            asked: HashSet::new(),
            is_away: false,
            waived: &mut self.waived,
        };
        let (parts, turned) = judge_parts(&mut self.parts, &mut self.refused, translator, &mut asking);
        wrote |= parts;
        wrote |= self.roots.pass(translator, &self.parts, &mut asking);
        if turned {
            // Whoever stands for a part stands and falls with it.
            look_at_wide(&mut self.wide, translator, now);
            wrote |= readmit(translator);
        }
        wrote |= judge_wide(&mut self.wide, &self.parts, &mut self.wordless, translator, &mut asking);
        // What was sent without a word is asked about for as long as nobody knows.
        let waived: Vec<_> = asking.waived.values().cloned().collect();
        let mut anew = false;
        for sent in waived {
            if let Verdict::Refused(words, is_said) = asking.about(sent.clone(), now) {
                if let Some(route) = &sent.route {
                    self.roots.refuse(translator, route, sent.fragment.hash, &words, is_said);
                } else {
                    anew = true;
                }
                wrote = true;
            }
        }
        self.unknown = asking.unknown;
        while self.waived.len() > MOST_WAIVED {
            self.waived.pop_first();
        }
        if anew {
            let parts = translator.engine().rows::<OfferedPart>().into_iter().map(|(part, _)| (part, now));
            self.parts.extend(parts);
            look_at_wide(&mut self.wide, translator, now);
        }
        for state in self.wide.values_mut() {
            state.entangled.retain(|route, since| {
                let waits = self.roots.is_waiting(route);
                if waits && now.saturating_duration_since(*since) >= self.bounds.timeout {
                    // What it leaves to the Gateway may not be said there any more.
                    wrote |= self.roots.withdraw(translator, route);
                    return false;
                }
                waits
            });
        }
        self.wide.retain(|_, state| !state.is_done());
        wrote
    }

    /// All has settled: what changes from now on does not go together with what changed before.
    pub fn settled(&mut self) {
        self.turned.clear();
        self.roots.settled();
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
                self.parts.entry(part).or_insert(now);
            }
        }
        for listener in engine.take_changes::<OfferedWide>() {
            self.turned.insert(listener.gateway.clone());
            self.wide.entry(listener.gateway.clone()).or_default().listeners.entry(listener).or_insert(now);
        }
        for (key, encoded) in resources.iter().filter(|(key, _)| key.kind == ResourceKind::Listener) {
            let messages = &mut self.wide.entry(key.gateway.clone()).or_default().messages;
            match encoded {
                Some(encoded) => {
                    let since = messages.get(&key.name).map_or(now, |(_, since)| *since);
                    messages.insert(key.name.clone(), (encoded.clone(), since));
                }
                None => drop(messages.remove(&key.name)),
            }
        }
        for gateway in &self.turned {
            for route in self.roots.waiting_at(gateway) {
                let state = self.wide.entry(gateway.clone()).or_default();
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

/// Looks at all listeners and policies of Gateways once more.
fn look_at_wide(wide: &mut BTreeMap<NsName, WideState>, translator: &Translator, now: Instant) {
    let engine = translator.engine();
    for (listener, _) in engine.rows::<OfferedWide>() {
        wide.entry(listener.gateway.clone()).or_default().listeners.entry(listener).or_insert(now);
    }
    for (id, encoded) in engine.rows::<Outputs>() {
        if let OutputId::Listener(gateway, ..) = &id {
            let messages = &mut wide.entry(gateway.clone()).or_default().messages;
            messages.entry(id.resource().name).or_insert_with(|| ((*encoded).clone(), now));
        }
    }
}

/// Has listeners be offered again that were refused. Whether there are any.
fn readmit(translator: &mut Translator) -> bool {
    let refused = translator.engine().rows::<RefusedListener>();
    let engine = translator.engine_mut();
    refused.into_iter().fold(false, |wrote, (key, _)| engine.set::<RefusedListener>(key, None) | wrote)
}

/// Clears and refuses parts. Whether anything was written, and whether a part is refused from now on or no longer.
fn judge_parts(
    parts: &mut BTreeMap<PartId, Instant>,
    refused: &mut BTreeSet<PartId>,
    translator: &mut Translator,
    asking: &mut Asking<'_>,
) -> (bool, bool) {
    let engine = translator.engine_mut();
    let (mut wrote, mut turned) = (false, false);
    parts.retain(|id, since| {
        let offered = engine.get::<OfferedPart>(id);
        // What was cleared stays for as long as it is asked for.
        let content = offered.as_deref().and_then(|Offered(content)| content.as_ref());
        let verdict = content.map_or(Verdict::Fine, |part| asking.about(sent_part(id, part), *since));
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
                turned = true;
            }
        } else {
            wrote |= engine.set::<ClearedPart>(id.clone(), None);
            if refused.insert(id.clone()) {
                engine.demand::<OfferedPart>(id.clone());
                turned = true;
            }
        }
        let words = words.map(|words| RefusedPartWords { object: object_of(id), words });
        wrote |= engine.set::<RefusedPart>(id.clone(), words);
        matches!(verdict, Verdict::NotJudged)
    });
    (wrote, turned)
}

/// What becomes of what a listener and its Gateway say: whether it waits, and why its scopes are closed.
fn judge_listener(
    listener: &ListenerId,
    wide: &Wide,
    since: Instant,
    parts: &BTreeMap<PartId, Instant>,
    engine: &engine::Engine,
    asking: &mut Asking<'_>,
) -> (Turn, BTreeMap<Target, Option<Arc<str>>>) {
    let gateway = &listener.gateway;
    let mut refused = BTreeMap::from([(whole(gateway), None), (section(listener), None)]);
    let mut turn = Turn::Done;
    for scope in &wide.scopes {
        let names = scope.parts.iter().filter_map(|part| match part {
            PartId::Cluster(cluster) => Some(Arc::from(cluster.name())),
            PartId::Entry(_) => None,
        });
        let object = gateway.clone().id(ObjectKind::Gateway);
        let head = of_message(Kind::RouteConfiguration, &scope.head, object, names.collect());
        let words = match asking.about(head, since) {
            Verdict::Fine => None,
            Verdict::Refused(words, _) => Some(words),
            Verdict::Waits => {
                turn = Turn::Waits;
                None
            }
            Verdict::NotJudged => {
                turn = turn.max(Turn::Wordless);
                Some(NOT_JUDGED.into())
            }
        };
        // Without what it asks and refers to, what it says would not hold: requests would pass.
        let told = scope
            .parts
            .iter()
            .find_map(|part| engine.get::<RefusedPart>(part))
            .map(|words| words.told(&gateway.namespace));
        let words = words.or(told.map(Into::into));
        let is_waiting = |part: &PartId| parts.contains_key(part) && engine.get::<RefusedPart>(part).is_none();
        if scope.parts.iter().any(is_waiting) {
            turn = Turn::Waits;
        }
        if words.is_some() {
            refused.insert(scope.target.clone(), words);
        }
    }
    (turn, refused)
}

/// What becomes of something of a Gateway.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Done,
    /// It is closed, and asked about still.
    Wordless,
    Waits,
}

fn judge_wide(
    wide: &mut BTreeMap<NsName, WideState>,
    parts: &BTreeMap<PartId, Instant>,
    wordless: &mut Wordless,
    translator: &mut Translator,
    asking: &mut Asking<'_>,
) -> bool {
    let mut wrote = false;
    let mut refused: BTreeMap<Target, Option<Arc<str>>> = BTreeMap::new();
    let mut take_in = |all: BTreeMap<Target, Option<Arc<str>>>| {
        for (target, words) in all {
            let known = refused.entry(target).or_default();
            *known = known.take().or(words);
        }
    };
    let engine = translator.engine_mut();
    wordless.listeners.retain(|listener| {
        let Some(wide) = engine.get::<OfferedWide>(listener) else { return false };
        let (turn, words) = judge_listener(listener, &wide, asking.now, parts, engine, asking);
        if turn == Turn::Done {
            take_in(words);
        }
        turn != Turn::Done
    });
    wordless.messages.retain(|key, encoded| {
        let object = key.0.clone().id(ObjectKind::Gateway);
        let verdict = asking.about(of_message(Kind::Listener, encoded, object, Arc::default()), asking.now);
        if matches!(verdict, Verdict::Fine) {
            wrote |= engine.set::<RefusedListener>(key.clone(), None);
        }
        matches!(verdict, Verdict::Waits | Verdict::NotJudged)
    });
    for (gateway, state) in wide {
        let object = || gateway.clone().id(ObjectKind::Gateway);
        state.listeners.retain(|listener, since| {
            wordless.listeners.remove(listener);
            let Some(wide) = engine.get::<OfferedWide>(listener) else { return false };
            let (turn, words) = judge_listener(listener, &wide, *since, parts, engine, asking);
            take_in(words);
            if turn == Turn::Wordless {
                wordless.listeners.insert(listener.clone());
            }
            turn == Turn::Waits
        });
        state.messages.retain(|name, (encoded, since)| {
            let key = (gateway.clone(), name.clone());
            wordless.messages.remove(&key);
            let sinks = sinks(engine, gateway, name);
            let missing = sinks.iter().find(|part| engine.get::<RefusedPart>(*part).is_some()).map(object_of);
            let verdict = match missing {
                Some(object) => Verdict::Refused(format!("it needs {object}, which is refused").into(), true),
                None => asking.about(of_message(Kind::Listener, encoded, object(), Arc::default()), *since),
            };
            let refused = match verdict {
                Verdict::Waits => return true,
                Verdict::Fine => None,
                Verdict::Refused(words, _) => Some((encoded.version, words)),
                Verdict::NotJudged => {
                    wordless.messages.insert(key.clone(), encoded.clone());
                    Some((encoded.version, NOT_JUDGED.into()))
                }
            };
            let is_refused = refused.is_some();
            wrote |= engine.set::<RefusedListener>(key, refused);
            let is_waiting = |part: &PartId| parts.contains_key(part) && engine.get::<RefusedPart>(part).is_none();
            !is_refused && sinks.iter().any(is_waiting)
        });
    }
    for (target, words) in refused {
        wrote |= engine.set::<RefusedWide>(target, words);
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
