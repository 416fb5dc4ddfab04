//! What is placed in the proxies of a Gateway, and what becomes of what they cannot hold.

use std::collections::BTreeMap;

use envoy::ResourceKind;
use serde_json::{Value, json};

use worlds::extension::key;

use super::scene::{Scene, forward, gateway, http, route, service, tokens};

/// About 100 plain routes.
const SMALL: u64 = 700_000;

/// HTTPRoute `NAMESPACE/NAME`, made in this second of a year.
fn of(namespace: &str, name: &str, second: usize, spec: Value) -> Value {
    let mut route = route(name, spec);
    route["metadata"]["namespace"] = json!(namespace);
    route["metadata"]["creationTimestamp"] = json!(format!("2024-01-01T00:{:02}:{:02}Z", second / 60, second % 60));
    route
}

/// So many rules of `/PATH…`, an Envoy route each, without a cluster.
fn rules(path: &str, count: usize) -> Vec<Value> {
    let rule = |at| {
        let redirect = json!({"type": "RequestRedirect", "requestRedirect": {"port": 8443}});
        json!({"matches": [{"path": {"type": "PathPrefix", "value": format!("/{path}/{at}")}}], "filters": [redirect]})
    };
    (0..count).map(rule).collect()
}

fn on(hostnames: &[&str], rules: impl IntoIterator<Item = Value>) -> Value {
    json!({"hostnames": hostnames, "rules": rules.into_iter().collect::<Value>()})
}

fn scene(bound: u64, routes: impl IntoIterator<Item = Value>) -> Scene {
    let mut settings = ir::Settings::default();
    settings.capacity.max_bytes = bound;
    let edge = gateway("edge", json!([http("http", 80, "")]));
    Scene::with(settings, [edge, service("s")].into_iter().chain(routes))
}

/// By virtual host, the Envoy routes of a namespace, and which of them answer 500.
fn routes_of(scene: &Scene, namespace: &str) -> BTreeMap<String, Vec<(Value, bool)>> {
    let config = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").unwrap_or_default();
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for host in config["virtualHosts"].as_array().into_iter().flatten() {
        let routes = host["routes"].as_array().into_iter().flatten();
        let routes =
            routes.filter(|route| route["name"].as_str().unwrap_or_default().contains(&format!("{namespace}/")));
        let name = host["name"].as_str().unwrap_or_default().to_owned();
        all.entry(name)
            .or_default()
            .extend(routes.map(|route| (route.clone(), route["directResponse"]["status"] == 500)));
    }
    all.retain(|_, routes| !routes.is_empty());
    all
}

fn served(scene: &Scene, namespace: &str) -> usize {
    routes_of(scene, namespace).values().flatten().filter(|(_, closed)| !closed).count()
}

fn told(scene: &Scene, name: &str) -> Vec<String> {
    let of = |line: &String| line.starts_with(&format!("{name} ")) && line.contains("have no room");
    scene.problems().into_iter().filter(of).collect()
}

#[test]
fn routes_of_all_hosts_that_exceed_their_share_answer_500_and_move_nobody() {
    let shops = (0..10).map(|at| of("shop", &format!("s{at}"), at, on(&[&format!("{at}.example.com")], rules("s", 3))));
    let mut scene = scene(SMALL, shops);
    let before = routes_of(&scene, "shop");
    assert_eq!((before.len(), served(&scene, "shop")), (10, 30));
    for attack in 0..4 {
        scene.put(of("evil", &format!("e{attack}"), 100 + attack, on(&[], rules("e", 4))));
    }
    assert_eq!(routes_of(&scene, "shop"), before, "nobody else moves by a byte");
    let evil = routes_of(&scene, "evil");
    let (open, all) = (served(&scene, "evil"), evil.values().flatten().count());
    assert!(open > 50 && open < 200 && all < 400, "{open} of {all} at {} hosts", evil.len());
    assert!(told(&scene, "e0").is_empty() && !told(&scene, "e3").is_empty() && told(&scene, "s0").is_empty());
    let said = scene.route_message("evil/e3", 0, "PartiallyInvalid");
    assert!(said.contains("namespace evil") && said.contains("use fewer matches"), "{said}");
    assert!(scene.route("evil/e3", 0, "kgateway.dev/Programmed").starts_with("False"));
    for attack in 0..4 {
        scene.remove(of("evil", &format!("e{attack}"), 0, on(&[], Vec::new())));
    }
    assert_eq!((routes_of(&scene, "shop"), served(&scene, "evil")), (before, 0));
}

