//! Generated worlds of objects for tests: Envoy must survive whatever stands in them, and what holds of all objects is asked of them.

mod backends;
mod draws;
mod edit;
pub mod extension;
mod grpc;
mod listener_policy;
mod place;
mod policy;
mod route;
mod rule;
mod stream;
pub mod tenant;
pub mod units;
pub mod values;
pub mod world;

pub use self::draws::Draws;

#[cfg(test)]
mod tests;
