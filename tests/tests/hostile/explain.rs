//! What `explain` says of hostile routes is what a real Envoy does with them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::{HeaderName, HeaderValue, Uri};
use portcullis_tests::client::{self, Request, Target};
use portcullis_tests::wait::{TIMEOUT, eventually};
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::timeout;
use worlds::Draws;
use worlds::tenant::{SHARED, tenant};

use crate::estate::Estate;

/// How often the tenant writes all anew.
const STEPS: usize = 40;

/// How many requests there are for what is served then.
const REQUESTS: usize = 20;

/// Which route takes a request is known at once. What becomes of it there does not matter, and may take long.
const BRIEFLY: Duration = Duration::from_secs(5);

/// Headers that the client writes by itself, or that mean something to the connection.
const OF_THE_CONNECTION: [&str; 9] =
    ["host", "user-agent", "content-length", "transfer-encoding", "connection", "te", "upgrade", "expect", "trailer"];

/// Choices, one after the other.
struct Draw(std::vec::IntoIter<Index>);

impl Draw {
    fn of<T: Clone>(&mut self, items: &[T]) -> Option<T> {
        let at = self.0.next()?;
        (!items.is_empty()).then(|| at.get(items).clone())
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// A value that a condition may take.
fn value(draw: &mut Draw, condition: &Value) -> Option<String> {
    match condition["string_match"]["exact"].as_str() {
        Some(exact) => draw.of(&[exact, exact, exact, "other"]).map(str::to_owned),
        None => draw.of(&["a", "1", "k", "K", "xx", "aaac", "example", "/foo"]).map(str::to_owned),
    }
}

/// A path that one of Envoy's matches takes, or nearly takes.
fn path(draw: &mut Draw, matching: &Value) -> Option<String> {
    if !matching["safe_regex"].is_null() {
        let paths = ["/", "/foo", "/foo/x", "/orders/abc", "/aaac", "/k/x", "/11", "/F", "/%C3%A9"];
        return draw.of(&paths).map(str::to_owned);
    }
    let written = ["path", "path_separated_prefix", "prefix"].map(|field| text(matching, field));
    let bare = written.concat().trim_end_matches('/').to_owned();
    draw.of(&[written.concat(), written.concat(), format!("{bare}/x"), format!("{bare}x"), "/other".to_owned()])
}

/// A request for one of the routes of a virtual host as Envoy has it; none that cannot be sent.
fn request(draw: &mut Draw, host: &Value) -> Option<Request> {
    let matching = draw.of(list(&host["routes"]))?["match"].clone();
    let domain = draw.of(list(&host["domains"]))?;
    let domain = match domain.as_str()? {
        "*" => "other.test".to_owned(),
        domain => domain.replace('*', "h"),
    };
    let queries = list(&matching["query_parameters"]).iter();
    let queries = queries.filter_map(|query| Some(format!("{}={}", text(query, "name"), value(draw, query)?)));
    let queries: Vec<_> = queries.collect();
    let path = path(draw, &matching)?;
    let path = if queries.is_empty() { path } else { format!("{path}?{}", queries.join("&")) };
    let parsed: Uri = path.parse().ok()?;
    if parsed.path_and_query()?.as_str() != path {
        return None;
    }
    let mut request = Request::get(&domain, &path);
    for header in list(&matching["headers"]) {
        let (name, value) = (text(header, "name"), value(draw, header)?);
        if name == ":method" {
            // Others are refused over HTTP/1.1, and not over HTTP/2.
            let known = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"];
            known.contains(&value.as_str()).then(|| request.method = value);
            continue;
        }
        HeaderName::from_bytes(name.as_bytes()).ok()?;
        HeaderValue::from_str(&value).ok().filter(|_| !value.contains('\t'))?;
        if !OF_THE_CONNECTION.contains(&name) {
            request = request.header(name, &value);
        }
    }
    Some(request)
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        // Writing to a string does not fail.
        let _ = write!(encoded, "%{byte:02x}");
        encoded
    })
}

