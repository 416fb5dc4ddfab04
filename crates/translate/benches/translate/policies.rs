//! Worlds with policies: on one rule, on a Gateway, on each level of a tree.

use api::Object;
use serde_json::{Value, json};

use crate::{
    tree::{Scene, Step, Tree},
    world::{World, decode, gateway_with},
};

const ROUTES: &[usize] = &[1_000, 10_000];

pub(crate) const STEPS: [Step; 10] = [
    Step {
        name: "a policy of one rule changed",
        of: "routes",
        sizes: ROUTES,
        scene: |routes| Scene {
            objects: with(routes, [on("apps", "HTTPRoute", "route-7", "own", &buffer(1))]),
            change: Box::new(|turn| on("apps", "HTTPRoute", "route-7", "own", &buffer(turn + 2))),
        },
    },
    Step {
        name: "a filter of a Gateway changed",
        of: "routes",
        sizes: ROUTES,
        scene: |routes| Scene {
            objects: with(routes, [on("infra", "Gateway", "gateway-0", "wide", &buffer(1))]),
            change: Box::new(|turn| on("infra", "Gateway", "gateway-0", "wide", &buffer(turn + 2))),
        },
    },
    Step {
        name: "a filter that a Gateway prefers changed",
        of: "routes",
        sizes: ROUTES,
        scene: |routes| Scene {
            objects: with(routes, owners().chain([edge(1), on("infra", "Gateway", "gateway-0", "wide", &buffer(1))])),
            change: Box::new(|turn| on("infra", "Gateway", "gateway-0", "wide", &buffer(turn + 2))),
        },
    },
    Step {
        name: "a Gateway's annotation, ten routes with fields",
        of: "routes",
        sizes: ROUTES,
        scene: |routes| Scene {
            objects: with(routes, owners().chain([on("infra", "Gateway", "gateway-0", "wide", &buffer(1))])),
            change: Box::new(edge),
        },
    },
    Step {
        name: "an action of a Gateway changed",
        of: "routes",
        sizes: ROUTES,
        scene: |routes| Scene {
            objects: with(routes, [on("infra", "Gateway", "gateway-0", "wide", &action(1))]),
            change: Box::new(|turn| on("infra", "Gateway", "gateway-0", "wide", &action(turn + 2))),
        },
    },
    Step {
        name: "a Gateway's field merged deeply, ten have it",
        of: "routes",
        sizes: ROUTES,
        scene: |routes| Scene {
            objects: with(
                routes,
                own_headers().chain([deep(), on("infra", "Gateway", "gateway-0", "wide", &header(1))]),
            ),
            change: Box::new(|turn| on("infra", "Gateway", "gateway-0", "wide", &header(turn + 2))),
        },
    },
    Step {
        name: "one of those who ask a provider changed",
        of: "routes",
        sizes: ROUTES,
        scene: |routes| Scene {
            objects: with(routes, asking(routes, "judge")),
            change: Box::new(move |turn| World::at_one_gateway(routes).route_with_header(turn)),
        },
    },
    Step {
        name: "a provider changed that all ask",
        of: "routes",
        sizes: ROUTES,
        scene: |routes| Scene {
            objects: with(routes, asking(routes, "judge")),
            change: Box::new(|turn| judge(turn + 2)),
        },
    },
    // From here on what they say is said once.
    Step {
        name: "as many ask a provider as must, or one less",
        of: "routes",
        sizes: &[1_024],
        scene: |routes| Scene {
            objects: with(routes, asking(routes, "judge")),
            change: Box::new(|turn| asks(7, if turn.is_multiple_of(2) { "other" } else { "judge" })),
        },
    },
    Step {
        name: "keys of tokens rotated that all ask for",
        of: "routes",
        sizes: ROUTES,
        scene: |routes| Scene {
            objects: with(routes, asking(routes, "tokens")),
            change: Box::new(|turn| tokens(turn + 2)),
        },
    },
];

/// Providers, and a policy of each route that asks one of them.
fn asking(routes: usize, provider: &'static str) -> impl Iterator<Item = Object> {
    let providers = [judge(1), extension("other", &judging(1)), tokens(1)];
    providers.into_iter().chain((0..routes).map(move |route| asks(route, provider)))
}

/// The policy of a route.
fn asks(route: usize, provider: &str) -> Object {
    let field = if provider == "tokens" { "jwtAuth" } else { "extAuth" };
    let said = json!({field: {"extensionRef": {"name": provider}}});
    on("apps", "HTTPRoute", &format!("route-{route}"), &format!("asks-{route}"), &said)
}

