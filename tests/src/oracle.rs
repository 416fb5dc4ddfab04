//! Which match takes a request, told from the manifests alone.
//!
//! A second opinion for tests: it shares no code with Portcullis, knows nothing of Envoy, and scans all matches one after
//! the other, by the text of Gateway API and of its own documentation of delegation. It is slow, and right where it
//! answers; what it does not know it refuses to read. It serves HTTP listeners, whose requests it takes to be normalized.
//! Of the match that takes a request it tells what policies come to, and what a client sees of that, also where Envoy
//! follows a redirect from one match to the next.

mod encoding;
mod hostname;
mod journey;
mod matching;
mod merge;
mod model;
mod pattern;
mod policy;
mod redirect;
mod sight;
pub mod stage;
#[cfg(test)]
mod tests;
mod treatment;
mod tree;
pub mod worlds;

use std::collections::BTreeSet;
use std::fmt;

use anyhow::Result;
use serde_json::Value;

use crate::client::Request;
use hostname::Fit;
use model::{Listener, Route, World};
use tree::{Item, Place, Tree};

pub use journey::Journey;
pub use merge::Held;
pub use model::Name;
pub use sight::Sight;
pub use treatment::Treatment;

/// What an operator can set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How deep a child may stand; a root's children stand at 1.
    pub depth: usize,
    /// How many matches a root may render.
    pub matches: usize,
    /// The namespace that means all of them in a reference by label.
    pub everywhere: String,
    /// Whether a child must name a parent in another namespace.
    pub explicit_across_namespaces: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let everywhere = "all".to_owned();
        Self { depth: 32, matches: 10_000, everywhere, explicit_across_namespaces: false }
    }
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A match takes it.
    Route(Taken),
    /// No match takes it, with the reason: a 404.
    NotFound(String),
}

/// The match that takes a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// From the root to the leaf: the route, its rule and the match of that.
    pub chain: Vec<Step>,
    /// What the client gets.
    pub answer: Answer,
    /// Why, for the report of a failed test.
    pub why: String,
}

/// A link of a chain.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Step {
    /// The route.
    pub route: Name,
    /// The index of the rule.
    pub rule: usize,
    /// The index of the match in its rule.
    pub matching: usize,
}

/// What the client gets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Answer {
    /// The answer of one of these backends (`NAMESPACE/SERVICE`).
    Backends {
        /// Those that can be used, at least one.
        names: BTreeSet<String>,
        /// Whether there are others, whose share is answered with 500.
        broken_share: bool,
    },
    /// An answer of Envoy's own, with this status.
    DirectResponse(u16),
    /// A redirect.
    Redirect,
}

impl Outcome {
    /// The match that takes the request: the last of its chain.
    pub fn route_identity(&self) -> Option<&Step> {
        match self {
            Self::Route(taken) => taken.chain.last(),
            Self::NotFound(_) => None,
        }
    }

    /// What the client gets.
    pub fn answer(&self) -> Answer {
        match self {
            Self::Route(taken) => taken.answer.clone(),
            Self::NotFound(_) => Answer::DirectResponse(404),
        }
    }
}

/// The name of the Envoy route.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.route, self.rule, self.matching)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(why) => write!(f, "404: {why}"),
            Self::Route(Taken { chain, answer, why }) => {
                let chain: Vec<_> = chain.iter().map(ToString::to_string).collect();
                write!(f, "{}: {answer:?}, since {why}", chain.join(" -> "))
            }
        }
    }
}

/// A world, ready to be asked.
#[derive(Debug)]
pub struct Oracle {
    world: World,
    /// What each root serves, by its place among the routes.
    trees: Vec<Vec<Item>>,
}

impl Oracle {
    /// Reads manifests.
    ///
    /// # Errors
    /// What the oracle does not know.
    pub fn read(manifests: &[Value], settings: &Settings) -> Result<Self> {
        let world = World::read(manifests)?;
        let tree = |root: &Route| {
            if root.parents.iter().all(|parent| parent.is_route) {
                return Vec::new();
            }
            Tree { world: &world, settings, root, count: 0 }.expand()
        };
        let trees = world.routes.iter().map(tree).collect();
        Ok(Self { world, trees })
    }

    /// What becomes of a request that reaches a port of a Gateway (`NAMESPACE/NAME`).
    pub fn ask(&self, gateway: &str, port: u16, request: &Request) -> Outcome {
        let Some(listener) = self.listener(gateway, port, &request.host) else {
            return Outcome::NotFound(format!("no listener of {gateway} on {port} is for {:?}", request.host));
        };
        let mut items: Vec<((std::cmp::Reverse<Fit>, &Place), &Item)> = Vec::new();
        for (route, tree) in self.world.routes.iter().zip(&self.trees) {
            let Some(fit) = attached(route, listener).then(|| fit(route, listener, &request.host)).flatten() else {
                continue;
            };
            items.extend(tree.iter().map(|item| ((std::cmp::Reverse(fit), &item.place), item)));
        }
        // Stable: what is equal in every way keeps the order in which it was found.
        items.sort_by_key(|(place, _)| *place);
        let entries = items.iter().flat_map(|(_, item)| &item.entries);
        match entries.into_iter().find(|entry| entry.request.takes(request)) {
            Some(entry) => Outcome::Route(entry.taken.clone()),
            None => Outcome::NotFound(format!("no match that listener {} serves takes it", listener.name)),
        }
    }

    /// The listener that a host belongs to.
    fn listener(&self, gateway: &str, port: u16, host: &str) -> Option<&Listener> {
        let serving = self
            .world
            .listeners
            .iter()
            .filter(|listener| listener.gateway.to_string() == gateway && listener.port == u64::from(port));
        let fitting = serving.filter_map(|listener| Some((listener.hostname.fit(host)?, listener)));
        fitting.max_by_key(|(fit, _)| *fit).map(|(_, listener)| listener)
    }

    /// Some paths that the matches of each root take.
    pub fn paths(&self) -> BTreeSet<String> {
        let entries = self.trees.iter().flatten().flat_map(|item| &item.entries);
        entries.flat_map(|entry| entry.request.path.examples()).collect()
    }

    /// All matches that roots serve, in words, for the report of a failed test.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for entry in self.trees.iter().flatten().flat_map(|item| &item.entries) {
            text.push_str(&Outcome::Route(entry.taken.clone()).to_string());
            text.push('\n');
        }
        text
    }

    /// How many matches all roots serve.
    pub fn size(&self) -> usize {
        self.trees.iter().flatten().map(|item| item.entries.len()).sum()
    }
}

/// Whether a route is attached to a listener, hostnames apart.
fn attached(route: &Route, listener: &Listener) -> bool {
    let admitted = listener.from_all || listener.gateway.namespace == route.name.namespace;
    admitted
        && route.parents.iter().any(|parent| {
            !parent.is_route
                && parent.name == listener.gateway
                && parent.section.as_ref().is_none_or(|section| *section == listener.name)
                && parent.port.is_none_or(|port| port == listener.port)
        })
}

/// How well the best hostname of a route fits; a route without any has the listener's. Whatever fits a request that a
/// listener takes intersects the listener's.
fn fit(route: &Route, listener: &Listener, host: &str) -> Option<Fit> {
    let hostnames =
        if route.hostnames.is_empty() { std::slice::from_ref(&listener.hostname) } else { &route.hostnames };
    hostnames.iter().filter_map(|hostname| hostname.fit(host)).max()
}
