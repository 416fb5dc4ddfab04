//! A few objects, translated, and what is said of them in one line each.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    sync::OnceLock,
};

use api::{Kind, Object, ObjectId};
use envoy::{ResourceKey, ResourceKind};
use ir::GATEWAY_API;
use serde_json::{Value, json};
use worlds::extension::key;

use crate::{Change, Changes, Translator, tables::output::Outputs};

/// Decodes an object as a source would.
pub fn object(value: Value) -> Object {
    api::decode(value).expect("a sound object").object
}

/// Two certificates with their keys, RSA-free and made once.
pub fn certificates() -> &'static [(String, String); 2] {
    static MADE: OnceLock<[(String, String); 2]> = OnceLock::new();
    MADE.get_or_init(|| {
        ["a.example.com", "example.com"].map(|name| {
            let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
            (made.cert.pem(), made.signing_key.serialize_pem())
        })
    })
}

/// The certificates of a thousand authorities in PEM, made once.
pub fn authority_pems() -> &'static [String] {
    static MADE: OnceLock<Vec<String>> = OnceLock::new();
    MADE.get_or_init(|| {
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = |number: u32| {
            let params = rcgen::CertificateParams::new([format!("{number}.example")]).expect("a name");
            params.self_signed(&key).expect("signed").pem()
        };
        (0..1_000).map(certificate).collect()
    })
}

/// A translator with a class of ours, named `portcullis`.
pub struct Scene(
    /// The translator.
    pub Translator,
);

impl Scene {
    /// These objects and the class, with the defaults of all settings.
    pub fn new(objects: impl IntoIterator<Item = Value>) -> Self {
        Self::with(ir::Settings::default(), objects)
    }

    /// The same with these settings.
    pub fn with(settings: ir::Settings, objects: impl IntoIterator<Item = Value>) -> Self {
        let mut translator = Translator::new(settings);
        translator.set_login_seed(Some(crate::LoginSeed::unserved()));
        for value in [class()].into_iter().chain(objects) {
            translator.apply(Change::Put(object(value)));
        }
        translator.settle();
        Self(translator)
    }

    /// Puts an object, and tells what changed.
    pub fn put(&mut self, value: Value) -> Changes {
        self.0.apply(Change::Put(object(value)));
        self.0.settle()
    }

    /// Removes an object, and tells what changed.
    pub fn remove(&mut self, value: Value) -> Changes {
        self.0.apply(Change::Remove(object(value).id()));
        self.0.settle()
    }

    /// The status of an object; null where it has none.
    pub fn status(&self, kind: Kind, name: &str) -> Value {
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        let status = self.0.status(&ObjectId::new(kind, namespace, name));
        status.map(|status| serde_json::from_str(&status).expect("JSON")).unwrap_or_default()
    }

    /// `True Accepted`, or nothing where there is no such condition.
    pub fn class(&self, name: &str, condition: &str) -> String {
        said(&self.status(Kind::GatewayClass, name), condition, false)
    }

    /// A condition of a Gateway, as [`Scene::class`] has it.
    pub fn gateway(&self, name: &str, condition: &str) -> String {
        said(&self.status(Kind::Gateway, name), condition, false)
    }

    /// The addresses in the status of a Gateway.
    pub fn addresses(&self, name: &str) -> Vec<String> {
        let status = self.status(Kind::Gateway, name);
        let addresses = status["addresses"].as_array().into_iter().flatten();
        addresses.filter_map(|address| Some(address["value"].as_str()?.to_owned())).collect()
    }

    /// A condition of a Gateway with its message.
    pub fn gateway_message(&self, name: &str, condition: &str) -> String {
        said(&self.status(Kind::Gateway, name), condition, true)
    }

    /// A condition of a listener.
    pub fn listener(&self, gateway: &str, name: &str, condition: &str) -> String {
        said(&self.listener_status(gateway, name), condition, false)
    }

    /// The status of a listener; null where it has none.
    pub fn listener_status(&self, gateway: &str, name: &str) -> Value {
        let status = self.status(Kind::Gateway, gateway);
        let listeners = status["listeners"].as_array().into_iter().flatten();
        listeners.into_iter().find(|listener| listener["name"] == name).cloned().unwrap_or_default()
    }

    /// A condition of a ListenerSet with its message.
    pub fn set(&self, name: &str, condition: &str) -> String {
        said(&self.status(Kind::ListenerSet, name), condition, true)
    }

    /// A condition of a listener of a ListenerSet with its message.
    pub fn listener_of_set(&self, set: &str, name: &str, condition: &str) -> String {
        said(&self.listener_of_set_status(set, name), condition, true)
    }

