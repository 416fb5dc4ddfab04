//! What hostnames of TLSRoutes take of the memory of proxies, and who goes without where there is too little.

use std::collections::BTreeSet;

use api::Kind;
use envoy::ResourceKind;
use serde_json::{Value, json};

use super::{
    super::scene::{Scene, gateway, secret, stream, stream_route, tls, tls_route},
    A, Changes, backend, chains, condition, created, localities, plain, to,
};

/// A world of `infra/edge` with these bytes for all.
fn scene(bytes: u64, listeners: Value, objects: impl IntoIterator<Item = Value>) -> Scene {
    let mut settings = ir::Settings::default();
    settings.capacity.max_bytes = bytes;
    let mut own = backend("own", 7, 1).to_vec();
    for object in &mut own {
        object["metadata"]["namespace"] = json!("infra");
    }
    let all = [gateway("edge", listeners), secret("c")].into_iter().chain(backend("a", 1, 2)).chain(own);
    Scene::with(settings, all.chain(objects))
}

fn names(of: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{of}{number}.example.com")).collect()
}

fn named(name: &str, hostnames: &[String]) -> Value {
    tls_route(name, &hostnames.iter().map(String::as_str).collect::<Vec<_>>(), to("a"))
}

/// The same of namespace `infra`.
fn of_infra(mut route: Value) -> Value {
    route["metadata"]["namespace"] = json!("infra");
    route["spec"]["rules"][0]["backendRefs"] = json!([{"name": "own", "port": 80}]);
    route
}

/// The hostnames of these that have a chain, and those that are closed.
fn outcome(scene: &Scene, hostnames: &[String]) -> (BTreeSet<String>, BTreeSet<String>) {
    let chains = chains(scene, "listener/443");
    let closed = chains.iter().find(|(_, to)| *to == "closed").map_or(String::new(), |(names, _)| names.clone());
    let closed: BTreeSet<_> = closed.split(' ').collect();
    let is_closed = |name: &&String| closed.contains(name.as_str());
    (
        hostnames.iter().filter(|name| chains.contains_key(*name) && !is_closed(name)).cloned().collect(),
        hostnames.iter().filter(is_closed).cloned().collect(),
    )
}

fn clusters(scene: &Scene) -> usize {
    let resources = scene.0.resources();
    let (_, list) = resources.iter().find(|(key, _)| key.to_string() == "infra/edge").expect("the Gateway");
    list.iter().filter(|(key, _)| key.kind == ResourceKind::Cluster && key.name.starts_with("tls")).count()
}

#[test]
fn who_asks_for_more_than_his_share_has_neither_chains_nor_clusters_for_the_rest() {
    let greedy = names("n", 40);
    let objects = [named("greedy", &greedy), of_infra(named("modest", &names("modest", 1)))];
    let scene = scene(2 << 20, json!([tls("through", 443, "", None)]), objects);
    let own = plain(1, &["10.0.7.1"]);
    assert_eq!(localities(&scene, "tls-passthrough/through/modest0.example.com"), [own]);
    let (served, _) = outcome(&scene, &greedy);
    assert!((5..15).contains(&served.len()), "{served:?}");
    assert_eq!(clusters(&scene), served.len() + 1, "who is refused takes nothing");
    for name in &served {
        assert_eq!(localities(&scene, &format!("tls-passthrough/through/{name}")), [plain(1, &A)], "{name}");
    }
    let told = condition(&scene, Kind::TlsRoute, "apps/greedy", 0, "PartiallyInvalid");
    assert!(told.contains("have no room") && told.contains("connections are closed for"), "{told}");
    assert_eq!(condition(&scene, Kind::TlsRoute, "infra/modest", 0, "PartiallyInvalid"), "");
}

#[test]
fn who_writes_more_hostnames_into_old_routes_takes_none_from_a_younger_one() {
    let listeners = json!([tls("ends", 443, "*.example.com", Some("c"))]);
    let mut all = names("m", 1);
    all.push("*.example.com".into());
    let old = created(named("old", &all), 1);
    let pay = vec!["pay.example.com".to_owned()];
    let mut scene = scene(3 << 20, listeners, [old, created(of_infra(named("shop", &pay)), 2)]);
    let own = [plain(1, &["10.0.7.1"])];
    assert_eq!(localities(&scene, "tls/ends/pay.example.com"), own);
    all.extend(names("more", 100));
    scene.put(created(named("old", &all), 1));
    assert_eq!(outcome(&scene, &pay).0.len(), 1, "it is served as before");
    assert_eq!(localities(&scene, "tls/ends/pay.example.com"), own);
    assert!(outcome(&scene, &all).0.len() < 20);
}

#[test]
fn hostnames_for_which_there_is_no_room_do_not_fall_to_the_broader_one_of_another_team() {
    let listeners = json!([tls("ends", 443, "*.example.com", Some("c"))]);
    let shops = names("shop", 30);
    let objects = [
        created(named("wild", &["*.example.com".to_owned()]), 1),
        created(of_infra(named("shops", &shops)), 2),
        created(of_infra(named("last", &["zz.example.com".to_owned()])), 3),
    ];
    let mut scene = scene(3 << 20, listeners, objects);
    assert_eq!(chains(&scene, "listener/443")["*.example.com"], "tls/ends/*.example.com, over TLS");
    let (served, closed) = outcome(&scene, &shops);
    assert!(served.len() > 5 && closed.len() > 5, "{served:?} {closed:?}");
    assert_eq!(served.len() + closed.len(), shops.len(), "none falls to the broader one");
    assert_eq!(outcome(&scene, &["zz.example.com".to_owned()]).1.len(), 1, "the youngest goes without");
    // There is room as soon as others ask for less.
    scene.put(created(of_infra(named("shops", &shops[..3])), 2));
    assert_eq!(outcome(&scene, &shops[..3]).0.len(), 3);
    assert_eq!(outcome(&scene, &["zz.example.com".to_owned()]).0.len(), 1);
}