#[test]
fn hostnames_that_exceed_their_share_answer_500_and_leave_routes_of_all_hosts_alone() {
    let platform = of("platform", "all", 0, on(&[], rules("p", 8)));
    let shop = of("shop", "shop", 1, on(&["shop.example.com"], rules("s", 3)));
    let mut scene = scene(2 * SMALL, [platform, shop]);
    let ours = |scene: &Scene| {
        let (platform, shop) = (routes_of(scene, "platform"), routes_of(scene, "shop"));
        (platform["shop.example.com"].clone(), platform["*"].clone(), shop)
    };
    let before = ours(&scene);
    for attack in 0..2 {
        let names: Vec<_> = (0..15).map(|name| format!("{name}.{attack}.evil.example.com")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        scene.put(of("evil", &format!("e{attack}"), 100 + attack, on(&names, rules("e", 1))));
    }
    assert_eq!(ours(&scene), before);
    assert!(told(&scene, "all").is_empty() && told(&scene, "shop").is_empty() && told(&scene, "e0").is_empty());
    assert!(told(&scene, "e1")[0].contains("everything answers 500 at"), "{:?}", told(&scene, "e1"));
    // The routes of all hosts are not joined there, and do not answer in its place.
    let hosts = scene.hosts("http/80");
    assert_eq!(hosts["14.1.evil.example.com"], ["replaced"]);
}

#[test]
fn clusters_and_their_endpoints_count() {
    let slice = |port: usize| {
        let addresses: Vec<_> = (0..100).map(|at| json!({"addresses": [format!("10.0.{port}.{at}")]})).collect();
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": format!("s-{port}"), "namespace": "evil", "labels": {"kubernetes.io/service-name": "s"}},
            "ports": (0..20).map(|port| json!({"name": format!("p{port}"), "port": 8000 + port})).collect::<Vec<_>>(),
            "endpoints": addresses,
        })
    };
    let mut many = service("s");
    many["metadata"]["namespace"] = json!("evil");
    many["spec"]["ports"] = (0..20).map(|port| json!({"name": format!("p{port}"), "port": 80 + port})).collect();
    let to = |port: usize| {
        json!({"matches": [{"path": {"type": "PathPrefix", "value": format!("/{port}")}}],
            "backendRefs": [{"name": "s", "port": 80 + port}]})
    };
    let evil = of("evil", "evil", 1, on(&["evil.example.com"], (0..16).map(to)));
    let apps = of("apps", "apps", 2, on(&["apps.example.com"], vec![forward("/")]));
    let mut scene = scene(4 * SMALL, [many, apps, evil]);
    assert_eq!((served(&scene, "apps"), served(&scene, "evil")), (1, 16));
    for at in 0..4 {
        scene.put(slice(at));
    }
    assert_eq!(served(&scene, "apps"), 1);
    assert!(served(&scene, "evil") < 10, "{}", served(&scene, "evil"));
    let clusters = scene.0.resources();
    let clusters = clusters.values().flatten().filter(|(key, _)| key.kind == ResourceKind::Cluster).count();
    assert!(clusters <= 1 + served(&scene, "evil"), "no cluster is sent that nothing uses: {clusters}");
}

#[test]
fn clusters_of_whom_whole_listeners_ask_count() {
    let kgateway = |kind: &str, name: &str, spec: Value| {
        json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": "infra", "generation": 1}, "spec": spec})
    };
    let mut judges = service("judges");
    judges["metadata"]["namespace"] = json!("infra");
    let provider = json!({"grpcService": {"backendRef": {"name": "judges", "port": 80}}});
    for section in [json!(null), json!("http")] {
        let target =
            json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "edge", "sectionName": section});
        let policy = kgateway(
            "TrafficPolicy",
            "p",
            json!({"targetRefs": [target], "extAuth": {"extensionRef": {"name": "judge"}}}),
        );
        let routes = [of("apps", "r", 1, on(&["a.example.com"], rules("r", 150))), judges.clone()];
        let mut scene = scene(
            SMALL,
            routes.into_iter().chain([kgateway("GatewayExtension", "judge", json!({"extAuth": provider}))]),
        );
        let before = served(&scene, "apps");
        assert!(before > 50 && before < 150, "{before} fit");
        scene.put(policy.clone());
        let cluster = scene.resource("infra/edge", ResourceKind::Cluster, "service/infra/judges/80/grpc");
        assert!(cluster.is_some(), "it is asked");
        let after = served(&scene, "apps");
        assert!(after + 10 < before, "{after} of {before} are left");
        scene.remove(policy);
        assert_eq!(served(&scene, "apps"), before);
    }
}

