//! The document that `translate` prints and `/debug/snapshot` answers: what Envoys get, and the statuses.
//!
//! It is an interface: the same in YAML and in JSON, with its keys always in this order, and with nothing in it that
//! depends on the time, on the order of events, or on chance.

use api::ObjectId;
use ir::NsName;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use translate::{
    Encoded, ResourceKey, ResourceKind, Translator,
    envoy::json::{self, redacted},
};

/// Why a document cannot be written. Neither happens for what translation makes.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// A resource is no Envoy message.
    #[error("{kind} {name:?} of Gateway {gateway}: {source}", kind = key.kind.message_name(), name = key.name, gateway = key.gateway)]
    Resource {
        /// Which.
        key: Box<ResourceKey>,
        /// What is wrong with it.
        source: json::Error,
    },
    /// It cannot be written as YAML.
    #[error("cannot write YAML: {0}")]
    Yaml(String),
    /// It cannot be written as JSON.
    #[error("cannot write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// What all Envoys get, and what is reported on objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Document {
    /// By Gateway, sorted.
    pub gateways: Vec<GatewayEntry>,
    /// By object, sorted.
    pub statuses: Vec<StatusEntry>,
}

/// What the Envoys of one Gateway get, each list sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GatewayEntry {
    /// `NAMESPACE/NAME`.
    pub gateway: String,
    /// Listeners.
    pub listeners: Vec<Value>,
    /// Route configurations.
    pub routes: Vec<Value>,
    /// Clusters.
    pub clusters: Vec<Value>,
    /// Endpoints of clusters.
    pub endpoints: Vec<Value>,
    /// Secrets, without private keys.
    pub secrets: Vec<Value>,
}

/// The status of one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusEntry {
    /// Of the object.
    pub api_version: String,
    /// Of the object.
    pub kind: &'static str,
    /// Of the object.
    pub metadata: Name,
    /// The status.
    pub status: Value,
}

/// What an object is called.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Name {
    /// The namespace; left out for an object of the cluster.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// What a settled translator has, not yet written out: taken in no time, so that it can be written out elsewhere.
#[derive(Debug)]
pub struct Content {
    gateways: Vec<(NsName, Vec<(ResourceKey, Encoded)>)>,
    statuses: Vec<(ObjectId, Value)>,
}

impl Content {
    /// What `translator` has.
    pub fn of(translator: &Translator) -> Self {
        let mut resources = translator.resources();
        let gateways = translator.gateways().into_iter().map(|gateway| {
            let mut list = resources.remove(&gateway).unwrap_or_default();
            list.sort_by(|(a, _), (b, _)| a.cmp(b));
            (gateway, list)
        });
        let gateways = gateways.collect();
        let mut statuses = translator.statuses();
        statuses.sort_by(|(a, _), (b, _)| a.cmp(b));
        Self { gateways, statuses }
    }

    /// What it has for the Envoys of one Gateway, and no status; none if it is not served.
    pub fn of_gateway(translator: &Translator, gateway: &NsName) -> Option<Self> {
        let mut content = Self::of(translator);
        content.gateways.retain(|(served, _)| served == gateway);
        content.statuses.clear();
        (!content.gateways.is_empty()).then_some(content)
    }
}

impl Document {
    /// What a settled translator has.
    pub fn of(translator: &Translator) -> Result<Self, DocumentError> {
        Self::from_content(Content::of(translator))
    }

    /// What the Envoys of one Gateway get, and no status; none if it is not served.
    pub fn of_gateway(translator: &Translator, gateway: &NsName) -> Result<Option<Self>, DocumentError> {
        Content::of_gateway(translator, gateway).map(Self::from_content).transpose()
    }

    /// What was taken from a translator.
    pub fn from_content(content: Content) -> Result<Self, DocumentError> {
        let gateways = content.gateways.iter().map(|(gateway, resources)| gateway_entry(gateway, resources));
        Ok(Self {
            gateways: gateways.collect::<Result<_, _>>()?,
            statuses: content.statuses.into_iter().map(status_entry).collect(),
        })
    }

    /// As YAML.
    pub fn to_yaml(&self) -> Result<String, DocumentError> {
        yaml(self)
    }

    /// As JSON, with line breaks.
    pub fn to_json(&self) -> Result<String, DocumentError> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// How something is written out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// JSON, with line breaks.
    Json,
    /// YAML.
    Yaml,
}

/// A value in a format.
pub fn render(value: &(impl Serialize + std::fmt::Display), format: Format) -> Result<String, DocumentError> {
    match format {
        Format::Text => Ok(value.to_string()),
        Format::Json => Ok(serde_json::to_string_pretty(value)? + "\n"),
        Format::Yaml => yaml(value),
    }
}

/// Any value as YAML, in the style of the document.
pub fn yaml(value: &impl Serialize) -> Result<String, DocumentError> {
    let options = serde_saphyr::ser_options! {
        // Long texts on one line each, so that a change of one word is a change of one line.
        prefer_block_scalars: false,
    };
    let mut text = String::new();
    serde_saphyr::to_fmt_writer_with_options(&mut text, value, options)
        .map_err(|error| DocumentError::Yaml(error.to_string()))?;
    Ok(text)
}

