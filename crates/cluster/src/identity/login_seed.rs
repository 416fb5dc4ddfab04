//! Keeps the Secret with what logins are proved by: random bytes, from which the key of each Gateway and extension is made.
//!
//! Whoever finds it empty fills it; the API server lets one of several do so. Then it stays: another one logs everybody out,
//! and to empty the Secret is how people ask for that. While the API server is away everybody goes on with what was read last.
//!
//! It takes the rights to get and update this one Secret. It has to be created too where nobody puts an empty one there.

use std::time::Duration;

use ir::settings::LOGIN_SEED_BYTES;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client, api::PostParams};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

/// The bytes.
pub type Seed = [u8; LOGIN_SEED_BYTES];

/// The key of the Secret.
const KEY: &str = "seed";
/// How often one looks whether somebody wrote.
const LOOK: Duration = Duration::from_secs(30);
/// How often while there is none.
const LOOK_FOR_FIRST: Duration = Duration::from_secs(1);
/// How long the API server may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A seed that nobody guesses; none if the machine has no randomness to give.
pub fn random() -> Option<Seed> {
    let mut seed = [0; LOGIN_SEED_BYTES];
    aws_lc_rs::rand::fill(&mut seed).ok()?;
    Some(seed)
}

/// Why there is no seed.
#[derive(Debug, thiserror::Error)]
enum SeedError {
    #[error("the Secret cannot be read or written: {0}")]
    Api(#[from] Box<kube::Error>),
    #[error("the API server did not answer in time")]
    Timeout,
    #[error("{KEY:?} of the Secret has {0} bytes and not {LOGIN_SEED_BYTES}; delete it, and everybody logs in again")]
    Length(usize),
    #[error("this machine has no randomness to give")]
    Random,
}

/// Reads and fills the Secret `name` of `namespace`, and sends `told` what is in it, now and whenever it changes: first of all
/// nothing, if the first look fails. Ends when nobody listens any more.
pub async fn keep(client: Client, namespace: String, name: &'static str, told: mpsc::Sender<Option<Seed>>) {
    let secrets: Api<Secret> = Api::namespaced(client, &namespace);
    let (mut known, mut logged, mut is_first) = (None, None, true);
    loop {
        match look(&secrets, name).await {
            Ok(seed) => {
                logged = None;
                if known != Some(seed) {
                    if told.send(Some(seed)).await.is_err() {
                        return;
                    }
                    known = Some(seed);
                }
            }
            Err(error) => {
                let error = error.to_string();
                if logged.as_ref() != Some(&error) {
                    tracing::warn!(%error, secret = name, "the seed of logins stays as it was");
                }
                logged = Some(error);
                if is_first && told.send(None).await.is_err() {
                    return;
                }
            }
        }
        is_first = false;
        sleep(if known.is_some() { LOOK } else { LOOK_FOR_FIRST }).await;
    }
}

/// What is stored, once something is.
async fn look(secrets: &Api<Secret>, name: &str) -> Result<Seed, SeedError> {
    let secret = answered(secrets.get_opt(name)).await?;
    let stored = secret.as_ref().and_then(|secret| secret.data.as_ref()?.get(KEY)).map(|bytes| &bytes.0[..]);
    if let Some(stored) = stored.filter(|stored| !stored.is_empty()) {
        return stored.try_into().map_err(|_| SeedError::Length(stored.len()));
    }
    let seed = random().ok_or(SeedError::Random)?;
    let mut next = secret.clone().unwrap_or_default();
    next.metadata.name = Some(name.to_owned());
    next.data.get_or_insert_default().insert(KEY.into(), ByteString(seed.to_vec()));
    // If another replica wrote meanwhile this is a conflict, and the next look finds what it wrote.
    match secret {
        Some(_) => answered(secrets.replace(name, &PostParams::default(), &next)).await?,
        None => answered(secrets.create(&PostParams::default(), &next)).await?,
    };
    tracing::info!(secret = name, "the seed of logins was written");
    Ok(seed)
}

async fn answered<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, SeedError> {
    let answer = timeout(TIMEOUT, request).await.map_err(|_| SeedError::Timeout)?;
    answer.map_err(|error| SeedError::Api(Box::new(error)))
}
