//! What policies have in common: how they name the objects that they apply to.

use std::{slice, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::meta::StringMap;

/// Names an object of the policy's namespace, or a section of it.
///
/// A missing group does not decode: an empty one means the core group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalPolicyTargetReference {
    /// API group of the object.
    pub group: Arc<str>,
    /// Kind of the object.
    #[serde(default)]
    pub kind: Arc<str>,
    /// Name of the object.
    #[serde(default)]
    pub name: Arc<str>,
    /// The one part of the object that is meant, such as a rule of a route, by its name; all of it if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<Arc<str>>,
}

/// Selects objects of the policy's namespace by their labels, or a section of each.
///
/// A missing group or a missing mapping of labels does not decode: an empty one means the core group, or every object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalPolicyTargetSelector {
    /// API group of the objects.
    pub group: Arc<str>,
    /// Kind of the objects.
    #[serde(default)]
    pub kind: Arc<str>,
    /// Labels that an object must have, with these values; none selects every object.
    pub match_labels: StringMap,
    /// The one part of each object that is meant, such as a rule of a route, by its name; all of it if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<Arc<str>>,
}

/// What a policy applies to.
pub(crate) struct Targets {
    /// Objects.
    pub(crate) refs: Vec<LocalPolicyTargetReference>,
    /// Objects by label.
    pub(crate) selectors: Vec<LocalPolicyTargetSelector>,
}

impl Targets {
    /// The targets in the spec of a policy that can be read; one of which only the section cannot is all of its object.
    pub(crate) fn readable(spec: &Value) -> Self {
        Self { refs: readable(&spec["targetRefs"]), selectors: readable(&spec["targetSelectors"]) }
    }
}

fn readable<T: DeserializeOwned>(list: &Value) -> Vec<T> {
    let items = list.as_array().map_or(slice::from_ref(list), Vec::as_slice);
    let whole = |item: &Value| {
        let mut item = item.clone();
        item.as_object_mut()?.remove("sectionName")?;
        T::deserialize(item).ok()
    };
    items.iter().filter_map(|item| T::deserialize(item).ok().or_else(|| whole(item))).collect()
}

/// Declares the spec of a policy whose fields are kept as they are written, for others to judge: one that this release has
/// never heard of may be one that protects something.
macro_rules! open_policy {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// Objects that the policy applies to.
            #[serde(skip_serializing_if = "Vec::is_empty")]
            pub target_refs: Vec<$crate::policy::LocalPolicyTargetReference>,
            /// Objects that the policy applies to, by label.
            #[serde(skip_serializing_if = "Vec::is_empty")]
            pub target_selectors: Vec<$crate::policy::LocalPolicyTargetSelector>,
            /// All other fields that are set, as they are written. A field that this release has never heard of is among them: it
            /// may be one that protects something.
            #[serde(flatten)]
            pub fields: $crate::OpenFields,
            /// Why the rest could not be read, if so: then only the targets are there, for the policy to be refused on them.
            #[serde(skip)]
            pub invalid: Box<[$crate::Violation]>,
        }

        impl<'de> serde::Deserialize<'de> for $name {
            /// By hand, since serde's own way to collect the other fields loses the path of an error.
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Fields;

                impl<'de> serde::de::Visitor<'de> for Fields {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("a map")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        let mut spec = $name::default();
                        let mut fields = $crate::open_fields::Collected::default();
                        while let Some(field) = map.next_key::<Box<str>>()? {
                            match &*field {
                                "targetRefs" => spec.target_refs = map.next_value()?,
                                "targetSelectors" => spec.target_selectors = map.next_value()?,
                                _ => fields.add(&field, &mut map)?,
                            }
                        }
                        spec.fields = fields.finish();
                        Ok(spec)
                    }
                }

                deserializer.deserialize_map(Fields)
            }
        }

        impl $name {
            /// Whether a path such as `spec.cors.maxAge` lies in one of the fields.
            fn has(&self, path: &str) -> bool {
                let field = path.strip_prefix("spec.").and_then(|path| path.split(['.', '[']).next());
                field.is_some_and(|field| self.fields.contains(field))
            }
        }
    };
}
pub(crate) use open_policy;
