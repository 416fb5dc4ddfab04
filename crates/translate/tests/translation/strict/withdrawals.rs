//! What goes, goes at once, whatever waits, and for however long nobody can be asked.

use super::*;
use crate::{
    policies::{at as targets, policy, with},
    scene::{certificates, https, secret, to as delegates},
};

/// Nobody can be asked.
fn nobody(_: &Sent) -> Word {
    Word::Unknown
}

/// A Gateway whose own change waits, and routes.
fn holding(routes: impl IntoIterator<Item = Value>) -> Strict {
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(base());
    strict.put([wide("one")]);
    strict.put(routes);
    strict.settle(accepting);
    strict.put([wide("two")]);
    strict.settle(nobody);
    assert_eq!(strict.gate.held(strict.now).gateways.len(), 1);
    strict
}

fn says(strict: &Strict, kind: ResourceKind, text: &str) -> bool {
    let mut all = strict.sent.iter().filter(|(key, _)| key.kind == kind);
    all.any(|(_, encoded)| String::from_utf8_lossy(&encoded.body.to_bytes()).contains(text))
}

/// A rule to a Service of another namespace, and who lets it.
fn granted() -> [Value; 3] {
    let mut rule = rule("/granted");
    rule["backendRefs"] = json!([{"name": "far", "namespace": "others", "port": 80}]);
    let mut far = service("far");
    far["metadata"]["namespace"] = json!("others");
    let grant = json!({
        "apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
        "metadata": {"name": "g", "namespace": "others"},
        "spec": {
            "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "apps"}],
            "to": [{"group": "", "kind": "Service"}],
        },
    });
    [far, grant, route("r", json!({"rules": [rule, rule_to_s()]}))]
}

fn rule_to_s() -> Value {
    rule("/s")
}

#[test]
fn a_grant_that_is_revoked_is_gone_while_its_gateway_waits() {
    let mut strict = holding(granted());
    assert_eq!(strict.routes(), [at("/granted", None), at("/s", None)]);
    let [_, grant, _] = granted();
    strict.remove(grant);
    strict.settle(nobody);
    assert_eq!(strict.routes(), [at("/granted", Some(500)), at("/s", None)]);
    assert!(says(&strict, ResourceKind::RouteConfiguration, "one"), "what the Gateway says waits");
    strict.settle(accepting);
    assert!(says(&strict, ResourceKind::RouteConfiguration, "two"));
}

#[test]
fn a_backend_that_is_deleted_is_gone_while_its_gateway_waits() {
    let mut strict = holding([service("t"), route("r", to("t"))]);
    assert!(strict.sent.keys().any(|key| key.kind == ResourceKind::Cluster));
    strict.remove(service("t"));
    strict.settle(nobody);
    assert_eq!(strict.routes(), [at("/", Some(500))]);
    assert!(!strict.sent.keys().any(|key| key.kind == ResourceKind::Cluster));
}

#[test]
fn a_route_and_a_hostname_that_are_gone_are_while_their_gateway_waits() {
    let at_hosts = |hosts: &[&str]| with_rules(json!({"hostnames": hosts}), &["/a"]);
    let mut strict =
        holding([route("r", at_hosts(&["a.example.com", "b.example.com"])), route("other", rules(&["/e"]))]);
    assert_eq!(strict.routes(), [at("/a", None), at("/a", None), at("/e", None), at("/e", None), at("/e", None)]);
    strict.put([route("r", at_hosts(&["a.example.com"]))]);
    strict.settle(nobody);
    let closed = strict.routes().into_iter().filter(|(path, status)| path == "/a" && *status == Some(500)).count();
    assert_eq!(closed, 1, "{:?}", strict.routes());
    strict.remove(route("r", at_hosts(&["a.example.com"])));
    strict.settle(nobody);
    // Its matches go with what the Gateway says: until then nobody else gets their requests.
    assert!(!strict.routes().contains(&at("/a", None)), "{:?}", strict.routes());
    strict.settle(accepting);
    assert_eq!(strict.routes(), [at("/e", None)]);
}

fn with_rules(spec: Value, paths: &[&str]) -> Value {
    with(rules(paths), spec)
}

#[test]
fn a_child_that_is_deleted_is_gone_while_its_gateway_waits() {
    let parent = route("parent", json!({"rules": [delegates("/p", &["child", "sibling"])]}));
    let child = |name: &str, path: &str| route(name, with_rules(json!({"parentRefs": []}), &[path]));
    let mut strict = holding([parent, child("child", "/p/child"), child("sibling", "/p/sibling")]);
    let before = strict.routes();
    assert!(before.contains(&at("/p/child", None)) && before.contains(&at("/p/sibling", None)), "{before:?}");
    strict.remove(child("child", "/p/child"));
    strict.settle(nobody);
    let now = strict.routes();
    assert!(!now.contains(&at("/p/child", None)) && now.contains(&at("/p/sibling", None)), "{now:?}");
}

