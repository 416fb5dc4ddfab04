//! Delegation from route to route (EP-10943).
//!
//! A route is served once for each chain of delegating rules that leads to it from a root, which stands at a Gateway. A
//! tree [grows](crate::tables::delegation::Growth) depth by depth: a route expands its delegating rules, the routes that
//! these select become [candidates](crate::tables::delegation::Candidate), and those that have anything below their
//! parent's matches expand again. When all has grown, those that do not ask for more than their share of the tree's bound
//! are served, as [branches](crate::tables::delegation::ServedChain). What a rule is to its children is a [`Delegation`](crate::tables::delegation::Delegation):
//! nothing else of a parent wakes them.
//!
//! A parent's side of a match is always the merged one, that of all its ancestors included.

mod allowed;
mod bound;
mod branch;
mod candidate;
mod contain;
mod index;
mod inherit;
mod inheritance;
mod parent;
mod placed_route;
mod policy;
mod regex;
mod select;
mod share;

pub(crate) use select::consents;
pub use select::published_unasked;

pub(crate) use allowed::not_allowed;
pub(crate) use bound::{
    HasTooManyMatches, MatchClaims, OverShareAt, RouteClaims, SelectsTooMany, TooManyMatches, TooManyRoutes,
    UsedMatches, UsedRoutes, excess_fault, excess_of, why_too_many,
};
pub(crate) use branch::{BucketSelection, ChildSelection, grow};
pub(crate) use index::{BucketRow, Buckets, ChildHead, Filled, Members, file};
pub use inheritance::Provenance;
pub(crate) use inheritance::{combine, provenance};
pub(crate) use placed_route::{PlacedRoute, describe};
pub(crate) use policy::{
    DelegationPoliciesOf, DelegationPolicyRow, DirectivesFor, PolicyDirectives, directives_for, freezing, keeper,
    targeted,
};
pub(crate) use select::{is_delegate, may_consent};
