//! `tracing`: which requests are traced, and what their spans say.

use std::{collections::BTreeSet, sync::Arc};

use envoy_types::pb::envoy::{
    config::route::v3::{Route, Tracing as EnvoyTracing},
    r#type::{
        metadata::v3::{
            MetadataKey, MetadataKind,
            metadata_key::{PathSegment, path_segment::Segment},
            metadata_kind::{Cluster, Host, Kind, Request, Route as OfRoute},
        },
        tracing::v3::{
            CustomTag,
            custom_tag::{self, Type},
        },
        v3::FractionalPercent,
    },
};
use ir::route::Handling;
use prost::Message;
use serde::Deserialize;
use serde_json::{Map, Value};
use validate::{Invalid, header};

use super::{Deep, Gateways, Refused, Unit, spec};

/// As the CRD has it.
const MOST_ATTRIBUTES: usize = 16;
/// The most bytes of names, literals and default values, which a proxy holds for each span that is not told yet.
const MOST_BYTES: usize = 4096;
/// The longest value of a header that an attribute tells, in bytes.
const LONGEST_HEADER: usize = 4096;

/// Which requests are traced, and what their spans say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    /// An encoded `envoy.config.route.v3.Tracing`.
    message: Arc<[u8]>,
    /// Whether nothing is traced.
    off: bool,
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    client_sampling: Option<i64>,
    random_sampling: Option<i64>,
    overall_sampling: Option<i64>,
    attributes: Option<Vec<Attribute>>,
    disable: Option<Map<String, Value>>,
}

/// An attribute of spans.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Attribute {
    name: String,
    literal: Option<Literal>,
    request_header: Option<RequestHeader>,
    metadata: Option<FromMetadata>,
    environment: Option<Value>,
}

/// A text.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Literal {
    value: String,
}

/// What a header of the request says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RequestHeader {
    name: String,
    #[serde(default)]
    default_value: String,
}

/// What Envoy knows of the request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FromMetadata {
    kind: String,
    metadata_key: Key,
    #[serde(default)]
    default_value: String,
}

/// A place in metadata.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Key {
    key: String,
    path: Vec<Step>,
}

/// A step to it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Step {
    key: String,
}

impl Unit for Tracing {
    const FIELD: &'static str = "tracing";
    const HOLDS_FOR_ANSWERS: bool = true;
    const TARGETS: &'static [&'static str] = &["GRPCRoute", "HTTPRoute"];
    const DEEP: Deep = Deep::Leaves;
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"clientSampling": 1, "attributes": [{"name": "a", "literal": {"value": "1"}}]}"#,
        other: r#"{"clientSampling": 2, "attributes": [{"name": "b", "literal": {"value": "2"}}]}"#,
        merged: Some((
            r#"{"clientSampling": 1, "attributes": [
                {"name": "a", "literal": {"value": "1"}}, {"name": "b", "literal": {"value": "2"}}
            ]}"#,
            r#"{"clientSampling": 2, "attributes": [
                {"name": "b", "literal": {"value": "2"}}, {"name": "a", "literal": {"value": "1"}}
            ]}"#,
        )),
        off: Some(r#"{"disable": {}}"#),
        refused: Some(r#"{"clientSampling": 101}"#),
    };
    type Spec = Spec;

    fn read(written: Spec) -> Result<Self, Refused> {
        let samplings = [
            spec::percent(written.client_sampling, "clientSampling")?,
            spec::percent(written.random_sampling, "randomSampling")?,
            spec::percent(written.overall_sampling, "overallSampling")?,
        ];
        let off = written.disable.is_some();
        let [client, random, overall] = if off {
            if samplings.iter().any(Option::is_some) || written.attributes.is_some() {
                return Err(Refused::new("disable", "it must not stand beside other fields; remove either"));
            }
            [Some(0); 3]
        } else {
            samplings
        }
        .map(|percent| percent.map(spec::fraction));
        let message = EnvoyTracing {
            client_sampling: client,
            random_sampling: random,
            overall_sampling: overall,
            custom_tags: attributes(&written.attributes.unwrap_or_default())?,
            ..EnvoyTracing::default()
        };
        Ok(Self { message: message.encode_to_vec().into(), off })
    }

    /// Each of the samplings is one field, and so is each attribute.
    fn over(&self, other: &Self) -> Option<Self> {
        if self.off || other.off {
            return None;
        }
        let said = |unit: &Self| EnvoyTracing::decode(&*unit.message).ok();
        let (mut own, other) = (said(self)?, said(other)?);
        let others = other.custom_tags.into_iter();
        let others: Vec<_> = others.filter(|tag| own.custom_tags.iter().all(|known| known.tag != tag.tag)).collect();
        own.custom_tags.extend(others);
        let message = EnvoyTracing {
            client_sampling: own.client_sampling.or(other.client_sampling),
            random_sampling: own.random_sampling.or(other.random_sampling),
            overall_sampling: own.overall_sampling.or(other.overall_sampling),
            ..own
        };
        Some(Self { message: message.encode_to_vec().into(), off: false })
    }

    fn disables(&self) -> bool {
        self.off
    }

    fn excess(&self) -> Option<Refused> {
        let message = EnvoyTracing::decode(&*self.message).ok()?;
        bounded(&message.custom_tags, "attributes").err()
    }

    fn apply(&self, rule: &mut Handling) -> bool {
        rule.by_policy.tracing = Some(self.message.clone());
        true
    }

    fn warning(&self, gateways: &dyn Gateways) -> Option<Refused> {
        let message = "it does nothing at a Gateway to which it applies, since nobody is told of spans there; set \
                       httpSettings.tracing in a ListenerPolicy";
        (!gateways.are_traced()).then(|| Refused::new("", message))
    }

    fn explain(route: &Route) -> Option<String> {
        let EnvoyTracing { client_sampling, random_sampling, overall_sampling, custom_tags, .. } =
            route.tracing.as_ref()?;
        let samplings = [("client", client_sampling), ("random", random_sampling), ("overall", overall_sampling)];
        let sampling = |(what, share): (&str, &Option<FractionalPercent>)| {
            Some(format!("{what} sampling {}%", share.as_ref()?.numerator))
        };
        let tags = custom_tags.iter().map(|tag| format!("attribute {}", tag.tag));
        let words: Vec<_> = samplings.into_iter().filter_map(sampling).chain(tags).collect();
        Some(if words.is_empty() { "as the listener has it".into() } else { words.join(", ") })
    }
}

