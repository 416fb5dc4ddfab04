//! The rows that a tree is made of, as they stand together at one moment.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use ir::{Chain, Hostname, ListenerId, NsName, Problem, RootId, RouteId, backend::Destination, route::RuleSpec};
use translate::{
    FreezeTold, Translator,
    inspect::{AttachedRoute, ChildState, Delegation, Fault, Gateway, Inspector, ServedRule, Serving, WideUnits},
};

use super::State;

/// The rows of all Gateways and of all routes below them. They are shared with the translator: to take them costs a look
/// at each, so that the translator's thread may do it, and [`Rows::tree`] is for another one.
pub struct Rows {
    /// Sorted by name.
    pub(super) gateways: Vec<GatewayRows>,
}

pub(super) struct GatewayRows {
    pub(super) gateway: Gateway,
    /// What its owner is told where its policies are not those of now.
    pub(super) frozen: Option<Arc<FreezeTold>>,
    /// Why all of it answers by itself.
    pub(super) broken: Option<Arc<Fault>>,
    /// What its policies say for all routes.
    pub(super) wide: Option<WideUnits>,
    /// Of each of its listeners.
    pub(super) listeners: Vec<ListenerRows>,
    /// Routes that are attached to none of its listeners, and why.
    pub(super) detached: Vec<(RouteId, Fault)>,
}

pub(super) struct ListenerRows {
    /// Why all of it answers by itself, apart from its Gateway.
    pub(super) broken: Option<Arc<Fault>>,
    /// What its policies and those of its Gateway say for all routes.
    pub(super) wide: Option<WideUnits>,
    /// Its root routes, sorted by name.
    pub(super) roots: Vec<RootRows>,
}

/// A route at a listener, and the hostnames at which another one of streams is served in its place.
pub(super) type RootRows = (AttachedRoute, Arc<NodeRows>, Vec<Hostname>);

/// A route at its place.
pub(super) struct NodeRows {
    pub(super) chain: Chain,
    pub(super) head: Head,
    /// None if it is not served there.
    pub(super) serving: Option<Serving>,
    pub(super) route: Option<Arc<ir::route::Head>>,
    /// As many as the route has.
    pub(super) rules: Vec<RuleRows>,
}

/// What concerns all rules of a route.
pub(super) enum Head {
    Root {
        attached: Option<AttachedRoute>,
        fault: Option<Arc<Fault>>,
        /// What its owner is told where its tree is not that of now.
        frozen: Option<Arc<FreezeTold>>,
    },
    Child(ChildState),
}

pub(super) struct RuleRows {
    pub(super) written: Option<Arc<RuleSpec>>,
    pub(super) served: Option<ServedRule>,
    /// What is to be said where proxies have no room for it.
    pub(super) no_room: Vec<Problem>,
    /// Where connections or datagrams go, by weight, and why shares go nowhere.
    pub(super) stream: Vec<(Option<Destination>, u32)>,
    pub(super) stream_problems: Vec<Problem>,
    pub(super) delegation: Option<Delegation>,
    /// Whether children serve them, for each match of the delegation.
    pub(super) fits: Vec<bool>,
    /// Whom its references select, if it is served.
    pub(super) selected: Vec<Vec<(RouteId, Below)>>,
}

/// A route that a rule selects.
pub(super) enum Below {
    Stands(NodeRows),
    /// Nothing of it stands there, for this reason.
    Absent(State),
}

impl Rows {
    /// The rows as they are now.
    pub fn of(translator: &Translator) -> Self {
        let tables = translator.inspect();
        let mut attached: BTreeMap<ListenerId, Vec<AttachedRoute>> = BTreeMap::new();
        let mut detached: BTreeMap<NsName, Vec<(RouteId, Fault)>> = BTreeMap::new();
        for route in tables.attached_routes() {
            for listener in route.listeners() {
                attached.entry(listener.clone()).or_default().push(route.clone());
            }
            for (parent, fault) in route.refused() {
                let written = tables.route(&route.route).and_then(|route| route.parents.get(parent).cloned());
                let Some(parent) = written.and_then(|written| written.parent(route.route.namespace())) else {
                    continue;
                };
                let Some(gateway) = tables.gateway_of(&parent) else { continue };
                detached.entry(gateway).or_default().push((route.route.clone(), fault.clone()));
            }
        }
        let mut roots = BTreeMap::new();
        let gateways = tables.gateways().into_iter().map(|gateway| {
            let listeners = gateway.listeners.iter().map(|listener| {
                let routes = attached.remove(&listener.id).unwrap_or_default().into_iter().map(|route| {
                    let rows = roots.entry(route.route.clone());
                    let rows = rows.or_insert_with_key(|route| Arc::new(NodeRows::root(tables, route)));
                    let places = tables.places(&route, &listener.id).into_iter();
                    let lost = places.filter(|(_, is_served)| !is_served).map(|(place, _)| place.hostname);
                    let lost = lost.collect();
                    (route, rows.clone(), lost)
                });
                ListenerRows {
                    broken: tables.broken_listener(&listener.id),
                    wide: tables.wide_units(&listener.id),
                    roots: routes.collect(),
                }
            });
            GatewayRows {
                frozen: tables.frozen(&RootId::Gateway(gateway.name.clone())),
                broken: tables.broken_gateway(&gateway.name),
                wide: tables.wide_units_of(&gateway.name),
                listeners: listeners.collect(),
                detached: detached.remove(&gateway.name).unwrap_or_default(),
                gateway,
            }
        });
        Self { gateways: gateways.collect() }
    }
}

