use serde_json::{Value, json};

use super::*;

fn decoder(kind: Kind) -> Decoder {
    Decoder::new(Target::Kind(kind))
}

fn line(kind: Kind, event: &Value) -> (Line, Option<String>) {
    decoder(kind).line(event.to_string().as_bytes()).expect("a line")
}

fn route(version: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": { "name": "r", "namespace": "n", "uid": "u", "resourceVersion": version },
        "spec": { "rules": rules }, "status": { "parents": [ { "controllerName": "a/b" } ] },
    })
}

#[test]
fn an_object_comes_with_what_is_stored_beside_its_spec() {
    let event = json!({ "type": "ADDED", "object": route("7", &json!([{}])) });
    let (Line::Applied(WatchedObject { name, payload: Payload::Object { object, stored }, .. }), version) =
        line(Kind::HttpRoute, &event)
    else {
        panic!("no object")
    };
    assert_eq!((&*name.namespace, &*name.name, version.as_deref()), ("n", "r", Some("7")));
    assert_eq!(object.id().to_string(), "HTTPRoute n/r");
    let stored = stored.expect("a status is written to routes");
    assert_eq!((&*stored.uid, &*stored.resource_version), ("u", "7"));
    let status = stored.status.expect("a status");
    assert_eq!(status.get(), r#"{"parents":[{"controllerName":"a/b"}]}"#);
}

#[test]
fn nothing_is_kept_beside_an_object_whose_status_is_not_ours() {
    let event = json!({ "type": "ADDED", "object": { "metadata": { "name": "s", "namespace": "n" }, "status": {} } });
    let (Line::Applied(WatchedObject { payload: Payload::Object { stored, .. }, .. }), _) = line(Kind::Service, &event)
    else {
        panic!("no object")
    };
    assert!(stored.is_none());
}

#[test]
fn a_bookmark_says_whether_all_there_was_has_been_sent() {
    let plain = json!({ "type": "BOOKMARK", "object": { "metadata": { "resourceVersion": "9" }, "spec": {} } });
    let (bookmark, version) = line(Kind::HttpRoute, &plain);
    assert!(matches!(bookmark, Line::Bookmark { listed: false }), "{bookmark:?}");
    assert_eq!(version.as_deref(), Some("9"));
    let mut last = plain;
    last["object"]["metadata"]["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
    let (bookmark, _) = line(Kind::HttpRoute, &last);
    assert!(matches!(bookmark, Line::Bookmark { listed: true }), "{bookmark:?}");
}

#[test]
fn an_error_in_a_watch_says_its_code() {
    let status = json!({ "kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version" });
    let (Line::Error(status), None) = line(Kind::HttpRoute, &json!({ "type": "ERROR", "object": status })) else {
        panic!("no error")
    };
    assert_eq!(status.to_string(), "the API server answered 410: too old resource version");
}

#[test]
fn an_object_that_cannot_be_decoded_is_told_by_name_and_spoils_nothing() {
    let event = json!({ "type": "MODIFIED", "object": route("8", &json!("none")) });
    let (Line::Applied(WatchedObject { name, payload: Payload::Undecodable { why, targets }, .. }), version) =
        line(Kind::HttpRoute, &event)
    else {
        panic!("decodable")
    };
    assert_eq!((&*name.name, version.as_deref(), targets.is_none()), ("r", Some("8"), true));
    assert!(why.starts_with("spec.rules: must be a list"), "{why}");
}

#[test]
fn a_policy_that_cannot_be_decoded_comes_with_its_targets() {
    let policy = json!({
        "metadata": { "name": "p", "namespace": "n", "resourceVersion": "3" },
        "spec": { "targetRefs": [{ "group": "g", "kind": "k", "name": "r" }], "sortMethod": 1 },
    });
    let event = json!({ "type": "ADDED", "object": policy });
    let (Line::Applied(WatchedObject { payload: Payload::Undecodable { targets, .. }, .. }), _) =
        line(Kind::DelegationPolicy, &event)
    else {
        panic!("decodable")
    };
    let (object, stored) = targets.expect("targets");
    assert_eq!(object.id().to_string(), "DelegationPolicy n/p");
    assert_eq!(&*stored.expect("a status is written to policies").resource_version, "3");
}

#[test]
fn an_extension_comes_with_the_fields_that_nobody_knows() {
    let provider = json!({ "name": "p", "audience": ["shop"], "jwks": { "local": { "inline": "{}" } } });
    let extension = json!({
        "metadata": { "name": "e", "namespace": "n", "resourceVersion": "3" }, "spec": { "jwt": { "providers": [provider] } },
    });
    let event = json!({ "type": "ADDED", "object": extension });
    let (Line::Applied(WatchedObject { payload: Payload::Object { object, .. }, .. }), _) =
        line(Kind::GatewayExtension, &event)
    else {
        panic!("no object")
    };
    let refused: Vec<_> = object.refused_fields().into_iter().map(|field| field.path).collect();
    assert_eq!(refused, ["spec.jwt.providers[0].audience"]);
}

#[test]
fn a_secret_that_cannot_be_decoded_is_told_without_what_it_holds() {
    let secret = json!({ "metadata": { "name": "s", "namespace": "n" }, "data": { "password": 271_828 } });
    let line = json!({ "type": "ADDED", "object": secret }).to_string();
    let line = Decoder::new(Target::Content(Kind::Secret)).line(line.as_bytes()).expect("a line");
    let (Line::Applied(WatchedObject { payload: Payload::Undecodable { why, .. }, .. }), _) = line else {
        panic!("decodable")
    };
    assert!(why.starts_with("data.password: must be") && !why.contains("271828"), "{why}");
}

#[test]
fn a_panic_while_one_object_is_decoded_ends_nothing() {
    let mut decoder = decoder(Kind::Service);
    decoder.decode =
        |_, raw| if raw.contains("evil") { panic!("by evil") } else { api::decode_json(Kind::Service, raw) };
    let list = json!({ "metadata": { "resourceVersion": "5" }, "items": [
        { "metadata": { "name": "evil", "namespace": "n" } }, { "metadata": { "name": "good", "namespace": "n" } },
    ] });
    let page = decoder.page(list.to_string().as_bytes()).expect("a page");
    assert!(matches!(page.objects[0].payload, Payload::Undecodable { .. }), "{page:?}");
    assert!(matches!(page.objects[1].payload, Payload::Object { .. }), "{page:?}");
}

#[test]
fn a_page_has_a_version_and_says_what_comes_next() {
    let list = json!({ "metadata": { "resourceVersion": "5", "continue": "t" }, "items": null });
    let page = decoder(Kind::Secret).page(list.to_string().as_bytes()).expect("a page");
    assert_eq!((page.objects.len(), &*page.version, page.next.as_deref()), (0, "5", Some("t")));
    let list = json!({ "metadata": { "resourceVersion": "5", "continue": "" }, "items": [] });
    assert_eq!(decoder(Kind::Secret).page(list.to_string().as_bytes()).expect("a page").next, None);
}

#[test]
fn it_does_not_matter_how_a_line_is_written() {
    let object = route("7", &json!([{}])).to_string();
    let lines = [
        format!(r#"{{"type":"ADDED","object":{object}}}"#),
        format!(r#"{{"type":"MODIFIED","object":{object} }} "#),
        format!(r#"{{"type":"ADDED","object":{object},"more":{{}}}}"#),
        format!(r#"{{ "object": {object}, "type": "ADDED" }}"#),
    ];
    let decoder = decoder(Kind::HttpRoute);
    for line in lines {
        let read = decoder.line(line.as_bytes());
        let Ok((Line::Applied(WatchedObject { payload: Payload::Object { object, .. }, .. }), Some(version))) = read
        else {
            panic!("{line}: {read:?}")
        };
        assert_eq!((object.id().to_string().as_str(), &*version), ("HTTPRoute n/r", "7"), "{line}");
    }
}

#[test]
fn equal_versions_have_equal_numbers() {
    let decoder = decoder(Kind::HttpRoute);
    let version = |text: &str| decoder.object(&route(text, &json!([{}])).to_string()).expect("said").0.version;
    assert_eq!(version("7"), version("7"));
    assert_ne!(version("7"), version("8"));
}

#[test]
fn what_no_api_server_writes_is_an_error() {
    let decoder = decoder(Kind::HttpRoute);
    for line in
        [&b"<html>"[..], b"{}", b"\xff\xfe", br#"{"type":"NEWS","object":{}}"#, br#"{"type":"BOOKMARK","object":1}"#]
    {
        assert!(decoder.line(line).is_err(), "{}", String::from_utf8_lossy(line));
        assert!(decoder.page(line).is_err(), "{}", String::from_utf8_lossy(line));
    }
    let nameless = decoder.line(br#"{"type":"ADDED","object":{"metadata":{}}}"#);
    assert!(matches!(nameless, Ok((Line::Nameless, None))), "{nameless:?}");
}

#[test]
fn a_refusal_that_is_no_status_is_cut_to_what_people_can_read() {
    let page = "<html>".repeat(1000);
    let status = Status::of(502, page.as_bytes());
    assert_eq!((status.code, status.message.len()), (502, 200));
    assert_eq!(Status::of(503, b"").to_string(), "the API server answered 503");
}
