//! Certificates that a listener serves, as they come out of a Secret.
//!
//! An SDS update with material that Envoy cannot load is refused by it, and the listener would wait for a certificate
//! that never comes. So a chain and its key are parsed here, compared, and written anew: what is sent are the bytes
//! that were judged, without whatever else the Secret's text held.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use base64::Engine as _;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension, X509Extension};
use x509_parser::oid_registry::OID_X509_EXT_SUBJECT_ALT_NAME;
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::Invalid;

mod der;

/// Name under which a Secret of type `kubernetes.io/tls` keeps its chain; messages name the part by it.
const CHAIN: &str = "tls.crt";

/// Name under which a Secret of type `kubernetes.io/tls` keeps its key.
const KEY: &str = "tls.key";

/// Largest chain or key that is looked at, in bytes; a Secret holds no more.
const MAX_BYTES: usize = 1 << 20;

/// Largest chain that is served, in bytes of DER. It is what clients of OpenSSL take unless told otherwise
/// (`SSL_CTX_set_max_cert_list`); a longer one is a handshake that hardly any client ends.
const MAX_CHAIN: usize = 100 * 1024;

/// Longest chain that is served without a warning. It is what OpenSSL wants and mbed TLS verifies at most: a leaf, eight that
/// issued each other, and a root. Each handshake sends all of it.
pub const LONG_CHAIN: usize = 10;

/// Smallest RSA key that Envoy loads, in bits.
const MIN_RSA_BITS: usize = 2048;

/// OID of the TLS feature extension (RFC 7633), and its value in a certificate that must be stapled.
const TLS_FEATURE: (&str, &[u8]) = ("1.3.6.1.5.5.7.1.24", &[0x30, 0x03, 0x02, 0x01, 0x05]);

/// What kind of key a certificate has. One listener may serve a certificate of each for one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// RSA, 2048 to 8192 bits.
    Rsa,
    /// ECDSA on P-256, P-384 or P-521.
    Ecdsa,
}

/// A chain and its key that Envoy loads. Not printed by `Debug`: the key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Certificate {
    /// The chain, leaf first, in PEM, with nothing between the blocks.
    pub chain_pem: String,
    /// How many certificates it has, at least one.
    pub length: usize,
    /// The private key, in PEM. Secret: it belongs into SDS and nowhere else.
    pub key_pem: String,
    /// What kind of key it is.
    pub algorithm: Algorithm,
    /// The DNS names of the leaf's subject alternative names, in lower case, sorted; may be empty.
    pub dns_names: Vec<String>,
    /// The second since 1970 before which the leaf is not valid.
    pub not_before: i64,
    /// The second since 1970 after which the leaf is not valid. Envoy serves it nevertheless.
    pub not_after: i64,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("chain_pem", &self.chain_pem)
            .field("length", &self.length)
            .field("key_pem", &"[redacted]")
            .field("algorithm", &self.algorithm)
            .field("dns_names", &self.dns_names)
            .field("not_before", &self.not_before)
            .field("not_after", &self.not_after)
            .finish()
    }
}

/// Accepts a PEM chain, leaf first, and the PEM key of its leaf.
///
/// An expired certificate passes, since Envoy serves it and clients tell; see [`Certificate::not_after`].
pub fn check(chain: &[u8], key: &[u8]) -> Result<Certificate, Invalid> {
    let chain = certificates(chain)?;
    let Some(leaf) = chain.first() else {
        return Err(Invalid::new(
            CHAIN,
            "it has no PEM block CERTIFICATE",
            "store the certificate in PEM, the leaf first",
        ));
    };
    let size: usize = chain.iter().map(|der| der.len()).sum();
    if size > MAX_CHAIN {
        return Err(Invalid::new(
            CHAIN,
            format!("its {} certificates have {size} bytes, and clients take at most {MAX_CHAIN}", chain.len()),
            "store the leaf and those that issued it, and no bundle of roots",
        ));
    }
    for (at, der) in chain.iter().enumerate() {
        parse(der, at)?;
    }
    let leaf = parse(leaf, 0)?;
    let algorithm = algorithm(leaf.public_key())?;
    key_usage(&leaf, algorithm)?;
    stapling(&leaf)?;
    named(&leaf)?;
    let key = private_key(key)?;
    let signing = any_supported_type(&key).map_err(|_| {
        Invalid::new(
            KEY,
            "its key is broken or of an unknown kind",
            "store an RSA or ECDSA key in PEM (PKCS#8, PKCS#1 or SEC1)",
        )
    })?;
    if signing.public_key().as_deref() != Some(leaf.public_key().raw) {
        return Err(Invalid::new(
            KEY,
            "the key does not fit the first certificate of tls.crt",
            "store the key that the certificate was issued for, and the leaf first in the chain",
        ));
    }
    Ok(Certificate {
        chain_pem: chain.iter().map(|der| pem("CERTIFICATE", der)).collect(),
        length: chain.len(),
        key_pem: match &key {
            PrivateKeyDer::Pkcs1(der) => pem("RSA PRIVATE KEY", der.secret_pkcs1_der()),
            PrivateKeyDer::Sec1(der) => pem("EC PRIVATE KEY", der.secret_sec1_der()),
            _ => pem("PRIVATE KEY", key.secret_der()),
        },
        algorithm,
        dns_names: dns_names(&leaf)?,
        not_before: leaf.validity().not_before.timestamp(),
        not_after: leaf.validity().not_after.timestamp(),
    })
}

