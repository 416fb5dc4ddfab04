//! Rules with their references followed: the Envoy routes they become, and what is wrong.
//!
//! A rule is read, resolved and written in one go and only the outcome is kept: there are many of them.

use std::sync::Arc;

use engine::{Lookup, Scope};
use ir::{
    NsName, Port, Problem, Severity,
    backend::{Protocol, ServicePort},
    filter::{Mirror, Scheme},
    matching::{RequestMatch, Specificity},
    rule::{Action, Rule, Source, WeightedBackend},
};

use crate::{
    bytes::Row,
    envoy::route::{self, RouteAt},
    grant::permits,
    route::rule::{self, Changes, Does, ReadBackend, ReadMatch},
    tables::{
        backend::{ClusterId, ServicePorts, SessionCluster, Shares, Unusable},
        input::{Config, Routes},
    },
};

/// A rule as Envoy gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// Its Envoy routes, one or more a match.
    pub(crate) routes: EnvoyRoutes,
    /// The clusters it sends to, each once, sorted.
    pub(crate) clusters: Box<[ClusterId]>,
    /// The backends over which sessions hold; they share a cluster.
    session: Option<Box<Shares>>,
    /// What is wrong with it; most rules have nothing.
    pub(crate) findings: Option<Box<Findings>>,
}

/// What is wrong with a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Matches that were dropped, and the fault that all of them were dropped for.
    pub(crate) dropped: Vec<Problem>,
    /// The fault that it was replaced for.
    pub(crate) replaced: Option<Problem>,
    /// Faults of single shares that answer 500 in their backend's place, though the backend resolves.
    pub(crate) shares: Vec<Problem>,
    /// References that do not resolve.
    pub(crate) unresolved: Vec<Problem>,
    /// What works, though its author should look at it.
    pub(crate) warnings: Vec<Problem>,
}

/// The Envoy routes of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EnvoyRoutes {
    /// The same wherever the rule is served.
    Everywhere(Box<[EnvoyRoute]>),
    /// Others at each listener: what they are made from.
    ByListener(Box<Unwritten>),
}

/// One match of a rule, written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EnvoyRoute {
    /// How much it asks for.
    pub(crate) specificity: Specificity,
    /// The match's place in the rule.
    pub(crate) matching: u32,
    /// The order of what one match becomes.
    pub(crate) order: u32,
    /// The message.
    pub(crate) row: Row,
}

/// A rule that nothing is missing from but the listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unwritten {
    route: NsName,
    index: u32,
    name: Option<Arc<str>>,
    matches: Vec<ReadMatch>,
    rule: Rule,
}

impl Unwritten {
    /// The rule's Envoy routes at a listener.
    pub(crate) fn write(&self, at: RouteAt) -> Box<[EnvoyRoute]> {
        let split = route::splits_by_host_port(&self.rule, at);
        let requests = self.matches.iter().flat_map(|read| {
            let parts = read.written.requests().zip(0..);
            parts.map(|(request, part)| (read.index, part, request))
        });
        let routes = requests.flat_map(|(index, part, request)| {
            let with_port = split.then(|| {
                let request = RequestMatch { host_with_port: true, ..request.clone() };
                // Before the other, which takes every host.
                self.envoy_route(index, part + PARTS, 2 * part, &request, at)
            });
            with_port.into_iter().chain([self.envoy_route(index, part, 2 * part + 1, &request, at)])
        });
        routes.collect()
    }

    fn envoy_route(&self, matching: u32, part: u32, order: u32, request: &RequestMatch, at: RouteAt) -> EnvoyRoute {
        let source = Source {
            kind: "HTTPRoute",
            route: self.route.clone(),
            rule: self.index,
            rule_name: self.name.clone(),
            matching,
            part,
        };
        let row = route::route(&source, request, &self.rule, at);
        EnvoyRoute { specificity: request.specificity(), matching, order, row }
    }
}

/// More than the parts of one match's path.
const PARTS: u32 = 2;

impl Resolved {
    /// Why the rule serves nothing that it says, if so.
    pub(crate) fn fault(&self) -> Option<&Problem> {
        let findings = self.findings.as_ref()?;
        let matches_nothing = match &self.routes {
            EnvoyRoutes::Everywhere(routes) => routes.is_empty(),
            EnvoyRoutes::ByListener(unwritten) => unwritten.matches.is_empty(),
        };
        findings.replaced.as_ref().or(findings.dropped.first().filter(|_| matches_nothing))
    }
}

tables! {
    /// Rules by route and place.
    ResolvedRule: (NsName, u32) => Resolved;
}

