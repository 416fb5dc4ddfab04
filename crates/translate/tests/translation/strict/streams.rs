//! Connections and datagrams where Envoy is asked first.

use super::*;
use crate::scene::{https, secret, stream, stream_route, tls, tls_route};

/// A listener of HTTPS and one of TLS at one port, each with a route.
fn shared(extra: impl IntoIterator<Item = Value>) -> Strict {
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(base());
    strict.put([listeners(&[]), secret("c"), route("r", rules(&["/a"])), tls_route("t", &["a.example.com"], to_s())]);
    strict.put(extra);
    strict.settle(accepting);
    let served = chains(&strict);
    assert!(
        ["tls a.example.com", "web web.example.com"].iter().all(|it| served.iter().any(|sent| sent == it)),
        "{served:?}"
    );
    strict
}

/// With what else is said of the Gateway's first listener.
fn listeners(more: &[&str]) -> Value {
    let mut web = https("web", 443, "web.example.com", "c");
    let more = more.iter().map(|name| json!({"name": name}));
    web["tls"]["certificateRefs"].as_array_mut().expect("a list").extend(more);
    gateway("edge", json!([web, tls("tls", 443, "*.example.com", Some("c"))]))
}

fn to_s() -> Value {
    json!([{"name": "s", "port": 80}])
}

/// The chains of all listeners: the listener that each leads to or that it is closed, and the hostname; sorted.
fn chains(strict: &Strict) -> Vec<String> {
    let mut all: Vec<_> = listeners_sent(strict).iter().flat_map(chains_of).collect();
    all.sort();
    all
}

fn listeners_sent(strict: &Strict) -> Vec<Value> {
    let sent = strict.sent.iter().filter(|(key, _)| key.kind == ResourceKind::Listener);
    let name = ResourceKind::Listener.message_name();
    sent.map(|(_, encoded)| envoy::json::value(name, &encoded.body.to_bytes()).expect("JSON")).collect()
}

fn chains_of(listener: &Value) -> Vec<String> {
    let chains = listener["filterChains"].as_array().cloned().unwrap_or_default();
    let chains = chains.iter().flat_map(|chain| {
        let names = chain["filterChainMatch"]["serverNames"].as_array().cloned().unwrap_or_default();
        let config = &chain["filters"][0]["typedConfig"];
        let to = if config["cluster"].is_string() { "tls" } else { "web" };
        let to = if config.is_null() { "closed" } else { to };
        names.into_iter().map(move |name| format!("{to} {}", name.as_str().unwrap_or_default())).collect::<Vec<_>>()
    });
    // That listener without a route for all of its names is closed in any case.
    chains.filter(|chain| chain != "closed *.example.com").collect()
}

fn status(strict: &Strict, value: Value) -> String {
    strict.translator.status(&object(value).id()).unwrap_or_default()
}

fn t(hostnames: &[&str]) -> Value {
    tls_route("t", hostnames, to_s())
}

#[test]
fn a_hostname_of_a_tlsroute_holds_up_nobody_and_takes_nothing_from_others() {
    let mut strict = shared([]);
    let judging = |sent: &Sent| if contains(sent, "new.example.com") { Word::Judging } else { Word::Accepted };
    strict.put([t(&["new.example.com"]), route("r", rules(&["/b"]))]);
    strict.settle(judging);
    assert!(strict.gate.held(strict.now).gateways.is_empty());
    assert!(paths(&strict).contains(&"/b".to_owned()), "who changes at the same time does not wait");
    assert_eq!(chains(&strict), ["web web.example.com"], "what is gone is gone");
    let unknown = strict.gate.unknown();
    let namespaces: Vec<_> =
        unknown.map(|sent| (sent.object.namespace.to_string(), sent.fragment.bytes.len())).collect();
    assert!(
        !namespaces.is_empty() && namespaces.iter().all(|(namespace, bytes)| namespace == "apps" && *bytes < 9_000)
    );
    // He rewrites it for as long as he likes.
    for number in 0..9 {
        strict.put([t(&[&format!("{number}.new.example.com")])]);
        strict.later(T, judging);
        assert_eq!(chains(&strict).last().map(String::as_str), Some("web web.example.com"), "{number}");
    }
    strict.settle(accepting);
    assert_eq!(chains(&strict), ["tls 8.new.example.com", "web web.example.com"]);
}

