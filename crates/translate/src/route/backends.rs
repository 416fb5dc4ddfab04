//! Reading references of rules to backends, and to the routes that they delegate to.

use api::{http_route::HttpBackendRef, shared::BackendRef};
use ir::{
    NsName, Problem, Reason, RouteKind, Severity,
    route::{BackendSpec, Changes, DelegateSpec, Handling},
};

use super::{
    at, backend_ref, fault,
    filters::{self, Level},
};
use crate::delegation::is_delegate;

/// Whether a reference means routes.
pub(super) fn delegates(written: &HttpBackendRef) -> bool {
    is_delegate(&written.backend_ref.group, &written.backend_ref.kind)
}

/// Reads those of the rule at `field` into what it does, of a route of this kind.
pub(super) fn read(
    list: &[HttpBackendRef],
    kind: RouteKind,
    field: &str,
    handling: &mut Handling,
) -> Result<(), Problem> {
    for (index, written) in list.iter().enumerate() {
        let field = format!("{field}.backendRefs[{index}]");
        if kind.delegates() && delegates(written) {
            handling.delegates.push(read_delegate(written, field)?);
        } else {
            handling.backends.push(read_backend(written, field)?);
        }
    }
    // Most rules have one of either, and keep it.
    handling.delegates.shrink_to_fit();
    handling.backends.shrink_to_fit();
    if !handling.delegates.is_empty() && !handling.backends.is_empty() {
        let message = "a rule either delegates to routes or has backends; make two rules of it";
        return Err(fault(Reason::UnsupportedValue, format_args!("{field}.backendRefs"), message));
    }
    let weights = handling.backends.iter().map(|backend| backend.weight);
    validate::number::total_weight(weights).map_err(at(format_args!("{field}.backendRefs")))?;
    Ok(())
}

fn read_delegate(written: &HttpBackendRef, field: String) -> Result<DelegateSpec, Problem> {
    if !written.filters.is_empty() {
        let message = "a reference to routes cannot have filters of its own; move them to the rule";
        return Err(fault(Reason::UnsupportedValue, format_args!("{field}.filters"), message));
    }
    Ok(DelegateSpec { field, reference: backend_ref(&written.backend_ref) })
}

fn read_backend(written: &HttpBackendRef, field: String) -> Result<BackendSpec, Problem> {
    let weight = validate::number::weight(written.weight.into()).map_err(at(format_args!("{field}.weight")))?;
    let changes = filters::read(&written.filters, Level::Backend, &field).map(|Handling { fields, .. }| Changes {
        request_headers: fields.request_headers,
        response_headers: fields.response_headers,
        hostname: fields.rewrite.and_then(|rewrite| rewrite.hostname),
    });
    Ok(BackendSpec { field, policy: None, backend: backend_ref(&written.backend_ref), weight, changes })
}

/// A backend that a policy gives to rules without any.
pub(crate) fn default_backend(written: BackendRef, policy: &NsName, index: usize) -> Result<BackendSpec, Problem> {
    let read = read_backend(&written.into(), format!("spec.defaultBackendRefs[{index}] of DelegationPolicy {policy}"))?;
    Ok(BackendSpec { policy: Some(policy.clone()), ..read })
}

/// What of them has no effect.
pub(super) fn ignored(list: &[HttpBackendRef], field: &str) -> Vec<Problem> {
    let weighted = list.iter().enumerate().filter(|(_, written)| delegates(written) && written.weight != 1);
    let problem = |(index, written): (usize, &HttpBackendRef)| {
        let message = format!("{} has no effect: routes are chosen by their matches; remove it", written.weight);
        let field = format!("{field}.backendRefs[{index}].weight");
        Problem::new(Severity::Ignored, Reason::UnsupportedValue, field, message)
    };
    weighted.map(problem).collect()
}