impl Lookup for ResolvedRule {
    fn compute(scope: &Scope<'_>, key: &(NsName, u32)) -> Option<Resolved> {
        let (name, index) = key;
        let route = scope.get::<Routes>(name)?;
        let read = rule::read(route.spec.rules.get(*index as usize)?, &format!("spec.rules[{index}]"));
        let mut resolver = Resolver::new(scope, key);
        let (mut matches, mut dropped, mut replaced) = (read.matches, read.dropped, None);
        let rule = match read.does.and_then(|does| resolver.rule(&does)) {
            Ok(rule) => rule,
            Err(problem) => {
                resolver.shares.clear();
                resolver.clusters.clear();
                resolver.session = None;
                let config = scope.get::<Config>(&())?;
                if config.replacement.enabled {
                    replaced = Some(problem);
                } else {
                    matches.clear();
                    dropped.insert(0, problem);
                }
                Rule::direct_response(config.replacement.status, config.replacement.body.clone())
            }
        };
        let Resolver { mut clusters, session, shares, unresolved, warnings, .. } = resolver;
        clusters.sort();
        clusters.dedup();
        let findings = Findings { dropped, replaced, shares, unresolved, warnings };
        let unwritten = Unwritten { route: name.clone(), index: *index, name: read.name, matches, rule };
        let routes = if route::depends_on_listener(&unwritten.rule) {
            EnvoyRoutes::ByListener(Box::new(unwritten))
        } else {
            EnvoyRoutes::Everywhere(unwritten.write(RouteAt { scheme: Scheme::Http, port: 0 }))
        };
        Some(Resolved {
            routes,
            clusters: clusters.into(),
            session: session.map(Box::new),
            findings: (findings != Findings::default()).then(|| Box::new(findings)),
        })
    }
}

struct Resolver<'a, 'b> {
    scope: &'a Scope<'b>,
    route: &'a (NsName, u32),
    clusters: Vec<ClusterId>,
    session: Option<Shares>,
    shares: Vec<Problem>,
    unresolved: Vec<Problem>,
    warnings: Vec<Problem>,
}

/// A share whose reference was followed.
struct Share<'a> {
    weight: u32,
    port: Option<ServicePort>,
    protocol: Protocol,
    changes: Option<&'a Changes>,
}

impl<'a, 'b> Resolver<'a, 'b> {
    fn new(scope: &'a Scope<'b>, route: &'a (NsName, u32)) -> Self {
        Self {
            scope,
            route,
            clusters: Vec::new(),
            session: None,
            shares: Vec::new(),
            unresolved: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn rule(&mut self, does: &Does) -> Result<Rule, Problem> {
        let action = match &does.filters.redirect {
            Some(redirect) => Action::Redirect(redirect.clone()),
            None => self.forward(does)?,
        };
        let mut filters = does.filters.filters.clone();
        for mirror in &does.filters.mirrors {
            // A mirror that does not resolve takes nothing from the request itself.
            match self.follow(&mirror.backend, &mirror.field) {
                Ok((port, _)) => {
                    filters.mirrors.push(Mirror { cluster: port.cluster_name().into(), fraction: mirror.fraction });
                    self.clusters.push(ClusterId::Service(port));
                }
                Err(problem) => self.unresolved.push(Problem { severity: Severity::Ignored, ..problem }),
            }
        }
        Ok(Rule { action, filters, timeouts: does.timeouts, retry: does.retry.clone(), session: does.session.clone() })
    }

    fn forward(&mut self, does: &Does) -> Result<Action, Problem> {
        let shares: Vec<_> = does.backends.iter().map(|backend| self.share(backend)).collect();
        let served = shares.iter().any(|share| share.weight > 0 && share.port.is_some());
        if !served {
            // A rule that a filter left without a backend is broken itself.
            return match self.shares.first() {
                Some(fault) => Err(fault.clone()),
                None => Ok(Action::DirectResponse { status: 500, body: "".into() }),
            };
        }
        Ok(Action::Forward(if does.session.is_some() && shares.len() > 1 {
            self.session(&shares, does)?
        } else {
            shares.iter().filter(|share| share.weight > 0).map(|share| self.weighted(share)).collect()
        }))
    }

    fn share<'d>(&mut self, backend: &'d ReadBackend) -> Share<'d> {
        let broken = Share { weight: backend.weight, port: None, protocol: Protocol::default(), changes: None };
        let followed = self.follow(&backend.backend, &backend.field);
        match (followed, &backend.changes) {
            (Ok((port, protocol)), Ok(changes)) => {
                Share { port: Some(port), protocol, changes: Some(changes), ..broken }
            }
            (Ok(_), Err(fault)) => {
                self.shares.push(fault.clone());
                broken
            }
            (Err(unresolved), changes) => {
                self.unresolved.push(unresolved);
                self.shares.extend(changes.as_ref().err().cloned());
                broken
            }
        }
    }

    fn weighted(&mut self, share: &Share<'_>) -> WeightedBackend {
        let changes = share.changes.cloned().unwrap_or_default();
        if let Some(port) = &share.port {
            self.clusters.push(ClusterId::Service(port.clone()));
        }
        WeightedBackend {
            weight: share.weight,
            cluster: share.port.as_ref().map(|port| port.cluster_name().into()),
            request_headers: changes.request_headers,
            response_headers: changes.response_headers,
            hostname: changes.hostname,
        }
    }

