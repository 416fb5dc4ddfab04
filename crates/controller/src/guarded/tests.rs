//! Objects on which the translation fails: they are set aside, others are served, and it is the same everywhere.

mod mended;
mod sweep;

use std::collections::BTreeMap;

use api::{Kind, Object, ObjectId};
use envoy::{Encoded, ResourceKey};
use records::{Entry, Quarantine};
use serde_json::{Value, json};
use translate::{
    Change, LoginSeed,
    testing::scene::{class, forward, gateway, http, object, route, service},
};

use super::*;

/// What makes the row of Gateway `infra/edge` panic; nothing closes it.
const GATEWAY_ROW: &str = r#"GatewayRow:NsName { namespace: "infra", name: "edge" }"#;

const EDGE: &str = r#"NsName { namespace: "infra", name: "edge" }"#;

/// What proxies were told.
#[derive(Clone, Default, PartialEq)]
struct Served(BTreeMap<ResourceKey, Encoded>);

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let short = |(key, encoded): (&ResourceKey, &Encoded)| {
            format!("{} {:?} {} {:x?}", key.gateway, key.kind, key.name, &encoded.version[..3])
        };
        f.debug_list().entries(self.0.iter().map(short)).finish()
    }
}

impl Served {
    fn take(&mut self, changes: &Changes) {
        for (key, encoded) in changes.resources.clone() {
            match encoded {
                Some(encoded) => self.0.insert(key, encoded),
                None => self.0.remove(&key),
            };
        }
    }
}

/// A replica.
struct Replica {
    guarded: Guarded,
    served: Served,
    version: u64,
}

impl Replica {
    fn new(stored: &Quarantine, objects: impl IntoIterator<Item = Value>) -> Self {
        let mut guarded = Guarded::new(Settings::default());
        guarded.translator_mut().set_login_seed(Some(LoginSeed::unserved()));
        guarded.set_stored(stored);
        let mut replica = Self { guarded, served: Served::default(), version: 0 };
        replica.put(objects);
        replica
    }

    /// All at once; each is younger than the one before.
    fn put(&mut self, objects: impl IntoIterator<Item = Value>) -> Changes {
        for value in objects {
            self.version += 1;
            self.guarded.apply(Change::Put(object(value)), self.version);
        }
        self.settle()
    }

    fn settle(&mut self) -> Changes {
        let changes = self.guarded.settle();
        self.served.take(&changes);
        let held = |key: &ResourceKey| {
            let id = ObjectId::new(Kind::Gateway, key.gateway.namespace.clone(), key.gateway.name.clone());
            self.guarded.quarantined().any(|aside| *aside == id)
        };
        let resources = self.guarded.resources().into_values().flatten();
        let resources = Served(resources.filter(|(key, _)| !held(key)).collect());
        let told = Served(self.served.0.clone().into_iter().filter(|(key, _)| !held(key)).collect());
        if self.guarded.unended().is_empty() {
            assert_eq!(told, resources, "what was told is what there is");
        }
        changes
    }

    fn aside(&self) -> Vec<String> {
        self.guarded.quarantined().map(ToString::to_string).collect()
    }

    fn stored(&self) -> Quarantine {
        Quarantine { entries: self.guarded.entries().values().cloned().collect() }
    }

    fn status(&self, kind: Kind, namespace: &str, name: &str) -> Value {
        let status = self.guarded.status(&ObjectId::new(kind, namespace, name)).expect("a status");
        serde_json::from_str(&status).expect("JSON")
    }
}

fn world() -> Vec<Value> {
    vec![
        class(),
        gateway("edge", json!([http("web", 80, "")])),
        gateway("other", json!([http("web", 81, "")])),
        service("s"),
        route("r", json!({"rules": [forward("/a")]})),
        route("elsewhere", json!({"parentRefs": [{"name": "other", "namespace": "infra"}]})),
    ]
}

/// The object fails as long as it is there.
fn failing(mut value: Value, at: &str) -> Value {
    value["metadata"]["annotations"]["test.portcullis.dev/fail-at"] = json!(at);
    value
}

fn wider() -> Value {
    failing(gateway("edge", json!([http("web", 80, ""), http("more", 82, "")])), GATEWAY_ROW)
}