/// How many certificates authorities may have that one backend is judged by, and how many bytes of PEM: each cluster of each
/// proxy has a copy of them. What systems come with has 150, in 230 KiB.
pub const MOST_AUTHORITIES: (usize, usize) = (256, 256 << 10);

/// Certificates of authorities, each once, in the order in which they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Authorities(Vec<Authority>);

/// The certificate of an authority.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Authority {
    pem: String,
    /// Its subject, as people read it.
    subject: String,
    /// Its public key, with the algorithm, in DER.
    key: Box<[u8]>,
}

impl Authorities {
    /// The PEM of all, without what stands between its blocks.
    pub fn pem(&self) -> String {
        self.0.iter().map(|authority| &*authority.pem).collect()
    }

    /// A subject that several of them have, with different keys. Envoy tells these apart by the key identifier that a certificate
    /// names, and takes the first one if it names none.
    pub fn namesakes(&self) -> Option<&str> {
        let mut keys: HashMap<&str, &[u8]> = HashMap::new();
        let mut all = self.0.iter().map(|authority| (&*authority.subject, &*authority.key));
        all.find(|(subject, key)| keys.entry(*subject).or_insert(*key) != key).map(|(subject, _)| subject)
    }

    /// Adds those of `others` that are not among these.
    ///
    /// # Errors
    /// If there are too many then. Nothing is added.
    pub fn extend(&mut self, others: &Self) -> Result<(), Invalid> {
        let new = || others.0.iter().filter(|other| !self.0.contains(other));
        let length =
            |all: &mut dyn Iterator<Item = &Authority>| all.map(|authority| authority.pem.len()).sum::<usize>();
        let (count, bytes) = (self.0.len() + new().count(), length(&mut self.0.iter()) + length(&mut new()));
        bounded_authorities(count, bytes)?;
        let new: Vec<_> = new().cloned().collect();
        self.0.extend(new);
        Ok(())
    }
}

fn bounded_authorities(count: usize, bytes: usize) -> Result<(), Invalid> {
    let (most, most_bytes) = MOST_AUTHORITIES;
    if count <= most && bytes <= most_bytes {
        return Ok(());
    }
    let message =
        format!("{count} certificates in {bytes} bytes of PEM are too many: each backend of each proxy has a copy");
    Err(Invalid::new(
        "ca.crt",
        message,
        format!("store those alone that are to be trusted: at most {most}, in {most_bytes} bytes"),
    ))
}

/// Accepts the PEM of authorities, one at least, and nothing else: what would be left out, such as a list of what is revoked,
/// is meant to protect, and a private key is not for those who read this.
pub fn authorities(text: &[u8]) -> Result<Authorities, Invalid> {
    let refuse = |why: &str| Invalid::new("ca.crt", why, "store certificates of authorities in PEM");
    let (_, most_bytes) = MOST_AUTHORITIES;
    if text.len() > most_bytes {
        let message = format!("it has {} bytes, and each backend of each proxy has a copy", text.len());
        return Err(Invalid::new("ca.crt", message, format!("store {most_bytes} at most")));
    }
    if let Some(label) = other_block(text) {
        let message = format!("it has a PEM block {label}, and only certificates are read");
        return Err(Invalid::new("ca.crt", message, "remove the block"));
    }
    let all = certificates(text).map_err(|_| refuse("it is empty, or its PEM is broken"))?;
    if all.is_empty() {
        return Err(refuse("it has no PEM block CERTIFICATE"));
    }
    let mut read = Vec::with_capacity(all.len());
    let mut seen = HashSet::new();
    for (at, der) in all.iter().enumerate() {
        let parsed = parse(der, at).map_err(|_| refuse(&format!("certificate {} is none", at + 1)))?;
        if seen.insert(der) {
            let (subject, key) = (parsed.subject().to_string(), parsed.public_key().raw.into());
            read.push(Authority { pem: pem("CERTIFICATE", der), subject, key });
        }
    }
    bounded_authorities(read.len(), read.iter().map(|authority| authority.pem.len()).sum())?;
    Ok(Authorities(read))
}

