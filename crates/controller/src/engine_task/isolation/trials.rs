//! Who is to blame for a route configuration that a proxy refused, by what that proxy takes.
//!
//! The proxy is sent what it goes on with, and beside it suspects where no request meets them ([`envoy::judged::trial`]): all of
//! them, then by halves, as an Envoy that judges is. Whatever it answers, its requests meet what they met before, and another one
//! takes what it refuses of the suspects for nothing less than they are: it changes nothing at the proxy.
//!
//! One proxy of a Gateway is asked at a time, and the others that refuse the same only if it goes. What it says of a route counts
//! unless another proxy of its version takes the same: those of its Gateway that are about to say so are waited for.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::{Duration, Instant},
};

use envoy::{
    bytes::Hash,
    judged::{Fragment, row_hashes, trial},
};
use ir::NsName;
use judge::{Build, Found, How, Refusal, Search, batches, one_line};
use translate::{Translator, inspect::Sent};
use xds::{Answer, EnvoyVersion, Event, Hub, Resource, ResourceType, Trial, Version};

use super::{
    refused::{Isolated, Outcome, Refused, recorded},
    streams::Streams,
};

/// How often a proxy is asked at most about one version, and how long.
const MOST: u32 = 32;
const TIME: Duration = Duration::from_secs(30);
/// How much waits at most of one Gateway.
const WAITING: usize = 64;
/// How many proxies are remembered that refuse the same.
const REFUSERS: usize = 8;
/// How verdicts that were found so say it.
const HOW: &str = "nack";

const KIND: ResourceType = ResourceType::RouteConfiguration;

/// A route configuration of a Gateway.
type Config = (NsName, String);

/// The trials of all Gateways.
pub(super) struct Trials {
    hub: Hub,
    streams: Streams,
    /// Who refuses which version of a route configuration that is looked at, or waits for that.
    refusers: HashMap<Config, (Version, VecDeque<Refuser>)>,
    waiting: HashMap<NsName, VecDeque<Waiting>>,
    running: HashMap<NsName, Running>,
    number: u64,
    /// Those of which all is known that will be.
    over: Vec<Running>,
    /// Streams whose trials are over.
    released: Vec<u64>,
}

/// A proxy that refuses something.
#[derive(Debug)]
struct Refuser {
    stream: u64,
    /// What it goes on with.
    before: Option<Resource>,
}

/// A version that is to be looked at.
struct Waiting {
    refused: Refused,
    /// What came of asking others.
    otherwise: Outcome,
}

/// A version that is looked at.
struct Running {
    of: Waiting,
    refuser: Refuser,
    envoy: EnvoyVersion,
    suspects: Vec<Sent>,
    search: Search,
    /// The number of the trial that is to be answered.
    asked: Option<u64>,
    left: u32,
    until: Instant,
}

impl Trials {
    pub(super) fn new(hub: Hub) -> Self {
        Self {
            hub,
            streams: Streams::default(),
            refusers: HashMap::new(),
            waiting: HashMap::new(),
            running: HashMap::new(),
            number: 0,
            over: Vec::new(),
            released: Vec::new(),
        }
    }

    /// A proxy refuses a version of a route configuration: of one that is not looked at, if `is_new`.
    pub(super) fn refuses(
        &mut self,
        of: Config,
        version: Version,
        stream: u64,
        before: Option<Resource>,
        is_new: bool,
    ) {
        let refuser = Refuser { stream, before };
        match self.refusers.get_mut(&of) {
            Some((same, others)) if *same == version => {
                others.retain(|other| other.stream != stream);
                if others.len() < REFUSERS {
                    others.push_back(refuser);
                }
            }
            _ if is_new => _ = self.refusers.insert(of, (version, [refuser].into())),
            _ => {}
        }
    }

    /// Nobody looks at a version any more.
    pub(super) fn forget(&mut self, refused: &Refused) {
        let Some((name, version)) = refused.routes() else { return };
        let of = (refused.gateway.clone(), name.to_owned());
        if self.refusers.get(&of).is_some_and(|(other, _)| *other == version) {
            self.refusers.remove(&of);
        }
    }

    /// Has a version be looked at, of which `otherwise` came so far. Gives it back where too much waits.
    pub(super) fn add(&mut self, refused: Refused, otherwise: Outcome) -> Option<Isolated> {
        let waiting = self.waiting.entry(refused.gateway.clone()).or_default();
        if waiting.len() >= WAITING {
            return Some(Isolated::new(refused, otherwise));
        }
        waiting.push_back(Waiting { refused, otherwise });
        None
    }

