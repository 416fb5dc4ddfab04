//! The Secrets that a TrafficPolicy names, as it writes them.

use std::sync::Arc;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::TrafficPolicy;
use crate::{
    Kind, ObjectId,
    meta::StringMap,
    references::{Keys, Reference, Selection},
    schema::openapi::values::{LABEL_KEY_PATTERN, LABEL_VALUE_PATTERN},
};

/// The key of the users that `basicAuth` reads where it names none, as the CRD has it.
pub const USERS: &str = ".htpasswd";

/// Names a key of a Secret: that of `basicAuth`, or of a header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SecretKeyReference {
    /// Name.
    pub name: Arc<str>,
    /// Namespace; none for that of the policy.
    pub namespace: Option<Arc<str>>,
    /// The key.
    pub key: Option<Box<str>>,
}

/// Names a Secret as a whole: that of `apiKeyAuth`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SecretReference {
    /// API group; none or empty for the core group.
    pub group: Option<Arc<str>>,
    /// Kind; none for Secret.
    pub kind: Option<Arc<str>>,
    /// Name.
    pub name: Arc<str>,
    /// Namespace; none for that of the policy.
    pub namespace: Option<Arc<str>>,
}

impl SecretReference {
    /// Whether it names a Secret, and no object of another kind.
    pub fn is_secret(&self) -> bool {
        self.group.as_deref().is_none_or(str::is_empty) && self.kind.as_deref().is_none_or(|kind| kind == "Secret")
    }
}

/// Names Secrets by their labels: those of `apiKeyAuth`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SecretSelector {
    /// The labels that they have.
    pub match_labels: StringMap,
}

/// Most labels of a selector: what a watch asks for stands in an address.
const MOST_LABELS: usize = 16;

/// Longest key of a label: a domain name, a slash and a name.
const LONGEST_KEY: usize = 253 + 1 + 63;

impl SecretSelector {
    /// Why no object can have these labels, or why they are too many. No API server is asked for such.
    pub fn fault(&self) -> Option<String> {
        if self.match_labels.is_empty() {
            return Some("it has no label, and would select every Secret; write one".into());
        }
        if self.match_labels.len() > MOST_LABELS {
            return Some(format!("it has {} labels, and {MOST_LABELS} are the most", self.match_labels.len()));
        }
        self.match_labels.iter().find_map(|(key, value)| {
            if key.len() > LONGEST_KEY || !LABEL_KEY_PATTERN.is_match(key) {
                return Some(format!("a key must be {}", LABEL_KEY_PATTERN.means));
            }
            let is_value = value.len() <= 63 && LABEL_VALUE_PATTERN.is_match(value);
            (!is_value).then(|| format!("the value of {key} must be {}", LABEL_VALUE_PATTERN.means))
        })
    }
}

/// The header lists of `headerModifiers`.
const HEADERS: [&str; 4] = ["request/add", "request/set", "response/add", "response/set"];

/// The Secrets that a policy names. What is not written as it must be names none.
pub fn references(policy: &TrafficPolicy) -> Vec<Reference> {
    let namespace = &policy.metadata.namespace;
    let reference = |name: Arc<str>, other: Option<Arc<str>>, keys| {
        let namespace = other.filter(|other| !other.is_empty()).unwrap_or_else(|| Arc::clone(namespace));
        Reference { id: ObjectId::new(Kind::Secret, namespace, name), keys }
    };
    let written = |field| policy.spec.fields.get(field);
    let mut references = Vec::new();
    if let Some(SecretKeyReference { name, namespace, key }) = at(written("basicAuth").as_ref(), "secretRef") {
        references.push(reference(name, namespace, Keys::one(key.as_deref().unwrap_or(USERS))));
    }
    let keys: Option<SecretReference> = at(written("apiKeyAuth").as_ref(), "secretRef");
    if let Some(SecretReference { name, namespace, .. }) = keys.filter(SecretReference::is_secret) {
        references.push(reference(name, namespace, Keys::All));
    }
    let modifiers = written("headerModifiers");
    let headers = HEADERS.iter().filter_map(|list| at::<Vec<Value>>(modifiers.as_ref(), list));
    for header in headers.flatten() {
        let Some(SecretKeyReference { name, namespace, key }) = read(header.get("secretRef")) else { continue };
        let keys = match key.as_deref().or(header.get("name").and_then(Value::as_str)) {
            Some(key) => Keys::one(key),
            None => Keys::All,
        };
        references.push(reference(name, namespace, keys));
    }
    references.retain(|reference| !reference.id.name.is_empty());
    references
}