    /// The status of a listener of a ListenerSet; null where it has none.
    pub fn listener_of_set_status(&self, set: &str, name: &str) -> Value {
        let status = self.status(Kind::ListenerSet, set);
        let listeners = status["listeners"].as_array().into_iter().flatten();
        listeners.into_iter().find(|listener| listener["name"] == name).cloned().unwrap_or_default()
    }

    /// How many routes a listener has, by its status.
    pub fn attached(&self, gateway: &str, name: &str) -> Value {
        self.listener_status(gateway, name)["attachedRoutes"].clone()
    }

    /// What is said of a route at the parent with this place in its status.
    pub fn route(&self, name: &str, parent: usize, condition: &str) -> String {
        said(&self.status(Kind::HttpRoute, name)["parents"][parent], condition, false)
    }

    /// The same with the message.
    pub fn route_message(&self, name: &str, parent: usize, condition: &str) -> String {
        said(&self.status(Kind::HttpRoute, name)["parents"][parent], condition, true)
    }

    /// How many parents a route has in its status.
    pub fn parents(&self, name: &str) -> usize {
        self.status(Kind::HttpRoute, name)["parents"].as_array().map_or(0, Vec::len)
    }

    /// The reference of the parent with this place in a route's status.
    pub fn parent_ref(&self, name: &str, parent: usize) -> Value {
        self.status(Kind::HttpRoute, name)["parents"][parent]["parentRef"].clone()
    }

    /// A resource of a Gateway as JSON.
    pub fn resource(&self, gateway: &str, kind: ResourceKind, name: &str) -> Option<Value> {
        // A test looks at the same bytes many times.
        thread_local!(static DECODED: RefCell<HashMap<[u8; 16], Value>> = RefCell::default());
        let is_meant = |key: &ResourceKey| key.kind == kind && &*key.name == name && key.gateway.to_string() == gateway;
        let (_, encoded) = self.0.engine().rows::<Outputs>().into_iter().find(|(id, _)| is_meant(&id.resource()))?;
        let decode = || envoy::json::value(kind.message_name(), &encoded.body.to_bytes()).expect("JSON");
        Some(DECODED.with_borrow_mut(|decoded| decoded.entry(encoded.version).or_insert_with(decode).clone()))
    }

    /// The virtual hosts of a route configuration of `infra/edge` by domain, each with the names of its routes.
    pub fn hosts(&self, config: &str) -> BTreeMap<String, Vec<String>> {
        let config = self.resource("infra/edge", ResourceKind::RouteConfiguration, config).unwrap_or_default();
        let mut hosts = BTreeMap::new();
        for host in config["virtualHosts"].as_array().into_iter().flatten() {
            let routes: Vec<_> = strings(&host["routes"], |route| route["name"].clone());
            for domain in strings(&host["domains"], Value::clone) {
                assert!(
                    hosts.insert(domain, routes.clone()).is_none(),
                    "a domain stands in two virtual hosts: {config}"
                );
            }
        }
        hosts
    }

    /// The filter chains of a listener of `infra/edge`: server names, and whether connections are handled at all.
    pub fn chains(&self, listener: &str) -> Vec<(Vec<String>, bool)> {
        let listener = self.resource("infra/edge", ResourceKind::Listener, listener).unwrap_or_default();
        let chains = listener["filterChains"].as_array().into_iter().flatten();
        chains
            .map(|chain| {
                let names = strings(&chain["filterChainMatch"]["serverNames"], Value::clone);
                (names, chain["filters"].as_array().is_some_and(|filters| !filters.is_empty()))
            })
            .collect()
    }

    /// Everything that is wrong, a line each.
    pub fn problems(&self) -> Vec<String> {
        let problems = self.0.problems().into_iter();
        problems
            .map(|(id, problem)| format!("{} {} {}: {problem}", id.name, problem.severity, problem.reason))
            .collect()
    }
}

fn strings(list: &Value, text: fn(&Value) -> Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.map(|item| text(item).as_str().expect("text").to_owned()).collect()
}

fn said(status: &Value, kind: &str, with_message: bool) -> String {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let found: Vec<_> = conditions.filter(|condition| condition["type"] == kind).collect();
    assert!(found.len() <= 1, "a condition is there twice: {status}");
    let Some(condition) = found.first() else { return String::new() };
    let text = |field: &str| condition[field].as_str().expect("text").to_owned();
    let message = if with_message { format!(": {}", text("message")) } else { String::new() };
    format!("{} {}{message}", text("status"), text("reason"))
}