    /// Takes note of what proxies report.
    pub(super) fn take(&mut self, event: &Event) {
        self.streams.take(event, &self.hub);
        match event {
            Event::Tried { stream, number, answer, .. } => {
                let is_asked = |running: &Running| running.refuser.stream == *stream && running.asked == Some(*number);
                let of = self.running.iter().find(|(_, running)| is_asked(running)).map(|(gateway, _)| gateway.clone());
                let Some(mut running) = of.and_then(|gateway| self.running.remove(&gateway)) else { return };
                running.asked = None;
                match answer {
                    Answer::Taken => running.search.answer(judge::Outcome::Accepted),
                    Answer::Rejected(words) => running.search.answer(judge::Outcome::Refused(one_line(words))),
                    Answer::Ended => return self.abandon(running),
                }
                self.ask(running);
            }
            Event::Disconnected { stream, .. } => {
                let of = self.running.iter().find(|(_, running)| running.refuser.stream == *stream);
                let gateway = of.map(|(gateway, _)| gateway.clone());
                if let Some(running) = gateway.and_then(|gateway| self.running.remove(&gateway)) {
                    self.abandon(running);
                }
                for (_, refusers) in self.refusers.values_mut() {
                    refusers.retain(|refuser| refuser.stream != *stream);
                }
            }
            _ => {}
        }
    }

    /// The proxy says nothing more: another one that refuses the same is asked.
    fn abandon(&mut self, running: Running) {
        self.released.push(running.refuser.stream);
        let Running { of: Waiting { refused, otherwise }, left, .. } = running;
        // It has not answered what it was asked last.
        let otherwise = if left + 1 >= MOST { otherwise } else { Outcome::Unfinished };
        self.waiting.entry(refused.gateway.clone()).or_default().push_front(Waiting { refused, otherwise });
    }

    /// Asks what is to be asked next, if anything is.
    fn ask(&mut self, mut running: Running) {
        let question = running.search.question().filter(|_| running.left > 0 && Instant::now() < running.until);
        let (Some(range), Some((name, rejected))) = (question, running.of.refused.routes()) else {
            self.over.push(running);
            return;
        };
        let rows: Vec<_> = running.suspects[range].iter().map(|sent| &sent.fragment).collect();
        let before = running.refuser.before.as_ref();
        let of_before = before.map(|before| (before.content_version().into(), before.body()));
        let (version, pieces) = trial(name, of_before, &rows);
        self.number += 1;
        let trial = Trial {
            number: self.number,
            rejected,
            before: before.map(Resource::content_version),
            resource: Resource::in_pieces(KIND, name, version, pieces),
        };
        running.left -= 1;
        running.asked = Some(self.number);
        self.hub.try_out(running.refuser.stream, Some(trial));
        self.running.insert(running.of.refused.gateway.clone(), running);
    }

    /// Whether a proxy is waited for. No wait is longer than [`TIME`], but for the time until somebody looks.
    pub(super) fn is_waiting(&self) -> bool {
        !self.running.is_empty() || !self.over.is_empty()
    }

    /// Gives what came of what is over; where nothing is, begins with what waits, for each Gateway that has nothing under way. To be
    /// called until it gives nothing. Looks at all routes of a Gateway where something begins, and of those whose proxies have a say
    /// where something was found.
    pub(super) fn look(&mut self, translator: &Translator) -> Vec<Isolated> {
        let now = Instant::now();
        let late: Vec<_> = self.running.extract_if(|_, running| now >= running.until).collect();
        for (_, running) in late {
            self.abandon(running);
        }
        let (over, awaited): (Vec<_>, _) =
            std::mem::take(&mut self.over).into_iter().partition(|running| self.is_decided(running));
        self.over = awaited;
        if !over.is_empty() {
            self.released.extend(over.iter().map(|running| running.refuser.stream));
            return over.into_iter().map(|running| self.end(running, translator)).collect();
        }
        let mut isolated = Vec::new();
        let busy = self.running.values().chain(&self.over).map(|running| running.of.refused.gateway.clone());
        let busy: HashSet<_> = busy.collect();
        let gateways: Vec<_> = self.waiting.keys().filter(|gateway| !busy.contains(gateway)).cloned().collect();
        for gateway in gateways {
            let Some(next) = self.waiting.get_mut(&gateway).and_then(VecDeque::pop_front) else { continue };
            isolated.extend(self.begin(next, translator));
        }
        self.waiting.retain(|_, waiting| !waiting.is_empty());
        if isolated.is_empty() && !self.over.is_empty() && self.over.iter().any(|running| self.is_decided(running)) {
            return self.look(translator);
        }
        isolated
    }

