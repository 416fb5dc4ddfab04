use std::time::Duration;

use api::{listener_policy::ListenerPolicySpec, shared::BackendRef};
use ir::{
    NsName,
    backend::{Destination, ServicePort},
    downstream::{CertificateDetail, ProxyProtocolFrom, ServerHeader, ToldOfClients, Traces},
    settings::Edge,
};
use serde_json::{Value, json};

use super::{DownstreamSaid, Lead, Leads, fields, read, samples};

/// Where all is there, but for what is named otherwise.
struct Everywhere;

impl Leads for Everywhere {
    fn lead(&self, to: &BackendRef) -> Result<Lead, (String, String)> {
        let name = &to.backend_ref.name;
        let destination = Destination::Service(ServicePort::tcp(NsName::new("infra", name.clone()), 80));
        match &**name {
            "missing" => Ok(Lead::Nowhere(destination, "it does not exist".into())),
            "foreign" => Ok(Lead::Forbidden("nothing allows it".into())),
            "impossible" => Err((".kind".into(), "it is no backend".into())),
            _ => Ok(Lead::There(destination, None)),
        }
    }
}

fn said(spec: &Value) -> DownstreamSaid {
    let spec: ListenerPolicySpec = serde_json::from_value(spec.clone()).expect("a spec");
    read(&spec, &Edge::default(), &Everywhere).expect("it is read")
}

