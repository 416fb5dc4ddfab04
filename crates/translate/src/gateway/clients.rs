//! By whom certificates of clients are judged (Gateway API `FrontendTLSValidation`).

use api::{ObjectId, references::authorities_kind, shared::ObjectReference};
use engine::Scope;
use ir::{NsName, Reason};

use crate::{
    grant::{Referrer, permits},
    tables::{
        gateway::{Fault, Validation},
        listener::Clients,
        tls::{BundleId, BundleState},
    },
};

/// What is asked of clients on a port of a Gateway, with its references followed: those that lead to authorities count, and one must.
pub(super) fn clients(scope: &Scope<'_>, gateway: &NsName, asked: &Validation) -> Clients {
    let field = format!("{}.caCertificateRefs", asked.field);
    let objects: Vec<_> = asked.references.iter().map(|reference| object(scope, gateway, reference)).collect();
    let bundle = BundleId::of(objects.iter().flatten().cloned());
    let state = bundle.as_ref().and_then(|bundle| scope.get::<BundleState>(bundle));
    let of_bundle = state.as_ref().map_or(&[][..], |state| &state.faults);
    let fault = |object: &Result<ObjectId, Fault>| match object {
        Err(fault) => Some(fault.clone()),
        Ok(object) => {
            let (_, why) = of_bundle.iter().find(|(faulty, _)| faulty == object)?;
            Some(Fault::new(Reason::InvalidCACertificateRef, &**why))
        }
    };
    let faults = objects.iter().enumerate().filter_map(|(index, object)| Some((index, fault(object)?)));
    let faults: Vec<_> = faults.map(|(index, fault)| Fault { field: format!("{field}[{index}]"), ..fault }).collect();
    let authorities = bundle.filter(|_| state.as_ref().is_some_and(|state| state.any)).ok_or_else(|| {
        let message =
            "nothing leads to certificates of authorities, so that no client could be judged: see ResolvedRefs";
        Fault::at(Reason::NoValidCACertificate, &*field, message)
    });
    let warning = state.as_ref().and_then(|state| state.warning.clone());
    Clients {
        authorities,
        unresolved: together(&faults, &field),
        warning: warning.map(|warning| Fault::at(Reason::UnsupportedValue, &*field, &*warning)),
        mode: asked.mode,
    }
}

/// The object that a reference means, if it may be named there.
fn object(scope: &Scope<'_>, gateway: &NsName, reference: &ObjectReference) -> Result<ObjectId, Fault> {
    let ObjectReference { group, kind, name, namespace } = reference;
    let Some(known) = authorities_kind(group, kind) else {
        let group = if group.is_empty() { "core" } else { group };
        let message =
            format!("{kind} of group {group} has no certificates of authorities here; use a ConfigMap or a Secret");
        return Err(Fault::new(Reason::InvalidCACertificateKind, message));
    };
    let namespace = namespace.as_ref().filter(|namespace| !namespace.is_empty()).unwrap_or(&gateway.namespace);
    let (own, to) = (&gateway.namespace, NsName::new(namespace.clone(), name.clone()));
    if !permits(scope, Referrer::gateway_api("Gateway", own), ("", kind), &to) {
        let message = format!(
            "{kind} {to} is in another namespace and no ReferenceGrant there allows Gateways of {own} to use it; create one there, or \
             name a {kind} of this namespace"
        );
        return Err(Fault::new(Reason::RefNotPermitted, message));
    }
    Ok(ObjectId::new(known, namespace.clone(), name.clone()))
}

/// All of several faults, with the reason of the first.
fn together(faults: &[Fault], field: &str) -> Option<Fault> {
    let first = faults.first()?;
    if faults.len() == 1 {
        return Some(first.clone());
    }
    let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
    Some(Fault::at(first.reason, field, told.join("; ")))
}
