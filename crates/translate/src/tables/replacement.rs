//! What is replaced.

use std::{collections::BTreeMap, sync::Arc};

use envoy::bytes::{Hash, Row};
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

/// The Envoy routes of a route that an Envoy refuses, by their content hash, each with its words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedRows(BTreeMap<Hash, Arc<str>>);

impl RefusedRows {
    /// Adds one. `words` are one clause, such as `Envoy 1.40.0 refuses it: …`.
    pub fn insert(&mut self, hash: Hash, words: impl Into<Arc<str>>) {
        self.0.insert(hash, words.into());
    }

    /// The words, if this one is refused.
    pub(crate) fn get(&self, row: &Row) -> Option<&Arc<str>> {
        self.0.get(&row.hash)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
