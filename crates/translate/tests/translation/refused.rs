//! What proxies refused: clusters, and what is known of it as it would be sent.

use std::collections::{BTreeMap, BTreeSet};

use api::Kind;
use envoy::{ResourceKind, judged};
use ir::NsName;
use serde_json::{Value, json};

use super::scene::{Scene, gateway, http, route, service, stream, stream_route};
use translate::{RefusedRows, inspect::Sent, refused_clusters_of};

fn scene() -> Scene {
    let rule = |path: &str, to: &str| json!({"matches": [{"path": {"value": path}}], "backendRefs": [{"name": to, "port": 80}]});
    Scene::new([
        gateway("edge", json!([http("http", 80, ""), stream("db", 5432, "TCP")])),
        service("bad"),
        service("sound"),
        route("r", json!({"rules": [rule("/bad", "bad"), rule("/sound", "sound")]})),
        stream_route("TCPRoute", "db", json!([{"name": "sound", "port": 80}])),
    ])
}

fn edge() -> NsName {
    NsName::new("infra", "edge")
}

/// The clusters that are made from an object.
fn clusters(scene: &Scene, kind: Kind, name: &str) -> Vec<Sent> {
    let sent = scene.0.inspect().sent().into_iter();
    let of = sent.filter(|sent| sent.fragment.kind == judged::Kind::Cluster);
    of.filter(|sent| sent.object.kind == kind && *sent.object.name == *name).collect()
}

/// Has these be refused, and nothing else of their object.
fn refuse(scene: &mut Scene, clusters: &[Sent]) {
    let object = &clusters.first().expect("a cluster").object;
    let mut refused = RefusedRows::default();
    for sent in clusters {
        refused.insert(sent.fragment.hash, "a proxy refused it (verdict 1): no", true);
    }
    scene.0.set_refused_clusters(&refused_clusters_of(object, &edge()), refused);
    scene.0.settle();
}

/// What the paths are answered by.
fn answers(scene: &Scene) -> Vec<(String, String)> {
    let config = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").unwrap_or_default();
    let routes = config["virtualHosts"][0]["routes"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |route: &Value| {
        let status = route["directResponse"]["status"].as_u64();
        let cluster = text(&route["route"]["cluster"]);
        (text(&route["match"]["pathSeparatedPrefix"]), status.map_or(cluster, |status| status.to_string()))
    };
    routes.iter().map(of).collect()
}

#[test]
fn a_cluster_that_a_proxy_refused_is_left_out_and_closes_who_sends_there_until_it_changes() {
    let mut scene = scene();
    let before = answers(&scene);
    let bad = clusters(&scene, Kind::Service, "bad");
    let name = scene.0.inspect().clusters_of(&edge(), &["service/apps/bad/80"].into());
    assert_eq!(name.len(), 1, "it is found by its name");
    assert_eq!(name[0].fragment.hash, bad[0].fragment.hash);
    refuse(&mut scene, &bad);
    assert_eq!(answers(&scene), [before[0].clone(), ("/bad".into(), "500".into())]);
    assert!(clusters(&scene, Kind::Service, "bad").is_empty());
    assert_eq!(clusters(&scene, Kind::Service, "sound").len(), 1);
    let told = scene.route_message("apps/r", 0, "ResolvedRefs");
    assert!(told.contains("cannot be used: a proxy refused it (verdict 1): no"), "{told}");
    let is_met = |scene: &Scene| scene.0.inspect().are_left_out([(bad[0].fragment.hash, "(verdict 1)")]);
    assert_eq!(is_met(&scene), [true]);

    // By a policy it becomes another one.
    let policy = json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "BackendConfigPolicy",
        "metadata": {"name": "p", "namespace": "apps"},
        "spec": {"targetRefs": [{"group": "", "kind": "Service", "name": "bad"}], "connectTimeout": "7s"}});
    scene.put(policy.clone());
    assert_eq!(answers(&scene), before);
    assert_eq!(is_met(&scene), [false]);
    scene.remove(policy);
    assert_eq!(answers(&scene)[1].1, "500", "it is what it was");
    scene.0.set_refused_clusters(&refused_clusters_of(&bad[0].object, &edge()), RefusedRows::default());
    scene.0.settle();
    assert_eq!(answers(&scene), before);
}

