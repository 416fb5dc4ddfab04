//! Trees that several namespaces share: what one of them asks for, and what becomes of the others.

use serde_json::{Value, json};

use super::{
    delegation::{GROUP, child, forward, root, routes, to},
    scene::{Scene, gateway, http, service},
};

/// The route of another namespace, whose paths these are; `more` is merged into its spec.
fn of(namespace: &str, name: &str, rules: Value, more: Value) -> Value {
    let mut child = child(name, rules);
    child["metadata"]["namespace"] = json!(namespace);
    if let (Value::Object(spec), Value::Object(more)) = (&mut child["spec"], more) {
        spec.extend(more);
    }
    child
}

/// A rule that hands `/PATH` to these routes of another namespace.
fn to_namespace(path: &str, namespace: &str, names: &[&str]) -> Value {
    let mut rule = to(path, names);
    for reference in rule["backendRefs"].as_array_mut().expect("a list") {
        reference["namespace"] = json!(namespace);
    }
    rule
}

#[test]
fn a_namespace_that_asks_for_more_than_its_share_takes_nothing_from_another() {
    let mut settings = ir::Settings::default();
    settings.delegation.max_matches = 100;
    let names = json!([{"group": GROUP, "kind": "HTTPRoute", "namespace": "apps", "name": "root"}]);
    let asks = || json!({"parentRefs": names});
    let cart = |at: usize| {
        let paths = (0..13).map(|path| forward(&format!("/shop/cart{at}/{path}")));
        of("cart", &format!("c{at}"), paths.collect(), asks())
    };
    let mut both = to_namespace("/shop", "orders", &["orders"]);
    let all = to_namespace("/shop", "cart", &["*"]);
    let more = all["backendRefs"].as_array().expect("a list").clone();
    both["backendRefs"].as_array_mut().expect("a list").extend(more);
    let service = |namespace: &str| {
        let mut service = service("s");
        service["metadata"]["namespace"] = json!(namespace);
        service
    };
    let base = [
        gateway("edge", json!([http("web", 80, "")])),
        service("orders"),
        service("cart"),
        root(json!([both])),
        of("orders", "orders", json!([forward("/shop/orders"), to("/shop/orders/deep", &["deep"])]), asks()),
        of("orders", "deep", json!([forward("/shop/orders/deep/1"), forward("/shop/orders/deep/2")]), json!({})),
    ];
    // Their bytes, as it were.
    let victims = |scene: &Scene| -> Vec<String> {
        let config = scene.resource("infra/edge", envoy::ResourceKind::RouteConfiguration, "http/80").expect("routes");
        let all = config["virtualHosts"][0]["routes"].as_array().expect("a list").iter();
        let of_orders = all.filter(|route| route["name"].as_str().is_some_and(|name| name.starts_with("orders/")));
        of_orders.map(ToString::to_string).collect()
    };
    let mut scene = Scene::with(settings, base);
    let alone = victims(&scene);
    assert_eq!(alone.len(), 3, "{alone:?}");
    for at in 0..30 {
        scene.put(cart(at));
        assert_eq!(victims(&scene), alone, "{at} others");
        assert_eq!(scene.route("orders/orders", 0, "Accepted"), "True Accepted");
        assert_eq!(scene.route("apps/root", 0, "ResolvedRefs"), "True ResolvedRefs");
    }
    // Those of equal size that came first by name stay as they were.
    assert_eq!(scene.route("cart/c0", 0, "Accepted"), "True Accepted");
    assert_eq!(scene.route("cart/c9", 0, "Accepted"), "False UnsupportedValue");
    let answers = routes(&scene).iter().filter(|route| route.contains("cart/") && route.ends_with(" 500")).count();
    assert!(answers > 0 && answers <= 100, "{answers}");
}

#[test]
fn of_a_route_of_another_namespace_nobody_learns_whether_it_exists() {
    let secretive = |parent: &str| {
        let names = json!([{"group": GROUP, "kind": "HTTPRoute", "name": parent}]);
        of("other", "child", json!([forward("/a/x")]), json!({"parentRefs": names}))
    };
    let objects =
        || [gateway("edge", json!([http("web", 80, "")])), root(json!([to_namespace("/a", "other", &["child"])]))];
    let seen = |scene: &Scene| {
        let mut told = scene.problems();
        told.retain(|line| line.starts_with("root "));
        (routes(scene), scene.status(api::Kind::HttpRoute, "apps/root"), told)
    };
    let mut scene = Scene::new(objects());
    let absent = seen(&scene);
    assert_eq!(
        scene.route_message("apps/root", 0, "ResolvedRefs"),
        "False BackendNotFound: spec.rules[0].backendRefs[0].name: HTTPRoute other/child does not exist or does not admit \
         this route; correct the name, or ask its owner, who decides by parentRefs"
    );
    let changes = scene.put(secretive("somebody-else"));
    assert_eq!(seen(&scene), absent);
    assert!(changes.statuses.iter().all(|id| &*id.name != "root"), "the parent's owner sees that something happened");
}

