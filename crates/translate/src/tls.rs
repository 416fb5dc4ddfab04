//! Certificates that listeners present.

use std::sync::Arc;

use api::references::CERTIFICATE;
use engine::{Lookup, Scope};
use ir::{NsName, listener::TlsSecret};

use crate::{internal, tables::input::Secrets};

tables! {
    /// The certificate in a Secret and what should be looked at in it, or why there is none that Envoy would take.
    Certificate: NsName => Result<(TlsSecret, Option<String>), String>;
}

impl Lookup for Certificate {
    fn compute(scope: &Scope<'_>, key: &NsName) -> Option<Self::Value> {
        let secret = scope.get::<Secrets>(key)?;
        let entry = |name: &str| {
            let bytes = secret.data.get(name).filter(|bytes| !bytes.is_empty());
            bytes.ok_or_else(|| format!("Secret {key} has no data {name:?}: store the PEM there"))
        };
        let [chain, key_pem] = CERTIFICATE;
        Some(entry(chain).and_then(|chain| {
            let key_pem = entry(key_pem)?;
            let certificate =
                validate::tls::check(chain, key_pem).map_err(|invalid| format!("Secret {key}: {invalid}"))?;
            let long = certificate.length > validate::tls::LONG_CHAIN;
            let long = long.then(|| too_long(key, certificate.length));
            let secret = TlsSecret {
                name: TlsSecret::resource_name(key).into(),
                chain: certificate.chain_pem.into_bytes().into(),
                key: certificate.key_pem.into_bytes().into(),
            };
            Ok((secret, long))
        }))
    }

    fn poisoned(scope: &Scope<'_>, key: &NsName, _: &engine::Fault) -> Option<Self::Value> {
        scope.get::<Secrets>(key)?;
        Some(Err(format!("Secret {key} cannot be used: {}", internal::WORDS)))
    }
}

fn too_long(key: &NsName, length: usize) -> String {
    format!(
        "Secret {key}: tls.crt has {length} certificates: each handshake sends all of them, and clients that take {} at most \
         refuse it; store the leaf and those that issued it alone",
        validate::tls::LONG_CHAIN
    )
}

tables! {
    /// Whether a Secret holds a usable certificate, and what should be looked at in it; a rotation changes nothing here.
    CertificateState: NsName => Result<Option<Arc<str>>, Arc<str>>;
}

impl Lookup for CertificateState {
    fn compute(scope: &Scope<'_>, key: &NsName) -> Option<Self::Value> {
        let certificate = scope.get::<Certificate>(key)?;
        let state = certificate.as_ref().as_ref();
        Some(state.map(|(_, long)| long.as_deref().map(Arc::from)).map_err(|why| why.as_str().into()))
    }
}
