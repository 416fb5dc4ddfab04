//! TrafficPolicy, of which `urlRewrite` is read.

use std::{fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{IgnoredAny, MapAccess, Visitor},
};

use crate::{
    Violation,
    meta::ObjectMeta,
    policy::{LocalPolicyTargetReference, LocalPolicyTargetSelector},
};

/// Says how the traffic of Gateways, listeners and routes is treated.
///
/// Attached by its own targets or by an `extensionRef` of a route, so one without targets is a valid one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TrafficPolicy {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What the owner wants.
    pub spec: TrafficPolicySpec,
}

/// What the owner of a TrafficPolicy wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrafficPolicySpec {
    /// Objects that the policy applies to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_refs: Vec<LocalPolicyTargetReference>,
    /// Objects that the policy applies to, by label.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_selectors: Vec<LocalPolicyTargetSelector>,
    /// How the path of a request is changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_rewrite: Option<UrlRewrite>,
    /// Every other field that is set, whatever its value, by name in alphabetical order. A field that this release has
    /// never heard of is among them: it may be one that protects something.
    #[serde(skip)]
    pub unsupported: Vec<Arc<str>>,
    /// Why the rest could not be read, if so: then only the targets are there, for the policy to be refused on them.
    #[serde(skip)]
    pub invalid: Box<[Violation]>,
}

impl TrafficPolicySpec {
    /// Whether the field at a path such as `spec.cors` is among the [unsupported](Self::unsupported).
    pub fn is_unsupported(&self, path: &str) -> bool {
        path.strip_prefix("spec.").is_some_and(|field| self.unsupported.iter().any(|name| **name == *field))
    }
}

/// How the path of a request is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UrlRewrite {
    /// By a regular expression; the schema has no other way and demands this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_regex: Option<PathRegexRewrite>,
}

/// Replaces what an expression finds in the path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PathRegexRewrite {
    /// The expression, RE2; 1 to 1,024 characters.
    pub pattern: Box<str>,
    /// What takes the place of a match, `\1` standing for its first group; 1 to 1,024 characters.
    pub substitution: Box<str>,
}

impl<'de> Deserialize<'de> for TrafficPolicySpec {
    /// By hand, since serde's own way to collect the other fields loses the path of an error.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = TrafficPolicySpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TrafficPolicySpec, A::Error> {
                let mut spec = TrafficPolicySpec::default();
                while let Some(field) = map.next_key::<Box<str>>()? {
                    match &*field {
                        "targetRefs" => spec.target_refs = map.next_value()?,
                        "targetSelectors" => spec.target_selectors = map.next_value()?,
                        "urlRewrite" => spec.url_rewrite = Some(map.next_value()?),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            spec.unsupported.push(field.into());
                        }
                    }
                }
                spec.unsupported.sort_unstable();
                Ok(spec)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests;
