//! Delegation from route to route (EP-10943): whom a parent selects, which requests a child may take, and what its
//! matches become below its parent's.
//!
//! Pure functions. A parent's side of a match is always the merged one, that of all its ancestors included.

mod contain;
mod inherit;
mod regex;
mod select;

pub use contain::{Outside, contains};
pub use inherit::{Unjoinable, join};
pub use select::{Children, LABEL, consents};