/// Which Secrets a policy selects by labels. What is not a selector selects none.
pub fn selections(policy: &TrafficPolicy) -> Vec<Selection> {
    let selector: Option<SecretSelector> = at(policy.spec.fields.get("apiKeyAuth").as_ref(), "secretSelector");
    let labels = selector.filter(|selector| selector.fault().is_none()).map(|selector| selector.match_labels);
    let namespace = &policy.metadata.namespace;
    let selection = |labels| Selection { kind: Kind::Secret, namespace: Arc::clone(namespace), labels };
    labels.map(selection).into_iter().collect()
}

/// What stands in a field below the keys of `path`.
fn at<T: DeserializeOwned>(written: Option<&Value>, path: &str) -> Option<T> {
    read(path.split('/').try_fold(written?, |value, key| value.get(key)))
}

fn read<T: DeserializeOwned>(value: Option<&Value>) -> Option<T> {
    T::deserialize(value?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(spec: &Value) -> TrafficPolicy {
        let policy = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec});
        serde_json::from_value(policy).expect("a policy")
    }

    /// Each reference, as `NAMESPACE/NAME KEYS`.
    fn named(spec: &Value) -> Vec<String> {
        let named = references(&policy(spec)).into_iter().map(|Reference { id, keys }| match keys {
            Keys::All => format!("{id} *"),
            Keys::These(keys) => format!("{id} {}", keys.iter().map(|key| &**key).collect::<Vec<_>>().join(" ")),
        });
        named.collect()
    }

    #[test]
    fn each_field_names_the_keys_that_it_reads() {
        assert_eq!(named(&json!({"basicAuth": {"secretRef": {"name": "s"}}})), ["Secret n/s .htpasswd"]);
        let elsewhere = json!({"basicAuth": {"secretRef": {"name": "s", "namespace": "m", "key": "k"}}});
        assert_eq!(named(&elsewhere), ["Secret m/s k"]);
        assert_eq!(named(&json!({"apiKeyAuth": {"secretRef": {"name": "s", "namespace": "m"}}})), ["Secret m/s *"]);
        assert!(named(&json!({"apiKeyAuth": {"secretRef": {"name": "s", "kind": "ConfigMap"}}})).is_empty());
        let headers = json!({"headerModifiers": {
            "request": {"set": [{"name": "x-a", "secretRef": {"name": "s"}}, {"name": "x-b", "value": "plain"}]},
            "response": {"add": [{"name": "x-a", "secretRef": {"name": "s", "key": "k"}}, {"secretRef": {"name": "t"}}]},
        }});
        assert_eq!(named(&headers), ["Secret n/s x-a", "Secret n/s k", "Secret n/t *"]);
    }

    #[test]
    fn what_is_not_written_as_it_must_be_names_none() {
        for spec in [
            json!({"basicAuth": "s", "apiKeyAuth": {"secretRef": 1}, "headerModifiers": {"request": {"set": {}}}}),
            json!({"basicAuth": {"secretRef": {"name": ""}}, "apiKeyAuth": {"secretSelector": {"matchLabels": {}}}}),
            json!({"headerModifiers": {"request": {"set": [1, {"secretRef": {"name": ["s"]}}]}}}),
            json!({"apiKeyAuth": {"secretSelector": {"matchLabels": {"a b": "x"}}}}),
            json!({"apiKeyAuth": {"secretSelector": {"matchLabels": {"a": "b,c=d"}}}}),
            json!({"apiKeyAuth": {"secretSelector": {"matchLabels": {"a": "x".repeat(64)}}}}),
        ] {
            assert!(named(&spec).is_empty(), "{spec}");
            assert!(selections(&policy(&spec)).is_empty(), "{spec}");
        }
    }

    #[test]
    fn secrets_are_selected_in_the_namespace_of_the_policy() {
        let spec = json!({"apiKeyAuth": {"secretSelector": {"matchLabels": {"app": "shop"}}}});
        let selections = selections(&policy(&spec));
        let selects =
            |namespace: &str, label: &str| selections[0].selects(namespace, &[("app", label), ("b", "c")].into());
        assert!(selects("n", "shop") && !selects("m", "shop") && !selects("n", "other"));
    }
}
