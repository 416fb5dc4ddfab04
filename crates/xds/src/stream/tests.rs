//! Scripts of messages. Resources are written as the client sees them: `CDS a@1 b@2` is a response of clusters with
//! `a` in version 1 and `b` in version 2, `-c` says that `c` is absent. `ECDS x@ab` is an extension's configuration with the
//! entries `a` and `b`, which is its version.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its own script has failed")]

mod alone;
mod delta;
mod extensions;
mod model;
mod order;
mod outdated;
mod sotw;
mod trials;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use envoy_types::pb::envoy::service::discovery::v3 as discovery;
use prost::Message;

use super::*;
use crate::request::{DeltaRequest, SotwRequest};
use crate::resource::Resource;
use crate::trial::{Answer, Trial};

const GATE: Duration = Duration::from_secs(3);
const PROTOCOLS: [Protocol; 2] = [Protocol::Delta, Protocol::Sotw];

fn kind(abbreviation: &str) -> ResourceType {
    match abbreviation {
        "SDS" => ResourceType::Secret,
        "CDS" => ResourceType::Cluster,
        "EDS" => ResourceType::Endpoints,
        "ECDS" => ResourceType::ExtensionConfig,
        "LDS" => ResourceType::Listener,
        "RDS" => ResourceType::RouteConfiguration,
        other => panic!("no type {other}"),
    }
}

fn abbreviation(kind: ResourceType) -> &'static str {
    ["SDS", "CDS", "EDS", "ECDS", "LDS", "RDS"][kind.index()]
}

/// A resource whose body says what it is.
fn resource(kind: ResourceType, name: &str, version: u8) -> Resource {
    Resource::new(kind, name, [version; 16], Bytes::from(format!("{name}@{version}")))
}

/// Asks about a route configuration in this version, instead of version 2, a client that goes on with `before`.
fn trial(name: &str, number: u64, before: Option<u8>, version: u8) -> Trial {
    let resource = resource(ResourceType::RouteConfiguration, name, version);
    let of = |version: u8| Version::from([version; 16]);
    Trial { number, rejected: of(2), before: before.map(of), resource }
}

/// A request for these names of a type, as each variant of the protocol has it.
fn request(protocol: Protocol, kind: &str, names: &[&str]) -> String {
    let sign = if protocol == Protocol::Delta { "+" } else { "" };
    names.iter().fold(kind.to_owned(), |request, name| format!("{request} {sign}{name}"))
}

/// `CDS a@1 b@1; RDS r@1`
fn snapshot(text: &str) -> Snapshot {
    let mut snapshot = Snapshot::new();
    for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        let mut words = part.split_whitespace();
        let kind = kind(words.next().unwrap());
        for word in words {
            let (name, version) = word.split_once('@').unwrap();
            snapshot.insert(match kind {
                ResourceType::ExtensionConfig => extensions::resource(name, version),
                _ => resource(kind, name, version.parse().unwrap()),
            });
        }
    }
    snapshot
}

/// The wire form of version `n`.
fn version(n: u8) -> String {
    Version::from([n; 16]).to_string()
}

fn node() -> Node {
    Node { id: "envoy".into(), cluster: "ns/gw".into(), envoy: None }
}

fn settings() -> Settings {
    Settings { limits: Limits::default(), gate_timeout: GATE, least_envoy: None }
}

/// A client that sends what the script has, and writes down what it is sent.
struct Script {
    protocol: Protocol,
    stream: Stream,
    now: Instant,
    /// The nonces of responses that were not answered, per type, oldest first.
    unanswered: BTreeMap<ResourceType, Vec<String>>,
    /// SotW: the last nonce and the names of each type.
    nonces: BTreeMap<ResourceType, String>,
    names: BTreeMap<ResourceType, Vec<String>>,
}

impl Script {
    fn new(protocol: Protocol, has: &str) -> Self {
        Self::of(protocol, Stream::new(protocol, node(), settings()), has)
    }

    fn of(protocol: Protocol, stream: Stream, has: &str) -> Self {
        let mut script = Self {
            protocol,
            stream,
            now: Instant::now(),
            unanswered: BTreeMap::new(),
            nonces: BTreeMap::new(),
            names: BTreeMap::new(),
        };
        script.shall_have(has);
        script
    }

    /// The gateway has this from now on.
    fn shall_have(&mut self, text: &str) {
        self.stream.on_snapshot(snapshot(text));
    }

    /// Delta: `+a -b` subscribes to `a` and unsubscribes from `b`; `a=1` says that version 1 of `a` is there from an
    /// earlier stream. SotW: `a b` are the names of interest.
    fn ask(&mut self, request: &str) {
        self.request(request, None, None);
    }

