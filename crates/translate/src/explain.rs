//! What becomes of one request, and why.
//!
//! It is read from the tables that Envoy's configuration is made from, and the routes are matched as Envoy matches them:
//! by what stands in their messages, in their order.

use std::{collections::BTreeSet, sync::Arc};

use engine::{Engine, View};
use envoy::{route::route_match, slots};
use envoy_types::pb::envoy::config::route::v3::route::Action;
use ir::{
    Chain, Hostname, ListenerId, NsName, Problem, RouteConfigId,
    filter::Scheme,
    route::{Head, RuleSpec},
};
use serde::Serialize;

use crate::{
    Translator,
    capacity::{Overruns, ShutHost},
    host::{Owned, Owner, RoutesAt},
    resolve::{Resolved, ResolvedRule},
    seen::{Answer, Share, Told, written_in_words},
    share::Payer,
    tables::{
        delegation::{Delegating, Delegation, Selections},
        gateway::{Fault, GatewayRow},
        host::HostsOf,
        listener::{ListenerRow, PortHosts, PortListeners},
        route::{RouteHead, RouteRule},
    },
    tree,
};
use choose::{Candidate, choose};
use matching::Sent;
use request::{Normal, normalise};

mod bytewise;
mod choose;
mod effects;
mod matching;
mod request;
mod text;
mod whose;

pub use request::{BadRequest, Request};

/// How many routes are named of those that were tried before, and of those that would have matched too.
const NAMED: usize = 20;

/// What becomes of a request. Prints as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `NAMESPACE/NAME`.
    pub gateway: String,
    /// The method, and the URL as it was given.
    pub request: String,
    /// Path and query string as they are routed, where that is not what was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normalised: Option<String>,
    /// The listener whose routes are tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listener: Option<ListenerSeen>,
    /// The domain of the virtual host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_host: Option<String>,
    /// The rule and match that takes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaf: Option<Leaf>,
    /// The way there, the root first and the leaf last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<Link>,
    /// What comes of it.
    pub outcome: Outcome,
    /// What is done to the request and its response, and by whom.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Effect>,
    /// The routes that were tried.
    pub tried: Tried,
}

/// A listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListenerSeen {
    /// Its section name.
    pub name: String,
    /// The Gateway's port.
    pub port: u16,
    /// Its hostname; `*` for any.
    pub hostname: String,
}

/// A match of a rule of an HTTPRoute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Leaf {
    /// Of the route.
    pub namespace: String,
    /// Of the route.
    pub name: String,
    /// The place of the rule in the route.
    pub rule: u32,
    /// The place of the match in the rule.
    #[serde(rename = "match")]
    pub matching: u32,
    /// What it asks for, its parents' matches counted in.
    pub written: String,
    /// The name of the Envoy route, as in access logs.
    pub envoy_route: String,
}

/// A route on the way from a root to a leaf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Link {
    /// `NAMESPACE/NAME`.
    pub route: String,
    /// The rule that the way goes on by.
    pub rule: u32,
    /// The rule's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_name: Option<String>,
    /// The match of that rule that takes the request.
    pub written: String,
    /// The reference that selects the next route; none at the leaf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selects: Option<String>,
}

/// What comes of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Outcome {
    /// It goes to one of these, by weight.
    Backends {
        /// Each share.
        backends: Vec<Share>,
        /// The URL as the backend gets it; the scheme is the client's.
        url: String,
        /// Why a share answers 500.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        because: Vec<Told>,
    },
    /// The client is sent elsewhere.
    Redirect {
        /// The status code.
        status: u32,
        /// Where to.
        location: String,
    },
    /// Envoy answers by itself.
    DirectResponse {
        /// The status code.
        status: u32,
        /// The body.
        #[serde(skip_serializing_if = "String::is_empty")]
        body: String,
        /// Why the rule does not do what it says, and who must act.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        because: Vec<Told>,
    },
    /// No route takes it: 404.
    NotFound {
        /// Why.
        why: String,
    },
    /// 421: the host is another listener's, for which the client opens a connection of its own.
    Misdirected,
    /// Envoy refuses the request before it looks for a route: 400.
    BadRequest {
        /// Why.
        why: String,
    },
    /// Nobody answers.
    Unreachable {
        /// Why.
        why: String,
        /// What is wrong, and who must act.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        because: Vec<Told>,
    },
}

