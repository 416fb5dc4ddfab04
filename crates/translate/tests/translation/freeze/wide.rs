//! Gateways that keep the last good version of their policies.

use std::collections::BTreeSet;

use api::{Kind, ObjectId};
use envoy::ResourceKind;

use super::{
    super::{
        policies::{at, at_section},
        scene::{at_set, hosting, listener_set},
    },
    *,
};

pub(super) const FAILURE_MODE: &str = "portcullis.dev/failure-mode";
const CONFIGS: [&str; 2] = ["http/80", "http/81"];

fn id() -> RootId {
    RootId::Gateway(NsName::new("infra", "edge"))
}

pub(super) fn asking(mut gateway: Value, mode: &str) -> Value {
    gateway["metadata"]["annotations"][FAILURE_MODE] = json!(mode);
    gateway
}

fn listeners() -> Value {
    json!([http("web", 80, ""), http("more", 81, "")])
}

/// The Gateway as it asks for its policies to be kept.
fn freezing() -> Value {
    asking(gateway("edge", listeners()), "FreezeConfig")
}

pub(super) fn wide(name: &str, target: Value, spec: Value) -> Value {
    let mut policy = policy("TrafficPolicy", name, with(target, spec));
    policy["metadata"]["namespace"] = json!("infra");
    policy
}

pub(super) fn at_edge() -> Value {
    at("Gateway", "edge")
}

pub(super) fn at_web() -> Value {
    at_section("Gateway", "edge", "web")
}

pub(super) fn at_labelled() -> Value {
    json!({"targetSelectors": [{"group": GROUP, "kind": "Gateway", "matchLabels": {"public": "yes"}}]})
}

pub(super) fn labelled(mut gateway: Value) -> Value {
    gateway["metadata"]["labels"] = json!({"public": "yes"});
    gateway
}

fn on_gateway(name: &str, spec: Value) -> Value {
    wide(name, at("Gateway", "edge"), spec)
}

fn on_listener(name: &str, listener: &str, spec: Value) -> Value {
    wide(name, at_section("Gateway", "edge", listener), spec)
}

fn auth(user: &str) -> Value {
    json!({"basicAuth": {"users": [USERS.replace("alice", user)]}})
}

fn broken() -> Value {
    json!({"extAuth": {}})
}

fn buffer(bytes: u32) -> Value {
    json!({"buffer": {"maxRequestSize": bytes}})
}

fn keeper(objects: impl IntoIterator<Item = Value>) -> Keeper {
    let routes = [route("one", json!({"hostnames": ["one.example.com"], "rules": [forward("/")]}))];
    Keeper::new(routes.into_iter().chain(objects))
}

/// What is said at a port: the user who may enter, `open`, `500`, or `nothing`.
fn at_port(scene: &Scene, config: &str) -> String {
    let Some(said) = scene.resource("infra/edge", ResourceKind::RouteConfiguration, config) else {
        return "nothing".into();
    };
    let hosts = said["virtualHosts"].as_array().expect("hosts");
    let mut routes = hosts.iter().flat_map(|host| host["routes"].as_array().into_iter().flatten());
    if routes.any(|route| route["directResponse"]["status"] == 500) {
        return "500".into();
    }
    let said = said.to_string();
    let user = ["bob", "carol", "alice"].into_iter().find(|user| said.contains(user));
    user.unwrap_or("open").into()
}

fn said(keeper: &Keeper) -> [String; 2] {
    CONFIGS.map(|config| at_port(&keeper.scene, config))
}

fn faults(keeper: &Keeper) -> Vec<String> {
    match keeper.scene.0.wish(&id()) {
        Wish::Kept(candidate) => candidate.first.iter().map(ToString::to_string).collect(),
        wish => panic!("{wish:?}"),
    }
}

#[test]
fn policies_that_break_stay_as_they_were_and_take_no_change_until_all_are_well() {
    let mut keeper = keeper([freezing(), on_gateway("guard", auth("alice")), on_listener("own", "more", buffer(7))]);
    assert_eq!(said(&keeper), ["alice", "alice"]);
    keeper.put(on_gateway("guard", broken()));
    assert_eq!(said(&keeper), ["alice", "alice"]);
    assert_eq!(faults(&keeper).len(), 1, "{:?}", faults(&keeper));
    assert_eq!(keeper.scene.gateway("infra/edge", "Accepted"), "True Accepted");
    let status = keeper.scene.status(Kind::TrafficPolicy, "infra/guard");
    assert_eq!(status["ancestors"][0]["conditions"][0]["reason"], "Invalid");
    keeper.put(on_listener("own", "more", auth("bob")));
    assert_eq!(said(&keeper), ["alice", "alice"], "all of them wait");
    keeper.put(on_gateway("guard", auth("carol")));
    assert_eq!(said(&keeper), ["carol", "bob"]);
}

