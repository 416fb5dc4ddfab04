//! Reading HTTPRoutes.

mod filters;
pub(super) mod head;
mod matches;
mod reference;
pub(super) mod rule;
