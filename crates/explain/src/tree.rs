//! The routes as people think of them: Gateways, listeners, root routes, and what they delegate to.
//!
//! It is read from the tables that Envoy's configuration is made from. Whoever does not consent to a parent is not named:
//! the tables hold nothing of it.

use std::{collections::BTreeMap, sync::Arc};

use api::ObjectId;
use ir::{Hostname, RootId, RouteId, listener::ListenerProtocol, matching::Origin};
use serde::Serialize;
use translate::{
    Translator,
    inspect::{AttachedRoute, Delegation, ServedRule, Serving, WideUnit, WideUnits, published_unasked},
};

use crate::{
    explanation::{ClientsWord, ListenerWord},
    finding::Finding,
    served_route::{Answer, ServedRoute, Share},
    words::{children, match_in_words, path, written_in_words},
};
use rows::{Below, GatewayRows, Head, NodeRows, RuleRows};

mod rows;
mod text;

pub use rows::Rows;

/// All Gateways of ours with their routes. Prints as text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tree {
    /// Sorted by name.
    pub gateways: Vec<Gateway>,
}

/// A Gateway.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gateway {
    /// `NAMESPACE/NAME`.
    pub gateway: String,
    /// Why it is not served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Finding>,
    /// What is wrong with its policies, and why they are not those of now, where their last good version is served.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Finding>,
    /// Whose fields of policies hold for all of its routes that say nothing of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wide: Vec<Held>,
    /// In the order of its spec.
    pub listeners: Vec<Listener>,
    /// HTTPRoutes that name it as a parent and are attached to none of its listeners, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub detached: Vec<Finding>,
}

/// A listener of a Gateway.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Listener {
    /// Its section name.
    pub name: String,
    /// The Gateway's port.
    pub port: u16,
    /// As Gateway API writes it; empty for a protocol that is not served.
    pub protocol: &'static str,
    /// Its hostname; `*` for any.
    pub hostname: String,
    /// Why it is not served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Finding>,
    /// What is asked of certificates of clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<ClientsWord>,
    /// The policies that say how it takes connections and requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<ListenerWord>,
    /// What is wrong with its policies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Finding>,
    /// The same as of its Gateway, where that is otherwise here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wide: Vec<Held>,
    /// The root routes, sorted by name.
    pub routes: Vec<Root>,
}

/// A route that is attached to a listener.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Root {
    /// The hostnames that it serves there.
    pub hostnames: Vec<String>,
    /// Those of them at which an older route of connections or datagrams is served in its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub superseded: Vec<String>,
    /// The route, and what it delegates to.
    #[serde(flatten)]
    pub route: Arc<Node>,
}

/// How a route stands at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// It is served.
    Served,
    /// It is served, and none of its rules does what it says.
    Replaced,
    /// Nothing of it is served here.
    LeftOut,
    /// It stands above already, so it is left out.
    Cycle,
    /// Another reference of the rule selects it too, and it is told of there.
    Repeated,
}

/// A route at its place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Node {
    /// As a path: `NAMESPACE/NAME`.
    #[serde(serialize_with = "path")]
    pub route: RouteId,
    /// How it stands there.
    pub state: State,
    /// Why it does not stand there as it was written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Finding>,
    /// Its rules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
}

/// A rule of a route at its place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rule {
    /// Its place in the route.
    pub rule: u32,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its matches, those of its parents counted in.
    pub matches: Vec<Match>,
    /// Whose fields of policies hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<Held>,
    /// Where connections or datagrams go, which are not matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// What is wrong with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Finding>,
    /// Whom it delegates to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<Reference>,
}

/// A field of policies on a rule, on those above it or, where it is part of a route's action, on where it is served; or of
/// policies on a Gateway or a listener.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Held {
    /// The field.
    pub what: &'static str,
    /// The policies that supply it; none where the rule itself does, or where it is served.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
    /// Those that say it and are not heard.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overridden: Vec<String>,
    /// By whose word it is so, where an object above has it merged otherwise than is the default.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<String>,
}