#[test]
fn a_listener_and_a_certificate_that_are_gone_are_while_their_gateway_waits() {
    let listeners = |names: &[&str]| {
        let all = names.iter().map(|name| https(name, 443, &format!("{name}.example.com"), name));
        gateway("edge", json!(all.collect::<Vec<_>>()))
    };
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(base());
    strict.put([wide("one"), listeners(&["one", "two", "three"]), secret("one"), secret("two"), secret("three")]);
    strict.put([route("r", rules(&["/a"]))]);
    strict.settle(accepting);
    let said = |strict: &Strict| {
        ["one", "two", "three"].map(|name| says(strict, ResourceKind::Listener, &format!("secret/infra/{name}")))
    };
    assert_eq!(said(&strict), [true; 3]);
    strict.put([wide("two")]);
    strict.settle(nobody);
    strict.put([listeners(&["one", "three"])]);
    strict.settle(nobody);
    assert_eq!(said(&strict), [true, false, true]);
    strict.remove(secret("three"));
    strict.settle(nobody);
    assert_eq!(said(&strict), [true, false, false]);
    let secrets = strict.sent.keys().filter(|key| key.kind == ResourceKind::Secret).map(|key| key.name.to_string());
    assert_eq!(secrets.collect::<Vec<_>>(), ["secret/infra/one"]);
    strict.remove(listeners(&[]));
    strict.settle(nobody);
    assert_eq!(
        strict.sent.keys().filter(|key| key.kind != ResourceKind::Endpoints).collect::<Vec<_>>(),
        Vec::<&ResourceKey>::new()
    );
}

/// A TrafficPolicy by which requests with this header alone are let in.
fn guard(target: Value, name: &str, user: &str) -> Value {
    let expression = format!("request.headers['x-user'] == '{user}'");
    policy(
        "TrafficPolicy",
        name,
        with(target, json!({"rbac": {"action": "Allow", "policy": {"matchExpressions": [expression]}}})),
    )
}

/// The same for the whole Gateway.
fn wide_guard(user: &str) -> Value {
    let mut policy = guard(targets("Gateway", "edge"), "guard", user);
    policy["metadata"]["namespace"] = json!("infra");
    policy
}

#[test]
fn a_policy_that_lets_in_others_closes_what_it_holds_for_until_it_is_judged_and_nothing_else() {
    let own = |user: &str| guard(targets("HTTPRoute", "r"), "guard", user);
    let start = |then| {
        let mut strict = Strict::new(then);
        strict.put(base());
        strict.put([route("r", rules(&["/a"])), route("other", rules(&["/e"]))]);
        strict.settle(accepting);
        strict
    };
    for changes in [vec![own("ann")], vec![own("ann"), own("ben")]] {
        let (first, last) = changes.split_at(changes.len() - 1);
        let begin = |then| {
            let mut strict = start(then);
            strict.put(first.to_vec());
            strict.settle(accepting);
            strict.put(last.to_vec());
            strict
        };
        // Somebody is about to judge it: no request is lost for it.
        let mut strict = begin(WhenUnavailable::Hold);
        strict.settle(|_| Word::Judging);
        assert_eq!(strict.routes(), [at("/a", None), at("/e", None)]);
        strict.later(Duration::from_secs(1), |_| Word::Judging);
        assert_eq!(strict.routes(), [at("/a", Some(500)), at("/e", None)]);
        strict.settle(accepting);
        assert_eq!(strict.routes(), [at("/a", None), at("/e", None)]);
        // Nobody is.
        for word in [Word::Unknown, Word::Suspect] {
            let mut strict = begin(WhenUnavailable::Hold);
            strict.settle(|_| word.clone());
            assert_eq!(strict.routes(), [at("/a", Some(500)), at("/e", None)], "{word:?}");
        }
        // What is sent without a word anyway is sent at once.
        let mut strict = begin(WhenUnavailable::Standard);
        strict.settle(nobody);
        assert_eq!(strict.routes(), [at("/a", None), at("/e", None)]);
        assert!(strict.gate.waived() > 0 && says(&strict, ResourceKind::RouteConfiguration, "rbac"));
    }
}

#[test]
fn a_policy_of_a_gateway_that_lets_in_others_closes_it_until_it_is_judged() {
    let start = |then| {
        let mut strict = Strict::new(then);
        strict.put(base());
        strict.put([route("r", rules(&["/a"]))]);
        strict.settle(accepting);
        strict.put([wide_guard("ann")]);
        strict
    };
    let mut strict = start(WhenUnavailable::Hold);
    strict.settle(|_| Word::Judging);
    assert_eq!(strict.routes(), [at("/a", None)]);
    strict.later(Duration::from_secs(1), |_| Word::Judging);
    assert_eq!(strict.routes(), [at("/", Some(500))]);
    strict.settle(accepting);
    assert_eq!(strict.routes(), [at("/a", None)]);
    assert!(says(&strict, ResourceKind::RouteConfiguration, "rbac"));
    let mut strict = start(WhenUnavailable::Hold);
    strict.settle(nobody);
    assert_eq!(strict.routes(), [at("/", Some(500))]);
    let mut strict = start(WhenUnavailable::Standard);
    strict.settle(nobody);
    assert_eq!(strict.routes(), [at("/a", None)]);
    assert!(says(&strict, ResourceKind::RouteConfiguration, "rbac"));
}

