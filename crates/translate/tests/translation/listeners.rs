//! Listeners of one port: who serves a hostname, and who does not.

use serde_json::{Value, json};

use super::scene::{Scene, gateway, hosting, http, https, listener_set, route, secret, service};

/// A listener whose selector Kubernetes would refuse, so that it is not served.
fn refused(name: &str, hostname: &str) -> serde_json::Value {
    let mut listener = http(name, 80, hostname);
    listener["allowedRoutes"] = json!({"namespaces": {"from": "Selector", "selector": {
        "matchExpressions": [{"key": "team", "operator": "Like", "values": ["a"]}]}}});
    listener
}

#[test]
fn a_plain_listener_that_is_not_served_keeps_its_hostname_from_broader_ones() {
    let scene = Scene::new([
        service("s"),
        gateway("edge", json!([http("any", 80, ""), refused("inner", "*.inner.example.com")])),
        route("everything", json!({})),
        route("guest", json!({"hostnames": ["x.inner.example.com", "outer.example.com"]})),
    ]);
    assert_eq!(scene.listener("infra/edge", "inner", "Programmed"), "False Invalid");
    let hosts = scene.hosts("http/80");
    assert_eq!(hosts["*"], ["apps/everything/0/0"]);
    assert_eq!(hosts["outer.example.com"].len(), 2);
    assert!(hosts["*.inner.example.com"].is_empty(), "a request for it is answered 404");
    assert!(hosts.get("x.inner.example.com").is_none_or(Vec::is_empty), "no broader listener serves it");
}

#[test]
fn listeners_that_conflict_keep_their_hostname_from_broader_ones() {
    let scene = Scene::new([
        service("s"),
        gateway("edge", json!([http("any", 80, ""), http("a", 80, "a.com"), http("b", 80, "a.com")])),
        route("everything", json!({})),
    ]);
    for name in ["a", "b"] {
        assert_eq!(scene.listener("infra/edge", name, "Conflicted"), "True HostnameConflict");
        assert_eq!(scene.listener("infra/edge", name, "Accepted"), "False HostnameConflict");
    }
    assert_eq!(scene.listener("infra/edge", "any", "Accepted"), "True Accepted");
    let hosts = scene.hosts("http/80");
    assert_eq!(hosts["*"].len(), 1);
    assert!(hosts["a.com"].is_empty());
}

#[test]
fn a_tls_listener_without_certificate_keeps_its_hostname_from_broader_ones() {
    let listeners = json!([https("any", 443, "", "certificate"), https("inner", 443, "inner.example.com", "missing")]);
    let mut scene = Scene::new([
        service("s"),
        secret("certificate"),
        gateway("edge", listeners),
        route("guest", json!({"hostnames": ["inner.example.com", "outer.example.com"]})),
    ]);
    // A connection for it is closed, and a request for it over another connection is misdirected.
    let closed = (vec!["inner.example.com".to_owned()], false);
    assert!(scene.chains("listener/443").contains(&closed));
    let hosts = scene.hosts("https/443/any");
    assert_eq!(hosts["inner.example.com"], ["misdirected"]);
    assert_eq!(hosts["outer.example.com"], ["apps/guest/0/0"]);
    // It heals by itself.
    scene.put(secret("missing"));
    let open = (vec!["inner.example.com".to_owned()], true);
    assert_eq!(scene.chains("listener/443").iter().filter(|chain| **chain == open).count(), 1);
    assert!(!scene.chains("listener/443").contains(&closed));
    assert_eq!(scene.hosts("https/443/inner")["inner.example.com"].len(), 1);
}

#[test]
fn a_passthrough_listener_keeps_its_hostname_from_tls_that_ends_here() {
    let mut passthrough = https("through", 443, "through.example.com", "certificate");
    passthrough["protocol"] = json!("TLS");
    passthrough["tls"] = json!({"mode": "Passthrough"});
    let own = https("own", 443, "own.example.com", "certificate");
    let scene = Scene::new([
        secret("certificate"),
        gateway("edge", json!([https("any", 443, "", "certificate"), own, passthrough])),
    ]);
    assert_eq!(scene.listener("infra/edge", "through", "Programmed"), "True Programmed");
    let chains = scene.chains("listener/443");
    assert!(chains.contains(&(vec!["through.example.com".to_owned()], false)));
    assert!(chains.contains(&(vec!["own.example.com".to_owned()], true)));
    assert_eq!(chains.len(), 3);
}

#[test]
fn where_nothing_broader_is_served_nothing_is_kept() {
    let scene = Scene::new([
        secret("certificate"),
        gateway("edge", json!([https("a", 443, "a.com", "certificate"), https("b", 443, "b.com", "missing")])),
    ]);
    assert_eq!(scene.chains("listener/443"), [(vec!["a.com".to_owned()], true)]);
}