/// What spans say.
pub(crate) fn attributes(written: &[Attribute]) -> Result<Vec<CustomTag>, Refused> {
    spec::at_most(written, "attributes", MOST_ATTRIBUTES)?;
    let tags = written.iter().enumerate();
    let tags = tags.map(|(index, attribute)| attribute.read(&format!("attributes[{index}]")));
    let tags = tags.collect::<Result<Vec<_>, _>>()?;
    bounded(&tags, "attributes")?;
    Ok(tags)
}

/// Refuses attributes that have a proxy hold too much for a span, be they of one policy or of several that are merged.
fn bounded(tags: &[CustomTag], field: &str) -> Result<(), Refused> {
    spec::at_most(tags, field, MOST_ATTRIBUTES)?;
    let text = |tag: &CustomTag| match &tag.r#type {
        Some(Type::Literal(literal)) => literal.value.len(),
        Some(Type::RequestHeader(header)) => header.default_value.len(),
        Some(Type::Metadata(metadata)) => metadata.default_value.len(),
        Some(Type::Environment(_) | Type::Value(_)) | None => 0,
    };
    let bytes: usize = tags.iter().map(|tag| tag.tag.len() + text(tag)).sum();
    if bytes > MOST_BYTES {
        let message = format!(
            "their names, literals and default values have {bytes} bytes, and {MOST_BYTES} are the most, since a proxy holds \
             them for each span; shorten them, or leave some out"
        );
        return Err(Refused::new(field, message));
    }
    // All of them together are no more than the headers of a request.
    let mut whole = BTreeSet::new();
    for tag in tags {
        if let Some(Type::RequestHeader(header)) = &tag.r#type
            && !whole.insert(&header.name)
        {
            let message = format!(
                "two tell header {:?} with a default value, which is told in whole; remove one of them, or its default value",
                header.name
            );
            return Err(Refused::new(field, message));
        }
    }
    Ok(())
}

impl Attribute {
    fn read(&self, field: &str) -> Result<CustomTag, Refused> {
        let needed = |text: &str, at: &str| {
            let invalid =
                || Invalid::new(text, "it is empty, which Envoy refuses", "write a text, or remove the attribute");
            if text.is_empty() {
                Err(Refused::at(format_args!("{field}.{at}"))(invalid()))
            } else {
                Ok(text.to_owned())
            }
        };
        if self.environment.is_some() {
            let message = "what the environment of a proxy says is not for policies; use another kind of value";
            return Err(Refused::new(&format!("{field}.environment"), message));
        }
        let value = match (&self.literal, &self.request_header, &self.metadata) {
            (Some(literal), None, None) => {
                Type::Literal(custom_tag::Literal { value: needed(&literal.value, "literal.value")? })
            }
            (None, Some(RequestHeader { name, default_value }), None) => {
                let name = header::name(name).map_err(Refused::at(format_args!("{field}.requestHeader.name")))?;
                // No operator of Envoy's formats has a default value.
                if default_value.is_empty() {
                    Type::Value(format!("%REQ({name}):{LONGEST_HEADER}%"))
                } else {
                    Type::RequestHeader(custom_tag::Header { name, default_value: default_value.clone() })
                }
            }
            (None, None, Some(FromMetadata { kind, metadata_key, default_value })) => {
                let kind = match &**kind {
                    "Request" => Kind::Request(Request {}),
                    "Route" => Kind::Route(OfRoute {}),
                    "Cluster" => Kind::Cluster(Cluster {}),
                    "Host" => Kind::Host(Host {}),
                    other => {
                        let remedy = "use Request, Route, Cluster or Host";
                        let invalid = Invalid::new(other, "there is no such kind of metadata", remedy);
                        return Err(Refused::at(format_args!("{field}.metadata.kind"))(invalid));
                    }
                };
                let key = needed(&metadata_key.key, "metadata.metadataKey.key")?;
                if metadata_key.path.is_empty() {
                    let message = "it is empty, which Envoy refuses; name a step";
                    return Err(Refused::new(&format!("{field}.metadata.metadataKey.path"), message));
                }
                let step = |(index, step): (usize, &Step)| {
                    let key = needed(&step.key, &format!("metadata.metadataKey.path[{index}].key"))?;
                    Ok(PathSegment { segment: Some(Segment::Key(key)) })
                };
                let path = metadata_key.path.iter().enumerate().map(step).collect::<Result<_, _>>()?;
                Type::Metadata(custom_tag::Metadata {
                    kind: Some(MetadataKind { kind: Some(kind) }),
                    metadata_key: Some(MetadataKey { key, path }),
                    default_value: default_value.clone(),
                })
            }
            _ => {
                return Err(Refused::new(field, "it must have one of literal, requestHeader and metadata"));
            }
        };
        Ok(CustomTag { tag: needed(&self.name, "name")?, r#type: Some(value) })
    }
}
