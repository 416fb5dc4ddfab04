use std::fmt::Write;

use serde_json::{Value, json};

use super::{
    super::decoder::{Decoder, Line},
    *,
};

mod world;

/// What a watch of a kind would say of an object.
fn event(kind: Kind, change: &str, object: &Value) -> Event {
    let decoder = Decoder::new(Target::Kind(kind));
    let line = json!({ "type": change, "object": object }).to_string();
    match decoder.line(line.as_bytes()).expect("a line").0 {
        Line::Applied(watched) => Event::Applied(watched),
        Line::Deleted(name) => Event::Deleted(name),
        other => panic!("{other:?}"),
    }
}

fn watched(kind: Kind, object: &Value) -> WatchedObject {
    let Event::Applied(watched) = event(kind, "ADDED", object) else { panic!("no object") };
    watched
}

fn config(namespace: &str, name: &str, version: u32) -> Value {
    json!({ "metadata": { "namespace": namespace, "name": name, "resourceVersion": version.to_string() },
            "data": { "version": version.to_string() } })
}

fn bad(mut object: Value) -> Value {
    object["spec"] = 1.into();
    object
}

fn put(object: &Value) -> Event {
    event(Kind::Service, "ADDED", object)
}

fn gone(object: &Value) -> Event {
    event(Kind::Service, "DELETED", object)
}

fn broken(why: &str) -> Event {
    Event::Failing { why: why.to_owned(), forbidden: false }
}

fn namespace(name: &str, team: &str, version: u32) -> Value {
    json!({ "metadata": { "name": name, "resourceVersion": version.to_string(), "labels": { "team": team } } })
}

fn scope() -> Scope {
    let selector = json!({ "matchLabels": { "team": "a" } });
    Scope::Selector(serde_json::from_value(selector).expect("a selector"))
}

fn state(scope: &Scope, kinds: &[Kind]) -> State {
    let list_watches: Vec<_> =
        kinds.iter().map(|kind| ListWatch { target: Target::Kind(*kind), namespace: None, only: Only::All }).collect();
    State::new(scope, &list_watches)
}

/// What is to be told, a word each.
fn told(state: &mut State) -> String {
    let mut text = String::new();
    for observed in state.take_observed() {
        let separator = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{separator}");
        let _ = match observed {
            Observed::Put { object, .. } => write!(text, "put {}", object.id()),
            Observed::Remove(id) => write!(text, "remove {id}"),
            Observed::Synced(kind) => write!(text, "synced {kind}"),
            Observed::Absent(kind) => write!(text, "absent {kind}"),
            Observed::Stale { kind, why } => write!(text, "stale {kind}: {why}"),
            Observed::Fresh(kind) => write!(text, "fresh {kind}"),
            Observed::Undecodable { id, .. } => write!(text, "undecodable {id}"),
            Observed::Unreadable { id, .. } => write!(text, "unreadable {id}"),
        };
    }
    text
}

fn read(state: &mut State, events: Vec<Event>) -> String {
    state.handle(Kind::Service, None, events);
    told(state)
}

#[test]
fn a_list_is_told_and_then_each_change() {
    let mut state = state(&Scope::All, &[Kind::Service]);
    let list = vec![Event::ListStarted, put(&config("n", "a", 1)), put(&config("n", "b", 2)), Event::ListComplete];
    assert!(!state.has_read(Kind::Service));
    assert_eq!(read(&mut state, list), "put Service n/a, put Service n/b, synced Service");
    assert!(state.has_read(Kind::Service));
    assert_eq!(read(&mut state, vec![put(&config("n", "a", 3))]), "put Service n/a");
    assert_eq!(read(&mut state, vec![gone(&config("n", "a", 4))]), "remove Service n/a");
    assert_eq!(read(&mut state, vec![gone(&config("n", "a", 4))]), "");
}

#[test]
fn a_relist_clears_nothing_and_tells_differences_alone() {
    let mut state = state(&Scope::All, &[Kind::Service]);
    let objects: Vec<_> = ["a", "b", "c"].map(|name| config("n", name, 1)).into();
    let list = [Event::ListStarted].into_iter().chain(objects.iter().map(put)).chain([Event::ListComplete]);
    read(&mut state, list.collect());
    assert_eq!(read(&mut state, vec![Event::ListStarted, put(&config("n", "b", 5))]), "put Service n/b");
    assert_eq!(
        read(&mut state, vec![Event::ListStarted, put(&config("n", "b", 5))]),
        "",
        "it was cut and begins again"
    );
    let rest = vec![put(&objects[2]), put(&config("n", "d", 6)), Event::ListComplete];
    assert_eq!(read(&mut state, rest), "put Service n/d, remove Service n/a, synced Service");
}

