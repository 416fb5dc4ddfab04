//! Routes of all kinds as one model ([`ir::route`]): a reader a kind turns objects into it, head and rules apart, so that a
//! change of one rule leaves the others alone. What is wrong with a rule becomes a value beside what is right: a match that
//! cannot be expressed is dropped, a filter that cannot be honoured has its rule replaced.

mod annotations;
pub(crate) mod direct_response;
mod http;

use engine::{Lookup, Scope};
use ir::{
    NsName, Severity,
    route::{Head, RuleSpec, Unhandled},
};

use crate::{
    internal,
    tables::{
        input::Routes,
        route::{RouteGeneration, RouteHead, RouteRule},
    },
};
pub(crate) use http::rule::default_backend;
#[cfg(test)]
pub(crate) use http::rule::read as read_http_rule;

impl Lookup for RouteHead {
    fn compute(scope: &Scope<'_>, route: &NsName) -> Option<Head> {
        Some(http::head::read(&*scope.get::<Routes>(route)?))
    }

    /// What the route claims must not fall to others.
    fn poisoned(scope: &Scope<'_>, route: &NsName, _: &engine::Fault) -> Option<Head> {
        let head = http::head::read(&*scope.get::<Routes>(route)?);
        let problem = internal::problem(Severity::Warning, "");
        Some(Head { problems: head.problems.iter().cloned().chain([problem]).collect(), ..head })
    }
}

impl Lookup for RouteGeneration {
    fn compute(scope: &Scope<'_>, route: &NsName) -> Option<i64> {
        Some(scope.get::<Routes>(route)?.metadata.generation)
    }
}

impl Lookup for RouteRule {
    fn compute(scope: &Scope<'_>, (name, rule): &(NsName, u32)) -> Option<RuleSpec> {
        let route = scope.get::<Routes>(name)?;
        Some(http::rule::read(route.spec.rules.get(*rule as usize)?, name, &format!("spec.rules[{rule}]")))
    }

    /// It answers 500 where it matches.
    fn poisoned(scope: &Scope<'_>, (name, rule): &(NsName, u32), _: &engine::Fault) -> Option<RuleSpec> {
        let route = scope.get::<Routes>(name)?;
        let field = format!("spec.rules[{rule}]");
        Some(http::rule::claims(route.spec.rules.get(*rule as usize)?, Err(Unhandled::Unknown), &field))
    }
}
