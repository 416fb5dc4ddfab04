//! A model of an Envoy that lags, rejects, reconnects and changes its mind, against a world that changes at random.
//!
//! The model warms clusters as Envoy does: it withholds the answer to clusters until all of them have endpoints. It
//! rejects what is marked with `!`, and accepts the rest of such a response, as Envoy does for clusters and listeners;
//! or, where it is strict, rejects such a response as a whole, as Envoy does when it cannot read a message.

mod world;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ResourceType::{Cluster, Endpoints, ExtensionConfig, Listener, RouteConfiguration, Secret};
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use world::{World, hash, is_bad, uses, world};

/// What a trial has at its end, with its number.
const TRIAL: &str = "trial";

/// A response as the client reads it.
struct SentResponse {
    kind: ResourceType,
    nonce: String,
    resources: Vec<(String, String)>,
    removed: Vec<String>,
}

enum Request {
    Delta(DeltaRequest),
    Sotw(SotwRequest),
}

/// The model. It checks each response as it comes.
struct Envoy {
    protocol: Protocol,
    strict: bool,
    /// Names of responses that were rejected as a whole, which are sent again only when they change.
    refused: BTreeSet<(ResourceType, String)>,
    stream: Stream,
    now: Instant,
    /// What it has accepted.
    held: BTreeMap<(ResourceType, String), String>,
    /// What it has subscribed to by name, and the types it asked for at all, on this stream.
    names: BTreeMap<ResourceType, BTreeSet<String>>,
    asked: BTreeSet<ResourceType>,
    nonces: BTreeMap<ResourceType, String>,
    to_server: VecDeque<Request>,
    to_client: VecDeque<SentResponse>,
    /// Clusters that wait for endpoints, those that are in use, and the answers that wait for the former.
    warming: BTreeSet<String>,
    warm: BTreeSet<String>,
    withheld: Vec<(String, Option<String>)>,
    /// Bodies it rejected on this stream, and was not asked for again since.
    rejected: BTreeSet<(ResourceType, String)>,
    rejected_clusters: BTreeSet<String>,
    /// What stood in one response with something that it rejected.
    companies: Vec<(ResourceType, BTreeSet<String>)>,
    /// Listeners and routes of responses that it rejected: the server cannot know which of them it kept.
    doubtful: BTreeSet<(ResourceType, String)>,
    secrets: BTreeSet<String>,
    /// Routes that it had when it reconnected: what they refer to is not known.
    from_before: BTreeSet<String>,
    /// A gate has expired, so that order is not promised any more.
    loose: bool,
    responses: usize,
    /// How many trials there were, and of which routes on this stream.
    trials: u64,
    tried: BTreeSet<String>,
}

impl Envoy {
    fn new(protocol: Protocol, strict: bool) -> Self {
        let mut envoy = Self {
            protocol,
            strict,
            refused: BTreeSet::new(),
            stream: Stream::new(protocol, node(), settings()),
            now: Instant::now(),
            held: BTreeMap::new(),
            names: BTreeMap::new(),
            asked: BTreeSet::new(),
            nonces: BTreeMap::new(),
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            warming: BTreeSet::new(),
            warm: BTreeSet::new(),
            withheld: Vec::new(),
            rejected: BTreeSet::new(),
            rejected_clusters: BTreeSet::new(),
            companies: Vec::new(),
            doubtful: BTreeSet::new(),
            secrets: BTreeSet::new(),
            from_before: BTreeSet::new(),
            loose: false,
            responses: 0,
            trials: 0,
            tried: BTreeSet::new(),
        };
        envoy.send(Cluster, &[], &[], None);
        envoy
    }

    fn reconnect(&mut self, snapshot: &Snapshot) {
        self.stream = Stream::new(self.protocol, node(), settings());
        self.stream.on_snapshot(snapshot.clone());
        self.to_server.clear();
        self.to_client.clear();
        self.nonces.clear();
        self.withheld.clear();
        self.rejected.clear();
        self.companies.clear();
        self.refused.clear();
        self.doubtful.clear();
        self.tried.clear();
        self.from_before = self.held_names(RouteConfiguration).collect();
        // A state-of-the-world client does not say what it has, so what it needs until it has its routes is unknown.
        self.loose |= self.protocol == Protocol::Sotw;
        // What was withheld is lost, so the server cannot know that these are not in use yet.
        self.warm.extend(std::mem::take(&mut self.warming));
        // As Envoy does: clusters first.
        let asked = std::mem::take(&mut self.asked);
        let (first, others): (Vec<_>, Vec<_>) = asked.into_iter().partition(|kind| *kind == Cluster);
        for kind in first.into_iter().chain(others) {
            let names: Vec<_> = self.names.get(&kind).into_iter().flatten().cloned().collect();
            self.send(kind, &names, &[], None);
        }
    }

