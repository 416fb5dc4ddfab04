//! Reading HTTPRoutes.

mod filters;
mod head;
mod matches;
mod reference;
pub(super) mod rule;

use ir::{
    RouteId,
    route::{Head, RuleSpec, Unhandled},
};

use super::Written;

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
        head::read(self)
    }

    fn rule(&self, id: &RouteId, index: usize, field: &str) -> Option<RuleSpec> {
        Some(rule::read(self.spec.rules.get(index)?, id, field))
    }

    fn matches(&self, index: usize, field: &str) -> Option<RuleSpec> {
        Some(rule::claims(self.spec.rules.get(index)?, Err(Unhandled::Unknown), field))
    }
}
