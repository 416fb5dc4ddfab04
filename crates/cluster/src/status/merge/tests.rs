#![allow(clippy::unwrap_used, reason = "a test that unwraps nothing fails there")]

use serde_json::json;

use super::*;

const US: &str = "portcullis.dev/controller";
const THEM: &str = "example.com/other";
const NOW: &str = "2026-01-01T00:00:00Z";
const THEN: &str = "2025-06-01T12:00:00Z";

fn merged(kind: Kind, stored: &Value, desired: Desired<'_>) -> Option<Value> {
    let stored = (!stored.is_null()).then(|| stored.to_string());
    let patch = merge(kind, stored.as_deref(), desired, US, NOW.parse().unwrap())?;
    Some(serde_json::from_str(&patch).unwrap())
}

fn is(kind: Kind, stored: &Value, desired: &Value) -> Option<Value> {
    merged(kind, stored, Desired::Is(desired))
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status, "reason": "Because", "message": "words", "observedGeneration": 1})
}

fn since(mut condition: Value, time: &str) -> Value {
    condition["lastTransitionTime"] = time.into();
    condition
}

fn parent(controller: &str, name: &str, conditions: &[Value]) -> Value {
    let reference = json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": name});
    json!({"parentRef": reference, "controllerName": controller, "conditions": conditions})
}

fn yes(controller: &str, name: &str, time: Option<&str>) -> Value {
    let condition = condition("Accepted", "True");
    parent(controller, name, &[time.map_or(condition.clone(), |time| since(condition, time))])
}

#[test]
fn a_first_status_gets_the_time_of_now() {
    let patch = is(Kind::HttpRoute, &Value::Null, &json!({"parents": [yes(US, "a", None)]}));
    assert_eq!(patch, Some(json!({"parents": [yes(US, "a", Some(NOW))]})));
}

#[test]
fn what_is_there_already_is_not_written() {
    let stored = json!({"parents": [yes(US, "a", Some(THEN)), yes(THEM, "b", Some(THEN)), yes(US, "c", Some(THEN))]});
    let desired = json!({"parents": [yes(US, "c", None), yes(US, "a", None)]});
    assert_eq!(is(Kind::HttpRoute, &stored, &desired), None);
    assert_eq!(merged(Kind::HttpRoute, &Value::Null, Desired::Nothing(None)), None);
}

