//! What waits for Envoy's word, with somebody in its place whose words the test knows.

mod bounds;
mod freeze;
mod properties;
mod sessions;
mod streams;
mod withdrawals;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use envoy::{Encoded, ResourceKey, ResourceKind};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::{
    object,
    scene::{class, gateway, http, route, service},
    world,
};
use ir::settings::WhenUnavailable;
use translate::{
    Change, Translator,
    inspect::Sent,
    strict::{Asked, Bounds, Gate, Word},
};

/// The tables that have rows where Envoy is asked first; the last two where trees are kept besides.
#[cfg(debug_assertions)]
pub(super) const OF_STRICT: [&str; 7] =
    ["Offer", "ClearedHosts", "OfferedPart", "OfferedWide", "OfferedListener", "CandidateOffer", "CandidateWide"];

const T: Duration = Duration::from_secs(10);

/// A translator and its gate.
struct Strict {
    translator: Translator,
    gate: Gate,
    now: Instant,
    /// What proxies are sent.
    sent: BTreeMap<ResourceKey, Encoded>,
    /// What was said last of each fragment, in the name of each namespace.
    said: BTreeMap<Asked, Word>,
    /// How often anybody was asked in the last settling.
    asked: usize,
}

fn settings() -> ir::Settings {
    let mut settings = ir::Settings::default();
    settings.delegation.max_depth = 4;
    settings.delegation.max_matches = 60;
    settings
}

fn asked(sent: &Sent) -> Asked {
    ((sent.fragment.kind, sent.fragment.hash), sent.object.namespace.clone())
}

impl Strict {
    fn new(then: WhenUnavailable) -> Self {
        Self::with(settings(), then)
    }

    fn with(settings: ir::Settings, then: WhenUnavailable) -> Self {
        let mut translator = Translator::new(settings);
        translator.set_strict();
        translator.set_login_seed(Some(translate::LoginSeed::unserved()));
        let gate = Gate::new(Bounds { timeout: T, then });
        let (sent, said) = (BTreeMap::new(), BTreeMap::new());
        Self { translator, gate, now: Instant::now(), sent, said, asked: 0 }
    }

    fn apply(&mut self, change: Change) {
        self.translator.apply(change);
    }

    fn put(&mut self, objects: impl IntoIterator<Item = Value>) {
        for value in objects {
            self.apply(Change::Put(object(value)));
        }
    }

    fn remove(&mut self, value: Value) {
        self.apply(Change::Remove(object(value).id()));
    }

    /// Settles as the engine's task does. Only what turned of what was waited for is told to have.
    fn settle(&mut self, word: impl Fn(&Sent) -> Word) {
        let turned = self.gate.unknown().filter(|sent| self.said.get(&asked(sent)) != Some(&word(sent)));
        let turned: Vec<_> = turned.map(|sent| asked(sent).0).collect();
        for fragment in &turned {
            self.gate.turned(fragment);
        }
        self.asked = 0;
        for _ in 0..64 {
            let changes = self.translator.settle();
            let again = self.gate.pass(&mut self.translator, self.now, &mut |sent| {
                self.asked += 1;
                let word = word(sent);
                self.said.insert(asked(sent), word.clone());
                word
            });
            for (key, encoded) in changes.resources {
                match encoded {
                    Some(encoded) => drop(self.sent.insert(key, encoded)),
                    None => drop(self.sent.remove(&key)),
                }
            }
            if !again {
                self.gate.settled();
                return;
            }
        }
        panic!("it never comes to an end");
    }

    /// The same later.
    fn later(&mut self, time: Duration, word: impl Fn(&Sent) -> Word) {
        self.now += time;
        self.settle(word);
    }

    /// The path of each Envoy route, and what it answers by itself; sorted.
    fn routes(&self) -> Vec<(String, Option<u64>)> {
        let config = self.sent.iter().find(|(key, _)| key.kind == ResourceKind::RouteConfiguration);
        let Some((_, encoded)) = config else { return Vec::new() };
        let config = envoy::json::value(ResourceKind::RouteConfiguration.message_name(), &encoded.body.to_bytes());
        let config = config.expect("JSON");
        let hosts = config["virtualHosts"].as_array().cloned().unwrap_or_default();
        let routes = hosts.iter().flat_map(|host| host["routes"].as_array().cloned().unwrap_or_default());
        let routes = routes.map(|route| {
            let path = route["match"]["pathSeparatedPrefix"].as_str().or(route["match"]["prefix"].as_str());
            (path.unwrap_or_default().to_owned(), route["directResponse"]["status"].as_u64())
        });
        let mut routes: Vec<_> = routes.collect();
        routes.sort();
        routes
    }
}

