//! A hostile tenant beside victims: what he may write into namespaces of his own, below Gateways that the platform owns.
//!
//! What Gateway API has tenants share is left out by construction, so that nothing of the victims may turn, whatever he
//! writes. Victims' hostnames belong to listeners that do not admit him, or stand on a listener of which he may have
//! every hostname but theirs; and a tree of the platform hands him one path and them another.

use proptest::{
    collection::vec,
    option,
    prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof},
    sample::{Index, select},
};
use serde_json::{Value, json};

use super::{
    edit, grpc, policy, rule, values,
    world::{class, secret, service, slice},
};

/// His namespaces.
pub const NAMESPACES: [&str; 2] = ["evil", "evil-2"];

/// The namespaces of the platform and of victims.
pub const VICTIMS: [&str; 3] = ["infra", "apps", "children"];

/// The Gateway that all share.
pub const SHARED: &str = "infra/shared";

/// The Gateway that victims alone may attach to.
pub const OWN: &str = "apps/own";

/// The host of a victim on a listener of its own, over HTTP and HTTPS, on ports that the tenant has listeners on too.
pub const OWNED_HOST: &str = "a.example.com";

/// The host of a victim on a listener that admits everybody. The tenant does not write this name.
pub const NEIGHBOUR: &str = "neighbour.example.com";

/// The host of a tree in which victims and tenant have a path each.
pub const TREE_HOST: &str = "tree.example.com";

/// What each victim's host answers by `apps/s0`, whatever its other rules say; the tree's below `/victim`.
pub const HEALTHY: &str = "/healthy";

/// More levels of JSON in an answer than this make a whole route configuration unreadable for Envoy where nobody bounds
/// them: a level is three messages, of which Envoy reads a hundred.
const JSON_DEPTH: usize = 24;

/// Routes of his that delegate. Each may select all others, so that what a tree of them asks for grows by the factorial.
const DELEGATING: usize = 3;

/// Where things listen and what answers, which depends on where the world is used.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Of the listeners for named hosts.
    pub http: u16,
    /// The same with TLS.
    pub https: u16,
    /// Of the listener for everybody's hosts.
    pub open: u16,
    /// Of [`OWN`].
    pub own: u16,
    /// Of Gateways of the tenant's.
    pub foreign: u16,
    /// Address and port of what stands behind victims' Services.
    pub backend: (&'static str, u16),
}

/// Everything that is not the tenant's: the platform's Gateways and tree, and victims whose routes have these rules beside
/// a healthy one.
pub fn victims(place: &Place, rules: &[Value]) -> Vec<Value> {
    let mut objects = vec![class()];
    objects.extend(VICTIMS.map(|name| namespace(name, "victims")));
    objects.extend(NAMESPACES.map(|name| namespace(name, "tenant")));
    objects.push(shared(place));
    let listener = json!({"name": "http", "port": place.own, "protocol": "HTTP"});
    objects.push(gateway(OWN, &[listener]));
    let certificate = |name: &str, chain: &str, key: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {"name": name, "namespace": "infra"}, "stringData": {"tls.crt": chain, "tls.key": key}})
    };
    let [rsa, ecdsa] = [
        (
            include_str!("../../validate/src/tls/testdata/rsa.crt"),
            include_str!("../../validate/src/tls/testdata/rsa.key"),
        ),
        (
            include_str!("../../validate/src/tls/testdata/p521.crt"),
            include_str!("../../validate/src/tls/testdata/p521.key"),
        ),
    ];
    objects.push(certificate("theirs", rsa.0, rsa.1));
    objects.push(certificate("everybodys", ecdsa.0, ecdsa.1));
    for number in 0..3 {
        objects.extend(backend(&format!("s{number}"), place.backend));
    }
    let healthy = |path: &str| json!({"matches": [{"path": {"type": "Exact", "value": path}}], "backendRefs": [{"name": "s0", "namespace": "apps", "port": 80}]});
    let with = |path: &str| -> Vec<Value> { std::iter::once(healthy(path)).chain(rules.iter().cloned()).collect() };
    let to = |gateway: &str, sections: &[&str]| {
        let (namespace, name) = split(gateway);
        let parent = |section: &&str| json!({"name": name, "namespace": namespace, "sectionName": section});
        sections.iter().map(parent).collect::<Value>()
    };
    objects.push(route("apps", "owned", &to(SHARED, &["owned", "owned-tls"]), &[OWNED_HOST], &with(HEALTHY)));
    objects.push(route("apps", "neighbour", &to(SHARED, &["open"]), &[NEIGHBOUR], &with(HEALTHY)));
    objects.push(route("apps", "inner", &to(OWN, &["http"]), &[], &with(HEALTHY)));
    let all_of = |namespace: &str| json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "*", "namespace": namespace});
    let below = |path: &str, namespace: &str| json!({"matches": [{"path": {"type": "PathPrefix", "value": path}}], "backendRefs": [all_of(namespace)]});
    let tree = [below("/victim", "children"), below("/evil", NAMESPACES[0])];
    objects.push(route("infra", "platform", &to(SHARED, &["tree"]), &[TREE_HOST], &tree));
    objects.push(route("children", "c0", &json!([]), &[], &[healthy(&format!("/victim{HEALTHY}"))]));
    if !rules.is_empty() {
        objects.push(route("children", "c1", &json!([]), &[], rules));
    }
    objects.push(json!({"apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
        "metadata": {"name": "children", "namespace": "apps"},
        "spec": {"from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "children"}],
            "to": [{"group": "", "kind": "Service"}]}}));
    for object in &mut objects {
        object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    objects
}

