//! Which rules and policies a request's treatment comes from.

use ir::Chain;
use translate::inspect;

use crate::{effects, explanation::Effect, lineage::Lineage, served_route::ServedRoute};

/// What is done to the request, each with those it comes from.
pub(crate) fn effects(lineage: &Lineage, chain: &Chain, route: &ServedRoute) -> Vec<Effect> {
    let rule = route.origin.rule;
    let above = lineage.above.first().and_then(|above| above.delegation.as_ref());
    let fields = lineage.written.as_ref().and_then(|written| inspect::provenance(written, above));
    let rule_of = |level: &Option<usize>| {
        // Levels are counted from the root, as depths are.
        let below = chain.upwards().filter_map(|child| child.above());
        let above = level.and_then(|level| below.into_iter().find(|(parent, _)| parent.depth() as usize == level));
        let (route, rule) = above.map_or((chain.route(), rule), |(parent, rule)| (parent.route(), rule));
        format!("{route} rule {rule}")
    };
    let effects = effects::effects(&route.message).into_iter().map(|(what, value)| {
        let field = fields.iter().flatten().find(|field| field.what == what);
        let mut from: Vec<_> = field.map(|field| field.from.iter().map(rule_of).collect()).unwrap_or_default();
        let mut overridden: Vec<_> =
            field.map(|field| field.overridden.iter().map(rule_of).collect()).unwrap_or_default();
        if let Some((holding, others)) = lineage.rule.as_ref().map(|rule| rule.policies(what)) {
            from.extend(holding.into_iter().map(ToString::to_string));
            overridden.extend(others.into_iter().map(ToString::to_string));
        }
        Effect { what, value, from, overridden }
    });
    effects.collect()
}