    fn request(&mut self, request: &str, nonce: Option<String>, error: Option<&str>) {
        let mut words = request.split_whitespace();
        let kind = kind(words.next().unwrap());
        let error = error.map(str::to_owned);
        let type_url = kind.type_url().to_owned();
        match self.protocol {
            Protocol::Delta => {
                let mut message =
                    DeltaRequest { type_url, nonce: nonce.unwrap_or_default(), error, ..DeltaRequest::default() };
                for word in words {
                    if let Some(name) = word.strip_prefix('+') {
                        message.subscribe.push(name.to_owned());
                    } else if let Some(name) = word.strip_prefix('-') {
                        message.unsubscribe.push(name.to_owned());
                    } else {
                        let (name, n) = word.split_once('=').unwrap();
                        message.initial_versions.push((name.to_owned(), version(n.parse().unwrap())));
                    }
                }
                self.stream.on_delta(message).unwrap();
            }
            Protocol::Sotw => {
                let names: Vec<_> = words.map(str::to_owned).collect();
                self.names.insert(kind, names.clone());
                let nonce = nonce.or_else(|| self.nonces.get(&kind).cloned()).unwrap_or_default();
                let message = SotwRequest { type_url, names, nonce, error, ..SotwRequest::default() };
                self.stream.on_sotw(message).unwrap();
            }
        }
    }

    fn answer(&mut self, abbreviation: &str, error: Option<&str>) {
        let kind = kind(abbreviation);
        let unanswered = self.unanswered.get_mut(&kind).filter(|nonces| !nonces.is_empty());
        let nonce = unanswered.unwrap_or_else(|| panic!("no {abbreviation} response to answer")).remove(0);
        let request = match self.protocol {
            Protocol::Delta => abbreviation.to_owned(),
            Protocol::Sotw => format!("{abbreviation} {}", self.names[&kind].join(" ")),
        };
        self.request(&request, Some(nonce), error);
    }

    fn ack(&mut self, abbreviation: &str) {
        self.answer(abbreviation, None);
    }

    fn nack(&mut self, abbreviation: &str) {
        self.answer(abbreviation, Some("no"));
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    /// All responses that are due, as text.
    fn sent(&mut self) -> Vec<String> {
        let mut sent = Vec::new();
        while let Some(response) = self.stream.next_response(self.now) {
            sent.push(self.read(&response));
            assert!(sent.len() < 100, "it does not end: {sent:?}");
        }
        sent
    }

    #[track_caller]
    fn is_sent(&mut self, expected: &[&str]) {
        assert_eq!(self.sent(), expected);
    }

    /// Is sent one response, and acknowledges it.
    #[track_caller]
    fn accepts(&mut self, expected: &str) {
        self.is_sent(&[expected]);
        self.ack(expected.split_once(' ').map_or(expected, |(kind, _)| kind));
    }

    fn read(&mut self, response: &Response) -> String {
        let kind = response.kind;
        let wire = response.frames.concat();
        let mut text = abbreviation(kind).to_owned();
        let nonce = match self.protocol {
            Protocol::Delta => {
                let message = discovery::DeltaDiscoveryResponse::decode(&wire[5..]).unwrap();
                assert_eq!(message.type_url, kind.type_url());
                for resource in message.resources {
                    let value = resource.resource.unwrap().value;
                    if kind == ResourceType::ExtensionConfig {
                        text = format!("{text} {}", extensions::read(&value));
                        continue;
                    }
                    let body = String::from_utf8(value).unwrap();
                    let (name, n) = body.split_once('@').unwrap();
                    assert_eq!((resource.name.as_str(), resource.version), (name, version(n.parse().unwrap())));
                    text = format!("{text} {body}");
                }
                for name in message.removed_resources {
                    text = format!("{text} -{name}");
                }
                message.nonce
            }
            Protocol::Sotw => {
                let message = discovery::DiscoveryResponse::decode(&wire[5..]).unwrap();
                assert_eq!(message.type_url, kind.type_url());
                for resource in message.resources {
                    let is_extension = kind == ResourceType::ExtensionConfig;
                    let body = if is_extension {
                        extensions::read(&resource.value)
                    } else {
                        String::from_utf8(resource.value).unwrap()
                    };
                    text = format!("{text} {body}");
                }
                message.nonce
            }
        };
        assert_eq!(nonce, response.nonce);
        self.unanswered.entry(kind).or_default().push(nonce.clone());
        self.nonces.insert(kind, nonce);
        text
    }

    /// What was learned since the last look, acknowledgements left out.
    fn learned(&mut self) -> Vec<Observation> {
        let mut learned = self.stream.take_observations();
        learned.retain(|observation| !matches!(observation, Observation::Acked(..)));
        learned
    }

    /// Answers everything until nothing more comes.
    fn settle(&mut self) {
        for _ in 0..100 {
            self.sent();
            let Some(kind) = self.unanswered.iter().find(|(_, nonces)| !nonces.is_empty()).map(|(kind, _)| *kind)
            else {
                self.learned();
                return;
            };
            self.ack(abbreviation(kind));
        }
        panic!("it does not settle");
    }
}

/// A client that is subscribed to all clusters and listeners and to these names, and up to date.
fn settled(protocol: Protocol, has: &str, eds: &str, rds: &str) -> Script {
    let mut script = Script::new(protocol, has);
    for request in ["CDS", &format!("EDS {eds}"), "LDS", &format!("RDS {rds}")] {
        script.ask(request);
    }
    script.settle();
    script
}
