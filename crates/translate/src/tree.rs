//! The routes as people think of them: Gateways, listeners, root routes, and what they delegate to.
//!
//! It is read from the tables that Envoy's configuration is made from. Whoever does not consent to a parent is not named:
//! the tables hold nothing of it.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use engine::Engine;
use ir::{Chain, ListenerId, NsName, filter::Scheme};
use serde::Serialize;

use crate::{
    Translator,
    capacity::Overruns,
    delegation::{Children, LABEL, beyond_fault, published_unasked},
    resolve::{ANYWHERE, EnvoyRoutes, Resolved, ResolvedRule},
    route::rule,
    seen::{Answer, SeenRoute, Told, written_in_words},
    tables::{
        attachment::{Attached, Attachment, Unacceptable},
        delegation::{Branch, Delegating, Delegation, Excess, FitsBelow, Places, Selection, Selections, Serving},
        gateway::GatewayRow,
        input::{Config, Routes},
        listener::ListenerRow,
    },
};

mod text;

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
    let engine = translator.engine();
    let mut attached: BTreeMap<ListenerId, Vec<(NsName, Arc<Attached>)>> = BTreeMap::new();
    let mut detached: BTreeMap<NsName, Vec<Told>> = BTreeMap::new();
    for (route, row) in engine.rows::<Attachment>() {
        for (listener, _) in &row.listeners {
            attached.entry(listener.clone()).or_default().push((route.clone(), row.clone()));
        }
        for parent in &row.parents {
            let Some(fault) = &parent.refused else { continue };
            let written =
                engine.get::<Routes>(&route).and_then(|route| route.spec.parent_refs.get(parent.index).cloned());
            let Some(written) = written else { continue };
            let namespace = written.namespace.filter(|namespace| !namespace.is_empty());
            let gateway = NsName::new(namespace.unwrap_or(route.namespace.clone()), written.name);
            detached.entry(gateway).or_default().push(Told::fault(&object(&route), fault));
        }
    }
    let mut roots = BTreeMap::new();
    let gateways = engine.rows::<GatewayRow>().into_iter().map(|(name, model)| Gateway {
        gateway: name.to_string(),
        refused: model.refused.as_ref().map(|fault| Told::fault(&format!("Gateway {name}"), fault)),
        listeners: model
            .listeners
            .iter()
            .map(|listener| {
                let id = ListenerId { gateway: name.clone(), name: listener.name.clone() };
                let withheld = engine.get::<ListenerRow>(&id).and_then(|state| state.withheld.clone());
                let routes = attached.remove(&id).unwrap_or_default().into_iter().map(|(route, row)| Root {
                    hostnames: row.hostnames(&id).iter().map(|served| served.hostname.domain()).collect(),
                    route: roots.entry(route).or_insert_with_key(|route| root(engine, route)).clone(),
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
                    refused: withheld.map(|fault| Told::fault(&format!("Gateway {name}"), &fault)),
                    routes: routes.collect(),
                }
            })
            .collect(),
        detached: detached.remove(&name).unwrap_or_default(),
    });
    Tree { gateways: gateways.collect() }
}

pub(crate) fn object(route: &NsName) -> String {
    format!("HTTPRoute {route}")
}

fn root(engine: &Engine, route: &NsName) -> Arc<Node> {
    let chain = Chain::root(route.clone());
    let fault = engine.get::<Unacceptable>(route).map(|fault| Told::fault(&object(route), &fault));
    let head = engine.get::<Attachment>(route);
    let head = head.iter().flat_map(|row| &row.problems).map(|problem| Told::problem(&object(route), problem));
    Arc::new(Node {
        route: route.to_string(),
        state: match (&fault, engine.get::<Branch>(&chain)) {
            (_, None) => State::LeftOut,
            (Some(_), _) => State::Replaced,
            (None, _) => State::Served,
        },
        // What is wrong with all of its rules is told at each of them.
        problems: head.collect(),
        rules: rules(engine, &chain, &[]),
    })
}

/// A child that stands at `chain`, or would.
fn child(engine: &Engine, chain: &Chain) -> Node {
    let name = chain.route();
    let node = |state, problems, rules| Node { route: name.to_string(), state, problems, rules };
    let Some(place) = engine.group::<Places>(name).get(chain).cloned() else {
        // The rule that selects it is told why it looks at none.
        return node(State::LeftOut, Vec::new(), Vec::new());
    };
    let beyond = chain.above().and_then(|(parent, rule)| {
        let excess = engine.group::<Excess>(&(parent.clone(), rule));
        let bound = engine.get::<Config>(&())?.delegation.max_matches;
        Some(beyond_fault(bound, *excess.get(name)?))
    });
    let mut told: Vec<_> = place.fault.iter().chain(&beyond).map(|fault| Told::fault(&object(name), fault)).collect();
    let unasked = engine.get::<Routes>(name).and_then(|route| published_unasked(chain, &route));
    told.extend(unasked.map(|warning| Told::problem(&object(name), &warning)));
    let rules = rules(engine, chain, &place.left_out);
    let state = match (engine.get::<Branch>(chain).as_deref(), &place.fault) {
        (None, _) => State::LeftOut,
        (Some(Serving::Closed), _) | (Some(_), Some(_)) => State::Replaced,
        (Some(Serving::AsWritten), None) => State::Served,
    };
    node(state, told, rules)
}

