//! Trees that keep their last good version: what waits, what goes at once, and what is not kept.

use std::{collections::BTreeMap, sync::Arc};

use ir::{NsName, RootId, Settings};
use serde_json::{Value, json};

use super::{
    delegation::{GROUP, child, forward, routes, to},
    policies::{policy, with},
    scene::{Scene, gateway, http, opaque, route, service},
};
use translate::{Edition, Part, Wish};

mod faults;
mod properties;
mod wide;

const USERS: &str = "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=";

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.freeze.enabled = true;
    settings.policies.global_namespace = "platform".into();
    settings
}

/// A scene, and who keeps editions, at once and of all that is good.
struct Keeper {
    scene: Scene,
    kept: BTreeMap<RootId, Edition>,
}

impl Keeper {
    fn new(objects: impl IntoIterator<Item = Value>) -> Self {
        let base = [gateway("edge", json!([http("web", 80, "")])), service("s"), service("t")];
        let scene = Scene::with(settings(), base.into_iter().chain(objects));
        let mut keeper = Self { scene, kept: BTreeMap::new() };
        keeper.keep();
        keeper
    }

    /// Has a row panic, and settles. Whether it did: of some somebody looks whether they exist, and nobody demands that they do.
    fn fails_at(&mut self, table: &str, key: &str) -> bool {
        self.scene.0.fail_at(table, key);
        let fails = !self.scene.0.settle().faults.is_empty();
        if !fails {
            self.scene.0.fail_no_more(table, key);
        }
        fails
    }

    fn keep(&mut self) {
        loop {
            let trees = self.scene.0.take_roots();
            if trees.is_empty() {
                return;
            }
            for root in trees {
                match self.scene.0.wish(&root) {
                    Wish::Kept(candidate) if candidate.is_good() => {
                        let edition = candidate.edition;
                        self.scene.0.set_edition(&root, Some(&edition));
                        self.kept.insert(root, edition);
                    }
                    Wish::Kept(_) | Wish::Unknown => {}
                    Wish::Over => {
                        self.scene.0.set_edition(&root, None);
                        self.kept.remove(&root);
                    }
                }
            }
            self.scene.0.settle();
        }
    }

    fn put(&mut self, object: Value) {
        self.scene.put(object);
        self.keep();
    }

    fn remove(&mut self, object: Value) {
        self.scene.remove(object);
        self.keep();
    }

    fn routes(&self) -> Vec<String> {
        routes(&self.scene)
    }

    /// What is wrong with the tree as it is.
    fn faults(&self) -> Vec<String> {
        match self.scene.0.wish(&RootId::Route(NsName::new("apps", "root"))) {
            Wish::Kept(candidate) => candidate.first.iter().map(ToString::to_string).collect(),
            wish => panic!("{wish:?}"),
        }
    }
}

fn freezing() -> Value {
    asking(json!({}))
}

/// The policy on the root, with more.
fn asking(more: Value) -> Value {
    let target =
        json!({"targetRefs": [{"group": GROUP, "kind": "HTTPRoute", "name": "root"}], "failureMode": "FreezeConfig"});
    policy("DelegationPolicy", "freezing", with(target, more))
}

fn on(kind: &str, name: &str, target: &str, spec: Value) -> Value {
    policy(kind, name, with(json!({"targetRefs": [{"group": GROUP, "kind": "HTTPRoute", "name": target}]}), spec))
}

fn root() -> Value {
    route("root", json!({"rules": [to("/a", &["one", "two"])]}))
}

fn child_of(name: &str, rules: Value) -> Value {
    child(name, rules)
}

fn to_backend(path: &str, name: &str) -> Value {
    json!({"matches": [super::delegation::prefix(path)], "backendRefs": [{"name": name, "port": 80}]})
}

fn tree() -> [Value; 4] {
    [root(), child_of("one", json!([forward("/a/one")])), child_of("two", json!([forward("/a/two")])), freezing()]
}

const GOOD: [&str; 2] = ["one.0.0 /a/one", "two.0.0 /a/two"];

