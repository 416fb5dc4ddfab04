//! How long Envoy's word takes: sound rows, one that is refused among many, three, and what a process has in memory.
//!
//! The process is warm: the one that a batch goes to was started ahead. So the first figure is of a second batch.
//!
//! Behind it what `Strict` costs where 10,000 rows are there and one route changes, with the judge as a process of its own, as it
//! runs beside a controller: the time from a file written until the last byte of the routes is at a client (on the wire) and until
//! the first answer of a real Envoy that follows it, with nothing else to do before, and one change right after the other; the CPU
//! time of the judge and of all that it starts, the time from the start until all is judged, and the anonymous memory of the judge
//! with what it started, at rest and at most while all is judged. `PORTCULLIS_BIN=target/release/portcullis`.

#![allow(clippy::cast_precision_loss, reason = "figures of four digits")]

#[path = "ads/client.rs"]
mod routes;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use envoy::judged::{Fragment, Kind};
use envoy_types::pb::envoy::config::route::v3::{
    Route, RouteAction, RouteMatch, route::Action, route_action::ClusterSpecifier, route_match::PathSpecifier,
};
use envoy_types::pb::google::protobuf::Any;
use ir::settings::Edge;
use judge::{Budget, Judge, Launch, Runner, Verdict, Way};
use portcullis_tests::client::{self, Request, Target};
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::process::{Process, envoy_binary, portcullis_binary};
use portcullis_tests::wait::eventually;
use portcullis_tests::{objects, ports};
use prost::Message;

/// How often each is measured; the median is printed.
const TIMES: usize = 5;

/// A row that no other turn has, sound or refused.
fn row(turn: usize, number: usize, is_sound: bool) -> Fragment {
    let unknown = Any { type_url: "type.googleapis.com/no.such.Type".into(), value: Vec::new() };
    let route = Route {
        name: format!("apps/shop-{turn}/{number}/0"),
        r#match: Some(RouteMatch {
            path_specifier: Some(PathSpecifier::PathSeparatedPrefix(format!("/some/path/of/{turn}/{number}"))),
            ..RouteMatch::default()
        }),
        action: Some(Action::Route(RouteAction {
            cluster_specifier: Some(ClusterSpecifier::Cluster("service/apps/shop/80".into())),
            ..RouteAction::default()
        })),
        typed_per_filter_config: (!is_sound).then(|| ("cors".to_owned(), unknown)).into_iter().collect(),
        ..Route::default()
    };
    Fragment::new(Kind::Row, route.encode_to_vec())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let (program, envoy) = (portcullis_binary()?, envoy_binary()?);
    let arguments = vec!["judge-child".to_owned()];
    let started = Instant::now();
    let runner = Runner::start(Launch { program, arguments, envoy, folder: None, time: Launch::TIME })?;
    println!("{}, which says so after {:.0} ms", runner.build().as_str(), millis(started));
    let judge = Judge::new(Way::Here(runner), &Edge::default());
    println!("{:>8} {:>10} {:>12} {:>12}", "rows", "refused", "time", "processes");
    let mut turn = 0;
    for (count, culprits) in [(1, 0), (1_000, 0), (10_000, 0), (1_000, 1), (1_000, 3), (10_000, 1)] {
        let mut measured = Vec::new();
        for _ in 0..=TIMES {
            turn += 1;
            let is_culprit = |number: usize| culprits > 0 && number % (count / culprits) == count / culprits / 3;
            let rows: Vec<_> = (0..count).map(|number| row(turn, number, !is_culprit(number))).collect();
            let mut budget = Budget { runs: 1_000, until: tokio::time::Instant::now() + Duration::from_mins(5) };
            let before = Instant::now();
            let verdicts = judge.judge(&rows, &mut budget).await;
            measured.push((millis(before), 1_000 - budget.runs));
            let refused = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Refused(_))).count();
            ensure!(refused == culprits, "{refused} of {culprits} were found");
        }
        measured.remove(0);
        measured.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (time, processes) = measured[TIMES / 2];
        println!("{count:>8} {culprits:>10} {time:>9.0} ms {processes:>12}");
    }
    let titles = ["on the wire", "answered", "one by one"];
    let titles = titles.map(|title| format!("{title:>11} {:>9}", "99 of 100"));
    println!("{:<10} {} {:>8}", "one change", titles.join(" "), "start");
    for name in ["Standard", "Strict"] {
        let agent = if name == "Strict" { Some(Agent::start().await?) } else { None };
        let rest = agent.as_ref().map(Agent::anonymous).transpose()?;
        let mut most_used = 0;
        let (files, port) = world()?;
        let began = Instant::now();
        let mut portcullis = Portcullis::launch_with(&files, &agent.as_ref().map_or(Vec::new(), Agent::asked))?;
        {
            let mut ready = pin!(portcullis.wait_until_ready());
            // Between two looks at what is in memory.
            let mut looks = tokio::time::interval(Duration::from_millis(2));
            loop {
                tokio::select! {
                    ready = &mut ready => break ready?,
                    _ = looks.tick() => if let Some(agent) = &agent {
                        most_used = most_used.max(agent.anonymous()?);
                    }
                }
            }
        }
        let start = millis(began);
        let before = agent.as_ref().map(Agent::cpu).transpose()?;
        let all = [
            on_the_wire(&portcullis, port).await?,
            changes(&portcullis, port, CHANGES + 1, PAUSE).await?,
            changes(&portcullis, port, 2 * CHANGES + 1, Duration::ZERO).await?,
        ];
        let all = all.map(|times| format!("{:>8.1} ms {:>6.1} ms", times[CHANGES / 2], times[CHANGES * 99 / 100]));
        println!("{name:<10} {} {start:>5.0} ms", all.join(" "));
        if let (Some(agent), Some(before), Some(rest)) = (agent, before, rest) {
            let used = (agent.cpu()?.saturating_sub(before)).as_secs_f64() * 1e3 / (3 * CHANGES) as f64;
            let [rest, most] = [rest, most_used].map(|bytes| bytes as f64 / 1e6);
            println!(
                "judge: {used:.0} ms CPU a change, {rest:.0} MB anonymous at rest, at most {most:.0} MB at the start"
            );
        }
    }
    Ok(())
}

