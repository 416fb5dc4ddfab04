//! Servers that are told of requests, all that can be said of them.

use std::time::Duration;

use envoy_types::pb::envoy::r#type::tracing::v3::{CustomTag, custom_tag};
use ir::{
    NsName,
    backend::{Destination, ServicePort},
    telemetry::{RemoteLog, RemoteSays, Retries, Sink, TelemetryValue, Tracing},
};
use prost::Message;
use validate::format;

/// One that is told: of which nobody knows a cluster.
fn sink() -> Sink {
    Sink {
        to: Destination::Service(ServicePort::tcp(NsName::new("infra", "collector"), 4317)),
        unary: true,
        is_there: false,
        authority: "collector.infra".into(),
        metadata: [("authorization".into(), "Bearer hush".into())].into(),
        timeout: Some(Duration::from_secs(1)),
        retries: Some(Retries { attempts: 3, backoff: Some((Duration::from_secs(1), Some(Duration::from_secs(2)))) }),
        max_answer_bytes: Some(1024),
        skip_envoy_headers: true,
    }
}

pub(super) fn entries() -> RemoteLog {
    let says = RemoteSays::Entries {
        request_headers: [":path".into(), "x-a".into()].into(),
        response_headers: ["x-b".into()].into(),
        response_trailers: ["x-c".into()].into(),
    };
    RemoteLog { sink: sink(), name: "entries".into(), says }
}

pub(super) fn records() -> RemoteLog {
    let text = |text: &str| TelemetryValue::Text(text.into());
    let operators = format::PLAIN.iter().chain(format::LOGGED).map(|operator| text(&format!("%{operator}%")));
    let map = TelemetryValue::Map([("c".into(), text("%REQ(:path)%"))].into());
    let says = RemoteSays::Records {
        body: Some("%REQ(:method)% 100%%".into()),
        attributes: [("a".into(), TelemetryValue::List(operators.collect())), ("b".into(), map)].into(),
        resource: [("service.name".into(), text("100% mine"))].into(),
        builtin: false,
    };
    RemoteLog { sink: sink(), name: "records".into(), says }
}

pub(super) fn tracing() -> Tracing {
    let tag = CustomTag {
        tag: "a".into(),
        r#type: Some(custom_tag::Type::Literal(custom_tag::Literal { value: "b".into() })),
    };
    Tracing {
        sink: sink(),
        service: None,
        client_sampling: Some(0),
        random_sampling: Some(50),
        overall_sampling: Some(100),
        verbose: Some(true),
        max_path: Some(10),
        tags: [tag.encode_to_vec().into()].into(),
        upstream_span: Some(true),
        always_on: true,
    }
}
