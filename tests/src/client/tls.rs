//! TLS towards a listener.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Protocol;
use crate::certificates::{Certificate, KeyKind};

/// How to speak TLS.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The server name to ask for; none is sent if this is none.
    pub server_name: Option<String>,
    /// The only kind of certificate that the client can verify, any if none.
    pub key: Option<KeyKind>,
    /// The certificate to show if the server asks for one.
    pub certificate: Option<Certificate>,
    /// Whether no protocol is asked for, since the server that ends TLS does not know what is spoken.
    pub without_alpn: bool,
}

impl Tls {
    /// Asks for a server name, and shows nothing.
    pub fn to(server_name: &str) -> Self {
        Self { server_name: Some(server_name.to_owned()), ..Self::default() }
    }

    /// The handshake.
    pub(crate) async fn connect<S>(&self, stream: S, protocol: Protocol) -> Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let connector = TlsConnector::from(Arc::new(self.config(protocol)?));
        // A name is needed even where none is sent.
        let name = self.server_name.as_deref().unwrap_or("unnamed.invalid");
        let stream = connector
            .connect(ServerName::try_from(name.to_owned())?, stream)
            .await
            .with_context(|| format!("TLS handshake for {name}"))?;
        let agreed = stream.get_ref().1.alpn_protocol();
        let wanted = (!self.without_alpn).then(|| alpn(protocol));
        ensure!(
            agreed == wanted,
            "asked for {:?}, agreed on {:?}",
            wanted.map(String::from_utf8_lossy),
            agreed.map(String::from_utf8_lossy)
        );
        Ok(stream)
    }

    fn config(&self, protocol: Protocol) -> Result<ClientConfig> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = AnyCertificate { schemes: self.schemes(&provider), provider: Arc::clone(&provider) };
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match &self.certificate {
            None => config.with_no_client_auth(),
            Some(Certificate { key, der, .. }) => {
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
                let key = provider.key_provider.load_private_key(key)?;
                // Whose key it is, is for the server to find out.
                let shown = CertifiedKey::new(vec![CertificateDer::from(der.clone())], key);
                config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(shown)))
            }
        };
        config.alpn_protocols = if self.without_alpn { Vec::new() } else { vec![alpn(protocol).to_vec()] };
        config.enable_sni = self.server_name.is_some();
        Ok(config)
    }

    fn schemes(&self, provider: &CryptoProvider) -> Vec<SignatureScheme> {
        let all = provider.signature_verification_algorithms.supported_schemes();
        all.into_iter()
            .filter(|scheme| {
                let name = format!("{scheme:?}");
                match self.key {
                    None => true,
                    Some(KeyKind::Rsa) => name.starts_with("RSA"),
                    Some(KeyKind::Ecdsa) => name.starts_with("ECDSA"),
                }
            })
            .collect()
    }
}

fn alpn(protocol: Protocol) -> &'static [u8] {
    match protocol {
        Protocol::Http1 => b"http/1.1",
        Protocol::H2 => b"h2",
    }
}

/// The certificate that the server showed.
pub(super) fn peer_certificate<S>(stream: &TlsStream<S>) -> Option<Vec<u8>> {
    let certificates = stream.get_ref().1.peer_certificates()?;
    Some(certificates.first()?.to_vec())
}

/// Takes any certificate: which one was shown is for the test to judge.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
    schemes: Vec<SignatureScheme>,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}
