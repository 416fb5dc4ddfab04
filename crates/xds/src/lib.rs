//! The aggregated discovery service (ADS): what is sent to Envoys, and when.
//!
//! This crate knows resource names, versions and bytes, nothing else. What the bytes mean is decided before they come
//! here; which gateway a stream may read is decided by [`Config::authenticate`], and where no token is asked for by
//! [`Config::authorize`].
//!
//! * [`Resource`] is one encoded Envoy message, [`Snapshot`] is all that one gateway's proxies shall have, [`Hub`] is
//!   where snapshots are published.
//! * [`stream`] is the protocol of one stream without IO: messages and times go in, responses come out.
//! * [`Server`] is the gRPC service around it. It sends every resource's bytes without copying them.
//! * [`Authenticate`] finds the identity of a stream before anything of it is read, and [`Certificate`] is the server's.
//! * [`Event`] is what is learned from proxies: what they accepted and what they rejected.
//!
//! Order within an update is make-before-break; see [`stream`].

mod admission;
mod body;
mod config;
mod event;
mod frame;
mod hub;
mod identity;
mod jitter;
mod limits;
mod metrics;
mod peer;
mod request;
mod resource;
mod server;
mod service;
mod snapshot;
pub mod stream;
mod tls;
mod trial;

pub use config::{Authorize, Config, trust_node_cluster};
pub use event::{Event, Reporter, reporter};
pub use hub::{Hub, Publication};
pub use identity::{Authenticate, Identity, MAX_TOKEN_BYTES, Refusal, Token};
pub use limits::Limits;
pub use metrics::{Metrics, TypeLabel};
pub use peer::{Peer, PeerAddress};
pub use request::{DeltaRequest, EnvoyVersion, Node, ParseError, SotwRequest};
pub use resource::{Pieces, Resource, ResourceType, Version};
pub use server::{BindError, ServeError, Server, check_bind};
pub use snapshot::Snapshot;
pub use tls::{Certificate, CertificateError};
pub use trial::{Answer, Trial};