#[test]
fn a_tree_that_breaks_stays_as_it_was_and_takes_no_change_until_all_is_well() {
    let mut keeper = Keeper::new(tree());
    assert_eq!(keeper.routes(), GOOD);
    keeper.put(child_of("one", json!([to_backend("/a/one", "nobody")])));
    assert_eq!(keeper.routes(), GOOD);
    assert_eq!(keeper.faults().len(), 1, "{:?}", keeper.faults());
    keeper.put(child_of("two", json!([forward("/a/two/more")])));
    assert_eq!(keeper.routes(), GOOD, "the whole tree waits");
    keeper.put(child_of("one", json!([forward("/a/one/mended")])));
    assert_eq!(keeper.routes(), ["one.0.0 /a/one/mended", "two.0.0 /a/two/more"]);
}

/// What a change of a route costs: rows when it comes, rows when its tree is kept, parts that are others than before.
fn work(children: usize) -> [usize; 3] {
    let child =
        |number: usize, more: &str| child_of(&format!("c{number}"), json!([forward(&format!("/a/{number}{more}"))]));
    let root = route("root", json!({"rules": [to("/a", &["*"])]}));
    let mut keeper = Keeper::new([root, freezing()].into_iter().chain((0..children).map(|number| child(number, ""))));
    let id = RootId::Route(NsName::new("apps", "root"));
    let before = keeper.kept[&id].clone();
    let live = keeper.scene.put(child(7, "/more")).computed;
    let Wish::Kept(candidate) = keeper.scene.0.wish(&id) else { panic!("it is wished for") };
    assert!(candidate.is_good(), "{:?}", candidate.first);
    assert_eq!(candidate.edition.changes_since(&before).count(), 1);
    let is_there = |part: &&Arc<Part>| before.parts().any(|other| Arc::ptr_eq(other, part));
    let fresh = candidate.edition.parts().filter(|part| !is_there(part)).count();
    keeper.scene.0.set_edition(&id, Some(&candidate.edition));
    [live, keeper.scene.0.settle().computed, fresh]
}

#[test]
fn a_change_costs_as_much_in_a_large_tree_as_in_a_small_one_and_one_part_of_its_objects() {
    let [live, kept, parts] = work(100);
    assert_eq!(work(400), [live, kept, parts]);
    assert_eq!(parts, 1);
    assert!(live < 60 && kept < 60, "{live} and {kept} rows");
}

#[test]
fn a_tree_that_was_never_good_runs_with_replacement() {
    let [root, _, two, policy] = tree();
    let mut keeper = Keeper::new([root, child_of("one", json!([to_backend("/a/one", "nobody")])), two, policy]);
    assert_eq!(keeper.routes(), ["one.0.0 /a/one 500", "two.0.0 /a/two"]);
    keeper.put(child_of("one", json!([forward("/a/one")])));
    assert_eq!(keeper.routes(), GOOD);
    assert_eq!(keeper.kept.len(), 1);
}

#[test]
fn switched_off_it_is_refused_and_nothing_is_kept() {
    let base = [gateway("edge", json!([http("web", 80, "")])), service("s"), service("t")];
    let mut off = Scene::new(base.into_iter().chain(tree()));
    assert!(off.0.take_roots().is_empty());
    let status = off.status(api::Kind::DelegationPolicy, "apps/freezing");
    let condition = &status["ancestors"][0]["conditions"][0];
    assert_eq!(
        condition["message"],
        "spec.failureMode: FreezeConfig is not supported yet: what is broken is replaced; use RouteReplacement"
    );
    off.put(child_of("one", json!([to_backend("/a/one", "nobody")])));
    assert_eq!(routes(&off), ["one.0.0 /a/one 500", "two.0.0 /a/two"]);
}

#[test]
fn an_edition_is_served_from_the_start_whatever_the_objects_say() {
    let good = Keeper::new(tree());
    let root_id = RootId::Route(NsName::new("apps", "root"));
    let [root, _, two, policy] = tree();
    let broken = child_of("one", json!([to_backend("/a/one", "nobody")]));
    let base = [gateway("edge", json!([http("web", 80, "")])), service("s"), service("t")];
    let mut scene = Scene::with(settings(), []);
    scene.0.set_edition(&root_id, Some(&good.kept[&root_id]));
    for object in base.into_iter().chain([root, broken, two, policy]) {
        scene.put(object);
    }
    assert_eq!(routes(&scene), GOOD);
}