#[test]
fn an_object_that_becomes_undecodable_says_what_it_said_last() {
    let mut state = state(&Scope::All, &[Kind::Service]);
    read(&mut state, vec![Event::ListStarted, put(&config("n", "a", 1)), Event::ListComplete]);
    let broken = bad(config("n", "a", 2));
    assert_eq!(read(&mut state, vec![put(&broken)]), "undecodable Service n/a");
    assert_eq!(read(&mut state, vec![Event::ListStarted, put(&broken), Event::ListComplete]), "synced Service");
    assert_eq!(read(&mut state, vec![put(&config("n", "a", 3))]), "put Service n/a");
    read(&mut state, vec![put(&bad(config("n", "a", 4)))]);
    assert_eq!(read(&mut state, vec![gone(&broken)]), "remove Service n/a");
}

#[test]
fn a_policy_that_never_was_decodable_is_its_targets_until_it_is() {
    let policy = |version: u32, name: &str, sort: Value| {
        json!({ "metadata": { "namespace": "n", "name": "p", "resourceVersion": version.to_string() },
                "spec": { "sortMethod": sort, "targetRefs": [{ "group": "g", "kind": "k", "name": name }] } })
    };
    let mut state = state(&Scope::All, &[Kind::DelegationPolicy]);
    let mut put = |object: Value| {
        state.handle(Kind::DelegationPolicy, None, vec![event(Kind::DelegationPolicy, "ADDED", &object)]);
        let told = state.take_observed();
        let target = told.iter().find_map(|observed| match observed {
            Observed::Put { object: Object::DelegationPolicy(policy), .. } => {
                Some((policy.spec.target_refs[0].name.to_string(), policy.spec.invalid.len()))
            }
            _ => None,
        });
        (target, told.iter().any(|observed| matches!(observed, Observed::Undecodable { .. })))
    };
    assert_eq!(put(policy(1, "a", 1.into())), (Some(("a".into(), 1)), true));
    assert_eq!(put(policy(2, "b", 1.into())), (Some(("b".into(), 1)), true));
    assert_eq!(put(policy(3, "c", "TableWeight".into())), (Some(("c".into(), 0)), false));
    assert_eq!(put(policy(4, "d", 1.into())), (None, true), "it was sound once");
}

#[test]
fn a_kind_that_is_not_served_has_no_objects_and_may_come_back() {
    let mut state = state(&Scope::All, &[Kind::Service]);
    assert_eq!(read(&mut state, vec![Event::ListStarted, Event::NotServed]), "absent Service");
    assert!(state.has_read(Kind::Service));
    assert_eq!(read(&mut state, vec![Event::ListStarted, Event::NotServed]), "");
    let list = vec![Event::ListStarted, put(&config("n", "a", 1)), Event::ListComplete];
    assert_eq!(read(&mut state, list), "put Service n/a, synced Service");
    assert_eq!(read(&mut state, vec![Event::NotServed]), "remove Service n/a, absent Service");
}

#[test]
fn a_failing_watch_takes_nothing_and_its_reason_is_told_once() {
    let mut state = state(&Scope::All, &[Kind::Service]);
    read(&mut state, vec![Event::ListStarted, put(&config("n", "a", 1)), Event::ListComplete]);
    let failing = |why: &str| vec![broken(why)];
    assert_eq!(read(&mut state, failing("refused")), "stale Service: refused");
    assert_eq!(read(&mut state, failing("refused")), "");
    assert_eq!(read(&mut state, failing("forbidden")), "stale Service: forbidden");
    assert_eq!(read(&mut state, vec![Event::Recovered]), "fresh Service");
    assert_eq!(read(&mut state, vec![Event::Recovered]), "");
}

#[test]
fn several_watches_of_a_kind_are_synced_absent_and_fresh_together() {
    let (n, m): (Arc<str>, Arc<str>) = ("n".into(), "m".into());
    let list_watch = |namespace: &Arc<str>| ListWatch {
        target: Target::Kind(Kind::Service),
        namespace: Some(Arc::clone(namespace)),
        only: Only::All,
    };
    let mut state = State::new(&Scope::All, &[list_watch(&n), list_watch(&m)]);
    let mut read = |namespace: &Arc<str>, events| {
        state.handle(Kind::Service, Some(namespace), events);
        told(&mut state)
    };
    assert_eq!(read(&n, vec![Event::ListStarted, put(&config("n", "a", 1)), Event::ListComplete]), "put Service n/a");
    let list = vec![Event::ListStarted, put(&config("m", "a", 2)), Event::ListComplete];
    assert_eq!(read(&m, list), "put Service m/a, synced Service");
    assert_eq!(read(&m, vec![Event::ListStarted, Event::ListComplete]), "remove Service m/a, synced Service");
    assert_eq!(read(&n, vec![broken("x")]), "stale Service: x");
    assert_eq!(read(&m, vec![broken("x")]), "");
    assert_eq!(read(&n, vec![Event::Recovered]), "");
    assert_eq!(read(&m, vec![Event::Recovered]), "fresh Service");
    assert_eq!(read(&n, vec![Event::NotServed]), "remove Service n/a, synced Service");
    assert_eq!(read(&m, vec![Event::NotServed]), "absent Service");
}