    /// Has it be asked about routes that it rejected, by a version that says what it goes on with, and which it may reject too.
    fn try_out(&mut self, which: Index, bad: bool) {
        let rejected = &self.stream.types[RouteConfiguration.index()].rejected;
        let known = rejected
            .iter()
            .filter_map(|(name, (version, _))| Some((*version, self.stream.acknowledged.get(name)?.clone())));
        let known: Vec<_> = known.collect();
        if known.is_empty() {
            return;
        }
        let (rejected, has) = which.get(&known).clone();
        self.trials += 1;
        let says = String::from_utf8(has.body().concat()).unwrap();
        let body = format!("{says} {TRIAL}{}{}", self.trials, if bad { " !" } else { "" });
        let version = hash(RouteConfiguration, &body);
        let resource = Resource::new(RouteConfiguration, has.name(), version, Bytes::from(body));
        let trial = Trial { number: self.trials, rejected, before: Some(has.content_version()), resource };
        self.tried.insert(has.name().to_owned());
        self.stream.on_trial(Some(trial));
    }

    /// Whether a body is a trial, or what it goes on with when trials end.
    fn is_trial(&self, kind: ResourceType, name: &str, body: &str) -> bool {
        let has = self.held.get(&(kind, name.to_owned()));
        let is_back = has.is_some_and(|has| has.split(&format!(" {TRIAL}")).next() == Some(body));
        kind == RouteConfiguration && (body.contains(TRIAL) || is_back && self.tried.contains(name))
    }

    /// Sends a request. `answer`: the nonce that is answered, and the error.
    fn send(
        &mut self,
        kind: ResourceType,
        subscribe: &[String],
        unsubscribe: &[String],
        answer: Option<(String, Option<String>)>,
    ) {
        let first = self.asked.insert(kind);
        // What is sent while a response is processed still has the nonce of the one before.
        if let Some((nonce, _)) = &answer {
            self.nonces.insert(kind, nonce.clone());
        }
        let type_url = kind.type_url().to_owned();
        for name in subscribe {
            self.rejected.retain(|(k, body)| (*k, body.split(' ').next()) != (kind, Some(name)));
        }
        let request = match self.protocol {
            Protocol::Delta => {
                let (nonce, error) = answer.unwrap_or_default();
                let initial = self.held.iter().filter(|((k, _), _)| first && *k == kind);
                Request::Delta(DeltaRequest {
                    type_url,
                    subscribe: subscribe.to_vec(),
                    unsubscribe: unsubscribe.to_vec(),
                    initial_versions: initial
                        .map(|((_, name), body)| (name.clone(), Version::from(hash(kind, body)).to_string()))
                        .collect(),
                    nonce,
                    error,
                    ..DeltaRequest::default()
                })
            }
            Protocol::Sotw => Request::Sotw(SotwRequest {
                type_url,
                names: self.names.get(&kind).into_iter().flatten().cloned().collect(),
                nonce: self.nonces.get(&kind).cloned().unwrap_or_default(),
                error: answer.and_then(|(_, error)| error),
                ..SotwRequest::default()
            }),
        };
        self.to_server.push_back(request);
    }

    /// The server reads the next request.
    fn deliver_request(&mut self) -> bool {
        match self.to_server.pop_front() {
            Some(Request::Delta(request)) => self.stream.on_delta(request).unwrap(),
            Some(Request::Sotw(request)) => self.stream.on_sotw(request).unwrap(),
            None => return false,
        }
        true
    }

