//! The routes as people think of them: Gateways, listeners, root routes, and what they delegate to.
//!
//! It is read from the tables that Envoy's configuration is made from. Whoever does not consent to a parent is not named:
//! the tables hold nothing of it.

use std::{collections::BTreeMap, sync::Arc};

use ir::{Chain, NsName, filter::Scheme, matching::Origin};
use serde::Serialize;

use crate::{
    Translator,
    delegation::{Children, LABEL, published_unasked},
    resolve::{ANYWHERE, EnvoyRoutes, Resolved},
    seen::{Answer, SeenRoute, Told, written_in_words},
    tables::delegation::Serving,
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
    pub refused: Option<Told>,
    /// In the order of its spec.
    pub listeners: Vec<Listener>,
    /// HTTPRoutes that name it as a parent and are attached to none of its listeners, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub detached: Vec<Told>,
}

/// A listener of a Gateway.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Listener {
    /// Its section name.
    pub name: String,
    /// The Gateway's port.
    pub port: u16,
    /// `HTTP` or `HTTPS`; empty for a protocol that is not served.
    pub protocol: &'static str,
    /// Its hostname; `*` for any.
    pub hostname: String,
    /// Why it is not served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Told>,
    /// The root routes, sorted by name.
    pub routes: Vec<Root>,
}

/// A route that is attached to a listener.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Root {
    /// The hostnames that it serves there.
    pub hostnames: Vec<String>,
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
    /// `NAMESPACE/NAME`.
    pub route: String,
    /// How it stands there.
    pub state: State,
    /// Why it does not stand there as it was written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Told>,
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
    /// What is wrong with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Told>,
    /// Whom it delegates to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<Reference>,
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
        let mut roots = BTreeMap::new();
        let gateways = self.gateways.iter().map(|GatewayRows { name, model, listeners, detached }| {
            let of_gateway = format!("Gateway {name}");
            let listeners = model.listeners.iter().zip(listeners).map(|(listener, rows)| {
                let withheld = rows.state.as_ref().and_then(|state| state.withheld.as_ref());
                let routes = rows.routes.iter().map(|(row, root)| Root {
                    hostnames: row.hostnames(&rows.id).iter().map(|served| served.hostname.domain()).collect(),
                    route: roots.entry(root.chain.route()).or_insert_with(|| Arc::new(node(root))).clone(),
                });
                Listener {
                    name: listener.name.to_string(),
                    port: listener.port,
                    protocol: match listener.scheme {
                        Some(Scheme::Http) => "HTTP",
                        Some(Scheme::Https) => "HTTPS",
                        None => "",
                    },
                    hostname: listener.hostname.domain(),
                    refused: withheld.map(|fault| Told::fault(&of_gateway, fault)),
                    routes: routes.collect(),
                }
            });
            Gateway {
                gateway: name.to_string(),
                refused: model.refused.as_ref().map(|fault| Told::fault(&of_gateway, fault)),
                listeners: listeners.collect(),
                detached: detached.iter().map(|(route, fault)| Told::fault(&object(route), fault)).collect(),
            }
        });
        Tree { gateways: gateways.collect() }
    }
}

pub(crate) fn object(route: &NsName) -> String {
    format!("HTTPRoute {route}")
}

/// A route at its place.
fn node(rows: &NodeRows) -> Node {
    let route = rows.chain.route();
    let of_route = object(route);
    let (problems, fault, left_out): (Vec<_>, _, _) = match &rows.head {
        // What is wrong with all of its rules is told at each of them.
        Head::Root { row, fault } => {
            let problems = row.iter().flat_map(|row| &row.problems);
            (problems.map(|problem| Told::problem(&of_route, problem)).collect(), fault.is_some(), &[][..])
        }
        Head::Child { place, beyond } => {
            let faults = place.fault.iter().chain(beyond).map(|fault| Told::fault(&of_route, fault));
            let unasked = rows.route.as_ref().and_then(|route| published_unasked(&rows.chain, route));
            let told = faults.chain(unasked.map(|warning| Told::problem(&of_route, &warning)));
            (told.collect(), place.fault.is_some(), &place.left_out[..])
        }
    };
    let state = match (rows.serving.as_deref(), fault) {
        (None, _) => State::LeftOut,
        (Some(Serving::Closed), _) | (Some(_), true) => State::Replaced,
        (Some(Serving::AsWritten), false) => State::Served,
    };
    Node { route: route.to_string(), state, problems, rules: rules(rows, left_out) }
}

