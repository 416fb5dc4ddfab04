//! ListenerPolicies: where they hold, what a change of one wakes, and what is said.

#![allow(clippy::needless_pass_by_value, reason = "callers write values in place")]

use api::Kind;
use envoy::ResourceKind;
use serde_json::{Value, json};

use super::scene::{Scene, gateway, http, https, route, secret, service};
use translate::Changes;

fn policy(name: &str, spec: Value) -> Value {
    let mut policy = json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "ListenerPolicy",
        "metadata": {"name": name, "namespace": "infra", "generation": 2},
        "spec": {"targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "edge"}]}});
    if let (Value::Object(own), Value::Object(more)) = (&mut policy["spec"], spec) {
        own.extend(more);
    }
    policy
}

fn weighing(mut policy: Value, weight: i32) -> Value {
    policy["metadata"]["annotations"] = json!({"kgateway.dev/policy-weight": weight.to_string()});
    policy
}

fn scene(objects: impl IntoIterator<Item = Value>) -> Scene {
    let mut cert = secret("one");
    cert["metadata"]["namespace"] = json!("infra");
    let own = [
        gateway("edge", json!([http("web", 80, ""), http("other", 81, ""), https("tls", 443, "", "one")])),
        gateway("neighbour", json!([http("web", 90, "")])),
        cert,
        service("s"),
        route("r", json!({})),
    ];
    Scene::new(own.into_iter().chain(objects))
}

fn changed(changes: &Changes) -> Vec<&str> {
    changes.resources.iter().map(|(key, _)| &*key.name).collect()
}

fn manager(scene: &Scene, port: u16) -> Value {
    let listener = scene.resource("infra/edge", ResourceKind::Listener, &format!("listener/{port}"));
    listener.unwrap_or_default()["filterChains"][0]["filters"][0]["typedConfig"].clone()
}

fn ancestors(scene: &Scene, name: &str) -> Vec<String> {
    let status = scene.status(Kind::ListenerPolicy, &format!("infra/{name}"));
    let ancestors = status["ancestors"].as_array().into_iter().flatten();
    let told = ancestors.flat_map(|ancestor| {
        let gateway = ancestor["ancestorRef"]["name"].as_str().unwrap_or_default().to_owned();
        let conditions = ancestor["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().map(move |condition| {
            let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
            format!("{gateway}: {} {} {}: {}", text("type"), text("status"), text("reason"), text("message"))
        })
    });
    told.collect()
}

#[test]
fn what_is_said_of_one_port_changes_no_byte_of_another() {
    let mut scene = scene([]);
    let on_81 = json!({"perPort": [{"port": 81, "listener": {"perConnectionBufferLimitBytes": 1000}}]});
    let changes = scene.put(policy("p", on_81));
    assert_eq!(changed(&changes), ["listener/81"]);
    assert_eq!(
        ancestors(&scene, "p"),
        ["edge: Accepted True Valid: the policy is valid", "edge: Attached True Attached: nothing overrides it"]
    );
}

#[test]
fn a_policy_that_says_nothing_of_a_port_changes_nothing() {
    let mut scene = scene([]);
    let changes = scene.put(policy("p", json!({"perPort": [{"port": 4, "listener": {"proxyProtocol": {}}}]})));
    assert_eq!(changed(&changes), [""; 0]);
    let problems = scene.0.problems();
    assert!(problems.iter().any(|(_, problem)| problem.to_string().contains("no listener at 4")), "{problems:?}");
}

