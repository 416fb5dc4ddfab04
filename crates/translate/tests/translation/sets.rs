//! ListenerSets: who admits them, who wins where several ask for the same, and what is said of it.

use api::Kind;
use envoy::ResourceKind;
use ir::{NsName, backend::Transport};
use serde_json::{Value, json};

use super::scene::{
    Scene, at_set, gateway, hosting, http, https, listener_set, route, secret, service, stream, stream_route, tls,
    tls_route,
};

/// Created in this second.
fn born(mut object: Value, second: u8) -> Value {
    object["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:{second:02}Z"));
    object
}

fn namespace(name: &str, team: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}})
}

/// Route `apps/NAME` at these parents.
#[allow(clippy::needless_pass_by_value, reason = "callers write the list in place")]
fn at(name: &str, parents: Value) -> Value {
    route(name, json!({"parentRefs": parents}))
}

fn edge(from: &str) -> Value {
    hosting("edge", json!([http("http", 80, "edge.example.com")]), from)
}

fn attached_sets(scene: &Scene) -> Value {
    scene.status(Kind::Gateway, "infra/edge")["attachedListenerSets"].clone()
}

const CONFLICTS: [&str; 3] = ["Accepted", "Programmed", "Conflicted"];

/// The first two words of these conditions of a listener.
fn conflicts(scene: &Scene, set: &str, listener: &str) -> String {
    let said = CONFLICTS.map(|condition| scene.listener_of_set(set, listener, condition));
    said.map(|said| said.split(':').next().unwrap_or_default().to_owned()).join(", ")
}