#[test]
fn it_ends_when_a_sound_policy_says_so_and_not_when_one_cannot_be_read() {
    let broken = || child_of("one", json!([to_backend("/a/one", "nobody")]));
    let replaced = ["one.0.0 /a/one 500", "two.0.0 /a/two"];
    for (end, is_over) in [
        (asking(json!({"failureMode": "RouteReplacement"})), true),
        (asking(json!({"sortMethod": "Tomorrow"})), false),
        (asking(json!({"allowedChildren": {"namespaces": {"names": ["a"], "selector": {}}}})), false),
    ] {
        let mut keeper = Keeper::new(tree());
        keeper.put(broken());
        keeper.put(end.clone());
        assert_eq!(keeper.routes() == replaced, is_over, "{end}: {:?}", keeper.routes());
        assert_eq!(keeper.kept.is_empty(), is_over, "{end}");
        // What ended is not there again when it is asked for again.
        keeper.put(freezing());
        assert_eq!(keeper.routes() == replaced, is_over, "{end}: {:?}", keeper.routes());
    }
    let mut keeper = Keeper::new(tree());
    keeper.put(broken());
    keeper.remove(freezing());
    assert_eq!(keeper.routes(), replaced);
}

#[test]
fn a_backend_or_a_grant_that_goes_is_gone_at_once() {
    let far = || {
        let mut far = service("far");
        far["metadata"]["namespace"] = json!("others");
        far
    };
    let grant = || {
        json!({"apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
            "metadata": {"name": "g", "namespace": "others"},
            "spec": {"from": [{"group": GROUP, "kind": "HTTPRoute", "namespace": "apps"}], "to": [{"group": "", "kind": "Service"}]}})
    };
    let one = json!({"matches": [super::delegation::prefix("/a/one")], "backendRefs": [{"name": "far", "namespace": "others", "port": 80}]});
    for gone in [far(), grant()] {
        let [root, _, two, policy] = tree();
        let mut keeper = Keeper::new([root, child_of("one", json!([one])), two, policy, far(), grant()]);
        assert_eq!(keeper.routes(), GOOD);
        keeper.remove(gone.clone());
        assert_eq!(keeper.routes(), ["one.0.0 /a/one 500", "two.0.0 /a/two"], "{gone}");
        keeper.put(gone);
        assert_eq!(keeper.routes(), GOOD);
    }
}

#[test]
fn a_secret_that_goes_closes_what_it_guards() {
    let users = || opaque("users", json!({".htpasswd": USERS}));
    let auth = on("TrafficPolicy", "auth", "one", json!({"basicAuth": {"secretRef": {"name": "users"}}}));
    let mut keeper = Keeper::new(tree().into_iter().chain([users(), auth]));
    assert_eq!(keeper.routes(), GOOD);
    keeper.remove(users());
    assert_eq!(keeper.routes(), ["one.0.0 /a/one 500", "two.0.0 /a/two"]);
    keeper.put(users());
    assert_eq!(keeper.routes(), GOOD);
}

#[test]
fn a_provider_that_goes_closes_what_it_judges_whatever_happens_when_it_fails() {
    let judge = || {
        json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "GatewayExtension",
            "metadata": {"name": "judge", "namespace": "apps"},
            "spec": {"extAuth": {"failOpen": true, "grpcService": {"backendRef": {"name": "t", "port": 80}}}}})
    };
    let auth = on("TrafficPolicy", "auth", "one", json!({"extAuth": {"extensionRef": {"name": "judge"}}}));
    for gone in [judge(), service("t")] {
        let mut keeper = Keeper::new(tree().into_iter().chain([judge(), auth.clone()]));
        assert_eq!(keeper.routes(), GOOD, "{:?}", keeper.faults());
        keeper.remove(gone.clone());
        assert_eq!(keeper.routes(), ["one.0.0 /a/one 500", "two.0.0 /a/two"], "{gone}");
    }
}

#[test]
fn a_child_that_goes_or_withdraws_answers_500_and_its_siblings_stay() {
    let closed = ["one.0.0 /a/one 500", "two.0.0 /a/two"];
    let mut keeper = Keeper::new(tree());
    keeper.remove(child_of("one", json!([])));
    assert_eq!(keeper.routes(), closed, "deleted");
    keeper.put(child_of("one", json!([forward("/a/one")])));
    assert_eq!(keeper.routes(), GOOD);
    keeper.put(with_parent("one", "another"));
    assert_eq!(keeper.routes(), closed, "it admits another parent");
    keeper.put(with_parent("one", "root"));
    assert_eq!(keeper.routes(), GOOD);
}

fn with_parent(name: &str, parent: &str) -> Value {
    let parents = json!([{"group": GROUP, "kind": "HTTPRoute", "name": parent}]);
    route(name, json!({"parentRefs": parents, "rules": [forward("/a/one")]}))
}

