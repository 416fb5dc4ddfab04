//! A request on its way: to its virtual host, to the route that takes it, and to what is known of that.

use std::sync::Arc;

use envoy::{route::GuardedMatch, slots};
use envoy_types::pb::envoy::config::route::v3::route::Action;
use ir::{Chain, Hostname, ListenerId, NsName, Problem, RootId};
use translate::{
    Translator,
    inspect::{Delegation, EnvoyRoutes, Inspector, ServedRule},
    object_id,
};

use crate::{
    choose::{Candidate, choose},
    effects,
    explanation::{ClientsWord, Explanation, Link, ListenerWord, MatchedListener, Outcome, Tried},
    finding::Finding,
    lineage::{Ancestor, Lineage},
    matching::Sent,
    provenance,
    request::{Normal, Request, normalise},
    served_route::{Answer, Share},
    virtual_host::{connect, shut, virtual_host},
    words::{children, written_in_words},
};

/// Explains what becomes of `request` at a Gateway. Goes through the routes of one virtual host: for people, not for a hot
/// path.
pub fn explain(translator: &Translator, gateway: &NsName, request: &Request) -> Explanation {
    let matched = Query::new(translator, gateway, request.clone()).match_routes();
    let lineage = matched.lineage(translator);
    matched.explain(&lineage)
}

/// A request at its virtual host, whose routes are not looked at yet. It shares them with the translator: to make it costs
/// nothing that depends on how many there are, so that the translator's thread may do it, and [`Query::match_routes`] is
/// for another one.
pub struct Query {
    request: Request,
    explanation: Explanation,
    /// Or what comes of the request before any route is looked for.
    found: Result<Found, Outcome>,
}

/// The routes that are tried.
struct Found {
    /// Path and query string as they are routed.
    target: String,
    /// Whose routes they are.
    listener: ListenerId,
    /// By the hostname under which they stand.
    routes: Vec<(Hostname, EnvoyRoutes)>,
}

/// A request with the route that takes it, if any does.
pub struct Matched {
    request: Request,
    explanation: Explanation,
    taken: Result<Taken, Outcome>,
}

/// The route that takes a request.
struct Taken {
    target: String,
    listener: ListenerId,
    winner: Candidate,
}

impl Query {
    /// What is asked, at the routes as they are now.
    pub fn new(translator: &Translator, gateway: &NsName, request: Request) -> Self {
        let mut explanation = Explanation {
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
            frozen: Vec::new(),
            set_aside: Vec::new(),
            outcome: Outcome::Misdirected,
            effects: Vec::new(),
            tried: Tried::default(),
        };
        let found = find(translator.inspect(), gateway, &request, &mut explanation);
        Self { request: request.without_removed_headers(), explanation, found }
    }

    /// Looks through the routes.
    pub fn match_routes(self) -> Matched {
        let Self { request, mut explanation, found } = self;
        let taken = found.and_then(|Found { target, listener, routes }| {
            let winner = choose(&routes, &Sent::new(&request, &target), &mut explanation)?;
            Ok(Taken { target, listener, winner })
        });
        Matched { request, explanation, taken }
    }
}

impl Matched {
    /// What is known of the route by now. Costs what the depth of its tree comes to.
    pub fn lineage(&self, translator: &Translator) -> Lineage {
        let Ok(Taken { winner, listener, .. }) = &self.taken else { return Lineage::default() };
        let tables = translator.inspect();
        let (chain, rule) = (winner.place.via(), winner.route.origin.rule);
        let above = chain.upwards().filter_map(|child| child.above().map(|above| (child, above)));
        let above = above.map(|(child, (parent, rule))| Ancestor {
            rule_name: tables.route(parent.route()).and_then(|route| route.rules.get(rule as usize)?.name.clone()),
            delegation: tables.delegation(parent, rule),
            reference: tables.reference_to(parent, rule, child.route()),
        });
        let served = tables.rule_at(chain, rule, listener);
        let on_the_way = chain.upwards().map(|chain| object_id(chain.route()));
        let set_aside = on_the_way.filter_map(|id| translator.set_aside(&id).map(|problem| (id, problem)));
        let of_tree = chain.top().edition.as_deref().cloned();
        let roots = of_tree.into_iter().chain([RootId::Gateway(listener.gateway.clone())]);
        let frozen = roots.filter_map(|root| tables.frozen(&root).map(|told| (root, told)));
        Lineage {
            above: above.collect(),
            frozen: frozen.collect(),
            set_aside: set_aside.collect(),
            written: tables.written_rule(chain.route(), rule),
            connections: served.as_ref().map(|rule| tables.connections(rule)).unwrap_or_default(),
            unsent: served.as_ref().map(|rule| tables.unsent(&listener.gateway, rule)).unwrap_or_default(),
            rule: served,
            wide: tables.wide_units(listener),
            no_room: tables.no_room(chain)(rule),
        }
    }

    /// What becomes of the request.
    pub fn explain(self, lineage: &Lineage) -> Explanation {
        let Self { request, mut explanation, taken } = self;
        explanation.outcome = match taken {
            Err(outcome) => outcome,
            Ok(Taken { target, winner, .. }) => {
                let sent = Sent::new(&request, &target);
                explanation.leaf = Some(winner.leaf());
                explanation.chain = links(lineage, &winner, &sent);
                explanation.frozen = lineage.frozen.iter().map(|(root, told)| Finding::frozen(root, told)).collect();
                let set_aside = lineage.set_aside.iter();
                explanation.set_aside =
                    set_aside.map(|(id, problem)| Finding::problem(&id.to_string(), problem)).collect();
                explanation.effects = provenance::effects(lineage, winner.place.via(), &winner.route);
                answer(lineage, &winner, &sent)
            }
        };
        explanation
    }
}