fn quarantined(conditions: &Value) -> String {
    let conditions = conditions.as_array().into_iter().flatten();
    let found = conditions.filter(|condition| condition["type"] == "portcullis.dev/Quarantined");
    found.map(|condition| format!("{} {}", condition["status"], condition["reason"]).replace('"', "")).collect()
}

#[test]
fn the_last_version_stays_in_force_of_an_object_that_fails_and_others_are_followed() {
    let mut replica = Replica::new(&Quarantine::default(), world());
    let before = replica.served.clone();
    replica.put([wider()]);
    assert_eq!(replica.aside(), ["Gateway infra/edge"]);
    assert_eq!(replica.served, before);
    let status = replica.status(Kind::Gateway, "infra", "edge");
    assert_eq!(quarantined(&status["conditions"]), "True InternalFault", "{status:#}");
    let problems = replica.guarded.problems();
    let told: Vec<_> = problems.iter().filter(|(_, problem)| problem.message.starts_with("set aside")).collect();
    assert!(told.len() == 1 && told[0].0.kind == Kind::Gateway, "{problems:?}");
    assert!(told[0].1.message.contains("its last version stays in force"), "{told:?}");

    // Who changes meanwhile at that Gateway is served.
    replica.put([route("r", json!({"rules": [forward("/b")]}))]);
    assert_ne!(replica.served, before);
    assert_eq!(
        replica.served,
        Replica::new(
            &Quarantine::default(),
            [&world()[..4], &[route("r", json!({"rules": [forward("/b")]}))], &world()[5..]].concat()
        )
        .served
    );

    // It is mended, and served.
    replica.put([gateway("edge", json!([http("web", 80, ""), http("more", 82, "")]))]);
    assert_eq!(replica.aside(), Vec::<String>::new());
    assert!(replica.served.0.keys().any(|key| key.name.contains("82")), "{:?}", replica.served.0.keys());
    let status = replica.status(Kind::Gateway, "infra", "edge");
    assert_eq!(quarantined(&status["conditions"]), "", "{status:#}");
}

#[test]
fn with_the_same_records_another_replica_and_a_new_process_come_to_the_same_bytes() {
    let mut first = Replica::new(&Quarantine::default(), world());
    let mut second = Replica::new(&Quarantine::default(), world());
    first.put([wider()]);
    second.put([wider()]);
    let identity = |replica: &Replica| {
        let entries = replica.stored().entries.into_iter();
        entries.map(|Entry { name, content, fault, kept, .. }| (name, content, fault, kept)).collect::<Vec<_>>()
    };
    assert_eq!(identity(&first), identity(&second));
    assert_eq!(first.served, second.served);
    // A process that never saw the last version, by any order.
    let mut objects = world();
    objects[1] = wider();
    for objects in [objects.clone(), objects.into_iter().rev().collect()] {
        let restarted = Replica::new(&first.stored(), objects);
        assert_eq!(restarted.served, first.served);
        assert_eq!(
            restarted.guarded.statuses().into_iter().collect::<BTreeMap<_, _>>(),
            first.guarded.statuses().into_iter().collect()
        );
    }
    // What another one has set aside is set aside here too.
    let mut third = Replica::new(&Quarantine::default(), world());
    third.guarded.set_stored(&first.stored());
    third.put([wider()]);
    assert_eq!((third.served, third.guarded.entries().clone()), (first.served, first.guarded.entries().clone()));
}

#[test]
fn a_gateway_that_was_never_sound_takes_nothing_from_its_proxies() {
    let mut objects = world();
    objects[1] = wider();
    let mut replica = Replica::new(&Quarantine::default(), Vec::new());
    let changes = replica.put(objects.clone());
    assert_eq!(replica.aside(), ["Gateway infra/edge"]);
    let kept = |changes: &Changes| {
        changes
            .proxies
            .iter()
            .any(|(gateway, proxies)| *gateway.name == *"edge" && *proxies == Some(translate::Proxies::Kept))
    };
    assert!(kept(&changes), "{:?}", changes.proxies);
    assert!(changes.gateways.iter().all(|(gateway, _)| *gateway.name != *"edge"), "{:?}", changes.gateways);
    assert!(replica.served.0.keys().all(|key| *key.gateway.name == *"other"), "{:?}", replica.served.0.keys());
    let status = replica.status(Kind::Gateway, "infra", "edge");
    assert_eq!(quarantined(&status["conditions"]), "True InternalFault", "{status:#}");
    // A record without an older version comes to the same.
    assert_eq!(Replica::new(&replica.stored(), objects).served, replica.served);
    replica.put([gateway("edge", json!([http("web", 80, "")]))]);
    assert_eq!(replica.served, Replica::new(&Quarantine::default(), world()).served);
}

