//! Routes as all kinds have them.

use ir::{
    NsName,
    route::{Head, RuleSpec},
};

tables! {
    /// Routes without what their rules say.
    RouteHead: NsName => Head;
    /// `metadata.generation`, which changes with everything that a route says.
    RouteGeneration: NsName => i64;
    /// Rules of routes by their place: read once, whoever asks.
    RouteRule: (NsName, u32) => RuleSpec;
}
