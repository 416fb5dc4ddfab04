//! TrafficPolicy. What its fields mean is for others to say.

mod rules;
mod schema;

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor},
};
use serde_json::Value;

use crate::{
    Violation,
    meta::CustomResource,
    policy::{LocalPolicyTargetReference, LocalPolicyTargetSelector, Targets},
    schema::{Schema, Spec, rules::Broken},
};

pub mod secrets;

/// Says how the traffic of Gateways, listeners and routes is treated.
///
/// Attached by its own targets or by an `extensionRef` of a route, so one without targets is a valid one.
pub type TrafficPolicy = CustomResource<TrafficPolicySpec>;

/// What the owner of a TrafficPolicy wants.
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrafficPolicySpec {
    /// Objects that the policy applies to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_refs: Vec<LocalPolicyTargetReference>,
    /// Objects that the policy applies to, by label.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_selectors: Vec<LocalPolicyTargetSelector>,
    /// All other fields that are set, as they are written, by name. A field that this release has never heard of is among
    /// them: it may be one that protects something.
    #[serde(flatten)]
    pub fields: BTreeMap<Box<str>, Value>,
    /// Why the rest could not be read, if so: then only the targets are there, for the policy to be refused on them.
    #[serde(skip)]
    pub invalid: Box<[Violation]>,
}

impl fmt::Debug for TrafficPolicySpec {
    /// Without the values of its fields, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target_refs, target_selectors, fields, invalid } = self;
        let mut all = f.debug_struct("TrafficPolicySpec");
        all.field("target_refs", target_refs).field("target_selectors", target_selectors);
        all.field("fields", &fields.keys()).field("invalid", invalid).finish()
    }
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
                        _ => {
                            let value = map.next_value()?;
                            spec.fields.insert(field, value);
                        }
                    }
                }
                Ok(spec)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

impl Spec for TrafficPolicySpec {
    const SCHEMA: Schema = Schema::of(&schema::SPEC);

    fn check(&self, broken: &mut Broken) {
        rules::check(self, broken);
    }

    fn targets_only(spec: &Value, invalid: Violation) -> Option<Self> {
        let Targets { refs, selectors } = Targets::readable(spec);
        Some(Self { target_refs: refs, target_selectors: selectors, invalid: [invalid].into(), ..Self::default() })
    }

    fn invalid(&self) -> &[Violation] {
        &self.invalid
    }

    fn keeps(&self, path: &str) -> bool {
        let field = path.strip_prefix("spec.").and_then(|path| path.split(['.', '[']).next());
        field.is_some_and(|field| self.fields.contains_key(field))
    }
}

#[cfg(test)]
mod tests;
