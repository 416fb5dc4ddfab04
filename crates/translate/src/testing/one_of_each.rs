//! A world that reaches every table.

use ir::GATEWAY_API;
use serde_json::{Value, json};

use super::scene::{
    at_set, child, class, gateway, grpc_route, hosting, http, https, listener_set, method, opaque, prefix, providers,
    route, secret, service, stream, stream_route, tls, tls_route, to,
};
#[cfg(debug_assertions)]
use crate::Translator;

#[cfg(debug_assertions)]
impl Translator {
    /// The rows that are computed, by table and by key: what [`Translator::fail_at`] can be tried on.
    pub fn computed_rows(&self) -> Vec<(&'static str, String)> {
        self.engine().computed_rows()
    }
}

/// A rule of `/PATH` for a Service of its own.
fn rule(path: &str, service: &str, more: Value) -> Value {
    with(json!({"matches": [prefix(path)], "backendRefs": [{"name": service, "port": 80}]}), more)
}

fn with(mut object: Value, more: Value) -> Value {
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}

fn labelled(mut object: Value, name: &str, value: &str) -> Value {
    object["metadata"]["labels"][name] = json!(value);
    object
}

/// One that prefers what it says, and has it merged.
fn annotated(mut object: Value) -> Value {
    object["metadata"]["annotations"] = json!({"kgateway.dev/inherited-policy-priority": "DeepMergePreferParent"});
    object
}

/// One that says something of TLS on both of its sides.
fn with_tls(mut gateway: Value) -> Value {
    let ca = json!([{"group": "", "kind": "ConfigMap", "name": "clients"}]);
    gateway["spec"]["tls"] = json!({
        "frontend": {"default": {"validation": {"caCertificateRefs": ca}}},
        "backend": {"clientCertificateRef": {"name": "two"}},
    });
    gateway
}

fn in_namespace(mut object: Value, namespace: &str) -> Value {
    object["metadata"]["namespace"] = json!(namespace);
    object
}

fn policy(kind: &str, name: &str, target: (&str, &str), spec: Value) -> Value {
    let group = if kind == "TrafficPolicy" { "gateway.kgateway.dev" } else { "gateway.portcullis.dev" };
    let target = json!({"targetRefs": [{"group": GATEWAY_API, "kind": target.0, "name": target.1}]});
    json!({"apiVersion": format!("{group}/v1alpha1"), "kind": kind,
        "metadata": {"name": name, "namespace": "apps", "generation": 1}, "spec": with(target, spec)})
}

/// A ListenerSet of another Gateway, created then.
fn at_host(mut set: Value, created: &str) -> Value {
    set["spec"]["parentRef"]["name"] = json!("host");
    set["metadata"]["creationTimestamp"] = json!(created);
    set
}

/// A route of streams at another Gateway.
fn at_streams(mut route: Value) -> Value {
    route["spec"]["parentRefs"][0]["name"] = json!("streams");
    route
}

fn slice(service: &str, address: &str) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": format!("{service}-1"), "namespace": "apps", "labels": {"kubernetes.io/service-name": service}},
        "ports": [{"name": "", "port": 8080}], "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
    })
}