/// Rules of victims, sound or broken.
pub fn rules() -> BoxedStrategy<Vec<Value>> {
    vec(rule::rule(), 0..4).boxed()
}

/// All that the tenant writes, each object once.
pub fn tenant(place: &Place) -> BoxedStrategy<Vec<Value>> {
    let delegating = vec(route_of(place, delegating()), 0..=DELEGATING);
    let calls = vec(route_of(place, grpc::rule()).prop_map(in_grpc), 0..3);
    let others = (vec(service(), 0..4), vec(slice(), 0..4), vec(secret(), 0..3));
    let policies = (vec(policy::policy(), 0..3), vec(policy::answer(), 0..2), vec(deep_answer(), 0..2));
    let about = (vec(tree_policy(), 0..3), vec(grant(), 0..3), option::weighted(0.4, own_gateway(place)));
    let edits = vec((any::<Index>(), edit::edit()), 0..5);
    (vec(route_of(place, rule::rule()), 0..4), (delegating, calls), others, policies, about, edits)
        .prop_map(|(mut routes, (delegating, calls), others, policies, (trees, grants, gateway), edits)| {
            routes.extend(delegating);
            let answers = policies.1.into_iter().chain(policies.2).collect();
            let kinds =
                [("r", routes), ("r", calls), ("s", others.0), ("e", others.1), ("c", others.2), ("p", policies.0)];
            let kinds = kinds.into_iter().chain([("d", answers), ("t", trees), ("g", grants)]);
            let mut objects: Vec<Value> = kinds.flat_map(|(prefix, objects)| numbered(prefix, objects)).collect();
            objects.extend(gateway);
            for (at, edit) in edits {
                if !objects.is_empty() {
                    let at = at.index(objects.len());
                    edit.apply(&mut objects[at]);
                }
            }
            objects
        })
        .boxed()
}

/// Makes objects his, and as old as he cannot help.
fn numbered(prefix: &str, objects: Vec<Value>) -> Vec<Value> {
    let mut objects = objects;
    for (number, object) in objects.iter_mut().enumerate() {
        let metadata = &mut object["metadata"];
        metadata["name"] = json!(format!("{prefix}{number}"));
        if metadata["namespace"] != NAMESPACES[1] {
            metadata["namespace"] = json!(NAMESPACES[0]);
        }
        metadata["creationTimestamp"] = json!("2026-06-01T00:00:00Z");
    }
    objects
}

fn namespace(name: &str, team: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}})
}

fn split(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or_default()
}

fn gateway(name: &str, listeners: &[Value]) -> Value {
    let (namespace, name) = split(name);
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"gatewayClassName": "ours", "listeners": listeners}})
}

