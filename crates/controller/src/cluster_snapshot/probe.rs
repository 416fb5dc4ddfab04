//! Whether there is a way to the API server, and which lists it gives: asked first, since watches would
//! go on trying for ever.

use std::{collections::BTreeMap, time::Duration};

use api::Kind;
use axum::http::StatusCode;
use cluster::watch;
use kube::{
    Client,
    api::ListParams,
    client::Body,
    core::{Request, Status},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout_at},
};

use super::SnapshotError;

/// How a request to an API server failed, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The client is not authenticated.
    Unauthorized(String),
    /// The client is not authorized.
    Forbidden(String),
    /// There is no such thing.
    NotFound(String),
    /// It has answered something else, which another attempt may change.
    Answered(String),
    /// It was not reached.
    Unreached(String),
}

impl Refusal {
    /// The reason, for people.
    pub fn why(&self) -> &str {
        let (Self::Unauthorized(why)
        | Self::Forbidden(why)
        | Self::NotFound(why)
        | Self::Answered(why)
        | Self::Unreached(why)) = self;
        why
    }

    /// What an error of the client means.
    pub fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::answered(status.code, &status.message),
            _ => Self::Unreached(words(error)),
        }
    }

    fn answered(code: u16, message: &str) -> Self {
        let message = message.trim();
        let why = if message.is_empty() { format!("the API server answered {code}") } else { message.to_owned() };
        match code {
            401 => Self::Unauthorized(why),
            403 => Self::Forbidden(why),
            404 => Self::NotFound(why),
            _ if message.is_empty() => Self::Answered(why),
            _ => Self::Answered(format!("the API server answered {code}: {message}")),
        }
    }
}

/// The message of an error of the client.
pub fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("the API server answered {}: {}", status.code, status.message),
        _ => watch::causes(error),
    }
}

/// The kinds whose lists are forbidden, or fail until the deadline, each with the API server's message.
pub(super) async fn refused(
    client: &Client,
    server: &str,
    deadline: Instant,
) -> Result<BTreeMap<Kind, String>, SnapshotError> {
    let mut probes = JoinSet::new();
    for kind in Kind::ALL.iter().copied() {
        let client = client.clone();
        probes.spawn(async move { (kind, probe(&client, kind, deadline).await) });
    }
    let (mut refused, mut reached, mut unreached) = (BTreeMap::new(), false, None);
    while let Some(probed) = probes.join_next().await {
        let Ok((kind, refusal)) = probed else { continue };
        match refusal {
            Some(Refusal::Unauthorized(why)) => {
                return Err(SnapshotError::Unauthorized { server: server.to_owned(), why });
            }
            Some(Refusal::Forbidden(why) | Refusal::Answered(why)) => _ = refused.insert(kind, why),
            // If others were reached, this one may be in a moment.
            Some(Refusal::Unreached(why)) => {
                unreached = Some(why);
                continue;
            }
            Some(Refusal::NotFound(_)) | None => {}
        }
        reached = true;
    }
    match unreached {
        Some(why) if !reached => Err(SnapshotError::Unreachable { server: server.to_owned(), why }),
        _ => Ok(refused),
    }
}

/// The first wait after an answer that another attempt may change, and the longest; each is twice as long as the one before.
const WAITS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Asks for one object of a kind until it is given, or never will be, or it is too late to ask again.
async fn probe(client: &Client, kind: Kind, deadline: Instant) -> Option<Refusal> {
    let (group, version) = (kind.group(), kind.versions()[0]);
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let url = format!("{root}/{}", kind.plural());
    let mut wait = WAITS.0;
    loop {
        let asked = timeout_at(deadline, ask(client, &url)).await;
        let Ok(asked) = asked else { return Some(Refusal::Unreached("it does not answer in time".to_owned())) };
        let (refusal, retry_after) = asked?;
        if !matches!(refusal, Refusal::Answered(_)) {
            return Some(refusal);
        }
        let pause = wait.max(retry_after.unwrap_or_default());
        if pause >= deadline.saturating_duration_since(Instant::now()) {
            return Some(refusal);
        }
        sleep(pause).await;
        wait = (wait * 2).min(WAITS.1);
    }
}

/// Asks once. A refusal may come with how long to wait.
async fn ask(client: &Client, url: &str) -> Option<(Refusal, Option<Duration>)> {
    let request = Request::new(url).list(&ListParams::default().limit(1)).ok()?;
    let response = match client.send(request.map(Body::from)).await {
        Ok(response) => response,
        Err(error) => return Some((Refusal::of(&error), None)),
    };
    let (code, retry_after) = (response.status(), watch::retry_after(response.headers()));
    if code == StatusCode::OK {
        return None;
    }
    let body = response.into_body().collect_bytes().await.unwrap_or_default();
    let message = match serde_json::from_slice::<Status>(&body) {
        Ok(status) => status.message,
        Err(_) => String::from_utf8_lossy(&body).chars().take(200).collect(),
    };
    Some((Refusal::answered(code.as_u16(), &message), retry_after))
}

#[cfg(test)]
mod tests;
