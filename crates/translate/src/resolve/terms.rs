//! What the owners of a rule's parents, and of the rule itself, ask of it.

use std::sync::Arc;

use ir::{NsName, Problem, Severity, route::Handling};

use crate::{
    delegation::{Restriction, Standing, Terms},
    route::default_backend,
};

/// A rule of `namespace` with what its parents give it, if it has what they demand.
pub(super) fn apply(mut handling: Handling, terms: &Terms, namespace: &str, field: &str) -> Result<Handling, Problem> {
    if let Some(who) = &terms.requires_auth {
        let message = format!(
            "{} demands that requests are authenticated, and no policy does so here; attach one that authenticates",
            who.told_to(namespace)
        );
        return Err(Problem::new(Severity::Replaced, "UnsupportedValue", field, message));
    }
    if let Some(defaults) = &terms.defaults
        && handling.backends.is_empty()
        && !handling.answers()
    {
        let backends = defaults.backends.iter().enumerate();
        let backends = backends.map(|(index, backend)| default_backend(backend.clone(), &defaults.policy, index));
        handling.backends = backends.collect::<Result<_, _>>()?;
        let weights = handling.backends.iter().map(|backend| backend.weight);
        validate::number::total_weight(weights)
            .map_err(|invalid| Problem::new(Severity::Replaced, "UnsupportedValue", field, invalid.to_string()))?;
    }
    Ok(handling)
}

/// The backends of a rule that those above it do not allow, those of its mirrors included.
pub(crate) fn not_allowed(standing: &Standing, terms: &Terms, route: &NsName, handling: &Handling) -> Vec<Problem> {
    let Some(above) = &standing.above else { return Vec::new() };
    let restrictions = &above.terms.restrictions;
    // What a policy gives is bound by those that stand above the policy.
    let below = terms.defaults.as_ref().map_or(restrictions.len(), |defaults| defaults.below);
    let of_rule = handling.backends.iter().map(|backend| {
        let bound = if backend.policy.is_some() { below.min(restrictions.len()) } else { restrictions.len() };
        let own = backend.policy.as_ref().unwrap_or(route);
        (bound, &own.namespace, &backend.backend, &backend.field)
    });
    let mirrors = handling.fields.mirrors.iter();
    let mirrors = mirrors.map(|mirror| (restrictions.len(), &route.namespace, &mirror.backend, &mirror.field));
    let mut problems = Vec::new();
    for (bound, own, backend, field) in of_rule.chain(mirrors) {
        let name = backend.target(own);
        let allows =
            |restriction: &&Arc<Restriction>| !restriction.allows_backend(&backend.group, &backend.kind, &name);
        if let Some(restriction) = restrictions[..bound].iter().find(allows) {
            let message = format!(
                "{} {name} is no backend that {} allows; use another, or ask for it there",
                backend.kind,
                restriction.told_to(&route.namespace)
            );
            problems.push(Problem::new(Severity::Replaced, "RefNotPermitted", field, message));
        }
    }
    problems
}