/// A route that a rule selects.
fn child(name: &NsName, below: &Below) -> Arc<Node> {
    Arc::new(match below {
        Below::Stands(rows) => node(rows),
        Below::Absent(state) => {
            Node { route: name.to_string(), state: *state, problems: Vec::new(), rules: Vec::new() }
        }
    })
}

fn rules(rows: &NodeRows, left_out: &[(u32, u32, String)]) -> Vec<Rule> {
    let Some(route) = &rows.route else { return Vec::new() };
    let rules = route.rules.iter().zip(&rows.rules).zip(0..).map(|((head, rule), index)| {
        let mut matches = matches(rule);
        if left_out.iter().any(|(rule, ..)| *rule == index) {
            matches.extend(left_out.iter().filter(|(rule, ..)| *rule == index).map(|(_, matching, why)| {
                let mut read = rule.written.iter().flat_map(|written| &written.matches);
                let read = read.find(|read| read.index == *matching);
                Match {
                    index: *matching,
                    written: read.map(|read| written_in_words(&read.written)).unwrap_or_default(),
                    children: false,
                    answer: None,
                    left_out: Some(why.clone()),
                }
            }));
            matches.sort_by_key(|matching| matching.index);
        }
        let no_room = rule.no_room.iter().map(|problem| Told::problem(&object(rows.chain.route()), problem));
        let references = rule.delegation.iter().flat_map(|delegation| &delegation.children).zip(&rule.selected);
        let references = references.map(|((position, children), selected)| Reference {
            index: *position,
            selects: selects(children),
            children: selected.iter().map(|(name, below)| child(name, below)).collect(),
        });
        Rule {
            rule: index,
            name: head.name.as_ref().map(ToString::to_string),
            matches,
            problems: no_room.chain(problems(&rows.chain, rule.resolved.as_deref())).collect(),
            references: references.collect(),
        }
    });
    rules.collect()
}

/// The matches that stand at a place.
fn matches(rule: &RuleRows) -> Vec<Match> {
    let resolved = rule.resolved.as_deref();
    let written;
    let routes = match resolved.map(|resolved| &resolved.routes) {
        Some(EnvoyRoutes::Everywhere(routes)) => &routes[..],
        Some(EnvoyRoutes::ByListener(unwritten)) => {
            written = unwritten.write(ANYWHERE, &mut Vec::new());
            &written
        }
        None => &[],
    };
    let seen = routes.iter().filter_map(|route| SeenRoute::read(Origin::of(&route.steps, route.order), &route.row));
    let seen: Vec<_> = seen.filter(|seen| seen.origin.part.is_first()).collect();
    let Some(delegation) = &rule.delegation else {
        let matches = seen.iter().map(|seen| Match {
            index: seen.origin.matching,
            written: seen.message.r#match.as_ref().map(crate::seen::match_in_words).unwrap_or_default(),
            children: false,
            answer: Some(seen.answer(resolved)),
            left_out: None,
        });
        return matches.collect();
    };
    let matches = delegation.matches.iter().zip(&rule.fits).map(|(rendered, fits)| {
        let place = |origin: Origin| (origin.matching, origin.part.ordinal);
        let own = seen.iter().find(|seen| place(seen.origin) == (rendered.index, rendered.ordinal));
        Match {
            index: rendered.index,
            written: written_in_words(&rendered.written),
            children: *fits,
            answer: own.map(|seen| seen.answer(resolved)),
            left_out: None,
        }
    });
    matches.collect()
}

/// What is wrong with a rule, worst first.
pub(crate) fn problems(chain: &Chain, resolved: Option<&Resolved>) -> Vec<Told> {
    let Some(findings) = resolved.and_then(|resolved| resolved.findings.as_deref()) else { return Vec::new() };
    let lists = [
        findings.replaced.as_slice(),
        &findings.dropped,
        &findings.closed,
        &findings.unresolved,
        &findings.empty,
        &findings.shares,
        &findings.warnings,
    ];
    lists.into_iter().flatten().map(|problem| Told::problem(&object(chain.route()), problem)).collect()
}

/// Whom a reference means.
pub(crate) fn selects(children: &Children) -> String {
    match children {
        Children::Named(name) => object(name),
        Children::InNamespace(namespace) => format!("all HTTPRoutes of namespace {namespace}"),
        Children::Labelled(label, Some(namespace)) => {
            format!("HTTPRoutes of namespace {namespace} with label {LABEL}={label}")
        }
        Children::Labelled(label, None) => format!("HTTPRoutes of any namespace with label {LABEL}={label}"),
    }
}
