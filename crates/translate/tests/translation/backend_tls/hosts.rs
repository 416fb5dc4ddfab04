//! Policies on Backends, names of clusters by whichever policy, and what is told where no Gateway's entry could.

use super::*;

const HOST: &str = "backend/apps/b";
const SECURED: &str = "backend/apps/b/tls";

fn host(address: &str) -> Value {
    json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "Backend", "metadata": {"name": "b", "namespace": "apps"},
        "spec": {"static": {"hosts": [{"host": address, "port": 443}]}}})
}

fn to_host() -> Value {
    let backend = json!({"group": "gateway.kgateway.dev", "kind": "Backend", "name": "b"});
    route("h", json!({"rules": [{"backendRefs": [backend]}]}))
}

fn on_host(mut policy: Value) -> Value {
    policy["spec"]["targetRefs"] = json!([{"group": "gateway.kgateway.dev", "kind": "Backend", "name": "b"}]);
    policy
}

fn config(name: &str, tls: Value) -> Value {
    json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "BackendConfigPolicy",
        "metadata": {"name": "c", "namespace": "apps", "generation": 2},
        "spec": {"targetRefs": [{"group": if name == "b" { "gateway.kgateway.dev" } else { "" },
            "kind": if name == "b" { "Backend" } else { "Service" }, "name": name}], "tls": tls}})
}

#[test]
fn a_policy_on_a_backend_holds_as_one_on_a_service() {
    for address in ["192.0.2.1", "host.example"] {
        let mut scene = scene([host(address), to_host(), on_host(policy("p", "", json!({}))), authorities()]);
        assert_eq!(context(&scene, SECURED)["sni"], "s.example", "{address}");
        assert_eq!(cluster(&scene, HOST), Value::Null);
        assert_eq!(told(&scene, "apps/p", 0), GOOD);
        assert!(scene.resource("infra/edge", ResourceKind::Secret, BUNDLE).is_some());
        // It is closed while nobody knows whom to trust.
        scene.remove(authorities());
        assert_eq!([cluster(&scene, HOST), cluster(&scene, SECURED)], [Value::Null, Value::Null]);
        assert_eq!(scene.route("apps/h", 0, "ResolvedRefs"), "False InvalidBackendTLS");
        assert_eq!(told(&scene, "apps/p", 0), ["False NoValidCACertificate", "False InvalidCACertificateRef"]);
        let ancestor = &scene.status(Kind::BackendTlsPolicy, "apps/p")["ancestors"][0]["ancestorRef"];
        assert_eq!(ancestor["kind"], "Gateway");
        scene.remove(on_host(policy("p", "", json!({}))));
        assert_ne!(cluster(&scene, HOST), Value::Null);
        assert_eq!(context(&scene, HOST), Value::Null);
    }
}

#[test]
fn of_a_backend_a_section_or_one_that_is_not_there_is_told() {
    let mut with_section = on_host(policy("p", "", json!({})));
    with_section["spec"]["targetRefs"][0]["sectionName"] = json!("a");
    let mut scene = scene([host("192.0.2.1"), to_host(), with_section, authorities()]);
    assert_eq!(told(&scene, "apps/p", 0), ["False TargetNotFound", ""]);
    assert!(message(&scene, "apps/p").contains("spec.targetRefs[0].sectionName"), "{}", message(&scene, "apps/p"));
    scene.put(on_host(policy("p", "", json!({}))));
    assert_eq!(told(&scene, "apps/p", 0), GOOD);
    scene.remove(host("192.0.2.1"));
    assert_eq!(told(&scene, "apps/p", 0), ["False TargetNotFound", ""]);
    let entry = &scene.status(Kind::BackendTlsPolicy, "apps/p")["ancestors"][0]["ancestorRef"];
    assert_eq!((&entry["group"], &entry["kind"]), (&json!("gateway.kgateway.dev"), &json!("Backend")));
}