#[test]
fn a_namespace_that_is_allowed_no_longer_answers_500() {
    let mut keeper = Keeper::new(tree());
    // The tree is broken too, so that nothing is committed.
    keeper.put(child_of("two", json!([to_backend("/a/two", "nobody")])));
    keeper.put(asking(json!({"allowedChildren": {"namespaces": {"names": ["none"]}}})));
    assert_eq!(keeper.routes(), ["one.0.0 /a/one 500", "two.0.0 /a/two 500", "root.0.0 /a 500"]);
    keeper.put(freezing());
    assert_eq!(keeper.routes(), GOOD);
    keeper.put(asking(json!({"allowedChildren": {"backends": [{"kind": "Service", "name": "t"}]}})));
    assert_eq!(keeper.routes(), ["one.0.0 /a/one 500", "two.0.0 /a/two 500"]);
}

#[test]
fn a_demand_for_authentication_holds_at_once() {
    let broken = || child_of("two", json!([to_backend("/a/two", "nobody")]));
    let closed = ["one.0.0 /a/one 500", "two.0.0 /a/two 500"];
    let mut keeper = Keeper::new(tree());
    keeper.put(broken());
    keeper.put(asking(json!({"requireAuth": true})));
    assert_eq!(keeper.routes(), closed);
    keeper.put(freezing());
    assert_eq!(keeper.routes(), GOOD);
    // Another policy, of a rule that has had no name before.
    let mut named = to("/a", &["one", "two"]);
    named["name"] = json!("named");
    keeper.put(route("root", json!({"rules": [named]})));
    let mut of_rule = on("DelegationPolicy", "of-rule", "root", json!({"requireAuth": true}));
    of_rule["spec"]["targetRefs"][0]["sectionName"] = json!("named");
    keeper.put(of_rule.clone());
    assert_eq!(keeper.routes(), closed);
    keeper.remove(of_rule);
    let mut labelled = root();
    labelled["metadata"]["labels"] = json!({"portcullis.dev/require-auth": "true"});
    keeper.put(labelled);
    assert_eq!(keeper.routes(), closed);
}

#[test]
fn an_auth_policy_that_is_loosened_or_goes_stays_in_force() {
    let auth = || on("TrafficPolicy", "auth", "one", json!({"basicAuth": {"users": [USERS]}}));
    let guarded = |keeper: &Keeper| {
        let config = keeper.scene.resource("infra/edge", envoy::ResourceKind::RouteConfiguration, "http/80");
        config.expect("routes").to_string().contains("alice")
    };
    let mut keeper = Keeper::new(tree().into_iter().chain([auth()]));
    assert!(guarded(&keeper));
    keeper.put(child_of("two", json!([to_backend("/a/two", "nobody")])));
    keeper.remove(auth());
    assert!(guarded(&keeper), "what loosens waits");
    keeper.put(child_of("two", json!([forward("/a/two")])));
    assert!(!guarded(&keeper));
}

#[test]
fn a_hostname_or_a_parent_that_is_dropped_is_served_no_longer_and_one_that_is_added_waits() {
    let root = |spec: Value| route("root", with(json!({"rules": [to("/a", &["one", "two"])]}), spec));
    let [_, one, two, policy] = tree();
    let mut keeper = Keeper::new([root(json!({"hostnames": ["*.example.com"]})), one, two, policy]);
    let hosts = |keeper: &Keeper| {
        let hosts = keeper.scene.hosts("http/80").into_iter();
        hosts.filter(|(_, routes)| !routes.is_empty()).map(|(host, _)| host).collect::<Vec<_>>()
    };
    assert_eq!(hosts(&keeper), ["*.example.com"]);
    keeper.put(child_of("two", json!([to_backend("/a/two", "nobody")])));
    keeper.put(root(json!({"hostnames": ["a.example.com", "b.example.org"]})));
    assert_eq!(hosts(&keeper), ["a.example.com"], "what it has no longer goes, what is new waits");
    assert_eq!(keeper.routes(), GOOD);
    keeper.put(root(json!({"hostnames": ["b.example.org"]})));
    assert_eq!(hosts(&keeper), [""; 0]);
    keeper.put(root(json!({"hostnames": ["*.example.com"]})));
    assert_eq!(hosts(&keeper), ["*.example.com"]);
    keeper.put(root(json!({"hostnames": ["*.example.com"], "parentRefs": []})));
    assert_eq!(hosts(&keeper), [""; 0]);
}

