//! Which backends the rules of children may have.

use std::sync::Arc;

use ir::{Problem, Reason, RouteId, Severity, route::Handling};

use super::PlacedRoute;
use crate::tables::terms::{Restriction, Terms};

/// The backends of a rule that those above it do not allow, those of its mirrors included.
pub(crate) fn not_allowed(placed: &PlacedRoute, terms: &Terms, route: &RouteId, handling: &Handling) -> Vec<Problem> {
    let Some(above) = &placed.above else { return Vec::new() };
    let restrictions = &above.terms.restrictions;
    // What a policy gives is bound by those that stand above the policy.
    let below = terms.defaults.as_ref().map_or(restrictions.len(), |defaults| defaults.below);
    let of_rule = handling.backends.iter().map(|backend| {
        let bound = if backend.policy.is_some() { below.min(restrictions.len()) } else { restrictions.len() };
        let own = backend.policy.as_ref().map_or(route.namespace(), |policy| &policy.namespace);
        (bound, own, &backend.backend, &backend.field)
    });
    let mirrors = handling.fields.mirrors.iter();
    let mirrors = mirrors.map(|mirror| (restrictions.len(), route.namespace(), &mirror.backend, &mirror.field));
    let mut problems = Vec::new();
    for (bound, own, backend, field) in of_rule.chain(mirrors) {
        let name = backend.target(own);
        let allows =
            |restriction: &&Arc<Restriction>| !restriction.allows_backend(&backend.group, &backend.kind, &name);
        if let Some(restriction) = restrictions[..bound].iter().find(allows) {
            let message = format!(
                "{} {name} is no backend that {} allows; use another, or ask for it there",
                backend.kind,
                restriction.known_to(route.namespace())
            );
            problems.push(Problem::new(Severity::Replaced, Reason::RefNotPermitted, field, message));
        }
    }
    problems
}
