//! Own serde types of the Kubernetes objects that Portcullis reads, and of the statuses that it writes.
//!
//! Gateway API kinds follow the Go types of release 1.6.1, experimental channel included: same names in snake case,
//! same nesting, every field. Two things differ from Go, on purpose:
//!
//! - **What an API server would default is defaulted here.** A field with a schema default is no `Option`; its value
//!   comes from `Default` of its struct, so that a manifest read from a file looks like one read from a cluster.
//! - **Enums are open.** A value that this release does not know becomes `Unknown`, so one new word never makes an
//!   object, let alone a list of them, undecodable. Whoever reads the field decides what such a value costs.
//!
//! Core kinds ([`core`]) are slim models: only what translation reads is kept, made on arrival.
//!
//! Decoding takes types and nothing else seriously: a required field that is missing decodes to its empty value, a
//! number out of bounds stays as it is. An API server refuses such objects before anybody sees them; for objects that
//! did not come from one, [`violations`] applies the same rules.
//!
//! Identifiers (names, namespaces, hostnames) are `Arc<str>`, so that keys made from them share the text; other text is
//! `Box<str>`.

#[macro_use]
mod open_enum;
pub mod open_fields;

pub mod compact;
pub mod core;
pub mod crd;
pub mod decode;
pub mod group;
pub mod honoured;
mod kinds;
pub mod meta;
pub mod policy;
pub mod references;
mod resource;
pub mod schema;
pub mod shared;
pub mod status;
pub mod violation;

pub use crd::crds;
pub use decode::{DecodeError, Decoded, Mismatch, decode, decode_in, decode_json, decode_or_targets, decode_value};
pub use honoured::{Affects, RefusedField};
pub use kinds::*;
pub use meta::ObjectMeta;
pub use object::{ObjectId, StatusKind, violations};
pub use open_fields::OpenFields;
pub use violation::Violation;
