//! References of Gateways to Secrets with certificates: what they show to clients, and to backends.

use std::sync::Arc;

use api::shared::SecretObjectReference;
use engine::{Lookup, Scope};
use ir::{NsName, Reason};

use crate::{
    grant::{Referrer, permits},
    internal,
    tables::gateway::{ClientCertificate, Fault, GatewayRow},
    tls::CertificateState,
};

/// The Secret with a usable certificate, and what should be looked at in it. One that leads to none has this `reason`, if it may be
/// named at all.
pub(super) fn certificate(
    scope: &Scope<'_>,
    from: Referrer<'_>,
    reference: &SecretObjectReference,
    reason: Reason,
) -> Result<(NsName, Option<Arc<str>>), Fault> {
    let invalid = |message: String| Fault::new(reason, message);
    if !reference.group.is_empty() || &*reference.kind != "Secret" {
        let group = if reference.group.is_empty() { "core" } else { &reference.group };
        return Err(invalid(format!("{} of group {group} cannot hold a certificate; name a Secret", reference.kind)));
    }
    let namespace = reference.namespace.as_ref().filter(|namespace| !namespace.is_empty());
    let secret = NsName::new(namespace.unwrap_or(from.namespace).clone(), reference.name.clone());
    if !permits(scope, from, ("", "Secret"), &secret) {
        let message = format!(
            "Secret {secret} is in another namespace and no ReferenceGrant there allows {}s of {} to use it; \
             create one there, or name a Secret of this namespace",
            from.kind, from.namespace
        );
        return Err(Fault::new(Reason::RefNotPermitted, message));
    }
    match scope.get::<CertificateState>(&secret).as_deref() {
        Some(Ok(long)) => Ok((secret, long.clone())),
        Some(Err(why)) => Err(invalid(why.to_string())),
        None => Err(invalid(format!("Secret {secret} does not exist; create it with tls.crt and tls.key"))),
    }
}

impl Lookup for ClientCertificate {
    fn compute(scope: &Scope<'_>, gateway: &NsName) -> Option<Result<NsName, Fault>> {
        let model = scope.get::<GatewayRow>(gateway)?;
        let reference = model.client_certificate.as_ref()?;
        let from = Referrer::gateway_api("Gateway", &gateway.namespace);
        let found = certificate(scope, from, reference, Reason::InvalidClientCertificateRef);
        let at_field = |fault| Fault { field: "spec.tls.backend.clientCertificateRef".to_owned(), ..fault };
        Some(found.map(|(secret, _)| secret).map_err(at_field))
    }

    /// Nobody knows what to show, so nothing is sent where it would be.
    fn poisoned(_: &Scope<'_>, _: &NsName, _: &engine::Fault) -> Option<Result<NsName, Fault>> {
        Some(Err(internal::fault()))
    }
}