#[test]
fn keys_of_tokens_count_once_whether_a_rule_or_a_whole_listener_asks_for_them() {
    let keys: Vec<_> = ('A'..='Z').chain('a'..='z').map(key).collect();
    let target = |kind: &str, name: &str, section: Value| json!([{"group": "gateway.networking.k8s.io", "kind": kind, "name": name, "sectionName": section}]);
    for (namespace, targets) in [
        ("infra", target("Gateway", "edge", json!(null))),
        ("infra", target("Gateway", "edge", json!("http"))),
        ("apps", target("HTTPRoute", "other", json!(null))),
    ] {
        let jwt = json!({"extensionRef": {"name": "accounts", "namespace": "apps"}});
        let policy = json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
            "metadata": {"name": "p", "namespace": namespace, "generation": 1},
            "spec": {"targetRefs": targets, "jwtAuth": jwt}});
        let mut other = of("apps", "other", 0, on(&["b.example.com"], rules("other", 1)));
        other["metadata"]["namespace"] = json!("apps");
        let routes = [of("apps", "r", 1, on(&["a.example.com"], rules("r", 150))), other, tokens("accounts", &keys)];
        let mut scene = scene(SMALL, routes);
        let before = served(&scene, "apps");
        assert!(before > 50 && before < 150, "{before} fit");
        scene.put(policy.clone());
        let with_all = served(&scene, "apps");
        assert!(with_all + 10 < before, "{targets}: {with_all} of {before} are left");
        scene.put(tokens("accounts", &keys[..1]));
        let with_one = served(&scene, "apps");
        assert!(with_all + 10 < with_one, "{targets}: {with_one} where {with_all} were");
        scene.remove(policy);
        assert_eq!(served(&scene, "apps"), before);
    }
}

#[test]
fn who_publishes_the_routes_of_others_pays_for_them() {
    let child = |namespace: &str, at: usize| {
        let mut child = of(namespace, &format!("c{at}"), at, json!({"rules": rules(&format!("{namespace}/{at}"), 15)}));
        child["spec"].as_object_mut().expect("a spec").remove("parentRefs");
        child
    };
    let to = |namespace: &str| {
        json!({"matches": [{"path": {"type": "PathPrefix", "value": format!("/{namespace}")}}], "backendRefs": [
            {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "*", "namespace": namespace}]})
    };
    let root = of("platform", "root", 0, on(&["shop.example.com"], vec![to("cart"), to("orders")]));
    let children = (0..20).map(|at| child("cart", at)).chain([child("orders", 30)]);
    let scene = scene(SMALL, [root].into_iter().chain(children));
    assert_eq!(served(&scene, "orders"), 15, "a sibling of another namespace has its share");
    assert!((50..290).contains(&served(&scene, "cart")), "{}", served(&scene, "cart"));
    assert!(told(&scene, "c0").is_empty() && !told(&scene, "c19").is_empty());
}

#[test]
fn within_the_bound_a_change_costs_the_same_however_much_is_placed() {
    let computed = |others: usize| {
        let others =
            (0..others).map(|at| of("shop", &format!("s{at}"), 0, on(&[&format!("{at}.example.com")], rules("s", 2))));
        let mut scene = scene(1 << 30, others);
        scene.put(of("apps", "new", 0, on(&["new.example.com"], rules("n", 2)))).computed
    };
    assert_eq!(computed(10), computed(300));
}

/// How many virtual hosts have routes of a namespace.
fn copies(scene: &Scene, namespace: &str) -> usize {
    routes_of(scene, namespace).len()
}

