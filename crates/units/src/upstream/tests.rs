use serde_json::json;

use super::*;

fn said(spec: Value) -> Result<UpstreamSaid, Problem> {
    let spec = serde_json::from_value(spec).expect("a spec");
    read(&spec, &|name| Err(format!("Secret {name} does not exist")))
}

#[test]
fn every_field_of_the_sample_is_sound_and_says_something() {
    let said = said(samples()).expect("a policy");
    assert_eq!((said.faults, said.warnings), (Vec::new(), Vec::new()));
    let unsaid = ["http2ProtocolOptions"];
    assert_eq!(said.fields.len() + unsaid.len(), FIELDS.len());
}

#[test]
fn a_fault_stays_with_its_field() {
    for (spec, field) in [
        (json!({"connectTimeout": "0s"}), "spec.connectTimeout"),
        (json!({"connectTimeout": 5}), "spec.connectTimeout"),
        (json!({"perConnectionBufferLimitBytes": 0}), "spec.perConnectionBufferLimitBytes"),
        (json!({"perConnectionBufferLimitBytes": 1 << 30}), "spec.perConnectionBufferLimitBytes"),
        (json!({"tcpKeepalive": {"keepAliveTime": "500ms"}}), "spec.tcpKeepalive.keepAliveTime"),
        (json!({"tcpKeepalive": {"keepAliveInterval": "9999h"}}), "spec.tcpKeepalive.keepAliveInterval"),
        (json!({"tcpKeepalive": {"keepAliveProbes": 128}}), "spec.tcpKeepalive.keepAliveProbes"),
        (
            json!({"commonHttpProtocolOptions": {"maxHeadersCount": 0}}),
            "spec.commonHttpProtocolOptions.maxHeadersCount",
        ),
        (
            json!({"http2ProtocolOptions": {"initialStreamWindowSize": "2Gi"}}),
            "spec.http2ProtocolOptions.initialStreamWindowSize",
        ),
        (
            json!({"http2ProtocolOptions": {"initialConnectionWindowSize": 1000}}),
            "spec.http2ProtocolOptions.initialConnectionWindowSize",
        ),
        (
            json!({"http2ProtocolOptions": {"connectionKeepalive": {"timeout": "0s"}}}),
            "spec.http2ProtocolOptions.connectionKeepalive.timeout",
        ),
        (
            json!({"http2ProtocolOptions": {"connectionKeepalive": {"timeout": "1s", "interval": "1ms"}}}),
            "spec.http2ProtocolOptions.connectionKeepalive.interval",
        ),
        (
            json!({"http2ProtocolOptions": {"connectionKeepalive": {"timeout": "1s", "connectionIdleInterval": "999ms"}}}),
            "spec.http2ProtocolOptions.connectionKeepalive.connectionIdleInterval",
        ),
        (json!({"loadBalancer": {}}), "spec.loadBalancer"),
        (json!({"loadBalancer": {"random": {}, "roundRobin": {}}}), "spec.loadBalancer"),
        (json!({"loadBalancer": {"random": {}, "zoneAware": {"preferLocal": {}}}}), "spec.loadBalancer.zoneAware"),
        (json!({"loadBalancer": {"random": {}, "localityType": "WeightedLb"}}), "spec.loadBalancer.localityType"),
        (
            json!({"loadBalancer": {"ringHash": {"maximumRingSize": 8_388_608}}}),
            "spec.loadBalancer.ringHash.maximumRingSize",
        ),
        (
            json!({"loadBalancer": {"ringHash": {"maximumRingSize": 1000}}}),
            "spec.loadBalancer.ringHash.maximumRingSize",
        ),
        (json!({"loadBalancer": {"leastRequest": {"choiceCount": 1}}}), "spec.loadBalancer.leastRequest.choiceCount"),
        (
            json!({"loadBalancer": {"roundRobin": {"slowStart": {"aggression": "0"}}}}),
            "spec.loadBalancer.roundRobin.slowStart.aggression",
        ),
        (
            json!({"loadBalancer": {"maglev": {"hashPolicies": [{"header": {"name": "a b"}}]}}}),
            "spec.loadBalancer.maglev.hashPolicies[0].header.name",
        ),
        (
            json!({"loadBalancer": {"maglev": {"hashPolicies": [{"sourceIP": {}, "cookie": {"name": "a"}}]}}}),
            "spec.loadBalancer.maglev.hashPolicies[0]",
        ),
        (
            json!({"healthCheck": {"timeout": "1s", "interval": "1ms", "unhealthyThreshold": 1, "healthyThreshold": 1,
                "http": {"path": "/"}}}),
            "spec.healthCheck.interval",
        ),
        (
            json!({"healthCheck": {"timeout": "1s", "interval": "1s", "unhealthyThreshold": 1, "healthyThreshold": 1}}),
            "spec.healthCheck",
        ),
        (
            json!({"healthCheck": {"timeout": "1s", "interval": "1s", "unhealthyThreshold": 1, "healthyThreshold": 1,
                "http": {"path": "x"}}}),
            "spec.healthCheck.http.path",
        ),
        (json!({"outlierDetection": {"interval": "0s"}}), "spec.outlierDetection.interval"),
        (json!({"outlierDetection": {"maxEjectionPercent": 101}}), "spec.outlierDetection.maxEjectionPercent"),
        (json!({"circuitBreakers": {}}), "spec.circuitBreakers"),
        (json!({"circuitBreakers": {"maxConnections": 0}}), "spec.circuitBreakers.maxConnections"),
        (json!({"dns": {"refreshRate": "10ms"}}), "spec.dns.refreshRate"),
        (json!({"dns": {"refreshRate": "1s", "jitter": "2s"}}), "spec.dns.jitter"),
        (json!({"upstreamProxyProtocol": {"version": "V3"}}), "spec.upstreamProxyProtocol.version"),
        (json!({"tls": {}}), "spec.tls"),
    ] {
        let mut whole = json!({"maxRetries": null, "outlierDetection": {"consecutive5xx": 1}, "connectTimeout": "1s"});
        whole.as_object_mut().expect("a mapping").extend(spec.as_object().expect("a mapping").clone());
        let said = said(whole).expect("a policy");
        let faults: Vec<_> = said.faults.iter().map(|(_, problem)| problem.field.trim_end_matches('.')).collect();
        assert_eq!(faults, [field], "{spec}");
    }
    assert_eq!(said(json!({"unheardOf": {}})).expect_err("refused").field, "spec.unheardOf");
}

#[test]
fn what_cannot_hold_for_a_backend_is_refused_there() {
    let config = |spec: Value| said(spec).expect("a policy").config;
    let to = |protocol, by_name| Destination { protocol, by_name, may_be_local: false, has_trust_store: true };
    let grpc = json!({"healthCheck": {"timeout": "1s", "interval": "1s", "unhealthyThreshold": 1, "healthyThreshold": 1,
        "grpc": {}}});
    assert!(fit(config(grpc.clone()), to(Protocol::H2c, false)).is_ok());
    assert!(fit(config(grpc.clone()), to(Protocol::Http1, false)).is_err(), "Envoy would refuse it");
    assert!(fit(config(grpc), to(Protocol::H2c, true)).is_err(), "past the guard of local addresses");
    let system = json!({"tls": {"wellKnownCACertificates": "System"}});
    assert!(fit(config(system.clone()), to(Protocol::Http1, false)).is_err(), "anybody's certificate would do");
    let by_name = fit(config(system), to(Protocol::Http1, true)).expect("sound").tls.expect("TLS");
    assert!(by_name.by_endpoint);
}