#[test]
fn a_listener_of_a_set_serves_the_routes_that_name_the_set_and_no_others() {
    let mut section = at_set("apps/set");
    section["sectionName"] = json!("b");
    let scene = Scene::new([
        service("s"),
        edge("All"),
        listener_set("apps/set", json!([http("a", 80, "a.example.com"), http("b", 80, "b.example.com")])),
        at("all", json!([at_set("apps/set")])),
        at("section", json!([section])),
        at("both", json!([at_set("apps/set"), {"name": "edge", "namespace": "infra"}])),
        at("gateway", json!([{"name": "edge", "namespace": "infra"}])),
    ]);
    let served = |domain: &str| {
        let mut served = scene.hosts("http/80")[domain].clone();
        served.sort();
        served.iter().map(|name| name.split('/').nth(1).unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(served("a.example.com"), ["all", "both"]);
    assert_eq!(served("b.example.com"), ["all", "both", "section"]);
    assert_eq!(served("edge.example.com"), ["both", "gateway"]);
    assert_eq!(scene.listener_of_set_status("apps/set", "a")["attachedRoutes"], 2);
    assert_eq!(scene.listener_of_set_status("apps/set", "b")["attachedRoutes"], 3);
    assert_eq!(scene.attached("infra/edge", "http"), 2);
    assert_eq!(scene.set("apps/set", "Accepted"), "True Accepted: the listeners are served");
    assert!(scene.set("apps/set", "Programmed").starts_with("True Programmed"));
    assert_eq!(attached_sets(&scene), 1);
    assert_eq!(scene.parents("apps/both"), 2);
    assert_eq!(scene.parent_ref("apps/both", 0)["kind"], "ListenerSet");
    assert_eq!(scene.problems(), [""; 0]);
}

#[test]
fn a_section_of_a_set_is_not_found_at_its_gateway_and_the_two_parents_of_a_route_stand_alone() {
    let scene = Scene::new([
        service("s"),
        edge("All"),
        listener_set("apps/set", json!([http("a", 80, "a.example.com")])),
        at("r", json!([{"name": "edge", "namespace": "infra", "sectionName": "a"}, at_set("apps/set")])),
    ]);
    assert_eq!(scene.route("apps/r", 0, "Accepted"), "False NoMatchingParent");
    assert_eq!(scene.route("apps/r", 1, "Accepted"), "True Accepted");
    assert_eq!(scene.hosts("http/80")["a.example.com"].len(), 1);
    assert_eq!(scene.hosts("http/80")["edge.example.com"].len(), 0);
}

#[test]
fn a_gateway_admits_whom_it_names_and_nobody_by_default() {
    let set = || listener_set("apps/set", json!([http("a", 80, "a.example.com")]));
    let own = || listener_set("infra/set", json!([http("a", 80, "a.example.com")]));
    let is_served = |gateway: Value, set: Value| {
        let name = format!("{}/set", set["metadata"]["namespace"].as_str().expect("a namespace"));
        let parent = at_set(&name);
        let scene = Scene::new([service("s"), namespace("apps", "blue"), gateway, set, at("r", json!([parent]))]);
        let accepted = scene.set(&name, "Accepted").starts_with("True");
        assert_eq!(accepted, scene.hosts("http/80").contains_key("a.example.com"));
        if !accepted {
            for condition in ["Accepted", "Programmed"] {
                assert!(scene.set(&name, condition).starts_with("False NotAllowed"), "{}", scene.set(&name, condition));
            }
            assert_eq!(scene.status(Kind::ListenerSet, &name)["listeners"], Value::Null);
            assert_eq!(scene.route("apps/r", 0, "Accepted"), "False NotAllowedByListeners");
        }
        accepted
    };
    let selecting = |team: &str| {
        let mut edge = edge("Selector");
        edge["spec"]["allowedListeners"]["namespaces"]["selector"] = json!({"matchLabels": {"team": team}});
        edge
    };
    assert!(!is_served(gateway("edge", json!([http("http", 80, "edge.example.com")])), own()));
    assert!(!is_served(edge("None"), own()));
    assert!(!is_served(edge("Sometimes"), own()));
    assert!(!is_served(edge("Selector"), own()), "without a selector");
    assert!(!is_served(edge("Same"), set()));
    assert!(is_served(edge("Same"), own()));
    assert!(is_served(edge("All"), set()));
    assert!(is_served(selecting("blue"), set()));
    assert!(!is_served(selecting("red"), set()));
}

#[test]
fn a_label_that_is_taken_away_closes_the_listeners_and_one_that_comes_opens_them() {
    let mut edge = edge("Selector");
    edge["spec"]["allowedListeners"]["namespaces"]["selector"] = json!({"matchLabels": {"team": "blue"}});
    let set = listener_set("apps/set", json!([http("a", 81, "a.example.com")]));
    let mut scene =
        Scene::new([service("s"), namespace("apps", "blue"), edge, set, at("r", json!([at_set("apps/set")]))]);
    let listener = |scene: &Scene| scene.resource("infra/edge", ResourceKind::Listener, "listener/81");
    assert!(listener(&scene).is_some());
    scene.put(namespace("apps", "red"));
    assert_eq!(listener(&scene), None);
    assert_eq!(attached_sets(&scene), 0);
    let message = scene.route_message("apps/r", 0, "Accepted");
    assert!(message.starts_with("False NotAllowedByListeners: spec.parentRefs[0]: ListenerSet apps/set"), "{message}");
    scene.put(namespace("apps", "blue"));
    assert!(listener(&scene).is_some());
    assert_eq!(scene.route("apps/r", 0, "Accepted"), "True Accepted");
}

#[test]
fn a_hostname_belongs_to_the_gateway_then_to_the_older_set_then_to_the_first_by_name() {
    let asking = |name: &str| {
        listener_set(name, json!([http("own", 80, &format!("{}.com", name.replace('/', "-"))), http("x", 80, "x.com")]))
    };
    let gateway = |hostname: &str| hosting("edge", json!([http("http", 80, hostname)]), "All");
    let objects = [asking("b/one"), asking("a/two"), asking("a/one")];
    let ages = [1, 2, 2];
    let sets = objects.into_iter().zip(ages).map(|(set, age)| born(set, age));
    let mut scene = Scene::new(sets.chain([gateway("x.com")]));
    let lost = "False HostnameConflict, False HostnameConflict, True HostnameConflict";
    let won = "True Accepted, True Programmed, False NoConflicts";
    let standing = |scene: &Scene| ["b/one", "a/one", "a/two"].map(|set| conflicts(scene, set, "x"));
    assert_eq!(standing(&scene), [lost, lost, lost]);
    assert_eq!(scene.listener("infra/edge", "http", "Accepted"), "True Accepted");
    assert_eq!(attached_sets(&scene), 3, "each has a listener of its own");
    let message = scene.set("a/one", "Accepted");
    assert!(message.starts_with("True ListenersNotValid: listener x: "), "{message}");
    scene.put(gateway("edge.com"));
    assert_eq!(standing(&scene), [won, lost, lost]);
    assert!(scene.listener_of_set("a/one", "x", "Accepted").contains("an earlier ListenerSet of another namespace"));
    scene.remove(asking("b/one"));
    assert_eq!(standing(&scene)[1..], [won, lost]);
    assert!(scene.listener_of_set("a/two", "x", "Accepted").contains("the earlier ListenerSet a/one"));
}

#[test]
fn a_port_is_spoken_as_the_first_object_has_it_and_who_loses_to_it_is_in_nobodys_way() {
    let set = |name: &str, hostname: &str| {
        listener_set(name, json!([http("own", 80, hostname), stream("tcp", 80, "TCP"), stream("udp", 80, "UDP")]))
    };
    let scene = Scene::new([edge("All"), born(set("a/one", "one.com"), 1), born(set("a/two", "two.com"), 2)]);
    let lost = "False ProtocolConflict, False ProtocolConflict, True ProtocolConflict";
    let won = "True Accepted, True Programmed, False NoConflicts";
    for set in ["a/one", "a/two"] {
        assert_eq!(conflicts(&scene, set, "own"), won, "{set}");
        assert_eq!(conflicts(&scene, set, "tcp"), lost, "{set}");
    }
    assert_eq!(conflicts(&scene, "a/one", "udp"), won, "ports of TCP and UDP are two");
    assert_eq!(conflicts(&scene, "a/two", "udp"), lost, "nothing tells datagrams apart");
    assert!(scene.resource("infra/edge", ResourceKind::Listener, "listener/80/udp").is_some());
}

#[test]
fn listeners_of_one_set_that_conflict_lose_both_and_hold_the_port_against_later_ones() {
    let first = born(listener_set("a/one", json!([http("a", 90, ""), stream("b", 90, "TCP")])), 1);
    let second = born(listener_set("b/two", json!([http("a", 90, "")])), 2);
    let mut scene = Scene::new([edge("All"), first.clone(), second]);
    for (set, listener) in [("a/one", "a"), ("a/one", "b"), ("b/two", "a")] {
        assert!(conflicts(&scene, set, listener).ends_with("True ProtocolConflict"), "{set} {listener}");
    }
    for set in ["a/one", "b/two"] {
        for condition in ["Accepted", "Programmed"] {
            assert!(scene.set(set, condition).starts_with("False ListenersNotValid"), "{set}");
        }
    }
    assert_eq!(attached_sets(&scene), 0);
    scene.remove(first);
    assert!(conflicts(&scene, "b/two", "a").starts_with("True Accepted"));
}

#[test]
fn a_certificate_is_judged_from_the_namespace_of_the_set_and_a_grant_names_its_kind() {
    let of_infra = |kind: &str| {
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
            "metadata": {"name": "g", "namespace": "infra"},
            "spec": {"from": [{"group": "gateway.networking.k8s.io", "kind": kind, "namespace": "apps"}],
                "to": [{"group": "", "kind": "Secret"}]}})
    };
    let mut listener = https("tls", 443, "a.example.com", "c");
    listener["tls"]["certificateRefs"][0]["namespace"] = json!("infra");
    let set = listener_set("apps/set", json!([listener]));
    let mut scene = Scene::new([edge("All"), secret("c"), set]);
    let resolved = |scene: &Scene| scene.listener_of_set("apps/set", "tls", "ResolvedRefs");
    assert!(resolved(&scene).starts_with("False RefNotPermitted"), "{}", resolved(&scene));
    assert!(scene.set("apps/set", "Accepted").starts_with("False ListenersNotValid"));
    assert_eq!(scene.chains("listener/443"), []);
    scene.put(of_infra("Gateway"));
    assert!(resolved(&scene).starts_with("False RefNotPermitted"), "a grant to Gateways is none to its sets");
    scene.put(of_infra("ListenerSet"));
    assert!(resolved(&scene).starts_with("True ResolvedRefs"), "{}", resolved(&scene));
    assert!(scene.set("apps/set", "Programmed").starts_with("True Programmed"));
    assert_eq!(scene.chains("listener/443"), [(vec!["a.example.com".to_owned()], true)]);
    scene.remove(of_infra("ListenerSet"));
    assert!(resolved(&scene).starts_with("False RefNotPermitted"), "a grant that is lost");
    assert_eq!(scene.chains("listener/443"), []);
}