#[test]
fn the_place_of_a_stream_whose_cluster_a_proxy_refused_is_closed_and_its_route_told() {
    let mut scene = scene();
    let place = clusters(&scene, Kind::TcpRoute, "db");
    refuse(&mut scene, &place);
    assert!(clusters(&scene, Kind::TcpRoute, "db").is_empty());
    let told = scene.status(Kind::TcpRoute, "apps/db").to_string();
    assert!(told.contains("a proxy refused it (verdict 1): no"), "{told}");
    assert_eq!(answers(&scene)[0].1, "service/apps/sound/80", "who sends requests there goes on");
}

#[test]
fn who_is_to_be_asked_by_a_cluster_that_a_proxy_refused_is_a_fault_whatever_fail_open_says() {
    let mut scene = scene();
    let of = |kind: &str, name: &str, spec: Value| {
        json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": "apps"}, "spec": spec})
    };
    let service = json!({"backendRef": {"name": "asked", "port": 80}});
    let target = json!([{"group": ir::GATEWAY_API, "kind": "HTTPRoute", "name": "r"}]);
    scene.put(self::service("asked"));
    scene.put(of("GatewayExtension", "auth", json!({"extAuth": {"failOpen": true, "grpcService": service}})));
    scene.put(of("TrafficPolicy", "p", json!({"targetRefs": target, "extAuth": {"extensionRef": {"name": "auth"}}})));
    let before = answers(&scene);
    assert!(before.iter().all(|(_, answer)| answer.starts_with("service/apps/")), "{before:?}");
    let asked = clusters(&scene, Kind::Service, "asked");
    refuse(&mut scene, &asked);
    assert_eq!(answers(&scene).iter().map(|(_, answer)| &**answer).collect::<Vec<_>>(), ["500", "500"]);
    assert!(clusters(&scene, Kind::Service, "asked").is_empty());
}

#[test]
fn what_is_refused_is_known_as_it_would_be_sent_at_each_listener() {
    let redirect = json!({"matches": [{"path": {"value": "/away"}}],
        "filters": [{"type": "RequestRedirect", "requestRedirect": {"path": {"type": "ReplaceFullPath", "replaceFullPath": "/x"}}}]});
    let rule = json!({"matches": [{"path": {"value": "/bad"}}], "backendRefs": [{"name": "s", "port": 80}]});
    let mut scene = Scene::new([
        gateway("edge", json!([http("a", 80, ""), http("b", 81, "")])),
        service("s"),
        route("r", json!({"rules": [rule, redirect]})),
    ]);
    let sent = |scene: &Scene| -> BTreeMap<_, _> {
        let parts = scene.0.inspect().sent().into_iter();
        let of = parts.filter(|sent| matches!(sent.fragment.kind, judged::Kind::Row | judged::Kind::Cluster));
        of.map(|sent| (sent.fragment.hash, sent)).collect()
    };
    let before = sent(&scene);
    let object = before.values().find(|sent| sent.object.kind == Kind::HttpRoute).expect("a row").object.clone();
    let (rows, clusters): (Vec<_>, Vec<_>) = before.values().cloned().partition(|sent| sent.object == object);
    assert_eq!((rows.len(), clusters.len()), (4, 1), "of the redirect there are some for each port");
    let hashes = before.keys().copied().collect();
    let known = |scene: &Scene| scene.0.inspect().refused(&hashes, &BTreeSet::from([object.clone()]));
    assert!(known(&scene).iter().all(|it| it.kind == judged::Kind::Cluster), "no row is refused");
    let mut refused = RefusedRows::default();
    for row in &rows {
        refused.insert(row.fragment.hash, "a proxy refused it (verdict 1): no", true);
    }
    scene.0.set_refused_by_proxies(&object, refused);
    refuse(&mut scene, &clusters);
    let as_before = |known: Vec<judged::Fragment>| {
        known.into_iter().map(|it| (it.hash, it.bytes.to_vec(), it.asks)).collect::<BTreeSet<_>>()
    };
    // Without its cluster a rule is another one.
    assert_eq!(as_before(known(&scene)).len(), rows.len() - 1 + clusters.len());
    scene.0.set_refused_clusters(&refused_clusters_of(&clusters[0].object, &edge()), RefusedRows::default());
    scene.0.settle();
    assert!(!sent(&scene).keys().any(|hash| rows.iter().any(|row| row.fragment.hash == *hash)), "none is sent");
    assert_eq!(as_before(known(&scene)), as_before(before.into_values().map(|sent| sent.fragment).collect()));
    assert!(scene.0.inspect().refused(&hashes, &BTreeSet::new()).iter().all(|it| it.kind == judged::Kind::Cluster));
}
