//! Whether a selected route has anything to serve.

use std::{collections::BTreeMap, sync::Arc};

use engine::{Derived, Emitter};
use ir::Chain;

use super::{
    Rendering, Standing,
    branch::grow,
    share::Claim,
    standing::{NOT_ALLOWED, created},
};
use crate::{
    route::rule,
    tables::{
        delegation::{Branch, Candidate, Fit, Fitting, Overfull, Place, Places},
        input::{Config, Routes},
    },
};

impl Derived for Candidate {
    fn compute(scope: &Emitter<'_>, chain: &Chain) -> Option<()> {
        let (parent, parent_rule) = chain.above()?;
        let name = chain.route();
        let route = scope.get::<Routes>(name)?;
        let standing = Standing::of(scope, chain, &route)?;
        let (mut served, mut left_out) = (Vec::new(), Vec::new());
        let mut below = BTreeMap::new();
        let mut rendered = 0;
        // One that alone exceeds the bound is not rendered further: it goes without.
        let most = usize::try_from(scope.get::<Config>(&())?.delegation.max_matches).unwrap_or(usize::MAX);
        for (rule, index) in route.spec.rules.iter().zip(0..) {
            if rendered > most {
                break;
            }
            let (read, _) = rule::read_matches(rule, &format!("spec.rules[{index}]"));
            let outcome = standing.render_some(index, &read, most - rendered);
            rendered += outcome.matches.len();
            served.extend(outcome.matches.iter().map(|rendered| (index, rendered.index)));
            left_out.extend(outcome.left_out.into_iter().map(|(matching, why)| (index, matching, why)));
            for (matching, as_much) in outcome.below {
                *below.entry(matching).or_default() |= as_much;
            }
        }
        served.dedup();
        let allowed = standing.fault.as_ref().is_none_or(|fault| fault.reason != NOT_ALLOWED);
        if standing.fault.is_some() || rendered > most {
            // Nobody knows what it would have, were it sound or less.
            for (at, _) in standing.above.iter().flat_map(|above| (0..).zip(&above.matches)) {
                below.entry(at).or_insert(false);
            }
        }
        for (matching, as_much) in below {
            let fit = if standing.fault.is_none() {
                Fit::Serves { as_much }
            } else {
                Fit::Broken { as_much: as_much && allowed }
            };
            scope.emit::<Fitting>((parent.clone(), parent_rule, matching), name.clone(), fit);
        }
        for matching in standing.barred().into_iter().filter(|_| standing.fault.is_none()) {
            scope.emit::<Fitting>((parent.clone(), parent_rule, matching), name.clone(), Fit::Barred);
        }
        let top = chain.top().clone();
        if allowed && rendered > 0 {
            let claim = Claim { count: rendered as u64, created: created(&route) };
            scope.emit::<Rendering>((top, chain.depth()), chain.clone(), claim);
        }
        let place = Place { fault: standing.fault, served: served.into(), left_out: left_out.into() };
        if allowed && !place.served.is_empty() {
            grow(scope, chain, &route);
            scope.demand::<Branch>(chain.clone());
        }
        scope.emit::<Places>(name.clone(), chain.clone(), Arc::new(place));
        scope.demand::<Overfull>(name.clone());
        Some(())
    }

    fn depth(chain: &Chain) -> u32 {
        chain.depth()
    }
}
