//! Which rules and policies a request's treatment comes from.

use std::collections::hash_map::Entry;

use envoy_types::pb::{envoy::config::route::v3::Route, google::protobuf::Any};
use ir::{Chain, rule::Slot};
use prost::Message;
use translate::inspect::{self, WideUnits};

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
    let effects = effects::effects(&with_slots(&route.message, lineage)).into_iter().map(|(what, value)| {
        let field = fields.iter().flatten().find(|field| field.what == what);
        let mut from: Vec<_> = field.map(|field| field.from.iter().map(rule_of).collect()).unwrap_or_default();
        let mut overridden: Vec<_> =
            field.map(|field| field.overridden.iter().map(rule_of).collect()).unwrap_or_default();
        let mut by = Vec::new();
        if let Some((holding, others)) = lineage.rule.as_ref().map(|rule| rule.policies(what)) {
            from.extend(holding.into_iter().map(ToString::to_string));
            overridden.extend(others.into_iter().map(ToString::to_string));
        }
        by.extend(lineage.rule.iter().flat_map(|rule| rule.words(what)));
        if let Some((holding, others)) = lineage.wide.as_ref().and_then(|wide| wide.policies(what)) {
            // What is nearer says all of it, that included which it is merged with.
            let is_said = !from.is_empty();
            let holding = holding.map(ToString::to_string).filter(|wide| !from.contains(wide));
            let holding: Vec<_> = holding.collect();
            let holds = if is_said { &mut overridden } else { &mut from };
            holds.extend(holding);
            overridden.extend(others.map(ToString::to_string));
            let words = lineage.wide.iter().flat_map(|wide| wide.words(what)).filter(|_| !is_said);
            by.extend(words.filter(|word| !by.contains(word)).collect::<Vec<_>>());
        }
        Effect { what, value, overridden: unheard(overridden, &from), from, by }
    });
    effects.collect()
}

/// Each once. Who is merged with others in one place may be overridden in a wider one, and is heard all the same.
fn unheard(overridden: Vec<String>, heard: &[String]) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for name in overridden {
        if !heard.contains(&name) && !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    distinct
}

/// An Envoy route with the slots that hold for it, those of its virtual host and route configuration among them.
fn with_slots(route: &Route, lineage: &Lineage) -> Route {
    let mut route = route.clone();
    for Slot { name, config, .. } in lineage.wide.iter().flat_map(WideUnits::slots) {
        let held = route.typed_per_filter_config.entry((*name).to_owned());
        if let (Entry::Vacant(vacant), Ok(config)) = (held, Any::decode(&**config)) {
            vacant.insert(config);
        }
    }
    route
}
