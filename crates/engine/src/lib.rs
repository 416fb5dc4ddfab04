//! Typed incremental tables and groups.
#![forbid(unsafe_code)]

mod builder;
mod engine;
mod graph;
mod groups;
mod pages;
mod rows;
mod scope;
mod store;
mod table;
mod why;

pub use builder::Builder;
pub use engine::{Batch, Engine};
pub use pages::{Change, Page, View};
pub use scope::{Emitter, Scope};
pub use table::{Derived, Digest, Group, Input, Key, Lookup, Table};
pub use why::{Kind, Seen, TableStats, Why};
