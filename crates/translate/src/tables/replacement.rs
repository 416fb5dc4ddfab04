//! What is replaced.

use std::sync::Arc;

use ir::{Chain, Hostname, ListenerName, NsName, Reason, RouteConfigId};

tables! {
    /// Rules that a direct response stands in place of, for each Gateway that serves it.
    Replaced: ReplacedRule => Replacement;
    /// Virtual hosts and route configurations that a direct response stands in place of.
    ReplacedWide: ReplacedScope => Replacement;
}

/// A rule at a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplacedRule {
    /// Whose proxies serve the direct response.
    pub gateway: NsName,
    /// The HTTPRoute, where it stands.
    pub route: Chain,
    /// The rule's place in the route.
    pub rule: u32,
}

/// Why a rule is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The reason, as in a status.
    pub reason: Reason,
    /// Field, value and remedy.
    pub error: Arc<str>,
}

/// A virtual host, or all of a route configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplacedScope {
    /// The route configuration.
    pub config: RouteConfigId,
    /// The one virtual host of it, and the listener that serves it; none means all of the configuration.
    pub host: Option<(Hostname, ListenerName)>,
}