    /// A session holds across backends, one at weight zero included: they become one cluster with a weighted locality
    /// each, since Envoy looks for a session's endpoint only after it chose the cluster.
    fn session(&mut self, shares: &[Share<'_>], does: &Does) -> Result<Vec<WeightedBackend>, Problem> {
        let usable = || shares.iter().filter(|share| share.port.is_some());
        let field = does.backends.first().map(|backend| backend.field.trim_end_matches("[0]")).unwrap_or_default();
        let refuse = |message: &str| Problem::new(Severity::Replaced, "UnsupportedValue", field, message);
        if usable().any(|share| share.changes.is_some_and(|changes| !changes.is_empty())) {
            return Err(refuse("a session cannot hold across backends with filters of their own; remove either"));
        }
        let protocol = usable().next().map(|share| share.protocol).unwrap_or_default();
        if usable().any(|share| share.protocol != protocol) {
            return Err(refuse("a session cannot hold across backends that speak different protocols"));
        }
        let id = ClusterId::Rule(self.route.0.clone(), self.route.1);
        let plain = |weight, cluster| WeightedBackend {
            weight,
            cluster,
            request_headers: ir::filter::HeaderModifier::default(),
            response_headers: ir::filter::HeaderModifier::default(),
            hostname: None,
        };
        let sum = |broken: bool| {
            shares.iter().filter(|share| share.port.is_none() == broken).map(|share| share.weight).sum::<u32>()
        };
        let mut backends = vec![plain(sum(false), Some(id.name().into()))];
        self.clusters.push(id);
        self.session = Some(Shares { protocol, shares: resolved(shares) });
        if sum(true) > 0 {
            backends.push(plain(sum(true), None));
        }
        Ok(backends)
    }

    /// Follows a reference to a backend (Gateway API `HTTPBackendRef.backendRef`).
    fn follow(
        &mut self,
        to: &api::shared::BackendObjectReference,
        field: &str,
    ) -> Result<(ServicePort, Protocol), Problem> {
        let refuse =
            |reason, name: &str, message| Problem::new(Severity::Replaced, reason, format!("{field}{name}"), message);
        if !to.group.is_empty() || &*to.kind != "Service" {
            let group = if to.group.is_empty() { "core" } else { &to.group };
            let message = format!("{} of group {group} cannot be a backend; use a Service", to.kind);
            return Err(refuse("InvalidKind", ".kind", message));
        }
        let own = &self.route.0.namespace;
        let namespace = to.namespace.as_ref().filter(|namespace| !namespace.is_empty()).unwrap_or(own);
        let service = NsName::new(namespace.clone(), to.name.clone());
        if !permits(self.scope, "HTTPRoute", own, "Service", &service) {
            let message = format!(
                "Service {service} is in another namespace and no ReferenceGrant there allows HTTPRoutes of {own} to use \
                 it; create one there, or name a Service of {own}"
            );
            return Err(refuse("RefNotPermitted", ".namespace", message));
        }
        let Some(port) = to.port.and_then(|port| Port::try_from(port).ok()).filter(|port| *port > 0) else {
            let message = match to.port {
                None => format!("missing, and a Service is reached at one; name a port of Service {service}"),
                Some(port) => format!("{port} is not a port; use 1 to 65535"),
            };
            return Err(refuse("BackendNotFound", ".port", message));
        };
        let port = ServicePort { service, port };
        let Some(state) = self.scope.get::<ServicePorts>(&port) else {
            let message = format!("Service {} does not exist; create it, or correct the name", port.service);
            return Err(refuse("BackendNotFound", ".name", message));
        };
        if let Some(warning) = &state.warning {
            self.warnings.push(Problem::new(Severity::Warning, "UnsupportedProtocol", field, warning.clone()));
        }
        match &state.protocol {
            Ok(protocol) => Ok((port, *protocol)),
            Err(Unusable { reason, message }) => Err(refuse(reason, "", message.clone())),
        }
    }
}

/// The shares that resolve; those of one Service count as one.
fn resolved(written: &[Share<'_>]) -> Vec<(ServicePort, u32)> {
    let mut shares: Vec<(ServicePort, u32)> = Vec::new();
    for share in written {
        let Some(port) = &share.port else { continue };
        match shares.iter_mut().find(|(known, _)| known == port) {
            Some((_, weight)) => *weight += share.weight,
            None => shares.push((port.clone(), share.weight)),
        }
    }
    shares
}

impl Lookup for SessionCluster {
    fn compute(scope: &Scope<'_>, key: &(NsName, u32)) -> Option<Shares> {
        Some(Shares::clone(scope.get::<ResolvedRule>(key)?.session.as_ref()?))
    }
}
