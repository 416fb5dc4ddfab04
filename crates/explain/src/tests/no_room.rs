//! What is said of what proxies have no room for.

use serde_json::{Value, json};
use translate::testing::scene::{Scene, gateway, http, route};

use super::get;
use crate::{Outcome, tree::tree};

/// About 100 plain routes.
const SMALL: u64 = 700_000;

/// HTTPRoute `NAMESPACE/NAME`, made in this second, with so many rules of `/NAME/…`.
fn of(namespace: &str, name: &str, second: usize, hostnames: &[String], rules: usize) -> Value {
    let redirect = json!({"type": "RequestRedirect", "requestRedirect": {"port": 8443}});
    let rules = (0..rules).map(|at| {
        let path = json!({"type": "PathPrefix", "value": format!("/{name}/{at}")});
        json!({"matches": [{"path": path}], "filters": [redirect]})
    });
    let mut route = route(name, json!({"hostnames": hostnames, "rules": rules.collect::<Value>()}));
    route["metadata"]["namespace"] = json!(namespace);
    route["metadata"]["creationTimestamp"] = json!(format!("2024-01-01T00:00:{second:02}Z"));
    route
}

fn scene(bound: u64, routes: impl IntoIterator<Item = Value>) -> Scene {
    let mut settings = ir::Settings::default();
    settings.capacity.max_bytes = bound;
    Scene::with(settings, [gateway("edge", json!([http("http", 80, "")]))].into_iter().chain(routes))
}

fn shop() -> String {
    "shop.example.com".to_owned()
}

#[test]
fn a_closed_rule_says_why_where_somebody_asks_for_a_request_or_a_tree() {
    let evil = |at: usize| of("evil", &format!("e{at}"), 1 + at, &[shop()], 15);
    let scene = scene(SMALL, [of("shop", "shop", 0, &[shop()], 3)].into_iter().chain((0..20).map(evil)));
    let taken = |name: &str, at| get(&scene, &format!("http://{}/{name}/{at}", shop())).outcome;
    assert!((0..3).all(|at| matches!(taken("shop", at), Outcome::Redirect { .. })), "nobody else is closed");
    let all = (0..20).flat_map(|name| (0..15).map(move |at| (format!("e{name}"), at)));
    let closed = all.map(|(name, at)| taken(&name, at)).find_map(|outcome| match outcome {
        Outcome::DirectResponse { status: 500, because, .. } => Some(because),
        _ => None,
    });
    let because = closed.expect("a closed rule");
    assert!(because.iter().any(|finding| finding.message.contains("have no room")), "{because:?}");
    let tree = tree(&scene.0).to_string();
    assert!(tree.contains("have no room"), "{tree}");
}

#[test]
fn a_hostname_that_answers_500_to_everything_says_whose_routes_are_too_many() {
    let names = |attack| (0..15).map(|name| format!("{name}.{attack}.evil.example.com")).collect::<Vec<_>>();
    let scene = scene(
        2 * SMALL,
        [
            of("platform", "all", 0, &[], 8),
            of("shop", "shop", 1, &[shop()], 3),
            of("evil", "e0", 2, &names(0), 1),
            of("evil", "e1", 3, &names(1), 1),
        ],
    );
    let Outcome::DirectResponse { status: 500, because, .. } =
        get(&scene, "http://14.1.evil.example.com/all/1").outcome
    else {
        panic!("{}", get(&scene, "http://14.1.evil.example.com/all/1"))
    };
    assert!(because[0].to_string().contains("namespace evil"), "{because:?}");
    assert!(matches!(get(&scene, &format!("http://{}/all/1", shop())).outcome, Outcome::Redirect { .. }));
}
