//! Where a rule sends its requests: its references followed.

use std::sync::Arc;

use api::group::PORTCULLIS_GROUP;
use engine::Scope;
use ir::{
    Chain, Problem, Reason, RouteKind, Severity,
    backend::Destination,
    filter::{Filters, HeaderModifier, Mirror, Redirect},
    route::{BackendRef, BackendSpec, Changes, Handling, MirrorSpec},
    rule::{Action, Rule, WeightedBackend},
    upstream::HashPolicy,
};

use crate::{
    backend::reference::{self, Followed, Sent},
    grant::Referrer,
    route::direct_response,
    tables::backend::{ClusterId, NamedShares, Shares},
};

/// What following the references of a rule came to.
pub(super) struct Resolver<'a, 'b> {
    scope: &'a Scope<'b>,
    /// The rule, whose own namespace decides what it may refer to.
    rule: &'a (Chain, u32),
    /// The clusters it sends to.
    pub(super) clusters: Vec<ClusterId>,
    /// The backends over which sessions hold.
    pub(super) session: Option<Shares>,
    /// What of its requests is hashed.
    hash: Arc<[HashPolicy]>,
    /// Faults of single shares.
    pub(super) shares: Vec<Problem>,
    /// References that do not resolve.
    pub(super) unresolved: Vec<Problem>,
    /// Backends to which it would send, were their policy of TLS valid.
    pub(super) closed: Vec<Destination>,
    /// What works, though its author should look at it.
    pub(super) warnings: Vec<Problem>,
}

/// A share whose reference was followed.
struct Share<'a> {
    weight: u32,
    to: Option<Followed>,
    changes: Option<&'a Changes>,
}