#[test]
fn a_policy_of_a_gateway_that_was_not_valid_serves_nothing_before_it_is_judged() {
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(base());
    let mut broken = wide_guard("ann");
    broken["spec"]["rbac"]["policy"]["matchExpressions"] = json!(["("]);
    strict.put([route("r", rules(&["/a"])), broken]);
    strict.settle(accepting);
    assert_eq!(strict.routes(), [at("/", Some(500))]);
    strict.put([wide_guard("ann")]);
    strict.settle(|_| Word::Judging);
    assert_eq!(strict.routes(), [at("/", Some(500))]);
    strict.settle(accepting);
    assert_eq!(strict.routes(), [at("/a", None)]);
    assert!(says(&strict, ResourceKind::RouteConfiguration, "rbac"));
}

/// Which rule of its route stands for a match is told by the match: another one may come before it.
#[test]
fn a_rule_that_moves_is_compared_with_itself() {
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(base());
    let none = |path: &str| {
        let mut rule = rule(path);
        rule["backendRefs"] = json!([{"name": "none", "port": 80}]);
        rule
    };
    strict.put([service("t"), route("r", json!({"rules": [none("/none"), rule("/a"), rule("/b")]}))]);
    strict.settle(accepting);
    assert_eq!(strict.routes(), [at("/a", None), at("/b", None), at("/none", Some(500))]);
    let mut to_t = rule("/b");
    to_t["backendRefs"] = json!([{"name": "gone", "port": 80}]);
    strict.put([route("r", json!({"rules": [rule("/new"), none("/none"), rule("/a"), to_t]}))]);
    strict.settle(|sent| if contains(sent, "/new") { Word::Unknown } else { Word::Accepted });
    assert_eq!(strict.routes(), [at("/a", None), at("/b", Some(500)), at("/none", Some(500))]);
}

/// A rule that comes before those that delegate moves all that stands below them.
#[test]
fn what_stands_below_rules_that_move_is_compared_with_itself() {
    let parent = |paths: &[(&str, &str)], own: &[&str]| {
        let below = paths.iter().map(|(path, child)| delegates(path, &[child]));
        let rules: Vec<_> = own.iter().map(|path| rule(path)).chain(below).collect();
        route("parent", json!({"rules": rules}))
    };
    let child = |name: &str, path: &str, service: &str| {
        let mut rule = rule(path);
        rule["backendRefs"][0]["name"] = json!(service);
        route(name, json!({"parentRefs": [], "rules": [rule]}))
    };
    let below = [("/one", "one"), ("/two", "two")];
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(base());
    strict.put([service("t"), child("one", "/one/x", "s"), child("two", "/two/x", "t"), parent(&below, &[])]);
    strict.settle(accepting);
    let open = [at("/one/x", None), at("/two/x", None)];
    let served =
        |strict: &Strict| strict.routes().into_iter().filter(|(path, _)| path.ends_with("/x")).collect::<Vec<_>>();
    assert_eq!(served(&strict), open);
    let waiting = |sent: &Sent| if contains(sent, "/new") { Word::Unknown } else { Word::Accepted };
    strict.put([parent(&below, &["/new"])]);
    strict.settle(waiting);
    assert_eq!(served(&strict), open);
    strict.later(T, waiting);
    assert_eq!(served(&strict), open, "for however long");
    // What goes meanwhile is gone.
    strict.remove(service("t"));
    strict.settle(waiting);
    assert_eq!(served(&strict), [at("/one/x", None), at("/two/x", Some(500))]);
    strict.put([parent(&[("/two", "two")], &["/new"])]);
    strict.settle(waiting);
    assert_eq!(served(&strict)[0], at("/one/x", Some(500)));
}

/// What a BackendTLSPolicy comes to is another cluster: what went there in plain text ends.
#[test]
fn a_backend_of_which_a_policy_says_tls_has_nothing_in_plain_text_until_that_is_judged() {
    let authorities = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca", "namespace": "apps"},
        "data": {"ca.crt": certificates()[0].0}});
    let policy = json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "BackendTLSPolicy",
        "metadata": {"name": "p", "namespace": "apps"},
        "spec": {"targetRefs": [{"group": "", "kind": "Service", "name": "s"}], "validation": {"hostname": "s.example",
            "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}]}}});
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(base());
    let mut to_t = rule("/t");
    to_t["backendRefs"][0]["name"] = json!("t");
    strict.put([service("t"), authorities, route("r", json!({"rules": [rule("/s"), to_t]}))]);
    strict.settle(accepting);
    strict.put([policy]);
    strict.settle(|_| Word::Judging);
    assert_eq!(strict.routes(), [at("/s", None), at("/t", None)]);
    strict.later(Duration::from_secs(1), |_| Word::Judging);
    assert_eq!(strict.routes(), [at("/s", Some(500)), at("/t", None)]);
    strict.settle(accepting);
    assert_eq!(strict.routes(), [at("/s", None), at("/t", None)]);
    assert!(strict.sent.keys().any(|key| &*key.name == "service/apps/s/80/tls"));
}
