//! Certificates that listeners present.

use std::sync::Arc;

use engine::{Lookup, Scope};
use ir::{NsName, listener::TlsSecret};

use crate::{tables::input::Secrets, validate};

tables! {
    /// The certificate in a Secret, or why there is none that Envoy would take.
    Certificate: NsName => Result<TlsSecret, String>;
}

impl Lookup for Certificate {
    fn compute(scope: &Scope<'_>, key: &NsName) -> Option<Self::Value> {
        let secret = scope.get::<Secrets>(key)?;
        let entry = |name: &str| {
            let bytes = secret.data.get(name).filter(|bytes| !bytes.is_empty());
            bytes.ok_or_else(|| format!("Secret {key} has no data {name:?}: store the PEM there"))
        };
        Some(entry("tls.crt").and_then(|chain| {
            let key_pem = entry("tls.key")?;
            let certificate =
                validate::tls::check(chain, key_pem).map_err(|invalid| format!("Secret {key}: {invalid}"))?;
            Ok(TlsSecret {
                name: TlsSecret::resource_name(key).into(),
                chain: certificate.chain_pem.into_bytes().into(),
                key: certificate.key_pem.into_bytes().into(),
            })
        }))
    }
}

tables! {
    /// Whether a Secret holds a usable certificate; a rotation changes nothing here.
    CertificateState: NsName => Result<(), Arc<str>>;
}

impl Lookup for CertificateState {
    fn compute(scope: &Scope<'_>, key: &NsName) -> Option<Self::Value> {
        let certificate = scope.get::<Certificate>(key)?;
        Some(certificate.as_ref().as_ref().map(|_| ()).map_err(|why| why.as_str().into()))
    }
}
