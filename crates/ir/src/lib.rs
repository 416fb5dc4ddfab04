//! The model between Kubernetes objects and Envoy resources.
//!
//! Plain data with equality: no Kubernetes client, no protobuf, no IO. What an object asks for is a value here, and
//! what is wrong with it is one too ([`Problem`]), so that a broken part travels beside the parts that work instead of
//! ending the translation.

pub mod backend;
pub mod chain;
pub mod delegation;
pub mod downstream;
pub mod filter;
pub mod hostname;
pub mod id;
pub mod key;
pub mod listener;
pub mod matching;
mod priority;
pub mod problem;
pub mod reason;
pub mod route;
pub mod rule;
pub mod settings;
pub mod stream;
pub mod telemetry;
pub mod upstream;

pub use chain::Chain;
pub use hostname::Hostname;
pub use id::{
    Edition, GATEWAY_API, ListenerId, ListenerName, NsName, ParentId, Port, RootId, RouteConfigId, RouteId, RouteKind,
};
pub use problem::{Problem, Severity};
pub use reason::Reason;
pub use settings::Settings;
