//! A row of any table panics: nothing opens, who has nothing to do with it keeps every byte, and it heals.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use api::ObjectId;
use envoy::{Encoded, ResourceKey, ResourceKind};
use ir::{NsName, Settings};
use serde_json::{Value, json};

use super::{
    object,
    scene::{GATEWAY_API, child, class, gateway, http, https, prefix, route, secret, service, to},
};
use crate::{Change, Changes, Deploying, Translator, explain, tree};

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

fn slice(service: &str, address: &str) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": format!("{service}-1"), "namespace": "apps", "labels": {"kubernetes.io/service-name": service}},
        "ports": [{"name": "", "port": 8080}], "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
    })
}

/// One of each: listeners, ways to attach, filters that are written for each listener, trees, policies, references.
#[allow(clippy::too_many_lines, reason = "a list")]
fn objects() -> Vec<Value> {
    let selecting = json!({"namespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "a"}}}});
    let mut all = vec![
        class(),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps", "labels": {"team": "a"}}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kids"}}),
        secret("one"),
        secret("two"),
        gateway(
            "edge",
            json!([
                http("web", 80, ""),
                with(http("narrow", 80, "narrow.example.com"), json!({"allowedRoutes": selecting})),
                https("tls", 443, "*.example.com", "one"),
                https("own", 443, "own.example.com", "two"),
            ]),
        ),
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
                    {"matches": [prefix("/far")], "backendRefs": [{"name": "far", "namespace": "kids", "port": 80}]},
                ],
            }),
        ),
        json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "DirectResponse",
            "metadata": {"name": "said", "namespace": "apps"}, "spec": {"status": 418}}),
        in_namespace(service("far"), "kids"),
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
            "metadata": {"name": "far", "namespace": "kids"},
            "spec": {
                "from": [{"group": GATEWAY_API, "kind": "HTTPRoute", "namespace": "apps"}],
                "to": [{"group": "", "kind": "Service"}],
            },
        }),
        route(
            "root",
            json!({"hostnames": ["tree.example.com"], "rules": [
                to("/named", &["leafy", "catch"]),
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
            "urlRewrite": {"pathRegex": {"pattern": "^/named", "substitution": "/renamed"}}}),
        ),
        policy(
            "TrafficPolicy",
            "handed",
            ("HTTPRoute", "root"),
            json!({
            "urlRewrite": {"pathRegex": {"pattern": "^/label", "substitution": "/relabelled"}}}),
        ),
        in_namespace(policy("TrafficPolicy", "wide", ("Gateway", "edge"), json!({})), "infra"),
    ];
    for (number, name) in ["s", "site", "by", "admin", "a", "leaf", "catch", "first", "second"].iter().enumerate() {
        all.extend([service(name), slice(name, &format!("10.0.0.{}", number + 1))]);
    }
    all
}

const HOSTS: &[&str] = &[
    "x.org",
    "exact.example.com",
    "by.example.com",
    "shop.example.com",
    "narrow.example.com",
    "own.example.com",
    "tree.example.com",
];
const PATHS: &[&str] = &[
    "/",
    "/exact",
    "/broken",
    "/admin",
    "/moved",
    "/kept",
    "/said",
    "/far",
    "/re/x",
    "/named",
    "/named/a",
    "/named/deep",
    "/named/deep/er",
    "/label",
    "/label/one",
    "/all",
    "/all/one",
];

/// A translator, and what its proxies were told so far.
struct World {
    translator: Translator,
    served: BTreeMap<ResourceKey, Encoded>,
}

