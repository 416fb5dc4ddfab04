//! Reading HTTPRoutes.

mod matches;
pub(super) mod rule;

use api::http_route::HttpRouteRule;
use ir::{
    RouteId,
    route::{Head, RuleHead, RuleSpec, Unhandled},
};

use super::{Written, backends::delegates, head};

const FEATURES: &[&str] = &[
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendRequestHeaderModification",
    "HTTPRouteBackendTimeout",
    "HTTPRouteCORS",
    "HTTPRouteDestinationPortMatching",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteNamedRouteRule",
    "HTTPRouteParentRefPort",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestMultipleMirrors",
    "HTTPRouteRequestPercentageMirror",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteRetry",
    "HTTPRouteRetryBackendTimeout",
    "HTTPRouteRetryConnectionError",
    "HTTPRouteSchemeRedirect",
];

impl Written for api::HttpRoute {
    fn features() -> &'static [&'static str] {
        FEATURES
    }

    fn generation(&self) -> i64 {
        self.metadata.generation
    }

    fn head(&self) -> Head {
        let written = head::Written {
            metadata: &self.metadata,
            parents: &self.spec.parent_refs,
            hostnames: &self.spec.hostnames,
            refused: self.spec.refused_fields(),
        };
        head::read(written, self.spec.rules.iter().map(rule_head))
    }

    fn rule(&self, id: &RouteId, index: usize, field: &str) -> Option<RuleSpec> {
        Some(rule::read(self.spec.rules.get(index)?, id, field))
    }

    fn matches(&self, index: usize, field: &str) -> Option<RuleSpec> {
        Some(rule::claims(self.spec.rules.get(index)?, Err(Unhandled::Unknown), field))
    }
}

fn rule_head(rule: &HttpRouteRule) -> RuleHead {
    RuleHead {
        name: rule.name.clone().filter(|name| !name.is_empty()),
        delegates: rule.backend_refs.iter().any(delegates),
    }
}
