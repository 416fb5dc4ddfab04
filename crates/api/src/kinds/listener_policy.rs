//! ListenerPolicy. What its fields mean is for others to say.

use serde_json::Value;

use crate::{
    Violation,
    group::GROUP,
    meta::CustomResource,
    policy::{Targets, open_policy},
    schema::{
        Schema, Spec,
        openapi::{
            Node,
            policy::{WHOLE_TARGET_REFS, WHOLE_TARGET_SELECTORS},
            values::{PORT, map_list, optional, required},
        },
        rules::{
            Broken,
            policy::{Allows, no_sections, targets},
        },
    },
};

/// Says how the listeners of Gateways take connections and requests.
pub type ListenerPolicy = CustomResource<ListenerPolicySpec>;

open_policy! {
    /// What the owner of a ListenerPolicy wants.
    ListenerPolicySpec
}

impl Spec for ListenerPolicySpec {
    const SCHEMA: Schema = Schema::of(&SPEC);

    fn check(&self, broken: &mut Broken) {
        targets(
            &self.target_refs,
            &self.target_selectors,
            ALLOWS,
            "must be Gateway of group gateway.networking.k8s.io",
            broken,
        );
        no_sections(
            &self.target_refs,
            &self.target_selectors,
            "must not be set: listeners of a port are one; name the port in perPort",
            broken,
        );
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

const ALLOWS: Allows = |group, kind| matches!((group, kind), (GROUP, "Gateway"));

/// Of the fields no more than that they are there: what they say is judged where they are read.
static SPEC: Node = Node::Object(&[
    optional("targetRefs", &WHOLE_TARGET_REFS),
    optional("targetSelectors", &WHOLE_TARGET_SELECTORS),
    optional("default", &Node::Opaque),
    optional("perPort", &PER_PORT),
]);
static PER_PORT: Node = map_list(0, 64, "port", &OF_PORT);
static OF_PORT: Node = Node::Object(&[required("listener", &Node::Opaque), required("port", &PORT)]);