impl Outcome {
    /// The status code that Envoy answers by itself; none where a backend answers, or nobody.
    pub fn status(&self) -> Option<u32> {
        match self {
            Self::Backends { .. } | Self::Unreachable { .. } => None,
            Self::Redirect { status, .. } | Self::DirectResponse { status, .. } => Some(*status),
            Self::NotFound { .. } => Some(404),
            Self::Misdirected => Some(421),
            Self::BadRequest { .. } => Some(400),
        }
    }
}

/// Something that is done to a request or its response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Effect {
    /// The field or filter: `timeouts`, `retry`, `sessionPersistence`, `urlRewrite`, `requestHeaderModifier` and so on.
    pub what: &'static str,
    /// In words.
    pub value: String,
    /// The rules that say so, of the leaf or above it; several where they are joined.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
    /// The rules that say otherwise and are not heard.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overridden: Vec<String>,
}

/// The Envoy routes of a virtual host, as far as they were tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tried {
    /// How many there are.
    pub routes: usize,
    /// How many stand before the one that takes the request.
    pub before: usize,
    /// Those before whose path matches, in the order in which they are tried; where none takes the request, those that
    /// come nearest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<Considered>,
    /// Those behind that would match too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub behind: Vec<Considered>,
}

/// A route that does not take the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Considered {
    /// The route.
    #[serde(flatten)]
    pub leaf: Leaf,
    /// Why it does not take the request.
    pub why: String,
}

/// Tells what becomes of `request` at a Gateway. Goes through the routes of one virtual host: for people, not for a hot
/// path.
pub fn explain(translator: &Translator, gateway: &NsName, request: &Request) -> Explanation {
    let chosen = Asked::of(translator, gateway, request.clone()).choose();
    let way = chosen.way(translator);
    chosen.explain(&way)
}

/// A request at its virtual host, whose routes are not looked at yet. It shares them with the translator: to make it costs
/// nothing that depends on how many there are, so that the translator's thread may do it, and [`Asked::choose`] is for
/// another one.
pub struct Asked {
    request: Request,
    told: Explanation,
    /// Or what comes of the request before any route is looked for.
    found: Result<Found, Outcome>,
}

/// The routes that are tried.
struct Found {
    /// Path and query string as they are routed.
    target: String,
    /// By the hostname under which they stand.
    routes: Vec<(Hostname, View<RoutesAt>)>,
}

/// A request with the route that takes it, if any does.
pub struct Chosen {
    request: Request,
    told: Explanation,
    taken: Result<Taken, Outcome>,
}

/// The route that takes a request.
struct Taken {
    target: String,
    winner: Candidate,
}

/// What the translator knows of a route and of those above it. Shared with it.
#[derive(Default)]
pub struct Way {
    /// The leaf's rule as it is written.
    pub(crate) rule: Option<Arc<RuleSpec>>,
    /// The same as it is served.
    pub(crate) resolved: Option<Arc<Resolved>>,
    /// From the leaf's parent upwards.
    pub(crate) above: Vec<Above>,
    /// The leaf.
    pub(crate) route: Option<Arc<Head>>,
    /// What is to be said of the leaf's rule where proxies have no room for it.
    pub(crate) no_room: Vec<Problem>,
}

/// A delegating rule on the way to a leaf.
pub(crate) struct Above {
    pub(crate) route: Option<Arc<Head>>,
    pub(crate) delegation: Option<Arc<Delegation>>,
    /// The place of the reference that selects the next route.
    pub(crate) selecting: Option<u32>,
}

impl Asked {
    /// What is asked, at the routes as they are now.
    pub fn of(translator: &Translator, gateway: &NsName, request: Request) -> Self {
        let mut told = Explanation {
            gateway: gateway.to_string(),
            request: format!(
                "{} {}://{}{}",
                request.method,
                request.scheme.as_str(),
                request.authority,
                request.target
            ),
            normalised: None,
            listener: None,
            virtual_host: None,
            leaf: None,
            chain: Vec::new(),
            outcome: Outcome::Misdirected,
            effects: Vec::new(),
            tried: Tried::default(),
        };
        let found = find(translator.engine(), gateway, &request, &mut told);
        Self { request, told, found }
    }

