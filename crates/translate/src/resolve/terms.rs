//! What the owners of a rule's parents, and of the rule itself, ask of it.

use std::sync::Arc;

use ir::{NsName, Problem, Severity};

use crate::{
    delegation::{Restriction, Standing, Terms},
    route::rule::{Does, default_backend},
};

/// A rule of `namespace` with what its parents give it, if it has what they demand.
pub(super) fn apply(mut does: Does, terms: &Terms, namespace: &str, field: &str) -> Result<Does, Problem> {
    if let Some(who) = &terms.requires_auth {
        let message = format!(
            "{} demands that requests are authenticated, and no policy does so here; attach one that authenticates",
            who.told_to(namespace)
        );
        return Err(Problem::new(Severity::Replaced, "UnsupportedValue", field, message));
    }
    if let Some(defaults) = &terms.defaults
        && does.backends.is_empty()
        && does.filters.redirect.is_none()
        && does.filters.direct_response().is_none()
    {
        let backends = defaults.backends.iter().enumerate();
        let backends = backends.map(|(index, backend)| default_backend(backend.clone(), &defaults.policy, index));
        does.backends = backends.collect::<Result<_, _>>()?;
        let weights = does.backends.iter().map(|backend| backend.weight);
        validate::number::total_weight(weights)
            .map_err(|invalid| Problem::new(Severity::Replaced, "UnsupportedValue", field, invalid.to_string()))?;
    }
    Ok(does)
}

/// The backends of a rule that those above it do not allow, those of its mirrors included.
pub(crate) fn not_allowed(standing: &Standing, terms: &Terms, route: &NsName, does: &Does) -> Vec<Problem> {
    let Some(above) = &standing.above else { return Vec::new() };
    let restrictions = &above.terms.restrictions;
    // What a policy gives is bound by those that stand above the policy.
    let below = terms.defaults.as_ref().map_or(restrictions.len(), |defaults| defaults.below);
    let of_rule = does.backends.iter().map(|backend| {
        let bound = if backend.policy.is_some() { below.min(restrictions.len()) } else { restrictions.len() };
        let own = backend.policy.as_ref().unwrap_or(route);
        (bound, &own.namespace, &backend.backend, &backend.field)
    });
    let mirrors = does.filters.mirrors.iter();
    let mirrors = mirrors.map(|mirror| (restrictions.len(), &route.namespace, &mirror.backend, &mirror.field));
    let mut problems = Vec::new();
    for (bound, own, backend, field) in of_rule.chain(mirrors) {
        let namespace = backend.namespace.as_ref().filter(|namespace| !namespace.is_empty()).unwrap_or(own);
        let name = NsName::new(namespace.clone(), backend.name.clone());
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