fn gateway_entry(gateway: &NsName, resources: &[(ResourceKey, Encoded)]) -> Result<GatewayEntry, DocumentError> {
    let mut entry = GatewayEntry { gateway: gateway.to_string(), ..GatewayEntry::default() };
    for (key, encoded) in resources {
        let mut value = json::value(key.kind.message_name(), &encoded.body.to_bytes())
            .map_err(|source| DocumentError::Resource { key: Box::new(key.clone()), source })?;
        whole_numbers(&mut value);
        match key.kind {
            ResourceKind::Listener => entry.listeners.push(value),
            ResourceKind::RouteConfiguration => entry.routes.push(value),
            ResourceKind::Cluster => entry.clusters.push(value),
            ResourceKind::Endpoints => entry.endpoints.push(value),
            ResourceKind::Secret => entry.secrets.push(redacted(value)),
        }
    }
    Ok(entry)
}

/// A protobuf `Value` knows floating-point numbers only; a whole one is written as one.
pub fn whole_numbers(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Number(number) if number.is_f64() => {
            #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
            let whole = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 1e15).map(|n| n as i64);
            if let Some(whole) = whole {
                *value = whole.into();
            }
        }
        _ => {}
    }
}

fn status_entry((id, mut status): (ObjectId, Value)) -> StatusEntry {
    drop_times(&mut status);
    StatusEntry {
        api_version: id.kind.api_version(),
        kind: id.kind.as_str(),
        metadata: Name { namespace: id.namespace.to_string(), name: id.name.to_string() },
        status,
    }
}

/// Removes what differs between two statuses that say the same.
pub(crate) fn drop_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("lastTransitionTime");
            fields.values_mut().for_each(drop_times);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_times),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use ir::Settings;
    use serde_json::json;

    use super::*;
    use crate::testing::{Memory, world};

    fn document(text: &str) -> Document {
        let mut translator = Translator::new(Settings::default());
        for change in Memory::default().write("a.yaml", text).changes {
            translator.apply(change);
        }
        translator.settle();
        Document::of(&translator).expect("it is what translation made")
    }

    #[test]
    fn yaml_and_json_say_the_same_in_the_same_order() {
        let document = document(&world(8080));
        let (yaml, json) = (document.to_yaml().expect("YAML"), document.to_json().expect("JSON"));
        let from_yaml: Value = serde_saphyr::from_str(&yaml).expect("valid YAML");
        let from_json: Value = serde_json::from_str(&json).expect("valid JSON");
        assert_eq!(from_yaml, from_json);
        let order = |text: &str, names: &[&str]| {
            let places: Vec<_> = names.iter().map(|name| text.find(name).unwrap_or_else(|| panic!("{name}"))).collect();
            assert!(places.is_sorted(), "{names:?} at {places:?}");
        };
        order(
            &yaml,
            &["gateways:", "gateway:", "  listeners:", "  routes:", "  clusters:", "  endpoints:", "  secrets:"],
        );
        order(
            &json,
            &["\"gateways\"", "\"gateway\"", "\"listeners\"", "\"clusters\"", "\"secrets\"", "\n  \"statuses\""],
        );
    }

    #[test]
    fn there_are_no_times_and_no_fractions_that_are_none() {
        let text = document(&world(8080)).to_json().expect("JSON");
        assert!(!text.contains("lastTransitionTime") && !text.contains("creationTimestamp"));
        assert!(!text.contains("0.0,") && !text.contains("0.0\n"), "{text}");
        let mut value = json!({"a": [0.0, 1.5, 1e300, -3.0], "b": 7});
        whole_numbers(&mut value);
        assert_eq!(value, json!({"a": [0, 1.5, 1e300, -3], "b": 7}));
        let mut status = json!({"conditions": [{"type": "A", "lastTransitionTime": "2020-01-01T00:00:00Z"}]});
        drop_times(&mut status);
        assert_eq!(status, json!({"conditions": [{"type": "A"}]}));
    }

    #[test]
    fn a_gateway_without_resources_has_empty_lists() {
        let entry = GatewayEntry { gateway: "a/b".into(), ..GatewayEntry::default() };
        let document = Document { gateways: vec![entry], statuses: Vec::new() };
        let expected = "gateways:\n- gateway: a/b\n  listeners: []\n  routes: []\n  clusters: []\n  endpoints: []\n  \
                        secrets: []\nstatuses: []\n";
        assert_eq!(document.to_yaml().expect("YAML"), expected);
    }

    #[test]
    fn texts_that_yaml_would_read_as_something_else_come_back_as_they_were() {
        let texts = ["yes", "1.0", "", " a ", "a: b", "# c", "a\nb\n", "\t", "null", "é\u{0}", "- x", "0x10", "1e3"];
        let value = json!(texts);
        let read: Value = serde_saphyr::from_str(&yaml(&value).expect("YAML")).expect("valid YAML");
        assert_eq!(read, value);
        let long = json!({"key": "word ".repeat(100)});
        let read: Value = serde_saphyr::from_str(&yaml(&long).expect("YAML")).expect("valid YAML");
        assert_eq!(read, long);
    }
}
