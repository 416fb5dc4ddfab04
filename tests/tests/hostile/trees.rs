//! Below one root, a tenant asks for more than there is.

use std::fmt::Write as _;

use anyhow::Result;
use portcullis_tests::objects::{Route, grant};

use crate::stage::Stage;

const HOST: &str = "tree.example";

const ROOT_IS_FINE: &str =
    "{object: HTTPRoute infra/root, parent: infra/gateway, conditions: {Accepted: 'True', ResolvedRefs: 'True'}}";
const ORDERS_ARE_FINE: &str = "{object: HTTPRoute orders/orders, parent: HTTPRoute infra/root, conditions: \
                               {Accepted: 'True', ResolvedRefs: 'True'}}";

/// What references to routes say.
const ROUTES: &str = "group: gateway.networking.k8s.io, kind: HTTPRoute";

/// A root for these matches, whose children are all routes of two namespaces, and the right of both to use the backend.
fn root(matches: &str) -> String {
    let children = ["orders", "cart"].map(|namespace| format!("{{{ROUTES}, namespace: {namespace}, name: '*'}}"));
    let rules = format!("  - {{matches: [{matches}], backendRefs: [{}]}}", children.join(", "));
    let root = Route { name: "root", hosts: HOST, rules: &rules, ..Route::default() };
    root.to_string() + &grant(&["orders", "cart"])
}

/// A child of the root, or, with `parent`, of a route of its own namespace.
fn child(name: (&str, &str), parent: Option<&str>, inherits: bool, rules: &str) -> String {
    let (namespace, name) = name;
    let (of, parent) = parent.map_or(("infra", "root"), |parent| (namespace, parent));
    let parents = format!("{{{ROUTES}, namespace: {of}, name: {parent}}}");
    let annotations = format!("delegation.kgateway.dev/inherit-parent-matcher: '{inherits}'");
    Route { namespace, name, annotations: &annotations, parents: &parents, hosts: "", rules }.to_string()
}

/// A rule for these paths that sends to the backend.
fn rule(paths: impl Iterator<Item = String>) -> String {
    let matches: Vec<_> = paths.map(|path| format!("{{path: {{value: {path}}}}}")).collect();
    format!("  - matches: [{}]\n    backendRefs: [{{namespace: infra, name: backend, port: 80}}]\n", matches.join(", "))
}

/// The rules of a route with as many matches as a route may have, 128.
fn as_many_as_there_may_be(path: &str) -> String {
    let rules = (0..16).map(|rule| self::rule((0..8).map(move |at| format!("{path}/{rule}/{at}"))));
    rules.collect()
}

/// Routes of `orders`: one that serves, and another level.
fn orders() -> String {
    let deeper = "  - matches: [{path: {value: /orders/deep}}]
    backendRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: deep}]\n";
    let own = rule(["/orders".to_owned()].into_iter()) + deeper;
    let deep = rule((0..20).map(|at| format!("/orders/deep/{at}")));
    child(("orders", "orders"), None, false, &own) + &child(("orders", "deep"), Some("orders"), false, &deep)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_namespaces_routes_take_nothing_from_anothers_at_any_depth() -> Result<()> {
    let mut stage = Stage::start().await?;
    let cart = |count: usize| {
        (0..count).fold(String::new(), |mut all, at| {
            let rules = as_many_as_there_may_be(&format!("/cart/{at}"));
            let _ = write!(all, "{}", child(("cart", &format!("c{at:02}")), None, false, &rules));
            all
        })
    };
    // With 78 of 128 matches there would be 16 left for everybody's deeper levels, and 79 are more than there may be.
    for count in [0, 78, 79] {
        stage.write(&(root("{path: {value: /}}") + &orders() + &cart(count))).await?;
        for path in ["/orders", "/orders/deep/0", "/orders/deep/19"] {
            stage.answers(HOST, path, 200).await?;
        }
        stage.is_unharmed().await?;
    }
    stage.answers(HOST, "/cart/0/0/0", 200).await?;
    stage.answers(HOST, "/cart/78/15/7", 500).await?;
    stage.status("{object: HTTPRoute cart/c00, parent: HTTPRoute infra/root, conditions: {Accepted: 'True'}}").await?;
    let refused = "{object: HTTPRoute cart/c78, parent: HTTPRoute infra/root, conditions: {Accepted: False \
                   UnsupportedValue}, messages: {Accepted: 'share of the 10000'}}";
    stage.status(refused).await?;
    stage.status(ORDERS_ARE_FINE).await?;
    stage.status(ROOT_IS_FINE).await
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_parent_has_many_matches_two_large_children_take_nothing_from_another_namespace() -> Result<()> {
    let mut stage = Stage::start().await?;
    let matches: Vec<_> = (0..64).map(|at| format!("{{path: {{value: /p{at}}}}}")).collect();
    let small = child(("orders", "orders"), None, true, &rule(["/orders".to_owned()].into_iter()));
    let large = |name: &str| child(("cart", name), None, true, &as_many_as_there_may_be(&format!("/{name}")));
    stage.write(&(root(&matches.join(", ")) + &small + &large("c1") + &large("c2"))).await?;
    for path in ["/p0/orders", "/p63/orders"] {
        stage.answers(HOST, path, 200).await?;
    }
    stage.answers(HOST, "/p0/c1/0/0", 200).await?;
    stage.answers(HOST, "/p63/c2/15/7", 500).await?;
    stage
        .status(
            "{object: HTTPRoute cart/c2, parent: HTTPRoute infra/root, conditions: {Accepted: False UnsupportedValue}}",
        )
        .await?;
    stage.status(ROOT_IS_FINE).await?;
    stage.is_unharmed().await
}