/// The label of the first PEM block that is no certificate.
fn other_block(text: &[u8]) -> Option<String> {
    let lines = text.split(|byte| matches!(byte, b'\n' | b'\r'));
    let mut labels = lines.filter_map(|line| line.trim_ascii().strip_prefix(b"-----BEGIN ")?.strip_suffix(b"-----"));
    let other = labels.find(|label| *label != b"CERTIFICATE")?;
    let known = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b' ';
    Some(other.iter().filter(|byte| known(byte)).take(32).map(|byte| char::from(*byte)).collect())
}

fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, Invalid> {
    bounded(text, CHAIN)?;
    CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>().map_err(|_| {
        Invalid::new(CHAIN, "its PEM is broken", "store whole blocks from BEGIN CERTIFICATE to END CERTIFICATE")
    })
}

fn private_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, Invalid> {
    bounded(text, KEY)?;
    let has = |word: &[u8]| text.windows(word.len()).any(|window| window == word);
    if has(b"BEGIN ENCRYPTED PRIVATE KEY") || has(b"Proc-Type: 4,ENCRYPTED") {
        return Err(Invalid::new(KEY, "its key is encrypted", "store it decrypted; the Secret protects it"));
    }
    let key = PrivateKeyDer::from_pem_slice(text).map_err(|_| {
        Invalid::new(
            KEY,
            "it has no whole PEM block with a private key",
            "store the key in PEM (PKCS#8, PKCS#1 or SEC1)",
        )
    })?;
    let strict = match &key {
        PrivateKeyDer::Pkcs1(der) => der::is_pkcs1(der.secret_pkcs1_der()),
        PrivateKeyDer::Sec1(der) => der::is_sec1(der.secret_sec1_der()),
        PrivateKeyDer::Pkcs8(der) => der::is_pkcs8(der.secret_pkcs8_der()),
        _ => false,
    };
    if !strict {
        return Err(Invalid::new(
            KEY,
            "its key is broken, or in a form that Envoy does not read",
            "convert it with openssl pkcs8 -topk8 -nocrypt",
        ));
    }
    Ok(key)
}

fn bounded(text: &[u8], part: &str) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::new(part, "it is empty", "store the certificate and its key in PEM"));
    }
    if text.len() > MAX_BYTES {
        return Err(Invalid::new(part, format!("it is larger than {MAX_BYTES} bytes"), "store the served chain only"));
    }
    Ok(())
}

/// Parses the certificate at place `at` of the chain.
fn parse<'d>(der: &'d CertificateDer<'_>, at: usize) -> Result<X509Certificate<'d>, Invalid> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) if der::is_certificate(der) => Ok(certificate),
        _ => Err(Invalid::new(
            CHAIN,
            format!("certificate {} of the chain is not a certificate", at + 1),
            "remove or replace it",
        )),
    }
}

/// The kind of the leaf's key, if Envoy serves with it.
fn algorithm(key: &SubjectPublicKeyInfo<'_>) -> Result<Algorithm, Invalid> {
    let refuse = |why: String| {
        Err(Invalid::new(CHAIN, why, "issue it for an RSA key of 2048 bits or more, or an ECDSA key on P-256"))
    };
    match key.algorithm.algorithm.to_id_string().as_str() {
        "1.2.840.113549.1.1.1" => {
            let Ok(PublicKey::RSA(rsa)) = key.parsed() else {
                return refuse("the RSA key of the certificate is broken".to_owned());
            };
            let bits = bits(rsa.modulus);
            if bits < MIN_RSA_BITS {
                return refuse(format!(
                    "the RSA key of the certificate has {bits} bits, Envoy refuses less than {MIN_RSA_BITS}"
                ));
            }
            Ok(Algorithm::Rsa)
        }
        "1.2.840.10045.2.1" => {
            let curve = key.algorithm.parameters.as_ref().and_then(|p| p.as_oid().ok()).map(|oid| oid.to_id_string());
            match curve.as_deref() {
                Some("1.2.840.10045.3.1.7" | "1.3.132.0.34" | "1.3.132.0.35") => Ok(Algorithm::Ecdsa),
                _ => refuse("the ECDSA key of the certificate is not on P-256, P-384 or P-521".to_owned()),
            }
        }
        "1.3.101.112" => refuse("the certificate has an Ed25519 key, which browsers do not take".to_owned()),
        other => refuse(format!("the certificate has a key of kind {other}, which Envoy does not serve")),
    }
}