fn judge(turn: usize) -> Object {
    extension("judge", &judging(turn))
}

fn judging(turn: usize) -> Value {
    let timeout = format!("{}ms", turn % 1_000 + 1);
    let service = json!({"backendRef": {"name": "service-0", "port": 80}, "requestTimeout": timeout});
    json!({"extAuth": {"grpcService": service}})
}

/// Who makes tokens, with another key each turn.
fn tokens(turn: usize) -> Object {
    let key = json!({"kty": "OKP", "crv": "Ed25519", "kid": turn.to_string(), "x": "A".repeat(43)});
    let jwks = json!({"local": {"inline": key.to_string()}});
    extension("tokens", &json!({"jwt": {"providers": [{"name": "maker", "issuer": "maker", "jwks": jwks}]}}))
}

fn extension(name: &str, spec: &Value) -> Object {
    decode(json!({
        "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "GatewayExtension",
        "metadata": {"name": name, "namespace": "apps", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec,
    }))
}

/// Routes of one Gateway, and more.
fn with(routes: usize, more: impl IntoIterator<Item = Object>) -> Vec<Object> {
    World::at_one_gateway(routes).objects().into_iter().chain(more).collect()
}

/// Ten policies of routes.
fn owners() -> impl Iterator<Item = Object> {
    ten(&buffer(9))
}

fn own_headers() -> impl Iterator<Item = Object> {
    ten(&header(0))
}

fn ten(said: &Value) -> impl Iterator<Item = Object> + use<> {
    let said = said.clone();
    (0..10).map(move |at| on("apps", "HTTPRoute", &format!("route-{}", at * 50), &format!("own-{at}"), &said))
}

/// The Gateway, which prefers itself now and then.
fn edge(turn: usize) -> Object {
    edge_with(if turn.is_multiple_of(2) { "ShallowMergePreferChild" } else { "ShallowMergePreferParent" })
}

/// The Gateway, which merges deeply.
fn deep() -> Object {
    edge_with("DeepMergePreferParent")
}

fn edge_with(mode: &str) -> Object {
    let listener = json!({
        "name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}},
    });
    let Object::Gateway(mut gateway) = gateway_with("gateway-0", &json!([listener])) else {
        unreachable!("it is a Gateway")
    };
    gateway.metadata.annotations.insert("kgateway.dev/inherited-policy-priority", mode);
    Object::Gateway(gateway)
}

fn buffer(bytes: usize) -> Value {
    json!({"buffer": {"maxRequestSize": bytes}})
}

fn action(turn: usize) -> Value {
    json!({"timeouts": {"request": format!("{}s", turn % 1_000 + 1)}})
}

fn header(turn: usize) -> Value {
    json!({"headerModifiers": {"request": {"set": [{"name": "x-turn", "value": turn.to_string()}]}}})
}

fn on(namespace: &str, kind: &str, target: &str, name: &str, said: &Value) -> Object {
    let mut spec = said.clone();
    spec["targetRefs"] = json!([{"group": "gateway.networking.k8s.io", "kind": kind, "name": target}]);
    decode(json!({
        "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec,
    }))
}

/// Which routes of a tree have policies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owners {
    /// Those above the leaves, so that each leaf inherits what four levels say.
    Above,
    /// The leaves.
    Leaves,
    /// All.
    All,
}

/// A tree of which these routes have policies with five fields each.
pub(crate) fn tree(leaves: usize, of: Owners) -> Vec<Object> {
    let objects = Tree::new(leaves).objects();
    let is_leaf = |route: &api::http_route::HttpRoute| {
        route.spec.rules[0].backend_refs[0].backend_ref.name.starts_with("service-")
    };
    let owners = objects.iter().filter_map(|object| match object {
        Object::HttpRoute(route) if of == Owners::All || is_leaf(route) == (of == Owners::Leaves) => {
            Some(route.metadata.name.to_string())
        }
        _ => None,
    });
    let policies = owners.enumerate().map(|(at, name)| {
        let said = json!({
            "timeouts": {"request": format!("{}s", at % 60 + 1)},
            "buffer": {"maxRequestSize": at % 1_000 + 1},
            "csrf": {"percentageEnabled": 100},
            "faultInjection": {"abort": {"httpStatus": 503, "percentage": 0}},
            "headerModifiers": {"request": {"set": [{"name": "x-level", "value": name}]}},
        });
        on("apps", "HTTPRoute", &name, &format!("of-{name}"), &said)
    });
    let policies: Vec<_> = policies.collect();
    objects.into_iter().chain(policies).collect()
}