#[test]
fn who_was_only_young_is_let_go() {
    let mut replica = Replica::new(&Quarantine::default(), world());
    // The class is read by the Gateway too, and younger than it; so is the route.
    let mut renewed = class();
    renewed["metadata"]["labels"] = json!({"a": "b"});
    replica.put([wider(), renewed, route("r", json!({"rules": [forward("/c")]}))]);
    assert_eq!(replica.aside(), ["Gateway infra/edge"]);
    assert_eq!(replica.guarded.entries().len(), 1);
    let expected = Replica::new(
        &Quarantine::default(),
        [&world()[..4], &[route("r", json!({"rules": [forward("/c")]}))], &world()[5..]].concat(),
    );
    assert_eq!(replica.served, expected.served);
}

#[test]
fn a_gateway_whose_row_fails_whatever_it_says_takes_nothing_from_its_proxies_either() {
    let mut replica = Replica::new(&Quarantine::default(), world());
    let before = replica.served.clone();
    replica.guarded.translator_mut().fail_at("GatewayRow", EDGE);
    replica.settle();
    assert_eq!((replica.aside(), &replica.served), (vec!["Gateway infra/edge".to_owned()], &before));
}

#[test]
fn a_fault_against_which_nothing_helps_sets_none_aside_and_what_hangs_on_it_stays_as_it_was() {
    let mut replica = Replica::new(&Quarantine::default(), world());
    let other = |path: &str, name: &str| {
        route(name, json!({"parentRefs": [{"name": "other", "namespace": "infra"}], "rules": [forward(path)]}))
    };
    replica.put((0..40).map(|n| other(&format!("/{n}"), &format!("o{n}"))));
    let before = replica.served.clone();
    let rows = replica.guarded.computed_rows().into_iter();
    let mut rows =
        rows.filter(|(table, key)| *table == "Outputs" && key.contains("RouteConfig") && key.contains("other"));
    let (table, key) = rows.next().expect("a row");
    replica.guarded.translator_mut().fail_at(table, &key);
    let changes = replica.settle();
    assert_eq!((replica.aside(), replica.guarded.entries().len()), (Vec::new(), 0));
    assert_eq!(replica.served, before);
    assert!(changes.faults.iter().any(|turned| turned.fault.is_some()));
    // It is not searched for again at each change.
    let computed = replica.put([rules("r", "/x")]).computed;
    assert!(computed < 100, "{computed}");
    replica.guarded.translator_mut().fail_no_more(table, &key);
    replica.put([other("/new", "o1")]);
    assert!(replica.guarded.unended().is_empty() && replica.served != before);
}

fn rules(name: &str, path: &str) -> Value {
    route(name, json!({"rules": [forward(path)]}))
}

#[test]
fn a_panic_outside_of_rows_costs_the_objects_that_it_is_about_and_no_others_of_the_batch() {
    let mut replica = Replica::new(&Quarantine::default(), world());
    replica.put((0..20).map(|n| rules(&format!("r{n}"), &format!("/old/{n}"))));
    let guilty = [3, 11];
    let changed = |n: usize, fails: bool| {
        let value = rules(&format!("r{n}"), &format!("/new/{n}"));
        if fails { failing(value, "settling") } else { value }
    };
    replica.put((0..20).map(|n| changed(n, guilty.contains(&n))));
    assert_eq!(replica.aside(), ["HTTPRoute apps/r11", "HTTPRoute apps/r3"]);
    let path = |n: usize| if guilty.contains(&n) { "old" } else { "new" };
    let expected = world().into_iter().chain((0..20).map(|n| rules(&format!("r{n}"), &format!("/{}/{n}", path(n)))));
    assert_eq!(replica.served, Replica::new(&Quarantine::default(), expected).served);

    // A process that begins with all of them comes to the same by the records.
    let all = world().into_iter().chain((0..20).map(|n| changed(n, guilty.contains(&n))));
    let restarted = Replica::new(&replica.stored(), all.clone());
    assert_eq!(restarted.served, replica.served);
    // Without records it finds the same objects, whose last versions it never saw.
    let anew = Replica::new(&Quarantine::default(), all);
    assert_eq!(anew.aside(), replica.aside());
    let without = world().into_iter().chain((0..20).filter(|n| !guilty.contains(n)).map(|n| changed(n, false)));
    assert_eq!(anew.served, Replica::new(&Quarantine::default(), without).served);
}

