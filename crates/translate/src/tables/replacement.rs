//! What is replaced.

use std::{collections::BTreeMap, fmt::Display, sync::Arc};

use envoy::bytes::{Hash, Row};
use ir::{Chain, Hostname, ListenerName, NsName, Reason, RouteConfigId};

tables! {
    /// Rules that a direct response stands in place of, and those of streams whose connections are closed, for each Gateway that
    /// serves it.
    Replaced: ReplacedRule => Replacement;
    /// Virtual hosts and route configurations that a direct response stands in place of.
    ReplacedWide: ReplacedScope => Replacement;
}

/// A rule at a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplacedRule {
    /// Whose proxies serve the direct response.
    pub gateway: NsName,
    /// The route, where it stands.
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

/// The Envoy routes of a route that an Envoy refuses, or clusters of an object, by their content hash, each with its words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedRows(BTreeMap<Hash, RefusedRow>);

/// One that an Envoy refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefusedRow {
    /// Why.
    pub(crate) words: Arc<str>,
    /// Whether Envoy said so. A crash, or an end for want of time or memory, may have another cause.
    pub(crate) is_said: bool,
    /// Whether anybody has judged it.
    pub(crate) is_judged: bool,
}

impl RefusedRows {
    /// Adds one. `words` are one clause, such as `Envoy 1.40.0 refuses it: …`; `is_said` where Envoy says so itself. One that
    /// answers 500 already is left out for nothing less: its requests would reach another route. Whether it was not there before.
    pub fn insert(&mut self, hash: Hash, words: impl Into<Arc<str>>, is_said: bool) -> bool {
        self.0.insert(hash, RefusedRow { words: words.into(), is_said, is_judged: true }).is_none()
    }

    /// Adds one of which nobody has said anything in time.
    pub(crate) fn insert_unjudged(&mut self, hash: Hash, words: impl Into<Arc<str>>) {
        self.0.insert(hash, RefusedRow { words: words.into(), is_said: false, is_judged: false });
    }

    /// These with those of `others` that are not there.
    pub(crate) fn joined(&self, others: &Self) -> Self {
        let mut joined = others.clone();
        joined.0.extend(self.0.iter().map(|(hash, row)| (*hash, row.clone())));
        joined
    }

    /// What the owner of a route is told of one.
    pub fn told(words: &str) -> String {
        told(&format_args!("{words}; write the rule or the match otherwise"))
    }

    /// Why, if this one is refused.
    pub(crate) fn get(&self, row: &Row) -> Option<&RefusedRow> {
        self.0.get(&row.hash)
    }

    /// Why, if what has this hash is refused.
    pub(crate) fn words(&self, hash: &Hash) -> Option<&Arc<str>> {
        self.0.get(hash).map(|row| &row.words)
    }

    /// Takes one out.
    pub fn remove(&mut self, hash: &Hash) {
        self.0.remove(hash);
    }

    /// Whether this one is refused.
    pub fn contains(&self, hash: &Hash) -> bool {
        self.0.contains_key(hash)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What the owner of a route is told of an Envoy route that cannot be sent.
pub(crate) fn told(why: &dyn Display) -> String {
    format!("Envoy cannot read the route that it becomes with its rule: {why}")
}