#[test]
fn without_the_annotation_or_a_good_version_everything_answers_500() {
    for (gateway, is_kept) in [
        (gateway("edge", listeners()), false),
        (asking(gateway("edge", listeners()), "RouteReplacement"), false),
        (asking(gateway("edge", listeners()), "freezeconfig"), false),
        (freezing(), true),
    ] {
        let mut keeper = keeper([gateway.clone(), on_gateway("guard", broken())]);
        assert_eq!(said(&keeper), ["500", "500"], "{gateway}");
        keeper.put(on_gateway("guard", auth("alice")));
        assert_eq!(said(&keeper), ["alice", "alice"], "{gateway}");
        keeper.put(on_gateway("guard", broken()));
        assert_eq!(said(&keeper), if is_kept { ["alice", "alice"] } else { ["500", "500"] }, "{gateway}");
    }
}

#[test]
fn a_mode_that_is_none_or_is_not_heard_is_told() {
    let told = |scene: &Scene| scene.gateway_message("infra/edge", "Accepted");
    let keeper = keeper([asking(gateway("edge", listeners()), "freezeconfig")]);
    let field = "metadata.annotations[portcullis.dev/failure-mode]: it counts as RouteReplacement";
    assert!(told(&keeper.scene).contains(field), "{}", told(&keeper.scene));
    let frozen = |scene: &Scene| scene.gateway_message("infra/edge", "portcullis.dev/Frozen");
    assert!(frozen(&keeper.scene).contains(&format!("False UnsupportedValue: {field}")), "{}", frozen(&keeper.scene));
    let mut off = Scene::new([freezing(), service("s"), on_gateway("guard", auth("alice")), route("one", json!({}))]);
    assert!(told(&off).contains("FreezeConfig is not heard without freeze.enabled"), "{}", told(&off));
    assert!(off.0.take_roots().is_empty());
    off.put(on_gateway("guard", broken()));
    assert_eq!(at_port(&off, "http/80"), "500");
    assert!(frozen(&off).starts_with("False UnsupportedValue: "), "also where nothing else is well: {}", frozen(&off));
}

#[test]
fn it_ends_when_the_gateway_says_so_and_when_it_goes() {
    for end in [gateway("edge", listeners()), asking(gateway("edge", listeners()), "Tomorrow")] {
        let mut keeper = keeper([freezing(), on_gateway("guard", auth("alice"))]);
        keeper.put(on_gateway("guard", broken()));
        assert_eq!(said(&keeper), ["alice", "alice"]);
        keeper.put(end);
        assert_eq!(said(&keeper), ["500", "500"]);
        assert!(keeper.kept.is_empty());
        keeper.put(freezing());
        assert_eq!(said(&keeper), ["500", "500"], "what ended is not there again");
    }
    let mut keeper = keeper([freezing(), on_gateway("guard", auth("alice"))]);
    keeper.remove(freezing());
    assert!(keeper.kept.is_empty());
    assert!(matches!(keeper.scene.0.wish(&id()), Wish::Over));
}

#[test]
fn what_is_loosened_or_deleted_waits() {
    for loosen in [
        (|keeper: &mut Keeper| keeper.remove(on_gateway("guard", auth("alice")))) as fn(&mut Keeper),
        |keeper| keeper.put(on_gateway("guard", json!({}))),
        |keeper| keeper.put(wide("guard", at("Gateway", "another"), auth("alice"))),
    ] {
        let mut keeper =
            keeper([freezing(), on_gateway("guard", auth("alice")), on_listener("own", "more", buffer(7))]);
        keeper.put(on_listener("own", "more", broken()));
        loosen(&mut keeper);
        assert_eq!(said(&keeper), ["alice", "alice"]);
        keeper.put(on_listener("own", "more", buffer(8)));
        assert_eq!(said(&keeper), ["open", "open"], "the last policy of a Gateway may go");
    }
}