#[test]
fn what_is_forgotten_is_tried_again() {
    let mut replica = Replica::new(&Quarantine::default(), world());
    replica.put([wider()]);
    let stored = replica.stored();
    replica.guarded.set_stored(&stored);
    replica.settle();
    assert_eq!(replica.aside().len(), 1);
    // It still fails.
    replica.guarded.set_stored(&Quarantine::default());
    replica.settle();
    assert_eq!(replica.aside().len(), 1);
    assert_eq!(replica.guarded.entries().values().map(|entry| entry.versions).collect::<Vec<_>>(), [1]);

    // One that a mended release would take.
    let mut sound = Replica::new(&Quarantine::default(), world());
    let mut entries = stored.by_object();
    for entry in entries.values_mut() {
        entry.content = records::quarantine::digest(&object(gateway("edge", json!([http("web", 90, "")]))));
    }
    sound.guarded.set_stored(&Quarantine::default().with(&entries, jiff::Timestamp::now()));
    sound.put([gateway("edge", json!([http("web", 90, "")]))]);
    assert_eq!(sound.aside(), ["Gateway infra/edge"]);
    sound.guarded.set_stored(&Quarantine::default());
    sound.settle();
    assert_eq!(sound.aside(), Vec::<String>::new());
    assert!(sound.served.0.keys().any(|key| key.name.contains("90")));
}

#[test]
fn an_object_that_comes_with_ever_other_faults_waits() {
    let mut replica = Replica::new(&Quarantine::default(), world());
    for port in 91..94 {
        replica.put([failing(gateway("edge", json!([http("web", port, "")])), GATEWAY_ROW)]);
        assert_eq!(replica.aside(), ["Gateway infra/edge"], "{port}");
    }
    assert!(replica.guarded.is_waiting());
    // A sound one is not tried before its time, and its last version stays in force.
    replica.put([gateway("edge", json!([http("web", 94, "")]))]);
    replica.guarded.try_again();
    replica.settle();
    assert_eq!(replica.aside(), ["Gateway infra/edge"]);
    assert_eq!(replica.served, Replica::new(&Quarantine::default(), world()).served);
}

#[test]
fn an_object_that_is_deleted_is_not_set_aside_any_more() {
    let mut replica = Replica::new(&Quarantine::default(), world());
    replica.put([wider()]);
    replica.guarded.apply(Change::Remove(ObjectId::new(Kind::Gateway, "infra", "edge")), 0);
    replica.settle();
    assert_eq!(replica.aside(), Vec::<String>::new());
    assert!(replica.served.0.keys().all(|key| *key.gateway.name == *"other"));
}

/// The object as one that a policy's owner wrote.
fn policy(path: &str) -> Value {
    json!({
        "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
        "metadata": {"name": "guard", "namespace": "apps", "generation": 1},
        "spec": {
            "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "r"}],
            "timeouts": {"request": path},
        },
    })
}

#[test]
fn a_policy_that_was_never_sound_closes_what_it_targets() {
    let mut replica = Replica::new(&Quarantine::default(), world());
    replica.put([failing(policy("5s"), "settling")]);
    assert_eq!(replica.aside(), ["TrafficPolicy apps/guard"]);
    let tells = |replica: &Replica, kind, name: &str| replica.status(kind, "apps", name).to_string();
    assert!(tells(&replica, Kind::TrafficPolicy, "guard").contains("InternalFault"));
    let closed = replica
        .guarded
        .problems()
        .into_iter()
        .any(|(id, problem)| id.kind == Kind::HttpRoute && problem.severity == ir::Severity::Replaced);
    assert!(closed, "{:?}", replica.guarded.problems());
    let Object::TrafficPolicy(targets) =
        replica.guarded.object(&ObjectId::new(Kind::TrafficPolicy, "apps", "guard")).expect("its targets").object()
    else {
        panic!("another kind")
    };
    assert!(!targets.spec.invalid.is_empty());
    replica.put([policy("5s")]);
    assert_eq!(replica.aside(), Vec::<String>::new());
}