/// Finds the routes that are tried. Ends early where no route is looked for.
fn find(
    tables: Inspector<'_>,
    gateway: &NsName,
    request: &Request,
    explanation: &mut Explanation,
) -> Result<Found, Outcome> {
    let config = connect(tables, gateway, request)?;
    if let Some((name, _)) = request.headers.iter().find(|(name, _)| name.contains('_')) {
        return Err(Outcome::BadRequest { why: format!("header {name} has an underscore in its name") });
    }
    let target = match normalise(&request.target) {
        Normal::Target(target) => target,
        Normal::Redirect(location) => {
            explanation.normalised = Some(location.clone());
            return Err(Outcome::Redirect { status: 307, location });
        }
        Normal::Refused(why) => return Err(Outcome::BadRequest { why: why.into() }),
    };
    if target != request.target {
        explanation.normalised = Some(target.clone());
    }
    let (listener, hostname) = virtual_host(tables, &config, &request.host())?;
    explanation.virtual_host = Some(hostname.domain());
    if let Some(namespaces) = tables.shut_by(&listener, &hostname) {
        return Err(Outcome::DirectResponse {
            status: 500,
            body: String::new(),
            because: vec![shut(gateway, &hostname, &namespaces)],
        });
    }
    explanation.listener = tables.listener(&listener).map(|listener| MatchedListener {
        name: listener.id.name.to_string(),
        port: listener.port,
        hostname: listener.hostname.domain(),
        clients: ClientsWord::of(&listener),
        policies: ListenerWord::all(&listener),
    });
    let routes = hostname.covering().map(|hostname| {
        let routes = tables.envoy_routes(&listener, &hostname);
        (hostname, routes)
    });
    let routes = routes.collect();
    Ok(Found { target, listener, routes })
}

/// The way from the root to a leaf.
fn links(lineage: &Lineage, winner: &Candidate, sent: &Sent<'_>) -> Vec<Link> {
    let name_of = |name: Option<&Arc<str>>| name.map(ToString::to_string);
    let chain = winner.place.via();
    let mut links = vec![Link {
        route: chain.route().clone(),
        rule: winner.route.origin.rule,
        rule_name: name_of(lineage.written.as_ref().and_then(|written| written.name.as_ref())),
        written: winner.leaf().written,
        selects: None,
    }];
    for ((parent, rule), above) in chain.upwards().filter_map(Chain::above).zip(&lineage.above) {
        let taking = above.delegation.iter().flat_map(Delegation::matches).filter(|matching| {
            matching.written.requests().any(|request| sent.mismatches(&GuardedMatch::new(request).message()).is_empty())
        });
        let narrowest = taking.min_by_key(|matching| matching.written.specificity());
        let references = above.delegation.iter().flat_map(Delegation::references);
        let selects = references.into_iter().find(|(index, _)| Some(*index) == above.reference);
        links.push(Link {
            route: parent.route().clone(),
            rule,
            rule_name: name_of(above.rule_name.as_ref()),
            written: narrowest.map(|matching| written_in_words(matching.written)).unwrap_or_default(),
            selects: selects.map(|(index, selected)| format!("backendRefs[{index}], {}", children(selected))),
        });
    }
    links.reverse();
    links
}

fn answer(lineage: &Lineage, winner: &Candidate, sent: &Sent<'_>) -> Outcome {
    let rule = lineage.rule.as_ref();
    let route = &winner.route.message;
    let preflight = sent.request.method == "OPTIONS"
        && ["origin", "access-control-request-method"]
            .iter()
            .all(|name| sent.request.headers.iter().any(|(sent, _)| sent == name))
        && route.typed_per_filter_config.get(slots::CORS).is_some_and(|config| !slots::is_off(config));
    if preflight {
        let body = String::new();
        return Outcome::DirectResponse { status: 200, body, because: Vec::new() };
    }
    let object = winner.place.via().route().to_string();
    let finding = |problem: &Problem| Finding::problem(&object, problem);
    match winner.route.answer(rule) {
        Answer::Backends { mut backends } => {
            let mut because = Vec::new();
            for share in &mut backends {
                if let Some((_, object, fault)) = lineage.unsent.iter().find(|(to, ..)| share.is_of(to)) {
                    because.push(Finding::fault(object, fault));
                    share.status = Some(winner.route.status_without_cluster());
                    continue;
                }
                let of_share = lineage.connections.iter().filter(|(to, _)| share.is_of(to));
                let policies = of_share.flat_map(|(_, policies)| policies.iter().map(ToString::to_string));
                share.policies = policies.collect();
            }
            let url = match &route.action {
                Some(Action::Route(action)) => effects::forwarded(route, action, sent),
                _ => String::new(),
            };
            let broken = backends.iter().any(Share::is_broken);
            because.extend(rule.filter(|_| broken).iter().flat_map(|rule| rule.broken_shares()).map(finding));
            Outcome::Backends { backends, url, because }
        }
        Answer::Redirect { status } => Outcome::Redirect {
            status,
            location: match &route.action {
                Some(Action::Redirect(redirect)) => effects::location(route, redirect, sent),
                _ => String::new(),
            },
        },
        Answer::DirectResponse { status, body } => {
            let matching = winner.route.origin.matching;
            let of_match: Vec<_> = rule.iter().flat_map(|rule| rule.problems_of_match(matching)).collect();
            let of_rule = rule.into_iter().flat_map(ServedRule::problems);
            let of_rule = lineage.no_room.iter().chain(of_rule);
            // What is said of this very match counts before what is said of the rule.
            let because = if of_match.is_empty() { of_rule.collect() } else { of_match };
            Outcome::DirectResponse { status, body, because: because.into_iter().map(finding).collect() }
        }
    }
}