/// A match of a rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Match {
    /// Its place in the rule.
    #[serde(rename = "match")]
    pub index: u32,
    /// What it asks for.
    pub written: String,
    /// Whether children serve it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub children: bool,
    /// What happens to its requests, those aside that its children take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Why it takes no requests here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// A reference of a rule to routes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reference {
    /// Its place in `backendRefs`.
    #[serde(rename = "backendRef")]
    pub index: u32,
    /// Whom it means.
    pub selects: String,
    /// Those of them that consent to be selected, sorted by name.
    pub children: Vec<Arc<Node>>,
}

/// All routes of all Gateways. Looks at all of them: for people, not for a hot path.
pub fn tree(translator: &Translator) -> Tree {
    Rows::of(translator).tree()
}

impl Rows {
    /// The tree of these rows: each is read and put into words, which takes several times as long as to take them.
    pub fn tree(&self) -> Tree {
        let mut nodes = BTreeMap::new();
        let gateways =
            self.gateways.iter().map(|GatewayRows { gateway, frozen, broken, wide, listeners, detached }| {
                let object = format!("Gateway {}", gateway.name);
                let of_gateway = wide_held(wide.as_ref());
                let listeners = gateway.listeners.iter().zip(listeners).map(|(listener, rows)| {
                    let object = listener.id.parent().to_string();
                    let fault = |fault: &_| Finding::fault(&object, fault);
                    let routes = rows.roots.iter().map(|(attached, root, superseded)| Root {
                        superseded: superseded.iter().map(Hostname::domain).collect(),
                        hostnames: attached.hostnames(&listener.id).map(Hostname::domain).collect(),
                        route: nodes.entry(root.chain.route()).or_insert_with(|| Arc::new(node(root))).clone(),
                    });
                    let mut own = wide_held(rows.wide.as_ref());
                    own.retain(|held| !of_gateway.contains(held));
                    Listener {
                        name: listener.id.name.to_string(),
                        port: listener.port,
                        protocol: listener.protocol.map_or("", ListenerProtocol::name),
                        hostname: listener.hostname.domain(),
                        refused: listener.withheld.as_ref().map(fault),
                        clients: ClientsWord::of(listener),
                        policies: ListenerWord::all(listener),
                        problems: rows.broken.iter().map(|broken| fault(broken)).collect(),
                        wide: own,
                        routes: routes.collect(),
                    }
                });
                let frozen = frozen.iter().map(|told| Finding::frozen(&RootId::Gateway(gateway.name.clone()), told));
                Gateway {
                    gateway: gateway.name.to_string(),
                    refused: gateway.refused.as_ref().map(|fault| Finding::fault(&object, fault)),
                    problems: frozen.chain(broken.iter().map(|fault| Finding::fault(&object, fault))).collect(),
                    listeners: listeners.collect(),
                    wide: of_gateway,
                    detached: detached.iter().map(|(route, fault)| Finding::fault(&route.to_string(), fault)).collect(),
                }
            });
        Tree { gateways: gateways.collect() }
    }
}

/// A route at its place.
fn node(rows: &NodeRows) -> Node {
    let route = rows.chain.route();
    let object = route.to_string();
    let (problems, fault, left_out): (Vec<_>, _, _) = match &rows.head {
        // What is wrong with all of its rules is told at each of them.
        Head::Root { attached, fault, frozen } => {
            let frozen = frozen.iter().map(|told| Finding::frozen(&route.root(), told));
            let problems = attached.iter().flat_map(AttachedRoute::problems);
            let problems = frozen.chain(problems.map(|problem| Finding::problem(&object, problem)));
            (problems.collect(), fault.is_some(), &[][..])
        }
        Head::Child(state) => {
            let faults = state.fault().into_iter().chain(state.excess()).map(|fault| Finding::fault(&object, fault));
            let unasked = rows.route.as_ref().and_then(|route| published_unasked(&rows.chain, route));
            let problems = faults.chain(unasked.map(|warning| Finding::problem(&object, &warning)));
            (problems.collect(), state.fault().is_some(), state.left_out())
        }
    };
    let state = match (rows.serving, fault) {
        (None, _) => State::LeftOut,
        (Some(Serving::Closed), _) | (Some(_), true) => State::Replaced,
        (Some(Serving::AsWritten), false) => State::Served,
    };
    Node { route: route.clone(), state, problems, rules: rules(rows, left_out) }
}

