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

impl Written for api::HttpRoute {
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
