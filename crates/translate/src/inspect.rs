//! What the tables say, for those who put it into words.
//!
//! An [`Inspector`] reads and computes nothing. What it gives is shared with the translator: to ask costs next to nothing, so
//! that the translator's thread may answer, and what is made of the answers may be made on another one.

mod delegation;
mod listener;
mod rule;
pub(crate) mod sent;
mod stream;

use std::sync::Arc;

use engine::{Engine, View};
use envoy::bytes::Row;
use ir::{
    Chain, Hostname, ListenerId, Problem, RootId, RouteId, RouteKind,
    matching::Precedence,
    route::{Head, RuleSpec},
};

use crate::{
    Translator,
    capacity::Overruns,
    host::RoutesAt,
    tables::{
        attachment::{Attached, Attachment, Unacceptable},
        edition::{FreezeTold, FreezingOf, ServedFrom, WideFreezing},
        input::{FrozenTold, root_object},
        route::{RouteHead, RouteRule},
    },
};
pub use crate::{
    delegation::{Provenance, published_unasked},
    tables::{delegation::Serving, gateway::Fault},
};
pub use delegation::{Child, ChildState, Delegation, MergedMatch, provenance};
pub use listener::{Gateway, Listener};
pub use rule::{ServedRule, WideUnit, WideUnits};
pub use sent::Sent;
pub use stream::StreamPlace;

/// Reads what stands in the tables of a translator.
#[derive(Clone, Copy)]
pub struct Inspector<'a> {
    engine: &'a Engine,
}

impl Translator {
    /// Reads what stands in the tables, as they are since the last settling.
    pub fn inspect(&self) -> Inspector<'_> {
        Inspector { engine: self.engine() }
    }
}

impl Inspector<'_> {
    /// A route, without what its rules say.
    pub fn route(self, name: &RouteId) -> Option<Arc<Head>> {
        self.engine.get::<RouteHead>(name)
    }

    /// A rule of a route as it is written.
    pub fn written_rule(self, route: &RouteId, rule: u32) -> Option<Arc<RuleSpec>> {
        self.engine.get::<RouteRule>(&(route.clone(), rule))
    }

    /// The routes that name Gateways of ours as parents, sorted by name, each as it is served. Looks at all of them.
    pub fn attached_routes(self) -> Vec<AttachedRoute> {
        let rows = self.engine.rows::<Attachment>().into_iter();
        let served = rows.filter(|(route, _)| route.edition.is_some() || !self.is_kept(route));
        served.map(|(route, row)| AttachedRoute { route, row }).collect()
    }

    /// A route that names Gateways of ours as parents, as it is served.
    pub fn attached_route(self, name: &RouteId) -> Option<AttachedRoute> {
        let route = if self.is_kept(name) { name.committed() } else { name.clone() };
        let row = self.engine.get::<Attachment>(&route)?;
        Some(AttachedRoute { route, row })
    }

    /// Whether a root is served from what is kept of its tree.
    pub fn is_kept(self, root: &RouteId) -> bool {
        let is_root = root.edition.is_none() && root.kind.delegates();
        is_root && self.engine.get::<FreezingOf>(root).is_some_and(|from| *from == ServedFrom::Edition)
    }

    /// Whether what belongs to a root is served from what is kept of it: a tree of routes, or the policies of a Gateway.
    pub fn is_from_edition(self, root: &RootId) -> bool {
        match root {
            RootId::Route(name) => self.is_kept(&RouteId::new(RouteKind::HttpRoute, name.clone())),
            RootId::Gateway(name) => {
                self.engine.get::<WideFreezing>(name).is_some_and(|from| *from == ServedFrom::Edition)
            }
        }
    }

    /// What the owner of a root is told where another version is served of what belongs to it than that of now.
    pub fn frozen(self, root: &RootId) -> Option<Arc<FreezeTold>> {
        self.engine.get::<FrozenTold>(&root_object(root)).filter(|told| told.is_frozen)
    }

    /// Why no rule of a route at a Gateway does what it says; none where one does.
    pub fn unacceptable(self, route: &RouteId) -> Option<Arc<Fault>> {
        self.engine.get::<Unacceptable>(route)
    }

    /// What is to be said of the rules of a route, by their index, for which proxies have no room.
    pub fn no_room(self, chain: &Chain) -> impl Fn(u32) -> Vec<Problem> + use<'_> {
        let overruns = Overruns::seen(self.engine, chain);
        move |rule| overruns.problems(rule).collect()
    }

    /// The Envoy routes that a listener serves for a hostname, without those of broader ones.
    pub fn envoy_routes(self, listener: &ListenerId, hostname: &Hostname) -> EnvoyRoutes {
        EnvoyRoutes(self.engine.group::<RoutesAt>(&(listener.clone(), hostname.clone())))
    }
}

/// A route and the listeners that it is attached to.
#[derive(Clone)]
pub struct AttachedRoute {
    /// The route.
    pub route: RouteId,
    row: Arc<Attached>,
}

impl AttachedRoute {
    /// The listeners that it is attached to, served or not, each once.
    pub fn listeners(&self) -> impl Iterator<Item = &ListenerId> {
        self.row.listeners.iter().map(|(listener, _)| listener)
    }

    /// The hostnames that it has at a listener.
    pub fn hostnames(&self, listener: &ListenerId) -> impl Iterator<Item = &Hostname> {
        self.row.hostnames(listener).iter().map(|served| &served.hostname)
    }

    /// The parents that it is not attached to, by their place in `parentRefs`, and why.
    pub fn refused(&self) -> impl Iterator<Item = (usize, &Fault)> {
        self.row.parents.iter().filter_map(|parent| Some((parent.index, &**parent.refused.as_ref()?)))
    }

    /// What is wrong outside its rules.
    pub fn problems(&self) -> &[Problem] {
        &self.row.problems
    }
}

/// Envoy routes in the order in which they are tried, each with its place in it.
pub struct EnvoyRoutes(View<RoutesAt>);

impl EnvoyRoutes {
    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = (&Precedence, &Row)> {
        self.0.iter()
    }
}
