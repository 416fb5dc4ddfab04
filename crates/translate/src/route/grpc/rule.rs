//! Reading rules (Gateway API `GRPCRouteRule`).

use api::{
    grpc_route::{GrpcRouteMatch, GrpcRouteRule},
    http_route::{HttpBackendRef, HttpRouteFilter},
};
use ir::{
    Problem, RouteId,
    route::{Handling, RuleSpec, Unhandled},
};

use super::matches::read as read_match;
use crate::route::{
    backends,
    filters::{self, Level},
    matches, session,
};

/// Reads a rule of `owner` that stands at `field`.
pub(super) fn read(rule: &GrpcRouteRule, owner: &RouteId, field: &str) -> RuleSpec {
    claims(rule, handling(rule, owner, field).map_err(Unhandled::Invalid), field)
}

/// A rule with what it matches, and `handling`.
pub(super) fn claims(rule: &GrpcRouteRule, handling: Result<Handling, Unhandled>, field: &str) -> RuleSpec {
    let everything = [GrpcRouteMatch::default()];
    let written = if rule.matches.is_empty() { &everything[..] } else { &rule.matches };
    matches::claims(rule.name.as_ref(), written, |index, written| read_match(index, written, field), handling)
}

fn handling(rule: &GrpcRouteRule, owner: &RouteId, field: &str) -> Result<Handling, Problem> {
    let filters: Vec<_> = rule.filters.iter().map(HttpRouteFilter::from).collect();
    let backends: Vec<_> = rule.backend_refs.iter().map(HttpBackendRef::from).collect();
    let mut handling = filters::read(&filters, Level::Rule { prefixes_only: false, owner }, field)?;
    filters::answers_alone(&handling, &backends, field)?;
    backends::read(&backends, owner.kind, field, &mut handling)?;
    let session = rule.session_persistence.as_ref().map(|written| session::read(written, field));
    handling.fields.session = session.transpose()?.map(Box::new);
    Ok(handling)
}