#[test]
fn routes_of_the_same_namespace_are_those_of_the_sets() {
    let mut same = http("a", 80, "a.example.com");
    same["allowedRoutes"]["namespaces"]["from"] = json!("Same");
    let mut of_infra = at("infra", json!([at_set("apps/set")]));
    of_infra["metadata"]["namespace"] = json!("infra");
    let scene = Scene::new([
        service("s"),
        edge("All"),
        listener_set("apps/set", json!([same])),
        at("apps", json!([at_set("apps/set")])),
        of_infra,
    ]);
    assert_eq!(scene.route("apps/apps", 0, "Accepted"), "True Accepted");
    assert_eq!(scene.route("infra/infra", 0, "Accepted"), "False NotAllowedByListeners");
}

#[test]
fn what_a_gateway_asks_of_clients_holds_for_its_sets_by_port_and_they_learn_nothing_of_it() {
    let mut edge = edge("All");
    let asked = json!({"validation": {"caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "hidden"}]}});
    edge["spec"]["tls"] = json!({"frontend": {"default": {}, "perPort": [{"port": 443, "tls": asked}]}});
    let mut of_apps = secret("c");
    of_apps["metadata"]["namespace"] = json!("apps");
    let listeners = json!([https("asked", 443, "a.example.com", "c"), https("free", 444, "a.example.com", "c")]);
    let scene = Scene::new([edge, of_apps, listener_set("apps/set", listeners)]);
    let accepted = scene.listener_of_set("apps/set", "asked", "Accepted");
    assert!(accepted.starts_with("False NoValidCACertificate"), "{accepted}");
    assert!(scene.listener_of_set("apps/set", "asked", "ResolvedRefs").starts_with("True"));
    assert!(scene.listener_of_set("apps/set", "free", "Accepted").starts_with("True"));
    let told = scene.status(Kind::ListenerSet, "apps/set").to_string();
    assert!(!told.contains("hidden") && !told.contains("infra"), "{told}");
    assert!(!scene.gateway_message("infra/edge", "Accepted").contains("perPort"), "a set may have the port");
}

#[test]
fn a_gateway_that_is_not_accepted_takes_its_sets_along() {
    let mut edge = edge("All");
    edge["spec"]["addresses"] = json!([{"type": "Hostname", "value": "a.example.com"}]);
    let scene = Scene::new([edge, listener_set("apps/set", json!([http("a", 81, "")]))]);
    assert!(scene.set("apps/set", "Accepted").starts_with("False ParentNotAccepted"));
    assert!(scene.set("apps/set", "Programmed").starts_with("False ParentNotProgrammed"));
    assert_eq!(scene.resource("infra/edge", ResourceKind::Listener, "listener/81"), None);
}

#[test]
fn a_gateway_whose_proxies_lack_something_has_its_sets_say_so_without_its_words() {
    let mut scene = Scene::new([edge("All"), listener_set("apps/set", json!([http("a", 81, "")]))]);
    scene.0.set_nack(&ir::NsName::new("infra", "edge"), Some("hidden words".into()));
    scene.0.settle();
    assert!(scene.set("apps/set", "Accepted").starts_with("True Accepted"));
    let programmed = scene.set("apps/set", "Programmed");
    assert!(programmed.starts_with("False ParentNotProgrammed") && !programmed.contains("hidden"), "{programmed}");
}

#[test]
fn a_set_of_a_gateway_that_is_missing_or_another_controllers_has_no_status() {
    let mut foreign = edge("All");
    foreign["spec"]["gatewayClassName"] = json!("theirs");
    let theirs = json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
        "metadata": {"name": "theirs"}, "spec": {"controllerName": "x.dev/y"}});
    let set = || listener_set("apps/set", json!([http("a", 81, "")]));
    let scene = Scene::new([set()]);
    assert_eq!(scene.status(Kind::ListenerSet, "apps/set"), Value::Null);
    assert!(scene.problems()[0].contains("Gateway infra/edge does not exist"), "{:?}", scene.problems());
    let scene = Scene::new([service("s"), theirs, foreign, set(), at("r", json!([at_set("apps/set")]))]);
    assert_eq!((scene.status(Kind::ListenerSet, "apps/set"), scene.parents("apps/r")), (Value::Null, 0));
    assert_eq!(scene.problems(), [""; 0]);
}

#[test]
fn routes_of_streams_are_served_at_listeners_of_sets() {
    let at_set = |mut route: Value| {
        route["spec"]["parentRefs"] = json!([at_set("apps/set")]);
        route
    };
    let backend = || json!([{"name": "s", "port": 80}]);
    let listeners =
        json!([stream("tcp", 5432, "TCP"), stream("udp", 53, "UDP"), tls("tls", 8443, "*.example.com", None),]);
    let scene = Scene::new([
        service("s"),
        edge("All"),
        listener_set("apps/set", listeners),
        at_set(stream_route("TCPRoute", "tcp", backend())),
        at_set(stream_route("UDPRoute", "udp", backend())),
        at_set(tls_route("tls", &["a.example.com"], backend())),
    ]);
    for (kind, name) in [(Kind::TcpRoute, "tcp"), (Kind::UdpRoute, "udp"), (Kind::TlsRoute, "tls")] {
        let status = scene.status(kind, &format!("apps/{name}"));
        let accepted = &status["parents"][0]["conditions"][0];
        // A Service's port of TCP takes no datagrams, which is no matter of the parent.
        assert_eq!((&accepted["type"], &accepted["status"]), (&json!("Accepted"), &json!("True")), "{status}");
        assert_eq!(scene.listener_of_set_status("apps/set", name)["attachedRoutes"], 1);
    }
    assert_eq!(scene.chains("listener/8443").len(), 2, "the hostname of the route, and what is closed");
    assert_eq!(scene.chains("listener/5432").len(), 1);
}

#[test]
fn a_port_that_comes_later_moves_none_that_was_there_before() {
    let settings = || ir::Settings { ports: ir::settings::PortMapping::Mapped, ..ir::Settings::default() };
    let bound = |scene: &Scene, port: u16| {
        let listener = scene.resource("infra/edge", ResourceKind::Listener, &format!("listener/{port}"));
        listener.map(|listener| listener["address"]["socketAddress"]["portValue"].clone())
    };
    let set = |name: &str, age, port| born(listener_set(name, json!([http("a", port, "")])), age);
    let mut scene = Scene::with(settings(), [edge("All"), set("b/one", 1, 81)]);
    assert_eq!([80, 81].map(|port| bound(&scene, port)), [Some(json!(10080)), Some(json!(10081))]);
    scene.put(set("a/two", 2, 10080));
    scene.put(set("a/three", 3, 10081));
    assert_eq!([80, 81].map(|port| bound(&scene, port)), [Some(json!(10080)), Some(json!(10081))]);
    assert_eq!([10080, 10081].map(|port| bound(&scene, port)), [Some(json!(10082)), Some(json!(10083))]);
}

#[test]
fn a_namespace_gets_so_many_ports_and_leaves_others_theirs() {
    let listeners = |from: u16| (from..from + 40).map(|port| http(&format!("p{port}"), port, "")).collect::<Vec<_>>();
    let greedy = born(listener_set("greedy/set", json!(listeners(2000))), 1);
    let modest = born(listener_set("modest/set", json!([http("a", 3000, "")])), 2);
    let scene = Scene::new([edge("All"), greedy, modest]);
    let accepted = |set: &str, name: &str| scene.listener_of_set(set, name, "Accepted");
    assert!(accepted("greedy/set", "p2031").starts_with("True"), "{}", accepted("greedy/set", "p2031"));
    assert!(accepted("greedy/set", "p2032").starts_with("False TooManyListeners"));
    assert!(accepted("modest/set", "a").starts_with("True"));
}

#[test]
fn who_asks_for_more_ports_than_he_gets_keeps_none_of_them_from_others() {
    let listeners =
        |from: u16| (from..from + 40).map(|port| stream(&format!("p{port}"), port, "TCP")).collect::<Vec<_>>();
    let greedy = born(listener_set("greedy/set", json!(listeners(2000))), 1);
    let modest = born(listener_set("modest/set", json!([http("a", 2035, ""), http("b", 2000, "")])), 2);
    let late = born(listener_set("greedy/late", json!([http("a", 2035, "late.example")])), 3);
    let mut scene = Scene::new([edge("All"), modest.clone(), late]);
    let accepted = |scene: &Scene, set: &str, name: &str| scene.listener_of_set(set, name, "Accepted");
    assert!(accepted(&scene, "modest/set", "a").starts_with("True"));
    // An older one that is changed afterwards takes no more than it may have.
    scene.put(greedy.clone());
    assert!(accepted(&scene, "modest/set", "a").starts_with("True"), "{}", accepted(&scene, "modest/set", "a"));
    assert!(accepted(&scene, "modest/set", "b").starts_with("False ProtocolConflict"));
    assert!(accepted(&scene, "greedy/set", "p2035").starts_with("False TooManyListeners"));
    assert!(accepted(&scene, "greedy/late", "a").starts_with("False TooManyListeners"), "nobody pays for another");
    scene.remove(greedy);
    assert!(accepted(&scene, "greedy/late", "a").starts_with("True"));
}

#[test]
fn a_listener_that_is_refused_gives_its_port_to_nobody() {
    let mut broken = stream("db", 5432, "TCP");
    broken["allowedRoutes"] = json!({"namespaces": {"from": "Selector", "selector": {"matchExpressions":
        [{"key": "a", "operator": "Im", "values": ["b"]}]}}});
    let mut own = edge("All");
    own["spec"]["listeners"] = json!([http("own", 80, ""), broken]);
    let set = listener_set("a/set", json!([stream("tcp", 5432, "TCP"), http("http", 5432, "a.example")]));
    let scene = Scene::new([own, set]);
    assert!(scene.listener("infra/edge", "db", "Accepted").starts_with("False"));
    for name in ["tcp", "http"] {
        assert!(
            conflicts(&scene, "a/set", name).ends_with("True ProtocolConflict"),
            "{}",
            conflicts(&scene, "a/set", name)
        );
    }
}

#[test]
fn a_port_that_kubernetes_refuses_is_told_to_who_asks_for_it_and_the_gateway_stays_as_it_is() {
    let set = |name: &str, port: u16| {
        let listeners = json!([http("own", port, ""), http("shared", 80, &name.replace('/', "."))]);
        listener_set(name, listeners)
    };
    let mut scene = Scene::new([edge("All"), set("evil/set", 8443), set("apps/set", 8080)]);
    let gateway = NsName::new("infra", "edge");
    let refused =
        |ports: &[(u16, Transport)]| ports.iter().map(|port| (*port, "the policy no-8443 denied it".into())).collect();
    scene.0.set_unserved_ports(&gateway, refused(&[(8443, Transport::Tcp), (8080, Transport::Udp)]));
    scene.0.settle();
    let programmed = |scene: &Scene, set: &str, listener: &str| scene.listener_of_set(set, listener, "Programmed");
    let told = programmed(&scene, "evil/set", "own");
    assert!(told.starts_with("False PortUnavailable") && told.contains("spec.listeners[0].port: port 8443"), "{told}");
    assert!(!told.contains("no-8443"), "{told}");
    assert!(scene.listener_of_set("evil/set", "own", "Accepted").starts_with("True"));
    assert!(programmed(&scene, "evil/set", "shared").starts_with("True"));
    let told = scene.set("evil/set", "Programmed");
    assert!(told.starts_with("True Programmed") && told.contains("port 8443"), "{told}");
    assert!(scene.problems().iter().any(|it| it.starts_with("set refused PortUnavailable")), "{:?}", scene.problems());
    for listener in ["own", "shared"] {
        assert!(programmed(&scene, "apps/set", listener).starts_with("True"), "TCP and UDP are two");
    }
    assert_eq!(scene.gateway("infra/edge", "Programmed"), "True Programmed");
    let told = scene.gateway_message("infra/edge", "Accepted");
    assert!(told.starts_with("True Accepted") && told.contains("8443 of TCP: the policy no-8443 denied it"), "{told}");
    // One of which nothing is reached is not programmed.
    scene.put(listener_set("evil/set", json!([http("own", 8443, "")])));
    assert!(scene.set("evil/set", "Programmed").starts_with("False ListenersNotValid"));
    assert!(scene.set("evil/set", "Accepted").starts_with("True Accepted"));
    scene.0.set_unserved_ports(&gateway, refused(&[]));
    scene.0.settle();
    assert!(scene.set("evil/set", "Programmed").starts_with("True Programmed"));
    assert!(!scene.gateway_message("infra/edge", "Accepted").contains("8443"));
}

#[test]
fn a_port_that_the_load_balancer_does_not_serve_is_told_to_who_asks_for_it_alone() {
    let set = listener_set("apps/set", json!([http("web", 8080, ""), stream("dns", 53, "UDP")]));
    let ports =
        |error: Value| json!([{"port": 53, "protocol": "UDP", "error": error}, {"port": 80, "protocol": "TCP"}]);
    let service = |error: Value| {
        json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "edge-portcullis", "namespace": "infra",
                "labels": {"gateway.networking.k8s.io/gateway-name": "edge"}},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ports": ports(error)}]}}})
    };
    let mut scene = Scene::new([edge("All"), set, service(json!("MixedProtocolNotSupported"))]);
    let programmed = |scene: &Scene, listener: &str| scene.listener_of_set("apps/set", listener, "Programmed");
    let told = programmed(&scene, "dns");
    assert!(told.starts_with("False PortUnavailable") && told.contains("does not serve port 53 of UDP"), "{told}");
    assert!(programmed(&scene, "web").starts_with("True"));
    assert_eq!(scene.gateway("infra/edge", "Programmed"), "True Programmed");
    assert_eq!(scene.listener("infra/edge", "http", "Programmed"), "True Programmed");
    scene.put(service(Value::Null));
    assert!(programmed(&scene, "dns").starts_with("True"));
}