#[test]
fn a_hostname_that_is_none_conflicts_with_nothing() {
    let scene = Scene::new([
        service("s"),
        gateway("edge", json!([http("any", 80, ""), http("bad", 80, "bad_host")])),
        route("everything", json!({})),
    ]);
    assert_eq!(scene.listener("infra/edge", "any", "Conflicted"), "False NoConflicts");
    assert_eq!(scene.listener("infra/edge", "bad", "Accepted"), "False UnsupportedValue");
    assert_eq!(scene.listener("infra/edge", "bad", "Conflicted"), "False NoConflicts");
    assert_eq!(scene.hosts("http/80")["*"].len(), 1);
}

#[test]
fn a_chain_that_is_longer_than_clients_want_is_served_with_a_warning_and_one_that_none_reads_is_refused() {
    let of_length = |length: usize| {
        let mut secret = secret("certificate");
        let one = secret["stringData"]["tls.crt"].as_str().expect("PEM").trim().to_owned() + "\n";
        secret["stringData"]["tls.crt"] = one.repeat(length).into();
        secret
    };
    let mut scene = Scene::new([of_length(10), gateway("edge", json!([https("any", 443, "", "certificate")]))]);
    assert_eq!(scene.0.problems(), []);
    assert_eq!(scene.listener("infra/edge", "any", "ResolvedRefs"), "True ResolvedRefs");
    scene.put(of_length(11));
    assert_eq!(scene.listener("infra/edge", "any", "Programmed"), "True Programmed");
    let told = "Secret infra/certificate: tls.crt has 11 certificates: each handshake sends all of them, and clients that take \
                10 at most refuse it; store the leaf and those that issued it alone";
    let conditions = scene.listener_status("infra/edge", "any")["conditions"].to_string();
    assert!(conditions.contains(told), "{conditions}");
    let [(_, problem)] = &scene.0.problems()[..] else { panic!("{:?}", scene.0.problems()) };
    assert!(problem.severity == ir::Severity::Warning && problem.message.contains(told), "{problem:?}");
    scene.put(of_length(400));
    assert_eq!(scene.listener("infra/edge", "any", "ResolvedRefs"), "False InvalidCertificateRef");
    assert_eq!(scene.listener("infra/edge", "any", "Programmed"), "False Invalid");
    let conditions = scene.listener_status("infra/edge", "any")["conditions"].to_string();
    assert!(conditions.contains("its 400 certificates have") && conditions.contains("at most 102400"), "{conditions}");
    scene.put(of_length(1));
    assert_eq!(scene.0.problems(), []);
}

/// A Gateway with a listener for `*.example.com`, and ListenerSets with as many more, each for a hostname below it.
fn crowd(many: usize) -> Scene {
    let mut own = secret("c");
    own["metadata"]["namespace"] = json!("apps");
    let edge = hosting("edge", json!([https("wild", 443, "*.example.com", "c")]), "All");
    Scene::new([secret("c"), own, edge].into_iter().chain((0..many).map(|index| set(index, &format!("h{index}")))))
}

fn set(index: usize, host: &str) -> Value {
    listener_set(&format!("apps/set-{index}"), json!([https("a", 443, &format!("{host}.example.com"), "c")]))
}

#[test]
fn listeners_that_are_many_do_not_list_each_other_and_answer_421_for_all_hosts_but_their_own() {
    let few = crowd(5);
    assert_eq!(few.hosts("https/443/apps/set-0/a").len(), 6);
    let many = crowd(150);
    let hosts = many.hosts("https/443/apps/set-0/a");
    assert_eq!(hosts.len(), 2);
    assert_eq!((hosts["h0.example.com"].len(), &*hosts["*"]), (0, &["misdirected".to_owned()][..]));
    // What a broader one covers it lists: others have that.
    let hosts = many.hosts("https/443/wild");
    assert_eq!(hosts.len(), 152);
    assert_eq!(hosts["*.example.com"], [""; 0]);
    for host in ["h7.example.com", "h149.example.com", "*"] {
        assert_eq!(hosts[host], ["misdirected"], "{host}");
    }
}

#[test]
fn a_hostname_of_one_of_many_listeners_over_tls_changes_its_own_and_broader_ones() {
    let [few, many] = [150, 300].map(|many| {
        let changes = crowd(many).put(set(3, "other"));
        let mut changed: Vec<_> = changes.resources.iter().map(|(key, _)| key.name.to_string()).collect();
        changed.sort();
        (changes.computed, changed)
    });
    assert_eq!(few, many);
    assert_eq!(few.1, ["https/443/apps/set-3/a", "https/443/wild", "listener/443"]);
}
