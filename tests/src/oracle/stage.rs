//! Portcullis and an Envoy for each Gateway, through which the requests of one world after the other are sent.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::worlds::{Asked, GATEWAYS, SENTINEL, World, fixtures};
use super::{Answer, Outcome};
use crate::client::{self, Request, Target};
use crate::echo::{self, Echo, Echoed};
use crate::manifests::{self, PortMapping, Renderer};
use crate::portcullis::Portcullis;
use crate::ports;
use crate::process::{Process, envoy_binary};
use crate::wait::{TIMEOUT, eventually};

/// How long the regular expressions of one request may take. The oracle knows no share of a namespace, so that none leaves
/// anything out: a tree of expressions joined with expressions is beyond the default.
pub const REGEX_MAX_TIME: Duration = Duration::from_secs(10);

/// The programs, and what stands behind them.
#[derive(Debug)]
pub struct Stage {
    portcullis: Portcullis,
    envoys: BTreeMap<&'static str, Proxy>,
    renderer: Renderer,
    /// How many worlds there were.
    number: usize,
    _backends: Vec<Echo>,
    // Holds bootstraps and logs for as long as the Envoys run.
    _folder: tempfile::TempDir,
}

/// An Envoy with its admin interface.
#[derive(Debug)]
struct Proxy {
    process: Process,
    admin: Target,
}

/// What became of a request.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The status.
    pub status: u16,
    /// The headers that the client got.
    pub headers: Vec<(String, String)>,
    /// What the backend got that answered.
    pub echoed: Option<Echoed>,
    /// The name of the Envoy route that took it.
    pub route: Option<String>,
}

impl Stage {
    /// Starts everything, with a world in which there is nothing.
    pub async fn start() -> Result<Self> {
        let mut renderer = Renderer::new(PortMapping::Gateway)?;
        let base = render(&mut renderer, fixtures())?;
        let mut backends = Vec::new();
        for (address, name) in renderer.backends() {
            backends.push(Echo::start(name, *address).await?);
        }
        let regex_time = format!("--regex-max-time={}ms", REGEX_MAX_TIME.as_millis());
        let portcullis = Portcullis::start_with(&[("base.yaml".to_owned(), base)], &[regex_time]).await?;
        let folder = tempfile::Builder::new().prefix("envoys-").tempdir()?;
        let mut envoys = BTreeMap::new();
        for (number, (gateway, _)) in GATEWAYS.into_iter().enumerate() {
            let mut bootstrap = portcullis.bootstrap(gateway).await?;
            let admin = ports::free_port()?;
            let address = json!({"socketAddress": {"address": "127.0.0.1", "portValue": admin}});
            bootstrap["admin"] = json!({"address": address});
            let file = |ending: &str| folder.path().join(format!("{number}.{ending}"));
            std::fs::write(file("json"), bootstrap.to_string())?;
            let path = file("json").to_string_lossy().into_owned();
            // The names of routes stand in the access log, which Envoy keeps for 10 seconds otherwise.
            let arguments = [
                ["--config-path", &path],
                ["--concurrency", "1"],
                ["--log-level", "warn"],
                ["--file-flush-interval-msec", "10"],
            ];
            let arguments = arguments.into_iter().flatten().chain(["--disable-hot-restart"]);
            let process = Process::start("envoy", &envoy_binary()?, arguments, file("log"))?;
            envoys.insert(gateway, Proxy { process, admin: Target::local(admin) });
        }
        Ok(Self { portcullis, envoys, renderer, number: 0, _backends: backends, _folder: folder })
    }