#[test]
fn of_two_policies_the_heavier_holds_field_by_field() {
    let one = json!({"default": {"httpSettings": {"maxHeadersCount": 10, "serverName": "one"}}});
    let two = json!({"default": {"httpSettings": {"maxHeadersCount": 20, "maxRequestsPerConnection": 7}}});
    let scene = scene([policy("a", one), weighing(policy("b", two), 1)]);
    let manager = manager(&scene, 80);
    assert_eq!(manager["commonHttpProtocolOptions"]["maxHeadersCount"], 20);
    assert_eq!(manager["commonHttpProtocolOptions"]["maxRequestsPerConnection"], 7);
    assert_eq!(manager["serverName"], "one");
    assert!(ancestors(&scene, "a")[1].contains("Attached True Merged"), "{:?}", ancestors(&scene, "a"));
    assert!(ancestors(&scene, "b")[1].contains("Attached True Attached"), "{:?}", ancestors(&scene, "b"));
}

#[test]
fn a_fault_withdraws_the_listeners_of_its_port_alone_and_is_told_on_both() {
    let mut scene = scene([]);
    let broken = json!({"perPort": [{"port": 80, "listener": {"httpSettings": {"acceptHttp10": true}}}]});
    let changes = scene.put(policy("p", broken.clone()));
    assert_eq!(changed(&changes), ["listener/80", "http/80"]);
    assert_eq!(scene.listener("infra/edge", "web", "Programmed"), "False Invalid");
    assert_eq!(scene.listener("infra/edge", "other", "Programmed"), "True Programmed");
    let told = ancestors(&scene, "p");
    assert!(told[0].contains("Accepted False Invalid: spec.perPort[0].listener.httpSettings.acceptHttp10"), "{told:?}");
    // What a heavier one overrides closes nothing.
    scene.put(weighing(policy("q", json!({"default": {"httpSettings": {"acceptHttp10": false}}})), 1));
    assert_eq!(scene.listener("infra/edge", "web", "Programmed"), "True Programmed");
    scene.remove(policy("q", json!({})));
    assert_eq!(scene.listener("infra/edge", "web", "Programmed"), "False Invalid");
    scene.remove(policy("p", broken));
    assert_eq!(scene.listener("infra/edge", "web", "Programmed"), "True Programmed");
}

#[test]
fn what_does_not_decode_or_names_a_section_closes_all_ports_of_its_gateway() {
    let mut section = policy("p", json!({"default": {"proxyProtocol": {}}}));
    section["spec"]["targetRefs"][0]["sectionName"] = json!("web");
    for broken in [section, policy("p", json!({"future": {}}))] {
        let scene = scene([broken]);
        for listener in ["web", "other", "tls"] {
            assert_eq!(scene.listener("infra/edge", listener, "Programmed"), "False Invalid");
        }
        assert_eq!(scene.listener("infra/neighbour", "web", "Programmed"), "True Programmed");
    }
}

#[test]
fn labels_select_gateways_of_the_own_namespace() {
    let mut labelled = gateway("edge", json!([http("web", 80, "")]));
    labelled["metadata"]["labels"] = json!({"tier": "edge"});
    let mut selects = policy(
        "p",
        json!({"default": {"perConnectionBufferLimitBytes": 1000},
        "targetSelectors": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "matchLabels": {"tier": "edge"}}]}),
    );
    selects["spec"].as_object_mut().expect("a spec").remove("targetRefs");
    let mut scene = scene([selects.clone()]);
    assert_eq!(ancestors(&scene, "p"), [""; 0]);
    scene.put(labelled);
    assert_eq!(ancestors(&scene, "p").len(), 2);
    let listener = scene.resource("infra/edge", ResourceKind::Listener, "listener/80").unwrap_or_default();
    assert_eq!(listener["perConnectionBufferLimitBytes"], 1000);
}

#[test]
fn a_policy_for_a_gateway_that_is_not_there_is_told() {
    let mut missing = policy("p", json!({"default": {}}));
    missing["spec"]["targetRefs"][0]["name"] = json!("nobody");
    let told = ancestors(&scene([missing]), "p");
    assert!(told[0].contains("nobody: Accepted False TargetNotFound"), "{told:?}");
}