fn shared(place: &Place) -> Value {
    let team = json!({"from": "Selector", "selector": {"matchLabels": {"team": "victims"}}});
    let all = json!({"from": "All"});
    let same = json!({"from": "Same"});
    let listener = |name: &str, port: u16, hostname: &str, from: &Value, secret: &str| {
        let mut listener =
            json!({"name": name, "port": port, "protocol": "HTTP", "allowedRoutes": {"namespaces": from}});
        if !hostname.is_empty() {
            listener["hostname"] = json!(hostname);
        }
        if !secret.is_empty() {
            listener["protocol"] = json!("HTTPS");
            listener["tls"] = json!({"certificateRefs": [{"name": secret}]});
        }
        listener
    };
    gateway(
        SHARED,
        &[
            listener("owned", place.http, OWNED_HOST, &team, ""),
            listener("tree", place.http, TREE_HOST, &same, ""),
            listener("wild", place.http, "*.example.com", &all, ""),
            listener("rest", place.http, "", &all, ""),
            listener("open", place.open, "", &all, ""),
            listener("owned-tls", place.https, OWNED_HOST, &team, "theirs"),
            listener("wild-tls", place.https, "*.example.com", &all, "everybodys"),
        ],
    )
}

fn backend(name: &str, (address, port): (&str, u16)) -> [Value; 2] {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "apps"},
        "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]}});
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": name, "namespace": "apps", "labels": {"kubernetes.io/service-name": name}},
        "endpoints": [{"addresses": [address]}], "ports": [{"name": "http", "port": port}]});
    [service, slice]
}

fn route(namespace: &str, name: &str, parents: &Value, hostnames: &[&str], rules: &[Value]) -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"parentRefs": parents, "hostnames": hostnames, "rules": rules}})
}

/// A route of his: a root wherever he may or may not attach, or a child of whoever selects him.
fn route_of(place: &Place, rule: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let sections = ["owned", "tree", "wild", "rest", "open", "owned-tls", "wild-tls", "nowhere"];
    let ports = [place.http, place.https, place.open];
    let gateways = [SHARED, SHARED, SHARED, SHARED, OWN, "evil/gateway"];
    let parent = (select(gateways.to_vec()), option::weighted(0.4, select(sections.to_vec())))
        .prop_flat_map(move |parent| (Just(parent), option::weighted(0.1, select(ports.to_vec()))))
        .prop_map(|((gateway, section), port)| {
            let (namespace, name) = split(gateway);
            json!({"name": name, "namespace": namespace, "sectionName": section, "port": port})
        });
    let names = || (0..4_u8).prop_map(|number| format!("r{number}"));
    let above =
        (names(), select(&[NAMESPACES[0], NAMESPACES[1], "infra", "children"][..])).prop_map(|(name, namespace)| {
            let name = if namespace == "infra" { "platform".to_owned() } else { name };
            json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": name, "namespace": namespace})
        });
    let parents =
        prop_oneof![4 => vec(parent, 1..3).boxed(), 1 => vec(above, 1..3).boxed(), 2 => Just(Vec::new()).boxed()];
    let owned = select(&[OWNED_HOST, TREE_HOST, "*.example.com"][..]).prop_map(str::to_owned);
    let hostname = prop_oneof![2 => values::hostname(), 1 => owned];
    let hostnames = prop_oneof![2 => Just(Vec::new()), 3 => vec(hostname, 1..4)];
    let annotations = [
        ("delegation.kgateway.dev/inherit-parent-matcher", "true"),
        ("kgateway.dev/route-weight", "2147483647"),
        ("kgateway.dev/route-weight", "heavy"),
        ("kgateway.dev/inherited-policy-priority", "ShallowMergePreferParent"),
        ("kgateway.dev/inherited-policy-priority", "DeepMergePreferChild"),
        ("kgateway.dev/inherited-policy-priority", "DeepMergePreferParent"),
    ];
    let label = option::weighted(0.4, prop_oneof![Just("a".to_owned()), values::hostile()]);
    (select(&NAMESPACES[..]), parents, hostnames, vec(rule, 1..4), option::of(select(annotations.to_vec())), label)
        .prop_map(|(namespace, parents, hostnames, rules, annotation, label)| {
            let hostnames: Vec<_> = hostnames.iter().map(String::as_str).collect();
            let mut route = route(namespace, "", &json!(parents), &hostnames, &rules);
            if let Some((name, value)) = annotation {
                route["metadata"]["annotations"] = json!({name: value});
            }
            if let Some(label) = label {
                route["metadata"]["labels"] = json!({"delegation.kgateway.dev/label": label});
            }
            route
        })
        .boxed()
}

fn in_grpc(mut route: Value) -> Value {
    route["kind"] = json!("GRPCRoute");
    route
}

