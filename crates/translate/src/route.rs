//! Routes of all kinds as one model ([`ir::route`]): a reader a kind turns objects into it, head and rules apart, so that a
//! change of one rule leaves the others alone. What is wrong with a rule becomes a value beside what is right: a match that
//! cannot be expressed is dropped, a filter that cannot be honoured has its rule replaced.

mod annotations;
pub(crate) mod direct_response;
mod http;

use api::{Kind, ObjectId};
use engine::{Lookup, Scope};
use ir::{
    NsName, RouteId, RouteKind, Severity,
    route::{Head, RuleSpec, Unhandled},
};

use crate::{
    internal,
    tables::{
        input::{ObjectKey, Routes},
        route::{RouteGeneration, RouteHead, RouteRule},
    },
};
pub(crate) use http::rule::default_backend;
#[cfg(test)]
pub(crate) use http::rule::read as read_http_rule;

/// The kind of the objects that routes of a kind are.
fn object_kind(kind: RouteKind) -> Kind {
    match kind {
        RouteKind::HttpRoute => Kind::HttpRoute,
    }
}

/// The object that a route is.
pub(crate) fn object_id(route: &RouteId) -> ObjectId {
    ObjectId::new(object_kind(route.kind), route.namespace().clone(), route.name.name.clone())
}

impl ObjectKey for RouteId {
    fn of(id: &ObjectId) -> Option<Self> {
        let kind = RouteKind::ALL.into_iter().find(|kind| object_kind(*kind) == id.kind)?;
        Some(Self::new(kind, NsName::new(id.namespace.clone(), id.name.clone())))
    }

    fn id(self, _: Kind) -> ObjectId {
        object_id(&self)
    }
}

fn read_head(scope: &Scope<'_>, route: &RouteId) -> Option<Head> {
    match route.kind {
        RouteKind::HttpRoute => Some(http::head::read(&*scope.get::<Routes>(&route.name)?)),
    }
}

impl Lookup for RouteHead {
    fn compute(scope: &Scope<'_>, route: &RouteId) -> Option<Head> {
        read_head(scope, route)
    }

    /// What the route claims must not fall to others.
    fn poisoned(scope: &Scope<'_>, route: &RouteId, _: &engine::Fault) -> Option<Head> {
        let head = read_head(scope, route)?;
        let problem = internal::problem(Severity::Warning, "");
        Some(Head { problems: head.problems.iter().cloned().chain([problem]).collect(), ..head })
    }
}

impl Lookup for RouteGeneration {
    fn compute(scope: &Scope<'_>, route: &RouteId) -> Option<i64> {
        match route.kind {
            RouteKind::HttpRoute => Some(scope.get::<Routes>(&route.name)?.metadata.generation),
        }
    }
}

impl Lookup for RouteRule {
    fn compute(scope: &Scope<'_>, (route, rule): &(RouteId, u32)) -> Option<RuleSpec> {
        let field = format!("spec.rules[{rule}]");
        match route.kind {
            RouteKind::HttpRoute => {
                let object = scope.get::<Routes>(&route.name)?;
                Some(http::rule::read(object.spec.rules.get(*rule as usize)?, route, &field))
            }
        }
    }

    /// It answers 500 where it matches.
    fn poisoned(scope: &Scope<'_>, (route, rule): &(RouteId, u32), _: &engine::Fault) -> Option<RuleSpec> {
        let field = format!("spec.rules[{rule}]");
        match route.kind {
            RouteKind::HttpRoute => {
                let object = scope.get::<Routes>(&route.name)?;
                Some(http::rule::claims(object.spec.rules.get(*rule as usize)?, Err(Unhandled::Unknown), &field))
            }
        }
    }
}