    /// The server sends the next response.
    fn respond(&mut self) -> bool {
        let response = self.stream.next_response(self.now);
        let expired = |observation| matches!(observation, Observation::GateExpired(_));
        self.loose |= self.stream.take_observations().into_iter().any(expired);
        let Some(response) = response else { return false };
        self.responses += 1;
        let message = response.frames.concat().split_off(5);
        let text = |any: envoy_types::pb::google::protobuf::Any| match response.kind {
            ExtensionConfig => {
                let (name, entries) = extensions::decode(&any.value);
                format!("{name} 0 {}", entries.into_keys().collect::<Vec<_>>().join(","))
            }
            _ => String::from_utf8(any.value).unwrap(),
        };
        let (resources, removed): (Vec<String>, _) = match self.protocol {
            Protocol::Delta => {
                let message = discovery::DeltaDiscoveryResponse::decode(&message[..]).unwrap();
                (message.resources.into_iter().map(|r| text(r.resource.unwrap())).collect(), message.removed_resources)
            }
            Protocol::Sotw => {
                let message = discovery::DiscoveryResponse::decode(&message[..]).unwrap();
                (message.resources.into_iter().map(text).collect(), Vec::new())
            }
        };
        let named = |body: String| (body.split(' ').next().unwrap().to_owned(), body);
        let resources: Vec<_> = resources.into_iter().map(named).collect();
        let mut names: Vec<_> = resources.iter().map(|(name, _)| name).chain(&removed).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "a name stands twice in one response");
        self.to_client.push_back(SentResponse { kind: response.kind, nonce: response.nonce, resources, removed });
        true
    }

    /// The client reads the next response.
    fn deliver_response(&mut self) -> bool {
        let Some(sent_response) = self.to_client.pop_front() else { return false };
        let SentResponse { kind, nonce, resources, removed } = sent_response;
        let complete_set = self.protocol == Protocol::Sotw && matches!(kind, Cluster | Listener);
        let mut error = None;
        let mut accepted = Vec::new();
        let whole = self.strict && resources.iter().any(|(_, body)| is_bad(body));
        // What it takes of trials says nothing of what it rejected.
        let is_trial = resources.iter().any(|(name, body)| self.is_trial(kind, name, body));
        for (name, body) in &resources {
            // What was rejected may come again once something else came in between.
            self.rejected.retain(|(k, other)| *k != kind || other == body || other.split(' ').next() != Some(name));
            // Routes that were rejected together are sent once more, one by one.
            let is_apart = kind == RouteConfiguration && resources.len() > 1;
            if is_bad(body) {
                let rejected = (kind, body.clone());
                let again = if is_apart { self.rejected.contains(&rejected) } else { !self.rejected.insert(rejected) };
                assert!(!again || complete_set, "{body} was rejected and is sent again");
                error = Some(format!("{body} is bad"));
                if kind == Cluster {
                    self.rejected_clusters.insert(name.clone());
                }
            } else if whole {
                if kind != RouteConfiguration {
                    self.refused.insert((kind, name.clone()));
                }
                if kind == Cluster {
                    self.rejected_clusters.insert(name.clone());
                }
            } else if matches!(kind, Cluster | Listener) || self.names[&kind].contains(name) {
                self.held.insert((kind, name.clone()), body.clone());
                if kind == RouteConfiguration && !is_trial {
                    self.from_before.remove(name);
                }
                if !is_trial {
                    self.refused.remove(&(kind, name.clone()));
                }
                accepted.push(name.clone());
            }
        }
        let mut gone = removed;
        if complete_set {
            let stays: BTreeSet<_> = resources.iter().map(|(name, _)| name).collect();
            gone.extend(self.held_names(kind).filter(|name| !stays.contains(name)).collect::<Vec<_>>());
        }
        if whole {
            gone.clear();
        }
        for name in &gone {
            self.held.remove(&(kind, name.clone()));
            self.refused.remove(&(kind, name.clone()));
            self.rejected.retain(|(k, body)| (*k, body.split(' ').next()) != (kind, Some(name)));
        }
        let names: BTreeSet<_> = resources.iter().map(|(name, _)| name).chain(&gone).cloned().collect();
        if error.is_some() && kind == RouteConfiguration {
            // Each comes again by itself.
        } else if error.is_some() {
            self.companies.push((kind, names));
        } else {
            // Once one of those that came together is taken or gone, the others come again.
            let is_over =
                |(of, company): &mut (ResourceType, BTreeSet<String>)| *of == kind && !company.is_disjoint(&names);
            for (_, company) in self.companies.extract_if(.., is_over) {
                self.rejected.retain(|(of, body)| *of != kind || !company.contains(body.split(' ').next().unwrap()));
            }
        }
        for name in resources.iter().map(|(name, _)| name).chain(&gone) {
            let doubtful = error.is_some() && matches!(kind, Listener | RouteConfiguration);
            let name = (kind, name.clone());
            if doubtful {
                self.doubtful.insert(name);
            } else if !is_trial {
                self.doubtful.remove(&name);
            }
        }
        match kind {
            Cluster => {
                self.warming.extend(accepted);
                for name in &gone {
                    self.warming.remove(name);
                    self.warm.remove(name);
                }
                let clusters = self.held_names(Cluster).collect();
                self.resubscribe(Endpoints, clusters);
                self.withheld.push((nonce, error));
            }
            Endpoints => {
                for name in accepted.iter().chain(&gone) {
                    if self.warming.remove(name) {
                        self.warm.insert(name.clone());
                    }
                }
                self.send(kind, &[], &[], Some((nonce, error)));
            }
            Listener | RouteConfiguration => {
                self.resubscribe(ExtensionConfig, ["x".to_owned()].into());
                self.resubscribe_routes();
                self.send(kind, &[], &[], Some((nonce, error)));
            }
            Secret | ExtensionConfig => self.send(kind, &[], &[], Some((nonce, error))),
        }
        self.release();
        self.check_order();
        true
    }

    /// Answers clusters once none is warming. The first answer also starts the listeners.
    fn release(&mut self) {
        if !self.warming.is_empty() {
            return;
        }
        let mut withheld = std::mem::take(&mut self.withheld);
        if self.protocol == Protocol::Sotw {
            // There is one request a type, which is written when it may be sent.
            withheld.drain(..withheld.len().saturating_sub(1));
        }
        for answer in withheld {
            self.send(Cluster, &[], &[], Some(answer));
            if !self.asked.contains(&Listener) {
                self.send(Listener, &[], &[], None);
            }
        }
    }

    fn held_names(&self, kind: ResourceType) -> impl Iterator<Item = String> {
        self.held.keys().filter(move |(k, _)| *k == kind).map(|(_, name)| name.clone())
    }

    /// A listener keeps the routes it had until it has its new ones.
    fn resubscribe_routes(&mut self) {
        let wanted: BTreeSet<_> =
            self.held.iter().filter(|((kind, _), _)| *kind == Listener).flat_map(|(_, body)| uses(body)).collect();
        let waiting = wanted.iter().any(|name| !self.held.contains_key(&(RouteConfiguration, name.clone())));
        let mut names = wanted;
        if waiting {
            names.extend(self.names.get(&RouteConfiguration).into_iter().flatten().cloned());
        }
        self.resubscribe(RouteConfiguration, names);
    }

    fn resubscribe(&mut self, kind: ResourceType, names: BTreeSet<String>) {
        let old = self.names.remove(&kind).unwrap_or_default();
        let subscribe: Vec<_> = names.difference(&old).cloned().collect();
        let unsubscribe: Vec<_> = old.difference(&names).cloned().collect();
        for name in &unsubscribe {
            self.held.remove(&(kind, name.clone()));
            self.doubtful.remove(&(kind, name.clone()));
        }
        self.names.insert(kind, names);
        if !subscribe.is_empty() || !unsubscribe.is_empty() {
            self.send(kind, &subscribe, &unsubscribe, None);
        }
    }

    /// No route that is in use names a cluster or an entry that is not, unless something was rejected or a gate expired.
    fn check_order(&self) {
        if self.loose {
            return;
        }
        for ((_, name), body) in self.held.iter().filter(|((kind, _), _)| *kind == RouteConfiguration) {
            for cluster in uses(body) {
                assert!(
                    self.warm.contains(&cluster) || self.rejected_clusters.contains(&cluster),
                    "route {name} uses {cluster}, which is not in use"
                );
            }
            let Some(extension) = self.held.get(&(ExtensionConfig, "x".into())) else { continue };
            if !self.from_before.contains(name) {
                let entry = format!("{name}-{}", body.split(' ').nth(1).unwrap());
                assert!(uses(extension).contains(&entry), "route {name} refers to {entry}, which is not there");
            }
        }
    }

    /// Lets everything happen until nothing does.
    fn quiesce(&mut self) {
        let before = self.responses;
        loop {
            let mut busy = false;
            while self.deliver_request() | self.respond() | self.deliver_response() {
                busy = true;
                assert!(self.responses < before + 200, "it does not come to rest");
            }
            match self.stream.deadline() {
                Some(deadline) => self.now = self.now.max(deadline),
                None if !busy => return,
                None => {}
            }
        }
    }

    fn check_result(&self, world: &World) {
        let bodies = world.bodies();
        let subscribed = |kind: ResourceType, name: &String| match kind {
            Cluster | Listener => self.asked.contains(&kind),
            _ => self.names.get(&kind).is_some_and(|names| names.contains(name)),
        };
        for ((kind, name), body) in &bodies {
            if !subscribed(*kind, name) {
                continue;
            }
            let held = self.held.get(&(*kind, name.clone()));
            if is_bad(body) {
                assert_ne!(held, Some(body));
            } else if *kind == ExtensionConfig && !self.stream.kept.is_empty() {
                // Of before there is what listeners and routes refer to that it keeps.
                let held: BTreeSet<_> = held.into_iter().flat_map(|held| uses(held)).collect();
                let lacks = uses(body).into_iter().find(|entry| !held.contains(entry));
                assert_eq!(lacks, None, "{kind} {name}");
            } else if !self.refused.contains(&(*kind, name.clone())) {
                assert_eq!(held, Some(body), "{kind} {name}");
            }
        }
        // What may have been kept by rejecting the next keeps its clusters.
        let keeps = !self.doubtful.is_empty();
        for (kind, name) in self.held.keys() {
            let implicit = self.protocol == Protocol::Sotw && !matches!(kind, Cluster | Listener);
            let known = bodies.contains_key(&(*kind, name.clone()));
            assert!(known || keeps || implicit || !subscribed(*kind, name), "{kind} {name} is still there");
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Publish(World),
    /// This many of each, in turn, as far as there are any.
    Requests(u8),
    Respond(u8),
    Responses(u8),
    Reconnect,
    /// Adds or drops a secret.
    Secret(u8),
    /// Subscribes again to an endpoint name it has.
    AskAgain(Index),
    Wait(u8),
    /// Asks about routes that it rejected, by what it rejects too if so.
    Try(Index, bool),
    EndTrials,
    Quiesce,
}

fn steps(protocol: Protocol) -> impl Strategy<Value = Vec<Step>> {
    let complete = protocol == Protocol::Sotw;
    let step = prop_oneof![
        4 => world(complete).prop_map(Step::Publish),
        6 => (1..4_u8).prop_map(Step::Requests),
        6 => (1..4_u8).prop_map(Step::Respond),
        6 => (1..4_u8).prop_map(Step::Responses),
        1 => Just(Step::Reconnect),
        1 => (0..3_u8).prop_map(Step::Secret),
        1 => any::<Index>().prop_map(Step::AskAgain),
        1 => (0..=30_u8).prop_map(Step::Wait),
        3 => (any::<Index>(), any::<bool>()).prop_map(|(which, bad)| Step::Try(which, bad)),
        1 => Just(Step::EndTrials),
        1 => Just(Step::Quiesce),
    ];
    prop::collection::vec(step, 1..80)
}

fn run(protocol: Protocol, strict: bool, first: World, steps: Vec<Step>) {
    let mut envoy = Envoy::new(protocol, strict);
    let mut world = first;
    envoy.stream.on_snapshot(world.snapshot());
    for step in steps {
        match step {
            Step::Publish(next) => {
                world = next;
                envoy.stream.on_snapshot(world.snapshot());
            }
            Step::Requests(n) => {
                for _ in 0..n {
                    envoy.deliver_request();
                }
            }
            Step::Respond(n) => {
                for _ in 0..n {
                    envoy.respond();
                }
            }
            Step::Responses(n) => {
                for _ in 0..n {
                    envoy.deliver_response();
                }
            }
            Step::Reconnect => envoy.reconnect(&world.snapshot()),
            Step::Secret(i) => {
                let name = format!("s{i}");
                if !envoy.secrets.remove(&name) {
                    envoy.secrets.insert(name);
                }
                envoy.resubscribe(Secret, envoy.secrets.clone());
            }
            Step::AskAgain(index) => {
                let names: Vec<_> = envoy.names.get(&Endpoints).into_iter().flatten().cloned().collect();
                if protocol == Protocol::Delta && !names.is_empty() {
                    envoy.send(Endpoints, &[index.get(&names).clone()], &[], None);
                }
            }
            Step::Try(which, bad) => envoy.try_out(which, bad),
            Step::EndTrials => envoy.stream.on_trial(None),
            Step::Wait(tenths) => envoy.now += Duration::from_millis(100) * u32::from(tenths),
            Step::Quiesce => {
                envoy.quiesce();
                envoy.check_result(&world);
            }
        }
    }
    envoy.quiesce();
    envoy.check_result(&world);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_delta_client_always_arrives_and_never_uses_what_it_does_not_have(
        first in world(false), steps in steps(Protocol::Delta)
    ) {
        run(Protocol::Delta, false, first, steps);
    }

    #[test]
    fn a_delta_client_that_rejects_responses_as_a_whole_still_loses_what_is_gone(
        first in world(false), steps in steps(Protocol::Delta)
    ) {
        run(Protocol::Delta, true, first, steps);
    }

    #[test]
    fn a_state_of_the_world_client_always_arrives_and_never_uses_what_it_does_not_have(
        first in world(true), steps in steps(Protocol::Sotw)
    ) {
        run(Protocol::Sotw, false, first, steps);
    }
}
