//! What a client and a backend see of a request for which policies hold.
//!
//! Who refuses a request decides what comes of it, so that the order of filters counts: that of `docs/policies.md` and of
//! kgateway's stages. How long a backend thinks, what is compressed and where a redirect leads depends on what a
//! request asks of the backend.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;

use super::encoding::encoding;
use super::merge::{Held, is_off, rule_of};
use super::redirect::{Redirect, redirect};
use super::stage::Seen;
use super::worlds::Asked;
use crate::client::Request;
use crate::echo::Respond;

/// The address of every client.
const CLIENT: &str = "127.0.0.1";

/// The headers that are compared.
const HEADERS: [&str; 2] = ["x-a", "x-b"];

/// The units that hold for a request.
pub(super) type Units = BTreeMap<&'static str, Held>;

/// What is to be seen of a request.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// The status; none where nobody knows.
    pub status: Option<u16>,
    /// Whether a backend answers.
    pub is_forwarded: bool,
    /// What of the request the backend sees: headers, and the path, the method and the body.
    pub sent: BTreeMap<&'static str, Option<String>>,
    /// Headers that the client sees.
    pub received: BTreeMap<&'static str, Option<String>>,
    /// What decided, for the report of a failed test and for those that all of it happens.
    pub why: Vec<&'static str>,
    /// What Envoy may ask for in place of the client.
    pub(super) redirect: Option<Redirect>,
}

impl Sight {
    fn refused(status: u16) -> Self {
        Self { status: Some(status), ..Self::default() }
    }

    /// Fails if something else was seen.
    ///
    /// # Errors
    /// With all that was seen.
    pub fn compare(&self, seen: &Seen) -> Result<()> {
        let Some(status) = self.status else { return Ok(()) };
        let backend = seen.echoed.as_ref();
        let header = |name: &str| match name {
            "path" => backend.map(|echoed| echoed.path.clone()),
            "method" => backend.map(|echoed| echoed.method.clone()),
            "body" => backend.map(|echoed| echoed.body.clone()),
            name => backend.and_then(|echoed| echoed.header(name)),
        };
        let sent: BTreeMap<_, _> = self.sent.keys().map(|name| (*name, list(header(name)))).collect();
        let received = self.received.keys().map(|name| (*name, list(crate::echo::join(&seen.headers, name))));
        let received: BTreeMap<_, _> = received.collect();
        let is_same = seen.status == status
            && backend.is_some() == self.is_forwarded
            && sent == self.sent
            && received == self.received;
        ensure!(is_same, "seen are {}, backend {}, {sent:?} and {received:?}", seen.status, backend.is_some());
        Ok(())
    }
}

/// A list of values with one way to write it.
fn list(value: Option<String>) -> Option<String> {
    value.map(|value| value.split(',').map(str::trim).collect::<Vec<_>>().join(","))
}

/// A header of a request.
pub(super) fn header<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    request.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// What is seen of a request for which these units hold; `answer` is the status of a rule that answers by itself, and
/// `tries` how often the backend has had the request already.
pub(super) fn sight(units: &Units, answer: Option<u16>, asked: &Asked, tries: usize) -> Sight {
    let request = &asked.request;
    let value = |unit: &str| units.get(unit)?.value.as_ref().filter(|value| !is_off(unit, value));
    if let Some(refused) = refused_at_first(value, answer, request) {
        return refused;
    }
    match value("rateLimit.local").and_then(|limit| limit.pointer("/tokenBucket/maxTokens")?.as_u64()) {
        Some(1) if asked.is_repeated => return Sight::refused(429),
        // Another one may have had the token.
        Some(1) => return Sight::default(),
        _ => {}
    }
    let most = value("buffer").and_then(|buffer| buffer["maxRequestSize"].as_u64());
    if most.is_some_and(|most| request.body.len() as u64 > most) {
        // What Envoy has read while the request waited is not counted.
        let waits = value("faultInjection").is_some_and(|fault| fault.get("delay").is_some());
        return if waits { Sight::default() } else { Sight::refused(413) };
    }
    if value("csrf").is_some_and(|csrf| !csrf_takes(csrf, request)) {
        return Sight::refused(403);
    }
    match answer {
        Some(status) => Sight::refused(status),
        None => forwarded(value, asked, tries),
    }
}