impl<'a, 'b> Resolver<'a, 'b> {
    pub(super) fn new(scope: &'a Scope<'b>, rule: &'a (Chain, u32)) -> Self {
        Self {
            scope,
            rule,
            clusters: Vec::new(),
            session: None,
            hash: Arc::default(),
            shares: Vec::new(),
            unresolved: Vec::new(),
            closed: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn kind(&self) -> RouteKind {
        self.rule.0.route().kind
    }

    /// Whether what is sent is gRPC.
    fn in_grpc(&self) -> bool {
        self.kind() == RouteKind::GrpcRoute
    }

    /// What mirrors get.
    fn copies(&self) -> Sent {
        Sent::Own { in_grpc: self.in_grpc() }
    }

    /// Forgets where requests would go, since they go nowhere.
    pub(super) fn clear(&mut self) {
        self.shares.clear();
        self.clusters.clear();
        self.session = None;
    }

    /// A rule with its references followed.
    pub(super) fn rule(&mut self, handling: &Handling) -> Result<Rule, Problem> {
        let action = match (&handling.redirect, handling.direct_response()) {
            (Some(redirect), _) => Action::Redirect(Redirect::clone(redirect)),
            (None, Some(answer)) => direct_response::action(self.scope, self.rule.0.route(), answer)?,
            (None, None) => self.forward(handling)?,
        };
        let fields = &handling.fields;
        let mut filters = Filters {
            request_headers: fields.request_headers.clone(),
            response_headers: fields.response_headers.clone(),
            rewrite: fields.rewrite.as_deref().cloned().unwrap_or_default(),
            mirrors: Vec::with_capacity(fields.mirrors.len()),
            cors: fields.cors.as_deref().cloned(),
        };
        for mirror in &fields.mirrors {
            let owner = &mirror.owner;
            // A mirror that does not resolve takes nothing from the request itself.
            match self.follow(Referrer::route(owner), &mirror.backend, &mirror.field, self.copies()) {
                Ok(followed) => {
                    let asked = followed.asked();
                    let cluster = asked.cluster_name().into();
                    filters.mirrors.push(Mirror { cluster, fraction: mirror.fraction });
                    self.clusters.push(ClusterId::from(&asked));
                }
                // One that is handed down is told to the route that does so.
                Err(problem) if owner == self.rule.0.route() => {
                    self.unresolved.push(Problem { severity: Severity::Ignored, ..problem });
                }
                Err(_) => {}
            }
        }
        let mut by_policy = handling.by_policy.clone();
        by_policy.hash = std::mem::take(&mut self.hash);
        let is_backend = |cluster: &ClusterId| match cluster {
            ClusterId::To(to) => to.port().is_none(),
            ClusterId::Http2(_) => true,
            _ => false,
        };
        if handling.by_policy.auto_host_rewrite && !self.clusters.is_empty() && !self.clusters.iter().any(is_backend) {
            let message = "autoHostRewrite of a policy does nothing, since no endpoint of a Service has a hostname of its own; \
                           name one by a URLRewrite filter, or use a Backend";
            let field = format!("spec.rules[{}]", self.rule.1);
            self.warnings.push(Problem::new(Severity::Warning, Reason::UnsupportedValue, field, message));
        }
        self.clusters.extend(handling.slots.iter().flat_map(|slot| slot.asks.iter()).map(ClusterId::from));
        Ok(Rule {
            action,
            filters,
            timeouts: fields.timeouts.unwrap_or_default(),
            retry: fields.retry.as_deref().cloned(),
            session: fields.session.as_deref().cloned(),
            slots: handling.slots.clone(),
            by_policy,
        })
    }

    /// The mirrors that a delegating rule hands down: what is wrong with them is told to its route.
    pub(super) fn handed_down(&mut self, mirrors: &[MirrorSpec]) {
        for mirror in mirrors {
            let from = Referrer::route(self.rule.0.route());
            if let Err(problem) = self.follow(from, &mirror.backend, &mirror.field, self.copies()) {
                self.unresolved.push(Problem { severity: Severity::Ignored, ..problem });
            }
        }
    }

    fn forward(&mut self, handling: &Handling) -> Result<Action, Problem> {
        let shares: Vec<_> = handling.backends.iter().map(|backend| self.share(backend)).collect();
        let served = shares.iter().any(|share| share.weight > 0 && share.to.is_some());
        if !served {
            // A rule that a filter left without a backend is broken itself.
            return match self.shares.first() {
                Some(fault) => Err(fault.clone()),
                None => Ok(Rule::broken(self.kind()).action),
            };
        }
        let hashes = shares.iter().filter(|share| share.weight > 0);
        let mut hashes =
            hashes.filter_map(|share| Some(&share.to.as_ref()?.reach.hash)).filter(|hash| !hash.is_empty());
        self.hash = hashes.next().cloned().unwrap_or_default();
        if hashes.any(|other| *other != self.hash) {
            let message = "backends of the rule hash different parts of requests, and a request is hashed once: what the first \
                           one hashes counts; have their BackendConfigPolicies hash the same";
            let field = format!("spec.rules[{}].backendRefs", self.rule.1);
            self.warnings.push(Problem::new(Severity::Warning, Reason::UnsupportedValue, field, message));
        }
        Ok(Action::Forward(if handling.fields.session.is_some() && shares.len() > 1 {
            self.session(&shares, handling)?
        } else {
            shares.iter().filter(|share| share.weight > 0).map(|share| self.weighted(share)).collect()
        }))
    }

    fn share<'d>(&mut self, backend: &'d BackendSpec) -> Share<'d> {
        let broken = Share { weight: backend.weight, to: None, changes: None };
        let from = match &backend.policy {
            None => Referrer::route(self.rule.0.route()),
            Some(policy) => {
                Referrer { group: PORTCULLIS_GROUP, kind: "DelegationPolicy", namespace: &policy.namespace }
            }
        };
        let followed = self.follow(from, &backend.backend, &backend.field, Sent::Requests { in_grpc: self.in_grpc() });
        match (followed, &backend.changes) {
            (Ok(to), Ok(changes)) => Share { to: Some(to), changes: Some(changes), ..broken },
            (Ok(_), Err(fault)) => {
                self.shares.push(self.conceal(backend, fault.clone()));
                broken
            }
            (Err(unresolved), changes) => {
                let conceal = |problem| self.conceal(backend, problem);
                let (unresolved, fault) = (conceal(unresolved), changes.as_ref().err().cloned().map(conceal));
                self.unresolved.push(unresolved);
                self.shares.extend(fault);
                broken
            }
        }
    }

    /// What the owner of the route may know: nothing of a policy of another namespace, nor of what it refers to.
    fn conceal(&self, backend: &BackendSpec, problem: Problem) -> Problem {
        let Some(policy) = &backend.policy else { return problem };
        if policy.namespace == *self.rule.0.route().namespace() {
            return problem;
        }
        let message = "a backend that this rule is given by a parent is not usable; name backendRefs of its own, or ask \
                       the owner of the parent";
        Problem::new(problem.severity, problem.reason, format!("spec.rules[{}]", self.rule.1), message)
    }