#[test]
fn entries_of_others_stay_byte_for_byte_in_their_places() {
    let first = r#"{"controllerName" : "example.com/other", "z":1,"a": 1.50 , "conditions":[]}"#;
    let last = r#"{ "parentRef":{"name":"b"},"controllerName":"example.com/third"}"#;
    let own = yes(US, "gone", Some(THEN));
    let stored = format!(r#"{{"parents":[{first},{own},{last}],"more":{{}}}}"#);
    let desired = json!({"parents": [yes(US, "new", None)]});
    let patch = merge(Kind::HttpRoute, Some(&stored), Desired::Is(&desired), US, NOW.parse().unwrap());
    assert_eq!(patch.unwrap(), format!(r#"{{"parents":[{first},{last},{}]}}"#, yes(US, "new", Some(NOW))));
    let patch = merge(Kind::HttpRoute, Some(&stored), Desired::Nothing(None), US, NOW.parse().unwrap());
    assert_eq!(patch.unwrap(), format!(r#"{{"parents":[{first},{last}]}}"#));
}

#[test]
fn only_what_turned_gets_another_time() {
    let stored = json!({"parents": [
        parent(US, "a", &[since(condition("Accepted", "True"), THEN), since(condition("ResolvedRefs", "True"), THEN)]),
    ]});
    let mut refs = condition("ResolvedRefs", "False");
    refs["message"] = "other words".into();
    let mut accepted = condition("Accepted", "True");
    accepted["observedGeneration"] = 2.into();
    let desired = json!({"parents": [parent(US, "a", &[accepted.clone(), refs.clone()])]});
    let expected = json!({"parents": [parent(US, "a", &[since(accepted, THEN), since(refs, NOW)])]});
    assert_eq!(is(Kind::HttpRoute, &stored, &desired), Some(expected));
}

#[test]
fn references_are_told_apart_by_every_field() {
    let mut section = yes(US, "a", None);
    section["parentRef"]["sectionName"] = "http".into();
    let stored = json!({"parents": [yes(US, "a", Some(THEN))]});
    let patch = is(Kind::HttpRoute, &stored, &json!({"parents": [section.clone()]})).unwrap();
    section["conditions"][0]["lastTransitionTime"] = NOW.into();
    assert_eq!(patch, json!({"parents": [section]}));
}

#[test]
fn what_the_schema_adds_is_no_difference() {
    let mut short = yes(US, "a", None);
    short["parentRef"] = json!({"name": "a"});
    let stored = json!({"parents": [yes(US, "a", Some(THEN))]});
    assert_eq!(is(Kind::HttpRoute, &stored, &json!({"parents": [short]})), None);
}

#[test]
fn an_entry_that_is_there_twice_is_there_once() {
    let stored = json!({"parents": [yes(US, "a", Some(THEN)), yes(US, "a", Some(THEN))]});
    let desired = json!({"parents": [yes(US, "a", None), yes(US, "a", None)]});
    assert_eq!(is(Kind::HttpRoute, &stored, &desired), Some(json!({"parents": [yes(US, "a", Some(THEN))]})));
}

#[test]
fn ours_are_cut_where_there_is_no_room_and_others_never() {
    let others: Vec<_> = (0..15).map(|n| ancestor(THEM, &format!("t{n}"), Some(THEN))).collect();
    let desired = json!({"ancestors": (0..16).map(|n| ancestor(US, &format!("u{n}"), None)).collect::<Vec<_>>()});
    let patch = is(Kind::TrafficPolicy, &json!({"ancestors": others}), &desired).unwrap();
    let mut expected = others.clone();
    expected.push(ancestor(US, "u0", Some(NOW)));
    assert_eq!(patch, json!({"ancestors": expected}));
    assert_eq!(is(Kind::TrafficPolicy, &patch, &desired), None, "what was cut is not tried again");

    let full: Vec<_> = (0..16).map(|n| ancestor(THEM, &format!("t{n}"), Some(THEN))).collect();
    assert_eq!(is(Kind::TrafficPolicy, &json!({"ancestors": full}), &desired), None);
    let parents = json!({"parents": (0..40).map(|n| yes(US, &n.to_string(), None)).collect::<Vec<_>>()});
    let patch = is(Kind::HttpRoute, &Value::Null, &parents).unwrap();
    assert_eq!(patch["parents"].as_array().map(Vec::len), Some(32));
}

fn ancestor(controller: &str, name: &str, time: Option<&str>) -> Value {
    let mut entry = yes(controller, name, time);
    let reference = entry["parentRef"].take();
    entry.as_object_mut().unwrap().remove("parentRef");
    entry["ancestorRef"] = reference;
    entry
}

#[test]
fn an_entry_that_says_nothing_is_not_written() {
    assert_eq!(is(Kind::HttpRoute, &Value::Null, &json!({"parents": [parent(US, "a", &[])]})), None);
}

fn listener(name: &str, routes: i64, conditions: &[Value]) -> Value {
    let kinds = json!([{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}]);
    json!({"name": name, "supportedKinds": kinds, "attachedRoutes": routes, "conditions": conditions})
}

fn gateway(time: Option<&str>) -> Value {
    let condition = |kind: &str| {
        let condition = condition(kind, "True");
        time.map_or(condition.clone(), |time| since(condition, time))
    };
    json!({
        "addresses": [{"type": "IPAddress", "value": "192.0.2.1"}],
        "conditions": [condition("Accepted"), condition("Programmed")],
        "listeners": [listener("http", 1, &[condition("Accepted")]), listener("https", 0, &[condition("Accepted")])],
    })
}

#[test]
fn a_gateway_that_waits_for_its_controller_gets_its_status() {
    let pending = json!({"type": "Accepted", "status": "Unknown", "reason": "Pending", "message": "Waiting"});
    let stored = json!({"conditions": [since(pending, "1970-01-01T00:00:00Z")]});
    let patch = is(Kind::Gateway, &stored, &gateway(None));
    assert_eq!(patch, Some(gateway(Some(NOW))));
    assert_eq!(is(Kind::Gateway, &gateway(Some(THEN)), &gateway(None)), None);
}

#[test]
fn only_the_lists_of_a_gateway_that_turned_are_written() {
    let mut desired = gateway(None);
    desired["listeners"][1]["attachedRoutes"] = 5.into();
    let patch = is(Kind::Gateway, &gateway(Some(THEN)), &desired).unwrap();
    assert_eq!(patch.as_object().unwrap().keys().collect::<Vec<_>>(), ["listeners"]);
    desired["listeners"][1]["conditions"][0]["lastTransitionTime"] = THEN.into();
    desired["listeners"][0]["conditions"][0]["lastTransitionTime"] = THEN.into();
    assert_eq!(patch["listeners"], desired["listeners"]);
}

#[test]
fn conditions_of_others_on_a_gateway_stay_and_ours_that_are_over_go() {
    let mut stored = gateway(Some(THEN));
    let foreign = since(condition("example.com/Checked", "False"), THEN);
    stored["conditions"].as_array_mut().unwrap().insert(0, foreign.clone());
    stored["conditions"].as_array_mut().unwrap().push(since(condition("ResolvedRefs", "False"), THEN));
    stored["listeners"][0]["conditions"].as_array_mut().unwrap().insert(0, foreign.clone());
    let mut desired = gateway(None);
    desired["listeners"][0]["attachedRoutes"] = 2.into();
    let patch = is(Kind::Gateway, &stored, &desired).unwrap();
    let then = gateway(Some(THEN));
    assert_eq!(patch["conditions"], json!([foreign, then["conditions"][0], then["conditions"][1]]));
    assert_eq!(patch["listeners"][0]["conditions"], json!([foreign, then["listeners"][0]["conditions"][0]]));
    assert_eq!(patch["listeners"][1], then["listeners"][1]);
}

#[test]
fn a_listener_that_is_gone_and_addresses_that_are_gone_go() {
    let mut desired = gateway(None);
    desired["listeners"].as_array_mut().unwrap().remove(1);
    desired.as_object_mut().unwrap().remove("addresses");
    let patch = is(Kind::Gateway, &gateway(Some(THEN)), &desired).unwrap();
    let then = gateway(Some(THEN));
    assert_eq!(patch, json!({"addresses": null, "listeners": [then["listeners"][0]]}));
}

#[test]
fn a_gateway_that_is_not_ours_any_more_loses_what_still_says_what_we_said() {
    let before = gateway(None);
    let all = merged(Kind::Gateway, &gateway(Some(THEN)), Desired::Nothing(Some(&before)));
    assert_eq!(all, Some(json!({"addresses": null, "conditions": null, "listeners": null})));

    let mut theirs = gateway(Some(THEN));
    theirs["conditions"][0]["message"] = "theirs".into();
    theirs["listeners"][1]["attachedRoutes"] = 9.into();
    theirs["addresses"][0]["value"] = "192.0.2.2".into();
    let patch = merged(Kind::Gateway, &theirs, Desired::Nothing(Some(&before)));
    assert_eq!(patch, Some(json!({"conditions": [theirs["conditions"][0]], "listeners": [theirs["listeners"][1]]})));
    assert_eq!(merged(Kind::Gateway, &theirs, Desired::Nothing(None)), None, "never ours");
}

#[test]
fn features_of_a_class_are_there_once() {
    let desired = json!({
        "conditions": [condition("Accepted", "True")],
        "supportedFeatures": [{"name": "A"}, {"name": "A"}, {"name": "B"}],
    });
    let patch = is(Kind::GatewayClass, &Value::Null, &desired).unwrap();
    assert_eq!(patch["supportedFeatures"], json!([{"name": "A"}, {"name": "B"}]));
    assert_eq!(is(Kind::GatewayClass, &patch, &desired), None);
}

#[test]
fn ancestors_of_other_controllers_are_counted() {
    let entry =
        |controller: &str| json!({"ancestorRef": {"name": "g"}, "controllerName": controller, "conditions": []});
    for (status, count) in [
        (json!({}), 0),
        (json!({"ancestors": "none"}), 0),
        (json!({"ancestors": [entry(US), entry(THEM), entry("example.com/third"), {}]}), 3),
    ] {
        assert_eq!(foreign_ancestors(&status.to_string(), US), count, "{status}");
    }
}