#[test]
fn the_tls_of_a_configuration_is_another_cluster_than_plain_text_too() {
    let mut scene = scene([host("192.0.2.1"), to_host()]);
    let there = |scene: &Scene, names: [&str; 2]| names.map(|name| !cluster(scene, name).is_null());
    for (name, names) in [("s", [PLAIN, CLUSTER]), ("b", [HOST, SECURED])] {
        assert_eq!(there(&scene, names), [true, false]);
        scene.put(config(name, json!({"insecureSkipVerify": true})));
        assert_eq!(there(&scene, names), [false, true]);
        assert_ne!(context(&scene, names[1]), Value::Null);
        // Broken, it closes.
        scene.put(config(name, json!({"secretRef": {"name": "none"}})));
        assert_eq!(there(&scene, names), [false, false]);
        scene.remove(config(name, json!({})));
        assert_eq!(there(&scene, names), [true, false]);
    }
}

#[test]
fn a_policy_that_is_not_valid_is_told_where_only_a_provider_is_asked() {
    let judge = json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "GatewayExtension",
        "metadata": {"name": "judge", "namespace": "apps"},
        "spec": {"extAuth": {"grpcService": {"backendRef": {"name": "judge", "port": 80}}}}});
    let mut on_judge = policy("p", "", json!({}));
    on_judge["spec"]["targetRefs"] = json!([reference("Service", "judge")]);
    let judged = json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
        "metadata": {"name": "judged", "namespace": "apps"},
        "spec": {"targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "r"}],
            "extAuth": {"extensionRef": {"name": "judge"}}}});
    let mut scene = scene([service("judge"), judge, judged, on_judge, authorities()]);
    assert_eq!(told(&scene, "apps/p", 0), GOOD);
    scene.remove(authorities());
    assert_eq!(told(&scene, "apps/p", 0), ["False NoValidCACertificate", ""]);
    let entry = &scene.status(Kind::BackendTlsPolicy, "apps/p")["ancestors"][0]["ancestorRef"];
    assert_eq!((&entry["kind"], &entry["name"]), (&json!("Service"), &json!("judge")));
}

#[test]
fn authorities_of_one_name_with_different_keys_are_a_warning() {
    let both = config_map("ca", json!({"ca.crt": format!("{}{}", pem(), other_pem())}));
    let scene = scene([policy("p", "", json!({})), both]);
    assert_eq!(told(&scene, "apps/p", 0), GOOD);
    assert!(message(&scene, "apps/p").contains("authorityKeyIdentifier"), "{}", message(&scene, "apps/p"));
    assert!(scene.problems().iter().any(|it| it.contains("have different keys")), "{:?}", scene.problems());
}

#[test]
fn one_more_gateway_beyond_the_room_of_a_status_wakes_no_other() {
    const GATEWAYS: u16 = 40;
    let of = |number: u16| {
        let mut gateway = gateway(&format!("g{number:02}"), json!([http("web", 8000 + number, "")]));
        gateway["metadata"]["creationTimestamp"] = json!(format!("20{:02}-01-01T00:00:00Z", 10 + number));
        gateway
    };
    let leads = |number: u16| {
        let parents = json!([{"name": format!("g{number:02}"), "namespace": "infra"}]);
        route(&format!("r{number:02}"), json!({"parentRefs": parents}))
    };
    let objects = (0..GATEWAYS).flat_map(|number| [of(number), leads(number)]);
    let mut scene = Scene::new(objects.chain([service("s"), policy("p", "", json!({})), authorities()]));
    scene.put(of(GATEWAYS));
    scene.put(leads(GATEWAYS));
    let stats = scene.0.stats();
    let computed = stats.iter().find(|stats| stats.name == "Outputs").expect("a table").computed;
    assert!(computed < 20, "{computed} resources were looked at");
    assert!(scene.resource("infra/g40", ResourceKind::Cluster, CLUSTER).is_none());
    assert!(scene.resource("infra/g15", ResourceKind::Cluster, CLUSTER).is_some());
}
