//! The document that `translate` prints and `/debug/snapshot` answers: what Envoys get, and the statuses.
//!
//! It is an interface: the same in YAML and in JSON, with its keys always in this order, and with nothing in it that
//! depends on the time, on the order of events, or on chance.

use std::io;

use api::ObjectId;
use envoy::{
    Encoded, ResourceKey, ResourceKind,
    json::{redacted, streamed::Streamed},
};
use ir::NsName;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_saphyr::SerializeError;
use translate::{StatusRow, Translator};

/// Why a document cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It cannot be written as YAML.
    #[error("cannot write YAML: {0}")]
    Yaml(SerializeError),
    /// It cannot be written as JSON.
    #[error("cannot write JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// What it is written to takes no more.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
}

impl DocumentError {
    /// Whether the reader is gone.
    pub fn is_broken_pipe(&self) -> bool {
        let kind = match self {
            Self::Yaml(_) => None,
            Self::Json(error) => error.io_error_kind(),
            Self::Write(error) => Some(error.kind()),
        };
        kind == Some(io::ErrorKind::BrokenPipe)
    }
}

/// What all Envoys get, and what is reported on objects: taken from a settled translator in no time, and decoded one
/// resource after the other while it is written.
#[derive(Debug, Serialize)]
pub struct Document {
    /// By Gateway, sorted.
    gateways: Vec<GatewayEntry>,
    /// By object, sorted.
    statuses: Vec<StatusEntry>,
}

/// What the Envoys of one Gateway get, each list sorted by name.
#[derive(Debug, Serialize)]
struct GatewayEntry {
    gateway: String,
    listeners: Vec<Resource>,
    extensions: Vec<Resource>,
    routes: Vec<Resource>,
    clusters: Vec<Resource>,
    endpoints: Vec<Resource>,
    secrets: Vec<Resource>,
}

/// A resource that is not decoded yet.
#[derive(Debug)]
struct Resource(ResourceKey, Encoded);

/// The status of one object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusEntry {
    api_version: String,
    kind: &'static str,
    metadata: Name,
    status: Status,
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

/// A status that is not written out yet.
#[derive(Debug)]
struct Status(StatusRow);

impl Document {
    /// What a settled translator has.
    pub fn of(translator: &Translator) -> Self {
        let mut resources = translator.resources();
        let gateways = translator.gateways().into_iter().map(|gateway| {
            let resources = resources.remove(&gateway).unwrap_or_default();
            GatewayEntry::new(&gateway, resources)
        });
        let gateways = gateways.collect();
        let mut statuses = translator.status_rows();
        statuses.sort_by(|(a, _), (b, _)| a.cmp(b));
        Self { gateways, statuses: statuses.into_iter().map(StatusEntry::new).collect() }
    }

    /// What the Envoys of one Gateway get, and no status; none if it is not served.
    pub fn of_gateway(translator: &Translator, gateway: &NsName) -> Option<Self> {
        if !translator.gateways().contains(gateway) {
            return None;
        }
        let resources = translator.resources().remove(gateway).unwrap_or_default();
        Some(Self { gateways: vec![GatewayEntry::new(gateway, resources)], statuses: Vec::new() })
    }

    /// Writes it as YAML, or as JSON with line breaks. That takes memory for one virtual host, cluster or status at a
    /// time, and for the bytes of one resource.
    pub fn write(&self, format: Format, out: &mut impl io::Write) -> Result<(), DocumentError> {
        match format {
            Format::Yaml => {
                serde_saphyr::to_io_writer_with_options(out, self, yaml_options()).map_err(|error| match error {
                    SerializeError::IO { error } => DocumentError::Write(error),
                    error => DocumentError::Yaml(error),
                })
            }
            Format::Json | Format::Text => {
                serde_json::to_writer_pretty(&mut *out, self)?;
                Ok(out.write_all(b"\n")?)
            }
        }
    }
}

impl GatewayEntry {
    fn new(gateway: &NsName, mut resources: Vec<(ResourceKey, Encoded)>) -> Self {
        resources.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut of = |kind| {
            resources.extract_if(.., |(key, _)| key.kind == kind).map(|(key, encoded)| Resource(key, encoded)).collect()
        };
        Self {
            gateway: gateway.to_string(),
            listeners: of(ResourceKind::Listener),
            extensions: of(ResourceKind::ExtensionConfig),
            routes: of(ResourceKind::RouteConfiguration),
            clusters: of(ResourceKind::Cluster),
            endpoints: of(ResourceKind::Endpoints),
            secrets: of(ResourceKind::Secret),
        }
    }
}

impl StatusEntry {
    fn new((id, status): (ObjectId, StatusRow)) -> Self {
        Self {
            api_version: id.kind.api_version(),
            kind: id.kind.as_str(),
            metadata: Name { namespace: id.namespace.to_string(), name: id.name.to_string() },
            status: Status(status),
        }
    }
}

impl Serialize for Resource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(key, encoded) = self;
        let finish = |mut value| {
            whole_numbers(&mut value);
            redacted(value)
        };
        Streamed::new(key.kind.message_name(), encoded.body.to_bytes(), &finish).serialize(serializer)
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut status = self.0.value();
        drop_times(&mut status);
        status.serialize(serializer)
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
    let mut text = String::new();
    serde_saphyr::to_fmt_writer_with_options(&mut text, value, yaml_options()).map_err(DocumentError::Yaml)?;
    Ok(text)
}

fn yaml_options() -> serde_saphyr::SerializerOptions {
    serde_saphyr::ser_options! {
        // Long texts on one line each, so that a small change is a change of one line.
        prefer_block_scalars: false,
    }
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

/// Removes what differs between two statuses of the same content.
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
        Document::of(&translator)
    }

    fn text(document: &Document, format: Format) -> String {
        let mut text = Vec::new();
        document.write(format, &mut text).expect("it is what translation made");
        String::from_utf8(text).expect("text")
    }

    #[test]
    fn yaml_and_json_say_the_same_in_the_same_order() {
        let document = document(&world(8080));
        let (yaml, json) = (text(&document, Format::Yaml), text(&document, Format::Json));
        let from_yaml: Value = serde_saphyr::from_str(&yaml).expect("valid YAML");
        let from_json: Value = serde_json::from_str(&json).expect("valid JSON");
        assert_eq!(from_yaml, from_json);
        let order = |text: &str, names: &[&str]| {
            let places: Vec<_> = names.iter().map(|name| text.find(name).unwrap_or_else(|| panic!("{name}"))).collect();
            assert!(places.is_sorted(), "{names:?} at {places:?}");
        };
        order(
            &yaml,
            &[
                "gateways:",
                "gateway:",
                "  listeners:",
                "  extensions:",
                "  routes:",
                "  clusters:",
                "  endpoints:",
                "  secrets:",
            ],
        );
        order(
            &json,
            &["\"gateways\"", "\"gateway\"", "\"listeners\"", "\"clusters\"", "\"secrets\"", "\n  \"statuses\""],
        );
    }

    #[test]
    fn there_are_no_times_and_no_fractions_that_are_none() {
        let text = text(&document(&world(8080)), Format::Json);
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
        let entry = GatewayEntry::new(&NsName::new("a", "b"), Vec::new());
        let document = Document { gateways: vec![entry], statuses: Vec::new() };
        let expected = "gateways:\n- gateway: a/b\n  listeners: []\n  extensions: []\n  routes: []\n  clusters: []\n  endpoints: []\n  \
                        secrets: []\nstatuses: []\n";
        assert_eq!(text(&document, Format::Yaml), expected);
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
