use ir::Settings;

use translate::Translator;

use super::*;
use crate::{
    guarded::Guarded,
    testing::{Memory, world},
};

/// The world of the tests, with a route beside it whose backend is not there.
fn translator() -> Translator {
    let broken = world(80)
        .replace("name: app, port: 80", "name: gone, port: 80")
        .replace("{name: app, namespace: web}", "{name: broken, namespace: web}");
    let broken = broken.split("---\n").last().expect("a route").to_owned();
    let mut files = Memory::default();
    let changes = [files.write("a.yaml", &world(80)).changes, files.write("b.yaml", &broken).changes].concat();
    let mut translator = Translator::new(Settings::default());
    for change in changes {
        translator.apply(change);
    }
    translator.settle();
    translator
}

fn selection(namespace: Option<&str>, kind: Option<Kind>, name: Option<&str>) -> Selection {
    Selection { namespace: namespace.map(Into::into), kind, name: name.map(Into::into) }
}

#[test]
fn a_broken_route_is_reported_with_field_reason_and_who_must_act() {
    let report = StatusReport::of(&translator().reports(), &Selection::default());
    let text = report.to_string();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "HTTPRoute web/broken: the owner of HTTPRoute web/broken must act");
    assert!(lines[1].starts_with("  replaced: spec.rules[0].backendRefs[0]"), "{text}");
    assert!(lines[1].ends_with("(BackendNotFound)"), "{text}");
    assert_eq!(lines[2], "0 refused, 1 replaced, 0 ignored, 0 warnings");
    assert!(report.fails());
}

#[test]
fn what_is_asked_for_is_reported_and_nothing_else() {
    let translator = translator();
    let problems = |selection| StatusReport::of(&translator.reports(), &selection).problems.len();
    assert_eq!(problems(selection(Some("web"), None, None)), 1);
    assert_eq!(problems(selection(Some("other"), None, None)), 0);
    assert_eq!(problems(selection(None, Some(Kind::HttpRoute), None)), 1);
    assert_eq!(problems(selection(None, Some(Kind::Gateway), None)), 0);
    assert_eq!(problems(selection(Some("web"), Some(Kind::HttpRoute), Some("app"))), 0);
    let class = ObjectId::new(Kind::GatewayClass, "", "portcullis");
    assert!(selection(Some("web"), Some(Kind::GatewayClass), Some("portcullis")).takes(&class), "it has no namespace");
    assert!(!selection(Some("web"), None, None).takes(&class));
}

#[test]
fn an_object_that_is_asked_for_by_name_is_reported_with_its_conditions() {
    let report = StatusReport::of(&translator().reports(), &selection(Some("web"), Some(Kind::HttpRoute), Some("app")));
    let text = report.to_string();
    assert!(text.starts_with("HTTPRoute web/app\n"), "{text}");
    assert!(text.contains("  Accepted=True (Accepted) at Gateway edge\n"), "{text}");
    assert!(!report.fails());
    assert!(!serde_json::to_string(&report).expect("JSON").contains("lastTransitionTime"));
}

#[test]
fn what_comes_back_from_json_is_the_same_report() {
    let mut report = StatusReport::of(&translator().reports(), &selection(None, None, Some("broken")));
    report.unread([(Kind::Secret, "forbidden")]);
    report.definitions.extend(super::super::definitions::compare(Kind::HttpRoute, None));
    let json = serde_json::to_string(&report).expect("JSON");
    assert_eq!(serde_json::from_str::<StatusReport>(&json).expect("a report"), report);
    let text = report.to_string();
    assert!(
        text.contains("! Secret cannot be read") && text.contains("httproutes.gateway.networking.k8s.io"),
        "{text}"
    );
}

#[test]
fn a_policy_that_cannot_be_there_is_no_failure_and_a_route_that_cannot_is_one() {
    let without = |kind| {
        let definitions = super::super::definitions::compare(kind, None).into_iter().collect();
        StatusReport { definitions, ..StatusReport::default() }
    };
    assert!(!without(Kind::TrafficPolicy).fails());
    assert!(without(Kind::HttpRoute).fails());
}

#[test]
fn half_of_the_truth_is_no_success() {
    let mut report = StatusReport::default();
    assert!(!report.fails());
    report.unread([(Kind::Secret, "forbidden")]);
    assert!(report.fails());
}

#[test]
fn what_cannot_be_decoded_is_reported_on_its_object() {
    let mut snapshot = ClusterSnapshot {
        translator: Guarded::new(Settings::default()),
        unread: [].into(),
        objects: [].into(),
        undecodable: [].into(),
    };
    let mut files = Memory::default();
    for change in files.write("a.yaml", &world(80)).changes {
        snapshot.translator.apply(change, 0);
    }
    snapshot.translator.settle();
    snapshot
        .undecodable
        .insert(ObjectId::new(Kind::HttpRoute, "web", "odd"), "it cannot be decoded: a port is text".into());
    let report = StatusReport::of_snapshot(&snapshot, &Selection::default());
    assert_eq!(report.problems.len(), 1);
    assert!(report.to_string().contains("HTTPRoute web/odd"), "{report}");
}
