//! Redirects of backends: whether Envoy follows them, and what it asks for then.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::client::Request;
use crate::echo::{Respond, join};

/// How often a request is redirected, whatever a policy says.
const MOST: u64 = 2;

/// A redirect that Envoy may follow in place of the client.
#[derive(Clone, Debug)]
pub(super) struct Redirect {
    /// What comes through then.
    pub(super) request: Request,
    /// The method that a route must take for that: the one of before, which 303 makes another.
    pub(super) sought: String,
    /// How often this may happen to a request, by the policy of the route that it took.
    pub(super) most: u64,
}

/// Whether a redirect can be followed, or why not. What filters have made of the headers in `sent` stays with the
/// request.
pub(super) fn redirect(
    unit: Option<&Value>,
    status: u16,
    asked: &Respond,
    request: &Request,
    sent: &BTreeMap<&'static str, Option<String>>,
) -> Result<Redirect, &'static str> {
    let unit = unit.ok_or("no policy has redirects followed")?;
    let usual = [Value::from(302)];
    let codes = unit["redirectResponseCodes"].as_array().map_or(&usual[..], Vec::as_slice);
    if !codes.contains(&status.into()) {
        return Err("redirects of another status are followed");
    }
    let location = join(&asked.headers, "location").unwrap_or_default();
    if location.starts_with('/') {
        return Err("the redirect names no host");
    }
    let location = location.strip_prefix("http://").ok_or("the redirect changes the scheme")?;
    let (host, path) = location.split_once('/').unwrap_or((location, ""));
    let sought = request.method.clone();
    let mut request = Request { host: host.to_owned(), path: format!("/{path}"), ..request.clone() };
    if status == 303 && request.method != "HEAD" {
        "GET".clone_into(&mut request.method);
        request.body.clear();
    }
    for (name, value) in sent.iter().filter(|(name, _)| !["path", "method", "body"].contains(name)) {
        replace(&mut request.headers, name, value.clone());
    }
    // One that the redirect lacks goes too.
    for name in unit["responseHeadersToCopy"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        replace(&mut request.headers, name, join(&asked.headers, name));
    }
    Ok(Redirect { request, sought, most: unit["maxRedirects"].as_u64().unwrap_or(1).min(MOST) })
}

fn replace(headers: &mut Vec<(String, String)>, name: &str, value: Option<String>) {
    headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    headers.extend(value.map(|value| (name.to_owned(), value)));
}