fn logs(name: &str) -> Value {
    json!({"backendRef": {"name": name, "port": 80}, "logName": "l"})
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
fn backends_are_told_what_is_asked_for_and_who_names_parts_wants_them_told() {
    let told = |written: Value| {
        let said = said(&json!({"default": {"httpSettings": {"forwardClientCertDetails": written}}}));
        assert_eq!(said.faults().count(), 0);
        said.default.expect("said").config.http.told_of_clients.expect("said")
    };
    let parts = json!({"uri": true, "subject": true, "cert": false, "dns": null});
    let of = || [CertificateDetail::Subject, CertificateDetail::Uri].into();
    for (written, expected) in [
        (json!({}), ToldOfClients::Nothing),
        (json!({"mode": "Sanitize"}), ToldOfClients::Nothing),
        (json!({"mode": "ForwardOnly"}), ToldOfClients::Said),
        (json!({"mode": "SanitizeSet"}), ToldOfClients::Shown([].into())),
        (json!({"mode": "AppendForward", "details": parts}), ToldOfClients::SaidAndShown(of())),
        (json!({ "details": parts }), ToldOfClients::Shown(of())),
    ] {
        assert_eq!(told(written.clone()), expected, "{written}");
    }
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
            json!({"httpSettings": {"accessLog": [{"grpcService": {"backendRef": {"name": "b", "port": 80}}}]}}),
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
        (
            json!({"httpSettings": {"forwardClientCertDetails": {"mode": "AlwaysForwardOnly"}}}),
            "default.httpSettings.forwardClientCertDetails.mode",
        ),
        (
            json!({"httpSettings": {"forwardClientCertDetails": {"mode": "Sanitize", "details": {"uri": true}}}}),
            "default.httpSettings.forwardClientCertDetails.details",
        ),
        (
            json!({"httpSettings": {"forwardClientCertDetails": {"details": {"key": true}}}}),
            "default.httpSettings.forwardClientCertDetails.details.key",
        ),
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

#[test]
fn a_server_that_cannot_be_told_is_a_warning_and_no_fault() {
    let logs = json!([{"grpcService": logs("missing")}, {"grpcService": logs("foreign")}, {"grpcService": logs("s")}]);
    let said = said(&json!({"default": {"httpSettings": {"accessLog": logs}}}));
    assert_eq!(said.faults().count(), 0);
    let config = &said.default.as_ref().expect("said").config.http;
    // It stands in the listener all the same, unless it may not be named.
    assert_eq!(config.sinks().map(|sink| sink.is_there).collect::<Vec<_>>(), [false, true]);
    let told: Vec<_> = said.warnings().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("accessLog[0].grpcService.backendRef: nobody is told of requests until"), "{told:?}");
    assert!(told[1].contains("accessLog[1].grpcService.backendRef: nobody is told of requests: nothing"), "{told:?}");
}

#[test]
fn nobody_of_a_weaker_policy_is_told_of_spans_in_place_of_who_may_not_be_named() {
    let tracing = |to: &str| {
        let to = json!({"grpcService": {"backendRef": {"name": to, "port": 80}}});
        said(&json!({"default": {"httpSettings": {"tracing": {"provider": {"openTelemetry": to}}}}}))
    };
    let (preferred, weaker) = (tracing("foreign"), tracing("s"));
    let preferred = preferred.default.as_ref().expect("said");
    assert!(preferred.fields.contains(&"httpSettings.tracing"), "it is said, which trees show: {:?}", preferred.fields);
    let merged = preferred.config.clone().or(&weaker.default.as_ref().expect("said").config);
    assert_eq!((&merged.http.tracing, merged.http.sinks().count()), (&Some(Traces::ToNobody), 0));
}

#[test]
fn what_no_server_could_be_told_is_refused() {
    let of_http = |field: &str, value: Value| faults(&json!({"httpSettings": {field: value}}));
    let entries = |more: Value| {
        let mut service = logs("s");
        service.as_object_mut().expect("a mapping").extend(more.as_object().expect("a mapping").clone());
        of_http("accessLog", json!([{ "grpcService": service }]))
    };
    let records = |more: Value| {
        let mut log = json!({"grpcService": logs("s")});
        log.as_object_mut().expect("a mapping").extend(more.as_object().expect("a mapping").clone());
        of_http("accessLog", json!([{ "openTelemetry": log }]))
    };
    let traces = |more: Value, provider: Value| {
        let mut service = json!({"grpcService": {"backendRef": {"name": "s", "port": 80}}});
        service.as_object_mut().expect("a mapping").extend(provider.as_object().expect("a mapping").clone());
        let mut tracing = json!({"provider": {"openTelemetry": service}});
        tracing.as_object_mut().expect("a mapping").extend(more.as_object().expect("a mapping").clone());
        of_http("tracing", tracing)
    };
    let many: Vec<_> = (0..65).map(|index| format!("x-{index}")).collect();
    let deep = (0..9).fold(json!({"stringValue": "a"}), |inner, _| json!({"arrayValue": [inner]}));
    for (faults, word) in [
        (entries(json!({"backendRef": {"name": "impossible", "port": 80}})), "backendRef.kind"),
        (entries(json!({"backendRef": {"name": "a/b", "port": 80}})), "backendRef.name"),
        (entries(json!({"backendRef": {"name": "a", "namespace": "a/b", "port": 80}})), "backendRef.namespace"),
        (entries(json!({"backendRef": {"name": "a", "port": 80, "section": "x"}})), "backendRef.section"),
        (entries(json!({"logName": ""})), "grpcService.logName"),
        (entries(json!({"timeout": "1h"})), "grpcService.timeout"),
        (entries(json!({"future": 1})), "grpcService"),
        (entries(json!({"initialMetadata": [{"key": "host", "value": "a"}]})), "initialMetadata[0].key"),
        (entries(json!({"initialMetadata": [{"key": "a", "value": "a\nb"}]})), "initialMetadata[0].value"),
        (entries(json!({"initialMetadata": [{"key": "a", "value": "%ENVIRONMENT(A)%"}]})), "initialMetadata[0].value"),
        (entries(json!({"retryPolicy": {"numRetries": 11}})), "retryPolicy.numRetries"),
        (entries(json!({"maxReceiveMessageLength": 0})), "maxReceiveMessageLength"),
        (entries(json!({"additionalRequestHeadersToLog": many})), "additionalRequestHeadersToLog"),
        (entries(json!({"additionalResponseHeadersToLog": ["a b"]})), "additionalResponseHeadersToLog[0]"),
        (records(json!({"body": "%ENVIRONMENT(SECRET)%"})), "openTelemetry.body"),
        (records(json!({"body": "%PROTOCOL%".repeat(65)})), "openTelemetry.body"),
        (records(json!({"attributes": {"values": [{"key": "a", "value": {}}]}})), "attributes.values[0].value"),
        (records(json!({"attributes": {"values": [{"key": "a", "value": deep}]}})), "8 levels"),
        (
            records(json!({"attributes": {"values": [{"key": "a", "value": {"stringValue": "%ENVIRONMENT(A)%"}}]}})),
            "attributes.values[0].value.stringValue",
        ),
        (traces(json!({}), json!({"sampler": {}})), "provider.openTelemetry.sampler"),
        (
            traces(json!({}), json!({"resourceDetectors": [{"environmentResourceDetector": {}}]})),
            "resourceDetectors[0]",
        ),
        (traces(json!({"randomSampling": 101}), json!({})), "randomSampling"),
        (traces(json!({"maxPathTagLength": 0}), json!({})), "maxPathTagLength"),
        (
            traces(json!({"attributes": [{"name": "a", "environment": {"name": "SECRET"}}]}), json!({})),
            "attributes[0].environment",
        ),
        (
            traces(json!({"attributes": [{"name": "a", "literal": {"value": "v".repeat(4096)}}]}), json!({})),
            "attributes: their names, literals and default values have 4097 bytes",
        ),
        (
            of_http("accessLog", json!([{"grpcService": logs("s"), "openTelemetry": {"grpcService": logs("s")}}])),
            "exactly one",
        ),
    ] {
        assert_eq!(faults.len(), 1, "{word}: {faults:?}");
        assert!(faults[0].contains(word), "{word}: {faults:?}");
    }
}

#[test]
fn what_a_server_is_shown_is_printed_nowhere() {
    let mut service = logs("s");
    service["initialMetadata"] = json!([{"key": "authorization", "value": "Bearer hush"}]);
    let said = said(&json!({"default": {"httpSettings": {"accessLog": [{ "grpcService": service }]}}}));
    assert_eq!(said.faults().count(), 0);
    assert!(!format!("{said:?}").contains("hush"));
}