#[test]
fn objects_of_a_namespace_come_and_go_with_its_labels() {
    let mut state = state(&scope(), &[Kind::Service, Kind::Namespace]);
    let label = |state: &mut State, object: &Value| {
        state.handle(Kind::Namespace, None, vec![event(Kind::Namespace, "ADDED", object)]);
        told(state)
    };
    assert_eq!(label(&mut state, &namespace("ours", "a", 1)), "put Namespace ours");
    assert_eq!(label(&mut state, &namespace("theirs", "b", 2)), "");
    let (ours, theirs) = (config("ours", "c", 3), config("theirs", "c", 4));
    assert_eq!(
        read(&mut state, vec![Event::ListStarted, put(&ours), put(&theirs), Event::ListComplete]),
        "put Service ours/c, synced Service"
    );
    assert_eq!(state.take_commands(), []);

    assert_eq!(label(&mut state, &namespace("theirs", "a", 5)), "put Namespace theirs");
    let list_watch =
        ListWatch { target: Target::Kind(Kind::Service), namespace: Some("theirs".into()), only: Only::All };
    assert_eq!(state.take_commands(), [Command::Fetch(1, list_watch)]);
    state.fetched(1, vec![watched(Kind::Service, &theirs)]);
    assert_eq!(told(&mut state), "put Service theirs/c");

    assert_eq!(label(&mut state, &namespace("ours", "b", 6)), "remove Service ours/c, remove Namespace ours");
    assert_eq!(read(&mut state, vec![put(&config("ours", "c", 7))]), "");
    assert_eq!(read(&mut state, vec![gone(&ours)]), "");
    assert_eq!(label(&mut state, &namespace("ours", "a", 8)), "put Namespace ours");
    assert_eq!(state.take_commands(), [], "nothing is there to be read");
}

#[test]
fn what_was_fetched_yields_to_what_the_watch_said_meanwhile() {
    let mut state = state(&scope(), &[Kind::Service, Kind::Namespace]);
    let objects = ["changed", "deleted", "same"].map(|name| config("n", name, 1));
    read(
        &mut state,
        [Event::ListStarted].into_iter().chain(objects.iter().map(put)).chain([Event::ListComplete]).collect(),
    );
    state.handle(Kind::Namespace, None, vec![event(Kind::Namespace, "ADDED", &namespace("n", "a", 2))]);
    assert_eq!(told(&mut state), "put Namespace n");
    assert_eq!(read(&mut state, vec![put(&config("n", "changed", 3))]), "put Service n/changed");
    assert_eq!(read(&mut state, vec![gone(&objects[1])]), "");
    state.fetched(1, objects.iter().map(|object| watched(Kind::Service, object)).collect());
    assert_eq!(told(&mut state), "put Service n/same");
}

#[test]
fn what_was_fetched_before_a_list_began_does_not_outlive_it() {
    let mut state = state(&scope(), &[Kind::Service, Kind::Namespace]);
    let object = config("n", "deleted", 1);
    read(&mut state, vec![Event::ListStarted, put(&object), Event::ListComplete]);
    state.handle(Kind::Namespace, None, vec![event(Kind::Namespace, "ADDED", &namespace("n", "a", 2))]);
    told(&mut state);
    assert_eq!(read(&mut state, vec![Event::ListStarted]), "");
    state.fetched(1, vec![watched(Kind::Service, &object)]);
    assert_eq!(told(&mut state), "");
    assert_eq!(read(&mut state, vec![Event::ListComplete]), "");
    state.fetched(2, Vec::new());
    assert_eq!(told(&mut state), "synced Service");
}

#[test]
fn a_kind_is_synced_only_when_what_is_fetched_has_come() {
    let mut state = state(&scope(), &[Kind::Service, Kind::Namespace]);
    let object = config("n", "c", 1);
    read(&mut state, vec![Event::ListStarted, put(&object)]);
    state.handle(Kind::Namespace, None, vec![event(Kind::Namespace, "ADDED", &namespace("n", "a", 2))]);
    told(&mut state);
    assert_eq!(read(&mut state, vec![Event::ListComplete]), "");
    let commands = state.take_commands();
    assert!(matches!(commands[..], [Command::Fetch(1, _), Command::Cancel(1), Command::Fetch(2, _)]), "{commands:?}");
    state.fetched(1, Vec::new());
    assert_eq!(told(&mut state), "");
    state.fetched(2, vec![watched(Kind::Service, &object)]);
    assert_eq!(told(&mut state), "put Service n/c, synced Service");
}
