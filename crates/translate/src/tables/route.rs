//! Routes as all kinds have them.

use ir::{
    NsName,
    route::{Head, RuleSpec},
};

tables! {
    /// Routes without what their rules say.
    RouteHead: NsName => Head;
    /// Rules of routes by their place: read once, whoever asks.
    RouteRule: (NsName, u32) => RuleSpec;
}
