//! Makes keys and certificates, and reads what matters of them.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _,
};
use x509_parser::extensions::GeneralName;
use x509_parser::pem::parse_x509_pem;
use x509_parser::time::ASN1Time;

/// Certificates are valid from a little before they are made, for clocks that are behind.
const BACKDATED: Duration = Duration::from_hours(1);

/// A certificate with its key, both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Why there is no such certificate.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// It cannot be made.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// It cannot be read.
    #[error("cannot read {0}")]
    Read(&'static str),
}

/// A new CA (ECDSA P-256) that may sign certificates of servers and nothing else.
pub(super) fn ca(now: SystemTime, lifetime: Duration) -> Result<Pair, IssueError> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    valid(&mut params, now, now + lifetime);
    // A name of its own, so that a chain is never tried with the key of another.
    let id = params.key_identifier(&key).iter().take(8).fold(0, |id: u64, byte| (id << 8) | u64::from(*byte));
    params.distinguished_name = named(&format!("Portcullis xDS {id:016x}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let certificate = params.self_signed(&key)?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// A new serving certificate for `names`, signed by `ca` and not valid longer than it.
pub(super) fn serving(ca: &Pair, names: &[String], now: SystemTime, lifetime: Duration) -> Result<Pair, IssueError> {
    let until = CertificateInfo::of(&ca.certificate)?.not_after.min(now + lifetime);
    let issuer = Issuer::from_ca_cert_pem(&ca.certificate, KeyPair::from_pem(&ca.key)?)?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names)?;
    valid(&mut params, now, until);
    params.distinguished_name = named("Portcullis xDS");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn valid(params: &mut CertificateParams, now: SystemTime, until: SystemTime) {
    params.not_before = now.checked_sub(BACKDATED).unwrap_or(now).into();
    params.not_after = until.into();
}

fn named(name: &str) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

/// What matters of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CertificateInfo {
    pub(super) not_before: SystemTime,
    pub(super) not_after: SystemTime,
    /// The DNS names, sorted.
    pub(super) names: Vec<String>,
    subject: Vec<u8>,
    issuer: Vec<u8>,
    public_key: Vec<u8>,
}

impl CertificateInfo {
    /// Reads a certificate in PEM.
    pub(super) fn of(pem: &str) -> Result<Self, IssueError> {
        let unreadable = || IssueError::Read("a certificate");
        let (_, block) = parse_x509_pem(pem.as_bytes()).map_err(|_| unreadable())?;
        let certificate = block.parse_x509().map_err(|_| unreadable())?;
        let alternative = certificate.subject_alternative_name().map_err(|_| unreadable())?;
        let mut names: Vec<_> = alternative
            .into_iter()
            .flat_map(|extension| &extension.value.general_names)
            .filter_map(|name| if let GeneralName::DNSName(name) = name { Some((*name).to_owned()) } else { None })
            .collect();
        names.sort_unstable();
        let validity = certificate.validity();
        Ok(Self {
            not_before: time(validity.not_before).ok_or_else(unreadable)?,
            not_after: time(validity.not_after).ok_or_else(unreadable)?,
            names,
            subject: certificate.subject().as_raw().to_vec(),
            issuer: certificate.issuer().as_raw().to_vec(),
            public_key: certificate.public_key().subject_public_key.data.to_vec(),
        })
    }

    pub(super) fn valid_at(&self, now: SystemTime) -> bool {
        self.not_before <= now && now < self.not_after
    }

    /// Whether this CA signed it, by name: names are made to differ.
    pub(super) fn issued_by(&self, ca: &Self) -> bool {
        self.issuer == ca.subject
    }
}

/// Whether key and certificate belong together.
pub(super) fn check(pair: &Pair) -> Result<CertificateInfo, IssueError> {
    let info = CertificateInfo::of(&pair.certificate)?;
    let key = KeyPair::from_pem(&pair.key).map_err(|_| IssueError::Read("a private key"))?;
    if key.der_bytes() == info.public_key { Ok(info) } else { Err(IssueError::Read("the key of this certificate")) }
}

fn time(time: ASN1Time) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(time.timestamp().try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    #[test]
    fn a_certificate_says_for_whom_and_how_long_it_is_and_who_signed_it() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
        let (ca, other) = (super::ca(now, 10 * DAY).expect("made"), super::ca(now, DAY).expect("made"));
        let names = ["b.example".to_owned(), "a.example".to_owned()];
        let serving = super::serving(&ca, &names, now, 30 * DAY).expect("signed");
        let info = check(&serving).expect("a pair");
        assert_eq!(info.names, ["a.example", "b.example"]);
        assert_eq!((info.not_before, info.not_after), (now - BACKDATED, now + 10 * DAY), "no longer than its CA");
        assert!(info.issued_by(&check(&ca).expect("a pair")));
        assert!(!info.issued_by(&check(&other).expect("a pair")));
        check(&Pair { key: other.key, ..ca }).expect_err("the key of another");
    }
}
