//! Who delegates to whom.

use std::sync::Arc;

use ir::{Chain, RouteId, delegation::Children, matching::Match, route::RuleSpec};

use super::{Fault, Inspector, Provenance, Serving};
use crate::{
    delegation::excess_fault,
    tables::{
        delegation::{
            self, ChildrenOverShare, ContributedBelow, Delegating, Place, Places, Selection, Selections, ServedChain,
        },
        input::Config,
    },
};

/// A delegating rule where it stands.
#[derive(Clone)]
pub struct Delegation(Arc<delegation::Delegation>);

/// A match of a delegating rule, those of its parents counted in.
#[derive(Clone, Copy, Debug)]
pub struct MergedMatch<'a> {
    /// Its index in the rule.
    pub index: u32,
    /// Which of the matches of the parent it is joined with ([`ir::matching::Part::ordinal`]).
    pub ordinal: u32,
    /// What it asks for.
    pub written: &'a Match,
}

/// A route that a reference selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// The route.
    pub route: RouteId,
    /// Whether it stands above already, so that it does not stand here.
    pub is_cycle: bool,
}

/// How a route stands below the rule that selects it.
#[derive(Clone)]
pub struct ChildState {
    place: Arc<Place>,
    excess: Option<Fault>,
}

impl Inspector<'_> {
    /// A delegating rule; none for one that delegates nothing.
    pub fn delegation(self, chain: &Chain, rule: u32) -> Option<Delegation> {
        self.engine.get::<Delegating>(&(chain.clone(), rule)).map(Delegation)
    }

    /// Whether children serve anything below a match of a delegating rule, by its index in [`Delegation::matches`].
    pub fn has_children_below(self, chain: &Chain, rule: u32, matching: u32) -> bool {
        self.engine
            .get::<ContributedBelow>(&(chain.clone(), rule, matching))
            .is_some_and(|contributed| contributed.serves)
    }

    /// The routes that a reference of a delegating rule selects, by its index in `backendRefs`, sorted by name. Whoever does
    /// not consent is not among them.
    pub fn children(self, chain: &Chain, rule: u32, reference: u32) -> Vec<Child> {
        let selections = self.engine.group::<Selections>(&(chain.clone(), rule, reference));
        let children = selections.iter().filter_map(|(route, selection)| {
            let is_cycle = match selection {
                Selection::Selected | Selection::Unasked => false,
                Selection::Cycle => true,
                Selection::Missing | Selection::NotPermitted | Selection::Withheld | Selection::Unknown => return None,
            };
            Some(Child { route: route.clone(), is_cycle })
        });
        children.collect()
    }

    /// The reference of a delegating rule that means a child, by its index in `backendRefs`: the first, if there are more.
    pub fn reference_to(self, chain: &Chain, rule: u32, child: &RouteId) -> Option<u32> {
        let delegation = self.delegation(chain, rule)?;
        let mut references = delegation.references().iter().map(|(index, _)| *index);
        references.find(|index| self.engine.group::<Selections>(&(chain.clone(), rule, *index)).get(child).is_some())
    }

    /// How a child stands at its place; none where the rule that selects it looks at none.
    pub fn child(self, chain: &Chain) -> Option<ChildState> {
        let place = self.engine.group::<Places>(chain.route()).get(chain).cloned()?;
        let excess = chain.above().and_then(|(parent, rule)| {
            let excess = self.engine.group::<ChildrenOverShare>(&(parent.clone(), rule));
            let bound = self.engine.get::<Config>(&())?.delegation.max_matches;
            Some(excess_fault(bound, *excess.get(chain.route())?))
        });
        Some(ChildState { place, excess })
    }

    /// How a route is served at its place; none where it is not.
    pub fn serving(self, chain: &Chain) -> Option<Serving> {
        self.engine.get::<ServedChain>(chain).map(|serving| *serving)
    }
}

impl Delegation {
    /// Whom it selects, each reference with its index in `backendRefs`.
    pub fn references(&self) -> &[(u32, Children)] {
        &self.0.children
    }

    /// Its matches.
    pub fn matches(&self) -> impl Iterator<Item = MergedMatch<'_>> {
        let matches = self.0.matches.iter();
        matches.map(|placed| MergedMatch { index: placed.index, ordinal: placed.ordinal, written: &placed.written })
    }
}

impl ChildState {
    /// Why none of its rules does what it says.
    pub fn fault(&self) -> Option<&Fault> {
        self.place.fault.as_ref()
    }

    /// What becomes of it, since it asks for more than its share of the tree.
    pub fn excess(&self) -> Option<&Fault> {
        self.excess.as_ref()
    }

    /// The matches that do not lie below the parent's, by the indices of rule and match, and why.
    pub fn left_out(&self) -> &[(u32, u32, String)] {
        &self.place.left_out
    }
}

/// Whose each field is that a rule has of itself or inherits from `above`, its parent's rule. None where the rule
/// cannot be read.
pub fn provenance(rule: &RuleSpec, above: Option<&Delegation>) -> Option<Vec<Provenance>> {
    let own = rule.handling.as_ref().ok()?;
    let levels: Vec<_> = above.iter().flat_map(|above| above.0.levels.iter().map(AsRef::as_ref)).collect();
    Some(crate::delegation::provenance(own, &levels))
}