impl NodeRows {
    fn root(tables: Inspector<'_>, route: &RouteId) -> Self {
        let head = Head::Root {
            attached: tables.attached_route(route),
            fault: tables.unacceptable(route),
            frozen: route.edition.as_ref().and_then(|root| tables.frozen(root)),
        };
        Self::of(tables, Chain::root(route.clone()), head)
    }

    /// A child that stands at `chain`, or would.
    fn child(tables: Inspector<'_>, chain: Chain) -> Below {
        match tables.child(&chain) {
            Some(state) => Below::Stands(Self::of(tables, chain, Head::Child(state))),
            // The rule that selects it is told why it looks at none.
            None => Below::Absent(State::LeftOut),
        }
    }

    fn of(tables: Inspector<'_>, chain: Chain, head: Head) -> Self {
        let (serving, route) = (tables.serving(&chain), tables.route(chain.route()));
        let serving = serving.or_else(|| is_served(tables, chain.route()).then_some(Serving::AsWritten));
        let no_room = tables.no_room(&chain);
        let rules = route.iter().flat_map(|route| &route.rules).zip(0..).map(|(_, rule)| {
            let rows = RuleRows::of(tables, &chain, rule, serving.is_some());
            RuleRows { no_room: no_room(rule), ..rows }
        });
        let rules = rules.collect();
        drop(no_room);
        Self { chain, head, serving, route, rules }
    }
}

impl RuleRows {
    fn of(tables: Inspector<'_>, chain: &Chain, rule: u32, is_served: bool) -> Self {
        let delegation = tables.delegation(chain, rule);
        let matches = delegation.iter().flat_map(Delegation::matches).zip(0..);
        let fits = matches.map(|(_, place)| tables.has_children_below(chain, rule, place)).collect();
        let selected = match &delegation {
            Some(delegation) if is_served => selected(tables, chain, rule, delegation),
            _ => Vec::new(),
        };
        let route = chain.route();
        let written = tables.written_rule(route, rule);
        let (served, stream, stream_problems) = if route.kind.is_stream() {
            (None, tables.stream_shares(route), tables.stream_problems(route))
        } else {
            (tables.rule(chain, rule), Vec::new(), Vec::new())
        };
        Self { written, served, no_room: Vec::new(), stream, stream_problems, delegation, fits, selected }
    }
}

/// Whether a route of streams serves any place.
fn is_served(tables: Inspector<'_>, route: &RouteId) -> bool {
    let Some(attached) = tables.attached_route(route).filter(|_| route.kind.is_stream()) else { return false };
    let mut listeners = attached.listeners();
    listeners.any(|listener| tables.places(&attached, listener).iter().any(|(_, is_served)| *is_served))
}

/// Whom each reference of a rule selects.
fn selected(tables: Inspector<'_>, chain: &Chain, rule: u32, delegation: &Delegation) -> Vec<Vec<(RouteId, Below)>> {
    let mut seen = HashSet::new();
    let references = delegation.references().iter().map(|(reference, _)| {
        let children = tables.children(chain, rule, *reference).into_iter().map(|child| {
            let below = if child.is_cycle {
                Below::Absent(State::Cycle)
            } else if !seen.insert(child.route.clone()) {
                Below::Absent(State::Repeated)
            } else {
                NodeRows::child(tables, chain.below(rule, child.route.clone()))
            };
            (child.route, below)
        });
        children.collect()
    });
    references.collect()
}
