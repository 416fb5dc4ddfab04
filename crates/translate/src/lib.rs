//! Kubernetes objects in, Envoy resources and statuses out.
//!
//! Nothing here does IO. Objects go in by [`Translator::apply`], one [`Translator::settle`] brings everything derived
//! up to date, and what changed falls out: encoded resources by Gateway, and the objects whose status turned.

pub mod bytes;
pub mod envoy;
pub mod resource;
pub mod validate;

pub use resource::{Encoded, ResourceKey, ResourceKind};
