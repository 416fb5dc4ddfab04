//! Backends and policies about connections, now and then with something that Envoy refuses.

use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::{Value, json};

use super::values;

/// A Backend.
pub(super) fn backend() -> BoxedStrategy<Value> {
    let host = prop_oneof![
        8 => select(&["10.0.0.1", "10.0.0.2", "fd00::1"][..]).prop_map(str::to_owned),
        2 => Just("nobody.invalid".to_owned()),
        1 => select(&["127.0.0.1", "169.254.169.254", "224.0.0.1", "localhost", "::", "127.1", "a b"][..])
            .prop_map(str::to_owned),
        1 => values::hostile(),
    ];
    let port = prop_oneof![9 => select(&[80, 443, 65_535][..]), 1 => select(&[0, -1, 65_536, i32::MAX][..])];
    let host = (host, port).prop_map(|(host, port)| json!({"host": host, "port": port}));
    let protocol = option::weighted(
        0.3,
        prop_oneof![
            4 => select(&["http2", "grpc", "grpc-web", "kubernetes.io/h2c", "kubernetes.io/ws"][..]).prop_map(str::to_owned),
            1 => values::hostile(),
        ],
    );
    let hosts = (vec(host, 1..4), protocol).prop_map(|(hosts, protocol)| {
        let mut spec = json!({"hosts": hosts});
        if let Some(protocol) = protocol {
            spec["appProtocol"] = json!(protocol);
        }
        json!({"static": spec})
    });
    let spec = prop_oneof![
        12 => hosts,
        1 => Just(json!({"dynamicForwardProxy": {}})),
        1 => Just(json!({"gcp": {"host": "h"}})),
    ];
    spec.prop_map(|spec| {
        json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "Backend",
            "metadata": {"namespace": "apps", "labels": {"hosts": "some"}}, "spec": spec})
    })
    .boxed()
}

/// A BackendTLSPolicy, on a Service or one of its ports, or on a Backend.
pub(super) fn tls_policy() -> BoxedStrategy<Value> {
    let section = option::weighted(0.4, select(&["http", "other", "missing"][..]));
    let service = select(&["s0", "s1", "s2", "missing"][..]);
    let target = (service, section).prop_map(|(service, section)| {
        let mut target = json!({"group": "", "kind": "Service", "name": service});
        if let Some(section) = section {
            target["sectionName"] = json!(section);
        }
        target
    });
    let host = select(&["b0", "b1"][..])
        .prop_map(|name| json!({"group": "gateway.kgateway.dev", "kind": "Backend", "name": name}));
    let target = prop_oneof![4 => target, 1 => host];
    let authorities = (select(&["ConfigMap", "Secret", "Service"][..]), select(&["t0", "t1", "k0", "missing"][..]))
        .prop_map(|(kind, name)| json!({"group": "", "kind": kind, "name": name}));
    let trust = prop_oneof![
        8 => vec(authorities, 1..4).prop_map(|refs| ("caCertificateRefs", json!(refs))),
        2 => Just(("wellKnownCACertificates", json!("System"))),
        1 => values::hostile().prop_map(|name| ("wellKnownCACertificates", json!(name))),
    ];
    let hostname = || prop_oneof![9 => values::hostname(), 1 => values::hostile()];
    let name = prop_oneof![
        3 => hostname().prop_map(|name| json!({"type": "Hostname", "hostname": name})),
        2 => Just(json!({"type": "URI", "uri": "spiffe://a.example/b"})),
        1 => values::hostile().prop_map(|uri| json!({"type": "URI", "uri": uri})),
        1 => values::hostile().prop_map(|kind| json!({"type": kind})),
    ];
    let options = option::weighted(0.05, Just(json!({"example.com/a": "b"})));
    let names = prop_oneof![3 => Just(Vec::new()), 2 => vec(name, 1..6)];
    (vec(target, 1..3), trust, hostname(), names, options, select(&[2020, 2021][..]))
        .prop_map(|(targets, (field, trust), hostname, names, options, year)| {
            let mut spec = json!({"targetRefs": targets, "validation": {"hostname": hostname, "subjectAltNames": names}});
            spec["validation"][field] = trust;
            if let Some(options) = options {
                spec["options"] = options;
            }
            json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "BackendTLSPolicy",
                "metadata": {"namespace": "apps", "creationTimestamp": format!("{year}-01-01T00:00:00Z")}, "spec": spec})
        })
        .boxed()
}

