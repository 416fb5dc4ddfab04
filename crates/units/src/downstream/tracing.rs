//! Traces.

use ir::telemetry::Tracing;
use prost::Message;
use serde::Deserialize;
use serde_json::Value;

use super::{Reading, sink};
use crate::{
    Refused, spec,
    tracing::{Attribute, attributes},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TracingSpec {
    provider: ProviderSpec,
    attributes: Option<Vec<Attribute>>,
    client_sampling: Option<i64>,
    random_sampling: Option<i64>,
    overall_sampling: Option<i64>,
    max_path_tag_length: Option<u32>,
    spawn_upstream_span: Option<bool>,
    verbose: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ProviderSpec {
    open_telemetry: Option<OpenTelemetrySpec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OpenTelemetrySpec {
    grpc_service: Value,
    resource_detectors: Option<Vec<DetectorSpec>>,
    sampler: Option<SamplerSpec>,
    service_name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SamplerSpec {
    always_on_config: Option<NothingSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NothingSpec {}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DetectorSpec {
    environment_resource_detector: Option<EnvironmentSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvironmentSpec {
    enable: Option<bool>,
}

/// The longest part of a path that a span tells, in characters.
const LONGEST_PATH: u32 = 4096;

/// None if the server may not be named.
pub(super) fn read(value: &Value, reading: &mut Reading<'_>) -> Result<Option<Tracing>, Refused> {
    let written: TracingSpec = spec::decode(value)?;
    let at = "provider.openTelemetry";
    let Some(provider) = written.provider.open_telemetry else {
        return Err(Refused::new(at, "missing, and nothing else says whom to tell; set it"));
    };
    for (index, detector) in provider.resource_detectors.iter().flatten().enumerate() {
        let is_on = detector.environment_resource_detector.as_ref().is_none_or(|found| found.enable.unwrap_or(true));
        if is_on {
            let field = format!("{at}.resourceDetectors[{index}].environmentResourceDetector");
            let message = "what the environment of a proxy says is not for policies; remove it, or set enable to false";
            return Err(Refused::new(&field, message));
        }
    }
    let field = format!("{at}.sampler");
    let always_on = match provider.sampler {
        None => false,
        Some(SamplerSpec { always_on_config: Some(_) }) => true,
        Some(_) => return Err(Refused::new(&field, "it says nothing; set alwaysOnConfig, or remove it")),
    };
    let service = provider.service_name.filter(|name| !name.is_empty());
    let service = service.map(|name| sink::name(&name, &format!("{at}.serviceName"))).transpose()?;
    let client_sampling = spec::percent(written.client_sampling, "clientSampling")?;
    let random_sampling = spec::percent(written.random_sampling, "randomSampling")?;
    let overall_sampling = spec::percent(written.overall_sampling, "overallSampling")?;
    let max_path = written.max_path_tag_length;
    if max_path.is_some_and(|length| !(1..=LONGEST_PATH).contains(&length)) {
        let message = format!("must be from 1 to {LONGEST_PATH}; correct or remove it");
        return Err(Refused::new("maxPathTagLength", message));
    }
    let tags = attributes(&written.attributes.unwrap_or_default())?;
    let Some(sink) = sink::read(&provider.grpc_service, &format!("{at}.grpcService"), true, reading)? else {
        return Ok(None);
    };
    Ok(Some(Tracing {
        sink,
        service,
        client_sampling,
        random_sampling,
        overall_sampling,
        verbose: written.verbose,
        max_path,
        tags: tags.iter().map(|tag| tag.encode_to_vec().into()).collect(),
        upstream_span: written.spawn_upstream_span,
        always_on,
    }))
}

/// As [`super::samples`], of traces.
#[cfg(any(test, feature = "testing"))]
pub(super) fn samples() -> Value {
    serde_json::json!({"provider": {"openTelemetry": {"grpcService": {"backendRef": {"name": "s0", "port": 80}},
                    "serviceName": "shop", "sampler": {"alwaysOnConfig": {}}, "resourceDetectors": [{"environmentResourceDetector": {"enable": false}}]}},
                "clientSampling": 10, "randomSampling": 20, "overallSampling": 30, "maxPathTagLength": 64, "verbose": true,
                "spawnUpstreamSpan": true, "attributes": [{"name": "tier", "literal": {"value": "edge"}},
                    {"name": "agent", "requestHeader": {"name": "user-agent", "defaultValue": "none"}}]})
}
