//! Rules with their references followed: what Envoy is to do, and what is wrong.

use std::sync::Arc;

use engine::{Lookup, Scope, Table};
use ir::{
    NsName, Port, Problem, Severity,
    backend::{Protocol, ServicePort},
    filter::Mirror,
    rule::{Action, Rule, WeightedBackend},
};

use crate::{
    backend::{ClusterId, ServicePorts, Unusable},
    grant::Reference,
    input::Config,
    route::{
        matches::ReadMatch,
        rule::{Changes, Does, ReadBackend, RouteRule},
    },
};

/// A rule, ready to be written for Envoy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// Its name, if it has one.
    pub(crate) name: Option<Arc<str>>,
    /// What it matches.
    pub(crate) matches: Vec<ReadMatch>,
    /// What it does.
    pub(crate) rule: Rule,
    /// The clusters it sends to, each once, sorted.
    pub(crate) clusters: Vec<ClusterId>,
    /// Matches that were dropped, and the fault it was replaced for.
    pub(crate) faults: Vec<Problem>,
    /// References that do not resolve.
    pub(crate) unresolved: Vec<Problem>,
    /// What works, though its author should look at it.
    pub(crate) warnings: Vec<Problem>,
}

/// Rules by route and place.
pub(crate) struct ResolvedRule;

impl Table for ResolvedRule {
    const NAME: &'static str = "ResolvedRule";
    type Key = (NsName, u32);
    type Value = Resolved;
}

impl Lookup for ResolvedRule {
    fn compute(scope: &Scope<'_>, key: &(NsName, u32)) -> Option<Resolved> {
        let read = scope.get::<RouteRule>(key)?;
        let mut resolver = Resolver::new(scope, key);
        let mut faults = read.dropped.clone();
        let rule = match &read.does {
            Ok(does) => resolver.rule(does),
            Err(problem) => Err(problem.clone()),
        };
        let rule = rule.unwrap_or_else(|problem| {
            faults.push(problem);
            resolver.clusters.clear();
            let replacement = scope.get::<Config>(&()).map(|config| config.replacement.clone());
            replacement.map_or_else(
                || Rule::direct_response(500, ""),
                |replacement| Rule::direct_response(replacement.status, replacement.body),
            )
        });
        let Resolver { mut clusters, unresolved, warnings, .. } = resolver;
        clusters.sort();
        clusters.dedup();
        clusters.shrink_to_fit();
        Some(Resolved {
            name: read.name.clone(),
            matches: read.matches.clone(),
            rule,
            clusters,
            faults,
            unresolved,
            warnings,
        })
    }
}

struct Resolver<'a, 'b> {
    scope: &'a Scope<'b>,
    route: &'a (NsName, u32),
    clusters: Vec<ClusterId>,
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
        Self { scope, route, clusters: Vec::new(), unresolved: Vec::new(), warnings: Vec::new() }
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
            return Ok(Action::DirectResponse { status: 500, body: "".into() });
        }
        let mut backends: Vec<_> = if does.session.is_some() && shares.len() > 1 {
            self.session(&shares, does)?
        } else {
            shares.iter().filter(|share| share.weight > 0).map(|share| self.weighted(share)).collect()
        };
        backends.shrink_to_fit();
        Ok(Action::Forward(backends))
    }

    fn share<'d>(&mut self, backend: &'d ReadBackend) -> Share<'d> {
        let followed = match &backend.changes {
            Ok(changes) => self.follow(&backend.backend, &backend.field).map(|found| (found, changes)),
            Err(problem) => Err(problem.clone()),
        };
        match followed {
            Ok(((port, protocol), changes)) => {
                Share { weight: backend.weight, port: Some(port), protocol, changes: Some(changes) }
            }
            Err(problem) => {
                self.unresolved.push(problem);
                Share { weight: backend.weight, port: None, protocol: Protocol::default(), changes: None }
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
        if !Reference::new("HTTPRoute", own, "", "Service", &service).is_permitted(self.scope) {
            let message = format!(
                "Service {service} is in another namespace and no ReferenceGrant there allows HTTPRoutes of {own} to use it"
            );
            return Err(refuse("RefNotPermitted", ".namespace", message));
        }
        let Some(port) = to.port.and_then(|port| Port::try_from(port).ok()).filter(|port| *port > 0) else {
            let message = match to.port {
                None => format!("a reference to Service {service} needs a port"),
                Some(port) => format!("{port} is not a port; use 1 to 65535"),
            };
            return Err(refuse("UnsupportedValue", ".port", message));
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

/// The cluster of a rule whose sessions hold across its backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    pub(crate) protocol: Protocol,
    /// Each backend with its weight, in the order of the spec.
    pub(crate) shares: Vec<(ServicePort, u32)>,
}

/// What [`ClusterId::Rule`] stands for.
pub(crate) struct SessionCluster;

impl Table for SessionCluster {
    const NAME: &'static str = "SessionCluster";
    type Key = (NsName, u32);
    type Value = Shares;
}

impl Lookup for SessionCluster {
    fn compute(scope: &Scope<'_>, key: &(NsName, u32)) -> Option<Shares> {
        let read = scope.get::<RouteRule>(key)?;
        let does = read.does.as_ref().ok()?;
        let mut resolver = Resolver::new(scope, key);
        let mut shares: Vec<(ServicePort, u32)> = Vec::new();
        let mut protocol = None;
        for share in does.backends.iter().map(|backend| resolver.share(backend)) {
            let Some(port) = share.port else { continue };
            protocol.get_or_insert(share.protocol);
            match shares.iter_mut().find(|(known, _)| *known == port) {
                Some((_, weight)) => *weight += share.weight,
                None => shares.push((port, share.weight)),
            }
        }
        Some(Shares { protocol: protocol?, shares })
    }
}
