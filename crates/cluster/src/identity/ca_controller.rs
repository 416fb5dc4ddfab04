//! Reads and writes the Secret in which the certificate authority is kept.
//!
//! The leader writes, everybody reads, and each puts what it read last into its [`Trust`]. While the API server is away
//! everybody goes on with that.
//!
//! It takes the rights to get and update this one Secret. It has to be created too where nobody puts an empty one there.

use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::Trust;
use super::ca::{self, CaSecret, CaSecretError, IssueError, RotationPolicy};
use super::tokens::Clock;

/// How often one looks whether another replica wrote, or a person.
const LOOK: Duration = Duration::from_secs(30);
/// How often while there is nothing to serve.
const LOOK_FOR_FIRST: Duration = Duration::from_secs(1);
/// How soon after something failed.
const RETRY: Duration = Duration::from_secs(5);
/// How long the API server may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Makes, renews and stores the CA, and publishes it to a [`Trust`].
#[derive(Clone)]
pub struct CaController {
    secrets: Api<Secret>,
    name: String,
    /// The DNS names by which proxies reach the server.
    names: Vec<String>,
    policy: RotationPolicy,
    clock: Clock,
    look: Duration,
}

/// Why nothing was published or written.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// The API server did not do what it was asked.
    #[error("the Secret cannot be read or written: {0}")]
    Api(#[from] Box<kube::Error>),
    /// The API server did not answer.
    #[error("the API server did not answer in time")]
    Timeout,
    /// A certificate cannot be made.
    #[error(transparent)]
    Issue(#[from] IssueError),
    /// What is stored cannot be served.
    #[error(transparent)]
    Serve(#[from] xds::CertificateError),
    /// What is in the Secret is no CA, and only the leader may change that.
    #[error("the Secret holds no authority: {0}")]
    CaSecretError(CaSecretError),
}

impl CaController {
    /// A controller of the Secret `name` in `namespace`, of a server that is reached by `names`.
    pub fn new(client: Client, namespace: &str, name: &str, names: Vec<String>, policy: RotationPolicy) -> Self {
        let clock: Clock = std::sync::Arc::new(SystemTime::now);
        Self { secrets: Api::namespaced(client, namespace), name: name.to_owned(), names, policy, clock, look: LOOK }
    }

    /// The same with a clock of one's own, and another time between two looks.
    #[must_use]
    pub fn with_clock(self, clock: Clock, look: Duration) -> Self {
        Self { clock, look, ..self }
    }

    /// Publishes what is stored to `trust`, and renews it while `leads` is true. Does not end.
    pub async fn run(self, trust: Trust, mut leads: watch::Receiver<bool>) {
        let mut known = None;
        let mut logged = None;
        loop {
            let leading = *leads.borrow_and_update();
            let wait = match self.look(leading, &mut known, &trust).await {
                Ok(wait) => {
                    logged = None;
                    wait.min(self.look)
                }
                Err(error) => {
                    let error = error.to_string();
                    if logged.as_ref() != Some(&error) {
                        tracing::warn!(%error, "the certificate authority of xDS stays as it was");
                    }
                    logged = Some(error);
                    self.look.min(RETRY)
                }
            };
            let wait = if trust.certificate.is_set() { wait } else { wait.min(LOOK_FOR_FIRST) };
            tokio::select! {
                () = sleep(wait) => {}
                Ok(()) = leads.changed() => {}
            }
        }
    }

    /// One look, and until when there is nothing to do.
    async fn look(&self, leading: bool, known: &mut Option<CaSecret>, trust: &Trust) -> Result<Duration, CaError> {
        let secret = self.answered(self.secrets.get_opt(&self.name)).await?;
        // One without anything may have been put there for us to fill.
        let data = secret.as_ref().and_then(|secret| secret.data.as_ref()).filter(|data| !data.is_empty());
        let read = data.map(CaSecret::from_data);
        let (stored, wait) = if leading {
            self.lead(secret, read, known.as_ref()).await?
        } else {
            match read {
                Some(Ok(stored)) => (stored, self.look),
                Some(Err(error)) => return Err(CaError::CaSecretError(error)),
                // The leader will make it.
                None => return Ok(self.look),
            }
        };
        if known.as_ref() != Some(&stored) {
            trust.publish(&stored.bundle());
            if let Some((certificate, key)) = stored.serving() {
                trust.certificate.set(certificate.as_bytes(), key.as_bytes())?;
            }
            *known = Some(stored);
        }
        Ok(wait)
    }

    /// Does what is to be done, and stores it.
    async fn lead(
        &self,
        secret: Option<Secret>,
        read: Option<Result<CaSecret, CaSecretError>>,
        known: Option<&CaSecret>,
    ) -> Result<(CaSecret, Duration), CaError> {
        let now = (self.clock)();
        let before = match read {
            Some(Ok(stored)) => Some(stored),
            missing => {
                if let Some(Err(error)) = missing {
                    tracing::warn!(%error, "the Secret of the certificate authority is made anew");
                }
                known.map(|known| ca::replace(known.clone(), &self.policy, now)).transpose()?
            }
        };
        let (stored, wait) = ca::advance(before, &self.names, &self.policy, now)?;
        let data = stored.to_data();
        if secret.as_ref().and_then(|secret| secret.data.as_ref()) == Some(&data) {
            return Ok((stored, wait));
        }
        let mut next = secret.clone().unwrap_or_default();
        next.metadata.name = Some(self.name.clone());
        next.data = Some(data);
        // A version that somebody else wrote meanwhile is a conflict, and looked at first.
        let written = match secret {
            Some(_) => self.answered(self.secrets.replace(&self.name, &PostParams::default(), &next)).await,
            None => self.answered(self.secrets.create(&PostParams::default(), &next)).await,
        };
        written?;
        tracing::info!(secret = self.name, "the certificate authority of xDS was written");
        Ok((stored, wait))
    }

    async fn answered<T>(&self, request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, CaError> {
        let answer = timeout(TIMEOUT, request).await.map_err(|_| CaError::Timeout)?;
        answer.map_err(|error| CaError::Api(Box::new(error)))
    }
}

impl std::fmt::Debug for CaController {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaController").field("name", &self.name).field("names", &self.names).finish_non_exhaustive()
    }
}