#[test]
fn a_secret_or_a_provider_that_goes_closes_at_once() {
    let users = || {
        let mut users = opaque("users", json!({".htpasswd": USERS}));
        users["metadata"]["namespace"] = json!("infra");
        users
    };
    let guard = on_gateway("guard", json!({"basicAuth": {"secretRef": {"name": "users"}}}));
    let mut keeper = keeper([freezing(), users(), guard]);
    assert_eq!(said(&keeper), ["alice", "alice"]);
    // Whatever was made of the policy since.
    keeper.put(on_gateway("guard", broken()));
    keeper.remove(users());
    assert_eq!(said(&keeper), ["500", "500"]);
    assert!(keeper.scene.gateway_message("infra/edge", "Accepted").starts_with("False GatewayReplaced"));
    keeper.put(users());
    assert_eq!(said(&keeper), ["alice", "alice"]);

    let in_infra = |mut object: Value| {
        object["metadata"]["namespace"] = json!("infra");
        object
    };
    let judge = || {
        json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "GatewayExtension",
            "metadata": {"name": "judge", "namespace": "infra"},
            "spec": {"extAuth": {"failOpen": true, "grpcService": {"backendRef": {"name": "t", "port": 80}}}}})
    };
    let guard = || on_gateway("guard", json!({"extAuth": {"extensionRef": {"name": "judge"}}}));
    for gone in [judge(), in_infra(service("t"))] {
        let mut keeper = self::keeper([freezing(), judge(), in_infra(service("t")), guard()]);
        assert_eq!(faults(&keeper), [""; 0]);
        assert_eq!(said(&keeper), ["open", "open"], "it is asked elsewhere");
        keeper.remove(gone.clone());
        assert_eq!(said(&keeper), ["500", "500"], "{gone}");
    }
}

#[test]
fn a_listener_that_is_new_or_has_another_name_has_its_policies_as_they_are() {
    let with = |names: [&str; 2]| {
        asking(gateway("edge", json!([http(names[0], 80, ""), http(names[1], 81, "")])), "FreezeConfig")
    };
    let mut keeper = keeper([with(["web", "more"]), on_listener("guard", "web", auth("alice"))]);
    assert_eq!(said(&keeper), ["alice", "open"]);
    // Nothing is kept from here on, since one of them is broken.
    keeper.put(on_listener("other", "more", broken()));
    assert_eq!(said(&keeper), ["alice", "open"], "what is tightened waits");
    keeper.put(on_listener("guard", "site", auth("bob")));
    keeper.put(with(["site", "more"]));
    assert_eq!(said(&keeper), ["bob", "open"]);
    keeper.put(on_listener("guard", "site", broken()));
    assert_eq!(said(&keeper), ["500", "open"]);
    keeper.put(with(["web", "more"]));
    assert_eq!(said(&keeper), ["alice", "open"]);
}

#[test]
fn a_policy_on_a_listener_that_is_not_there_is_a_fault_and_what_is_kept_goes_on() {
    let missing = |name: &str, listener: &str| {
        format!(
            "TrafficPolicy infra/{name} spec.targetRefs[0].sectionName: Gateway infra/edge has no listener named \
             {listener}; name one so, or correct the name"
        )
    };
    // Who misspells the listener takes no guard away.
    let mut keeper = keeper([freezing(), on_listener("guard", "web", auth("alice"))]);
    keeper.put(on_listener("guard", "wbe", auth("alice")));
    assert_eq!(said(&keeper), ["alice", "open"]);
    assert_eq!(faults(&keeper), [missing("guard", "wbe")]);
    let Wish::Kept(candidate) = keeper.scene.0.wish(&id()) else { panic!("it is asked for") };
    let guard = ObjectId::new(Kind::TrafficPolicy, "infra", "guard");
    assert!(candidate.edition.get(&guard).is_some(), "its owner is told that it waits");
    keeper.put(on_listener("guard", "more", auth("alice")));
    assert_eq!(said(&keeper), ["open", "alice"]);
    // The listener goes, and comes back: what is kept of it was never given up.
    let only = asking(gateway("edge", json!([http("web", 80, "")])), "FreezeConfig");
    keeper.put(only);
    assert_eq!(faults(&keeper), [missing("guard", "more")]);
    keeper.put(on_listener("other", "web", auth("bob")));
    assert_eq!(at_port(&keeper.scene, "http/80"), "open", "what is tightened waits");
    keeper.put(freezing());
    assert_eq!(said(&keeper), ["bob", "alice"]);
    // Where it holds everywhere it is not the Gateway's own, and a Gateway of another name is not meant.
    let mut of_another = wide("of-another", at_section("Gateway", "another", "none"), auth("carol"));
    keeper.put(of_another.clone());
    of_another["spec"]["targetRefs"][0]["sectionName"] = json!("");
    keeper.put(of_another);
    assert_eq!(faults(&keeper), [""; 0]);
    let mut fresh = self::keeper([freezing(), on_listener("guard", "wbe", auth("alice"))]);
    assert_eq!(said(&fresh), ["open", "open"], "nothing was kept yet");
    assert!(fresh.kept.is_empty());
    fresh.remove(on_listener("guard", "wbe", auth("alice")));
    assert_eq!(fresh.kept.len(), 1);
}