/// A route that a rule selects.
fn child(route: &RouteId, below: &Below) -> Arc<Node> {
    Arc::new(match below {
        Below::Stands(rows) => node(rows),
        Below::Absent(state) => Node { route: route.clone(), state: *state, problems: Vec::new(), rules: Vec::new() },
    })
}

fn rules(rows: &NodeRows, left_out: &[(u32, u32, String)]) -> Vec<Rule> {
    let Some(route) = &rows.route else { return Vec::new() };
    let rules = route.rules.iter().zip(&rows.rules).zip(0..).map(|((head, rule), index)| {
        let mut matches = matches(rule);
        if left_out.iter().any(|(rule, ..)| *rule == index) {
            matches.extend(left_out.iter().filter(|(rule, ..)| *rule == index).map(|(_, matching, why)| {
                let mut written = rule.written.iter().flat_map(|written| &written.matches);
                let written = written.find(|written| written.index == *matching);
                Match {
                    index: *matching,
                    written: written.map(|written| written_in_words(&written.written)).unwrap_or_default(),
                    children: false,
                    answer: None,
                    left_out: Some(why.clone()),
                }
            }));
            matches.sort_by_key(|matching| matching.index);
        }
        let object = rows.chain.route().to_string();
        let of_rule = rule.served.iter().flat_map(ServedRule::problems);
        let problems = rule
            .no_room
            .iter()
            .chain(&rule.stream_problems)
            .chain(of_rule)
            .map(|problem| Finding::problem(&object, problem));
        let references = rule.delegation.iter().flat_map(Delegation::references).zip(&rule.selected);
        let references = references.map(|((position, selected), below)| Reference {
            index: *position,
            selects: children(selected),
            children: below.iter().map(|(route, below)| child(route, below)).collect(),
        });
        Rule {
            rule: index,
            name: head.name.as_ref().map(ToString::to_string),
            matches,
            answer: (!rule.stream.is_empty())
                .then(|| Answer::Backends { backends: rule.stream.iter().cloned().map(Share::of_stream).collect() }),
            policies: rule.served.as_ref().map(held).unwrap_or_default(),
            problems: problems.collect(),
            references: references.collect(),
        }
    });
    rules.collect()
}

/// Whose fields of policies hold for a rule.
fn held(rule: &ServedRule) -> Vec<Held> {
    let held = rule.fields().into_iter().map(|what| {
        let (from, overridden) = rule.policies(what);
        let names = |policies: Vec<&ObjectId>| policies.into_iter().map(ToString::to_string).collect();
        Held { what, from: names(from), overridden: names(overridden), by: rule.words(what) }
    });
    held.collect()
}

/// Whose fields of policies hold for all routes of a Gateway, or of a listener.
fn wide_held(wide: Option<&WideUnits>) -> Vec<Held> {
    let names = |policies: Vec<&ObjectId>| policies.into_iter().map(ToString::to_string).collect();
    let held = wide.into_iter().flat_map(WideUnits::all).map(|WideUnit { field, from, overridden, words }| Held {
        what: field,
        from: names(from),
        overridden: names(overridden),
        by: words,
    });
    held.collect()
}

/// The matches that stand at a place.
fn matches(rule: &RuleRows) -> Vec<Match> {
    let served = rule.served.as_ref();
    let routes = served.into_iter().flat_map(ServedRule::envoy_routes);
    let routes = routes.filter(|(origin, _)| origin.part.is_first());
    let routes: Vec<_> = routes.filter_map(|(origin, row)| ServedRoute::read(origin, &row)).collect();
    let Some(delegation) = &rule.delegation else {
        let matches = routes.iter().map(|route| Match {
            index: route.origin.matching,
            written: route.message.r#match.as_ref().map(match_in_words).unwrap_or_default(),
            children: false,
            answer: Some(route.answer(served)),
            left_out: None,
        });
        return matches.collect();
    };
    let matches = delegation.matches().zip(&rule.fits).map(|(merged, fits)| {
        let place = |origin: Origin| (origin.matching, origin.part.ordinal);
        let own = routes.iter().find(|route| place(route.origin) == (merged.index, merged.ordinal));
        Match {
            index: merged.index,
            written: written_in_words(merged.written),
            children: *fits,
            answer: own.map(|route| route.answer(served)),
            left_out: None,
        }
    });
    matches.collect()
}
