//! What runs the proxies of Gateways, and what is said of them.

use std::sync::Arc;

use ir::{NsName, Settings, settings::PortMapping};
use serde_json::{Value, json};

use super::scene::Scene;
use translate::{Deploying, Proxies};

fn scene(objects: impl IntoIterator<Item = Value>) -> Scene {
    let settings = Settings { shared_host: false, ports: PortMapping::Mapped, ..Settings::default() };
    let mut scene = Scene::with(settings, objects);
    scene.0.set_deploying(Some(deploying(Some("-----BEGIN CERTIFICATE-----\n"))));
    scene.0.settle();
    scene
}

fn deploying(authorities: Option<&str>) -> Deploying {
    Deploying {
        settings: deploy::Settings::default(),
        xds_host: "portcullis.portcullis-system.svc".into(),
        xds_port: 9977,
        authorities: authorities.map(Arc::from),
        applied: true,
    }
}

fn gateway(spec: &Value) -> Value {
    let mut all = json!({
        "gatewayClassName": "portcullis", "listeners": [{ "name": "http", "port": 80, "protocol": "HTTP" }],
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": { "namespace": "infra", "name": "edge", "uid": "u", "generation": 1 }, "spec": all,
    })
}

fn service(ingress: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "namespace": "infra", "name": "edge-portcullis",
            "labels": { "gateway.networking.k8s.io/gateway-name": "edge" },
        },
        "spec": { "type": "LoadBalancer", "clusterIP": "10.0.0.1", "ports": [{ "port": 80 }] },
        "status": { "loadBalancer": { "ingress": ingress } },
    })
}

fn deployment(available: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "namespace": "infra", "name": "edge-portcullis" },
        "spec": {}, "status": { "availableReplicas": available },
    })
}

fn parameters(spec: &Value) -> Value {
    json!({
        "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "GatewayParameters",
        "metadata": { "namespace": "infra", "name": "p" }, "spec": spec,
    })
}

fn with_parameters() -> Value {
    let named = json!({ "group": "gateway.kgateway.dev", "kind": "GatewayParameters", "name": "p" });
    gateway(&json!({ "infrastructure": { "parametersRef": named } }))
}

fn deployed(scene: &mut Scene, value: Value) -> Option<Proxies> {
    let changes = scene.put(value);
    changes.proxies.into_iter().find(|(gateway, _)| *gateway == NsName::new("infra", "edge"))?.1
}

/// The object of this kind among what runs the proxies.
fn object(proxies: Option<&Proxies>, kind: &str) -> Value {
    let Some(Proxies::Objects(objects)) = proxies else { panic!("{proxies:?}") };
    objects.iter().find(|object| object.kind == kind).expect("it is among them").object.clone()
}

#[test]
fn low_ports_are_bound_elsewhere_and_the_service_leads_there() {
    let mut scene = scene([]);
    let ports = json!({ "listeners": [
        { "name": "a", "port": 80, "protocol": "HTTP", "hostname": "a.example.com" },
        { "name": "b", "port": 80, "protocol": "HTTP", "hostname": "b.example.com" },
        { "name": "c", "port": 10080, "protocol": "HTTP" },
        { "name": "d", "port": 19001, "protocol": "HTTP" },
    ] });
    let proxies = deployed(&mut scene, gateway(&ports));
    let service = object(proxies.as_ref(), "Service");
    let ports: Vec<_> = service["spec"]["ports"]
        .as_array()
        .expect("ports")
        .iter()
        .map(|port| (&port["port"], &port["targetPort"]))
        .collect();
    let expected = [(80, 10081), (10080, 10080), (19001, 29001)].map(|(port, target)| (json!(port), json!(target)));
    assert_eq!(ports, expected.iter().map(|(port, target)| (port, target)).collect::<Vec<_>>());
}

#[test]
fn a_gateway_is_programmed_once_it_has_an_address_and_a_proxy_that_is_ready() {
    let mut scene = scene([gateway(&json!({}))]);
    assert_eq!(scene.gateway("infra/edge", "Programmed"), "False AddressNotAssigned");
    scene.put(service(&json!([{ "ip": "192.0.2.1" }])));
    assert_eq!(scene.gateway("infra/edge", "Programmed"), "False NoResources");
    scene.put(deployment(1));
    assert_eq!(scene.gateway("infra/edge", "Programmed"), "True Programmed");
    assert_eq!(scene.addresses("infra/edge"), ["192.0.2.1"]);
    scene.0.set_unapplied(&NsName::new("infra", "edge"), Some("Service edge-portcullis: forbidden".into()));
    scene.0.settle();
    assert_eq!(scene.gateway("infra/edge", "Programmed"), "False NoResources");
}