#[test]
fn a_hostname_of_which_nobody_says_anything_or_that_is_refused_is_closed() {
    for word in [Word::Judging, Word::Refused("so it is".into())] {
        let mut strict = shared([tls_route("all", &["*.example.com"], to_s())]);
        strict.put([tls_route("n", &["new.example.com"], to_s())]);
        let odd = |sent: &Sent| match sent.fragment.kind {
            envoy::judged::Kind::Listener if contains(sent, "new.example.com") => word.clone(),
            _ => Word::Accepted,
        };
        strict.settle(odd);
        strict.later(3 * T, odd);
        let all = chains(&strict);
        assert!(
            all.contains(&"closed new.example.com".to_owned()) && all.contains(&"tls a.example.com".to_owned()),
            "{all:?}"
        );
        let said = status(&strict, tls_route("n", &[], to_s()));
        assert!(said.contains("nothing is sent to its backends"), "{said}");
        strict.settle(accepting);
        let is_served = chains(&strict).contains(&"tls new.example.com".to_owned());
        assert_eq!(is_served, word == Word::Judging, "who is only slow is served in the end");
    }
}

#[test]
fn what_a_listener_policy_says_is_told_to_the_gateway_and_to_no_route_behind_it() {
    let mut strict = shared([]);
    let odd = |sent: &Sent| {
        let name = ResourceKind::Listener.message_name();
        let listener = (sent.fragment.kind == envoy::judged::Kind::Listener)
            .then(|| envoy::json::value(name, &sent.fragment.bytes).expect("JSON"));
        let is_odd = listener.is_some_and(|listener| listener["perConnectionBufferLimitBytes"] == 7777);
        if is_odd { Word::Refused("so it is".into()) } else { Word::Accepted }
    };
    let policy = json!({
        "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "ListenerPolicy",
        "metadata": {"name": "p", "namespace": "infra"},
        "spec": {"targetRefs": [{"group": ir::GATEWAY_API, "kind": "Gateway", "name": "edge"}],
            "default": {"perConnectionBufferLimitBytes": 7777}},
    });
    strict.put([policy, t(&["a.example.com", "new.example.com"])]);
    strict.settle(odd);
    let said = status(&strict, t(&[]));
    assert!(!said.contains("so it is") && !said.contains("nothing is sent to its backends"), "{said}");
    let gateway = status(&strict, listeners(&[]));
    assert!(gateway.contains("so it is"), "{gateway}");
}

#[test]
fn a_listener_of_which_nobody_says_anything_stays_as_it_was() {
    let mut strict = shared([]);
    let policy = json!({
        "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "ListenerPolicy",
        "metadata": {"namespace": "infra", "name": "p"},
        "spec": {
            "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "edge"}],
            "default": {"perConnectionBufferLimitBytes": 1234},
        },
    });
    strict.put([policy.clone()]);
    let judging = |sent: &Sent| match sent.fragment.kind {
        envoy::judged::Kind::Listener => Word::Judging,
        _ => Word::Accepted,
    };
    strict.settle(judging);
    assert!(strict.gate.unknown().len() > 0);
    strict.later(4 * T, judging);
    assert_eq!(chains(&strict), ["tls a.example.com", "web web.example.com"]);
    assert!(!strict.gate.is_holding());
    let is_new = |strict: &Strict| listeners_sent(strict)[0]["perConnectionBufferLimitBytes"] == 1234;
    assert!(!is_new(&strict));
    strict.settle(accepting);
    let told = status(&strict, listeners(&[]));
    assert!(is_new(&strict), "{told} {}", status(&strict, policy.clone()));
    assert_eq!(chains(&strict), ["tls a.example.com", "web web.example.com"]);
}