/// `many` sets on one port of one Gateway, each with a listener and a route of its own.
fn crowd(many: usize, namespace: fn(usize) -> String, listener: fn(&str) -> Value) -> Scene {
    let set = |index: usize| {
        let name = format!("{}/set{index}", namespace(index));
        let set = listener_set(&name, json!([listener(&format!("h{index}.com"))]));
        [set, at(&format!("r{index}"), json!([at_set(&name)]))]
    };
    Scene::new((0..many).flat_map(set).chain([service("s"), edge("All"), secret_of("n3")]))
}

/// What a change of one of `many` sets computes.
fn computed(many: [usize; 2], namespace: fn(usize) -> String, listener: fn(&str) -> Value) -> [[usize; 2]; 4] {
    let set = |name: &str, listeners: &[Value]| listener_set(&format!("n3/{name}"), json!(listeners));
    let mut beside = listener("beside.com");
    beside["name"] = json!("beside");
    let changes: [&dyn Fn(&mut Scene) -> translate::Changes; 4] = [
        &|scene| scene.put(set("set3", &[listener("other.com")])),
        &|scene| scene.put(set("set3", &[listener("h3.com"), beside.clone()])),
        &|scene| scene.put(set("new", &[listener("new.com")])),
        &|scene| scene.remove(set("set3", &[listener("h3.com")])),
    ];
    changes.map(|change| many.map(|many| change(&mut crowd(many, namespace, listener)).computed))
}

