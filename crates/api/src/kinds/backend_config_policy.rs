//! BackendConfigPolicy. What its fields mean is for others to say.

use serde_json::Value;

use crate::{
    Violation,
    group::KGATEWAY_GROUP,
    meta::CustomResource,
    policy::{Targets, open_policy},
    schema::{
        Schema, Spec,
        openapi::{
            Node,
            policy::{WHOLE_TARGET_REFS, WHOLE_TARGET_SELECTORS},
            values::{ANY_TEXT, number, optional},
        },
        rules::{
            Broken,
            policy::{Allows, no_sections, targets},
        },
    },
};

/// Says how proxies connect to Services and Backends.
pub type BackendConfigPolicy = CustomResource<BackendConfigPolicySpec>;

open_policy! {
    /// What the owner of a BackendConfigPolicy wants.
    BackendConfigPolicySpec
}

impl Spec for BackendConfigPolicySpec {
    const SCHEMA: Schema = Schema::of(&SPEC);

    fn check(&self, broken: &mut Broken) {
        targets(
            &self.target_refs,
            &self.target_selectors,
            ALLOWS,
            "must be Service, or Backend of group gateway.kgateway.dev",
            broken,
        );
        no_sections(
            &self.target_refs,
            &self.target_selectors,
            "must not be set: connections to all ports are alike; remove it",
            broken,
        );
        if self.fields.contains("http1ProtocolOptions") && self.fields.contains("http2ProtocolOptions") {
            broken.add_without_value(
                "spec.http2ProtocolOptions",
                "must not stand beside http1ProtocolOptions: remove one of both",
            );
        }
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

const ALLOWS: Allows = |group, kind| matches!((group, kind), ("", "Service") | (KGATEWAY_GROUP, "Backend"));

/// Of most fields no more than that they are there: what they say is judged where they are read, and a policy that sets one
/// that nobody reads is refused.
static SPEC: Node = Node::Object(&[
    optional("targetRefs", &WHOLE_TARGET_REFS),
    optional("targetSelectors", &WHOLE_TARGET_SELECTORS),
    optional("circuitBreakers", &Node::Opaque),
    optional("commonHttpProtocolOptions", &Node::Opaque),
    optional("connectTimeout", &ANY_TEXT),
    optional("dns", &Node::Opaque),
    optional("healthCheck", &Node::Opaque),
    optional("http1ProtocolOptions", &Node::Opaque),
    optional("http2ProtocolOptions", &Node::Opaque),
    optional("loadBalancer", &Node::Opaque),
    optional("outlierDetection", &Node::Opaque),
    optional("perConnectionBufferLimitBytes", &BYTES),
    optional("tcpKeepalive", &Node::Opaque),
    optional("tls", &Node::Opaque),
    optional("upstreamProxyProtocol", &Node::Opaque),
]);
static BYTES: Node = number(0, i32::MAX as i64);
