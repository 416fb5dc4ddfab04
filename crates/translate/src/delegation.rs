//! Delegation from route to route (EP-10943): which requests a child may take, and what its matches become below its
//! parent's.
//!
//! Pure functions over matches. A parent's side is always the merged match, that of all its ancestors included.

mod contain;
mod inherit;
mod regex;

pub use contain::{Outside, contains};
pub use inherit::{Unjoinable, join};