    /// Has a world served instead of the one before, and sends its requests.
    pub async fn play(&mut self, world: &World) -> Result<Vec<Seen>> {
        self.number += 1;
        let number = self.number;
        let mut manifests = world.manifests.clone();
        manifests.push(sentinel(number));
        let file = render(&mut self.renderer, manifests)?;
        self.portcullis.write("world.yaml", &file)?;
        for (gateway, ports) in GATEWAYS {
            // A policy may have the sentinel itself answered otherwise, so Envoy is asked what it has.
            let admin = &self.envoys[gateway].admin;
            let served = eventually(TIMEOUT, async || {
                let dump = Request::get("localhost", "/config_dump?resource=dynamic_route_configs");
                let dump: Value = serde_json::from_str(&client::send(admin, &dump).await?.body)?;
                let has = |config: &&Value| config.to_string().contains(&format!("\"{}\"", served_at(number)));
                let configs = dump["configs"].as_array().map_or(0, |configs| configs.iter().filter(has).count());
                ensure!(configs == ports.len(), "{configs} route configurations have it");
                Ok(())
            });
            let served = served.await.with_context(|| format!("world {number} does not reach {gateway}"));
            served.with_context(|| self.portcullis.log_tail())?;
            // Once routes were acknowledged, rates of before go. Until then buckets are not those that requests will find.
            let rates_arrived = eventually(TIMEOUT, async || {
                let dump =
                    client::send(admin, &Request::get("localhost", "/config_dump?resource=ecds_filters")).await?;
                let dump: Value = serde_json::from_str(&dump.body)?;
                let snapshot = self.portcullis.snapshot().await?;
                let own = snapshot["gateways"].as_array().into_iter().flatten().find(|one| one["gateway"] == gateway);
                let own = own.with_context(|| format!("{gateway} is in no snapshot"))?;
                let (has, shall) = (rates(&dump), rates(&own["extensions"]));
                ensure!(has == shall, "{gateway} has rates {has:?}, and shall have {shall:?}");
                Ok(())
            });
            rates_arrived.await.with_context(|| format!("world {number}"))?;
            for port in ports {
                // The worker takes routes before it takes the next connection.
                client::send(&Target::local(self.renderer.port(gateway, *port)?), &Request::get(SENTINEL, "/")).await?;
            }
        }
        let mut seen = self.ask(world).await?;
        self.read_routes(&world.requests, &mut seen).await?;
        self.portcullis.check()?;
        // What an API server would not take is not what is compared.
        let log = self.portcullis.log();
        let refused: Vec<_> = log.lines().filter(|line| line.contains(": refused: ")).collect();
        ensure!(refused.is_empty(), "manifests are refused: {refused:?}");
        Ok(seen)
    }

    /// Sends requests one after the other, but for those that backends think about: they are asked beside them.
    async fn ask(&mut self, world: &World) -> Result<Vec<Seen>> {
        let mut sent = Vec::new();
        for (index, asked) in world.requests.iter().enumerate() {
            let target = Target::local(self.renderer.port(asked.gateway, asked.port)?);
            sent.push((index, target, asked));
        }
        let number = self.number;
        let send = async |(index, target, asked): (usize, Target, &Asked)| {
            // By the second one a backend tells attempts of one request from another request.
            let id = id(number, index);
            let request = asked.request.clone().header("user-agent", &id).header(echo::ATTEMPTS_OF, &id);
            let response = client::send(&target, &request).await.with_context(|| asked.to_string())?;
            let client::Response { status, headers, echoed, .. } = response;
            anyhow::Ok((index, Seen { status, headers, echoed, route: None }))
        };
        let (late, others): (Vec<_>, Vec<_>) =
            sent.into_iter().partition(|(.., asked)| asked.respond().delay.is_some());
        let others = async {
            let mut seen = Vec::new();
            for one in others {
                seen.push(send(one).await?);
            }
            anyhow::Ok(seen)
        };
        let (late, mut seen) = futures::try_join!(futures::future::try_join_all(late.into_iter().map(&send)), others)?;
        seen.extend(late);
        seen.sort_by_key(|(index, _)| *index);
        Ok(seen.into_iter().map(|(_, seen)| seen).collect())
    }

