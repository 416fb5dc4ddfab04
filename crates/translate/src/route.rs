//! Routes of all kinds as one model ([`ir::route`]): a reader a kind turns objects into it, head and rules apart, so that a
//! change of one rule leaves the others alone. What is wrong with a rule becomes a value beside what is right: a match that
//! cannot be expressed is dropped, a filter that cannot be honoured has its rule replaced.

pub(crate) mod annotations;
mod backends;
pub(crate) mod direct_response;
mod filters;
mod grpc;
mod head;
mod http;
mod matches;
mod session;
mod stream;

use std::{fmt::Display, sync::Arc};

use api::shared::BackendObjectReference;
use engine::{Lookup, Scope};
use ir::{
    Problem, Reason, RouteId, RouteKind, Severity,
    route::{BackendRef, Head, RuleSpec},
};

use validate::Invalid;

use crate::{
    internal,
    tables::{
        input::{AnyRoute, EditionRoutes, Routes},
        route::{RouteHead, RouteRule},
    },
};
pub(crate) use backends::default_backend;
#[cfg(test)]
pub(crate) use http::rule::read as read_http_rule;

/// A reference as it is written.
pub(crate) fn backend_ref(written: &BackendObjectReference) -> BackendRef {
    let BackendObjectReference { group, kind, name, namespace, port } = written.clone();
    BackendRef { group, kind, name, namespace, port }
}

/// A route as it is written, whatever its kind.
trait Written {
    /// Features of Gateway API that are served for routes of the kind, as the conformance suite names them. Each has a
    /// traffic case.
    fn features() -> &'static [&'static str]
    where
        Self: Sized;

    /// `metadata.generation`.
    fn generation(&self) -> i64;

    /// Everything but what its rules say.
    fn head(&self) -> Head;

    /// Rule number `index` of this route, which is `id`; none where it has fewer. The rule stands at `field`.
    fn rule(&self, id: &RouteId, index: usize, field: &str) -> Option<RuleSpec>;

    /// What that rule matches, where nobody knows how it handles its requests.
    fn matches(&self, index: usize, field: &str) -> Option<RuleSpec>;
}

/// Declares the readers of all kinds.
macro_rules! readers {
    ($($kind:ident)+) => {
        impl AnyRoute {
            fn written(&self) -> &dyn Written {
                match self {
                    $(Self::$kind(route) => route,)+
                }
            }
        }

        /// Features that are served for routes of a kind.
        pub(crate) fn features(kind: RouteKind) -> &'static [&'static str] {
            match kind {
                $(RouteKind::$kind => <api::$kind as Written>::features(),)+
            }
        }
    };
}

ir::route_kinds!(readers);

/// A route as it is, or as it is in an edition.
fn written(scope: &Scope<'_>, route: &RouteId) -> Option<Arc<AnyRoute>> {
    if route.edition.is_some() { scope.get::<EditionRoutes>(route) } else { scope.get::<Routes>(route) }
}

impl Lookup for RouteHead {
    fn compute(scope: &Scope<'_>, route: &RouteId) -> Option<Head> {
        Some(written(scope, route)?.written().head())
    }

    /// What the route claims must not fall to others.
    fn poisoned(scope: &Scope<'_>, route: &RouteId, _: &engine::Fault) -> Option<Head> {
        let head = written(scope, route)?.written().head();
        let problem = internal::problem(Severity::Warning, "");
        Some(Head { problems: head.problems.iter().cloned().chain([problem]).collect(), ..head })
    }
}

/// `metadata.generation`, which changes with everything that a route says.
pub(crate) fn generation(scope: &Scope<'_>, route: &RouteId) -> Option<i64> {
    Some(written(scope, route)?.written().generation())
}

impl Lookup for RouteRule {
    fn compute(scope: &Scope<'_>, (route, rule): &(RouteId, u32)) -> Option<RuleSpec> {
        written(scope, route)?.written().rule(route, *rule as usize, &format!("spec.rules[{rule}]"))
    }

    /// It answers as a broken rule where it matches.
    fn poisoned(scope: &Scope<'_>, (route, rule): &(RouteId, u32), _: &engine::Fault) -> Option<RuleSpec> {
        written(scope, route)?.written().matches(*rule as usize, &format!("spec.rules[{rule}]"))
    }
}

/// What has a rule replaced.
fn fault(reason: Reason, field: impl Display, message: impl Into<String>) -> Problem {
    Problem::new(Severity::Replaced, reason, field.to_string(), message)
}

/// Turns a refused value at `field` into a fault.
fn at(field: impl Display) -> impl FnOnce(Invalid) -> Problem {
    move |invalid| fault(Reason::UnsupportedValue, field, invalid.to_string())
}
