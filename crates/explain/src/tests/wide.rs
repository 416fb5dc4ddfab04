//! What is said of policies on Gateways and listeners.

use ir::GATEWAY_API;
use serde_json::{Value, json};
use translate::testing::scene::{Scene, forward, gateway, http, https, route, secret, service};

use super::get;

fn policy(namespace: &str, name: &str, target: (&str, &str), section: Option<&str>, spec: &Value) -> Value {
    let (kind, target) = target;
    let mut policy = json!({
        "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
        "metadata": {"namespace": namespace, "name": name}, "spec": spec,
    });
    policy["spec"]["targetRefs"] =
        json!([{"group": GATEWAY_API, "kind": kind, "name": target, "sectionName": section}]);
    policy
}

/// What is said of a field of a policy: its value, whose it is, and who is not heard.
fn said(scene: &Scene, url: &str, field: &str) -> Option<(String, Vec<String>, Vec<String>)> {
    let effects = get(scene, url).effects.into_iter();
    effects.filter(|effect| effect.what == field).map(|effect| (effect.value, effect.from, effect.overridden)).next()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("TrafficPolicy {name}")).collect()
}

#[test]
fn what_a_gateway_prefers_or_merges_is_told_with_its_word() {
    let edge = |mode: &str| {
        let mut edge = gateway("edge", json!([http("plain", 80, "")]));
        edge["metadata"]["annotations"] = json!({"kgateway.dev/inherited-policy-priority": mode});
        edge
    };
    let headers = |value: &str| json!({"request": {"set": [{"name": "x", "value": value}]}});
    let said_by = |mode: &str, field: &str| {
        let of = |namespace: &str, name: &str, target: (&str, &str), bytes: u32| {
            let spec = json!({
                "buffer": {"maxRequestSize": bytes}, "headerModifiers": headers(name),
                "timeouts": {"request": format!("{bytes}s")},
            });
            policy(namespace, name, target, None, &spec)
        };
        let scene = Scene::new([
            edge(mode),
            service("s"),
            route("shop", json!({"hostnames": ["shop.example.com"], "rules": [forward("/")]})),
            of("infra", "gateway", ("Gateway", "edge"), 16),
            of("apps", "route", ("HTTPRoute", "shop"), 32),
        ]);
        let effects = get(&scene, "http://shop.example.com/").effects.into_iter();
        let effect = effects.into_iter().find(|effect| effect.what == field).expect("an effect");
        (effect.value, effect.from, effect.overridden, effect.by)
    };
    let word = |mode: &str| vec![format!("{mode} of Gateway infra/edge")];
    let (shallow, deep) = ("ShallowMergePreferParent", "DeepMergePreferParent");
    for mode in [shallow, deep] {
        let (value, from, overridden, by) = said_by(mode, "buffer");
        assert!(value.contains("16 bytes"), "{value}");
        assert_eq!((from, overridden, by), (names(&["infra/gateway"]), names(&["apps/route"]), word(mode)), "{mode}");
        let (value, from, _, by) = said_by(mode, "timeouts");
        assert!(value.starts_with("request 16s"), "{value}");
        assert!(from.contains(&names(&["infra/gateway"])[0]), "{from:?}");
        assert_eq!(by, word(mode));
    }
    let (value, from, overridden, by) = said_by(deep, "headerModifiers");
    assert_eq!(value, "request: set x: route, set x: gateway");
    assert_eq!((from, overridden, by), (names(&["apps/route", "infra/gateway"]), Vec::new(), word(deep)));
    let (_, from, overridden, by) = said_by("Sometimes", "buffer");
    assert_eq!((from, overridden, by), (names(&["apps/route"]), names(&["infra/gateway"]), Vec::new()));
}

#[test]
fn what_holds_is_told_with_the_policy_of_the_gateway_listener_or_rule_that_says_it() {
    let rules = json!([
        forward("/plain"),
        {"name": "off", "matches": [{"path": {"value": "/off"}}], "backendRefs": [{"name": "s", "port": 80}]},
    ]);
    let limit = |bytes: u32| json!({"buffer": {"maxRequestSize": bytes}, "timeouts": {"request": format!("{bytes}s")}});
    let scene = Scene::new([
        gateway("edge", json!([http("plain", 80, ""), http("own", 81, ""), https("secure", 443, "", "cert")])),
        secret("cert"),
        service("s"),
        route("shop", json!({"hostnames": ["shop.example.com"], "rules": rules})),
        policy("infra", "gateway", ("Gateway", "edge"), None, &limit(16)),
        policy("infra", "listener", ("Gateway", "edge"), Some("own"), &limit(32)),
        policy("apps", "rule", ("HTTPRoute", "shop"), Some("off"), &json!({"buffer": {"disable": {}}})),
    ]);
    let size = |bytes| format!("requests of at most {bytes} bytes, read whole");
    for (url, value, from, overridden) in [
        ("http://shop.example.com/plain", size(16), &["infra/gateway"][..], &[][..]),
        ("https://shop.example.com/plain", size(16), &["infra/gateway"], &[]),
        ("http://shop.example.com:81/plain", size(32), &["infra/listener"], &["infra/gateway"]),
        ("http://shop.example.com/off", "off".into(), &["apps/rule"], &["infra/gateway"]),
        ("http://shop.example.com:81/off", "off".into(), &["apps/rule"], &["infra/listener", "infra/gateway"]),
    ] {
        assert_eq!(said(&scene, url, "buffer"), Some((value, names(from), names(overridden))), "{url}");
    }
    for (url, request, from, overridden) in [
        ("http://shop.example.com/off", "request 16s", "infra/gateway", &[][..]),
        ("https://shop.example.com/plain", "request 16s", "infra/gateway", &[]),
        ("http://shop.example.com:81/plain", "request 32s", "infra/listener", &["infra/gateway"]),
    ] {
        let (value, by, others) = said(&scene, url, "timeouts").expect("a timeout");
        assert!(value.starts_with(request), "{url}: {value}");
        assert_eq!((by, others), (names(&[from]), names(overridden)), "{url}");
    }
}

#[test]
fn who_is_heard_is_not_told_as_one_who_is_not_and_each_is_told_once() {
    let mut edge = gateway("edge", json!([http("plain", 80, "")]));
    edge["metadata"]["annotations"] = json!({"kgateway.dev/inherited-policy-priority": "DeepMergePreferChild"});
    let cors = |field: &str, value: Value| json!({"cors": {field: value}});
    let origins = cors("allowOrigins", json!(["https://a.example"]));
    // Where a route says nothing the listener's holds, and the Gateway's does not.
    let scene = Scene::new([
        edge,
        service("s"),
        route("shop", json!({"hostnames": ["shop.example.com"], "rules": [forward("/")]})),
        policy("infra", "gateway", ("Gateway", "edge"), None, &origins),
        policy("infra", "listener", ("Gateway", "edge"), Some("plain"), &cors("disable", json!({}))),
        policy("apps", "route", ("HTTPRoute", "shop"), None, &cors("allowMethods", json!(["PUT"]))),
    ]);
    let (_, from, overridden) = said(&scene, "http://shop.example.com/", "cors").expect("an effect");
    assert_eq!((from, overridden), (names(&["apps/route", "infra/gateway"]), names(&["infra/listener"])));
}
