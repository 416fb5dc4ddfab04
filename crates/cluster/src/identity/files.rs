//! A certificate of the user's own, in files that may change.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::Trust;

#[cfg(test)]
mod tests;

/// The files, each in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate that the server shows, with those between it and its CA.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The CA certificates that proxies shall trust.
    pub ca: PathBuf,
}

/// Why the files do not say what to serve.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A file cannot be read.
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, std::io::Error),
    /// The file has no certificate.
    #[error("{0} has no certificate")]
    NoCa(PathBuf),
    /// Certificate and key cannot be served.
    #[error(transparent)]
    Certificate(#[from] xds::CertificateError),
}

/// What was read last.
#[derive(PartialEq, Eq)]
struct Read {
    certificate: Vec<u8>,
    key: Vec<u8>,
    ca: String,
}

impl CertificateFiles {
    /// Reads the files into `trust`, again and again, and does not end.
    ///
    /// What cannot be used is logged once and changes nothing: files that belong together may change one by one.
    pub async fn reload(self, trust: Trust, every: Duration) {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut seen, mut logged) = (None, None);
        loop {
            ticks.tick().await;
            match self.look(&trust, &mut seen).await {
                Ok(false) => logged = None,
                Ok(true) => {
                    tracing::info!(certificate = %self.certificate.display(), "the xDS server shows another certificate");
                    logged = None;
                }
                Err(error) => {
                    let error = error.to_string();
                    if logged.as_ref() != Some(&error) {
                        tracing::warn!(%error, "the xDS server's certificate stays as it was");
                    }
                    logged = Some(error);
                }
            }
        }
    }

    /// Whether anything changed that could be used.
    async fn look(&self, trust: &Trust, seen: &mut Option<Read>) -> Result<bool, FilesError> {
        let read =
            async |path: &PathBuf| tokio::fs::read(path).await.map_err(|error| FilesError::Read(path.clone(), error));
        let ca = String::from_utf8_lossy(&read(&self.ca).await?).into_owned();
        let now = Read { certificate: read(&self.certificate).await?, key: read(&self.key).await?, ca };
        if seen.as_ref() == Some(&now) {
            return Ok(false);
        }
        super::issue::CertificateInfo::of(&now.ca).map_err(|_| FilesError::NoCa(self.ca.clone()))?;
        trust.certificate.set(&now.certificate, &now.key)?;
        trust.publish(&now.ca);
        *seen = Some(now);
        Ok(true)
    }
}
