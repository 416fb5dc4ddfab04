//! Reading HTTPRoutes.

mod filters;
pub(super) mod head;
mod matches;
pub(super) mod rule;