#[test]
fn who_is_published_by_another_namespace_without_having_asked_for_it_is_told() {
    let foreign = |more: Value| of("other", "child", json!([forward("/a/x")]), more);
    let mut scene = Scene::new([
        gateway("edge", json!([http("web", 80, "")])),
        root(json!([to_namespace("/a", "other", &["*"])])),
        foreign(json!({})),
    ]);
    let told = scene.route_message("other/child", 0, "Accepted");
    assert!(told.contains("HTTPRoute apps/root of another namespace publishes this route"), "{told}");
    assert_eq!(scene.0.published_unasked(), 1);
    let names = json!([{"group": GROUP, "kind": "HTTPRoute", "namespace": "apps", "name": "root"}]);
    scene.put(foreign(json!({"parentRefs": names})));
    assert_eq!(scene.route_message("other/child", 0, "Accepted"), "True Accepted: the route is attached");
    assert_eq!(scene.0.published_unasked(), 0);
}

#[test]
fn nobody_fills_the_status_of_a_route_that_names_no_parent() {
    let parent = |namespace: &str, name: String| {
        let mut parent = of(namespace, &name, json!([to_namespace("/a", "victim", &["*"])]), json!({}));
        parent["spec"]["parentRefs"] = json!([{"name": "edge", "namespace": "infra"}]);
        parent
    };
    let base = [
        gateway("edge", json!([http("web", 80, "")])),
        of("victim", "child", json!([forward("/a/x")]), json!({})),
        parent("victim", "zz-own".into()),
        parent("platform", "root".into()),
    ];
    let mut scene = Scene::new(base.into_iter().chain((0..10).map(|at| parent("other", format!("o{at}")))));
    for at in 0..40 {
        scene.put(parent("evil", format!("e{at:02}")));
    }
    let told: Vec<_> = (0..scene.parents("victim/child")).map(|at| scene.parent_ref("victim/child", at)).collect();
    let of = |namespace: &str| told.iter().filter(|told| told["namespace"] == namespace).count();
    assert_eq!((told.len(), of("victim"), of("platform"), of("other"), of("evil")), (32, 1, 1, 10, 20));
    assert_eq!(told[0]["name"], "zz-own", "those of its own namespace come first");
    let told = scene.route_message("evil/e39", 0, "Accepted");
    assert!(told.contains("do not tell of this one in their statuses"), "{told}");
}

/// A tree that may have `max_matches`, with these children of namespace `cart` right below its root.
fn full(max_matches: u32, children: impl Iterator<Item = Value>, more: &[Value]) -> Scene {
    let mut settings = ir::Settings::default();
    settings.delegation.max_matches = max_matches;
    let base = [gateway("edge", json!([http("web", 80, "")])), root(json!([to_namespace("/shop", "cart", &["*"])]))];
    Scene::with(settings, base.into_iter().chain(children).chain(more.iter().cloned()))
}

fn asks_for_the_root() -> Value {
    json!({"parentRefs": [{"group": GROUP, "kind": "HTTPRoute", "namespace": "apps", "name": "root"}]})
}

#[test]
fn where_a_tree_is_full_a_change_of_one_child_costs_no_more_with_more_siblings() {
    // Each delegates, and one that changes asks for twice as much.
    let child = |at: u32, changed: bool| {
        let path = format!("/shop/{at}");
        let mut rules = vec![forward(&path), to_namespace(&path, "deep", &[&format!("d{at}")])];
        rules.extend((0..2).filter(|_| changed).map(|more| forward(&format!("{path}/{more}"))));
        of("cart", &format!("c{at:03}"), rules.into(), asks_for_the_root())
    };
    let [few, many] = [20, 200].map(|count| {
        let mut scene = full(count, (0..count).map(|at| child(at, false)), &[]);
        // The first are served.
        let last = count - 1;
        assert_eq!(scene.route("cart/c000", 0, "Accepted"), "True Accepted");
        assert_eq!(scene.route(&format!("cart/c{last:03}"), 0, "Accepted"), "False UnsupportedValue");
        [child(last, true), child(last, false), child(0, true), child(0, false)].map(|child| scene.put(child).computed)
    });
    assert_eq!(few, many, "rows for a change among 20, and among 200");
}

#[test]
fn where_a_tree_may_look_at_no_more_routes_a_change_of_one_child_costs_no_more_with_more_siblings() {
    // Each selects 30 routes, twice if it changed. Together they may select 1,000.
    let child = |at: u32, changed: bool| {
        let to = |path: &str| to_namespace(&format!("/shop/{at}{path}"), "deep", &["*"]);
        let mut rules = vec![to("")];
        rules.extend(changed.then(|| to("/more")));
        of("cart", &format!("c{at:03}"), rules.into(), asks_for_the_root())
    };
    let deep: Vec<_> = (0..30).map(|at| of("deep", &format!("d{at}"), json!([forward("/none")]), json!({}))).collect();
    let [few, many] = [40, 90].map(|count| {
        let mut scene = full(100, (0..count).map(|at| child(at, false)), &deep);
        let last = count - 1;
        let told = scene.route_message(&format!("cart/c{last:03}"), 0, "ResolvedRefs");
        assert!(told.contains("that a tree of routes may look at"), "{told}");
        [true, false].map(|changed| scene.put(child(last, changed)).computed)
    });
    assert_eq!(few, many, "rows for a change among 40, and among 90");
}
