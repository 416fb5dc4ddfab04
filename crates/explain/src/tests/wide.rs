//! What is said of policies on Gateways and listeners.

use ir::{GATEWAY_API, NsName, Reason, RootId, Settings};
use serde_json::{Value, json};
use translate::{
    FreezeTold, Wish, root_object,
    testing::scene::{Scene, forward, gateway, http, https, route, secret, service},
};

use super::get;
use crate::tree::tree;

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

/// Has what belongs to a root be kept as it is, and says so of another version of it.
fn freeze(scene: &mut Scene, root: &RootId, reason: Reason, message: &str) {
    let Wish::Kept(candidate) = scene.0.wish(root) else { panic!("nobody asks for {root} to be kept") };
    assert!(candidate.is_good(), "{:?}", candidate.first);
    scene.0.set_edition(root, Some(&candidate.edition));
    let told = FreezeTold { is_frozen: true, reason, message: message.into() };
    scene.0.set_frozen(&root_object(root), Some(told));
    scene.0.settle();
}

#[test]
fn what_is_served_as_it_was_kept_is_told_with_why_it_is_not_what_is_there_now() {
    let mut settings = Settings::default();
    settings.freeze.enabled = true;
    let mut edge = gateway("edge", json!([http("plain", 80, ""), http("own", 81, "")]));
    edge["metadata"]["annotations"] = json!({"portcullis.dev/failure-mode": "FreezeConfig"});
    let limit = |bytes: u32| json!({"buffer": {"maxRequestSize": bytes}});
    let on_gateway = |name: &str, spec: Value| policy("infra", name, ("Gateway", "edge"), None, &spec);
    let keeps = json!({"apiVersion": "gateway.portcullis.dev/v1alpha1", "kind": "DelegationPolicy",
        "metadata": {"namespace": "apps", "name": "keeps"},
        "spec": {"targetRefs": [{"group": GATEWAY_API, "kind": "HTTPRoute", "name": "shop"}], "failureMode": "FreezeConfig"}});
    let objects = [
        edge,
        service("s"),
        route("shop", json!({"hostnames": ["shop.example.com"], "rules": [forward("/")]})),
        keeps,
        on_gateway("limit", limit(16)),
        policy("infra", "more", ("Gateway", "edge"), Some("own"), &limit(32)),
    ];
    let mut scene = Scene::with(settings, objects);
    let url = "http://shop.example.com/";
    let before = tree(&scene.0).to_string();
    assert!(get(&scene, url).frozen.is_empty());
    let (gateway, shop) = (RootId::Gateway(NsName::new("infra", "edge")), RootId::Route(NsName::new("apps", "shop")));
    freeze(&mut scene, &gateway, Reason::PoliciesBroken, "edition 1 is served, since TrafficPolicy infra/broken is");
    freeze(&mut scene, &shop, Reason::Hold, "edition 2 is served");
    scene.put(on_gateway("limit", limit(64)));
    scene.put(on_gateway("broken", json!({"extAuth": {}})));
    let explained = get(&scene, url);
    let told = [
        "Hold: edition 2 is served (HTTPRoute apps/shop)",
        "PoliciesBroken: edition 1 is served, since TrafficPolicy infra/broken is (Gateway infra/edge)",
    ];
    assert_eq!(explained.frozen.iter().map(ToString::to_string).collect::<Vec<_>>(), told);
    let (value, from, _) = said(&scene, url, "buffer").expect("an effect");
    assert!(value.contains("16 bytes"), "{value}");
    assert_eq!(from, names(&["infra/limit"]));
    let text = explained.to_string();
    assert!(told.iter().all(|told| text.contains(&format!("           ! {told}\n"))), "{text}");
    // The tree is that from before, and says the same.
    let now = tree(&scene.0).to_string();
    let others = |line: &&str| !told.iter().any(|told| line.contains(told));
    assert_eq!(now.lines().filter(others).collect::<Vec<_>>(), before.lines().collect::<Vec<_>>(), "{now}");
    assert!(told.iter().all(|told| now.contains(&format!("! {told}\n"))), "{now}");
}

#[test]
fn the_tree_tells_whose_policies_hold_at_a_gateway_and_what_is_otherwise_at_a_listener() {
    let limit = |bytes: u32| json!({"buffer": {"maxRequestSize": bytes}});
    let on = |name: &str, section, spec: Value| policy("infra", name, ("Gateway", "edge"), section, &spec);
    let mut scene = Scene::new([
        gateway("edge", json!([http("plain", 80, ""), http("own", 81, "")])),
        on("all", None, json!({"buffer": {"maxRequestSize": 16}, "timeouts": {"request": "1s"}})),
        on("more", Some("own"), limit(32)),
    ]);
    assert_eq!(
        tree(&scene.0).to_string(),
        "\
Gateway infra/edge
  timeouts, from TrafficPolicy infra/all
  buffer, from TrafficPolicy infra/all
  listener plain (HTTP 80, *)
    no routes
  listener own (HTTP 81, *)
    buffer, from TrafficPolicy infra/more, not TrafficPolicy infra/all
    no routes
"
    );
    scene.put(on("more", Some("own"), json!({"extAuth": {}})));
    scene.put(on("all", None, json!({"extAuth": {}})));
    let text = tree(&scene.0).to_string();
    for (place, reason) in [("\n  ! ", "GatewayReplaced"), ("\n    ! ", "ListenerReplaced")] {
        assert!(text.contains(&format!("{place}{reason}: TrafficPolicy infra/")), "{text}");
    }
}