/// The class.
pub fn class() -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "portcullis"},
        "spec": {"controllerName": "portcullis.dev/gateway-controller"},
    })
}

/// Gateway `infra/NAME`.
#[allow(clippy::needless_pass_by_value, reason = "callers write the list in place")]
pub fn gateway(name: &str, listeners: Value) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"name": name, "namespace": "infra", "generation": 3},
        "spec": {"gatewayClassName": "portcullis", "listeners": listeners},
    })
}

/// The same, which admits ListenerSets of namespaces `from`.
pub fn hosting(name: &str, listeners: Value, from: &str) -> Value {
    let mut gateway = gateway(name, listeners);
    gateway["spec"]["allowedListeners"] = json!({"namespaces": {"from": from}});
    gateway
}

/// ListenerSet `NAMESPACE/NAME` of `infra/edge`.
#[allow(clippy::needless_pass_by_value, reason = "callers write the list in place")]
pub fn listener_set(name: &str, listeners: Value) -> Value {
    let (namespace, name) = name.split_once('/').expect("a namespace");
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ListenerSet",
        "metadata": {"name": name, "namespace": namespace, "generation": 4},
        "spec": {"parentRef": {"name": "edge", "namespace": "infra"}, "listeners": listeners},
    })
}

/// A reference to a ListenerSet as a parent.
pub fn at_set(name: &str) -> Value {
    let (namespace, name) = name.split_once('/').expect("a namespace");
    json!({"group": GATEWAY_API, "kind": "ListenerSet", "namespace": namespace, "name": name})
}

/// A plain listener that admits everybody.
pub fn http(name: &str, port: u16, hostname: &str) -> Value {
    let mut listener =
        json!({"name": name, "port": port, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}});
    if !hostname.is_empty() {
        listener["hostname"] = json!(hostname);
    }
    listener
}

/// The same over TLS, with a Secret of the Gateway's namespace.
pub fn https(name: &str, port: u16, hostname: &str, secret: &str) -> Value {
    let mut listener = http(name, port, hostname);
    listener["protocol"] = json!("HTTPS");
    listener["tls"] = json!({"certificateRefs": [{"name": secret}]});
    listener
}

/// A listener of TCP or UDP that admits everybody.
pub fn stream(name: &str, port: u16, protocol: &str) -> Value {
    json!({"name": name, "port": port, "protocol": protocol, "allowedRoutes": {"namespaces": {"from": "All"}}})
}

/// A listener of TLS that passes through, or ends TLS with a Secret of the Gateway's namespace.
pub fn tls(name: &str, port: u16, hostname: &str, secret: Option<&str>) -> Value {
    let mut listener = http(name, port, hostname);
    listener["protocol"] = json!("TLS");
    listener["tls"] = match secret {
        Some(secret) => json!({"mode": "Terminate", "certificateRefs": [{"name": secret}]}),
        None => json!({"mode": "Passthrough"}),
    };
    listener
}

/// A route of streams `apps/NAME` at Gateway `infra/edge`, with one rule of these backends.
#[allow(clippy::needless_pass_by_value, reason = "callers write the list in place")]
pub fn stream_route(kind: &str, name: &str, backends: Value) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": kind,
        "metadata": {"name": name, "namespace": "apps", "generation": 3},
        "spec": {"parentRefs": [{"name": "edge", "namespace": "infra"}], "rules": [{"backendRefs": backends}]},
    })
}

/// The same of a TLSRoute for these names.
pub fn tls_route(name: &str, hostnames: &[&str], backends: Value) -> Value {
    let mut route = stream_route("TLSRoute", name, backends);
    route["spec"]["hostnames"] = json!(hostnames);
    route
}

/// Secret `infra/NAME` with a certificate that can be used.
pub fn secret(name: &str) -> Value {
    let (chain, key) = &certificates()[0];
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": name, "namespace": "infra"}, "stringData": {"tls.crt": chain, "tls.key": key},
    })
}

/// Secret `apps/NAME` with these texts.
#[allow(clippy::needless_pass_by_value, reason = "callers write the data in place")]
pub fn opaque(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "apps"}, "stringData": data})
}