#[test]
fn an_address_that_the_service_does_not_have_is_not_usable() {
    let address = json!({ "addresses": [{ "value": "192.0.2.9" }] });
    let mut scene = scene([gateway(&address), service(&json!([{ "ip": "192.0.2.1" }])), deployment(1)]);
    assert_eq!(scene.gateway("infra/edge", "Accepted"), "True Accepted");
    assert_eq!(scene.gateway("infra/edge", "Programmed"), "False AddressNotUsable");
    scene.put(service(&json!([{ "ip": "192.0.2.9" }])));
    assert_eq!(scene.gateway("infra/edge", "Programmed"), "True Programmed");
}

#[test]
fn parameters_that_cannot_be_used_are_told_and_change_nothing_that_runs() {
    let mut scene = scene([parameters(&json!({ "kube": { "deployment": { "replicas": 3 } } }))]);
    let proxies = deployed(&mut scene, with_parameters());
    assert_eq!(object(proxies.as_ref(), "Deployment")["spec"]["replicas"], 3);
    let broken = deployed(&mut scene, parameters(&json!({ "kube": { "deployment": { "replicas": -1 } } })));
    assert_eq!(broken, Some(Proxies::Kept));
    assert_eq!(scene.gateway("infra/edge", "Accepted"), "False InvalidParameters");
    assert_eq!(scene.0.gateways(), [NsName::new("infra", "edge")], "it is served as before");
    let unmanaged = deployed(&mut scene, parameters(&json!({ "selfManaged": {} })));
    assert_eq!(unmanaged, Some(Proxies::Unmanaged));
    assert_eq!(scene.gateway("infra/edge", "Accepted"), "True Accepted");
    let gone = scene.remove(with_parameters());
    assert_eq!(gone.proxies, [(NsName::new("infra", "edge"), None)]);
}

#[test]
fn until_the_authorities_are_known_what_runs_is_left_as_it_is() {
    let mut scene = scene([]);
    scene.0.set_deploying(Some(deploying(None)));
    scene.0.settle();
    assert_eq!(deployed(&mut scene, gateway(&json!({}))), Some(Proxies::Kept));
    scene.0.set_deploying(Some(deploying(Some("one"))));
    let (_, proxies) = scene.0.settle().proxies.remove(0);
    assert_eq!(object(proxies.as_ref(), "ConfigMap")["data"]["ca.crt"], "one");
}

#[test]
fn while_the_class_is_missing_what_runs_is_left_as_it_is() {
    let mut scene = scene([]);
    let class = |controller: &str| {
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
            "metadata": { "name": "portcullis" }, "spec": { "controllerName": controller },
        })
    };
    scene.remove(class(""));
    assert_eq!(deployed(&mut scene, gateway(&json!({}))), Some(Proxies::Kept));
    assert_eq!(deployed(&mut scene, class("example.com/theirs")), None, "it is another controller's");
    let ours = deployed(&mut scene, class("portcullis.dev/gateway-controller"));
    assert_eq!(object(ours.as_ref(), "Deployment")["kind"], "Deployment");
}

#[test]
fn a_route_changes_nothing_of_what_runs() {
    let mut scene = scene([gateway(&json!({}))]);
    let changes = scene.put(json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": { "namespace": "infra", "name": "r" }, "spec": { "parentRefs": [{ "name": "edge" }] },
    }));
    assert_eq!(changes.proxies, []);
}

/// A Gateway with what a test says of it.
fn named(name: &str, class: &str, created: &str) -> Value {
    let mut gateway = gateway(&json!({ "gatewayClassName": class }));
    gateway["metadata"]["name"] = name.into();
    gateway["metadata"]["creationTimestamp"] = created.into();
    gateway
}

fn second_class() -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
        "metadata": { "name": "internal-portcullis" }, "spec": { "controllerName": "portcullis.dev/gateway-controller" },
    })
}

/// What the two Gateways that share a name get.
fn accounts(scene: &Scene) -> [Option<String>; 2] {
    ["web-internal", "web"].map(|name| Some(scene.0.account(&NsName::new("infra", name))?.to_string()))
}

#[test]
fn of_two_gateways_whose_proxies_would_share_a_name_the_older_has_it_and_the_other_is_told() {
    let older = || named("web-internal", "portcullis", "2026-01-01T00:00:00Z");
    let newer = || named("web", "internal-portcullis", "2026-01-02T00:00:00Z");
    let name = || Some("infra/web-internal-portcullis".to_owned());
    for order in [[older(), newer()], [newer(), older()]] {
        let mut scene = scene([second_class()].into_iter().chain(order));
        assert_eq!(accounts(&scene), [name(), None]);
        assert_eq!(scene.gateway("infra/web-internal", "Accepted"), "True Accepted");
        let told = scene.gateway_message("infra/web", "Accepted");
        assert_eq!(
            told,
            "False Invalid: metadata.name: its proxies would be called web-internal-portcullis, as those of Gateway infra/web-internal are: it gets none; give one of the two another name, or another class"
        );
        assert_eq!(scene.gateway("infra/web", "Programmed"), "False Invalid");
        // What is there by that name is the other's.
        let mut service = service(&json!([{ "ip": "192.0.2.1" }]));
        service["metadata"]["name"] = "web-internal-portcullis".into();
        scene.put(service);
        assert_eq!(
            (scene.addresses("infra/web-internal"), scene.addresses("infra/web")),
            (vec!["192.0.2.1".into()], vec![])
        );
        // It heals.
        let changes = scene.remove(older());
        let proxies = changes.proxies.into_iter().find(|(gateway, _)| *gateway == NsName::new("infra", "web"));
        let proxies = proxies.and_then(|(_, proxies)| proxies);
        assert_eq!(object(proxies.as_ref(), "Deployment")["metadata"]["ownerReferences"][0]["name"], "web");
        assert_eq!(accounts(&scene), [None, name()]);
        assert_eq!(scene.gateway("infra/web", "Accepted"), "True Accepted");
    }
}

