//! The rows that a tree is made of, as they stand together at one moment.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use engine::Engine;
use ir::{Chain, ListenerId, NsName, Problem, route::RuleSpec};

use super::State;
use crate::{
    Translator,
    capacity::Overruns,
    delegation::beyond_fault,
    resolve::{Resolved, ResolvedRule},
    tables::{
        attachment::{Attached, Attachment, Unacceptable},
        delegation::{
            Branch, Delegating, Delegation, Excess, FitsBelow, Place, Places, Selection, Selections, Serving,
        },
        gateway::{Fault, GatewayModel, GatewayRow},
        input::Config,
        listener::{ListenerRow, ListenerState},
        route::{RouteHead, RouteRule},
    },
};

/// The rows of all Gateways and of all routes below them. They are shared with the translator: to take them costs a look
/// at each, so that the translator's thread may do it, and [`Rows::tree`] is for another one.
pub struct Rows {
    /// Sorted by name.
    pub(super) gateways: Vec<GatewayRows>,
}

pub(super) struct GatewayRows {
    pub(super) name: NsName,
    pub(super) model: Arc<GatewayModel>,
    /// As many as the model has, in its order.
    pub(super) listeners: Vec<ListenerRows>,
    /// Routes that are attached to none of its listeners, and why.
    pub(super) detached: Vec<(NsName, Fault)>,
}

pub(super) struct ListenerRows {
    pub(super) id: ListenerId,
    pub(super) state: Option<Arc<ListenerState>>,
    /// The root routes, sorted by name.
    pub(super) routes: Vec<(Arc<Attached>, Arc<NodeRows>)>,
}

/// A route at its place.
pub(super) struct NodeRows {
    pub(super) chain: Chain,
    pub(super) head: Head,
    /// None if it is not served there.
    pub(super) serving: Option<Arc<Serving>>,
    pub(super) route: Option<Arc<ir::route::Head>>,
    /// As many as the route has.
    pub(super) rules: Vec<RuleRows>,
}

/// What concerns all rules of a route.
pub(super) enum Head {
    Root {
        row: Option<Arc<Attached>>,
        fault: Option<Arc<Fault>>,
    },
    Child {
        place: Arc<Place>,
        /// That it is more than its share.
        beyond: Option<Fault>,
    },
}

pub(super) struct RuleRows {
    pub(super) written: Option<Arc<RuleSpec>>,
    pub(super) resolved: Option<Arc<Resolved>>,
    /// What is to be said where proxies have no room for it.
    pub(super) no_room: Vec<Problem>,
    pub(super) delegation: Option<Arc<Delegation>>,
    /// Whether children serve them, for each match of the delegation.
    pub(super) fits: Vec<bool>,
    /// Whom its references select, if it is served.
    pub(super) selected: Vec<Vec<(NsName, Below)>>,
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
        let engine = translator.engine();
        let mut attached: BTreeMap<ListenerId, Vec<(NsName, Arc<Attached>)>> = BTreeMap::new();
        let mut detached: BTreeMap<NsName, Vec<(NsName, Fault)>> = BTreeMap::new();
        for (route, row) in engine.rows::<Attachment>() {
            for (listener, _) in &row.listeners {
                attached.entry(listener.clone()).or_default().push((route.clone(), row.clone()));
            }
            for parent in &row.parents {
                let Some(fault) = &parent.refused else { continue };
                let written =
                    engine.get::<RouteHead>(&route).and_then(|route| route.parents.get(parent.index).cloned());
                let Some(written) = written else { continue };
                let gateway = written.target(&route.namespace);
                detached.entry(gateway).or_default().push((route.clone(), (**fault).clone()));
            }
        }
        let mut roots = BTreeMap::new();
        let gateways = engine.rows::<GatewayRow>().into_iter().map(|(name, model)| {
            let listeners = model.listeners.iter().map(|listener| {
                let id = ListenerId { gateway: name.clone(), name: listener.name.clone() };
                let routes = attached.remove(&id).unwrap_or_default().into_iter().map(|(route, row)| {
                    let rows = roots.entry(route).or_insert_with_key(|route| Arc::new(NodeRows::root(engine, route)));
                    (row, rows.clone())
                });
                ListenerRows { routes: routes.collect(), state: engine.get::<ListenerRow>(&id), id }
            });
            let (listeners, detached) = (listeners.collect(), detached.remove(&name).unwrap_or_default());
            GatewayRows { name, model, listeners, detached }
        });
        Self { gateways: gateways.collect() }
    }
}

