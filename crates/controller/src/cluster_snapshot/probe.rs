//! Whether there is a way to the API server, and which lists it forbids: asked once, before anybody waits for anything.

use std::{collections::BTreeMap, error::Error as _};

use api::Kind;
use kube::{Client, api::ListParams, core::Request};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};

use super::SnapshotError;

/// How a request to an API server failed, as far as it matters to who waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It does not know who asks.
    Unauthorized(String),
    /// It does not let who asks.
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
        let kube::Error::Api(status) = error else { return Self::Unreached(words(error)) };
        let why = match &*status.message {
            "" => format!("the API server answered {}", status.code),
            message => message.to_owned(),
        };
        match status.code {
            401 => Self::Unauthorized(why),
            403 => Self::Forbidden(why),
            404 => Self::NotFound(why),
            _ => Self::Answered(why),
        }
    }
}

/// An error of the client with what it comes from, which is where the reason stands.
pub fn words(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return format!("the API server answered {}: {}", status.code, status.message);
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// The kinds that may not be listed, each with the API server's words.
pub(super) async fn refused(
    client: &Client,
    server: &str,
    deadline: Instant,
) -> Result<BTreeMap<Kind, String>, SnapshotError> {
    let mut probes = JoinSet::new();
    for kind in Kind::ALL {
        let client = client.clone();
        probes.spawn(async move { (*kind, probe(&client, *kind, deadline).await) });
    }
    let (mut forbidden, mut reached, mut unreached) = (BTreeMap::new(), false, None);
    while let Some(probed) = probes.join_next().await {
        let Ok((kind, refusal)) = probed else { continue };
        match refusal {
            Some(Refusal::Unauthorized(why)) => {
                return Err(SnapshotError::Unauthorized { server: server.to_owned(), why });
            }
            Some(Refusal::Forbidden(why)) => _ = forbidden.insert(kind, why),
            Some(Refusal::Unreached(why)) => {
                unreached = Some(why);
                continue;
            }
            _ => {}
        }
        reached = true;
    }
    match unreached {
        Some(why) if !reached => Err(SnapshotError::Unreachable { server: server.to_owned(), why }),
        _ => Ok(forbidden),
    }
}

/// Asks for one object of a kind.
async fn probe(client: &Client, kind: Kind, deadline: Instant) -> Option<Refusal> {
    let (group, version) = (kind.group(), kind.versions()[0]);
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let request = Request::new(format!("{root}/{}", kind.plural())).list(&ListParams::default().limit(1));
    let asked = timeout_at(deadline, client.request_text(request.ok()?)).await;
    match asked {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(Refusal::of(&error)),
        Err(_) => Some(Refusal::Unreached("it does not answer in time".to_owned())),
    }
}