#[test]
fn a_hostname_that_another_listener_serves_alone_takes_no_copies_there() {
    let edge = gateway("edge", json!([http("shop", 80, "*.example.com"), http("rest", 80, "")]));
    let at = |section: &str, mut route: Value| {
        route["spec"]["parentRefs"][0]["namespace"] = json!("infra");
        route["spec"]["parentRefs"][0]["sectionName"] = json!(section);
        route
    };
    let shop = at("shop", of("shop", "shop", 0, on(&[], rules("s", 8))));
    let mut scene = Scene::new([edge, shop]);
    assert_eq!(copies(&scene, "shop"), 1);
    let names: Vec<_> = (0..16).map(|name| format!("{name}.example.com")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    scene.put(at("rest", of("evil", "evil", 1, on(&names, rules("e", 1)))));
    assert_eq!((copies(&scene, "shop"), copies(&scene, "evil")), (1, 0), "{:?}", scene.hosts("http/80"));
}

#[test]
fn hostnames_for_which_there_is_no_room_at_all_take_none() {
    let platform = of("platform", "all", 0, on(&[], rules("p", 8)));
    let evil = |at: usize| {
        let names: Vec<_> = (0..16).map(|name| format!("{name}.{at}.example.com")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        of("evil", &format!("e{at}"), 1 + at, on(&names, rules("e", 2)))
    };
    let scene = scene(SMALL, [platform].into_iter().chain((0..10).map(evil)));
    assert!(told(&scene, "e9")[0].contains("the rule is left out at"), "{:?}", told(&scene, "e9"));
    assert!(copies(&scene, "platform") < 14, "{:?}", copies(&scene, "platform"));
    let hosts = scene.hosts("http/80");
    assert!(hosts.len() < 30, "{}", hosts.len());
}

#[test]
fn expressions_count_with_the_states_that_all_requests_together_have_them_build() {
    let moved = json!({"type": "RequestRedirect", "requestRedirect": {"port": 8443}});
    let rule = |at: usize| {
        let path = json!({"type": "RegularExpression", "value": format!("/{at}/[ab]{{0,11}}a[ab]{{11}}")});
        json!({"matches": [{"path": path}], "filters": [moved]})
    };
    let evil = of("evil", "evil", 0, on(&["evil.example.com"], (0..16).map(rule)));
    let scene = scene(20_000_000, [evil]);
    assert!((4..8).contains(&served(&scene, "evil")), "{}", served(&scene, "evil"));
}

#[test]
fn beyond_the_bound_a_change_of_somebody_within_his_share_wakes_none_of_those_who_exceed_theirs() {
    let computed = |others: usize| {
        let shops =
            (0..others).map(|at| of("shop", &format!("s{at}"), at, on(&[&format!("{at}.example.com")], rules("s", 2))));
        let evil = (0..others)
            .map(|at| of("evil", &format!("e{at}"), 1000 + at, on(&[&format!("{at}.evil.com")], rules("e", 8))));
        let mut scene = scene(36_000 * others as u64, shops.chain(evil));
        assert!(served(&scene, "evil") < 6 * others, "{}", served(&scene, "evil"));
        let mut one_more =
            |at: usize| scene.put(of("apps", &format!("n{at}"), 3000 + at, on(&["apps.com"], rules("n", 1)))).computed;
        (0..3).map(&mut one_more).min()
    };
    let (few, many) = (computed(30), computed(120));
    assert!(many <= few, "{few:?} rows, and {many:?}");
}

#[test]
fn who_writes_much_into_old_routes_of_all_hosts_takes_the_hosts_of_nobody() {
    let old = |at: usize, count: usize| of("evil", &format!("e{at}"), at, on(&[], rules(&format!("e/{at}"), count)));
    let shops =
        (0..10).map(|at| of("shop", &format!("s{at}"), 100 + at, on(&[&format!("{at}.example.com")], rules("s", 3))));
    let mut scene = scene(3 * SMALL, (0..5).map(|at| old(at, 1)).chain(shops));
    assert_eq!(served(&scene, "shop"), 30);
    for at in 0..5 {
        scene.put(old(at, 16));
    }
    assert_eq!(served(&scene, "shop"), 30, "{:?}", told(&scene, "s9"));
    assert!(!told(&scene, "e4").is_empty());
}
