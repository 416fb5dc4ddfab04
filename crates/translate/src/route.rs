//! HTTPRoutes: read rule by rule, so that a change of one rule leaves the others alone.
//!
//! What is wrong with a rule becomes a value beside what is right: a match that cannot be expressed is dropped, a filter
//! that cannot be honoured has its rule replaced. References to other objects are followed in [`crate::resolve`].

pub(crate) mod direct_response;
pub(crate) mod filters;
pub(crate) mod head;
pub(crate) mod matches;
pub(crate) mod rule;
