//! Whether anything below a match of a delegating rule asks for no more than the match.
//!
//! Where that is so, what is left of the match has to give way to it. Where it is not, what is left of it stands in its own
//! place: behind others it would leave them requests that belong to whom the rule misses.

use engine::{Lookup, Scope};
use ir::{Chain, delegation::SortMethod};

use super::ResolvedRule;
use crate::tables::delegation::{AsMuchBelow, Delegating, FitsBelow, Handed, ServedChain};

impl Lookup for AsMuchBelow {
    fn compute(scope: &Scope<'_>, key: &(Chain, u32, u32)) -> Option<bool> {
        let (chain, rule, _) = key;
        if scope.get::<FitsBelow>(key).is_some_and(|fits| fits.as_much) {
            return Some(true);
        }
        let handed = scope.group::<Handed>(key);
        let mut handed = handed.iter();
        Some(handed.any(|((child, index, matching), ())| {
            is_served(scope, &(chain.below(*rule, child.clone()), *index, *matching))
        }))
    }

    fn depth((chain, ..): &(Chain, u32, u32)) -> u32 {
        from_below(chain)
    }
}

/// Whether a match of a delegating rule has anything served that asks for no more, by the rule itself or below it.
fn is_served(scope: &Scope<'_>, key: &(Chain, u32, u32)) -> bool {
    let (chain, rule, matching) = key;
    if scope.get::<ServedChain>(chain).is_none() {
        return false;
    }
    let rule = (chain.clone(), *rule);
    // What delegates nothing answers by itself.
    let Some(delegation) = scope.get::<Delegating>(&rule) else { return true };
    // Those that are sorted by weight stand in the place of the match, whatever they ask for.
    if delegation.terms.sort == SortMethod::TableWeight {
        return true;
    }
    let Some(placed) = delegation.matches.get(*matching as usize) else { return false };
    scope.get::<ResolvedRule>(&rule).is_some_and(|resolved| resolved.serves(placed))
        || scope.get::<AsMuchBelow>(key).is_some_and(|as_much| *as_much)
}

/// The depth of tables that settle from the leaves of a tree to its root.
pub(super) fn from_below(chain: &Chain) -> u32 {
    u32::MAX - chain.depth()
}