    /// Reads from the logs which route each request took, and took last where it was redirected.
    async fn read_routes(&mut self, requests: &[Asked], seen: &mut [Seen]) -> Result<()> {
        for envoy in self.envoys.values_mut() {
            envoy.process.check_alive()?;
        }
        let routes = eventually(TIMEOUT, async || {
            let logs = self.envoys.values().map(|envoy| envoy.process.log());
            let routes: BTreeMap<String, Option<String>> = logs.flat_map(|log| routes(&log)).collect();
            let routes = (0..requests.len()).map(|index| routes.get(&id(self.number, index)).cloned());
            routes.collect::<Option<Vec<_>>>().context("requests are missing in the access logs")
        });
        for (seen, route) in seen.iter_mut().zip(routes.await?) {
            seen.route = route;
        }
        Ok(())
    }
}

impl Seen {
    /// The backend that answered.
    pub fn backend(&self) -> Option<&str> {
        self.echoed.as_ref().map(|echoed| echoed.backend.as_str())
    }

    /// Fails if an outcome is something else.
    pub fn compare(&self, outcome: &Outcome) -> Result<()> {
        let same = match outcome.answer() {
            Answer::DirectResponse(status) => self.status == status && self.echoed.is_none(),
            Answer::Redirect => self.status == 302 && self.echoed.is_none(),
            Answer::Backends { names, broken_share } => match self.backend() {
                Some(backend) => self.status == 200 && names.contains(backend),
                None => self.status == 500 && broken_share,
            },
        };
        ensure!(same, "{self}, and not {outcome}");
        self.is_taken_by(outcome)
    }

    /// Fails if another match took it than the one of an outcome.
    pub fn is_taken_by(&self, outcome: &Outcome) -> Result<()> {
        let named = match (&self.route, outcome.route_identity()) {
            (None, None) => true,
            (Some(name), Some(identity)) => is_named(name, &identity.to_string()),
            _ => false,
        };
        ensure!(named, "{self}, and not {outcome}");
        Ok(())
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backend = self.backend().unwrap_or("no backend");
        write!(f, "{} by {} from {backend}", self.status, self.route.as_deref().unwrap_or("no route"))
    }
}

/// Whether an Envoy route has the name of a match; those of one match that takes several are numbered.
fn is_named(route: &str, identity: &str) -> bool {
    route.strip_prefix(identity).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A route by which a world shows that it is served, on each port.
fn sentinel(number: usize) -> Value {
    let redirect = json!({"type": "RequestRedirect", "requestRedirect": {"path":
        {"type": "ReplaceFullPath", "replaceFullPath": served_at(number)}, "statusCode": 302}});
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "sentinel", "namespace": "infra"},
        "spec": {
            "parentRefs": GATEWAYS.map(|(gateway, _)| json!({"name": gateway.trim_start_matches("infra/")})),
            "hostnames": [SENTINEL],
            "rules": [{
                "matches": [{"path": {"type": "Exact", "value": format!("/world/{number}")}}], "filters": [redirect],
            }],
        },
    })
}

/// Where the sentinel of a world leads, and no other route.
fn served_at(number: usize) -> String {
    format!("/served/{number}")
}

/// The rates for which there are buckets in configurations of extensions, by the values of their descriptors.
fn rates(configs: &Value) -> BTreeSet<&str> {
    let below = match configs {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    };
    let own = configs["entries"].as_array().into_iter().flatten().filter_map(|entry| entry["value"].as_str());
    own.chain(below.into_iter().flat_map(rates)).collect()
}

fn render(renderer: &mut Renderer, mut documents: Vec<Value>) -> Result<String> {
    for document in &mut documents {
        renderer.render(document)?;
    }
    manifests::print(&documents)
}

fn id(world: usize, request: usize) -> String {
    format!("world-{world}-request-{request}")
}

/// User agents and route names of an access log.
fn routes(log: &str) -> Vec<(String, Option<String>)> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    // Another line follows one of a redirect that was followed.
    let lines = lines.filter(|line| line["response_code_details"] != "internal_redirect");
    let field = |line: &Value, name: &str| Some(line.get(name)?.as_str()?.to_owned());
    lines.filter_map(|line| Some((field(&line, "user_agent")?, field(&line, "route_name")))).collect()
}
