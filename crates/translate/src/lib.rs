//! Kubernetes objects in, Envoy resources and statuses out.
//!
//! Nothing here does IO. Objects go in by [`Translator::apply`], one [`Translator::settle`] brings everything derived
//! up to date, and what changed falls out: encoded resources by Gateway, and the objects whose status turned.

#[macro_use]
mod tables;

mod alike;
mod attach;
mod authorities;
mod backend;
mod budget;
mod capacity;
mod class;
mod delegation;
mod edition;
mod extension;
mod fold;
mod gateway;
mod grant;
mod host;
pub mod inspect;
mod internal;
mod kept;
mod login;
mod offer;
mod output;
mod policy;
mod proxies;
mod refused;
mod replacement;
mod resolve;
mod room;
mod route;
mod share;
mod status;
mod stream;
pub mod strict;
mod target;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tls;
pub mod translator;
mod violation;
mod weight;
mod words;

pub use edition::{Candidate, Wish};
pub use engine::{Fault, Turned};
pub use refused::refused_clusters_of;
pub use share::level;
pub use status::StatusRow;
pub use tables::edition::FreezeTold;
pub use tables::edition::objects::{Edition, Part};
pub use tables::input::{Shared, object_id, root_object, root_of};
pub use tables::login::Seed as LoginSeed;
pub use tables::policy::InvalidPolicy;
pub use tables::proxies::{Deploying, Proxies};
pub use tables::replacement::{RefusedRows, ReplacedRule, ReplacedScope, Replacement};
pub use translator::{Change, Changes, Reports, Translator, Unended};
