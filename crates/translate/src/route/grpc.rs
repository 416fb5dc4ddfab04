//! Reading GRPCRoutes.

mod matches;
mod rule;

use api::grpc_route::GrpcRouteRule;
use ir::{
    RouteId,
    route::{Head, RuleHead, RuleSpec, Unhandled},
};

use super::{Written, head};

const FEATURES: &[&str] = &["GRPCRoute", "GRPCRouteNamedRouteRule"];

impl Written for api::GrpcRoute {
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

fn rule_head(rule: &GrpcRouteRule) -> RuleHead {
    RuleHead { name: rule.name.clone().filter(|name| !name.is_empty()), delegates: false }
}