    /// Whether nobody is waited for who may take what was found to be to blame.
    fn is_decided(&self, running: &Running) -> bool {
        Instant::now() >= running.until || !self.is_open(running) || self.is_overtaken(running)
    }

    /// Whether others may still say that they take what was found to be to blame.
    fn is_open(&self, Running { of: Waiting { refused, .. }, envoy, search, .. }: &Running) -> bool {
        let is_blaming = search.found().iter().any(|found| matches!(found, Found::ToBlame(_)));
        let routes = refused.routes().filter(|_| is_blaming);
        routes.is_some_and(|(name, version)| self.streams.are_undecided(&refused.gateway, name, version, *envoy))
    }

    /// Whether proxies shall have something newer.
    fn is_overtaken(&self, Running { of: Waiting { refused, .. }, .. }: &Running) -> bool {
        refused.routes().is_none_or(|(name, version)| self.published(&refused.gateway, name) != Some(version))
    }

    /// Has proxies whose trials are over go back to what they had, unless something newer came of it.
    pub(super) fn release(&mut self) {
        let busy = self.running.values().chain(&self.over).map(|running| running.refuser.stream);
        let busy: HashSet<_> = busy.collect();
        for stream in std::mem::take(&mut self.released) {
            if !busy.contains(&stream) {
                self.hub.try_out(stream, None);
            }
        }
    }

    /// Begins with a version, or gives what came of it where nobody can be asked about it.
    fn begin(&mut self, Waiting { refused, otherwise }: Waiting, translator: &Translator) -> Option<Isolated> {
        let over = |refused, outcome| Some(Isolated::new(refused, outcome));
        let Some((name, version)) = refused.routes() else { return over(refused, otherwise) };
        let shall_have = self.published(&refused.gateway, name);
        if shall_have != Some(version) {
            return over(refused, Outcome::Overtaken);
        }
        let of_version = self.refusers.get_mut(&(refused.gateway.clone(), name.to_owned()));
        let mut refusers = of_version.filter(|(same, _)| *same == version).map(|(_, refusers)| refusers);
        while let Some(refuser) = refusers.as_mut().and_then(|refusers| refusers.pop_front()) {
            let Some(envoy) = self.streams.envoy(refuser.stream) else { continue };
            if self.is_taken(&refused, envoy) {
                return over(refused, Outcome::Contradicted);
            }
            let before = refuser.before.as_ref().map(|before| row_hashes(&before.body().concat())).unwrap_or_default();
            let mut seen = HashSet::new();
            let mut suspects = translator.inspect().rows_of(&refused.gateway, name);
            suspects.retain(|Sent { fragment, .. }| {
                // What waits for a cluster that the proxy does not take is not to blame for that.
                let has_all = self.streams.has_clusters(refuser.stream, &fragment.asks);
                has_all && !before.contains(&fragment.hash) && seen.insert(fragment.hash)
            });
            let fragments: Vec<&Fragment> = suspects.iter().map(|sent| &sent.fragment).collect();
            let search = Search::in_batches(suspects.len(), batches(&fragments));
            let until = Instant::now() + TIME;
            let of = Waiting { refused, otherwise };
            self.ask(Running { of, refuser, envoy, suspects, search, asked: None, left: MOST, until });
            return None;
        }
        over(refused, otherwise)
    }

    /// The version of a route configuration that proxies shall have.
    fn published(&self, gateway: &NsName, name: &str) -> Option<Version> {
        self.hub.snapshot(&gateway.to_string())?.get(KIND, name).map(Resource::content_version)
    }

    /// Whether a proxy of this Envoy took the whole of what another one refused. It may be older by now than what proxies shall have.
    fn is_taken(&self, refused: &Refused, envoy: EnvoyVersion) -> bool {
        let taken_by_any = |(name, version)| self.streams.are_taken(&refused.gateway, name, version, envoy);
        refused.routes().is_some_and(taken_by_any)
    }