    /// Looks through the routes.
    pub fn choose(self) -> Chosen {
        let Self { request, mut told, found } = self;
        let taken = found.and_then(|Found { target, routes }| {
            let winner = choose(&routes, &Sent::new(&request, &target), &mut told)?;
            Ok(Taken { target, winner })
        });
        Chosen { request, told, taken }
    }
}

impl Chosen {
    /// What is known of the route by now. Costs what the depth of its tree comes to.
    pub fn way(&self, translator: &Translator) -> Way {
        let Ok(Taken { winner, .. }) = &self.taken else { return Way::default() };
        let engine = translator.engine();
        let (chain, rule) = (winner.place.via(), winner.seen.origin.rule);
        let above = chain.upwards().filter_map(|child| child.above().map(|above| (child, above)));
        let above = above.map(|(child, (parent, rule))| {
            let delegation = engine.get::<Delegating>(&(parent.clone(), rule));
            let selects = |position: &u32| {
                engine.group::<Selections>(&(parent.clone(), rule, *position)).get(child.route()).is_some()
            };
            let children = delegation.iter().flat_map(|delegation| &delegation.children);
            Above {
                selecting: children.map(|(position, _)| *position).find(selects),
                route: engine.get::<RouteHead>(parent.route()),
                delegation,
            }
        });
        Way {
            above: above.collect(),
            route: engine.get::<RouteHead>(chain.route()),
            rule: engine.get::<RouteRule>(&(chain.route().clone(), rule)),
            resolved: engine.get::<ResolvedRule>(&(chain.clone(), rule)),
            no_room: Overruns::seen(engine, chain).problems(rule).collect(),
        }
    }

    /// What becomes of the request.
    pub fn explain(self, way: &Way) -> Explanation {
        let Self { request, mut told, taken } = self;
        told.outcome = match taken {
            Err(outcome) => outcome,
            Ok(Taken { target, winner }) => {
                let sent = Sent::new(&request, &target);
                told.leaf = Some(winner.leaf());
                told.chain = links(way, &winner, &sent);
                told.effects = whose::effects(way, winner.place.via(), &winner.seen);
                answer(way, &winner, &sent)
            }
        };
        told
    }
}

/// Finds the routes that are tried. Ends early where no route is looked for.
fn find(engine: &Engine, gateway: &NsName, request: &Request, told: &mut Explanation) -> Result<Found, Outcome> {
    let config = connect(engine, gateway, request)?;
    if let Some((name, _)) = request.headers.iter().find(|(name, _)| name.contains('_')) {
        return Err(Outcome::BadRequest { why: format!("header {name} has an underscore in its name") });
    }
    let target = match normalise(&request.target) {
        Normal::Target(target) => target,
        Normal::Redirect(location) => {
            told.normalised = Some(location.clone());
            return Err(Outcome::Redirect { status: 307, location });
        }
        Normal::Refused(why) => return Err(Outcome::BadRequest { why: why.into() }),
    };
    if target != request.target {
        told.normalised = Some(target.clone());
    }
    let (listener, hostname) = virtual_host(engine, &config, &request.host())?;
    told.virtual_host = Some(hostname.domain());
    if let Some(by) = engine.get::<ShutHost>(&(listener.clone(), hostname.clone())) {
        return Err(Outcome::DirectResponse {
            status: 500,
            body: String::new(),
            because: shut(gateway, &hostname, &by),
        });
    }
    let row = engine.get::<ListenerRow>(&listener);
    told.listener = row.map(|row| ListenerSeen {
        name: listener.name.to_string(),
        port: row.model.port,
        hostname: row.model.hostname.domain(),
    });
    let groups = hostname.covering().map(|hostname| {
        let routes = engine.group::<RoutesAt>(&(listener.clone(), hostname.clone()));
        (hostname, routes)
    });
    Ok(Found { target, routes: groups.collect() })
}