#[test]
fn a_gateway_that_loses_the_label_by_which_it_was_selected_stays_guarded() {
    let labelled = |labels: Value| {
        let mut gateway = freezing();
        gateway["metadata"]["labels"] = labels;
        gateway
    };
    let select =
        |labels: Value| json!({"targetSelectors": [{"group": GROUP, "kind": "Gateway", "matchLabels": labels}]});
    let guard = || wide("guard", select(json!({"public": "yes"})), auth("alice"));
    let mut keeper = keeper([labelled(json!({"public": "yes"})), guard(), on_listener("own", "more", buffer(7))]);
    assert_eq!(said(&keeper), ["alice", "alice"]);
    keeper.put(on_listener("own", "more", broken()));
    keeper.put(labelled(json!({})));
    assert_eq!(said(&keeper), ["alice", "alice"]);
    keeper.put(on_listener("own", "more", buffer(7)));
    assert_eq!(said(&keeper), ["open", "open"]);
    // Both at once are never open between.
    keeper.put(labelled(json!({"public": "yes"})));
    assert_eq!(said(&keeper), ["alice", "alice"]);
    keeper.scene.put(labelled(json!({"public": "no"})));
    keeper.scene.put(wide("guard", select(json!({"public": "no"})), auth("bob")));
    assert_eq!(said(&keeper), ["alice", "alice"]);
    keeper.keep();
    assert_eq!(said(&keeper), ["bob", "bob"]);
}

#[test]
fn a_policy_that_holds_everywhere_and_those_of_listener_sets_are_as_they_are() {
    let everywhere = |spec: Value| {
        let select = json!({"targetSelectors": [{"group": GROUP, "kind": "Gateway", "matchLabels": {}}]});
        let mut policy = policy("TrafficPolicy", "platform", with(select, spec));
        policy["metadata"]["namespace"] = json!("platform");
        policy
    };
    let mut keeper = keeper([freezing(), on_listener("own", "more", buffer(7)), everywhere(auth("alice"))]);
    assert_eq!(said(&keeper), ["alice", "alice"]);
    keeper.put(on_listener("own", "more", broken()));
    keeper.put(everywhere(auth("bob")));
    assert_eq!(said(&keeper), ["bob", "bob"]);
    keeper.put(everywhere(broken()));
    assert_eq!(said(&keeper), ["500", "500"]);
    assert_eq!(faults(&keeper).len(), 1, "its own: {:?}", faults(&keeper));

    let host = asking(hosting("edge", json!([http("web", 80, "")]), "All"), "FreezeConfig");
    let set = || listener_set("infra/more", json!([http("extra", 81, "")]));
    let of_set = |spec: Value| {
        let mut policy = policy("TrafficPolicy", "set", with(at("ListenerSet", "more"), spec));
        policy["metadata"]["namespace"] = json!("infra");
        policy
    };
    let mut keeper = self::keeper([
        host,
        set(),
        on_gateway("guard", auth("alice")),
        of_set(buffer(7)),
        route("at-set", json!({"parentRefs": [at_set("infra/more")], "rules": [forward("/")]})),
    ]);
    assert_eq!(said(&keeper), ["alice", "alice"]);
    keeper.put(of_set(broken()));
    assert_eq!(said(&keeper), ["alice", "500"]);
    keeper.put(of_set(buffer(7)));
    keeper.put(on_gateway("guard", broken()));
    assert_eq!(said(&keeper), ["alice", "alice"], "what a ListenerSet inherits is kept with the Gateway");
}

#[test]
fn how_policies_are_merged_with_those_of_routes_is_kept_with_them() {
    let prefers = |priority: &str| {
        let mut gateway = freezing();
        gateway["metadata"]["annotations"]["kgateway.dev/inherited-policy-priority"] = json!(priority);
        gateway
    };
    let of_route = policy("TrafficPolicy", "own", with(at("HTTPRoute", "one"), auth("bob")));
    let mut keeper = keeper([prefers("ShallowMergePreferParent"), on_gateway("guard", auth("alice")), of_route]);
    let bob = |keeper: &Keeper| {
        let config = keeper.scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80");
        config.expect("routes").to_string().contains("bob")
    };
    assert!(!bob(&keeper));
    keeper.put(on_listener("own", "more", broken()));
    keeper.put(prefers("ShallowMergePreferChild"));
    assert!(!bob(&keeper), "what is loosened waits");
    keeper.remove(on_listener("own", "more", broken()));
    assert!(bob(&keeper));
}

