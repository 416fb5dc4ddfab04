//! Session persistence: who comes back with what it was given reaches the same endpoint.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};

use super::{Case, Session};
use crate::client::{self, Request, Target};

/// How many sessions are begun, and how often each of them comes back.
const SESSIONS: usize = 12;
const RETURNS: usize = 6;

/// Begins sessions until more than one endpoint was seen, and checks that each holds.
pub(super) async fn check(case: &Case, session: &Session, target: &Target) -> Result<()> {
    let mut endpoints = BTreeSet::new();
    for _ in 0..SESSIONS {
        let (_, request) = case.request.build()?;
        let response = client::send(target, &request).await?;
        case.expect.compare(&case.request, target, &response)?;
        let first = response.echoed.as_ref().context("no backend answered")?;
        let token = match session {
            Session::Cookie(name) => ("cookie".to_owned(), cookie(&response.headers, name)?),
            Session::Header(name) => {
                let value = response.header(name);
                let value = value.with_context(|| format!("no header {name} in the response"))?;
                (name.clone(), value)
            }
        };
        for _ in 0..RETURNS {
            let (_, mut request) = case.request.build()?;
            request.headers.push(token.clone());
            let endpoint = endpoint(target, &request).await?;
            ensure!(endpoint == first.endpoint, "a session of {} came to {endpoint}", first.endpoint);
        }
        endpoints.insert(first.endpoint.clone());
    }
    if endpoints.len() < 2 {
        bail!("{SESSIONS} sessions all came to {endpoints:?}: this shows nothing");
    }
    Ok(())
}

async fn endpoint(target: &Target, request: &Request) -> Result<String> {
    let response = client::send(target, request).await?;
    let seen = response.echoed.context("no backend answered")?;
    Ok(seen.endpoint)
}

fn cookie(headers: &[(String, String)], name: &str) -> Result<String> {
    let prefix = format!("{name}=");
    let set = headers
        .iter()
        .filter(|(key, _)| key == "set-cookie")
        .filter_map(|(_, value)| value.split(';').next())
        .find(|pair| pair.starts_with(&prefix));
    let set = set.with_context(|| format!("no cookie {name} in {headers:?}"))?;
    Ok(set.to_owned())
}