/// Why a hostname answers 500 to everything.
fn shut(gateway: &NsName, hostname: &Hostname, by: &BTreeSet<Payer>) -> Vec<Told> {
    let namespaces: BTreeSet<_> = by.iter().map(|payer| &*payer.own).collect();
    let message = format!(
        "its proxies have no room for {hostname}: those of its HTTPRoutes that are of namespace {} exceed their share of \
         what may be placed, and say more",
        namespaces.into_iter().collect::<Vec<_>>().join(", ")
    );
    vec![Told::fault(&format!("Gateway {gateway}"), &Fault::new("UnsupportedValue", message))]
}

/// The route configuration of the connection that a client makes.
fn connect(engine: &Engine, gateway: &NsName, request: &Request) -> Result<RouteConfigId, Outcome> {
    let unreachable = |why: String, because| Outcome::Unreachable { why, because };
    let object = format!("Gateway {gateway}");
    let Some(model) = engine.get::<GatewayRow>(gateway) else {
        return Err(unreachable(
            format!("{object} does not exist, or is of a class of another controller"),
            Vec::new(),
        ));
    };
    let of_port = |port| model.listeners.iter().filter(move |listener| listener.port == port);
    let port = request.port;
    let bound = || model.listeners.iter().find(|listener| listener.bind_port == port).map(|listener| listener.port);
    let port = if of_port(port).next().is_some() { port } else { bound().unwrap_or(port) };
    let over: Vec<_> = of_port(port).filter(|listener| listener.scheme == Some(request.scheme)).collect();
    if over.is_empty() {
        let ports: Vec<_> = model.listeners.iter().map(|listener| listener.port.to_string()).collect();
        let scheme = request.scheme.as_str().to_ascii_uppercase();
        let why = format!("no listener takes {scheme} at port {port}; there are listeners at {}", ports.join(", "));
        return Err(unreachable(why, Vec::new()));
    }
    let rows = over.iter().map(|listener| ListenerId { gateway: gateway.clone(), name: listener.name.clone() });
    let rows: Vec<_> = rows.filter_map(|id| engine.get::<ListenerRow>(&id)).collect();
    let withheld = |name: Option<&str>| -> Vec<Told> {
        let rows = rows.iter().filter(|row| name.is_none_or(|name| *row.model.name == *name));
        rows.filter_map(|row| row.withheld.as_ref().map(|fault| Told::fault(&object, fault))).collect()
    };
    if rows.iter().all(|row| row.withheld.is_some()) {
        return Err(unreachable(format!("no listener at port {port} is served"), withheld(None)));
    }
    let config = |listener| RouteConfigId { gateway: gateway.clone(), port, listener };
    if request.scheme == Scheme::Http {
        return Ok(config(None));
    }
    // Chosen by the name that the client expects in the certificate.
    let server = Hostname::Exact(request.server.as_str().into());
    let chosen = server.covering().find_map(|hostname| {
        let at = engine.group::<PortHosts>(&(gateway.clone(), port, Scheme::Https, hostname));
        at.first().map(|(at, ())| at.clone())
    });
    match chosen {
        None => {
            Err(unreachable(format!("no listener at port {port} has a hostname for {}", request.server), Vec::new()))
        }
        Some((true, name)) => {
            Err(unreachable(format!("listener {name} is not served, so connections are closed"), withheld(Some(&name))))
        }
        Some((false, name)) => Ok(config(Some(name))),
    }
}

/// The virtual host for a host, and the listener whose routes it has.
fn virtual_host(engine: &Engine, config: &RouteConfigId, host: &str) -> Result<(ListenerId, Hostname), Outcome> {
    let hosts = engine.group::<HostsOf>(config);
    let listeners = engine.group::<PortListeners>(&(config.gateway.clone(), config.port));
    let is_others = |hostname: &Hostname| {
        let mut others = listeners.iter().filter(|(_, at)| at.over == Scheme::Https).map(|(sort, _)| sort);
        config.listener.is_some()
            && others.any(|(other, name)| other == hostname && Some(name) != config.listener.as_ref())
    };
    for hostname in Hostname::Exact(host.into()).covering() {
        if hosts.get(&hostname).is_none() {
            if is_others(&hostname) {
                return Err(Outcome::Misdirected);
            }
            continue;
        }
        return match engine.get::<Owner>(&(config.clone(), hostname.clone())).as_deref() {
            Some(Owned::By(name)) => Ok((ListenerId { gateway: config.gateway.clone(), name: name.clone() }, hostname)),
            _ => {
                let why = format!("{hostname} belongs to a listener that is not served, and to no broader one");
                Err(Outcome::NotFound { why })
            }
        };
    }
    let why = format!("no listener at port {} has a hostname for {host}", config.port);
    Err(Outcome::NotFound { why })
}

