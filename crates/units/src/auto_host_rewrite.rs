//! `autoHostRewrite`: a backend is asked under its own hostname.

use envoy_types::pb::envoy::config::route::v3::{Route, route::Action, route_action::HostRewriteSpecifier};
use ir::route::Handling;

use super::{Refused, Unit};

/// Whether a backend is asked under its own hostname.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoHostRewrite {
    rewrites: bool,
}

impl Unit for AutoHostRewrite {
    const FIELD: &'static str = "autoHostRewrite";
    const HOLDS_FOR_ANSWERS: bool = false;
    const TARGETS: &'static [&'static str] = &["HTTPRoute"];
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples =
        super::Samples { one: "true", other: "false", merged: None, off: None, refused: None };
    type Spec = bool;

    fn read(rewrites: bool) -> Result<Self, Refused> {
        Ok(Self { rewrites })
    }

    /// A filter of the rule that rewrites the host wins.
    fn apply(&self, rule: &mut Handling) -> bool {
        let holds = rule.fields.rewrite.as_ref().is_none_or(|rewrite| rewrite.hostname.is_none());
        rule.by_policy.auto_host_rewrite = self.rewrites && holds;
        holds
    }

    fn explain(route: &Route) -> Option<String> {
        let Some(Action::Route(action)) = &route.action else { return None };
        matches!(action.host_rewrite_specifier, Some(HostRewriteSpecifier::AutoHostRewrite(_)))
            .then(|| "the hostname of the backend, if it has one".into())
    }
}
