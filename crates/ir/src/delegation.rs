//! Routes that delegate to each other, as parents and children see each other.

use std::sync::Arc;

use crate::{
    id::RouteId,
    matching::{At, Match, Step},
    route::Fields,
};

pub use crate::priority::Priority;

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
    /// Of an expression, the path prefix of an ancestor at or below which all lies that it matches; none where no ancestor has one.
    pub below: Option<Arc<str>>,
    /// Its place among all matches of the tree.
    pub steps: Arc<[Step]>,
}

impl PlacedMatch {
    /// This match right behind those that stand below it; `last` is the place of the last of them that asks for no more.
    pub fn behind(&self, sort: SortMethod, last: Option<&[Step]>) -> Self {
        let steps = match (self.in_contest(sort), last) {
            (Some((_, at)), Some(last)) if *last > *self.steps => {
                last.iter().cloned().chain([Step::Left(at.clone())]).collect()
            }
            // In a contest those that ask for more come first anyway.
            (Some(_), _) => self.steps.clone(),
            (None, _) => self.steps.iter().cloned().chain([Step::Last]).collect(),
        };
        Self { steps, ..self.clone() }
    }

    /// This match behind all of its tree that ask for as much, where nobody knows which of them stand below it.
    pub fn behind_all(&self, sort: SortMethod) -> Self {
        let Some((kept, at)) = self.in_contest(sort) else { return self.behind(sort, None) };
        let last = Step::At(At { gives_way: true, ..at.clone() });
        Self { steps: kept.iter().cloned().chain([last]).collect(), ..self.clone() }
    }

    /// Its place, and what is in front of it, where those that stand below it are compared with it.
    fn in_contest(&self, sort: SortMethod) -> Option<(&[Step], &At)> {
        match (sort, self.steps.split_last()) {
            (SortMethod::RouteSpecificity, Some((Step::At(at), kept))) if at.specificity.is_some() => Some((kept, at)),
            _ => None,
        }
    }
}

/// What one delegating rule hands down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Its route.
    pub route: RouteId,
    /// How it is merged with what is below. A rule's own fields are never merged deeply.
    pub priority: Priority,
    /// Its fields.
    pub fields: Fields,
}
