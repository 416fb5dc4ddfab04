//! Routes as all kinds have them.

use ir::{
    RouteId,
    route::{Head, RuleSpec},
};

tables! {
    /// Routes without what their rules say.
    RouteHead: RouteId => Head;
    /// Rules of routes by their place: read once, whoever asks.
    RouteRule: (RouteId, u32) => RuleSpec;
}
