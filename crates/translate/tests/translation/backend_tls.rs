//! BackendTLSPolicies: what holds where, what closes, what a change wakes, and what is told.

#![allow(clippy::needless_pass_by_value, reason = "callers write values in place")]

mod bounds;
mod hosts;

use std::fmt::Write as _;

use api::{Kind, ObjectId};
use envoy::ResourceKind;
use ir::{NsName, Settings};
use serde_json::{Value, json};

use super::scene::{Scene, authority_pems, certificates, gateway, grpc_route, http, opaque, route, service};
use translate::Changes;

const PLAIN: &str = "service/apps/s/80";
const CLUSTER: &str = "service/apps/s/80/tls";
const BUNDLE: &str = "authorities/apps/ConfigMap/ca";

fn pem() -> &'static str {
    &certificates()[0].0
}

fn other_pem() -> &'static str {
    &certificates()[1].0
}

fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "apps"}, "data": data})
}

fn authorities() -> Value {
    config_map("ca", json!({"ca.crt": pem()}))
}

/// Trusts ConfigMap `ca`, unless it says otherwise.
fn policy(name: &str, section: &str, validation: Value) -> Value {
    let mut target = json!({"group": "", "kind": "Service", "name": "s"});
    if !section.is_empty() {
        target["sectionName"] = json!(section);
    }
    let mut all = json!({"hostname": "s.example", "caCertificateRefs": [reference("ConfigMap", "ca")]});
    if let (Value::Object(all), Value::Object(own)) = (&mut all, validation) {
        all.extend(own);
    }
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "BackendTLSPolicy",
        "metadata": {"name": name, "namespace": "apps", "generation": 4},
        "spec": {"targetRefs": [target], "validation": all},
    })
}

fn reference(kind: &str, name: &str) -> Value {
    json!({"group": "", "kind": kind, "name": name})
}

fn of_age(mut policy: Value, year: u16) -> Value {
    policy["metadata"]["creationTimestamp"] = json!(format!("{year}-01-01T00:00:00Z"));
    policy
}

/// Service `s` with these ports.
fn ports(ports: Value) -> Value {
    let mut service = service("s");
    service["spec"]["ports"] = ports;
    service
}

fn speaking(protocol: &str) -> Value {
    ports(json!([{"name": "web", "port": 80, "appProtocol": protocol}]))
}

/// Route `r` leads to Service `s`.
fn scene(objects: impl IntoIterator<Item = Value>) -> Scene {
    let own = [gateway("edge", json!([http("web", 80, "")])), service("s"), route("r", json!({}))];
    Scene::new(own.into_iter().chain(objects))
}

fn changed(changes: &Changes) -> Vec<String> {
    changes.resources.iter().map(|(key, _)| format!("{:?} {}", key.kind, key.name)).collect()
}

fn cluster(scene: &Scene, name: &str) -> Value {
    scene.resource("infra/edge", ResourceKind::Cluster, name).unwrap_or_default()
}

fn context(scene: &Scene, name: &str) -> Value {
    cluster(scene, name)["transportSocket"]["typedConfig"].clone()
}

/// What is said at the entry of this place of a policy: `Accepted` and `ResolvedRefs`.
fn told(scene: &Scene, policy: &str, entry: usize) -> [String; 2] {
    let entry = &scene.status(Kind::BackendTlsPolicy, policy)["ancestors"][entry];
    ["Accepted", "ResolvedRefs"].map(|kind| {
        let conditions = entry["conditions"].as_array().into_iter().flatten();
        let found = conditions.into_iter().find(|condition| condition["type"] == kind);
        let text = |field: &str| found.map(|it| it[field].as_str().unwrap_or_default().to_owned()).unwrap_or_default();
        format!("{} {}", text("status"), text("reason")).trim().to_owned()
    })
}

fn message(scene: &Scene, policy: &str) -> String {
    scene.status(Kind::BackendTlsPolicy, policy)["ancestors"][0]["conditions"].to_string()
}