    fn end(&self, running: Running, translator: &Translator) -> Isolated {
        if self.is_taken(&running.of.refused, running.envoy) {
            return Isolated::new(running.of.refused, Outcome::Contradicted);
        }
        // Nobody will say any more whether he takes it; who refuses the newer one is asked about that.
        if self.is_open(&running) && self.is_overtaken(&running) {
            return Isolated::new(running.of.refused, Outcome::Overtaken);
        }
        let Running { of: Waiting { refused, .. }, envoy, suspects, search, .. } = running;
        let is_unfinished = search.found().iter().any(|found| matches!(found, Found::Unknown(_)));
        let blamed = suspects.iter().zip(search.found()).filter_map(|(sent, found)| match found {
            Found::ToBlame(judge::Outcome::Refused(words)) => Some((sent, words.clone())),
            _ => None,
        });
        let mut blamed: Vec<_> = blamed.collect();
        let innocent = if blamed.is_empty() { HashSet::new() } else { self.innocent(envoy, translator) };
        let was_blamed = !blamed.is_empty();
        blamed.retain(|(sent, _)| !innocent.contains(&sent.fragment.hash));
        let build = Build::numbered(envoy);
        let found = blamed.into_iter().map(|(sent, words)| {
            recorded(&refused, sent, &Refusal { build: build.clone(), how: How::Words(words) }, HOW)
        });
        let found: Vec<_> = found.collect();
        let outcome = match (found.is_empty(), was_blamed, is_unfinished) {
            (false, ..) => Outcome::Found,
            (true, true, _) => Outcome::Contradicted,
            (true, false, true) => Outcome::Unfinished,
            (true, false, false) => Outcome::Innocent,
        };
        Isolated { refused, outcome, found }
    }

    /// The routes that proxies of this version took, of what they shall have now.
    fn innocent(&self, envoy: EnvoyVersion, translator: &Translator) -> HashSet<Hash> {
        let taken = self.streams.taken(envoy).into_iter();
        let taken = taken.filter(|(gateway, name, version)| self.published(gateway, name) == Some(*version));
        let rows = taken.flat_map(|(gateway, name, _)| translator.inspect().rows_of(&gateway, &name));
        rows.map(|sent| sent.fragment.hash).collect()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use xds::Snapshot;

    use super::*;
    use crate::testing::{Memory, world};

    const GATEWAY: &str = "web/edge";
    const NAME: &str = "http/8080";
    const ENVOY: Option<EnvoyVersion> = Some(EnvoyVersion { major: 1, minor: 40, patch: 0 });
    const HONEST: u64 = 1;
    const LIAR: u64 = 2;

    fn routes(version: u8) -> Resource {
        Resource::new(KIND, NAME, [version; 16], Bytes::new())
    }

    fn connected(stream: u64) -> Event {
        Event::Connected { gateway: GATEWAY.into(), node_id: String::new(), envoy: ENVOY, stream }
    }

    fn acked(stream: u64, version: u8) -> Event {
        let versions = vec![(NAME.into(), routes(version).content_version())];
        Event::Acked { gateway: GATEWAY.into(), stream, kind: KIND, versions }
    }

    fn nacked(stream: u64, version: u8) -> Event {
        let (names, versions) = (vec![NAME.to_owned()], vec![routes(version).content_version()]);
        let (acknowledged, message) = (vec![Some(routes(1))], "no".to_owned());
        let gateway = GATEWAY.to_owned();
        Event::Nacked { gateway, stream, kind: KIND, names, versions, acknowledged, envoy: ENVOY, message }
    }

    fn tried(number: u64, answer: Answer) -> Event {
        Event::Tried { gateway: GATEWAY.into(), stream: LIAR, number, answer }
    }

    #[test]
    fn who_blames_what_another_one_took_is_not_believed_when_something_newer_came_at_once() {
        let mut translator = Translator::new(ir::Settings::default());
        for change in Memory::default().write("world.yaml", &world(8080)).changes {
            translator.apply(change);
        }
        translator.settle();
        let hub = Hub::new();
        let publish = |version| hub.publish(GATEWAY, Snapshot::new().with(routes(version)));
        let mut trials = Trials::new(hub.clone());
        publish(1);
        for event in [connected(HONEST), connected(LIAR), acked(HONEST, 1), acked(LIAR, 1)] {
            trials.take(&event);
        }
        publish(2);
        trials.take(&nacked(LIAR, 2));
        let version = routes(2).content_version();
        let of = (NsName::new("web", "edge"), NAME.to_owned());
        trials.refuses(of.clone(), version, LIAR, Some(routes(1)), true);
        let names = vec![(of.1, version)];
        let refused =
            Refused { gateway: of.0, kind: KIND, names, before: Some(routes(1)), envoy: ENVOY, since: Instant::now() };
        assert!(trials.add(refused, Outcome::Unjudged).is_none());
        assert!(trials.look(&translator).is_empty());
        // The route alone, and no route at all.
        trials.take(&tried(1, Answer::Rejected("no".into())));
        trials.take(&tried(2, Answer::Taken));
        assert!(trials.look(&translator).is_empty(), "the other one has still to say whether it takes it");
        trials.take(&acked(HONEST, 2));
        publish(3);
        let isolated = trials.look(&translator);
        assert!(matches!(&isolated[..], [Isolated { outcome: Outcome::Contradicted, .. }]), "{isolated:?}");
    }
}