/// Logs to a Service of a namespace.
fn logs_to(namespace: &str) -> Value {
    let to = json!({"name": "collector", "namespace": namespace, "port": 80});
    json!({"default": {"httpSettings": {"accessLog": [{"grpcService": {"logName": "l", "backendRef": to}}]}}})
}

fn collector(namespace: &str) -> Value {
    let mut service = service("collector");
    service["metadata"]["namespace"] = json!(namespace);
    service
}

const TOLD: &str = "service/infra/collector/80/grpc";

#[test]
fn a_server_that_comes_or_goes_changes_no_byte_of_a_listener() {
    let mut scene = scene([policy("p", logs_to("infra"))]);
    let log = &manager(&scene, 80)["accessLog"][1]["typedConfig"];
    assert_eq!(log["commonConfig"]["grpcService"]["envoyGrpc"]["clusterName"], TOLD);
    assert_eq!(scene.listener("infra/edge", "web", "Programmed"), "True Programmed");
    let told = ancestors(&scene, "p");
    assert!(told[0].contains("Accepted True Valid") && told[0].contains("does not exist"), "{told:?}");
    assert_eq!(changed(&scene.put(collector("infra"))), [TOLD, TOLD], "the cluster, and its endpoints");
    assert!(ancestors(&scene, "p")[0].ends_with("the policy is valid"), "{:?}", ancestors(&scene, "p"));
    // It is spoken to in the same way whatever it says of itself.
    let mut named = collector("infra");
    named["spec"]["ports"][0]["appProtocol"] = json!("kubernetes.io/h2c");
    assert!(!changed(&scene.put(named)).iter().any(|name| name.starts_with("listener/")));
    assert_eq!(changed(&scene.remove(collector("infra"))), [TOLD, TOLD]);
    assert_eq!(scene.resource("infra/neighbour", ResourceKind::Cluster, TOLD), None);
}

/// What a server does not take is held by the proxy: a call at a time that is told something.
#[test]
fn whoever_is_told_in_calls_has_a_cluster_of_its_own_that_takes_few_at_a_time() {
    let to = json!({"grpcService": {"backendRef": {"name": "collector", "port": 80}}});
    let mut log = to.clone();
    log["grpcService"]["logName"] = json!("records");
    let logs = json!([{"openTelemetry": log}, {"grpcService": log["grpcService"]}]);
    let http = json!({"accessLog": logs, "tracing": {"provider": {"openTelemetry": to}}});
    let scene = scene([policy("p", json!({"default": {"httpSettings": http}})), collector("infra")]);
    let manager = manager(&scene, 80);
    let told = "service/infra/collector/80/told";
    assert_eq!(manager["tracing"]["provider"]["typedConfig"]["grpcService"]["envoyGrpc"]["clusterName"], told);
    assert_eq!(manager["accessLog"][1]["typedConfig"]["grpcService"]["envoyGrpc"]["clusterName"], told);
    let most = |name: &str| {
        let cluster = scene.resource("infra/edge", ResourceKind::Cluster, name).expect("it is served");
        let bounds = &cluster["circuitBreakers"]["thresholds"][0];
        [&bounds["maxRequests"], &bounds["maxPendingRequests"]].map(|bound| bound.as_u64().expect("a number"))
    };
    assert_eq!(most(told), [64, 64]);
    // A stream is there for each worker, and drops what nobody takes.
    assert_eq!(most(TOLD), [10_000, 10_000]);
}

#[test]
fn nobody_of_another_namespace_is_told_without_its_grant() {
    let mut scene = scene([policy("p", logs_to("other")), collector("other")]);
    let cluster = "service/other/collector/80/grpc";
    assert_eq!(scene.resource("infra/edge", ResourceKind::Cluster, cluster), None);
    assert!(!manager(&scene, 80)["accessLog"].to_string().contains(cluster), "who may not be told is not named");
    let told = ancestors(&scene, "p");
    assert!(told[0].contains("no ReferenceGrant there allows ListenerPolicies of infra"), "{told:?}");
    let grant = json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
        "metadata": {"name": "told", "namespace": "other"},
        "spec": {"from": [{"group": "gateway.kgateway.dev", "kind": "ListenerPolicy", "namespace": "infra"}],
            "to": [{"group": "", "kind": "Service"}]}});
    scene.put(grant.clone());
    assert!(scene.resource("infra/edge", ResourceKind::Cluster, cluster).is_some());
    assert!(manager(&scene, 80)["accessLog"].to_string().contains(cluster));
    scene.remove(grant);
    assert_eq!(scene.resource("infra/edge", ResourceKind::Cluster, cluster), None);
}