impl World {
    fn new(failing: Option<&(&'static str, String)>) -> Self {
        let mut translator = Translator::new(Settings::default());
        if let Some((table, key)) = failing {
            translator.fail_at(table, key);
        }
        translator.set_deploying(Some(Deploying {
            settings: deploy::Settings::default(),
            xds_host: "portcullis.portcullis-system.svc".into(),
            xds_port: 9977,
            authorities: Some(Arc::from("-----BEGIN CERTIFICATE-----\n")),
            applied: true,
        }));
        for value in objects() {
            translator.apply(Change::Put(object(value)));
        }
        let mut world = Self { translator, served: BTreeMap::new() };
        world.settle();
        world
    }

    fn settle(&mut self) -> Changes {
        let mut changes = self.translator.settle();
        for (key, encoded) in std::mem::take(&mut changes.resources) {
            match encoded {
                Some(encoded) => self.served.insert(key, encoded),
                None => self.served.remove(&key),
            };
        }
        changes
    }

    fn statuses(&self) -> Vec<(ObjectId, Value)> {
        self.translator.statuses()
    }
}

/// Messages, decoded once.
#[derive(Default)]
struct Decoded(HashMap<[u8; 16], Arc<Value>>);

impl Decoded {
    fn of(&mut self, key: &ResourceKey, encoded: &Encoded) -> Arc<Value> {
        let decode = || {
            let bytes = encoded.body.to_bytes();
            Arc::new(envoy::json::value(key.kind.message_name(), &bytes).expect("a message"))
        };
        self.0.entry(encoded.version).or_insert_with(decode).clone()
    }
}

/// Where a request goes: Gateway, route configuration, host and path.
type Asked = (String, String, &'static str, &'static str);

/// What becomes of every request that Envoy's configuration tells apart, as Envoy chooses; none where it answers an error
/// by itself.
fn answers(decoded: &mut Decoded, served: &BTreeMap<ResourceKey, Encoded>) -> BTreeMap<Asked, Option<Value>> {
    let mut answers = BTreeMap::new();
    for (key, encoded) in served.iter().filter(|(key, _)| key.kind == ResourceKind::RouteConfiguration) {
        let config = decoded.of(key, encoded);
        for host in HOSTS {
            let hosts = config["virtualHosts"].as_array();
            let with_domain = |domain: &str| {
                let mut hosts = hosts.into_iter().flatten();
                hosts.find(|host| host["domains"].as_array().is_some_and(|domains| domains.contains(&json!(domain))))
            };
            let suffix = host.split_once('.').map(|(_, suffix)| format!("*.{suffix}"));
            let chosen = with_domain(host).or_else(|| with_domain(&suffix?)).or_else(|| with_domain("*"));
            for path in PATHS {
                let routes = chosen.and_then(|host| host["routes"].as_array()).into_iter().flatten();
                let taken = routes.into_iter().find(|route| takes(&route["match"], path));
                let answer = taken.filter(|route| serves(route, served, &key.gateway)).cloned();
                answers.insert((key.gateway.to_string(), key.name.to_string(), *host, *path), answer);
            }
        }
    }
    answers
}

fn takes(matching: &Value, path: &str) -> bool {
    let mut headers = matching["headers"].as_array().into_iter().flatten();
    if headers.any(|header| header["name"] != ":path") {
        return false;
    }
    if let Value::String(regex) = &matching["safeRegex"]["regex"] {
        return regex::Regex::new(&format!("^(?:{regex})$")).expect("an expression").is_match(path);
    }
    let below = |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    match (&matching["pathSeparatedPrefix"], &matching["prefix"], &matching["path"]) {
        (Value::String(prefix), ..) => below(prefix),
        (_, Value::String(prefix), _) => path.starts_with(prefix.as_str()),
        (.., Value::String(exact)) => path == exact,
        _ => panic!("a match of another kind: {matching}"),
    }
}

/// Whether a route does anything but to answer an error.
fn serves(route: &Value, served: &BTreeMap<ResourceKey, Encoded>, gateway: &NsName) -> bool {
    // A share that is broken answers an error, and the others are as they were.
    let shares = route["route"]["weightedClusters"]["clusters"].as_array().into_iter().flatten();
    if shares.into_iter().any(|share| share["name"] == "broken") {
        return false;
    }
    let cluster = route["route"]["cluster"].as_str();
    let has = |name: &str| {
        let kind = ResourceKind::Cluster;
        served.contains_key(&ResourceKey { gateway: gateway.clone(), kind, name: name.into() })
    };
    match (cluster, route["directResponse"]["status"].as_u64()) {
        (Some(cluster), _) => has(cluster),
        (None, status) => status.is_none_or(|status| status < 400 || status == 418),
    }
}

/// The Envoy routes of two routes that have nothing to do with others, wherever they are served.
fn bystanders(decoded: &mut Decoded, served: &BTreeMap<ResourceKey, Encoded>) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for (key, encoded) in served.iter().filter(|(key, _)| key.kind == ResourceKind::RouteConfiguration) {
        let config = decoded.of(key, encoded);
        for host in config["virtualHosts"].as_array().into_iter().flatten() {
            for route in host["routes"].as_array().into_iter().flatten() {
                let name = route["name"].as_str().unwrap_or_default();
                if ["apps/bystander/", "apps/elsewhere/"].iter().any(|own| name.starts_with(own)) {
                    all.push((format!("{key:?} {}", host["name"]), route.clone()));
                }
            }
        }
    }
    all
}