/// Bits of an unsigned big-endian integer.
fn bits(integer: &[u8]) -> usize {
    let zeros: usize = integer.iter().take_while(|&&byte| byte == 0).count();
    integer.get(zeros).map_or(0, |first| (integer.len() - zeros) * 8 - first.leading_zeros() as usize)
}

/// Envoy refuses an ECDSA certificate whose key usage does not allow to sign a handshake.
fn key_usage(leaf: &X509Certificate<'_>, algorithm: Algorithm) -> Result<(), Invalid> {
    let refuse = |why: &str| Err(Invalid::new(CHAIN, why, "issue the certificate with key usage digitalSignature"));
    match leaf.key_usage() {
        Ok(Some(usage)) if algorithm == Algorithm::Ecdsa && !usage.value.digital_signature() => {
            refuse("the key usage of the certificate lacks digitalSignature")
        }
        Ok(_) => Ok(()),
        Err(_) => refuse("the certificate has two key usages"),
    }
}

/// Envoy refuses a certificate that must be stapled without an OCSP response, which no Secret holds.
fn stapling(leaf: &X509Certificate<'_>) -> Result<(), Invalid> {
    let must = leaf
        .extensions()
        .iter()
        .any(|extension| extension.oid.to_id_string() == TLS_FEATURE.0 && extension.value == TLS_FEATURE.1);
    if must {
        return Err(Invalid::new(
            CHAIN,
            "the certificate demands OCSP stapling, for which there is no response",
            "issue it without the must-staple extension",
        ));
    }
    Ok(())
}

/// Envoy refuses a certificate without any name that it could select it by.
fn named(leaf: &X509Certificate<'_>) -> Result<(), Invalid> {
    let common = leaf.subject().iter_common_name().any(|name| !name.attr_value().data.is_empty());
    let alternative = leaf.subject_alternative_name().ok().flatten().is_some_and(|names| {
        let usable = |name: &GeneralName<'_>| {
            matches!(name, GeneralName::DNSName(_) | GeneralName::IPAddress(_) | GeneralName::URI(_))
        };
        names.value.general_names.iter().any(usable)
    });
    if common || alternative {
        return Ok(());
    }
    Err(Invalid::new(
        CHAIN,
        "the certificate has neither a common name nor a subject alternative name for a host",
        "issue it for the DNS names that it serves",
    ))
}

fn dns_names(leaf: &X509Certificate<'_>) -> Result<Vec<String>, Invalid> {
    let broken = || Invalid::new(CHAIN, "the subject alternative names are broken", "issue the certificate anew");
    // The parser leaves out what it cannot read.
    let unread = |extension: &X509Extension<'_>| {
        extension.oid == OID_X509_EXT_SUBJECT_ALT_NAME
            && !matches!(extension.parsed_extension(), ParsedExtension::SubjectAlternativeName(_))
    };
    if leaf.extensions().iter().any(unread) {
        return Err(broken());
    }
    let names = leaf.subject_alternative_name().map_err(|_| broken())?;
    let mut names: Vec<String> = names
        .iter()
        .flat_map(|names| &names.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

fn pem(label: &str, der: &[u8]) -> String {
    let encoded = base64::engine::general_purpose::STANDARD.encode(der);
    let mut out = String::with_capacity(encoded.len() + encoded.len() / 64 + 64);
    out.push_str("-----BEGIN ");
    out.push_str(label);
    out.push_str("-----\n");
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, behind) = rest.split_at(rest.len().min(64));
        out.push_str(line);
        out.push('\n');
        rest = behind;
    }
    out.push_str("-----END ");
    out.push_str(label);
    out.push_str("-----\n");
    out
}

#[cfg(test)]
mod tests;