#[test]
fn a_reference_that_cannot_lead_anywhere_closes_the_port() {
    for to in [json!({"name": "a"}), json!({"kind": "ConfigMap", "name": "a", "port": 80})] {
        let logs = json!([{"grpcService": {"logName": "l", "backendRef": to}}]);
        let scene = scene([policy("p", json!({"default": {"httpSettings": {"accessLog": logs}}}))]);
        assert_eq!(scene.listener("infra/edge", "web", "Programmed"), "False Invalid");
    }
}

#[test]
fn tracing_of_a_route_is_warned_of_only_where_nobody_is_told() {
    let traced = json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
        "metadata": {"name": "t", "namespace": "apps"},
        "spec": {"targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "r"}],
            "tracing": {"randomSampling": 1}}});
    let mut scene = scene([traced]);
    let warned =
        |scene: &Scene| scene.status(Kind::TrafficPolicy, "apps/t").to_string().contains("nobody is told of spans");
    assert!(warned(&scene));
    let to = json!({"grpcService": {"backendRef": {"name": "collector", "port": 80}}});
    let tracing = json!({"httpSettings": {"tracing": {"provider": {"openTelemetry": to}}}});
    scene.put(policy("p", json!({"perPort": [{"port": 80, "listener": tracing}]})));
    scene.put(gateway("neighbour", json!([])));
    assert!(!warned(&scene), "{}", scene.status(Kind::TrafficPolicy, "apps/t"));
}

/// Of a request that it sends on Envoy looks at the connection alone, so what the other route says of addresses would hold for
/// whoever comes through the same proxy in front.
#[test]
fn where_requests_say_whom_they_come_from_redirects_go_to_the_client_and_the_author_is_told() {
    let redirects = json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
        "metadata": {"name": "redirects", "namespace": "apps", "generation": 2},
        "spec": {"targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "r"}],
            "internalRedirect": {}}});
    let follows = |scene: &Scene| {
        let config = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").expect("routes");
        let follows = config["virtualHosts"][0]["routes"][0]["route"]["internalRedirectPolicy"] != Value::Null;
        let told = scene.status(Kind::TrafficPolicy, "apps/redirects").to_string();
        assert_eq!(follows, !told.contains("redirects go to the client"), "{told}");
        follows
    };
    let mut scene = scene([redirects.clone()]);
    assert!(follows(&scene));
    for (settings, expected) in [
        (json!({"xffNumTrustedHops": 1}), false),
        (json!({"xffNumTrustedHops": 0}), true),
        (json!({"useRemoteAddress": false}), false),
        (json!({"useRemoteAddress": false, "xffTrustedCIDRs": ["10.0.0.0/8"]}), false),
        (json!({"maxHeadersCount": 10}), true),
    ] {
        scene.put(policy("p", json!({"default": {"httpSettings": settings}})));
        assert_eq!(follows(&scene), expected, "{settings}");
    }
    let mut settings = ir::Settings::default();
    settings.edge.trusted_hops = 1;
    let objects = [gateway("edge", json!([http("web", 80, "")])), service("s"), route("r", json!({})), redirects];
    let mut scene = Scene::with(settings, objects);
    assert!(!follows(&scene));
    scene.put(policy("p", json!({"default": {"httpSettings": {"xffNumTrustedHops": 0}}})));
    assert!(follows(&scene));
}
