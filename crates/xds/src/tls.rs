//! TLS: a certificate that can change while connections last.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// The certificate of the server. Clones are handles to the same certificate.
///
/// A change is seen by the next handshake; a connection that stands is not touched. Before the first one every
/// handshake fails.
#[derive(Clone, Default)]
pub struct Certificate(Arc<RwLock<Option<Arc<CertifiedKey>>>>);

/// Why a certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The chain has no certificate in PEM.
    #[error("there is no certificate in PEM")]
    NoCertificate,
    /// There is no private key in PEM. The error does not contain what there is.
    #[error("there is no private key in PEM")]
    NoKey,
    /// The key is of a kind that cannot sign, or belongs to another certificate.
    #[error("the certificate and its key cannot be used: {0}")]
    Unusable(rustls::Error),
}

impl Certificate {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves `chain` with `key`, both in PEM, from the next handshake on. On an error what is served stays.
    pub fn set(&self, chain: &[u8], key: &[u8]) -> Result<(), CertificateError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or(CertificateError::NoCertificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| CertificateError::NoKey)?;
        let certified =
            CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).map_err(CertificateError::Unusable)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(certified));
        Ok(())
    }

    /// Whether there is one.
    pub fn is_set(&self) -> bool {
        self.current().is_some()
    }

    fn current(&self) -> Option<Arc<CertifiedKey>> {
        // A value is put there whole, so a panic of another holder leaves nothing half done.
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// TLS 1.2 and 1.3 with this certificate, HTTP/2 only.
    pub(crate) fn server_config(&self) -> Arc<ServerConfig> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has what the protocol's versions need")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(self.clone()));
        config.alpn_protocols = vec![b"h2".to_vec()];
        // A client that comes back shall see the certificate of now. Connections last, so little is saved by a ticket.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Arc::new(config)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current()
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("is_set", &self.is_set()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["xds".to_owned()]).expect("a certificate");
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn what_cannot_be_served_changes_nothing() {
        let ((chain, key), (_, other)) = (made(), made());
        let certificate = Certificate::new();
        assert!(matches!(certificate.set(b"", key.as_bytes()), Err(CertificateError::NoCertificate)));
        assert!(!certificate.is_set());
        certificate.set(chain.as_bytes(), key.as_bytes()).expect("a pair");
        let before = certificate.current().expect("it was set");
        assert!(matches!(certificate.set(chain.as_bytes(), b"nothing"), Err(CertificateError::NoKey)));
        let mismatched = certificate.set(chain.as_bytes(), other.as_bytes());
        assert!(matches!(mismatched, Err(CertificateError::Unusable(_))), "{mismatched:?}");
        assert!(Arc::ptr_eq(&before, &certificate.current().expect("it stays")));
    }
}
