//! Generated objects for tests of this and of other crates: worlds that Envoy must survive whatever stands in them.

mod draws;
mod edit;
mod policy;
mod rule;
pub mod tenant;
pub mod values;
pub mod world;

pub use self::draws::Draws;

#[cfg(test)]
mod tests;