fn accepting(_: &Sent) -> Word {
    Word::Accepted
}

fn contains(sent: &Sent, text: &str) -> bool {
    sent.fragment.bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Whether it is a route that says this, and does not answer by itself.
fn forwards(sent: &Sent, text: &str) -> bool {
    contains(sent, text) && contains(sent, "service/apps/")
}

/// Refuses such a route.
fn refusing(text: &str) -> impl Fn(&Sent) -> Word {
    move |sent| {
        if forwards(sent, text) { Word::Refused("Envoy 1.40.0 refuses it: so it is".into()) } else { Word::Accepted }
    }
}

fn rule(path: &str) -> Value {
    json!({"matches": [{"path": {"type": "PathPrefix", "value": path}}], "backendRefs": [{"name": "s", "port": 80}]})
}

fn rules(paths: &[&str]) -> Value {
    json!({"rules": paths.iter().map(|path| rule(path)).collect::<Vec<_>>()})
}

fn base() -> [Value; 3] {
    [class(), service("s"), gateway("edge", json!([http("web", 80, "")]))]
}

fn paths(strict: &Strict) -> Vec<String> {
    strict.routes().into_iter().map(|(path, _)| path).collect()
}

#[test]
fn nothing_is_sent_before_it_is_judged_and_a_change_goes_as_a_whole() {
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(base());
    strict.put([route("r", rules(&["/a", "/b"]))]);
    strict.settle(|_| Word::Unknown);
    let is_said = |key: &&ResourceKey| matches!(key.kind, ResourceKind::Listener | ResourceKind::Cluster);
    assert_eq!((strict.sent.keys().find(is_said), paths(&strict)), (None, Vec::new()));
    strict.settle(accepting);
    assert_eq!(paths(&strict), ["/a", "/b"]);
    // One of two changes is judged: neither is sent.
    strict.put([route("r", rules(&["/c", "/d"]))]);
    let only_c = |sent: &Sent| if contains(sent, "/d") { Word::Unknown } else { Word::Accepted };
    strict.settle(only_c);
    assert_eq!(paths(&strict), ["/a", "/b"]);
    assert!(strict.gate.unknown().all(|sent| contains(sent, "/d")), "what is known is not asked about");
    let said = |strict: &Strict| strict.translator.status(&object(route("r", rules(&[]))).id()).unwrap_or_default();
    assert!(!said(&strict).contains("ValidationPending"));
    strict.now += Duration::from_secs(5);
    strict.settle(only_c);
    assert!(said(&strict).contains("ValidationPending"), "{}", said(&strict));
    // Others do not wait for it.
    strict.put([route("other", rules(&["/e"]))]);
    strict.settle(only_c);
    assert_eq!(paths(&strict), ["/a", "/b", "/e"]);
    strict.settle(accepting);
    assert_eq!(paths(&strict), ["/c", "/d", "/e"]);
    assert!(!said(&strict).contains("ValidationPending"));
    // Nobody is asked about what goes.
    strict.apply(Change::Remove(object(route("r", rules(&[]))).id()));
    strict.settle(|_| Word::Unknown);
    assert_eq!(paths(&strict), ["/e"]);
}

#[test]
fn a_refused_row_costs_itself_and_is_served_once_it_is_mended() {
    let mut strict = Strict::new(WhenUnavailable::Standard);
    strict.put(base());
    strict.put([route("r", rules(&["/a", "/bad", "/c"]))]);
    strict.settle(refusing("/bad"));
    let some = |path: &str, status: Option<u64>| (path.to_owned(), status);
    assert_eq!(strict.routes(), [some("/a", None), some("/bad", Some(500)), some("/c", None)]);
    strict.put([route("r", rules(&["/a", "/mended", "/c"]))]);
    strict.settle(refusing("/bad"));
    assert_eq!(strict.routes(), [some("/a", None), some("/c", None), some("/mended", None)]);
}

#[test]
fn a_match_of_which_even_the_replacement_is_refused_claims_nothing() {
    let mut strict = Strict::new(WhenUnavailable::Standard);
    strict.put(base());
    strict.put([route("r", rules(&["/a", "/bad"]))]);
    strict.settle(|sent| if contains(sent, "/bad") { Word::Refused("no".into()) } else { Word::Accepted });
    assert_eq!(paths(&strict), ["/a"]);
    // A crash may have another cause: the tree stays as it was, and no request falls through.
    strict.put([route("r", rules(&["/b", "/fatal"]))]);
    strict.settle(|sent| if contains(sent, "/fatal") { Word::Fatal("no".into()) } else { Word::Accepted });
    assert_eq!(paths(&strict), ["/a"]);
    // What is known turns when another Envoy is asked.
    strict.gate.all_turned();
    strict.settle(|sent| if forwards(sent, "/fatal") { Word::Fatal("no".into()) } else { Word::Accepted });
    assert_eq!(strict.routes(), [("/b".to_owned(), None), ("/fatal".to_owned(), Some(500))]);
}

#[test]
fn what_nobody_judges_in_time_is_sent_or_waits_and_a_suspect_is_replaced() {
    for then in [WhenUnavailable::Standard, WhenUnavailable::Hold] {
        let mut strict = Strict::new(then);
        strict.put(base());
        strict.settle(accepting);
        strict.put([route("r", rules(&["/a"]))]);
        strict.settle(|_| Word::Unknown);
        strict.now += T;
        strict.settle(|_| Word::Unknown);
        let expected: &[&str] = if then == WhenUnavailable::Standard { &["/a"] } else { &[] };
        assert_eq!(paths(&strict), expected, "{then:?}");
        // What was sent is judged later all the same.
        strict.settle(refusing("/a"));
        assert_eq!(strict.routes(), [("/a".to_owned(), Some(500))]);

        let mut strict = Strict::new(then);
        strict.put(base());
        strict.settle(accepting);
        strict.put([route("r", rules(&["/bad", "/c"]))]);
        let suspecting = |sent: &Sent| if contains(sent, "/bad") { Word::Suspect } else { Word::Accepted };
        strict.settle(suspecting);
        assert_eq!(strict.routes(), []);
        strict.now += T;
        // What stands in its place is fine.
        let of_rule = |sent: &Sent| if forwards(sent, "/bad") { Word::Suspect } else { Word::Accepted };
        strict.settle(of_rule);
        assert_eq!(strict.routes(), [("/bad".to_owned(), Some(500)), ("/c".to_owned(), None)]);
        strict.settle(accepting);
        assert_eq!(strict.routes(), [("/bad".to_owned(), None), ("/c".to_owned(), None)], "it was only slow");
        // And where it is not.
        strict.put([route("r", rules(&["/bad/2", "/c"]))]);
        strict.settle(suspecting);
        strict.now += T;
        strict.settle(suspecting);
        let plain = [("/bad/2".to_owned(), Some(500)), ("/c".to_owned(), None)];
        assert_eq!(strict.routes(), plain, "nobody has judged what would stand in its place either");
        strict.now += T;
        strict.settle(suspecting);
        assert_eq!(strict.routes(), plain);
        strict.settle(accepting);
        assert_eq!(paths(&strict), ["/bad/2", "/c"]);
    }
}

#[test]
fn a_rule_whose_cluster_is_refused_answers_500_until_that_is_mended() {
    let mut strict = Strict::new(WhenUnavailable::Standard);
    strict.put(base());
    strict.put([route("r", rules(&["/a"]))]);
    let no_cluster = |sent: &Sent| match sent.fragment.kind {
        envoy::judged::Kind::Cluster => Word::Refused("no".into()),
        _ => Word::Accepted,
    };
    strict.settle(no_cluster);
    assert_eq!(strict.routes(), [("/a".to_owned(), Some(500))]);
    assert!(!strict.sent.keys().any(|key| key.kind == ResourceKind::Cluster), "{:?}", strict.sent.keys());
    let policy = json!({
        "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "BackendConfigPolicy",
        "metadata": {"namespace": "apps", "name": "p"},
        "spec": {"targetRefs": [{"group": "", "kind": "Service", "name": "s"}], "connectTimeout": "7s"},
    });
    strict.put([policy]);
    strict.settle(accepting);
    assert_eq!(strict.routes(), [("/a".to_owned(), None)]);
    assert!(strict.sent.keys().any(|key| key.kind == ResourceKind::Cluster));
}

/// A policy on the Gateway that says this, at the Gateway.
fn wide(header: &str) -> Value {
    json!({
        "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
        "metadata": {"namespace": "infra", "name": "wide"},
        "spec": {
            "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "edge"}],
            "headerModifiers": {"request": {"set": [{"name": "x-wide", "value": header}]}},
        },
    })
}

#[test]
fn what_a_gateway_says_goes_with_the_trees_that_change_at_the_same_time() {
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(base());
    strict.put([wide("one"), route("r", rules(&["/a"])), route("other", rules(&["/e"]))]);
    strict.settle(accepting);
    let says = |strict: &Strict, text: &str| {
        let mut configs = strict.sent.iter().filter(|(key, _)| key.kind == ResourceKind::RouteConfiguration);
        configs.any(|(_, encoded)| String::from_utf8_lossy(&encoded.body.to_bytes()).contains(text))
    };
    assert!(says(&strict, "one"));
    strict.put([wide("two"), route("r", rules(&["/b"]))]);
    // The Gateway's is judged, the route is not.
    let not_b = |sent: &Sent| if contains(sent, "/b") { Word::Unknown } else { Word::Accepted };
    strict.settle(not_b);
    assert!(says(&strict, "one") && paths(&strict) == ["/a", "/e"]);
    // What changes later does not hold it up.
    strict.settle(accepting);
    assert!(says(&strict, "two") && paths(&strict) == ["/b", "/e"]);
    strict.put([wide("three")]);
    strict.settle(|sent| if contains(sent, "three") { Word::Unknown } else { Word::Accepted });
    assert!(says(&strict, "two"));
    strict.settle(|sent| if contains(sent, "three") { Word::Refused("no".into()) } else { Word::Accepted });
    assert_eq!(strict.routes(), [("/".to_owned(), Some(500))]);
    strict.put([wide("four")]);
    strict.settle(accepting);
    assert!(says(&strict, "four") && paths(&strict) == ["/b", "/e"]);
}

fn at(path: &str, status: Option<u64>) -> (String, Option<u64>) {
    (path.to_owned(), status)
}

#[test]
fn what_is_withdrawn_is_closed_at_once_whatever_else_of_its_tree_waits() {
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(base());
    strict.put([route("r", rules(&["/a"])), route("other", rules(&["/e"]))]);
    strict.settle(accepting);
    let not_b = |sent: &Sent| if contains(sent, "/b") { Word::Unknown } else { Word::Accepted };
    strict.put([route("r", rules(&["/a", "/b"]))]);
    strict.settle(not_b);
    assert_eq!(strict.routes(), [at("/a", None), at("/e", None)]);
    // Where the rules lead is not there any more.
    strict.apply(Change::Remove(object(service("s")).id()));
    strict.settle(not_b);
    assert_eq!(strict.routes(), [at("/a", Some(500)), at("/e", Some(500))]);
    strict.put([service("s")]);
    strict.settle(accepting);
    assert_eq!(strict.routes(), [at("/a", None), at("/b", None), at("/e", None)]);
}

#[test]
fn a_tree_that_changes_again_and_again_waits_no_longer_and_what_has_no_word_answers_500() {
    for then in [WhenUnavailable::Standard, WhenUnavailable::Hold] {
        let mut strict = Strict::new(then);
        strict.put(base());
        strict.put([route("r", rules(&["/a", "/admin"]))]);
        strict.settle(accepting);
        // Neither what is said nor what would stand in its place.
        let suspecting = |sent: &Sent| if contains(sent, "/bad") { Word::Suspect } else { Word::Accepted };
        strict.put([route("r", rules(&["/b", "/bad/1"]))]);
        strict.settle(suspecting);
        strict.now += Duration::from_secs(6);
        strict.put([route("r", rules(&["/c", "/bad/2"]))]);
        strict.settle(suspecting);
        // What its owner has there no more does not wait.
        assert_eq!(strict.routes(), [at("/a", Some(500)), at("/admin", Some(500))]);
        strict.now += Duration::from_secs(6);
        strict.put([route("r", rules(&["/c", "/bad/3"]))]);
        strict.settle(suspecting);
        assert_eq!(strict.routes(), [at("/bad/3", Some(500)), at("/c", None)], "no request falls to another route");
        // What changes after that waits for itself.
        strict.put([route("r", rules(&["/d", "/bad/3"]))]);
        strict.settle(|sent| if contains(sent, "/d") { Word::Judging } else { suspecting(sent) });
        assert_eq!(strict.routes()[0], at("/bad/3", Some(500)));
        strict.settle(accepting);
        assert_eq!(strict.routes(), [at("/bad/3", None), at("/d", None)]);
    }
}

#[test]
fn a_gateway_waits_for_a_tree_no_longer_than_it_may_and_no_row_is_missing_then() {
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(base());
    strict.put([wide("one"), route("r", rules(&["/a"])), route("other", rules(&["/e"]))]);
    strict.settle(accepting);
    let not_b = |sent: &Sent| if contains(sent, "/b") { Word::Unknown } else { Word::Accepted };
    strict.put([wide("two"), route("r", rules(&["/b"]))]);
    strict.settle(not_b);
    assert_eq!(strict.gate.held(strict.now).gateways.len(), 1);
    strict.now += T;
    strict.settle(not_b);
    assert!(strict.gate.held(strict.now).gateways.is_empty());
    assert_eq!(strict.routes(), [at("/a", Some(500)), at("/e", None)]);
    // A tree that waited before holds up nobody.
    strict.put([wide("three")]);
    strict.settle(not_b);
    assert!(strict.gate.held(strict.now).gateways.is_empty());
    strict.settle(accepting);
    assert_eq!(strict.routes(), [at("/b", None), at("/e", None)]);
}

#[test]
fn what_is_refused_of_a_gateway_closes_what_it_stands_for_and_is_not_sent() {
    let mut strict = Strict::new(WhenUnavailable::Standard);
    strict.put(base());
    strict.put([route("r", rules(&["/a"]))]);
    strict.settle(accepting);
    let extensions = |strict: &Strict| {
        let sent = strict.sent.iter().filter(|(key, _)| key.kind == ResourceKind::ExtensionConfig);
        sent.map(|(_, encoded)| encoded.version).collect::<Vec<_>>()
    };
    let before = extensions(&strict);
    let limit = |tokens: u64| {
        let mut policy = wide("limited");
        let bucket = json!({"maxTokens": tokens, "tokensPerFill": 1, "fillInterval": "1s"});
        policy["spec"]["rateLimit"] = json!({"local": {"tokenBucket": bucket}});
        policy
    };
    strict.put([limit(123_456)]);
    strict.settle(|sent| match sent.fragment.kind {
        envoy::judged::Kind::Extension => Word::Refused("Envoy 1.40.0 refuses it: so it is".into()),
        _ => Word::Accepted,
    });
    assert_eq!(strict.routes(), [at("/", Some(500))]);
    assert_eq!(extensions(&strict), before);
    let gateway = object(gateway("edge", json!([http("web", 80, "")]))).id();
    let said = strict.translator.status(&gateway).unwrap_or_default();
    assert!(said.contains("so it is") || said.contains("cannot be sent"), "{said}");
    strict.put([limit(100)]);
    strict.settle(accepting);
    assert_eq!(strict.routes(), [at("/a", None)]);
    assert_ne!(extensions(&strict), before);
}

#[test]
fn what_one_envoy_refused_of_anything_is_served_when_another_one_takes_it() {
    use envoy::judged::Kind;
    let mut listeners = wide("x");
    listeners["kind"] = json!("ListenerPolicy");
    listeners["spec"]["headerModifiers"] = Value::Null;
    listeners["spec"]["default"] = json!({"perConnectionBufferLimitBytes": 7777});
    for (kind, more) in [
        (Kind::Row, None),
        (Kind::Cluster, None),
        (Kind::RouteConfiguration, Some(wide("x"))),
        (Kind::Listener, Some(listeners)),
    ] {
        let mut strict = Strict::new(WhenUnavailable::Hold);
        strict.put(base());
        strict.put([route("r", rules(&["/a"]))]);
        strict.put(more.clone());
        let refused = |sent: &Sent| {
            let is_it = sent.fragment.kind == kind && (kind != Kind::Row || forwards(sent, "/a"));
            if is_it { Word::Refused("no".into()) } else { Word::Accepted }
        };
        let is_served = |strict: &Strict| {
            let listener = strict.sent.keys().any(|key| key.kind == ResourceKind::Listener);
            listener && strict.routes() == [at("/a", None)]
        };
        strict.settle(refused);
        assert!(!is_served(&strict), "{kind:?}");
        let before = (strict.routes(), strict.sent.len());
        strict.gate.all_turned();
        strict.settle(|sent| if refused(sent) == Word::Accepted { Word::Accepted } else { Word::Judging });
        assert_eq!((strict.routes(), strict.sent.len()), before, "{kind:?}: nobody has said anything else");
        strict.settle(accepting);
        assert!(is_served(&strict) && !strict.gate.is_holding(), "{kind:?}");
    }
}

/// A route to a Service.
fn to(service: &str) -> Value {
    json!({"rules": [{"backendRefs": [{"name": service, "port": 80}]}]})
}

#[test]
fn a_route_forwards_where_it_did_while_its_change_waits() {
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(base());
    strict.put([service("t"), route("r", to("s"))]);
    strict.settle(accepting);
    let clusters = |strict: &Strict| {
        let clusters = strict.sent.keys().filter(|key| key.kind == ResourceKind::Cluster);
        clusters.map(|key| key.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(clusters(&strict), ["service/apps/s/80"]);
    strict.put([route("r", to("t"))]);
    strict.settle(|_| Word::Unknown);
    assert_eq!(clusters(&strict), ["service/apps/s/80"]);
    strict.settle(|sent| match sent.fragment.kind {
        envoy::judged::Kind::Row => Word::Accepted,
        _ => Word::Unknown,
    });
    assert_eq!(clusters(&strict), ["service/apps/s/80"], "a rule waits for its cluster");
    strict.settle(accepting);
    assert_eq!(clusters(&strict), ["service/apps/t/80"], "{:#?}", strict.gate);
}

/// What is offered or was cleared and cannot be computed keeps what is sent as it was.
#[cfg(debug_assertions)]
#[test]
fn a_row_that_panics_changes_nothing_that_is_sent_and_heals() {
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(base());
    strict.put([wide("one"), route("r", rules(&["/a"]))]);
    strict.settle(accepting);
    let sent = strict.sent.clone();
    let mut tried = std::collections::BTreeSet::new();
    for (table, key) in strict.translator.computed_rows() {
        if !OF_STRICT.contains(&table) {
            continue;
        }
        tried.insert(table);
        strict.translator.fail_at(table, &key);
        strict.settle(accepting);
        assert_eq!(strict.sent, sent, "{table}({key})");
        strict.translator.fail_no_more(table, &key);
        strict.settle(accepting);
        assert_eq!(strict.sent, sent, "{table}({key})");
        assert_eq!(strict.translator.faults(), 0);
    }
    assert_eq!(tried.len(), 5, "{tried:?}");
}

/// Where nobody is asked first, nothing is kept for it, and a gate has nothing to say.
#[cfg(debug_assertions)]
#[test]
fn standard_has_no_row_of_what_waits() {
    let mut translator = Translator::new(ir::Settings::default());
    for value in translate::testing::one_of_each() {
        translator.apply(Change::Put(object(value)));
    }
    translator.settle();
    let rows = translator.computed_rows();
    assert!(!rows.iter().any(|(table, _)| OF_STRICT.contains(table)));
    let mut gate = Gate::new(Bounds { timeout: T, then: WhenUnavailable::Hold });
    let never = &mut |_: &Sent| unreachable!("nobody is asked");
    assert!(!gate.pass(&mut translator, Instant::now(), never));
    assert!(gate.unknown().len() == 0 && gate.held(Instant::now()).gateways.is_empty());
}