#[test]
fn a_gateway_that_cannot_be_read_keeps_its_name_and_nobody_has_one_that_cannot_be_told_apart() {
    let older = named("web-internal", "portcullis", "2026-01-01T00:00:00Z");
    let newer = named("web", "internal-portcullis", "2026-01-02T00:00:00Z");
    let mut scene = scene([second_class(), older, newer]);
    let healthy = accounts(&scene);
    let key = format!("{:?}", NsName::new("infra", "web-internal"));
    for table in ["GatewayRow", "Named", "NameRival"] {
        scene.0.fail_at(table, &key);
        assert_eq!(scene.0.settle().faults.len(), 1, "{table}");
        let [own, other] = accounts(&scene);
        assert_eq!(other, None, "{table}");
        assert_eq!(own.is_some(), table == "Named", "{table}");
        scene.0.fail_no_more(table, &key);
        scene.0.settle();
        assert_eq!(accounts(&scene), healthy, "{table}");
    }
}

#[test]
fn whoever_has_proxies_that_run_keeps_them_from_an_older_gateway() {
    let running = |gateway: &str| {
        let mut deployment = deployment(1);
        deployment["metadata"]["name"] = "web-internal-portcullis".into();
        deployment["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "name": gateway, "uid": "u", "controller": true,
        }]);
        deployment
    };
    let older = named("web", "internal-portcullis", "2026-01-01T00:00:00Z");
    let newer = named("web-internal", "portcullis", "2026-01-02T00:00:00Z");
    let mut scene = scene([second_class(), running("web-internal"), newer]);
    let changes = scene.put(older);
    assert_eq!(changes.proxies, [(NsName::new("infra", "web"), Some(Proxies::Kept))]);
    let name = Some("infra/web-internal-portcullis".to_owned());
    assert_eq!(accounts(&scene), [name.clone(), None]);
    // Of somebody who has no claim on the name it says nothing.
    scene.put(running("gone"));
    assert_eq!(accounts(&scene), [None, name.clone()]);
    scene.put(running("web-internal"));
    // Its class may come back.
    scene.remove(json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": { "name": "portcullis" }, "spec": { "controllerName": "" },
    }));
    assert_eq!(accounts(&scene), [None, None]);
}

#[test]
fn parameters_ask_for_no_more_than_they_are_trusted_with() {
    let root = || {
        parameters(
            &json!({ "kube": { "deploymentOverlay": { "spec": { "template": { "spec": { "hostPID": true } } } } } }),
        )
    };
    let mut scene = scene([parameters(&json!({ "kube": {} }))]);
    let before = deployed(&mut scene, with_parameters());
    assert_eq!(object(before.as_ref(), "Deployment")["kind"], "Deployment");
    assert_eq!(deployed(&mut scene, root()), Some(Proxies::Kept));
    let told = scene.gateway_message("infra/edge", "Accepted");
    assert_eq!(
        told,
        "False InvalidParameters: spec.infrastructure.parametersRef: the GatewayParameters of the Gateway cannot be used: spec.kube.deploymentOverlay.spec.template.spec.hostPID: shares a namespace with the node, which the controller's setting gatewayParameters.trust does not allow; remove it"
    );
    let settings =
        Settings { shared_host: false, gateway_parameters: ir::settings::Trust::Unrestricted, ..Settings::default() };
    let mut trusting = Scene::with(settings, [root()]);
    trusting.0.set_deploying(Some(deploying(Some("one"))));
    let proxies = deployed(&mut trusting, with_parameters());
    assert_eq!(object(proxies.as_ref(), "Deployment")["spec"]["template"]["spec"]["hostPID"], true);
}

#[test]
fn who_only_judges_objects_tells_of_parameters_and_misses_nothing_that_runs() {
    let mut scene =
        scene([parameters(&json!({ "kube": { "podTemplate": { "securityContext": { "runAsUser": 0 } } } }))]);
    scene.0.set_deploying(Some(Deploying::dry_run()));
    scene.put(with_parameters());
    assert_eq!(scene.gateway("infra/edge", "Accepted"), "False InvalidParameters");
    scene.put(gateway(&json!({})));
    assert_eq!(scene.gateway("infra/edge", "Programmed"), "True Programmed");
}
