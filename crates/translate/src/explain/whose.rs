//! What becomes of a request, and whose word that is.

use ir::Chain;

use super::{Effect, Way, effects};
use crate::{delegation::provenance, seen::SeenRoute};

/// What is done to the request, each with whose it is.
pub(super) fn effects(way: &Way, chain: &Chain, seen: &SeenRoute) -> Vec<Effect> {
    let rule = seen.origin.rule;
    let supplied = way.rule.as_ref().and_then(|rule| {
        let own = rule.handling.as_ref().ok()?;
        let above = way.above.first().and_then(|above| above.delegation.as_ref());
        let levels: Vec<_> = above.iter().flat_map(|above| above.levels.iter().map(AsRef::as_ref)).collect();
        Some(provenance(own, &levels))
    });
    let rule_of = |level: &Option<usize>| {
        // Levels are counted from the root, as depths are.
        let below = chain.upwards().filter_map(|child| child.above());
        let above = level.and_then(|level| below.into_iter().find(|(parent, _)| parent.depth() as usize == level));
        let (route, rule) = above.map_or((chain.route(), rule), |(parent, rule)| (parent.route(), rule));
        format!("HTTPRoute {route} rule {rule}")
    };
    let policies = way.resolved.as_ref().and_then(|resolved| resolved.policies.as_deref());
    let effects = effects::effects(&seen.message).into_iter().map(|(what, value)| {
        let supplied = supplied.iter().flatten().find(|field| field.what == what);
        let mut from: Vec<_> = supplied.map(|field| field.from.iter().map(rule_of).collect()).unwrap_or_default();
        let mut overridden: Vec<_> =
            supplied.map(|field| field.overridden.iter().map(rule_of).collect()).unwrap_or_default();
        if let Some(policies) = policies.filter(|_| what == "urlRewrite") {
            from.extend(policies.in_force.iter().map(ToString::to_string));
            overridden.extend(policies.overridden().map(|(policy, _)| policy.to_string()));
        }
        Effect { what, value, from, overridden }
    });
    effects.collect()
}