const GOOD: [&str; 2] = ["True Accepted", "True ResolvedRefs"];

#[test]
fn a_policy_has_proxies_connect_by_tls_and_expect_its_name_of_its_authorities() {
    let scene = scene([policy("p", "", json!({})), authorities()]);
    let context = context(&scene, CLUSTER);
    assert_eq!(context["sni"], "s.example");
    let common = &context["commonTlsContext"];
    assert_eq!(common["alpnProtocols"], json!(["http/1.1"]));
    let combined = &common["combinedValidationContext"];
    assert_eq!(combined["validationContextSdsSecretConfig"]["name"], BUNDLE);
    let names = &combined["defaultValidationContext"]["matchTypedSubjectAltNames"];
    assert_eq!(*names, json!([{"sanType": "DNS", "matcher": {"exact": "s.example"}}]));
    let secret = scene.resource("infra/edge", ResourceKind::Secret, BUNDLE).expect("a secret");
    let served = secret["validationContext"]["trustedCa"]["inlineString"].as_str().expect("PEM");
    assert_eq!(served.replace('\n', ""), pem().replace(['\n', '\r'], ""));
    assert_eq!(told(&scene, "apps/p", 0), GOOD);
    assert_eq!(scene.route("apps/r", 0, "ResolvedRefs"), "True ResolvedRefs");
    assert_eq!(scene.problems(), [""; 0]);
    let ancestor = &scene.status(Kind::BackendTlsPolicy, "apps/p")["ancestors"][0];
    assert_eq!(
        (&ancestor["ancestorRef"]["kind"], &ancestor["ancestorRef"]["name"]),
        (&json!("Gateway"), &json!("edge"))
    );
    assert_eq!(ancestor["conditions"][0]["observedGeneration"], 4);
}

#[test]
fn the_cluster_behind_tls_is_not_the_one_in_plain_text_and_one_of_both_is_there() {
    let mut scene = scene([]);
    let there = |scene: &Scene| {
        let clusters = [PLAIN, CLUSTER].map(|name| !cluster(scene, name).is_null());
        let endpoints =
            [PLAIN, CLUSTER].map(|name| scene.resource("infra/edge", ResourceKind::Endpoints, name).is_some());
        assert_eq!(clusters, endpoints);
        clusters
    };
    assert_eq!(there(&scene), [true, false]);
    scene.put(authorities());
    scene.put(policy("p", "", json!({})));
    assert_eq!(there(&scene), [false, true]);
    scene.remove(authorities());
    assert_eq!(cluster(&scene, PLAIN), Value::Null);
    assert_eq!(cluster(&scene, CLUSTER), Value::Null);
    scene.remove(policy("p", "", json!({})));
    assert_eq!(there(&scene), [true, false]);
}

