//! TrafficPolicy. What its fields mean is for others to say.

mod rules;
mod schema;

use serde_json::{Map, Value};

use crate::{
    Violation,
    meta::CustomResource,
    open_fields,
    policy::{Targets, open_policy},
    resource,
    schema::{
        Schema, Spec,
        openapi::{self, policy::TARGET_REFS},
        rules::Broken,
    },
};

pub mod secrets;

/// Says how the traffic of Gateways, listeners and routes is treated.
///
/// Attached by its own targets or by an `extensionRef` of a route, so one without targets is a valid one.
pub type TrafficPolicy = CustomResource<TrafficPolicySpec>;

open_policy! {
    /// What the owner of a TrafficPolicy wants.
    TrafficPolicySpec
}

impl TrafficPolicySpec {
    /// As [`violations`](crate::violations), in a part of the time: there are many policies, and most are sound.
    pub fn violations(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        if self.invalid.is_empty() && !self.target_refs.is_empty() {
            let path = openapi::Path::Root("spec");
            let path = openapi::Path::Field(&path, "targetRefs");
            openapi::check_texts(&TARGET_REFS, &self.target_refs, path, &mut found);
        }
        found.extend(resource::violations(self, || self.judged()));
        found
    }

    /// What the schema says something of besides `targetRefs`, as it is written, if there is any.
    fn judged(&self) -> Option<Value> {
        let judged = self.fields.texts().filter(|(name, _)| schema::SPEC.says(name));
        let mut judged: Map<_, _> = judged.map(|(name, text)| (name.to_owned(), open_fields::parse(text))).collect();
        if !self.target_selectors.is_empty() {
            judged.insert("targetSelectors".into(), serde_json::to_value(&self.target_selectors).ok()?);
        }
        (!judged.is_empty()).then_some(judged.into())
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
        self.has(path)
    }
}

#[cfg(test)]
mod tests;
