//! Certificates for listeners and backends, made when a test starts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, PKCS_RSA_SHA256, RsaKeySize,
};
use rustls::crypto::aws_lc_rs;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::Deserialize;

/// The kind of a private key.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum KeyKind {
    /// P-256.
    #[default]
    Ecdsa,
    /// 2048 bits.
    Rsa,
}

/// A self-signed certificate with its key, as a Secret of type `kubernetes.io/tls` holds them.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate in PEM.
    pub certificate: String,
    /// The private key in PEM (PKCS #8).
    pub key: String,
    /// The certificate as it travels in a handshake.
    pub der: Vec<u8>,
}

impl Certificate {
    /// The certificate, with the key of another one.
    #[must_use]
    pub fn with_key_of(&self, other: &Self) -> Self {
        Self { key: other.key.clone(), ..self.clone() }
    }

    /// How a server shows it; `clients` are those whose certificate it demands.
    pub fn server(&self, clients: Option<&Self>) -> Result<ServerConfig> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
        let config = match clients {
            None => config.with_no_client_auth(),
            Some(clients) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from(clients.der.clone()))?;
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
                config.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())?;
        Ok(config.with_single_cert(vec![CertificateDer::from(self.der.clone())], key)?)
    }

    /// A new certificate for `names`.
    pub fn new(names: &[String], kind: KeyKind) -> Result<Self> {
        let key = match kind {
            KeyKind::Ecdsa => KeyPair::generate()?,
            KeyKind::Rsa => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?,
        };
        let certificate = CertificateParams::new(names)?.self_signed(&key)?;
        Ok(Self { certificate: certificate.pem(), key: key.serialize_pem(), der: certificate.der().to_vec() })
    }
}

/// An authority that issues certificates. One that takes the place of another has another name, as authorities have: of two of one
/// name a client tries only the first.
#[derive(Debug)]
pub struct Authority {
    /// Its own certificate in PEM.
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new authority of this name.
    pub fn new(name: &str) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { pem, issuer: Issuer::new(params, key) })
    }

    /// The certificates of so many others, in PEM.
    pub fn many(count: usize) -> Result<Vec<String>> {
        (0..count).map(|number| Ok(Self::new(&format!("authority {number}"))?.pem)).collect()
    }

    /// A new certificate for `names`.
    pub fn issue(&self, names: &[String]) -> Result<Certificate> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(names)?.signed_by(&key, &self.issuer)?;
        Ok(Certificate { certificate: certificate.pem(), key: key.serialize_pem(), der: certificate.der().to_vec() })
    }
}

/// Which certificate a Secret holds, by `namespace/name`.
#[derive(Clone, Debug, Default)]
pub struct Certificates(Arc<Mutex<HashMap<String, Certificate>>>);

impl Certificates {
    /// The certificate of Secret `secret`, made on first use.
    pub fn get_or_make(&self, secret: &str, names: &[String], kind: KeyKind) -> Result<Certificate> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(certificate) = known.get(secret) {
            return Ok(certificate.clone());
        }
        let certificate = Certificate::new(names, kind)?;
        known.insert(secret.to_owned(), certificate.clone());
        Ok(certificate)
    }

    /// The name of the Secret that holds the certificate `der`.
    pub fn secret_of(&self, der: &[u8]) -> Option<String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().find(|(_, certificate)| certificate.der == der)?;
        Some(found.0.clone())
    }
}
