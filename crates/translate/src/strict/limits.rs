//! How far a rule that was cleared may be served while what stands for it now waits.
//!
//! What goes, goes at once: nobody has to be asked about a constant answer to a match that Envoy has taken. Which rule of its route
//! stands for an Envoy route now is told by what that matches, since rules move when another one comes before them, and so does
//! all that stands below them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use engine::Engine;
use envoy::{bytes::Hash, route::outline};
use ir::{Chain, ListenerId, backend::Destination};

use crate::{
    host::{Answer, Placed},
    resolve::Resolved,
    tables::{host::Offer, route::RouteHead},
};

/// What a route has where a listener serves it now in a tree, by whatever chains.
pub(super) struct Now {
    /// Any of its rules, by which it is known where it is served.
    any: Option<Arc<Placed>>,
    /// By what they match, the guards of its Envoy routes and the rule that has them.
    rows: HashMap<Hash, (Hash, Arc<Placed>)>,
}

/// What may not be served any more of a rule that was cleared.
pub(super) struct Limits {
    /// The rule as it may be served; none where that is as it is.
    pub(super) limited: Option<Placed>,
    /// Whether any of it lets in others than what stands for it now, or is gone: for want of a word it is closed.
    pub(super) is_loose: bool,
}

/// Whether connections to a backend are secured now to which one goes in plain text.
fn is_secured(now: &Resolved, cleared: &Resolved) -> bool {
    let mut secured = now.destinations().filter(Destination::is_secured).map(Destination::plain);
    secured.any(|plain| cleared.destinations().any(|to| to == plain))
}

impl Now {
    /// By these chains, all of them of one route.
    pub(super) fn of<'a>(engine: &Engine, chains: impl IntoIterator<Item = &'a Chain>, listener: &ListenerId) -> Self {
        let rules = |chain: &Chain| engine.get::<RouteHead>(chain.route()).map_or(0, |head| head.rules.len());
        let rules = chains.into_iter().flat_map(|chain| (0..).take(rules(chain)).map(move |rule| (chain, rule)));
        let rules = rules.filter_map(|(chain, rule)| engine.get::<Offer>(&(chain.clone(), rule, listener.clone())));
        let mut now = Self { any: None, rows: HashMap::new() };
        for placed in rules {
            for row in placed.offered_routes().iter() {
                if let Some(outline) = outline(&row.row) {
                    now.rows.entry(outline.matching).or_insert_with(|| (outline.guards, placed.clone()));
                }
            }
            now.any.get_or_insert(placed);
        }
        now
    }

    /// How far a rule of the same route may be served; `closes` where what lets in others is closed.
    pub(super) fn limits(&self, cleared: &Placed, listener: &ListenerId, closes: bool) -> Limits {
        let nothing = Limits { limited: None, is_loose: false };
        if cleared.is_shut() {
            return nothing;
        }
        // A route that is not served here any more is gone.
        let Some(any) = &self.any else { return Limits { limited: Some(cleared.shut()), ..nothing } };
        let lost = cleared.hostnames(listener).filter(|hostname| !any.hostnames(listener).any(|now| now == *hostname));
        let lost: Vec<_> = lost.cloned().collect();
        let (mut rows, mut is_loose, mut is_open) = (BTreeMap::new(), false, false);
        for route in cleared.offered_routes().iter() {
            if cleared.answer(&route.row).is_some() {
                continue;
            }
            let own = outline(&route.row);
            let now = own.and_then(|own| self.rows.get(&own.matching));
            let is_worse = now.is_some_and(|(_, placed)| placed.resolved().is_worse_than(cleared.resolved()));
            let is_other = now.map(|(guards, _)| guards) != own.as_ref().map(|own| &own.guards)
                || now.is_some_and(|(_, placed)| is_secured(placed.resolved(), cleared.resolved()));
            is_loose |= is_other && !is_worse;
            if is_worse || is_other && closes {
                rows.insert(route.row.hash, Answer::Closed);
            } else {
                is_open = true;
            }
        }
        let limited = if is_open { cleared.shut_at(lost, rows) } else { cleared.shut() };
        Limits { limited: (limited != *cleared).then_some(limited), is_loose }
    }
}