/// The answer of filters that look at what the client has sent.
fn refused_at_first<'a>(
    value: impl Fn(&str) -> Option<&'a Value>,
    answer: Option<u16>,
    request: &Request,
) -> Option<Sight> {
    let abort = value("faultInjection").and_then(|fault| fault.get("abort"));
    if let Some(abort) = abort.filter(|abort| abort["percentage"] != 0) {
        return Some(Sight::refused(number(&abort["httpStatus"])));
    }
    if let Some(acl) = value("acl") {
        let rule = rule_of(acl, CLIENT);
        let action = rule.as_ref().map_or(&acl["defaultAction"], |rule| &rule["action"]);
        if action == "deny" {
            let response = &acl["denyResponse"];
            let by = rule.map_or("default".to_owned(), |rule| rule["name"].as_str().unwrap_or("rule").to_owned());
            let told = ["x-by", "x-blocked"].map(|name| {
                let is_it = response["blockedByHeaderName"] == name;
                (name, is_it.then(|| by.clone()))
            });
            let status = if response["statusCode"].is_null() { 403 } else { number(&response["statusCode"]) };
            return Some(Sight { received: told.into(), ..Sight::refused(status) });
        }
    }
    let cors = value("cors").filter(|_| answer.is_none());
    if let Some(cors) = cors.filter(|_| request.method == "OPTIONS" && header(request, "origin").is_some()) {
        return Some(Sight { status: Some(200), received: cors_headers(cors, request), ..Sight::default() });
    }
    if value("apiKeyAuth").is_some_and(|auth| client_of(auth, request).is_none()) {
        return Some(Sight::refused(401));
    }
    if let Some(auth) = value("basicAuth") {
        let user = match header(request, "authorization") {
            Some("Basic YWxpY2U6c2VjcmV0") => "alice:",
            Some("Basic Ym9iOm90aGVy") => "bob:",
            _ => return Some(Sight::refused(401)),
        };
        let knows = |line: &Value| line.as_str().is_some_and(|line| line.starts_with(user));
        if !auth["users"].as_array().is_some_and(|users| users.iter().any(knows)) {
            return Some(Sight::refused(401));
        }
    }
    if let Some(rbac) = value("rbac") {
        let expressions = rbac.pointer("/policy/matchExpressions").and_then(Value::as_array);
        let matches = expressions.into_iter().flatten().filter_map(Value::as_str).any(|text| holds(text, request));
        if matches == (rbac["action"] == "Deny") {
            return Some(Sight::refused(403));
        }
    }
    None
}

/// What comes of a request that is sent to a backend.
fn forwarded<'a>(value: impl Fn(&str) -> Option<&'a Value>, asked: &Asked, tries: usize) -> Sight {
    let (request, asked) = (&asked.request, asked.respond());
    let mut why = Vec::new();
    if let Some(delay) = asked.delay {
        if asked.failures.is_some() {
            // A try that fails may be in time, and the next one late.
            return Sight::default();
        }
        if let Some((name, _)) = value("timeouts").and_then(patience).filter(|(_, patience)| *patience < delay) {
            return Sight { why: vec![name], ..Sight::refused(504) };
        }
        why.push("late, and waited for");
    }
    let mut sent: BTreeMap<_, _> = HEADERS.map(|name| (name, values(&request.headers, name))).into();
    let mut received: BTreeMap<_, _> = HEADERS.map(|name| (name, values(&asked.headers, name))).into();
    // A response passes the filters the other way round.
    for unit in ["transformation", "headerModifiers"] {
        if let Some(changes) = value(unit) {
            change(changes, "request", &mut sent);
        }
    }
    for unit in ["headerModifiers", "transformation"] {
        if let Some(changes) = value(unit) {
            change(changes, "response", &mut received);
        }
    }
    let joined = |headers: BTreeMap<&'static str, Vec<String>>| -> BTreeMap<_, _> {
        headers.into_iter().map(|(name, values)| (name, (!values.is_empty()).then(|| values.join(",")))).collect()
    };
    let (mut sent, mut received) = (joined(sent), joined(received));
    received.extend(value("cors").map(|cors| cors_headers(cors, request)).unwrap_or_default());
    let (mut key, mut client) = (header(request, "api-key"), header(request, "x-client").map(ToOwned::to_owned));
    if let Some(auth) = value("apiKeyAuth") {
        key = key.filter(|_| auth["forwardCredential"] == true);
        if auth["clientIdHeader"] == "x-client" {
            client = client_of(auth, request).map(ToOwned::to_owned);
        }
    }
    sent.insert("api-key", key.map(ToOwned::to_owned));
    sent.insert("x-client", client);
    let substitution = value("urlRewrite").and_then(|rewrite| rewrite.pointer("/pathRegex/substitution")?.as_str());
    let path = substitution.map_or(request.path.clone(), |start| format!("{start}{}", &request.path[1..]));
    sent.extend([("path", path), ("method", request.method.clone()), ("body", request.body.clone())].map(filled));
    let (encoding, reason) = encoding(value("compression.responseCompression"), request, &asked);
    received.insert("content-encoding", encoding.map(ToOwned::to_owned));
    why.push(reason);
    let status = status(value("retry"), &asked, tries);
    let redirect =
        (300..400).contains(&status).then(|| redirect(value("internalRedirect"), status, &asked, request, &sent));
    let redirect = redirect.and_then(|redirect| redirect.map_err(|reason| why.push(reason)).ok());
    Sight { status: Some(status), is_forwarded: true, sent, received, why, redirect }
}