#[test]
fn a_listener_that_admits_it_no_longer_serves_it_no_longer() {
    let mut keeper = Keeper::new(tree());
    keeper.put(child_of("two", json!([to_backend("/a/two", "nobody")])));
    let mut closed = http("web", 80, "");
    closed["allowedRoutes"] = json!({"namespaces": {"from": "Same"}});
    keeper.put(gateway("edge", json!([closed])));
    assert!(keeper.scene.hosts("http/80").into_values().all(|routes| routes.is_empty()));
    keeper.put(gateway("edge", json!([http("web", 80, "")])));
    assert_eq!(keeper.routes(), GOOD);
}

#[test]
fn policies_of_the_platform_and_of_gateways_are_never_kept() {
    let labelled = |mut object: Value| {
        object["metadata"]["labels"] = json!({"team": "a"});
        object
    };
    let of_platform = |header: &str| {
        let selectors = json!([{"group": GROUP, "kind": "HTTPRoute", "matchLabels": {"team": "a"}}]);
        let add = json!({"request": {"set": [{"name": "x-platform", "value": header}]}});
        let mut policy = policy("TrafficPolicy", "all", json!({"targetSelectors": selectors, "headerModifiers": add}));
        policy["metadata"]["namespace"] = json!("platform");
        policy
    };
    let of_gateway = |header: &str| {
        let add = json!({"request": {"set": [{"name": "x-gateway", "value": header}]}});
        let mut policy = policy(
            "TrafficPolicy",
            "wide",
            with(
                json!({"targetRefs": [{"group": GROUP, "kind": "Gateway", "name": "edge"}]}),
                json!({"headerModifiers": add}),
            ),
        );
        policy["metadata"]["namespace"] = json!("infra");
        policy
    };
    let [root, one, two, policy] = tree();
    let mut keeper = Keeper::new([root, labelled(one), two, policy, of_platform("first"), of_gateway("wide-first")]);
    let says = |keeper: &Keeper, text: &str| {
        let config = keeper.scene.resource("infra/edge", envoy::ResourceKind::RouteConfiguration, "http/80");
        config.expect("routes").to_string().contains(text)
    };
    assert!(says(&keeper, "first"));
    assert!(keeper.kept.values().all(|edition| edition.ids().all(|id| &*id.namespace == "apps")));
    keeper.put(child_of("two", json!([to_backend("/a/two", "nobody")])));
    keeper.put(of_platform("second"));
    keeper.put(of_gateway("wide-second"));
    assert!(says(&keeper, "\"second\"") && says(&keeper, "wide-second") && !says(&keeper, "first"));
    keeper.remove(of_platform("second"));
    assert!(!says(&keeper, "\"second\""));
    assert_eq!(keeper.routes(), GOOD);
}

/// A policy of the platform that guards what it selects.
fn of_platform(selector: Value) -> Value {
    let selector = with(json!({"group": GROUP, "kind": "HTTPRoute"}), selector);
    let guard = json!({"basicAuth": {"users": [USERS]}});
    let mut policy = policy("TrafficPolicy", "all", with(json!({"targetSelectors": [selector]}), guard));
    policy["metadata"]["namespace"] = json!("platform");
    policy
}

fn of_team(mut object: Value) -> Value {
    object["metadata"]["labels"] = json!({"team": "a"});
    object
}

fn is_guarded(keeper: &Keeper) -> bool {
    let config = keeper.scene.resource("infra/edge", envoy::ResourceKind::RouteConfiguration, "http/80");
    config.expect("routes").to_string().contains("alice")
}

#[test]
fn a_policy_of_the_platform_holds_for_the_labels_that_a_route_has_now_and_for_those_that_it_had() {
    let [root, one, two, policy] = tree();
    let mut keeper = Keeper::new([root, one.clone(), two, policy, of_platform(json!({"matchLabels": {"team": "a"}}))]);
    assert!(!is_guarded(&keeper));
    keeper.put(child_of("two", json!([to_backend("/a/two", "nobody")])));
    keeper.put(of_team(one.clone()));
    assert!(is_guarded(&keeper), "the tree is broken, and the route has the label now");
    keeper.put(child_of("two", json!([forward("/a/two")])));
    assert!(is_guarded(&keeper));
    keeper.put(child_of("two", json!([to_backend("/a/two", "nobody")])));
    keeper.put(one);
    assert!(is_guarded(&keeper), "what its owner takes away waits");
    keeper.remove(of_platform(json!({"matchLabels": {}})));
    assert!(!is_guarded(&keeper), "what the platform takes away does not");
    assert_eq!(keeper.routes(), GOOD);
}

