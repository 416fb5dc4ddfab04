//! A world of `n` routes over `n / 10` hostnames, `n / 2` Services and `2 n` endpoints, with Gateways of 1,000 routes at
//! most.

use api::Object;
use ir::Settings;
use serde_json::{Value, json};

/// How many routes a Gateway has at most.
const PER_GATEWAY: usize = 1_000;

/// The world, made anew whenever it is asked for, so that it takes no memory of its own.
pub(crate) struct World {
    routes: usize,
    per_host: usize,
    per_gateway: usize,
}

impl World {
    pub(crate) fn new(routes: usize) -> Self {
        Self { routes, per_host: 10, per_gateway: PER_GATEWAY }
    }

    /// All routes at one Gateway.
    pub(crate) fn at_one_gateway(routes: usize) -> Self {
        Self { routes, per_host: 10, per_gateway: routes }
    }

    /// All routes on one hostname of one Gateway.
    pub(crate) fn on_one_host(routes: usize) -> Self {
        Self { routes, per_host: routes, per_gateway: routes }
    }

    pub(crate) fn settings() -> Settings {
        let mut settings = Settings { shared_host: false, ..Settings::default() };
        // Proxies of so many routes have more memory than they have by default.
        settings.capacity.max_bytes = 1 << 40;
        settings
    }

    pub(crate) fn objects(&self) -> Vec<Object> {
        let mut objects = vec![class(), Self::namespace_with_label(self, 0)];
        objects.extend((0..self.routes.div_ceil(self.per_gateway)).map(gateway));
        objects.extend((0..self.routes).map(|index| self.route(index)));
        objects.extend((0..self.routes / 2).map(service));
        objects.extend((0..self.routes / 2).map(|index| slice(index, 0)));
        objects
    }

    pub(crate) fn route(&self, index: usize) -> Object {
        self.route_setting(index, 0)
    }

    /// The same route, with another header set each time.
    pub(crate) fn route_with_header(&self, turn: usize) -> Object {
        self.route_setting(turn * 7 % self.routes, turn + 1)
    }

    fn route_setting(&self, index: usize, value: usize) -> Object {
        decode(json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": format!("route-{index}"), "namespace": "apps", "generation": value,
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "parentRefs": [{"name": format!("gateway-{}", index / self.per_gateway), "namespace": "infra"}],
                "hostnames": [format!("host-{}.example.com", index / self.per_host)],
                "rules": [{
                    "matches": [{"path": {"type": "PathPrefix", "value": format!("/path-{index}")}}],
                    "filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [
                        {"name": "x-turn", "value": value.to_string()}]}}],
                    "backendRefs": [{"name": format!("service-{}", index / 2), "port": 80}],
                }],
            },
        }))
    }

    pub(crate) fn slice_with_address(&self, turn: usize) -> Object {
        slice(turn * 7 % (self.routes / 2), turn % 200 + 1)
    }

    pub(crate) fn namespace_with_label(_: &Self, turn: usize) -> Object {
        decode(json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps", "labels": {"turn": turn.to_string()}},
        }))
    }

    /// A grant for a namespace that holds no route of this world.
    pub(crate) fn grant(_: &Self, turn: usize) -> Object {
        decode(json!({
            "apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
            "metadata": {"name": "grant", "namespace": "apps"},
            "spec": {
                "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": format!("team-{turn}")}],
                "to": [{"group": "", "kind": "Service"}],
            },
        }))
    }
}

pub(crate) fn class() -> Object {
    decode(json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "portcullis"},
        "spec": {"controllerName": "portcullis.dev/gateway-controller"},
    }))
}

fn gateway(index: usize) -> Object {
    let listener = json!({
        "name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}},
    });
    gateway_with(&format!("gateway-{index}"), &json!([listener]))
}

pub(crate) fn gateway_with(name: &str, listeners: &Value) -> Object {
    decode(json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"name": name, "namespace": "infra", "generation": 1},
        "spec": {"gatewayClassName": "portcullis", "listeners": listeners},
    }))
}

pub(crate) fn service(index: usize) -> Object {
    decode(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("service-{index}"), "namespace": "apps"},
        "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    }))
}

pub(crate) fn slice(index: usize, last: usize) -> Object {
    let endpoints: Vec<Value> = (0..4)
        .map(|endpoint| {
            let [a, b] = [index / 250 % 250, index % 250];
            let d = if endpoint == 3 { last } else { 250 + endpoint };
            json!({"addresses": [format!("10.{a}.{b}.{d}")], "conditions": {"ready": true}, "zone": "zone-a"})
        })
        .collect();
    decode(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": format!("service-{index}-a"), "namespace": "apps",
            "labels": {"kubernetes.io/service-name": format!("service-{index}")}},
        "endpoints": endpoints, "ports": [{"name": "http", "port": 8080}],
    }))
}

pub(crate) fn decode(value: Value) -> Object {
    api::decode(value).expect("a sound object").object
}
