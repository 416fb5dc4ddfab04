//! What a change costs, counted in rows, and what it leaves alone.

use envoy::ResourceKind;
use serde_json::{Value, json};

use super::object;
use translate::{Change, Changes, Translator};

/// One Gateway, `routes` routes on ten times fewer hostnames, a Service with an endpoint for each.
struct Shop {
    translator: Translator,
}

impl Shop {
    fn new(routes: usize) -> Self {
        let mut translator = Translator::new(ir::Settings::default());
        let mut put = |value| translator.apply(Change::Put(object(value)));
        put(json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "portcullis"},
            "spec": {"controllerName": "portcullis.dev/gateway-controller"},
        }));
        put(gateway(&[listener("http", 80, "")]));
        put(namespace("apps", "blue"));
        for index in 0..routes {
            put(route(index, "1"));
            put(json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{index}"), "namespace": "apps"},
                "spec": {"ports": [{"port": 80}]},
            }));
            put(slice(index, 1));
        }
        translator.settle();
        Self { translator }
    }

    fn put(&mut self, value: Value) -> Changes {
        self.translator.apply(Change::Put(object(value)));
        self.translator.settle()
    }
}

fn gateway(listeners: &[Value]) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"name": "edge", "namespace": "infra"},
        "spec": {"gatewayClassName": "portcullis", "listeners": listeners},
    })
}

fn listener(name: &str, port: u16, hostname: &str) -> Value {
    let mut listener = json!({"name": name, "port": port, "protocol": "HTTP", "allowedRoutes": {"namespaces": {
        "from": "Selector", "selector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}}}});
    if !hostname.is_empty() {
        listener["hostname"] = json!(hostname);
    }
    listener
}

fn namespace(name: &str, team: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}})
}

fn route(index: usize, header: &str) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": format!("r{index}"), "namespace": "apps"},
        "spec": {
            "parentRefs": [{"name": "edge", "namespace": "infra"}],
            "hostnames": [format!("h{}.example.com", index / 10)],
            "rules": [{
                "matches": [{"path": {"value": format!("/{index}")}}],
                "filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "x", "value": header}]}}],
                "backendRefs": [{"name": format!("s{index}"), "port": 80}],
            }],
        },
    })
}

fn slice(index: usize, host: u8) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": format!("s{index}"), "namespace": "apps", "labels": {"kubernetes.io/service-name": format!("s{index}")}},
        "endpoints": [{"addresses": [format!("10.0.0.{host}")]}], "ports": [{"port": 8080}],
    })
}

/// The same change in a small and in a large world.
fn both(change: impl Fn(&mut Shop) -> Changes) -> [Changes; 2] {
    [20, 400].map(|routes| change(&mut Shop::new(routes)))
}

fn kinds(changes: &Changes) -> Vec<ResourceKind> {
    changes.resources.iter().map(|(key, _)| key.kind).collect()
}

#[test]
fn a_route_costs_the_same_in_a_large_world_and_changes_its_route_configuration_alone() {
    let [small, large] = both(|shop| shop.put(route(3, "2")));
    assert_eq!(small.computed, large.computed);
    assert_eq!(kinds(&large), [ResourceKind::RouteConfiguration]);
}

#[test]
fn an_endpoint_costs_the_same_in_a_large_world_and_changes_its_assignment_alone() {
    let [small, large] = both(|shop| shop.put(slice(3, 2)));
    assert_eq!(small.computed, large.computed);
    assert!(large.computed <= 5, "{} rows for one endpoint", large.computed);
    assert_eq!(kinds(&large), [ResourceKind::Endpoints]);
}

#[test]
fn an_object_put_again_as_it_is_computes_nothing() {
    let [_, large] = both(|shop| shop.put(route(3, "1")));
    assert_eq!((large.computed, large.resources.len(), large.statuses.len()), (0, 0, 0));
}

#[test]
fn a_label_that_turns_no_admission_wakes_no_route() {
    let [small, large] = both(|shop| shop.put(namespace("apps", "green")));
    assert_eq!(small.computed, large.computed);
    assert!(large.resources.is_empty());
}

#[test]
fn a_grant_between_namespaces_without_references_computes_its_own_row_alone() {
    let [_, large] = both(|shop| {
        shop.put(json!({
            "apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
            "metadata": {"name": "grant", "namespace": "apps"},
            "spec": {"from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "other"}],
                "to": [{"group": "", "kind": "Service"}]},
        }))
    });
    assert_eq!((large.computed, large.resources.len()), (1, 0));
}

#[test]
fn a_listener_for_other_hostnames_wakes_no_route() {
    let [small, large] =
        both(|shop| shop.put(gateway(&[listener("http", 80, ""), listener("other", 80, "other.org")])));
    assert_eq!(small.computed, large.computed);
    assert_eq!(kinds(&large), [ResourceKind::RouteConfiguration], "its empty virtual host is all that is new");
}

#[test]
fn a_listener_that_admits_nobody_here_wakes_no_hostname() {
    let closed = |from: Value| {
        let mut listener = listener("closed", 81, "");
        listener["allowedRoutes"]["namespaces"] = from;
        listener
    };
    for from in [json!({"from": "Same"}), json!({"from": "Selector", "selector": {"matchLabels": {"team": "red"}}})] {
        let [small, large] = both(|shop| shop.put(gateway(&[listener("http", 80, ""), closed(from.clone())])));
        assert_eq!(small.computed, large.computed, "{from}");
    }
}

#[test]
fn a_change_of_the_gateway_that_turns_no_listener_wakes_no_route() {
    let [small, large] = both(|shop| {
        let mut edge = gateway(&[listener("http", 80, "")]);
        edge["metadata"]["generation"] = json!(7);
        shop.put(edge)
    });
    assert_eq!(small.computed, large.computed);
    assert!(large.resources.is_empty());
    assert_eq!(large.statuses.len(), 1, "the Gateway's own");
}

#[test]
fn a_grant_for_one_service_computes_its_references_alone() {
    let change = |routes: usize| {
        let mut shop = Shop::new(0);
        for index in 0..routes {
            let mut route = route(index, "1");
            route["metadata"]["namespace"] = json!("other");
            route["spec"]["rules"][0]["backendRefs"][0]["namespace"] = json!("apps");
            shop.put(route);
            shop.put(json!({"apiVersion": "v1", "kind": "Service",
                "metadata": {"name": format!("s{index}"), "namespace": "apps"}, "spec": {"ports": [{"port": 80}]}}));
        }
        shop.put(namespace("other", "blue"));
        shop.put(json!({
            "apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
            "metadata": {"name": "grant", "namespace": "apps"},
            "spec": {"from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "other"}],
                "to": [{"group": "", "kind": "Service", "name": "s3"}]},
        }))
    };
    let [small, large] = [20, 200].map(change);
    assert_eq!(small.computed, large.computed);
    assert_eq!(large.statuses.len(), 1, "that of the one route");
}

#[test]
fn a_route_that_leaves_takes_its_clusters_along() {
    let mut shop = Shop::new(20);
    let id = object(route(3, "1")).id();
    shop.translator.apply(Change::Remove(id));
    let changes = shop.translator.settle();
    let gone: Vec<_> =
        changes.resources.iter().filter(|(_, now)| now.is_none()).map(|(key, _)| (key.kind, &*key.name)).collect();
    assert_eq!(gone, [(ResourceKind::Cluster, "service/apps/s3/80"), (ResourceKind::Endpoints, "service/apps/s3/80")]);
}