#[test]
fn what_its_owner_does_by_hand_and_another_of_its_name_are_looked_at() {
    let mut keeper = keeper([freezing(), on_gateway("guard", auth("alice"))]);
    let mut by_hand = freezing();
    by_hand["metadata"]["annotations"]["portcullis.dev/hold"] = json!("true");
    let mut another = freezing();
    another["metadata"]["uid"] = json!("another");
    for gateway in [by_hand, another, freezing()] {
        keeper.scene.put(gateway.clone());
        assert_eq!(keeper.scene.0.take_roots(), [id()], "{gateway}");
        let Wish::Kept(candidate) = keeper.scene.0.wish(&id()) else { panic!("it is asked for") };
        assert_eq!(candidate.edition, keeper.kept[&id()], "nothing of that is kept: {gateway}");
    }
}

#[test]
fn policies_that_are_kept_as_they_are_give_the_same_bytes_and_wake_no_rows_of_routes() {
    let objects = || [on_gateway("guard", auth("alice")), on_listener("own", "more", buffer(7))];
    let live = keeper([gateway("edge", listeners())].into_iter().chain(objects()));
    let mut kept = keeper([freezing()].into_iter().chain(objects()));
    assert_eq!(kept.kept.len(), 1);
    assert_eq!(kept.scene.0.resources(), live.scene.0.resources());
    let resolved = |keeper: &Keeper| {
        let stats = keeper.scene.0.stats();
        stats.iter().find(|stats| stats.name == "ResolvedRule").expect("a table").computed
    };
    for spec in [auth("bob"), broken(), auth("carol")] {
        kept.scene.put(on_gateway("guard", spec));
        assert_eq!(resolved(&kept), 0);
        kept.keep();
        assert_eq!(resolved(&kept), 0);
    }
}

#[test]
fn a_row_that_panics_opens_nothing_and_blames_no_object_for_what_is_kept() {
    let mut keeper = keeper([freezing(), on_gateway("guard", auth("alice")), on_listener("own", "more", auth("bob"))]);
    keeper.put(on_gateway("guard", broken()));
    keeper.put(on_listener("own", "more", json!({})));
    let before = ["alice", "bob"];
    assert_eq!(said(&keeper), before);
    let kept = keeper.kept[&id()].clone();
    let (mut tried, mut wrong) = (BTreeSet::new(), Vec::new());
    for (table, key) in keeper.scene.0.computed_rows() {
        if !keeper.fails_at(table, &key) {
            continue;
        }
        tried.insert(table);
        if keeper.scene.0.unended().iter().any(|unended| unended.editions.contains(&id())) {
            keeper.scene.0.set_edition(&id(), Some(&kept.closed(&id())));
            keeper.scene.0.settle();
        }
        // What nobody can compute is published by nobody, so that proxies keep what they have.
        if keeper.scene.0.unended().is_empty() && said(&keeper).contains(&"open".to_owned()) {
            wrong.push(format!("{table}({key}) opens {:?}", said(&keeper)));
        }
        keeper.scene.0.fail_no_more(table, &key);
        keeper.scene.0.set_edition(&id(), Some(&kept));
        keeper.scene.0.settle();
        if said(&keeper) != before {
            wrong.push(format!("{table}({key}) does not heal: {:?}", said(&keeper)));
        }
    }
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
    for table in ["WideFreezing", "WideTree", "WideLevel", "PolicyRow", "PoliciesOf"] {
        assert!(tried.contains(table), "{table} is tried");
    }
}

#[test]
fn it_is_served_from_the_start_whatever_the_policies_say() {
    let good = keeper([freezing(), on_gateway("guard", auth("alice"))]);
    let mut scene = Scene::with(settings(), []);
    scene.0.set_edition(&id(), Some(&good.kept[&id()]));
    for object in [freezing(), service("s"), on_gateway("guard", broken()), route("one", json!({}))] {
        scene.put(object);
    }
    assert_eq!(at_port(&scene, "http/80"), "alice");
    // What this program fails on answers 500.
    scene.0.set_edition(&id(), Some(&good.kept[&id()].closed(&id())));
    scene.0.settle();
    assert_eq!(at_port(&scene, "http/80"), "500");
    let stored: Vec<_> = good.kept[&id()].parts().flat_map(|part| part.objects()).collect();
    assert_eq!(stored.len(), 2, "the Gateway, as far as it decides which policies hold, and the policy");
}