#[test]
fn a_certificate_beside_the_first_takes_no_listener_away() {
    let mut strict = shared([]);
    strict.put([secret("d"), listeners(&["d"])]);
    strict.settle(|_| Word::Unknown);
    assert_eq!(chains(&strict), ["tls a.example.com", "web web.example.com"]);
    strict.settle(accepting);
    let said = listeners_sent(&strict)[0].to_string();
    assert!(said.contains("secret/infra/d") && said.contains("secret/infra/c"), "{said}");
    strict.put([listeners(&[])]);
    strict.settle(|_| Word::Unknown);
    let said = listeners_sent(&strict)[0].to_string();
    assert!(!said.contains("secret/infra/d") && said.contains("secret/infra/c"), "{said}");
}

/// What policies say of a Service `NAMESPACE/s`.
fn wrapping(namespace: &str, version: &str) -> Value {
    json!({
        "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "BackendConfigPolicy",
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {
            "targetRefs": [{"group": "", "kind": "Service", "name": "s"}],
            "upstreamProxyProtocol": {"version": version},
        },
    })
}

fn is_cluster(sent: &Sent) -> bool {
    sent.fragment.kind == envoy::judged::Kind::Cluster
}

/// A TCPRoute from `apps` to a Service of `far`, and who lets it.
fn far() -> Vec<Value> {
    let mut service = service("s");
    service["metadata"]["namespace"] = json!("far");
    let grant = json!({
        "apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
        "metadata": {"name": "g", "namespace": "far"},
        "spec": {
            "from": [{"group": "gateway.networking.k8s.io", "kind": "TCPRoute", "namespace": "apps"}],
            "to": [{"group": "", "kind": "Service"}],
        },
    });
    let backends = json!([{"name": "s", "namespace": "far", "port": 80}]);
    let gateway = gateway("edge", json!([stream("db", 5432, "TCP"), http("web", 80, "")]));
    vec![class(), gateway, service, grant, stream_route("TCPRoute", "r", backends)]
}

#[test]
fn the_cluster_of_a_place_is_judged_in_the_name_of_its_route_and_words_are_for_who_may_read_them() {
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(far());
    strict.settle(accepting);
    strict.put([wrapping("far", "V2")]);
    strict.settle(|sent| if is_cluster(sent) { Word::Judging } else { Word::Accepted });
    let asked: Vec<_> = strict.gate.unknown().collect();
    assert!(!asked.is_empty());
    for sent in asked {
        assert_eq!((&*sent.object.namespace, sent.is_shared), ("apps", true), "{:?}", sent.object);
    }
    // What the check tells is told the same one.
    let sent = strict.translator.inspect().sent();
    let own = sent.iter().find(|sent| is_cluster(sent) && contains(sent, "tcp/db")).expect("its cluster");
    assert_eq!(own.object, object(stream_route("TCPRoute", "r", json!([]))).id());
    strict.settle(|sent| if is_cluster(sent) { Word::Refused("no".into()) } else { Word::Accepted });
    assert!(!strict.sent.keys().any(|key| key.kind == ResourceKind::Cluster && &*key.name == "tcp/db"));
    let said = status(&strict, stream_route("TCPRoute", "r", json!([])));
    assert!(said.contains("nothing is sent to its backends"), "{said}");
}

#[test]
fn a_replica_is_not_ready_without_the_cluster_of_a_place_and_who_waits_is_told() {
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(far());
    let no_cluster = |sent: &Sent| if is_cluster(sent) { Word::Judging } else { Word::Accepted };
    strict.settle(no_cluster);
    assert!(strict.sent.keys().any(|key| key.kind == ResourceKind::Listener), "the listener is there");
    assert!(strict.gate.is_holding());
    let held = strict.gate.held(strict.now + Duration::from_secs(7));
    assert_eq!((held.parts, held.since), (1, Some(Duration::from_secs(7))));
    let said = |strict: &Strict| status(strict, stream_route("TCPRoute", "r", json!([])));
    assert!(!said(&strict).contains("ValidationPending"));
    strict.later(Duration::from_secs(5), no_cluster);
    assert!(said(&strict).contains("ValidationPending"), "{}", said(&strict));
    strict.settle(accepting);
    assert!(!strict.gate.is_holding() && !said(&strict).contains("ValidationPending"));
    assert!(strict.sent.keys().any(|key| &*key.name == "tcp/db"));
}
