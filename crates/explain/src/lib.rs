//! What is served, in words: which route takes a request and why ([`explain()`]), and all routes as a [`tree`].
//!
//! All of it is read from the tables that Envoy's configuration is made from ([`translate::inspect`]), and nothing is
//! computed anew. An Envoy route is decoded from the row that is served, and matched as Envoy does it: by what stands in the
//! message, in the order of the rows.

mod bytewise;
mod choose;
mod effects;
mod explanation;
mod finding;
mod lineage;
mod matching;
mod provenance;
mod query;
mod request;
mod served_route;
mod stream;
pub mod tree;
mod virtual_host;
mod words;

pub use explanation::{Considered, Effect, Explanation, Leaf, Link, ListenerWord, MatchedListener, Outcome, Tried};
pub use finding::Finding;
pub use lineage::Lineage;
pub use query::{Matched, Query, explain};
pub use request::{BadRequest, Request};
pub use served_route::{Answer, Share};
pub use stream::{Connection, StreamExplanation, StreamOutcome, explain_connection};

#[cfg(test)]
mod tests;
