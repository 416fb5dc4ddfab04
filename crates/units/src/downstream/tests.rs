use std::time::Duration;

use api::listener_policy::ListenerPolicySpec;
use ir::{
    downstream::{ProxyProtocolFrom, ServerHeader},
    settings::Edge,
};
use serde_json::{Value, json};

use super::{DownstreamSaid, fields, read, samples};

fn said(spec: &Value) -> DownstreamSaid {
    let spec: ListenerPolicySpec = serde_json::from_value(spec.clone()).expect("a spec");
    read(&spec, &Edge::default()).expect("it is read")
}

fn log(filter: &Value) -> Value {
    json!({"fileSink": {"path": "/dev/stdout", "stringFormat": "a"}, "filter": filter})
}

fn faults(config: &Value) -> Vec<String> {
    said(&json!({ "default": config })).faults().map(ToString::to_string).collect()
}

/// All fields of the definition of the kind, as paths below a listener.
fn defined() -> Vec<String> {
    let crd = include_str!("../../../../charts/portcullis-crds/files/gateway.kgateway.dev_listenerpolicies.yaml");
    let indent = |line: &str| line.len() - line.trim_start().len();
    let below = |lines: Vec<&'static str>, key: &str| -> Vec<&'static str> {
        let at = lines.iter().position(|line| line.trim() == format!("{key}:")).expect("it is there");
        let depth = indent(lines[at]);
        lines[at + 1..].iter().take_while(|line| indent(line) > depth).copied().collect()
    };
    let names = |lines: &[&'static str]| -> Vec<&'static str> {
        let depth = indent(lines[0]);
        lines.iter().filter(|line| indent(line) == depth).map(|line| line.trim().trim_end_matches(':')).collect()
    };
    let listener = below(below(crd.lines().collect(), "default"), "properties");
    let http = below(below(listener.clone(), "httpSettings"), "properties");
    let mut all: Vec<_> = names(&listener).into_iter().filter(|name| *name != "httpSettings").map(Into::into).collect();
    all.extend(names(&http).iter().map(|name| format!("httpSettings.{name}")));
    all.sort();
    all
}

#[test]
fn every_field_of_the_definition_is_read_or_refused_by_name() {
    let mut known: Vec<_> = fields().map(|(field, _)| field.to_owned()).collect();
    known.sort();
    assert_eq!(known, defined());
}

#[test]
fn the_samples_are_sound() {
    let said = said(&json!({"default": samples()}));
    assert_eq!(said.faults().map(ToString::to_string).collect::<Vec<_>>(), Vec::<String>::new());
    assert_eq!(said.warnings().count(), 0);
    let config = &said.default.as_ref().expect("said").config;
    assert_eq!(config.proxy_protocol, Some(ProxyProtocolFrom::Some));
    assert_eq!(config.http.server, Some(ServerHeader::Overwrite));
    assert_eq!(config.http.client.as_ref().expect("said").trusted_ranges.len(), 2);
}

#[test]
fn what_is_said_of_a_port_stands_in_place_of_the_default() {
    let said = said(&json!({
        "default": {"perConnectionBufferLimitBytes": 1024, "proxyProtocol": {}},
        "perPort": [{"port": 8443, "listener": {"httpSettings": {"idleTimeout": "5s"}}}],
    }));
    let at = |port| &said.at(port).expect("said").config;
    assert_eq!(at(8080).buffer_bytes, Some(1024));
    assert_eq!(at(8443).buffer_bytes, None);
    assert_eq!(at(8443).http.idle_timeout, Some(Duration::from_secs(5)));
}

#[test]
fn no_policy_goes_beyond_a_bound_of_the_settings() {
    let said = said(&json!({"default": {"perConnectionBufferLimitBytes": 1_000_000, "httpSettings": {
        "maxHeadersCount": 5000, "maxRequestHeadersKb": 8192, "idleTimeout": "0s",
        "http2ProtocolOptions": {"maxConcurrentStreams": 100_000, "initialStreamWindowSize": "16Mi"}}}}));
    assert_eq!(said.faults().count(), 0);
    let warnings: Vec<_> = said.warnings().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 6, "{warnings:#?}");
    let (config, edge) = (&said.default.as_ref().expect("said").config, Edge::default());
    assert_eq!(config.buffer_bytes, Some(edge.buffer_bytes));
    assert_eq!(config.http.max_headers, Some(edge.max_request_headers));
    assert_eq!(config.http.max_headers_kib, Some(edge.max_request_headers_kib));
    assert_eq!(config.http.idle_timeout, Some(edge.idle_timeout));
    assert_eq!(config.http.http2.expect("said").max_streams, Some(edge.max_concurrent_streams));
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    for (config, field) in [
        (json!({"clientCertificateValidation": {}}), "default.clientCertificateValidation"),
        (json!({"httpSettings": {"acceptHttp10": true}}), "default.httpSettings.acceptHttp10"),
        (
            json!({"httpSettings": {"accessLog": [{"fileSink": {"path": "/tmp/log", "stringFormat": "a"}}]}}),
            "default.httpSettings.accessLog[0].fileSink.path",
        ),
        (
            json!({"httpSettings": {"accessLog": [{"fileSink": {"path": "/dev/stdout", "stringFormat": "%ENVIRONMENT(A)%"}}]}}),
            "default.httpSettings.accessLog[0].fileSink.stringFormat",
        ),
        (
            json!({"httpSettings": {"accessLog": [{"fileSink": {"path": "/dev/stdout"}}]}}),
            "default.httpSettings.accessLog[0].fileSink",
        ),
        (
            json!({"httpSettings": {"accessLog": [{"grpcService": {"logName": "a", "backendRef": {"name": "b"}}}]}}),
            "default.httpSettings.accessLog[0].grpcService",
        ),
        (
            json!({"httpSettings": {"accessLog": [{"openTelemetry": {}}]}}),
            "default.httpSettings.accessLog[0].openTelemetry",
        ),
        (
            json!({"httpSettings": {"accessLog": [log(&json!({"celFilter": {"match": "true"}}))]}}),
            "default.httpSettings.accessLog[0].filter.celFilter",
        ),
        (json!({"httpSettings": {"accessLog": [log(&json!({}))]}}), "default.httpSettings.accessLog[0].filter"),
        (
            json!({"httpSettings": {"accessLog": [log(&json!({"responseFlagFilter": {"flags": ["NO"]}}))]}}),
            "default.httpSettings.accessLog[0].filter.responseFlagFilter.flags[0]",
        ),
        (
            json!({"httpSettings": {"accessLog": [log(&json!({"headerFilter": {"header":
                {"name": "a", "value": "b", "type": "RegularExpression"}}}))]}}),
            "default.httpSettings.accessLog[0].filter.headerFilter.header.type",
        ),
        (json!({"httpSettings": {"localReplies": {}}}), "default.httpSettings.localReplies"),
        (json!({"httpSettings": {"healthCheck": {"path": "/"}}}), "default.httpSettings.healthCheck"),
        (
            json!({"httpSettings": {"earlyRequestHeaderModifier": {}}}),
            "default.httpSettings.earlyRequestHeaderModifier",
        ),
        (json!({"httpSettings": {"uuidRequestIdConfig": {}}}), "default.httpSettings.uuidRequestIdConfig"),
        (json!({"httpSettings": {"xffTrustedCIDRs": ["10.0.0.0/8"]}}), "default.httpSettings.useRemoteAddress"),
        (json!({"httpSettings": {"xffTrustedCIDRs": ["10.0.0.1/8"]}}), "default.httpSettings.xffTrustedCIDRs"),
        (
            json!({"httpSettings": {"upgradeConfig": {"enabledUpgrades": ["CONNECT"]}}}),
            "default.httpSettings.upgradeConfig.enabledUpgrades[0]",
        ),
        (
            json!({"httpSettings": {"http2ProtocolOptions": {"allowConnect": true}}}),
            "default.httpSettings.http2ProtocolOptions.allowConnect",
        ),
        (json!({"httpSettings": {"serverName": "a\nb"}}), "default.httpSettings.serverName"),
        (json!({"httpSettings": {"fromTheFuture": 1}}), "default.httpSettings.fromTheFuture"),
        (json!({"httpSettings": 3}), "default.httpSettings"),
        (json!({"fromTheFuture": 1}), "default.fromTheFuture"),
        (json!({"proxyProtocol": {"version": 2}}), "default.proxyProtocol"),
        (json!({"tcpKeepalive": {"keepAliveTime": "1ms"}}), "default.tcpKeepalive.keepAliveTime"),
        (json!({"transportSocketConnectTimeout": "0s"}), "default.transportSocketConnectTimeout"),
    ] {
        let faults = faults(&config);
        assert!(faults.iter().any(|fault| fault.contains(&format!("spec.{field}"))), "{field}: {faults:?}");
    }
}