fn filled((name, text): (&'static str, String)) -> (&'static str, Option<String>) {
    (name, Some(text))
}

/// How long a backend may be silent, and by which word.
fn patience(timeouts: &Value) -> Option<(&'static str, Duration)> {
    let fields =
        [("request", "later than the timeout of requests"), ("streamIdle", "later than the timeout of streams")];
    let set = fields.into_iter().filter_map(|(field, name)| {
        let text = timeouts[field].as_str()?;
        let duration = match text.strip_suffix("ms") {
            Some(millis) => Duration::from_millis(millis.parse().ok()?),
            None => Duration::from_secs(text.strip_suffix('s')?.parse().ok()?),
        };
        Some((name, duration))
    });
    set.min_by_key(|(_, patience)| *patience)
}

/// The status of the last try.
fn status(retry: Option<&Value>, asked: &Respond, tries: usize) -> u16 {
    let Some(status) = asked.status else { return 200 };
    let Some(failures) = asked.failures else { return status };
    let repeats = retry.is_some_and(|retry| {
        let on = status >= 500 && retry["retryOn"].as_array().is_some_and(|on| on.contains(&"5xx".into()));
        let by_status = retry["statusCodes"].as_array().is_some_and(|codes| codes.contains(&status.into()));
        on || by_status
    });
    let attempts = retry.and_then(|retry| retry["attempts"].as_u64()).filter(|_| repeats).unwrap_or(0);
    if tries as u64 + attempts >= u64::from(failures) { 200 } else { status }
}

fn number(value: &Value) -> u16 {
    value.as_u64().and_then(|number| number.try_into().ok()).expect("a status")
}

fn values(headers: &[(String, String)], name: &str) -> Vec<String> {
    headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.clone()).collect()
}

/// Changes headers as a list of `[direction, what, name, value]` says.
fn change(changes: &Value, direction: &str, headers: &mut BTreeMap<&'static str, Vec<String>>) {
    for change in changes.as_array().into_iter().flatten().filter(|change| change[0] == direction) {
        let text = |index: usize| change[index].as_str().expect("a text");
        let values = headers.get_mut(text(2)).expect("a header that is compared");
        if text(1) != "add" {
            values.clear();
        }
        if text(1) != "remove" {
            values.push(text(3).to_owned());
        }
    }
}

/// The client that a key is of.
fn client_of(auth: &Value, request: &Request) -> Option<&'static str> {
    let clients = [("keys0", "key-one", "one"), ("keys1", "key-two", "two")];
    let secret = auth.pointer("/secretRef/name")?.as_str()?;
    let key = header(request, "api-key")?;
    clients.into_iter().find(|(name, value, _)| (*name, *value) == (secret, key)).map(|(_, _, client)| client)
}

/// Whether an expression holds: a comparison of the method, or of a header, which does not hold where there is none.
fn holds(expression: &str, request: &Request) -> bool {
    let (left, right) = expression.split_once(" == ").expect("a comparison");
    let right = right.trim_matches('\'');
    let name = left.strip_prefix("request.headers['").and_then(|rest| rest.strip_suffix("']"));
    match name {
        Some(name) => header(request, name) == Some(right),
        None => left == "request.method" && request.method == right,
    }
}

fn csrf_takes(csrf: &Value, request: &Request) -> bool {
    if csrf["percentageEnabled"] != 100 || !["POST", "PUT", "DELETE", "PATCH"].contains(&request.method.as_str()) {
        return true;
    }
    let origin = header(request, "origin").unwrap_or_default();
    let origin = origin.split_once("://").map_or("", |(_, host)| host);
    let others = csrf["additionalOrigins"].as_array();
    origin == request.host || others.is_some_and(|others| others.iter().any(|other| other["exact"] == origin))
}

/// What pages are told.
fn cors_headers(cors: &Value, request: &Request) -> BTreeMap<&'static str, Option<String>> {
    let origin = header(request, "origin");
    let allowed = cors["allowOrigins"].as_array();
    let Some(origin) = origin.filter(|origin| allowed.is_some_and(|list| list.contains(&Value::from(*origin)))) else {
        // Whatever else is said does not open anything.
        return [("access-control-allow-origin", None)].into();
    };
    let credentials = (cors["allowCredentials"] == true).then(|| "true".to_owned());
    let exposed = cors["exposeHeaders"].as_array().and_then(|list| list[0].as_str()).map(ToOwned::to_owned);
    let age = cors["maxAge"].as_u64().filter(|_| request.method == "OPTIONS").map(|age| age.to_string());
    [
        ("access-control-allow-origin", Some(origin.to_owned())),
        ("access-control-allow-credentials", credentials),
        ("access-control-expose-headers", exposed),
        ("access-control-max-age", age),
    ]
    .into()
}
