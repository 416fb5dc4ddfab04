//! Secret.

use std::{collections::BTreeMap, fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;

use crate::{Violation, compact::namespace, meta::StringMap};

/// A Secret. Its values never show in `Debug`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "Raw")]
pub struct Secret {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Labels.
    pub labels: StringMap,
    /// Type, such as `kubernetes.io/tls`; `Opaque` if none is written.
    pub r#type: Box<str>,
    /// Values, decoded.
    pub data: SecretData,
    /// What was left out, and why; values are not repeated.
    pub invalid: Box<[Violation]>,
}

slim!(Secret, invalid);

/// The values of a Secret by key.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct SecretData(pub BTreeMap<Box<str>, Arc<[u8]>>);

impl SecretData {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Arc<[u8]>> {
        self.0.get(key)
    }
}

impl fmt::Debug for SecretData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.keys().map(|key| (key, "[redacted]"))).finish()
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Raw {
    metadata: RawMeta,
    r#type: Option<Box<str>>,
    data: BTreeMap<Box<str>, Box<str>>,
    string_data: BTreeMap<Box<str>, Box<str>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawMeta {
    name: Arc<str>,
    #[serde(deserialize_with = "namespace")]
    namespace: Arc<str>,
    labels: StringMap,
}

impl From<Raw> for Secret {
    fn from(raw: Raw) -> Self {
        let mut invalid = Vec::new();
        let mut data = BTreeMap::new();
        for (key, text) in raw.data {
            // Line breaks come from base64(1) and are ignored by Kubernetes too.
            let text: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
            match STANDARD.decode(text) {
                Ok(value) => _ = data.insert(key, Arc::from(value)),
                Err(_) => {
                    invalid.push(Violation::new(format!("data[{key}]"), "[redacted]", "must be base64 with padding"));
                }
            }
        }
        for (key, text) in raw.string_data {
            data.insert(key, Arc::from(text.into_string().into_bytes()));
        }
        for (key, _) in data.extract_if(.., |key, _| !is_key(key)) {
            let must = "must be a name of at most 253 letters, digits, dashes, underscores and dots";
            invalid.push(Violation::new("data".to_owned(), key, must));
        }
        Self {
            namespace: raw.metadata.namespace,
            name: raw.metadata.name,
            labels: raw.metadata.labels,
            r#type: raw.r#type.filter(|text| !text.is_empty()).unwrap_or_else(|| "Opaque".into()),
            data: SecretData(data),
            invalid: invalid.into(),
        }
    }
}

/// Whether an API server takes it as the key of a value.
fn is_key(key: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=253).contains(&key.len()) && key.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(value: serde_json::Value) -> Secret {
        serde_json::from_value(value).expect("a Secret")
    }

    #[test]
    fn values_are_decoded_and_plain_text_goes_before_them() {
        let secret = secret(json!({
            "metadata": { "name": "s", "labels": { "app": "shop" } },
            "type": "kubernetes.io/tls",
            "data": { "a": "aGVs\nbG8=\n", "b": "aGVsbG8=" },
            "stringData": { "b": "plain" },
        }));
        assert_eq!(&*secret.r#type, "kubernetes.io/tls");
        assert_eq!(secret.labels.get("app"), Some("shop"));
        assert_eq!(secret.data.get("a").map(|value| &**value), Some(&b"hello"[..]));
        assert_eq!(secret.data.get("b").map(|value| &**value), Some(&b"plain"[..]));
        assert_eq!(secret.data.get("c"), None);
    }

    #[test]
    fn no_value_shows_in_what_is_printed() {
        let secret = secret(json!({ "data": { "good": "aGVsbG8=", "bad": "hello!" }, "stringData": { "x": "hello" } }));
        let printed = format!("{secret:?}");
        assert!(printed.contains("good") && printed.contains("bad"), "{printed}");
        assert!(!printed.contains("hello") && !printed.contains("104") && !printed.contains("aGVs"), "{printed}");
    }

    #[test]
    fn a_value_that_is_not_base64_is_left_out_and_noted() {
        let secret = secret(json!({ "data": { "bad": "hello!", "good": "" } }));
        assert_eq!(secret.data.0.keys().map(|key| &**key).collect::<Vec<_>>(), ["good"]);
        assert_eq!(secret.invalid[0].path, "data[bad]");
    }

    #[test]
    fn a_key_that_an_api_server_would_refuse_is_left_out_and_noted() {
        let secret = secret(json!({ "data": { "": "", "a b": "" }, "stringData": { "a\nb": "x", "a.b-c_D": "x" } }));
        assert_eq!(secret.data.0.keys().map(|key| &**key).collect::<Vec<_>>(), ["a.b-c_D"]);
        assert_eq!(secret.invalid.len(), 3);
    }

    #[test]
    fn a_secret_without_a_type_is_opaque() {
        assert_eq!(&*secret(json!({})).r#type, "Opaque");
    }
}