#[test]
fn a_rule_that_a_policy_of_the_platform_means_by_a_name_of_which_nobody_knows_answers_500() {
    let named = |name: &str| {
        let mut rule = forward("/a/one");
        rule["name"] = json!(name);
        of_team(child_of("one", json!([rule])))
    };
    let of_rule = |name: &str| of_platform(json!({"matchLabels": {"team": "a"}, "sectionName": name}));
    let [root, one, two, policy] = tree();
    let mut keeper = Keeper::new([root, of_team(one.clone()), two, policy, of_rule("login")]);
    let closed = ["one.0.0 /a/one 500", "two.0.0 /a/two"];
    keeper.put(child_of("two", json!([to_backend("/a/two", "nobody")])));
    assert_eq!(keeper.routes(), GOOD);
    keeper.put(named("login"));
    assert_eq!(keeper.routes(), closed, "it may be the rule that had no name");
    keeper.put(named("other"));
    assert_eq!(keeper.routes(), GOOD);
    keeper.put(of_rule("other"));
    assert_eq!(keeper.routes(), closed);
    keeper.put(child_of("two", json!([forward("/a/two")])));
    assert_eq!(keeper.routes(), GOOD);
    assert!(is_guarded(&keeper));
    // A rule that still has a name of its own is no other.
    keeper.put(child_of("two", json!([to_backend("/a/two", "nobody")])));
    let mut both = named("other");
    let mut new = forward("/a/one/more");
    new["name"] = json!("login");
    both["spec"]["rules"].as_array_mut().expect("rules").push(new);
    keeper.put(both);
    keeper.put(of_rule("login"));
    assert_eq!(keeper.routes(), GOOD);
}

#[test]
fn a_child_that_loses_the_label_by_which_it_was_selected_answers_500_at_once() {
    let [_, one, two, policy] = tree();
    let root = route("root", json!({"rules": [super::delegation::to_label("/a", "shop")]}));
    let labelled = |child: Value| super::delegation::labelled(child, "shop");
    let mut keeper = Keeper::new([root, labelled(one.clone()), labelled(two), policy]);
    assert_eq!(keeper.routes(), GOOD);
    keeper.put(labelled(child_of("two", json!([to_backend("/a/two", "nobody")]))));
    assert_eq!(keeper.routes(), GOOD);
    keeper.put(one.clone());
    assert_eq!(keeper.routes(), ["one.0.0 /a/one 500", "two.0.0 /a/two"]);
    keeper.put(labelled(one));
    assert_eq!(keeper.routes(), GOOD);
}

#[test]
fn a_child_that_was_deleted_and_made_anew_is_another_one() {
    let with_uid = |uid: &str| {
        let mut child = child_of("one", json!([forward("/a/one")]));
        child["metadata"]["uid"] = json!(uid);
        child
    };
    let [root, _, two, policy] = tree();
    let mut keeper = Keeper::new([root, with_uid("first"), two, policy]);
    keeper.put(child_of("two", json!([to_backend("/a/two", "nobody")])));
    assert_eq!(keeper.routes(), GOOD);
    keeper.put(with_uid("second"));
    assert_eq!(keeper.routes(), ["one.0.0 /a/one 500", "two.0.0 /a/two"]);
    keeper.put(child_of("two", json!([forward("/a/two")])));
    assert_eq!(keeper.routes(), GOOD);
}

#[test]
fn a_child_that_is_shared_is_frozen_under_one_root_alone() {
    let other = route("other", json!({"rules": [to("/a", &["one"])], "hostnames": ["other.example.com"]}));
    let mut keeper = Keeper::new(tree().into_iter().chain([other]));
    keeper.put(child_of("one", json!([to_backend("/a/one", "nobody")])));
    // At the other host its own come first, and behind them those of the host that covers it.
    assert_eq!(
        keeper.routes(),
        ["one.0.0 /a/one 500", "one.0.0 /a/one", "two.0.0 /a/two", "one.0.0 /a/one", "two.0.0 /a/two"]
    );
}