#[test]
fn a_change_of_one_of_many_sets_computes_the_same_as_of_one_of_few() {
    let plain = |host: &str| http("a", 80, host);
    for [small, large] in computed([10, 200], |index| format!("n{index}"), plain) {
        assert_eq!(small, large, "namespaces of their own");
    }
    for [small, large] in computed([10, 200], |_| "n3".to_owned(), plain) {
        assert_eq!(small, large, "all of one namespace");
    }
    // More than each can list the hostnames of.
    for [small, large] in computed([140, 280], |_| "n3".to_owned(), |host| https("a", 443, host, "c")) {
        assert_eq!(small, large, "of HTTPS");
    }
}

fn secret_of(namespace: &str) -> Value {
    let mut secret = secret("c");
    secret["metadata"]["namespace"] = json!(namespace);
    secret
}

#[test]
fn a_crowd_that_asks_for_what_an_older_set_has_changes_no_byte_of_it() {
    const CROWD: usize = 60;
    let wanted = || [http("web", 80, "v.example"), https("tls", 443, "v.example", "c"), stream("db", 5432, "TCP")];
    let victim = born(listener_set("apps/victim", json!(wanted())), 1);
    let crowd = |index: usize| {
        let more = [stream("tcp", 80, "TCP"), http("http", 5432, "v.example"), http("own", 80, "own.example")];
        born(listener_set(&format!("evil/z{index}"), json!(wanted().into_iter().chain(more).collect::<Vec<_>>())), 2)
    };
    let mut scene = Scene::new([
        service("s"),
        edge("All"),
        secret_of("apps"),
        secret_of("evil"),
        victim.clone(),
        at("r", json!([at_set("apps/victim")])),
    ]);
    let all = |scene: &Scene| {
        let get = |kind, name: &str| scene.resource("infra/edge", kind, name).unwrap_or_default();
        let listeners = ["listener/80", "listener/443", "listener/5432"].map(|name| get(ResourceKind::Listener, name));
        let hosts = get(ResourceKind::RouteConfiguration, "http/80")["virtualHosts"].clone();
        let own = hosts.as_array().into_iter().flatten().find(|host| host["name"] == "v.example").cloned();
        (listeners, own.expect("a virtual host"), get(ResourceKind::RouteConfiguration, "https/443/apps/victim/tls"))
    };
    let before = all(&scene);
    assert!(before.0.iter().all(|listener| !listener.is_null()));
    (0..CROWD).for_each(|index| drop(scene.put(crowd(index))));
    assert_eq!(all(&scene), before);
    let last = format!("evil/z{}", CROWD - 1);
    for (listener, lost) in [
        ("web", "HostnameConflict"),
        ("tls", "HostnameConflict"),
        ("db", "ProtocolConflict"),
        ("tcp", "ProtocolConflict"),
        ("http", "ProtocolConflict"),
        ("own", "HostnameConflict"),
    ] {
        let told = conflicts(&scene, &last, listener);
        assert_eq!(told, format!("False {lost}, False {lost}, True {lost}"), "{listener}");
        let message = scene.listener_of_set(&last, listener, "Conflicted");
        assert!(!message.contains("apps") && !message.contains("victim"), "{message}");
    }
    assert!(scene.hosts("http/80").contains_key("own.example"), "the first of them has what nobody else has");
    assert_eq!(attached_sets(&scene), 2);
    // Who goes leaves what he has to the next, and takes it back.
    scene.remove(victim.clone());
    assert!(conflicts(&scene, "evil/z0", "web").starts_with("True"));
    scene.put(victim);
    (0..CROWD).for_each(|index| drop(scene.remove(crowd(index))));
    assert_eq!(all(&scene), before);
}
