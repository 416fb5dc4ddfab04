//! The contents of the Secret in which the CA is kept.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use k8s_openapi::ByteString;

use crate::identity::issue::{self, CertificateInfo, IssueError, Pair};

/// All that is stored. Whatever is in it was read once, and keys belong to their certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaSecret {
    pub(super) signing: Pair,
    pub(super) info: CertificateInfo,
    pub(super) incoming: Option<Incoming>,
    pub(super) outgoing: Option<Outgoing>,
    serving: Option<Pair>,
    pub(super) serving_info: Option<CertificateInfo>,
}

/// A CA that is announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Incoming {
    pub(super) ca: Pair,
    pub(super) info: CertificateInfo,
    pub(super) since: SystemTime,
}

/// The certificate of a CA that signs no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub(super) certificate: String,
    pub(super) since: SystemTime,
}

/// Why a Secret does not hold a CA.
#[derive(Debug, thiserror::Error)]
pub enum CaSecretError {
    /// A key of the Secret is not there.
    #[error("it has no {0}")]
    Missing(&'static str),
    /// What is under a key of the Secret cannot be read. It is not shown, since it may be private.
    #[error("its {0} cannot be read")]
    Unreadable(&'static str),
    /// A certificate or its key cannot be read, or they do not belong together.
    #[error("its {0}: {1}")]
    Unusable(&'static str, IssueError),
}

const BUNDLE: &str = "ca.crt";
const SIGNING: (&str, &str) = ("signing.crt", "signing.key");
const INCOMING: (&str, &str) = ("incoming.crt", "incoming.key");
const INCOMING_SINCE: &str = "incoming-since";
const OUTGOING: &str = "outgoing.crt";
const OUTGOING_SINCE: &str = "outgoing-since";
const SERVING: (&str, &str) = ("tls.crt", "tls.key");

impl CaSecret {
    pub(super) fn new(signing: Pair) -> Result<Self, IssueError> {
        let info = issue::check(&signing)?;
        Ok(Self { signing, info, incoming: None, outgoing: None, serving: None, serving_info: None })
    }

    pub(super) fn announce(&mut self, ca: Pair, now: SystemTime) -> Result<(), IssueError> {
        let info = issue::check(&ca)?;
        self.incoming = Some(Incoming { ca, info, since: now });
        Ok(())
    }

    /// Waits that began later than now begin now.
    pub(super) fn restart(&mut self, now: SystemTime) {
        if let Some(incoming) = &mut self.incoming {
            incoming.since = incoming.since.min(now);
        }
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.since = outgoing.since.min(now);
        }
    }

    pub(super) fn promote(&mut self, now: SystemTime) {
        let Some(Incoming { ca, info, .. }) = self.incoming.take() else { return };
        let old = std::mem::replace(&mut self.signing, ca);
        self.info = info;
        self.outgoing = Some(Outgoing { certificate: old.certificate, since: now });
    }

    pub(super) fn serve(&mut self, serving: Pair) -> Result<(), IssueError> {
        self.serving_info = Some(issue::check(&serving)?);
        self.serving = Some(serving);
        Ok(())
    }

    /// The certificate that the server shows and its key, in PEM.
    pub fn serving(&self) -> Option<(&str, &str)> {
        self.serving.as_ref().map(|pair| (pair.certificate.as_str(), pair.key.as_str()))
    }

    /// The CA certificates that proxies shall trust, in PEM.
    pub fn bundle(&self) -> String {
        let incoming = self.incoming.as_ref().map(|incoming| incoming.ca.certificate.as_str());
        let outgoing = self.outgoing.as_ref().map(|outgoing| outgoing.certificate.as_str());
        let cas = [Some(self.signing.certificate.as_str()), incoming, outgoing];
        cas.into_iter().flatten().map(|certificate| certificate.trim_end().to_owned() + "\n").collect()
    }

    /// The data of the Secret that holds this.
    pub fn to_data(&self) -> BTreeMap<String, ByteString> {
        let mut data = BTreeMap::new();
        let mut put = |key: &str, value: String| drop(data.insert(key.to_owned(), ByteString(value.into_bytes())));
        let mut pair = |keys: (&str, &str), pair: &Pair| {
            put(keys.0, pair.certificate.clone());
            put(keys.1, pair.key.clone());
        };
        pair(SIGNING, &self.signing);
        if let Some(serving) = &self.serving {
            pair(SERVING, serving);
        }
        if let Some(incoming) = &self.incoming {
            pair(INCOMING, &incoming.ca);
            put(INCOMING_SINCE, seconds(incoming.since));
        }
        if let Some(outgoing) = &self.outgoing {
            put(OUTGOING, outgoing.certificate.clone());
            put(OUTGOING_SINCE, seconds(outgoing.since));
        }
        put(BUNDLE, self.bundle());
        data
    }

    /// What the data of a Secret holds.
    pub fn from_data(data: &BTreeMap<String, ByteString>) -> Result<Self, CaSecretError> {
        let text = |key: &'static str| match data.get(key) {
            None => Ok(None),
            Some(value) => match std::str::from_utf8(&value.0) {
                Ok(text) => Ok(Some(text.to_owned())),
                Err(_) => Err(CaSecretError::Unreadable(key)),
            },
        };
        let pair = |keys: (&'static str, &'static str)| match (text(keys.0)?, text(keys.1)?) {
            (None, _) => Ok(None),
            (Some(_), None) => Err(CaSecretError::Missing(keys.1)),
            (Some(certificate), Some(key)) => {
                let pair = Pair { certificate, key };
                let info = issue::check(&pair).map_err(|error| CaSecretError::Unusable(keys.0, error))?;
                Ok(Some((pair, info)))
            }
        };
        let since = |key: &'static str| {
            let seconds: Option<u64> = text(key)?.ok_or(CaSecretError::Missing(key))?.parse().ok();
            let since = seconds.and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
            since.ok_or(CaSecretError::Unreadable(key))
        };
        let (signing, info) = pair(SIGNING)?.ok_or(CaSecretError::Missing(SIGNING.0))?;
        let (serving, serving_info) = pair(SERVING)?.unzip();
        let incoming = match pair(INCOMING)? {
            None => None,
            Some((ca, info)) => Some(Incoming { ca, info, since: since(INCOMING_SINCE)? }),
        };
        let outgoing = match text(OUTGOING)? {
            None => None,
            Some(certificate) => {
                CertificateInfo::of(&certificate).map_err(|error| CaSecretError::Unusable(OUTGOING, error))?;
                Some(Outgoing { certificate, since: since(OUTGOING_SINCE)? })
            }
        };
        Ok(Self { signing, info, incoming, outgoing, serving, serving_info })
    }
}

fn seconds(time: SystemTime) -> String {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs().to_string()
}