/// The Envoy route that takes a request, as the controller explains it.
async fn explained(estate: &Estate, port: u16, request: &Request) -> Result<(Option<String>, String)> {
    let url = format!("http://{}:{port}{}", request.host, request.path);
    let mut path = format!(
        "/debug/explain?format=json&gateway={}&method={}&url={}",
        encoded(SHARED),
        encoded(&request.method),
        encoded(&url)
    );
    for (name, value) in &request.headers {
        path = format!("{path}&header={}", encoded(&format!("{name}: {value}")));
    }
    let answer = estate.portcullis.admin(&path).await?;
    ensure!(answer.status == 200, "it is not explained: {} {}", answer.status, answer.body);
    let explanation: Value = serde_json::from_str(&answer.body)?;
    let route = explanation.pointer("/leaf/envoyRoute").and_then(Value::as_str).map(str::to_owned);
    Ok((route, answer.body))
}

/// User agents and routes of an access log.
fn routes(log: &str) -> BTreeMap<String, Option<String>> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let field = |line: &Value, name: &str| line.get(name)?.as_str().map(str::to_owned);
    lines.filter_map(|line| Some((field(&line, "user_agent")?, field(&line, "route_name")))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_says_which_route_takes_a_request_whatever_a_tenant_wrote() -> Result<()> {
    let mut estate = Estate::start().await?;
    let strategy = (tenant(&estate.place), proptest::collection::vec(proptest::arbitrary::any::<Index>(), 400));
    let (mut asked, mut taken, mut wrong) = (0, 0, Vec::new());
    let drawn = Draws::new().take(&strategy, STEPS);
    for (step, (objects, choices)) in drawn.iter().map(ValueTree::current).enumerate() {
        estate.written("tenant.json", &objects).await.with_context(|| format!("step {step}"))?;
        let hosts = [estate.place.http, estate.place.open].map(|port| (port, format!("http/{port}")));
        let mut served = Vec::new();
        for (port, name) in hosts {
            served.extend(estate.hosts(&name).await?.into_iter().map(|host| (port, host)));
        }
        let mut draw = Draw(choices.into_iter());
        let mut expected = BTreeMap::new();
        let mut sent = JoinSet::new();
        for number in 0..REQUESTS {
            let Some((port, host)) = draw.of(&served) else { break };
            let Some(request) = request(&mut draw, &host) else { continue };
            let id = format!("step-{step}-request-{number}");
            let request = request.header("user-agent", &id);
            let (route, said) = explained(&estate, port, &request).await?;
            expected.insert(id.clone(), (route, said));
            sent.spawn(async move {
                let answer = timeout(BRIEFLY, client::send(&Target::local(port), &request)).await;
                let status = answer.ok().and_then(Result::ok).map(|answer| answer.status);
                (id, status)
            });
        }
        let mut unread = BTreeSet::new();
        while let Some(done) = sent.join_next().await {
            let (id, status) = done?;
            unread.extend((status == Some(400)).then_some(id));
        }
        let seen = eventually(TIMEOUT, async || {
            let seen = routes(&estate.envoy.log());
            // Of a request that Envoy cannot read nothing is logged that tells which it was.
            let missing: Vec<_> =
                expected.keys().filter(|id| !seen.contains_key(*id) && !unread.contains(*id)).collect();
            ensure!(missing.is_empty(), "the access log lacks {missing:?}");
            anyhow::Ok(seen)
        })
        .await?;
        for (id, (route, said)) in expected {
            asked += 1;
            taken += usize::from(route.is_some());
            let seen = seen.get(&id).cloned().flatten();
            if seen != route {
                let objects: Vec<_> = objects.iter().map(ToString::to_string).collect();
                wrong.push(format!("{id} takes {seen:?}, and not\n{said}\n{}", objects.join("\n")));
            }
        }
    }
    println!("{asked} requests, {taken} of them taken by a route");
    let first = wrong.first().map_or("", String::as_str);
    ensure!(
        wrong.is_empty(),
        "{} of {asked} requests are explained otherwise, the first of them:\n{first}",
        wrong.len()
    );
    ensure!(taken > STEPS * 4, "only {taken} of {asked} requests are taken by a route");
    estate.is_unharmed().await
}
