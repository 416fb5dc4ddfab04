//! Every property, and every value of every enum.

use api::{
    Kind, decode,
    status::{GatewayClassStatus, GatewayStatus, ListenerSetStatus, PolicyStatus, RouteStatus},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::crd::{self, differences, encoded_spec, kinds, manifest, maximal};

#[test]
fn every_property_of_a_spec_survives_decoding_and_encoding() {
    for kind in kinds() {
        let spec = maximal(&crd::spec(kind), "spec");
        let decoded = decode(manifest(kind, &spec)).expect("a manifest of the schema decodes");
        let none: [&str; 0] = [];
        assert_eq!(decoded.unknown_fields, none, "{kind}");
        assert_eq!(differences(&encoded_spec(&decoded.object), &spec, "spec"), none, "{kind}");
    }
}

#[test]
fn every_property_of_a_status_survives_decoding_and_encoding() {
    let of = |kind| crd::schema(kind)["properties"]["status"].take();
    status_survives::<GatewayClassStatus>(&of(Kind::GatewayClass));
    status_survives::<GatewayStatus>(&of(Kind::Gateway));
    status_survives::<ListenerSetStatus>(&of(Kind::ListenerSet));
    status_survives::<RouteStatus>(&of(Kind::HttpRoute));
    for kind in [Kind::GrpcRoute, Kind::TlsRoute, Kind::TcpRoute, Kind::UdpRoute] {
        status_survives::<RouteStatus>(&of(kind));
    }
    status_survives::<PolicyStatus>(&crd::policy_status());
}

fn status_survives<T: Serialize + DeserializeOwned>(schema: &Value) {
    let status = maximal(schema, "status");
    let decoded: T = serde_json::from_value(status.clone()).expect("a status of the schema decodes");
    let encoded = serde_json::to_value(decoded).expect("a status encodes");
    assert_eq!(differences(&encoded, &status, "status"), [""; 0]);
}

#[test]
fn every_value_of_an_enum_has_a_name_of_its_own() {
    let mut seen = 0;
    for kind in kinds() {
        let schema = crd::spec(kind);
        crd::walk(&schema, "spec", &mut |path, node| {
            for value in node["enum"].as_array().into_iter().flatten() {
                let spec = with(&schema, "spec", path, value).expect("the path was found in the schema");
                let decoded = decode(manifest(kind, &spec)).expect("a manifest of the schema decodes");
                let unknown = format!("Unknown({value})");
                assert!(!format!("{:?}", decoded.object).contains(&unknown), "{path}: {value}");
                seen += 1;
            }
        });
    }
    assert!(seen > 50, "the walk must meet the enums, it met {seen} values");
}

/// The maximal instance with this value at the path.
fn with(schema: &Value, here: &str, path: &str, value: &Value) -> Option<Value> {
    if here == path {
        return Some(value.clone());
    }
    let rest = path.strip_prefix(here)?;
    if rest.starts_with("[]") {
        return Some(json!([with(&schema["items"], &format!("{here}[]"), path, value)?]));
    }
    let name = rest.strip_prefix('.')?.split(['.', '[']).next()?;
    let mut instance = maximal(schema, here);
    instance[name] = with(&schema["properties"][name], &format!("{here}.{name}"), path, value)?;
    Some(instance)
}
