//! What servers are told of requests: logs and traces.

use std::sync::Arc;

use envoy_types::pb::{
    envoy::{
        config::{
            core::v3::{
                ApiVersion, BackoffStrategy, GrpcService, HeaderValue, RetryPolicy, TypedExtensionConfig,
                grpc_service::{EnvoyGrpc, TargetSpecifier},
            },
            trace::v3::{
                OpenTelemetryConfig,
                tracing::{Http, http::ConfigType},
            },
        },
        extensions::{
            access_loggers::{
                grpc::v3::{CommonGrpcAccessLogConfig, HttpGrpcAccessLogConfig},
                open_telemetry::v3::OpenTelemetryAccessLogConfig,
            },
            filters::network::http_connection_manager::v3::http_connection_manager::Tracing as EnvoyTracing,
            tracers::opentelemetry::samplers::v3::AlwaysOnSamplerConfig,
        },
        r#type::{tracing::v3::CustomTag, v3::Percent},
    },
    google::protobuf::Any,
    opentelemetry::proto::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList, any_value},
};
use ir::{
    NsName,
    telemetry::{RemoteLog, RemoteSays, Sink, TelemetryValue, Tracing},
};
use prost::Message;

use crate::{boolean, bytes::any, duration, extension, uint32};

/// The name and the configuration of a log.
pub(super) fn log(log: &RemoteLog, gateway: &NsName) -> (&'static str, Any) {
    let names = |list: &[Arc<str>]| list.iter().map(ToString::to_string).collect();
    match &log.says {
        RemoteSays::Entries { request_headers, response_headers, response_trailers } => {
            let message = HttpGrpcAccessLogConfig {
                common_config: Some(CommonGrpcAccessLogConfig {
                    log_name: log.name.to_string(),
                    grpc_service: Some(service(&log.sink)),
                    transport_api_version: ApiVersion::V3 as i32,
                    ..CommonGrpcAccessLogConfig::default()
                }),
                additional_request_headers_to_log: names(request_headers),
                additional_response_headers_to_log: names(response_headers),
                additional_response_trailers_to_log: names(response_trailers),
            };
            (extension::GRPC_ACCESS_LOG, any(&message))
        }
        RemoteSays::Records { body, attributes, resource, builtin } => {
            let said = |key: &str| resource.iter().any(|(known, _)| **known == *key);
            let own = [("service.name", service_name(gateway)), ("service.namespace", gateway.namespace.to_string())];
            let own = own.into_iter().filter(|(key, _)| !said(key)).map(|(key, text)| pair(key, text_value(&text)));
            let resource = pairs(resource).chain(own).collect();
            let message = OpenTelemetryAccessLogConfig {
                log_name: log.name.to_string(),
                grpc_service: Some(service(&log.sink)),
                disable_builtin_labels: !builtin,
                resource_attributes: Some(KeyValueList { values: resource }),
                body: body.as_ref().map(|body| text_value(body)),
                attributes: (!attributes.is_empty()).then(|| KeyValueList { values: pairs(attributes).collect() }),
                ..OpenTelemetryAccessLogConfig::default()
            };
            (extension::OPEN_TELEMETRY_ACCESS_LOG, any(&message))
        }
    }
}

/// Which requests are traced.
pub(super) fn tracing(said: &Tracing, gateway: &NsName) -> EnvoyTracing {
    let percent = |share: Option<u32>| share.map(|share| Percent { value: share.into() });
    let service = said.service.as_ref().map_or_else(|| service_name(gateway), ToString::to_string);
    let provider = OpenTelemetryConfig {
        grpc_service: Some(self::service(&said.sink)),
        service_name: service,
        sampler: said.always_on.then(|| TypedExtensionConfig {
            name: extension::ALWAYS_ON_SAMPLER.into(),
            typed_config: Some(any(&AlwaysOnSamplerConfig::default())),
        }),
        ..OpenTelemetryConfig::default()
    };
    EnvoyTracing {
        client_sampling: percent(said.client_sampling),
        random_sampling: percent(said.random_sampling),
        overall_sampling: percent(said.overall_sampling),
        verbose: said.verbose.unwrap_or_default(),
        max_path_tag_length: said.max_path.map(uint32),
        custom_tags: said.tags.iter().filter_map(|tag| CustomTag::decode(&**tag).ok()).collect(),
        provider: Some(Http {
            name: extension::OPEN_TELEMETRY_TRACER.into(),
            config_type: Some(ConfigType::TypedConfig(any(&provider))),
        }),
        spawn_upstream_span: said.upstream_span.map(boolean),
        ..EnvoyTracing::default()
    }
}

/// What a proxy is called unless somebody says otherwise.
fn service_name(gateway: &NsName) -> String {
    format!("{}.{}", gateway.name, gateway.namespace)
}

fn service(sink: &Sink) -> GrpcService {
    let target = EnvoyGrpc {
        cluster_name: sink.cluster_name(),
        authority: sink.authority.to_string(),
        max_receive_message_length: sink.max_answer_bytes.map(uint32),
        skip_envoy_headers: sink.skip_envoy_headers,
        ..EnvoyGrpc::default()
    };
    let header = |(key, value): &(Arc<str>, Arc<str>)| HeaderValue {
        key: key.to_string(),
        value: value.to_string(),
        ..HeaderValue::default()
    };
    GrpcService {
        timeout: sink.timeout.map(duration),
        initial_metadata: sink.metadata.iter().map(header).collect(),
        retry_policy: sink.retries.map(|retries| RetryPolicy {
            num_retries: Some(uint32(retries.attempts)),
            retry_on: "connect-failure,refused-stream,reset,unavailable".into(),
            retry_back_off: retries.backoff.map(|(base, max)| BackoffStrategy {
                base_interval: Some(duration(base)),
                max_interval: max.map(duration),
            }),
            ..RetryPolicy::default()
        }),
        target_specifier: Some(TargetSpecifier::EnvoyGrpc(target)),
    }
}

fn pairs(list: &[(Arc<str>, TelemetryValue)]) -> impl Iterator<Item = KeyValue> {
    list.iter().map(|(key, said)| pair(key, value(said)))
}

fn pair(key: &str, value: AnyValue) -> KeyValue {
    KeyValue { key: key.into(), value: Some(value), ..KeyValue::default() }
}

fn text_value(text: &str) -> AnyValue {
    AnyValue { value: Some(any_value::Value::StringValue(text.into())) }
}

fn value(said: &TelemetryValue) -> AnyValue {
    let value = match said {
        TelemetryValue::Text(text) => return text_value(text),
        TelemetryValue::List(list) => {
            any_value::Value::ArrayValue(ArrayValue { values: list.iter().map(value).collect() })
        }
        TelemetryValue::Map(list) => any_value::Value::KvlistValue(KeyValueList { values: pairs(list).collect() }),
    };
    AnyValue { value: Some(value) }
}
