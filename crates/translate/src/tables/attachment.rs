//! What routes are attached to.

use std::sync::Arc;

use api::meta::StringMap;
use ir::{Hostname, ListenerId, Problem, RouteId, hostname::HostPrecedence, matching::Age};

use super::gateway::Fault;

tables! {
    /// The labels of a namespace, which are all that anyone reads of it.
    NamespaceLabels: Arc<str> => StringMap;
    /// Routes with the listeners that they are attached to.
    Attachment: RouteId => Attached;
    /// Why no rule of a route at a Gateway does what it says; absent where one does.
    Unacceptable: RouteId => Fault;
}

groups! {
    /// The routes attached to a listener; their number is `attachedRoutes`.
    AttachedRoutes: ListenerId, RouteId => ();
}

/// A route without its rules, and what became of each of its parents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attached {
    /// When it was created, in seconds since 1970.
    pub(crate) created: i64,
    /// How many rules it has.
    pub(crate) rules: u32,
    /// Whether none of its hostnames can be served.
    pub(crate) without_hostname: bool,
    /// One entry for each parent that is a Gateway of ours, in the order of the spec.
    pub(crate) parents: Box<[ParentState]>,
    /// The listeners it is attached to, sorted, each once, with the hostnames it serves there.
    pub(crate) listeners: Box<[(ListenerId, Box<[ServedHostname]>)]>,
    /// Those of them that are served.
    pub(crate) served: Box<[ListenerId]>,
    /// Those of them that pass TLS through, sorted.
    pub(crate) passing: Box<[ListenerId]>,
    /// What is wrong outside its rules.
    pub(crate) problems: Box<[Problem]>,
}

/// A hostname that a route serves at a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServedHostname {
    /// What the hostnames of both have in common.
    pub(crate) hostname: Hostname,
    /// Where the route's own hostname stands, which may be the broader one. A route without any has the listener's.
    pub(crate) precedence: HostPrecedence,
}

/// One parent of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParentState {
    /// Its place in `spec.parentRefs`.
    pub(crate) index: usize,
    /// Why the route is not attached to it.
    pub(crate) refused: Option<Box<Fault>>,
}

impl Attached {
    /// The hostnames with which the route is attached to a listener.
    pub(crate) fn hostnames(&self, listener: &ListenerId) -> &[ServedHostname] {
        let at = self.listeners.binary_search_by(|(id, _)| id.cmp(listener));
        at.map_or(&[], |at| &self.listeners[at].1)
    }

    /// Its place among routes that are otherwise equal; `route` is this one.
    pub(crate) fn age(&self, route: &RouteId) -> Age {
        Age { created: self.created, name: route.name.clone() }
    }
}