#[test]
fn authorities_count_for_each_hostname_in_whose_cluster_they_are() {
    let many: String = (0..100)
        .map(|number| {
            rcgen::generate_simple_self_signed([format!("ca{number}.example")]).expect("a certificate").cert.pem()
        })
        .collect();
    let data = json!({"ca.crt": many});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ca", "namespace": "apps"}, "stringData": data});
    let config = json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "BackendConfigPolicy",
        "metadata": {"name": "p", "namespace": "apps", "generation": 1},
        "spec": {"targetRefs": [{"group": "", "kind": "Service", "name": "a"}],
            "tls": {"secretRef": {"name": "ca"}, "simpleTLS": true, "sni": "b.example"}}});
    let bundle =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca", "namespace": "apps"}, "data": data});
    let asked = names("n", 40);
    let served = |objects: Vec<Value>| {
        let listeners = json!([tls("ends", 443, "", Some("c"))]);
        let scene = scene(8 << 20, listeners, objects.into_iter().chain([named("r", &asked)]));
        let (served, _) = outcome(&scene, &asked);
        for name in &served {
            assert_ne!(localities(&scene, &format!("tls/ends/{name}")), [], "{name} is served");
        }
        served.len()
    };
    assert_eq!(served(Vec::new()), asked.len(), "without authorities there is room for all");
    let (mut config_of_system, mut policy_of_system) = (config.clone(), super::tls_policy("a"));
    config_of_system["spec"]["tls"] = json!({"wellKnownCACertificates": "System", "sni": "b.example"});
    policy_of_system["spec"]["validation"] = json!({"wellKnownCACertificates": "System", "hostname": "b.example"});
    let all =
        [vec![secret, config], vec![bundle, super::tls_policy("a")], vec![config_of_system], vec![policy_of_system]];
    for objects in all {
        let count = served(objects.clone());
        assert!((5..30).contains(&count), "{count} {objects:?}");
    }
}

#[test]
fn a_listener_of_tcp_stays_where_there_is_no_room_for_what_its_route_sends_to() {
    let addresses: Vec<_> = (0..250).map(|host| json!({"addresses": [format!("10.1.0.{host}")]})).collect();
    let mut large = backend("a", 1, 2);
    large[1]["endpoints"] = json!(addresses);
    let listeners = json!([stream("db", 5432, "TCP"), stream("dns", 53, "UDP")]);
    let routes = [stream_route("TCPRoute", "db", to("a")), stream_route("UDPRoute", "dns", to("a"))];
    let scene = scene(1 << 20, listeners, large.into_iter().chain(routes));
    assert_eq!(localities(&scene, "udp/dns").len() + localities(&scene, "tcp/db").len(), 0);
    for (kind, name) in [(ResourceKind::Cluster, "tcp/db"), (ResourceKind::Listener, "listener/5432")] {
        assert!(scene.resource("infra/edge", kind, name).is_some(), "{name}");
    }
    let told = condition(&scene, Kind::TcpRoute, "apps/db", 0, "PartiallyInvalid");
    assert!(told.contains("have no room") && told.contains("listener infra/edge/db"), "{told}");
}

#[test]
fn a_fault_closes_a_hostname_and_gives_no_listener_two_chains_for_it() {
    let listeners = |more: &[Value]| {
        let mut all = vec![tls("ends", 443, "*.example.com", Some("c"))];
        all.extend_from_slice(more);
        gateway("edge", Value::Array(all))
    };
    let asked = ["*.example.com".to_owned(), "a.example.com".to_owned()];
    let mut scene = scene(1 << 30, json!([tls("ends", 443, "*.example.com", Some("c"))]), [named("r", &asked)]);
    let rows = scene.0.computed_rows();
    let (table, key) =
        rows.into_iter().find(|(table, key)| *table == "ServedPlace" && key.contains("a.example.com")).expect("a row");
    scene.0.fail_at(table, &key);
    scene.0.settle();
    assert_eq!(chains(&scene, "listener/443")["a.example.com"], "closed");
    scene.put(listeners(&[super::super::scene::https("web", 443, "a.example.com", "c")]));
    assert_eq!(chains(&scene, "listener/443")["a.example.com"], "https/443/web, over TLS");
    scene.put(listeners(&[]));
    scene.0.fail_no_more(table, &key);
    scene.0.settle();
    assert_eq!(chains(&scene, "listener/443")["a.example.com"], "tls/ends/a.example.com, over TLS");
}

#[test]
fn a_route_all_of_whose_connections_are_closed_is_counted_until_they_are_not() {
    let listeners = json!([stream("db", 5432, "TCP"), tls("through", 8443, "", None)]);
    let tcp = |backend: &str| stream_route("TCPRoute", "r", to(backend));
    let mut scene = scene(1 << 30, listeners, [tcp("a"), stream_route("TCPRoute", "s", to("missing"))]);
    let told = |changes: Changes| {
        let told = changes.replacements.into_iter();
        told.map(|(at, now)| (at.route.route().name.to_string(), now.map(|now| now.reason.to_string())))
            .collect::<Vec<_>>()
    };
    let broken = |reason: &str| vec![("apps/r".to_owned(), Some(reason.to_owned()))];
    assert_eq!(told(scene.put(tcp("missing"))), broken("BackendNotFound"));
    assert_eq!(told(scene.put(tcp("a"))), [("apps/r".to_owned(), None)]);
    // One that waits behind another serves nobody.
    assert_eq!(told(scene.remove(tcp("a"))), [("apps/s".to_owned(), Some("BackendNotFound".to_owned()))]);
}
