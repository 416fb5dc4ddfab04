//! Objects for tests of this and of other crates: generated worlds that Envoy must survive whatever stands in them, and
//! small scenes.

mod backends;
mod draws;
mod edit;
pub(crate) mod extension;
mod grpc;
mod listener_policy;
mod one_of_each;
mod policy;
mod rule;
pub mod scene;
mod stream;
pub mod tenant;
pub mod units;
pub mod values;
pub mod world;

pub use self::{draws::Draws, one_of_each::one_of_each};

#[cfg(test)]
mod tests;