/// `portcullis judge`, as it runs beside a controller.
struct Agent {
    process: Process,
    folder: tempfile::TempDir,
}

impl Agent {
    /// Starts it, and waits until the process for the first batch waits.
    async fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let listen = format!("unix:{}", text(folder.path().join("socket")));
        let arguments =
            ["judge".to_owned(), "--envoy".to_owned(), text(envoy_binary()?), "--listen".to_owned(), listen];
        let process = Process::start("judge", &portcullis_binary()?, arguments, folder.path().join("log"))?;
        let this = Self { process, folder };
        eventually(TIMEOUT, async || {
            ensure!(this.folder.path().join("socket").exists(), "{}", this.process.log_tail());
            ensure!(!this.process.children()?.is_empty(), "nothing was started ahead");
            anyhow::Ok(())
        })
        .await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(this)
    }

    /// How a controller asks it.
    fn asked(&self) -> Vec<String> {
        let socket = self.folder.path().join("socket");
        ["--strict-socket".to_owned(), format!("unix:{}", socket.display())].to_vec()
    }

    /// CPU time of it and of all that it started and that has ended.
    fn cpu(&self) -> Result<Duration> {
        let id = self.process.id().context("it runs")?;
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
        // What stands behind the name, which may have anything in it.
        let (_, fields) = stat.rsplit_once(')').context("no fields")?;
        let times = fields.split_whitespace().skip(11).take(4);
        let ticks: u64 = times.map(|ticks| ticks.parse::<u64>().unwrap_or_default()).sum();
        Ok(Duration::from_millis(ticks * 10))
    }

    /// What it and all that it started have in memory that no file backs, in bytes.
    fn anonymous(&self) -> Result<u64> {
        let own = self.process.id().context("it runs")?;
        let mut total = 0;
        for id in self.process.children()?.into_iter().chain([own]) {
            // One may end meanwhile.
            let Ok(status) = std::fs::read_to_string(format!("/proc/{id}/status")) else { continue };
            let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
            let kilobytes = line.map(|line| line.trim().trim_end_matches(" kB").parse::<u64>()).transpose()?;
            total += kilobytes.unwrap_or_default() << 10;
        }
        Ok(total)
    }
}

/// Routes that are there, matches of each, and changes that are timed.
const ROUTES: usize = 1_250;
const MATCHES: usize = 8;
const CHANGES: usize = 200;
/// After which nothing is left to do of the change before.
const PAUSE: Duration = Duration::from_millis(300);
/// How long anything may take.
const TIMEOUT: Duration = Duration::from_mins(2);

/// What is there and the route that changes, each as a file with its name, and the port.
fn world() -> Result<([(String, String); 2], u16)> {
    let port = ports::free_port()?;
    let mut base = objects::gateway(&[format!("{{name: http, port: {port}, protocol: HTTP}}")]);
    for number in 0..ROUTES {
        let paths: Vec<_> = (0..MATCHES).map(|at| format!("/all/{number}/{at}")).collect();
        base += &route(&format!("all-{number}"), &paths);
    }
    Ok(([("base.yaml".to_owned(), base), ("one.yaml".to_owned(), one(0))], port))
}

fn one(change: usize) -> String {
    route("one", &[format!("/one/{change}")])
}

/// How long it takes until one change of one route is at a client, each of many, sorted.
async fn on_the_wire(portcullis: &Portcullis, port: u16) -> Result<Vec<f64>> {
    let mut client = routes::Client::connect(portcullis, &format!("http/{port}")).await?;
    client.until("/one/0").await?;
    let mut times = Vec::new();
    for change in 1..=CHANGES {
        tokio::time::sleep(PAUSE).await;
        let began = Instant::now();
        portcullis.write("one.yaml", &one(change))?;
        client.until(&format!("/one/{change}")).await?;
        times.push(millis(began));
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// How long it takes until one change of one route is served, each of many from the number on, sorted.
async fn changes(portcullis: &Portcullis, port: u16, first: usize, pause: Duration) -> Result<Vec<f64>> {
    let _proxy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    let target = Target::local(port);
    let is_served = async |change: usize| {
        let request = Request::get("example.com", &format!("/one/{change}"));
        eventually(TIMEOUT, async || {
            let status = client::send(&target, &request).await?.status;
            ensure!(status == 302, "{status}");
            Ok::<_, anyhow::Error>(())
        })
        .await
    };
    is_served(first - 1).await?;
    let mut times = Vec::new();
    for change in first..first + CHANGES {
        tokio::time::sleep(pause).await;
        let began = Instant::now();
        portcullis.write("one.yaml", &one(change))?;
        is_served(change).await?;
        times.push(millis(began));
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn route(name: &str, paths: &[String]) -> String {
    let mut matches = String::new();
    for path in paths {
        let _ = write!(matches, "{{path: {{value: {path}}}}}, ");
    }
    let moved = "{type: RequestRedirect, requestRedirect: {port: 8443}}";
    let rules = format!("  - {{matches: [{matches}], filters: [{moved}]}}");
    objects::Route { name, rules: &rules, ..Default::default() }.to_string()
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
