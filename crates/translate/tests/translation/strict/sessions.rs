//! Clusters of rules with sessions, which are named by what they lead to.

use super::*;

/// Proxies that start meanwhile have the route of before, and pods come and go.
#[test]
fn the_endpoints_of_a_session_follow_while_a_change_of_its_rule_waits() {
    let to = |names: [&str; 2]| {
        let backends = names.map(|name| json!({"name": name, "port": 80}));
        route("r", json!({"rules": [{"sessionPersistence": {}, "backendRefs": backends}]}))
    };
    let slice = |address: &str| {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"namespace": "apps", "name": "t-1", "labels": {"kubernetes.io/service-name": "t"}},
            "ports": [{"name": "", "port": 8080}], "endpoints": [{"addresses": [address]}],
        })
    };
    let endpoints = |strict: &Strict| {
        let of_rule = |key: &&ResourceKey| key.kind == ResourceKind::Endpoints && key.name.contains("/rule/0/");
        let of_rules = strict.sent.iter().filter(|(key, _)| of_rule(key));
        let text = |encoded: &Encoded| String::from_utf8_lossy(&encoded.body.to_bytes()).into_owned();
        of_rules.map(|(_, encoded)| text(encoded)).collect::<Vec<_>>()
    };
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(base());
    strict.put([service("t"), service("u"), slice("192.0.2.1"), to(["s", "t"])]);
    strict.settle(accepting);
    let [before] = &endpoints(&strict)[..] else { panic!("{:?}", endpoints(&strict)) };
    assert!(before.contains("192.0.2.1"), "{before}");
    let said: Vec<_> = strict.said.keys().map(|(fragment, _)| *fragment).collect();
    let is_said = |sent: &Sent| said.contains(&(sent.fragment.kind, sent.fragment.hash));
    let known = |sent: &Sent| if is_said(sent) { Word::Accepted } else { Word::Unknown };
    strict.put([to(["s", "u"])]);
    strict.settle(known);
    strict.put([slice("192.0.2.2")]);
    strict.settle(known);
    let now = endpoints(&strict);
    assert!(now.iter().any(|now| now.contains("192.0.2.2") && now.contains("apps/t/")), "{now:?}");
    strict.settle(accepting);
    let now = endpoints(&strict);
    assert!(now.len() == 1 && now[0].contains("apps/u/"), "{now:?}");
}
