//! Routes that delegate to each other, as parents and children see each other.

use std::sync::Arc;

use crate::{
    id::RouteId,
    matching::{At, Match, Step},
    route::Fields,
};

/// The label by whose value routes are selected.
pub const LABEL: &str = "delegation.kgateway.dev/label";

/// The HTTPRoutes that a reference delegates to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Children {
    /// This one.
    Named(RouteId),
    /// All of a namespace.
    InNamespace(Arc<str>),
    /// Those with this value of [`LABEL`], in one namespace or (none) in all.
    Labelled(Arc<str>, Option<Arc<str>>),
}

/// How the children of a route are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortMethod {
    /// Each of their matches by itself, among all of the virtual host.
    #[default]
    RouteSpecificity,
    /// By their weights, in the place of the parent's match.
    TableWeight,
}

/// A match at its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedMatch {
    /// Its place in the rule.
    pub index: u32,
    /// Tells apart what one match becomes below several matches of its parent.
    pub ordinal: u32,
    /// What it matches.
    pub written: Match,
    /// Its place among all matches of the tree.
    pub steps: Arc<[Step]>,
}

impl PlacedMatch {
    /// This match behind those that stand below it; `as_much` tells whether any of them asks for no more.
    pub fn behind(&self, sort: SortMethod, as_much: bool) -> Self {
        let steps = match (sort, self.steps.split_last()) {
            // In a contest those that ask for more come first anyway.
            (SortMethod::RouteSpecificity, Some((Step::At(at), kept))) if at.specificity.is_some() => {
                let last = Step::At(At { gives_way: as_much, ..at.clone() });
                kept.iter().cloned().chain([last]).collect()
            }
            _ => self.steps.iter().cloned().chain([Step::Last]).collect(),
        };
        Self { steps, ..self.clone() }
    }
}

/// What one delegating rule hands down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Its route.
    pub route: RouteId,
    /// Whether it wins over all below.
    pub prefers_parent: bool,
    /// Its fields.
    pub fields: Fields,
}
