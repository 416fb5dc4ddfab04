//! Where the last of those stands that are below a match of a delegating rule and ask for no more than the match.
//!
//! What is left of the match stands right behind it. Further behind it would leave requests to others that belong to whom the
//! rule misses.

use std::sync::Arc;

use engine::{Lookup, Scope};
use ir::{Chain, delegation::SortMethod, matching::Step};

use super::ResolvedRule;
use crate::tables::delegation::{CoveringChildren, DelegatedMatches, Delegating, LastCovering, ServedChain};

impl Lookup for LastCovering {
    fn compute(scope: &Scope<'_>, key: &(Chain, u32, u32)) -> Option<Arc<[Step]>> {
        let (chain, rule, _) = key;
        let children = scope.group::<CoveringChildren>(key);
        let is_served = |child| scope.get::<ServedChain>(&chain.below(*rule, child)).is_some();
        let served = children.iter().rev().find(|((_, child), ())| is_served(child.clone()));
        let last = served.map(|((steps, _), ())| steps.clone());
        let handed = scope.group::<DelegatedMatches>(key);
        let deeper = handed.iter().filter_map(|((child, index, matching), steps)| {
            last_of(scope, &(chain.below(*rule, child.clone()), *index, *matching), steps)
        });
        deeper.chain(last).max()
    }

    fn depth((chain, ..): &(Chain, u32, u32)) -> u32 {
        from_below(chain)
    }
}

/// The last place of what a match of a delegating rule at `steps` comes to that asks for no more, by the rule itself or below
/// it.
fn last_of(scope: &Scope<'_>, key: &(Chain, u32, u32), steps: &Arc<[Step]>) -> Option<Arc<[Step]>> {
    let (chain, rule, matching) = key;
    scope.get::<ServedChain>(chain)?;
    let rule = (chain.clone(), *rule);
    // What delegates nothing answers by itself, and what is sorted by weight stands in the place of the match.
    let delegation = scope.get::<Delegating>(&rule).filter(|it| it.terms.sort != SortMethod::TableWeight);
    let Some(delegation) = delegation else { return Some(steps.clone()) };
    let own = scope.get::<ResolvedRule>(&rule)?.place_of(delegation.matches.get(*matching as usize)?);
    own.max(scope.get::<LastCovering>(key).as_deref().cloned())
}

/// The depth of tables that settle from the leaves of a tree to its root.
pub(super) fn from_below(chain: &Chain) -> u32 {
    u32::MAX - chain.depth()
}