    fn weighted(&mut self, share: &Share<'_>) -> WeightedBackend {
        let changes = share.changes.cloned().unwrap_or_default();
        let cluster = share.to.as_ref().map(Followed::cluster);
        let name = cluster.as_ref().map(|cluster| cluster.name().into());
        self.clusters.extend(cluster);
        WeightedBackend {
            weight: share.weight,
            cluster: name,
            request_headers: changes.request_headers,
            response_headers: changes.response_headers,
            hostname: changes.hostname,
        }
    }

    /// A session holds across backends, one at weight zero included: they become one cluster with a weighted locality
    /// each, since Envoy looks for a session's endpoint only after it chose the cluster.
    fn session(&mut self, shares: &[Share<'_>], handling: &Handling) -> Result<Vec<WeightedBackend>, Problem> {
        let usable = || shares.iter().filter(|share| share.to.is_some());
        let reached = || shares.iter().filter_map(|share| share.to.as_ref());
        let field = handling.backends.first().map(|backend| backend.field.trim_end_matches("[0]")).unwrap_or_default();
        let refuse = |message: &str| Problem::new(Severity::Replaced, Reason::UnsupportedValue, field, message);
        if usable().any(|share| share.changes.is_some_and(|changes| !changes.is_empty())) {
            return Err(refuse("a session cannot hold across backends with filters of their own; remove either"));
        }
        let protocol_of = |to: &Followed| to.reach.protocol.clone().unwrap_or_default();
        let protocol = reached().next().map(protocol_of).unwrap_or_default();
        if reached().any(|to| to.reach.by_name) {
            let message = "a session cannot hold across backends of which one is found by its name, since nobody knows its \
                           endpoints but the proxy; name its addresses, or have one backend alone";
            return Err(refuse(message));
        }
        if reached().any(|to| to.reach.is_configured) {
            let message = "a session cannot hold across backends of which a BackendConfigPolicy or BackendTLSPolicy says how to connect to \
                           one, since all share their connections; remove either, or have one backend alone";
            return Err(refuse(message));
        }
        if reached().any(|to| protocol_of(to) != protocol) {
            return Err(refuse("a session cannot hold across backends that speak different protocols"));
        }
        let to = Shares { protocol, shares: resolved(shares) };
        let id = ClusterId::Rule(self.rule.0.clone(), self.rule.1, NamedShares::new(to.clone()));
        let plain = |weight, cluster| WeightedBackend {
            weight,
            cluster,
            request_headers: HeaderModifier::default(),
            response_headers: HeaderModifier::default(),
            hostname: None,
        };
        let sum = |broken: bool| {
            shares.iter().filter(|share| share.to.is_none() == broken).map(|share| share.weight).sum::<u32>()
        };
        let mut backends = vec![plain(sum(false), Some(id.name().into()))];
        self.clusters.push(id);
        self.session = Some(to);
        if sum(true) > 0 {
            backends.push(plain(sum(true), None));
        }
        Ok(backends)
    }

    /// Follows a reference to a backend (Gateway API `HTTPBackendRef.backendRef`).
    fn follow(&mut self, from: Referrer<'_>, to: &BackendRef, field: &str, sent: Sent) -> Result<Followed, Problem> {
        let followed = reference::follow(self.scope, from, to, field, sent).inspect_err(|problem| {
            if problem.reason == Reason::InvalidBackendTLS {
                self.closed.extend(reference::destination_of(from, to));
            }
        })?;
        if let Some(warning) = &followed.reach.warning {
            self.warnings.push(Problem::new(Severity::Warning, Reason::UnsupportedProtocol, field, warning.clone()));
        }
        Ok(followed)
    }
}

/// The shares that resolve; those of one backend count as one.
fn resolved(written: &[Share<'_>]) -> Vec<(Destination, u32)> {
    let mut shares: Vec<(Destination, u32)> = Vec::new();
    for share in written {
        let Some(Followed { destination, .. }) = &share.to else { continue };
        match shares.iter_mut().find(|(known, _)| known == destination) {
            Some((_, weight)) => *weight += share.weight,
            None => shares.push((destination.clone(), share.weight)),
        }
    }
    shares
}