/// A ConfigMap with authorities, now and then with something else.
pub(super) fn authorities(pems: &'static [(&'static str, &'static str)]) -> BoxedStrategy<Value> {
    let pem = select(pems).prop_map(|(chain, _)| chain.to_owned());
    let text = prop_oneof![
        8 => vec(pem, 1..3).prop_map(|all| all.concat()),
        1 => select(pems).prop_map(|(chain, key)| format!("{chain}{key}")),
        1 => values::hostile(),
    ];
    option::weighted(0.9, text)
        .prop_map(|text| {
            let data = text.map_or_else(|| json!({}), |text| json!({"ca.crt": text}));
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "apps"}, "data": data})
        })
        .boxed()
}

/// A BackendConfigPolicy with some of all fields.
pub(super) fn config_policy() -> BoxedStrategy<Value> {
    let Value::Object(sound) = ::units::upstream::samples() else { return Just(Value::Null).boxed() };
    let sound: Vec<_> = sound.into_iter().collect();
    let other = [
        ("http2ProtocolOptions", json!({"initialStreamWindowSize": "64Ki", "connectionKeepalive": {"timeout": "1s"}})),
        ("loadBalancer", json!({"maglev": {"hashPolicies": [{"sourceIP": {}}]}})),
        (
            "loadBalancer",
            json!({"leastRequest": {"choiceCount": 3, "slowStart": {"window": "1s", "aggression": "1.5"}}}),
        ),
        ("loadBalancer", json!({"random": {}, "healthyPanicThreshold": 100})),
        ("loadBalancer", json!({"ringHash": {"maximumRingSize": 1}})),
        (
            "healthCheck",
            json!({"timeout": "1s", "interval": "1h", "unhealthyThreshold": 0, "healthyThreshold": 0, "grpc": {}}),
        ),
        ("tls", json!({"insecureSkipVerify": true})),
        ("tls", json!({"secretRef": {"name": "missing"}})),
        ("tls", json!({"wellKnownCACertificates": "System"})),
        ("connectTimeout", json!("0s")),
        ("perConnectionBufferLimitBytes", json!(0)),
        ("unheardOf", json!({})),
    ];
    let other: Vec<_> = other.into_iter().map(|(field, value)| (field.to_owned(), value)).collect();
    // Most of what is drawn is what Envoy can be asked about everywhere.
    let field = prop_oneof![6 => select(sound), 2 => select(other)];
    let targets = prop_oneof![
        3 => select(&["s0", "s1", "s2"][..]).prop_map(|name| json!({"group": "", "kind": "Service", "name": name})),
        2 => select(&["b0", "b1"][..])
            .prop_map(|name| json!({"group": "gateway.kgateway.dev", "kind": "Backend", "name": name})),
    ];
    (vec(field, 0..4), vec(targets, 1..3), any::<bool>(), option::weighted(0.2, -1..2_i32))
        .prop_map(|(fields, targets, selects, weight)| {
            let mut spec = json!({"targetRefs": targets});
            if selects {
                spec["targetSelectors"] =
                    json!([{"group": "gateway.kgateway.dev", "kind": "Backend", "matchLabels": {"hosts": "some"}}]);
            }
            for (field, value) in fields {
                spec[field.as_str()] = value;
            }
            let mut policy = json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "BackendConfigPolicy",
                "metadata": {"namespace": "apps"}, "spec": spec});
            if let Some(weight) = weight {
                policy["metadata"]["annotations"] = json!({"kgateway.dev/policy-weight": weight.to_string()});
            }
            policy
        })
        .boxed()
}