/// One of each: listeners, ways to attach, filters that are written for each listener, trees, policies, references.
#[allow(clippy::too_many_lines, reason = "a list")]
pub fn one_of_each() -> Vec<Value> {
    let selecting = json!({"namespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "a"}}}});
    let mut all = vec![
        class(),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps", "labels": {"team": "a"}}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kids"}}),
        secret("one"),
        secret("two"),
        annotated(gateway(
            "edge",
            json!([
                http("web", 80, ""),
                with(http("narrow", 80, "narrow.example.com"), json!({"allowedRoutes": selecting})),
                https("tls", 443, "*.example.com", "one"),
                https("own", 443, "own.example.com", "two"),
            ]),
        )),
        // One of its listeners has no routes.
        gateway(
            "other",
            json!([
                http("web", 8080, ""),
                with(http("idle", 8081, ""), json!({"allowedRoutes": {"namespaces": {"from": "Same"}}})),
            ]),
        ),
        // What is missing elsewhere would fall to this one.
        route("site", json!({"rules": [rule("/", "site", json!({}))]})),
        route("bystander", json!({"hostnames": ["by.example.com"], "rules": [rule("/", "by", json!({}))]})),
        route(
            "elsewhere",
            json!({"parentRefs": [{"name": "other", "namespace": "infra"}], "rules": [rule("/", "by", json!({}))]}),
        ),
        route(
            "shop",
            json!({
                "hostnames": ["shop.example.com", "narrow.example.com", "own.example.com"],
                "parentRefs": [{"name": "edge", "namespace": "infra"}, {"name": "other", "namespace": "infra"}],
                "rules": [
                    rule("/admin", "admin", json!({"name": "admin"})),
                    {"matches": [prefix("/moved")], "filters": [
                        {"type": "RequestRedirect", "requestRedirect": {"path": {"type": "ReplaceFullPath", "replaceFullPath": "/"}}},
                    ]},
                    {"matches": [prefix("/kept")], "sessionPersistence": {"sessionName": "kept", "type": "Cookie"},
                        "backendRefs": [{"name": "admin", "port": 80}, {"name": "a", "port": 80}]},
                    {"matches": [prefix("/said")], "filters": [{"type": "ExtensionRef", "extensionRef":
                        {"group": "gateway.kgateway.dev", "kind": "DirectResponse", "name": "said"}}]},
                    {"matches": [{"path": {"type": "RegularExpression", "value": "/re/[a-z]+"}}],
                        "backendRefs": [{"name": "admin", "port": 80}]},
                    {"matches": [prefix("/host")],
                        "backendRefs": [{"group": "gateway.kgateway.dev", "kind": "Backend", "name": "host"}]},
                    {"matches": [prefix("/far")], "backendRefs": [{"name": "far", "namespace": "kids", "port": 80}]},
                ],
            }),
        ),
        grpc_route(
            "calls",
            json!({"hostnames": ["shop.example.com"], "rules": [
                {"name": "add", "matches": [method("shop.Cart", "Add")], "backendRefs": [{"name": "a", "port": 80}],
                    "filters": [{"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "admin", "port": 80}}}]},
                {"matches": [{"method": {"type": "RegularExpression", "service": "shop[.].+"}}],
                    "backendRefs": [{"name": "far", "namespace": "kids", "port": 80}]},
                {"matches": [method("shop.Kept", "")], "sessionPersistence": {"type": "Header"},
                    "backendRefs": [{"name": "admin", "port": 80}, {"name": "a", "port": 80}]},
            ]}),
        ),
        policy("TrafficPolicy", "calls", ("GRPCRoute", "calls"), json!({"retry": {"retryOn": ["unavailable"]}})),
        json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "DirectResponse",
            "metadata": {"name": "said", "namespace": "apps"}, "spec": {"status": 418}}),
        json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "Backend",
            "metadata": {"name": "host", "namespace": "apps", "generation": 1},
            "spec": {"static": {"hosts": [{"host": "192.0.2.1", "port": 80}]}}}),
        json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "BackendConfigPolicy",
            "metadata": {"name": "host", "namespace": "apps", "generation": 1},
            "spec": {"targetRefs": [{"group": "gateway.kgateway.dev", "kind": "Backend", "name": "host"}],
                "connectTimeout": "1s"}}),
        json!({"apiVersion": GATEWAY_API.to_owned() + "/v1", "kind": "BackendTLSPolicy",
            "metadata": {"name": "secured", "namespace": "apps", "generation": 1},
            "spec": {"targetRefs": [{"group": "", "kind": "Service", "name": "secured"}], "validation": {"hostname": "a.example",
                "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}]}}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca", "namespace": "apps"},
            "data": {"ca.crt": super::scene::certificates()[0].0}}),
        // Who asks clients for certificates, and shows backends one.
        with_tls(gateway("mutual", json!([https("tls", 9443, "", "one")]))),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "clients", "namespace": "infra"},
            "data": {"ca.crt": super::scene::certificates()[1].0}}),
        route(
            "mutual",
            json!({"parentRefs": [{"name": "mutual", "namespace": "infra"}], "rules": [rule("/", "secured", json!({}))]}),
        ),
        service("secured"),
        route("secured", json!({"hostnames": ["secured.example.com"], "rules": [rule("/", "secured", json!({}))]})),
        json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "ListenerPolicy",
            "metadata": {"name": "port", "namespace": "infra", "generation": 1},
            "spec": {"targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "edge"}],
                "default": {"tcpKeepalive": {"keepAliveProbes": 3}, "httpSettings": {"tracing": {"provider": {
                    "openTelemetry": {"grpcService": {"backendRef": {"name": "told", "port": 80}}}}}}}}}),
        in_namespace(service("told"), "infra"),
        in_namespace(service("far"), "kids"),
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
            "metadata": {"name": "far", "namespace": "kids"},
            "spec": {
                "from": [
                    {"group": GATEWAY_API, "kind": "HTTPRoute", "namespace": "apps"},
                    {"group": GATEWAY_API, "kind": "GRPCRoute", "namespace": "apps"},
                ],
                "to": [{"group": "", "kind": "Service"}],
            },
        }),
        route(
            "root",
            json!({"hostnames": ["tree.example.com"], "rules": [
                to("/named", &["leafy", "catch", "missing"]),
                {"matches": [prefix("/label")], "backendRefs": [
                    {"group": "delegation.kgateway.dev", "kind": "label", "name": "many"}]},
                {"matches": [prefix("/all")], "backendRefs": [
                    {"group": GATEWAY_API, "kind": "HTTPRoute", "name": "*", "namespace": "kids"}]},
            ]}),
        ),
        child("leafy", json!([rule("/named/a", "a", json!({})), to("/named/deep", &["leaf"])])),
        child("leaf", json!([rule("/named/deep/er", "leaf", json!({}))])),
        child("catch", json!([rule("/named", "catch", json!({}))])),
        labelled(
            child("first", json!([rule("/label/one", "first", json!({}))])),
            "delegation.kgateway.dev/label",
            "many",
        ),
        labelled(
            child("second", json!([rule("/label", "second", json!({}))])),
            "delegation.kgateway.dev/label",
            "many",
        ),
        in_namespace(child("kid", json!([rule("/all/one", "far", json!({}))])), "kids"),
        // What nobody looks into.
        gateway(
            "streams",
            json!([
                stream("db", 5432, "TCP"),
                stream("dns", 53, "UDP"),
                tls("through", 8443, "*.example.com", None),
                tls("ends", 8443, "*.example.net", Some("one")),
            ]),
        ),
        at_streams(stream_route("TCPRoute", "db", json!([{"name": "s", "port": 80}, {"name": "secured", "port": 80}]))),
        at_streams(stream_route("TCPRoute", "db-2", json!([{"name": "a", "port": 80}]))),
        at_streams(stream_route("UDPRoute", "dns", json!([{"name": "resolver", "port": 53}]))),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "resolver", "namespace": "apps"},
            "spec": {"ports": [{"port": 53, "protocol": "UDP"}]}}),
        with(slice("resolver", "10.0.1.1"), json!({"ports": [{"name": "", "port": 5353, "protocol": "UDP"}]})),
        slice("secured", "10.0.1.2"),
        at_streams(tls_route("names", &["a.example.com", "a.example.net"], json!([{"name": "s", "port": 80}]))),
        // Listeners of ListenerSets, of which the younger loses a hostname to the older one.
        with_tls(hosting("host", json!([http("web", 9092, "*.example.com")]), "All")),
        at_host(
            listener_set(
                "infra/guests",
                json!([
                    http("shop", 9092, "shop.example.com"),
                    https("tls", 9445, "shop.example.com", "one"),
                    https("lacking", 9445, "lacking.example.com", "nothing"),
                ]),
            ),
            "2026-01-01T00:00:00Z",
        ),
        at_host(
            listener_set(
                "apps/rivals",
                json!([
                    http("shop", 9092, "shop.example.com"),
                    http("narrow", 9092, "narrow.example.com"),
                    stream("db", 5433, "TCP"),
                ]),
            ),
            "2026-01-02T00:00:00Z",
        ),
        route("guests", json!({"parentRefs": [at_set("infra/guests")], "rules": [rule("/", "admin", json!({}))]})),
        route("rivals", json!({"parentRefs": [at_set("apps/rivals")], "rules": [rule("/", "a", json!({}))]})),
        route(
            "hosted",
            json!({"parentRefs": [{"name": "host", "namespace": "infra"}], "rules": [rule("/", "s", json!({}))]}),
        ),
        policy("TrafficPolicy", "rivals", ("ListenerSet", "rivals"), json!({"buffer": {"maxRequestSize": "3Mi"}})),
        // What is broken from the beginning.
        gateway("shut", json!([http("web", 9090, "")])),
        in_namespace(
            policy(
                "TrafficPolicy",
                "shut",
                ("Gateway", "shut"),
                json!({"urlRewrite": {"pathRegex": {"pattern": "^/", "substitution": "/"}}}),
            ),
            "infra",
        ),
        route("behind", json!({"parentRefs": [{"name": "shut", "namespace": "infra"}]})),
        // Who is there must say who he is, which the Gateway asks.
        gateway("guarded", json!([http("web", 9091, "")])),
        in_namespace(
            policy(
                "TrafficPolicy",
                "guarded",
                ("Gateway", "guarded"),
                json!({"basicAuth": {"users": ["alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="]}}),
            ),
            "infra",
        ),
        labelled(
            route("members", json!({"parentRefs": [{"name": "guarded", "namespace": "infra"}]})),
            "portcullis.dev/require-auth",
            "true",
        ),
        route(
            "exact",
            json!({"hostnames": ["exact.example.com"], "rules": [
                {"matches": [{"path": {"type": "Exact", "value": "/exact"}}, prefix("/admin")],
                    "backendRefs": [{"name": "s", "port": 80}]},
                {"matches": [prefix("/broken")], "filters": [{"type": "ExternalAuth"}]},
            ]}),
        ),
        policy(
            "RewritePolicy",
            "prefixes",
            ("HTTPRoute", "exact"),
            json!({"replacePrefix": [{"replacement": "/new"}]}),
        ),
        policy(
            "DelegationPolicy",
            "rules",
            ("HTTPRoute", "root"),
            json!({
            "allowedChildren": {"namespaces": {"names": ["apps", "kids"]}}}),
        ),
        policy("RewritePolicy", "rewrite", ("HTTPRoute", "shop"), json!({"replacePrefix": [{"replacement": "/new"}]})),
        policy(
            "TrafficPolicy",
            "traffic",
            ("HTTPRoute", "leafy"),
            json!({
                "urlRewrite": {"pathRegex": {"pattern": "^/named", "substitution": "/renamed"}},
                "buffer": {"maxRequestSize": "2Mi"},
                "internalRedirect": {},
                "headerModifiers": {"request": {"set": [{"name": "x-from", "value": "leafy"}]}},
                "basicAuth": {"secretRef": {"name": "users"}},
                "extAuth": {"extensionRef": {"name": "judge"}},
                "jwtAuth": {"extensionRef": {"name": "tokens"}},
                "oauth2": {"extensionRef": {"name": "login"}},
                "rateLimit": {"local": {"tokenBucket": {"maxTokens": 9, "fillInterval": "1s"}}},
                "tracing": {"randomSampling": 1},
            }),
        ),
        opaque("users", json!({".htpasswd": "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="})),
        policy(
            "TrafficPolicy",
            "handed",
            ("HTTPRoute", "root"),
            json!({
            "urlRewrite": {"pathRegex": {"pattern": "^/label", "substitution": "/relabelled"}}}),
        ),
        in_namespace(
            policy(
                "TrafficPolicy",
                "wide",
                ("Gateway", "edge"),
                json!({
                    "timeouts": {"request": "30s"},
                    "buffer": {"maxRequestSize": "1Mi"},
                    "headerModifiers": {"request": {"set": [{"name": "x-from", "value": "edge"}]}},
                }),
            ),
            "infra",
        ),
    ];
    all.extend(providers());
    for (number, name) in ["s", "site", "by", "admin", "a", "leaf", "catch", "first", "second"].iter().enumerate() {
        all.extend([service(name), slice(name, &format!("10.0.0.{}", number + 1))]);
    }
    all
}