/// A rule of his that delegates: to himself, to victims, to everybody.
fn delegating() -> BoxedStrategy<Value> {
    let namespaces = || select(&["evil", "evil-2", "children", "apps", "infra", "nowhere"][..]);
    let named = (prop_oneof![3 => (0..6_u8).prop_map(|n| format!("r{n}")), 1 => Just("c0".to_owned()), 1 => Just("owned".to_owned()), 1 => values::hostile()], namespaces())
        .prop_map(|(name, namespace)| json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": name, "namespace": namespace}));
    let all = namespaces().prop_map(|namespace| json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "*", "namespace": namespace}));
    let label = (prop_oneof![2 => Just("a".to_owned()), 1 => values::hostile()], prop_oneof![2 => namespaces().boxed(), 1 => Just("all").boxed()])
        .prop_map(|(label, namespace)| json!({"group": "delegation.kgateway.dev", "kind": "label", "name": label, "namespace": namespace}));
    let prefix = select(&["/", "/evil", "/evil/a", "/victim", "/foo"][..]);
    let matching = prefix.prop_map(|path| json!({"path": {"type": "PathPrefix", "value": path}}));
    (vec(matching, 0..3), vec(prop_oneof![named, all, label], 1..3))
        .prop_map(|(matches, references)| json!({"matches": matches, "backendRefs": references}))
        .boxed()
}

/// A policy about trees, whose words may be anything.
fn tree_policy() -> BoxedStrategy<Value> {
    let specs = [
        json!({"sortMethod": "TableWeight"}),
        json!({"sortMethod": "Tomorrow"}),
        json!({"allowedChildren": {"namespaces": {"names": ["children"]}}}),
        json!({"allowedChildren": {"backends": [{"kind": "Service", "name": "(((("}]}}),
        json!({"defaultBackendRefs": [{"name": "s0", "namespace": "apps", "port": 80}]}),
        json!({"failureMode": "FreezeConfig"}),
    ];
    let targets = select(&["r0", "r1", "r2", "platform", "c0", "owned"][..]);
    (select(specs.to_vec()), targets)
        .prop_map(|(mut spec, target)| {
            spec["targetRefs"] = json!([{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": target}]);
            json!({"apiVersion": "gateway.portcullis.dev/v1alpha1", "kind": "DelegationPolicy", "metadata": {}, "spec": spec})
        })
        .boxed()
}

/// A grant of what is his, which grants nothing of anybody else.
fn grant() -> BoxedStrategy<Value> {
    let ends = [
        ("HTTPRoute", "", "Service"),
        ("GRPCRoute", "", "Service"),
        ("Gateway", "", "Secret"),
        ("HTTPRoute", "gateway.networking.k8s.io", "HTTPRoute"),
    ];
    (select(ends.to_vec()), select(&VICTIMS[..]), option::weighted(0.2, values::hostile()))
        .prop_map(|((from, group, to), namespace, name)| {
            json!({"apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant", "metadata": {},
                "spec": {"from": [{"group": "gateway.networking.k8s.io", "kind": from, "namespace": namespace}],
                    "to": [{"group": group, "kind": to, "name": name}]}})
        })
        .boxed()
}

/// A Gateway of his, with certificates of others that nobody granted.
fn own_gateway(place: &Place) -> BoxedStrategy<Value> {
    let foreign = place.foreign;
    let secrets =
        select(&[("theirs", "infra"), ("everybodys", "infra"), ("c0", "evil"), ("xds", "portcullis-system")][..]);
    (values::hostname(), secrets, any::<bool>())
        .prop_map(move |(hostname, (secret, namespace), tls)| {
            let mut listener = json!({"name": "l", "port": foreign, "protocol": "HTTP", "hostname": hostname});
            if tls {
                listener["protocol"] = json!("HTTPS");
                listener["tls"] = json!({"certificateRefs": [{"name": secret, "namespace": namespace}]});
            }
            let mut gateway = gateway("evil/gateway", &[listener]);
            gateway["metadata"]["creationTimestamp"] = json!("2026-06-01T00:00:00Z");
            gateway
        })
        .boxed()
}

/// An answer whose JSON is nested.
fn deep_answer() -> BoxedStrategy<Value> {
    (1..=JSON_DEPTH, any::<bool>())
        .prop_map(|(depth, list)| {
            let wrap = |inner: Value| if list { json!([inner]) } else { json!({"a": inner}) };
            let json = (1..depth).fold(json!({"a": "%REQ(:path)%"}), |inner, _| wrap(inner));
            json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "DirectResponse", "metadata": {},
                "spec": {"status": 200, "bodyFormat": {"json": {"a": json}}}})
        })
        .boxed()
}
