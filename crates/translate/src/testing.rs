//! Objects for tests of this and of other crates: small scenes.

mod one_of_each;
mod rows;
pub mod scene;

pub use self::one_of_each::one_of_each;
pub use self::rows::{HOST_WEIGHT, HTTPS_LISTENER_WEIGHT};