/// The way from the root to a leaf.
fn links(way: &Way, winner: &Candidate, sent: &Sent<'_>) -> Vec<Link> {
    let name = |route: Option<&Arc<Head>>, rule: u32| Some(route?.rules.get(rule as usize)?.name.as_ref()?.to_string());
    let chain = winner.place.via();
    let mut links = vec![Link {
        route: chain.route().to_string(),
        rule: winner.seen.origin.rule,
        rule_name: name(way.route.as_ref(), winner.seen.origin.rule),
        written: winner.leaf().written,
        selects: None,
    }];
    for ((parent, rule), above) in chain.upwards().filter_map(Chain::above).zip(&way.above) {
        let matches = above.delegation.iter().flat_map(|delegation| &delegation.matches);
        let taking = matches.filter(|rendered| {
            rendered.written.requests().any(|request| sent.misses(&route_match(&request)).is_empty())
        });
        let narrowest =
            taking.min_by_key(|rendered| rendered.written.requests().next().map(|request| request.specificity()));
        let children = above.delegation.iter().flat_map(|delegation| &delegation.children);
        let selects = children.into_iter().find(|(position, _)| Some(*position) == above.selecting);
        links.push(Link {
            route: parent.route().to_string(),
            rule,
            rule_name: name(above.route.as_ref(), rule),
            written: narrowest.map(|rendered| written_in_words(&rendered.written)).unwrap_or_default(),
            selects: selects.map(|(position, who)| format!("backendRefs[{position}], {}", tree::selects(who))),
        });
    }
    links.reverse();
    links
}

fn answer(way: &Way, winner: &Candidate, sent: &Sent<'_>) -> Outcome {
    let chain = winner.place.via();
    let resolved = way.resolved.as_deref();
    let route = &winner.seen.message;
    let preflight = sent.request.method == "OPTIONS"
        && ["origin", "access-control-request-method"]
            .iter()
            .all(|name| sent.request.headers.iter().any(|(sent, _)| sent == name))
        && route.typed_per_filter_config.contains_key(slots::CORS);
    if preflight {
        let body = String::new();
        return Outcome::DirectResponse { status: 200, body, because: Vec::new() };
    }
    let object = tree::object(chain.route());
    let no_room = way.no_room.iter().map(|problem| Told::problem(&object, problem));
    let problems = || no_room.chain(tree::problems(chain, resolved)).collect::<Vec<_>>();
    match winner.seen.answer(resolved) {
        Answer::Backends { backends } => {
            let url = match &route.action {
                Some(Action::Route(action)) => effects::forwarded(route, action, sent),
                _ => String::new(),
            };
            let broken = backends.iter().any(|share| share.service.is_none());
            Outcome::Backends {
                backends,
                url,
                because: if broken { broken_shares(chain, resolved) } else { Vec::new() },
            }
        }
        Answer::Redirect { status } => Outcome::Redirect {
            status,
            location: match &route.action {
                Some(Action::Redirect(redirect)) => effects::location(route, redirect, sent),
                _ => String::new(),
            },
        },
        Answer::DirectResponse { status, body } => {
            let all = problems();
            // What is said of this very match counts before what is said of the rule.
            let field = format!("spec.rules[{}].matches[{}]", winner.seen.origin.rule, winner.seen.origin.matching);
            let of_match: Vec<_> = all.iter().filter(|told| told.field == field).cloned().collect();
            let of_rule = all.into_iter().filter(|told| !told.field.contains(".matches["));
            let because = if of_match.is_empty() { of_rule.collect() } else { of_match };
            Outcome::DirectResponse { status, body, because }
        }
    }
}

fn broken_shares(chain: &Chain, resolved: Option<&Resolved>) -> Vec<Told> {
    let Some(findings) = resolved.and_then(|resolved| resolved.findings.as_deref()) else { return Vec::new() };
    let problems = findings.unresolved.iter().chain(&findings.shares);
    problems.map(|problem| Told::problem(&tree::object(chain.route()), problem)).collect()
}