#[test]
fn a_row_that_panics_opens_nothing_harms_no_bystander_and_heals() {
    let mut decoded = Decoded::default();
    let mut world = World::new(None);
    let (served, statuses) = (world.served.clone(), world.statuses());
    let before = answers(&mut decoded, &served);
    let unanswered: Vec<_> = before.iter().filter(|(_, answer)| answer.is_none()).map(|(asked, _)| asked).collect();
    assert!(3 * unanswered.len() < 2 * before.len(), "most requests are served: {unanswered:?}");
    let unharmed = bystanders(&mut decoded, &served);
    let rows = world.translator.engine().computed_rows();
    let (mut tried, mut harmful) = (BTreeSet::new(), BTreeSet::new());
    let mut wrong = Vec::new();
    for row @ (table, key) in &rows {
        world.translator.fail_at(table, key);
        let changes = world.settle();
        if changes.faults.is_empty() {
            // Somebody looks whether it exists, and nobody demands that it does.
            world.translator.fail_no_more(table, key);
            continue;
        }
        tried.insert(*table);
        assert!(changes.faults.len() == 1, "{table}({key}) is told once: {:?}", changes.faults);
        let during = answers(&mut decoded, &world.served);
        for (asked, now) in during.iter().filter(|(_, now)| now.is_some()) {
            // A match without a price is left out, as one that is too slow: its requests are for broader rules.
            let is_left_out = *table == "MatchingTime" && asked.3 == "/re/x";
            if !is_left_out && before.get(asked) != Some(now) {
                wrong.push(format!("{table}({key}) opens {asked:?}: {now:?}"));
            }
        }
        // They, what they send requests to and what they are served by.
        let theirs = ["bystander", "elsewhere", "\"by\"", "\"other\"", "by.example.com"];
        let is_theirs = theirs.iter().any(|name| key.contains(name));
        if !is_theirs && bystanders(&mut decoded, &world.served) != unharmed {
            harmful.insert(*table);
        }
        // Nobody who asks for words is failed.
        let _ = (world.translator.problems(), tree::tree(&world.translator));
        let request = explain::Request::new("GET", "http://tree.example.com/named/a", []).expect("a request");
        let _ = explain::explain(&world.translator, &NsName::new("infra", "edge"), &request);

        let scratch = World::new(Some(row));
        if scratch.translator.resources() != world.translator.resources() || scratch.statuses() != world.statuses() {
            wrong.push(format!("{table}({key}): a new replica does otherwise"));
        }

        world.translator.fail_no_more(table, key);
        let healed = world.settle();
        assert!(healed.faults.len() == 1 && world.translator.faults() == 0, "{table}({key}) is over");
        assert!(world.served == served && world.statuses() == statuses, "{table}({key}) heals");
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    // What is the Gateway's, the listener's or the port's own is everybody's there.
    assert_eq!(
        harmful.into_iter().collect::<Vec<_>>(),
        [
            "BrokenGateway",
            "BrokenListener",
            "Certificate",
            "CertificateState",
            "ListenerRow",
            "PoliciesOf",
            "PolicyRow",
            "PortRival"
        ]
    );
    let tables = world.translator.engine().stats();
    let computed = tables.iter().filter(|table| matches!(table.kind, engine::Kind::Lookup | engine::Kind::Derived));
    let untried: Vec<_> = computed.map(|table| table.name).filter(|name| !tried.contains(name)).collect();
    assert_eq!(untried, Vec::<&str>::new(), "no row of these tables was tried");
}
