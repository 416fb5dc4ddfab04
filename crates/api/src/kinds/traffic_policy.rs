//! TrafficPolicy. What its fields mean is for others to say.

mod rules;
mod schema;

use serde_json::Value;

use crate::{
    Violation,
    meta::CustomResource,
    policy::{Targets, open_policy},
    resource,
    schema::{Schema, Spec, rules::Broken},
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
    /// The spec as it is written, to be judged and to be read.
    pub fn written(&self) -> Value {
        let mut written = self.fields.to_map();
        let mut add = |name: &str, targets: Result<Value, _>| {
            written.extend(
                targets.ok().filter(|targets| *targets != Value::Array(Vec::new())).map(|it| (name.into(), it)),
            );
        };
        add("targetRefs", serde_json::to_value(&self.target_refs));
        add("targetSelectors", serde_json::to_value(&self.target_selectors));
        written.into()
    }

    /// As [`violations`](crate::violations), of what is [`written`](Self::written).
    pub fn violations_of(&self, written: &Value) -> Vec<Violation> {
        resource::violations(self, || Some(written))
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