fn rules(engine: &Engine, chain: &Chain, left_out: &[(u32, u32, String)]) -> Vec<Rule> {
    let Some(route) = engine.get::<Routes>(chain.route()) else { return Vec::new() };
    let mut rules = Vec::with_capacity(route.spec.rules.len());
    let overruns = Overruns::seen(engine, chain);
    for (written, index) in route.spec.rules.iter().zip(0..) {
        let key = (chain.clone(), index);
        let resolved = engine.get::<ResolvedRule>(&key);
        let delegation = engine.get::<Delegating>(&key);
        let mut matches = matches(engine, &key, resolved.as_deref(), delegation.as_deref());
        if left_out.iter().any(|(rule, ..)| *rule == index) {
            let (read, _) = rule::read_matches(written, "");
            matches.extend(left_out.iter().filter(|(rule, ..)| *rule == index).map(|(_, matching, why)| {
                let read = read.iter().find(|read| read.index == *matching);
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
        let served = engine.get::<Branch>(chain).is_some();
        let no_room = overruns.problems(index).map(|problem| Told::problem(&object(chain.route()), &problem));
        rules.push(Rule {
            rule: index,
            name: written.name.as_ref().filter(|name| !name.is_empty()).map(ToString::to_string),
            matches,
            problems: no_room.chain(problems(chain, resolved.as_deref())).collect(),
            references: match delegation.as_deref() {
                Some(delegation) if served => references(engine, &key, delegation),
                _ => Vec::new(),
            },
        });
    }
    rules
}

/// The matches that stand at a place.
fn matches(
    engine: &Engine,
    (chain, rule): &(Chain, u32),
    resolved: Option<&Resolved>,
    delegation: Option<&Delegation>,
) -> Vec<Match> {
    let written;
    let routes = match resolved.map(|resolved| &resolved.routes) {
        Some(EnvoyRoutes::Everywhere(routes)) => &routes[..],
        Some(EnvoyRoutes::ByListener(unwritten)) => {
            written = unwritten.write(ANYWHERE, &mut Vec::new());
            &written
        }
        None => &[],
    };
    let seen: Vec<_> =
        routes.iter().filter_map(|route| SeenRoute::read(&route.row)).filter(|seen| seen.primary).collect();
    let Some(delegation) = delegation else {
        let matches = seen.iter().map(|seen| Match {
            index: seen.matching,
            written: seen.message.r#match.as_ref().map(crate::seen::match_in_words).unwrap_or_default(),
            children: false,
            answer: Some(seen.answer(resolved)),
            left_out: None,
        });
        return matches.collect();
    };
    let matches = delegation.matches.iter().zip(0..).map(|(rendered, place)| {
        let own = seen.iter().find(|seen| (seen.matching, seen.ordinal) == (rendered.index, rendered.ordinal));
        Match {
            index: rendered.index,
            written: written_in_words(&rendered.written),
            children: engine.get::<FitsBelow>(&(chain.clone(), *rule, place)).is_some_and(|fits| fits.serves),
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

fn references(engine: &Engine, key: &(Chain, u32), delegation: &Delegation) -> Vec<Reference> {
    let (chain, rule) = key;
    let mut seen = HashSet::new();
    let references = delegation.children.iter().map(|(position, children)| {
        let selections = engine.group::<Selections>(&(chain.clone(), *rule, *position));
        let children_here = selections.iter().filter_map(|(name, selection)| {
            let left_out =
                |state| Arc::new(Node { route: name.to_string(), state, problems: Vec::new(), rules: Vec::new() });
            match selection {
                Selection::Selected | Selection::Unasked if !seen.insert(name.clone()) => {
                    Some(left_out(State::Repeated))
                }
                Selection::Selected | Selection::Unasked => {
                    Some(Arc::new(self::child(engine, &chain.below(*rule, name.clone()))))
                }
                Selection::Cycle => Some(left_out(State::Cycle)),
                Selection::Missing | Selection::NotPermitted | Selection::Withheld | Selection::Unknown => None,
            }
        });
        Reference { index: *position, selects: selects(children), children: children_here.collect() }
    });
    references.collect()
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