#[test]
fn a_target_of_another_kind_is_told_that_nothing_secures_it() {
    let mut of_pool = policy("p", "", json!({}));
    of_pool["spec"]["targetRefs"] =
        json!([{"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "b"}]);
    let scene = scene([of_pool, authorities()]);
    assert_eq!(told(&scene, "apps/p", 0), ["False Invalid", ""]);
    let entry = &scene.status(Kind::BackendTlsPolicy, "apps/p")["ancestors"][0]["ancestorRef"];
    assert_eq!((&entry["kind"], &entry["name"]), (&json!("InferencePool"), &json!("b")));
    assert!(message(&scene, "apps/p").contains("spec.targetRefs[0].kind"), "{}", message(&scene, "apps/p"));
}

#[test]
fn gateways_that_lead_to_a_port_of_another_policy_take_no_room() {
    let gateways = (0..17_u16).map(|number| {
        let mut gateway = gateway(&format!("g{number:02}"), json!([http("web", 8000 + number, "")]));
        gateway["metadata"]["creationTimestamp"] = json!(format!("20{:02}-01-01T00:00:00Z", 10 + number));
        gateway
    });
    let parents = |range: std::ops::Range<u16>| -> Vec<_> {
        range.map(|number| json!({"name": format!("g{number:02}"), "namespace": "infra"})).collect()
    };
    let to = |port: u16| json!([{"backendRefs": [{"name": "s", "port": port}]}]);
    let scene = Scene::new(gateways.chain([
        ports(json!([{"name": "p80", "port": 80}, {"name": "p81", "port": 81}])),
        route("many", json!({"parentRefs": parents(0..16), "rules": to(81)})),
        route("one", json!({"parentRefs": parents(16..17), "rules": to(80)})),
        policy("whole", "", json!({})),
        policy("named", "p81", json!({})),
        authorities(),
    ]));
    assert!(scene.resource("infra/g16", ResourceKind::Cluster, CLUSTER).is_some());
    let listed = |policy: &str| {
        let status = scene.status(Kind::BackendTlsPolicy, policy);
        let all = status["ancestors"].as_array().cloned().unwrap_or_default();
        all.iter().map(|it| it["ancestorRef"]["name"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed("apps/whole"), ["g16"]);
    assert_eq!(listed("apps/named").len(), 16);
}

#[test]
fn authorities_that_rotate_are_one_secret_and_no_cluster_and_wake_no_route() {
    let other = json!({"targetRefs": [reference("Service", "t")]});
    let mut second = policy("q", "", json!({"hostname": "t.example"}));
    second["spec"]["targetRefs"] = other["targetRefs"].clone();
    let to_t = route("t", json!({"rules": [{"backendRefs": [{"name": "t", "port": 80}]}]}));
    let mut scene = scene([policy("p", "", json!({})), second, authorities(), service("t"), to_t]);
    let changes = scene.put(config_map("ca", json!({"ca.crt": other_pem()})));
    assert_eq!(changed(&changes), [format!("Secret {BUNDLE}")]);
    let stats = scene.0.stats();
    let computed = |table: &str| stats.iter().find(|stats| stats.name == table).expect("a table").computed;
    assert_eq!(["TlsPolicyRow", "ClusterBytes", "ResolvedRule", "PolicyStatus"].map(computed), [0; 4]);
}

#[test]
fn other_names_count_alone_and_the_hostname_is_still_asked_for() {
    let names = json!([{"type": "URI", "uri": "spiffe://a/b"}, {"type": "Hostname", "hostname": "*.a.example"}]);
    let scene = scene([policy("p", "", json!({"subjectAltNames": names})), authorities()]);
    let context = context(&scene, CLUSTER);
    assert_eq!(context["sni"], "s.example");
    let names = &context["commonTlsContext"]["combinedValidationContext"]["defaultValidationContext"]["matchTypedSubjectAltNames"];
    assert_eq!(names[0], json!({"sanType": "URI", "matcher": {"exact": "spiffe://a/b"}}));
    assert_eq!(names[1]["matcher"]["safeRegex"]["regex"], r"(?i)[^.]+\.a\.example");
}

#[test]
fn the_system_is_trusted_by_the_file_of_the_setting() {
    let system = || policy("p", "", json!({"caCertificateRefs": [], "wellKnownCACertificates": "System"}));
    let objects = || [gateway("edge", json!([http("web", 80, "")])), service("s"), route("r", json!({})), system()];
    let with = |path: &str| Scene::with(Settings { system_trust_store: path.into(), ..Settings::default() }, objects());
    let found = with("/etc/pki/ca.pem");
    let validation = &context(&found, CLUSTER)["commonTlsContext"]["validationContext"];
    assert_eq!(validation["trustedCa"]["filename"], "/etc/pki/ca.pem");
    assert_eq!(told(&found, "apps/p", 0), GOOD);
    let none = with("");
    assert_eq!(cluster(&none, CLUSTER), Value::Null);
    assert_eq!(told(&none, "apps/p", 0), ["False Invalid", "True ResolvedRefs"]);
}

#[test]
fn what_is_wrong_with_a_policy_closes_the_port_and_is_told_until_it_heals() {
    let key = &certificates()[0].1;
    let with_key = format!("{}{key}", pem());
    let empty = || json!({});
    let refs = |kind: &str, name: &str| json!({"caCertificateRefs": [reference(kind, name)]});
    for (validation, data, accepted, resolved, words) in [
        (refs("ConfigMap", "none"), empty(), "NoValidCACertificate", "InvalidCACertificateRef", "does not exist"),
        (empty(), empty(), "NoValidCACertificate", "InvalidCACertificateRef", "has no ca.crt"),
        (empty(), json!({"ca.crt": ""}), "NoValidCACertificate", "InvalidCACertificateRef", "it is empty"),
        (empty(), json!({"ca.crt": "no PEM"}), "NoValidCACertificate", "InvalidCACertificateRef", "no PEM block"),
        (
            empty(),
            json!({"ca.crt": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}),
            "NoValidCACertificate",
            "InvalidCACertificateRef",
            "certificate 1 is none",
        ),
        (empty(), json!({"ca.crt": with_key}), "NoValidCACertificate", "InvalidCACertificateRef", "PRIVATE KEY"),
        (refs("Service", "ca"), empty(), "NoValidCACertificate", "InvalidKind", "use a ConfigMap or a Secret"),
        (
            json!({"caCertificateRefs": [], "wellKnownCACertificates": "example.com/ours"}),
            empty(),
            "Invalid",
            "",
            "not known",
        ),
        (json!({"hostname": "10.0.0.1"}), json!({"ca.crt": pem()}), "Invalid", "", "spec.validation.hostname"),
    ] {
        let mut scene = scene([policy("p", "", validation), config_map("ca", data)]);
        assert_eq!(cluster(&scene, CLUSTER), Value::Null, "{words}");
        let resolved = if resolved.is_empty() { "True ResolvedRefs".into() } else { format!("False {resolved}") };
        assert_eq!(told(&scene, "apps/p", 0), [format!("False {accepted}"), resolved], "{words}");
        let text = message(&scene, "apps/p");
        assert!(text.contains(words), "{words}: {text}");
        assert!(!text.contains("MIG") && !text.contains("BEGIN PRIVATE"), "{text}");
        assert_eq!(scene.route("apps/r", 0, "ResolvedRefs"), "False InvalidBackendTLS");
        assert_eq!(scene.route("apps/r", 0, "Accepted"), "True Accepted");
        let text = scene.route_message("apps/r", 0, "ResolvedRefs");
        assert!(text.contains("BackendTLSPolicy apps/p, which applies to it, is not valid"), "{text}");
        scene.put(policy("p", "", json!({})));
        scene.put(authorities());
        assert_eq!(told(&scene, "apps/p", 0), GOOD, "{words}");
        assert_ne!(cluster(&scene, CLUSTER), Value::Null, "{words}");
    }
}

#[test]
fn options_are_refused_and_a_policy_that_cannot_be_read_closes_its_targets() {
    let mut with_option = policy("p", "", json!({}));
    with_option["spec"]["options"] = json!({"example.com/minimum": "1.3"});
    let mut scene = scene([with_option, authorities()]);
    assert_eq!(told(&scene, "apps/p", 0), ["False Invalid", "True ResolvedRefs"]);
    assert_eq!(cluster(&scene, CLUSTER), Value::Null);
    let mut unreadable = policy("p", "", json!({}));
    unreadable["spec"]["validation"] = json!("none");
    let (_, targets) = api::decode_or_targets(unreadable).expect_err("refused");
    scene.0.apply(translate::Change::Put(*targets.expect("a policy")));
    scene.0.settle();
    assert_eq!(cluster(&scene, CLUSTER), Value::Null);
    assert_eq!(told(&scene, "apps/p", 0)[0], "False Invalid");
}

#[test]
fn of_several_authorities_those_that_can_be_used_serve_and_the_rest_is_told() {
    let refs = json!([reference("ConfigMap", "ca"), reference("Secret", "more"), reference("ConfigMap", "none")]);
    let more = opaque("more", json!({"ca.crt": other_pem()}));
    let mut scene = scene([policy("p", "", json!({"caCertificateRefs": refs})), authorities(), more.clone()]);
    let partly = ["True Accepted", "False InvalidCACertificateRef"];
    assert_eq!(told(&scene, "apps/p", 0), partly);
    assert_eq!(scene.route("apps/r", 0, "ResolvedRefs"), "True ResolvedRefs");
    let name = "authorities/apps/ConfigMap/ca+ConfigMap/none+Secret/more";
    let names = name.replace("ConfigMap/ca+ConfigMap/none+Secret/more", "");
    let secrets = |scene: &Scene| {
        let (_, all) = scene.0.resources().into_iter().next().expect("a Gateway");
        let all = all.into_iter().filter(|(key, _)| key.name.starts_with(&*names));
        all.map(|(key, encoded)| (key.name.to_string(), encoded.body.to_bytes())).collect::<Vec<_>>()
    };
    let [(_, both)] = &secrets(&scene)[..] else { panic!("not one secret") };
    assert_eq!(String::from_utf8_lossy(both).matches("BEGIN CERTIFICATE").count(), 2);
    // One that goes is one less in the secret, and no cluster changes.
    let changes = scene.remove(more);
    assert_eq!(changes.resources.iter().filter(|(key, _)| key.kind == ResourceKind::Cluster).count(), 0);
    let [(_, one)] = &secrets(&scene)[..] else { panic!("not one secret") };
    assert_eq!(String::from_utf8_lossy(one).matches("BEGIN CERTIFICATE").count(), 1);
    // The last one closes the port.
    scene.remove(authorities());
    assert_eq!(told(&scene, "apps/p", 0), ["False NoValidCACertificate", "False InvalidCACertificateRef"]);
    assert_eq!(cluster(&scene, CLUSTER), Value::Null);
    assert_eq!(secrets(&scene), []);
}

#[test]
fn the_older_policy_of_a_target_holds_and_the_other_is_told_that_it_conflicts() {
    let old = of_age(policy("z-old", "", json!({"hostname": "old.example"})), 2020);
    let young = of_age(policy("a-young", "", json!({"hostname": "young.example"})), 2024);
    let mut scene = scene([young, old.clone(), authorities()]);
    assert_eq!(context(&scene, CLUSTER)["sni"], "old.example");
    assert_eq!(told(&scene, "apps/z-old", 0), GOOD);
    assert_eq!(told(&scene, "apps/a-young", 0), ["False Conflicted", "True ResolvedRefs"]);
    assert!(message(&scene, "apps/a-young").contains("BackendTLSPolicy apps/z-old"));
    scene.remove(old);
    assert_eq!(context(&scene, CLUSTER)["sni"], "young.example");
    assert_eq!(told(&scene, "apps/a-young", 0), GOOD);
    // Of equal age, by name.
    scene.put(of_age(policy("a", "", json!({"hostname": "a.example"})), 2024));
    assert_eq!(context(&scene, CLUSTER)["sni"], "a.example");
}

#[test]
fn a_policy_that_is_not_valid_is_replaced_by_no_looser_one() {
    let broken =
        |year| of_age(policy("broken", "", json!({"caCertificateRefs": [reference("ConfigMap", "none")]})), year);
    let sound = of_age(policy("sound", "", json!({})), 2022);
    let scene = scene([broken(2020), sound, authorities()]);
    assert_eq!(cluster(&scene, CLUSTER), Value::Null);
    assert_eq!(told(&scene, "apps/sound", 0), ["False Conflicted", "True ResolvedRefs"]);
    // Nor by that of the whole Service, where it is one of the port.
    let named = policy("broken", "web", json!({"caCertificateRefs": [reference("ConfigMap", "none")]}));
    let two = ports(json!([{"name": "web", "port": 80}, {"name": "other", "port": 81}]));
    let whole = policy("whole", "", json!({"hostname": "whole.example"}));
    let objects = [gateway("edge", json!([http("web", 80, "")])), two, named, whole, authorities()];
    let rules = json!({"rules": [{"backendRefs": [{"name": "s", "port": 80}, {"name": "s", "port": 81}]}]});
    let scene = Scene::new(objects.into_iter().chain([route("r", rules)]));
    assert_eq!(cluster(&scene, CLUSTER), Value::Null);
    assert_eq!(context(&scene, "service/apps/s/81/tls")["sni"], "whole.example");
    assert_eq!(told(&scene, "apps/whole", 0), GOOD);
    assert_eq!(told(&scene, "apps/broken", 0)[0], "False NoValidCACertificate");
}

#[test]
fn the_name_of_a_port_goes_before_the_whole_service_and_both_are_accepted() {
    let two = ports(json!([{"name": "web", "port": 80}, {"name": "other", "port": 81}]));
    let whole = of_age(policy("whole", "", json!({"hostname": "whole.example"})), 2020);
    let named = of_age(policy("named", "web", json!({"hostname": "named.example"})), 2024);
    let rules = json!({"rules": [{"backendRefs": [{"name": "s", "port": 80}, {"name": "s", "port": 81}]}]});
    let objects = [gateway("edge", json!([http("web", 80, "")])), two, whole, named, authorities(), route("r", rules)];
    let scene = Scene::new(objects);
    assert_eq!(context(&scene, CLUSTER)["sni"], "named.example");
    assert_eq!(context(&scene, "service/apps/s/81/tls")["sni"], "whole.example");
    assert_eq!([told(&scene, "apps/whole", 0), told(&scene, "apps/named", 0)], [GOOD, GOOD]);
}

#[test]
fn a_target_that_is_not_there_is_told_and_holds_once_it_comes() {
    let mut scene = scene([policy("p", "tls", json!({})), authorities()]);
    assert_eq!(told(&scene, "apps/p", 0), ["False TargetNotFound", ""]);
    let entry = &scene.status(Kind::BackendTlsPolicy, "apps/p")["ancestors"][0]["ancestorRef"];
    assert_eq!((&entry["kind"], &entry["sectionName"]), (&json!("Service"), &json!("tls")));
    assert_eq!(context(&scene, PLAIN), Value::Null, "a port of another name is none of its business");
    assert_ne!(cluster(&scene, PLAIN), Value::Null);
    scene.put(ports(json!([{"name": "tls", "port": 80}])));
    assert_eq!(told(&scene, "apps/p", 0), GOOD);
    assert_eq!(context(&scene, CLUSTER)["sni"], "s.example");
    scene.remove(service("s"));
    assert_eq!(told(&scene, "apps/p", 0), ["False TargetNotFound", ""]);
}

#[test]
fn what_a_port_says_it_speaks_is_spoken_over_tls_and_asked_for_by_its_name() {
    for (protocol, alpn, with_policy) in [
        ("", "http/1.1", "True ResolvedRefs"),
        ("http", "http/1.1", "True ResolvedRefs"),
        ("https", "http/1.1", "True ResolvedRefs"),
        ("HTTPS", "http/1.1", "True ResolvedRefs"),
        ("tls", "http/1.1", "True ResolvedRefs"),
        ("kubernetes.io/ws", "http/1.1", "True ResolvedRefs"),
        ("kubernetes.io/wss", "http/1.1", "True ResolvedRefs"),
        ("kubernetes.io/h2c", "h2", "True ResolvedRefs"),
    ] {
        let mut scene = scene([speaking(protocol), policy("p", "", json!({})), authorities()]);
        assert_eq!(scene.route("apps/r", 0, "ResolvedRefs"), with_policy, "{protocol}");
        let context = context(&scene, CLUSTER);
        assert_eq!(context["commonTlsContext"]["alpnProtocols"], json!([alpn]), "{protocol}");
        assert_eq!(context["sni"], "s.example", "{protocol}");
        let options = cluster(&scene, CLUSTER)["typedExtensionProtocolOptions"].to_string();
        assert_eq!(options.contains("http2ProtocolOptions"), alpn == "h2", "{protocol}");
        assert!(!options.contains("autoSni"), "{options}");
        // Without one nothing says whose certificate to expect.
        scene.remove(policy("p", "", json!({})));
        let asks_for_tls = ["https", "HTTPS", "tls"].contains(&protocol);
        let expected = if asks_for_tls { "False UnsupportedProtocol" } else { "True ResolvedRefs" };
        assert_eq!(scene.route("apps/r", 0, "ResolvedRefs"), expected, "{protocol}");
        assert_eq!(cluster(&scene, PLAIN).is_null(), asks_for_tls, "{protocol}");
    }
}

#[test]
fn calls_are_sent_in_http_2_over_tls_and_a_policy_that_is_not_valid_closes_them() {
    let calls = grpc_route("calls", json!({}));
    let mut scene = scene([calls, policy("p", "", json!({})), authorities()]);
    let context = context(&scene, "service/apps/s/80/tls/grpc");
    assert_eq!(context["commonTlsContext"]["alpnProtocols"], json!(["h2"]));
    assert_eq!(context["sni"], "s.example");
    scene.remove(authorities());
    assert_eq!(cluster(&scene, "service/apps/s/80/tls/grpc"), Value::Null);
    let status = scene.status(Kind::GrpcRoute, "apps/calls").to_string();
    assert!(status.contains("InvalidBackendTLS"), "{status}");
}

#[test]
fn copies_of_requests_and_questions_go_by_tls_too_or_not_at_all() {
    let mirror = json!({"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "s", "port": 80}}});
    let copied = route("r", json!({"rules": [{"filters": [mirror], "backendRefs": [{"name": "t", "port": 80}]}]}));
    let judged = json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
        "metadata": {"name": "judged", "namespace": "apps", "generation": 1},
        "spec": {"targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "guarded"}],
            "extAuth": {"extensionRef": {"name": "judge"}}}});
    let judge = json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "GatewayExtension",
        "metadata": {"name": "judge", "namespace": "apps"},
        "spec": {"extAuth": {"grpcService": {"backendRef": {"name": "s", "port": 80}}}}});
    let guarded =
        route("guarded", json!({"hostnames": ["g.example"], "rules": [{"backendRefs": [{"name": "t", "port": 80}]}]}));
    let mut scene = scene([copied, guarded, service("t"), judged, judge, policy("p", "", json!({})), authorities()]);
    for name in [CLUSTER, "service/apps/s/80/tls/grpc"] {
        assert_eq!(context(&scene, name)["sni"], "s.example", "{name}");
    }
    assert_eq!(told(&scene, "apps/p", 0), GOOD);
    scene.remove(authorities());
    for name in [CLUSTER, "service/apps/s/80/tls/grpc"] {
        assert_eq!(cluster(&scene, name), Value::Null, "{name}");
    }
    assert_eq!(scene.route("apps/r", 0, "ResolvedRefs"), "False InvalidBackendTLS");
    assert_eq!(told(&scene, "apps/p", 0)[0], "False NoValidCACertificate");
    let message = scene.status(Kind::TrafficPolicy, "apps/judged").to_string();
    assert!(message.contains("BackendTLSPolicy apps/p, which applies to it, is not valid"), "{message}");
}

#[test]
fn sessions_hold_across_no_backends_of_which_one_is_behind_tls() {
    let rule = json!({"sessionPersistence": {"sessionName": "c", "type": "Cookie"},
        "backendRefs": [{"name": "s", "port": 80}, {"name": "t", "port": 80}]});
    let scene = scene([route("r", json!({"rules": [rule]})), service("t"), policy("p", "", json!({})), authorities()]);
    let message = scene.route_message("apps/r", 0, "Accepted");
    assert!(message.starts_with("False UnsupportedValue") && message.contains("BackendTLSPolicy"), "{message}");
    let config = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").expect("routes");
    assert_eq!(config["virtualHosts"][0]["routes"][0]["directResponse"]["status"], 500, "{config}");
}

#[test]
fn a_policy_of_connections_yields_its_tls_and_keeps_the_rest() {
    let config = |tls: Value| {
        json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "BackendConfigPolicy",
            "metadata": {"name": "c", "namespace": "apps", "generation": 2},
            "spec": {"targetRefs": [reference("Service", "s")], "connectTimeout": "2s", "tls": tls}})
    };
    let attached = |scene: &Scene| {
        let entry = &scene.status(Kind::BackendConfigPolicy, "apps/c")["ancestors"][0]["conditions"][1];
        format!("{} {}", entry["reason"].as_str().unwrap_or_default(), entry["message"])
    };
    let mut scene = scene([config(json!({"insecureSkipVerify": true})), policy("p", "", json!({})), authorities()]);
    assert_eq!(context(&scene, CLUSTER)["sni"], "s.example");
    assert_eq!(cluster(&scene, CLUSTER)["connectTimeout"], "2s");
    let text = attached(&scene);
    assert!(text.starts_with("Merged") && text.contains("BackendTLSPolicy apps/p"), "{text}");
    // What is overridden closes nothing.
    scene.put(config(json!({"secretRef": {"name": "none"}})));
    assert_eq!(context(&scene, CLUSTER)["sni"], "s.example");
    // And no TLS of it takes the place of a policy that is not valid.
    scene.put(config(json!({"insecureSkipVerify": true})));
    scene.remove(authorities());
    assert_eq!(cluster(&scene, CLUSTER), Value::Null);
    scene.remove(policy("p", "", json!({})));
    assert_ne!(context(&scene, CLUSTER), Value::Null);
    assert_eq!(context(&scene, CLUSTER)["sni"], Value::Null);
    assert!(attached(&scene).starts_with("Attached"), "{}", attached(&scene));
}

#[test]
fn the_owner_of_a_route_elsewhere_is_told_no_name_of_a_policy() {
    let grant = json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
        "metadata": {"name": "g", "namespace": "apps"},
        "spec": {"from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "kids"}],
            "to": [{"group": "", "kind": "Service"}]}});
    let mut foreign = route("f", json!({"rules": [{"backendRefs": [{"name": "s", "namespace": "apps", "port": 80}]}]}));
    foreign["metadata"]["namespace"] = json!("kids");
    let scene = scene([policy("secretive", "", json!({})), grant, foreign]);
    let text = scene.route_message("kids/f", 0, "ResolvedRefs");
    assert!(text.starts_with("False InvalidBackendTLS") && !text.contains("secretive"), "{text}");
}

#[test]
fn a_kind_without_its_definition_is_not_published_until_it_comes() {
    let mut scene = scene([]);
    let published = |scene: &Scene| {
        let features = scene.status(Kind::GatewayClass, "portcullis")["supportedFeatures"].to_string();
        ["\"BackendTLSPolicy\"", "\"BackendTLSPolicySANValidation\""].map(|feature| features.contains(feature))
    };
    assert_eq!(published(&scene), [true; 2]);
    scene.0.set_absent(Kind::BackendTlsPolicy, true);
    let changes = scene.0.settle();
    assert_eq!(changes.resources, []);
    assert_eq!(published(&scene), [false; 2]);
    scene.0.set_absent(Kind::BackendTlsPolicy, false);
    scene.0.settle();
    assert_eq!(published(&scene), [true; 2]);
}