/// The GatewayExtensions of `apps` that samples of units name, with Service `apps/s` as their provider.
pub fn providers() -> [Value; 9] {
    let service = json!({"backendRef": {"name": "s", "port": 80}});
    let of = |name: &str, spec: Value| {
        json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "GatewayExtension",
            "metadata": {"name": name, "namespace": "apps"}, "spec": spec})
    };
    [
        of("judge", json!({"extAuth": {"grpcService": service}})),
        of("processor", json!({"extProc": {"grpcService": service}})),
        of("counter", json!({"rateLimit": {"grpcService": service, "domain": "d"}})),
        tokens("tokens", &[key('A')]),
        tokens("tokens2", &[key('B')]),
        login("login"),
        judged_login("login2"),
        opaque("client", json!({"client-secret": "hunter2"})),
        login_grant("infra"),
    ]
}

/// Lets TrafficPolicies of a namespace have people log in by extensions of `apps`.
pub fn login_grant(namespace: &str) -> Value {
    let group = "gateway.kgateway.dev";
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
        "metadata": {"name": format!("logins-of-{namespace}"), "namespace": "apps"},
        "spec": {"from": [{"group": group, "kind": "TrafficPolicy", "namespace": namespace}],
            "to": [{"group": group, "kind": "GatewayExtension"}]}})
}

/// GatewayExtension `apps/NAME`, at which people log in with the Secret `client`.
pub fn login(name: &str) -> Value {
    json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "GatewayExtension",
        "metadata": {"name": name, "namespace": "apps"},
        "spec": {"oauth2": {"backendRef": {"name": "s", "port": 80},
            "authorizationEndpoint": "https://issuer.example/authorize", "tokenEndpoint": "https://issuer.example/token",
            "credentials": {"clientID": "shop", "clientSecretRef": {"name": "client"}}}}})
}

/// The same, with its ID tokens judged by keys of `apps/s`, and what they say of people shown.
pub fn judged_login(name: &str) -> Value {
    let mut all = login(name);
    all["spec"]["oauth2"]["scopes"] = json!(["openid"]);
    let claims = json!([{"name": "sub", "header": "x-user"}]);
    all["spec"]["oauth2"]["jwt"] =
        json!({"jwksURI": "https://issuer.example/keys", "idToken": {"claimsToHeaders": claims}});
    all
}

/// GatewayExtension `apps/NAME`, which takes tokens that were signed by these.
pub fn tokens(name: &str, keys: &[Value]) -> Value {
    let local = json!({"inline": json!({"keys": keys}).to_string()});
    let spec =
        json!({"jwt": {"providers": [{"name": "p", "issuer": "https://issuer.example", "jwks": {"local": local}}]}});
    json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "GatewayExtension",
        "metadata": {"name": name, "namespace": "apps"}, "spec": spec})
}

/// HTTPRoute `apps/NAME`, for `infra/edge` unless it says otherwise, with a rule that goes to `apps/s`.
pub fn route(name: &str, spec: Value) -> Value {
    let mut all = json!({
        "parentRefs": [{"name": "edge", "namespace": "infra"}],
        "rules": [{"backendRefs": [{"name": "s", "port": 80}]}],
    });
    if let (Value::Object(all), Value::Object(spec)) = (&mut all, spec) {
        all.extend(spec);
    }
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": "apps", "generation": 5}, "spec": all,
    })
}

/// GRPCRoute `apps/NAME`, likewise.
pub fn grpc_route(name: &str, spec: Value) -> Value {
    let mut route = route(name, spec);
    route["kind"] = json!("GRPCRoute");
    route
}

/// A match of a method of gRPC.
pub fn method(service: &str, method: &str) -> Value {
    json!({"method": {"service": service, "method": method}})
}

/// Service `apps/NAME`.
pub fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "apps"},
        "spec": {"ports": [{"port": 80}]},
    })
}

/// A match of the paths at and below one.
pub fn prefix(path: &str) -> Value {
    json!({"path": {"type": "PathPrefix", "value": path}})
}

/// A rule that sends a path and all below it to `apps/s`.
pub fn forward(path: &str) -> Value {
    json!({"matches": [prefix(path)], "backendRefs": [{"name": "s", "port": 80}]})
}

/// A rule that hands a path and all below it to HTTPRoutes of its namespace.
pub fn to(path: &str, names: &[&str]) -> Value {
    let references = names.iter().map(|name| json!({"group": GATEWAY_API, "kind": "HTTPRoute", "name": name}));
    json!({"matches": [prefix(path)], "backendRefs": references.collect::<Vec<_>>()})
}

/// HTTPRoute `apps/NAME` without parents of its own.
#[allow(clippy::needless_pass_by_value, reason = "callers write the list in place")]
pub fn child(name: &str, rules: Value) -> Value {
    let mut child = route(name, json!({"rules": rules}));
    child["spec"].as_object_mut().expect("a spec").remove("parentRefs");
    child
}
