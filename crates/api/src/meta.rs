//! Metadata of objects, and label selectors.

use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compact::{namespace, text};

mod string_map;

pub use string_map::{Entry, StringMap, value_of};

/// The part of an object's metadata that anybody reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// The name, unique for a kind in a namespace.
    #[serde(deserialize_with = "text")]
    pub name: Arc<str>,
    /// What tells it from one of the same name that was there before; empty for an object that no API server made.
    #[serde(deserialize_with = "text", skip_serializing_if = "str::is_empty")]
    pub uid: Arc<str>,
    /// The namespace; empty for an object of the cluster.
    #[serde(deserialize_with = "namespace", skip_serializing_if = "str::is_empty")]
    pub namespace: Arc<str>,
    /// Labels.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub labels: StringMap,
    /// Annotations.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub annotations: StringMap,
    /// The number of the last change of the spec, what `observedGeneration` repeats; 0 where nobody counts.
    #[serde(skip_serializing_if = "is_zero")]
    pub generation: i64,
    /// When the object came into being; decides between conflicting objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Timestamp>,
    /// Set while the object waits for its finalizers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Timestamp>,
}

/// An object of a kind that a CRD defines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomResource<S> {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What the owner wants.
    pub spec: S,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// Selects objects by label; an empty selector selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that must be there with these values.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub match_labels: StringMap,
    /// Requirements, all of which must hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One requirement of a label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelectorRequirement {
    /// The label.
    pub key: Box<str>,
    /// How its value relates to `values`.
    pub operator: LabelSelectorOperator,
    /// Values; none for `Exists` and `DoesNotExist`, at least one for the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Box<str>>,
}

open_enum! {
    /// How a label relates to the values of a requirement.
    pub enum LabelSelectorOperator {
        /// The label has one of the values.
        In = "In",
        /// The label is absent or has none of the values.
        NotIn = "NotIn",
        /// The label is there.
        Exists = "Exists",
        /// The label is absent.
        DoesNotExist = "DoesNotExist",
    }
}

/// A label selector that Kubernetes would refuse to evaluate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The operator of a requirement is none of the four.
    #[error("matchExpressions[{index}].operator {operator:?} is not one of In, NotIn, Exists, DoesNotExist")]
    UnknownOperator {
        /// Which requirement.
        index: usize,
        /// The operator as written.
        operator: Box<str>,
    },
    /// `In` or `NotIn` without values.
    #[error("matchExpressions[{index}].values must name at least one value for operator {operator}")]
    NoValues {
        /// Which requirement.
        index: usize,
        /// The operator.
        operator: LabelSelectorOperator,
    },
    /// `Exists` or `DoesNotExist` with values.
    #[error("matchExpressions[{index}].values must be empty for operator {operator}")]
    UnwantedValues {
        /// Which requirement.
        index: usize,
        /// The operator.
        operator: LabelSelectorOperator,
    },
}

impl LabelSelector {
    /// Whether the labels satisfy the selector.
    ///
    /// # Errors
    /// The first requirement that Kubernetes would refuse, whatever the labels are: a selector that is wrong selects
    /// nothing rather than something that depends on the labels.
    pub fn matches(&self, labels: &StringMap) -> Result<bool, SelectorError> {
        let mut holds = self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value));
        for (index, requirement) in self.match_expressions.iter().enumerate() {
            holds &= requirement.matches(index, labels)?;
        }
        Ok(holds)
    }
}

impl LabelSelectorRequirement {
    fn matches(&self, index: usize, labels: &StringMap) -> Result<bool, SelectorError> {
        use LabelSelectorOperator as Op;
        let operator = self.operator.clone();
        match (&self.operator, self.values.is_empty()) {
            (Op::Unknown(text), _) => {
                return Err(SelectorError::UnknownOperator { index, operator: text.clone() });
            }
            (Op::In | Op::NotIn, true) => return Err(SelectorError::NoValues { index, operator }),
            (Op::Exists | Op::DoesNotExist, false) => {
                return Err(SelectorError::UnwantedValues { index, operator });
            }
            _ => {}
        }
        let value = labels.get(&self.key);
        let listed = value.is_some_and(|value| self.values.iter().any(|listed| **listed == *value));
        Ok(match self.operator {
            Op::In => listed,
            Op::NotIn => !listed,
            Op::Exists => value.is_some(),
            _ => value.is_none(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> StringMap {
        pairs.iter().copied().collect()
    }

    fn selector(json: serde_json::Value) -> LabelSelector {
        serde_json::from_value(json).expect("a selector")
    }

    #[test]
    fn an_empty_selector_selects_everything() {
        assert_eq!(LabelSelector::default().matches(&labels(&[])), Ok(true));
        assert_eq!(LabelSelector::default().matches(&labels(&[("a", "b")])), Ok(true));
    }

    #[test]
    fn every_operator_decides_as_kubernetes_does() {
        let cases = [
            ("In", &["x", "y"][..], [true, false, false]),
            ("NotIn", &["x", "y"][..], [false, true, true]),
            ("Exists", &[][..], [true, true, false]),
            ("DoesNotExist", &[][..], [false, false, true]),
        ];
        for (operator, values, expected) in cases {
            let selector = selector(serde_json::json!({
                "matchExpressions": [{ "key": "k", "operator": operator, "values": values }]
            }));
            for (world, expected) in [labels(&[("k", "x")]), labels(&[("k", "z")]), labels(&[])].iter().zip(expected) {
                assert_eq!(selector.matches(world), Ok(expected), "{operator} on {world:?}");
            }
        }
    }

    #[test]
    fn labels_and_requirements_must_all_hold() {
        let selector = selector(serde_json::json!({
            "matchLabels": { "a": "1" },
            "matchExpressions": [{ "key": "b", "operator": "Exists" }]
        }));
        assert_eq!(selector.matches(&labels(&[("a", "1"), ("b", "")])), Ok(true));
        assert_eq!(selector.matches(&labels(&[("a", "1")])), Ok(false));
        assert_eq!(selector.matches(&labels(&[("a", "2"), ("b", "")])), Ok(false));
    }

    #[test]
    fn a_requirement_that_kubernetes_refuses_is_an_error_even_where_the_labels_decide() {
        for (operator, values, message) in [
            ("in", &["x"][..], "matchExpressions[0].operator \"in\" is not one of In, NotIn, Exists, DoesNotExist"),
            ("In", &[][..], "matchExpressions[0].values must name at least one value for operator In"),
            ("Exists", &["x"][..], "matchExpressions[0].values must be empty for operator Exists"),
        ] {
            let selector = selector(serde_json::json!({
                "matchLabels": { "absent": "yes" },
                "matchExpressions": [{ "key": "k", "operator": operator, "values": values }]
            }));
            let error = selector.matches(&labels(&[])).expect_err("refused");
            assert_eq!(error.to_string(), message);
        }
    }
}
