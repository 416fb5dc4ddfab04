//! What routes are told that wait.

use std::collections::{BTreeMap, BTreeSet};

use ir::RouteId;

use super::waiters::RowKey;
use crate::{
    Translator,
    tables::{input, strict::PartId},
};

/// Why a route is told anything.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// Its tree waits.
    Tree(RouteId),
    /// A rule of it answers by itself.
    Rule(RowKey),
    /// What its connections need waits.
    Part(PartId),
}

/// What a route is told that waits.
const WAITS: &str =
    "it waits for Envoy's word, and is served as it was, without what is gone: its tree changes as a whole";

/// What a route of connections or datagrams is told that waits.
const PART_WAITS: &str = "it waits for Envoy's word, and is served as it was, without what is gone";

/// What the route of a rule is told that waited for long enough.
const SHUT: &str = "no Envoy said in time whether it takes a rule, which answers 500 meanwhile, and is asked again";

/// What routes are told.
#[derive(Debug, Default)]
pub(super) struct Told(BTreeMap<RouteId, BTreeSet<Cause>>);

impl Told {
    /// Has a route be told something from now on, or no longer. Whether that makes a difference.
    pub(super) fn say(&mut self, translator: &mut Translator, route: &RouteId, cause: Cause, is_so: bool) -> bool {
        // What is kept of a route has no status of its own.
        let route = &route.live();
        let causes = self.0.entry(route.clone()).or_default();
        let turned = if is_so { causes.insert(cause) } else { causes.remove(&cause) };
        let words = match causes.last() {
            None => None,
            Some(Cause::Tree(_)) => Some(WAITS.into()),
            Some(Cause::Rule(_)) => Some(SHUT.into()),
            Some(Cause::Part(_)) => Some(PART_WAITS.into()),
        };
        if causes.is_empty() {
            self.0.remove(route);
        }
        turned && translator.engine_mut().set::<input::Waiting>(route.clone(), words)
    }
}