impl NodeRows {
    fn root(engine: &Engine, route: &NsName) -> Self {
        let head = Head::Root { row: engine.get::<Attachment>(route), fault: engine.get::<Unacceptable>(route) };
        Self::of(engine, Chain::root(route.clone()), head)
    }

    /// A child that stands at `chain`, or would.
    fn child(engine: &Engine, chain: Chain) -> Below {
        let name = chain.route();
        let Some(place) = engine.group::<Places>(name).get(&chain).cloned() else {
            // The rule that selects it is told why it looks at none.
            return Below::Absent(State::LeftOut);
        };
        let beyond = chain.above().and_then(|(parent, rule)| {
            let excess = engine.group::<Excess>(&(parent.clone(), rule));
            let bound = engine.get::<Config>(&())?.delegation.max_matches;
            Some(beyond_fault(bound, *excess.get(name)?))
        });
        Below::Stands(Self::of(engine, chain, Head::Child { place, beyond }))
    }

    fn of(engine: &Engine, chain: Chain, head: Head) -> Self {
        let (serving, route) = (engine.get::<Branch>(&chain), engine.get::<RouteHead>(chain.route()));
        let rules = route.iter().flat_map(|route| &route.rules).zip(0..);
        let overruns = Overruns::seen(engine, &chain);
        let rules = rules.map(|(_, index)| {
            let no_room = overruns.problems(index).collect();
            RuleRows { no_room, ..RuleRows::of(engine, &(chain.clone(), index), serving.is_some()) }
        });
        let rules = rules.collect();
        Self { chain, head, serving, route, rules }
    }
}

impl RuleRows {
    fn of(engine: &Engine, key: &(Chain, u32), served: bool) -> Self {
        let delegation = engine.get::<Delegating>(key);
        let matches = delegation.iter().flat_map(|delegation| &delegation.matches).zip(0..);
        let fits = matches
            .map(|(_, place)| engine.get::<FitsBelow>(&(key.0.clone(), key.1, place)).is_some_and(|fits| fits.serves));
        let fits = fits.collect();
        let selected = match &delegation {
            Some(delegation) if served => selected(engine, key, delegation),
            _ => Vec::new(),
        };
        let written = engine.get::<RouteRule>(&(key.0.route().clone(), key.1));
        Self { written, resolved: engine.get::<ResolvedRule>(key), no_room: Vec::new(), delegation, fits, selected }
    }
}

/// Whom each reference of a rule selects.
fn selected(engine: &Engine, (chain, rule): &(Chain, u32), delegation: &Delegation) -> Vec<Vec<(NsName, Below)>> {
    let mut seen = HashSet::new();
    let references = delegation.children.iter().map(|(position, _)| {
        let selections = engine.group::<Selections>(&(chain.clone(), *rule, *position));
        let below = selections.iter().filter_map(|(name, selection)| {
            let below = match selection {
                Selection::Selected | Selection::Unasked if !seen.insert(name.clone()) => {
                    Below::Absent(State::Repeated)
                }
                Selection::Selected | Selection::Unasked => NodeRows::child(engine, chain.below(*rule, name.clone())),
                Selection::Cycle => Below::Absent(State::Cycle),
                Selection::Missing | Selection::NotPermitted | Selection::Withheld | Selection::Unknown => return None,
            };
            Some((name.clone(), below))
        });
        below.collect()
    });
    references.collect()
}
