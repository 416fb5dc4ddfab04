//! `run` with `--strict-with` and `--strict-socket`: requests through a real Envoy, while another one, or a program in its place,
//! is asked before anything is sent.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{self, Connection, Request, Target};
use portcullis_tests::echo::Echo;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::process::envoy_binary;
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, objects::service, ports};
use tokio::task::JoinHandle;

use crate::agent::Agent;
use crate::fake::Fake;

/// What an Envoy does in whose place this is: it refuses, dies of, and takes long for what says so, unless it answers by itself.
const MOODY: &str = "\
import time
if b'does-wrong' in data: refuse('there is \"does-wrong\" in it')
if b'kills' in data: os.kill(os.getpid(), signal.SIGSEGV)
if b'takes-long' in data: time.sleep(2)
if b'never-ends' in data: time.sleep(60)
";

/// A rule for a path whose requests are told this.
fn rule(path: &str, said: &str) -> String {
    let header = format!("requestHeaderModifier: {{set: [{{name: x-said, value: '{said}'}}]}}");
    let filter = format!("{{type: RequestHeaderModifier, {header}}}");
    format!(
        "  - {{matches: [{{path: {{value: {path}}}}}], filters: [{filter}], backendRefs: [{{name: s, port: 80}}]}}\n"
    )
}

pub(crate) fn route(name: &str, rules: &[(&str, &str)]) -> (String, String) {
    let rules: String = rules.iter().map(|(path, said)| rule(path, said)).collect();
    (format!("{name}.yaml"), objects::Route { name, rules: &rules, ..Default::default() }.to_string())
}

pub(crate) struct World {
    echo: Echo,
    port: u16,
    pub(crate) files: Vec<(String, String)>,
}

impl World {
    pub(crate) async fn new(routes: &[(String, String)]) -> Result<Self> {
        let (echo, port) = (Echo::start("backend", ([127, 0, 0, 1], 0).into()).await?, ports::free_port()?);
        let listener = format!("{{name: http, port: {port}, protocol: HTTP}}");
        let base = format!("{}{}", objects::gateway(&[listener]), service("s", &echo));
        let files = [("a.yaml".to_owned(), base)].into_iter().chain(routes.iter().cloned()).collect();
        Ok(Self { echo, port, files })
    }

    /// A Service of this name, with the same backend.
    pub(crate) fn service(&self, name: &str) -> String {
        service(name, &self.echo)
    }

    /// The same with one more listener of the Gateway, which has all routes too; and where that is.
    pub(crate) fn with_another_listener(mut self) -> Result<(Self, Target)> {
        let port = ports::free_port()?;
        let (_, base) = &mut self.files[0];
        *base =
            base.replacen("listeners: [", &format!("listeners: [{{name: another, port: {port}, protocol: HTTP}}, "), 1);
        Ok((self, Target::local(port)))
    }

    pub(crate) fn target(&self) -> Target {
        Target::local(self.port)
    }

    /// What comes of a request: its status, and what the backend was told.
    async fn get(&self, target: &Target, path: &str) -> Result<(u16, String)> {
        let response = client::send(target, &Request::get("example.com", path)).await?;
        let said = self.echo.latest(|seen| seen.path == path).and_then(|seen| seen.header("x-said"));
        Ok((response.status, said.unwrap_or_default()))
    }

    pub(crate) async fn answers(&self, path: &str, status: u16, said: &str, portcullis: &Portcullis) -> Result<()> {
        self.answers_at(&self.target(), path, (status, said), portcullis).await
    }

    pub(crate) async fn answers_at(
        &self,
        target: &Target,
        path: &str,
        (status, said): (u16, &str),
        portcullis: &Portcullis,
    ) -> Result<()> {
        let answers = eventually(TIMEOUT, async || {
            let (now, told) = self.get(target, path).await?;
            ensure!(now == status && (status != 200 || told == said), "{path}: {now} {told}, not {status} {said}");
            Ok(())
        });
        answers.await.with_context(|| portcullis.log_tail())
    }
}

/// A timeout for what is about something else: what is judged apart may wait a minute for its turn.
const PATIENT: &str = "5m";

fn with(envoy: &Path, timeout: &str) -> Vec<String> {
    let flags = ["--strict-with", &envoy.display().to_string(), "--validation-timeout", timeout];
    flags.map(str::to_owned).to_vec()
}

/// Requests for a path without end, none of which may fail.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicUsize>,
    task: JoinHandle<Result<()>>,
}

impl Load {
    pub(crate) fn start(target: &Target, path: &'static str) -> Self {
        let (target, stop, sent) = (target.clone(), Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (stopped, count) = (stop.clone(), sent.clone());
        let task = tokio::spawn(async move {
            let mut connection = Connection::open(&target).await?;
            while !stopped.load(Ordering::Relaxed) {
                let response = connection.send(&Request::get("example.com", path)).await?;
                ensure!(response.status == 200, "{path}: {} {}", response.status, response.body);
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        Self { stop, sent, task }
    }

    pub(crate) async fn finish(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await??;
        ensure!(self.sent.load(Ordering::Relaxed) > 0, "nothing was sent");
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_envoy_alone_refuses_answers_500_and_siblings_lose_no_request() -> Result<()> {
    let envoy = Fake::new(MOODY)?;
    let world =
        World::new(&[route("r", &[("/sound", "1"), ("/bad", "1")]), route("other", &[("/other", "1")])]).await?;
    let mut portcullis = Portcullis::start_with(&world.files, &with(&envoy.path, PATIENT)).await?;
    let mut proxy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    for path in ["/sound", "/bad", "/other"] {
        world.answers(path, 200, "1", &portcullis).await?;
    }
    let load = [Load::start(&world.target(), "/sound"), Load::start(&world.target(), "/other")];
    for (number, bad) in ["does-wrong", "kills"].into_iter().enumerate() {
        let said = format!("2-{number}");
        let (name, broken) = route("r", &[("/sound", &said), ("/bad", bad)]);
        portcullis.write(&name, &broken)?;
        world.answers("/bad", 500, "", &portcullis).await?;
        world.answers("/sound", 200, &said, &portcullis).await?;
        let status = portcullis.admin("/debug/status?kind=HTTPRoute").await?.body;
        ensure!(status.contains("Envoy 1.40.0"), "{status}");
        let (name, mended) = route("r", &[("/sound", &said), ("/bad", &said)]);
        portcullis.write(&name, &mended)?;
        world.answers("/bad", 200, &said, &portcullis).await?;
    }
    for load in load {
        load.finish().await.with_context(|| portcullis.log_tail())?;
    }
    portcullis.was_never_refused().await?;
    portcullis.check()?;
    proxy.check().await
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_real_envoy_that_judges_changes_lose_no_request() -> Result<()> {
    let world = World::new(&[route("r", &[("/a", "0")])]).await?;
    let mut portcullis = Portcullis::start_with(&world.files, &with(&envoy_binary()?, PATIENT)).await?;
    let mut proxy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    world.answers("/a", 200, "0", &portcullis).await?;
    let load = Load::start(&world.target(), "/a");
    for number in 1..=20 {
        // To a new backend each time, whose cluster is judged too.
        let backend = format!("s-{number}");
        let (name, content) = route("r", &[("/a", &number.to_string())]);
        let content = content.replace("name: s,", &format!("name: {backend},"));
        // Of one that is gone the endpoints are gone at once, so the Service before stays.
        portcullis.write(&format!("{backend}.yaml"), &service(&backend, &world.echo))?;
        portcullis.write(&name, &content)?;
        world.answers("/a", 200, &number.to_string(), &portcullis).await?;
    }
    load.finish().await.with_context(|| portcullis.log_tail())?;
    portcullis.was_never_refused().await?;
    portcullis.check()?;
    proxy.check().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_never_half_served_and_others_do_not_wait_for_it() -> Result<()> {
    let envoy = Fake::new(MOODY)?;
    let world = World::new(&[route("r", &[("/a", "1"), ("/b", "1")]), route("other", &[("/other", "1")])]).await?;
    let mut portcullis = Portcullis::start_with(&world.files, &with(&envoy.path, PATIENT)).await?;
    let mut proxy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    world.answers("/a", 200, "1", &portcullis).await?;
    world.answers("/b", 200, "1", &portcullis).await?;
    let (name, content) = route("r", &[("/a", "2"), ("/b", "2 takes-long")]);
    portcullis.write(&name, &content)?;
    let (name, content) = route("other", &[("/other", "2")]);
    portcullis.write(&name, &content)?;
    let has_waited = AtomicBool::new(false);
    let arrived = eventually(TIMEOUT, async || {
        let first = world.get(&world.target(), "/a").await?;
        let second = world.get(&world.target(), "/b").await?;
        ensure!(first.0 == 200 && second.0 == 200, "{first:?} {second:?}");
        if first.1 == "2" && second.1 == "1" {
            // No error of this loop: that would be tried again.
            return Ok(Err("half of it is served"));
        }
        has_waited.fetch_or(first.1 == "1", Ordering::Relaxed);
        ensure!(second.1 == "2 takes-long", "not yet");
        Ok(Ok(()))
    });
    arrived.await.with_context(|| portcullis.log_tail())?.map_err(anyhow::Error::msg)?;
    ensure!(has_waited.into_inner(), "it did not wait, so nothing was shown");
    world.answers("/other", 200, "2", &portcullis).await?;
    portcullis.check()?;
    proxy.check().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_never_ends_is_replaced_and_nobody_else_waits_for_long() -> Result<()> {
    let envoy = Fake::new(MOODY)?;
    let world = World::new(&[route("r", &[("/a", "1"), ("/b", "1")]), route("other", &[("/other", "1")])]).await?;
    let flags = with(&envoy.path, "2s");
    let mut portcullis = Portcullis::start_with(&world.files, &flags).await?;
    let mut proxy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    world.answers("/b", 200, "1", &portcullis).await?;
    let load = Load::start(&world.target(), "/other");
    let (name, content) = route("r", &[("/a", "2"), ("/b", "never-ends")]);
    portcullis.write(&name, &content)?;
    world.answers("/b", 500, "", &portcullis).await?;
    load.finish().await.with_context(|| portcullis.log_tail())?;
    portcullis.check()?;
    proxy.check().await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_judge_what_changes_is_sent_after_a_while_and_judged_later() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("socket");
    let world = World::new(&[route("r", &[("/a", "1")])]).await?;
    let flags = ["--strict-socket", &format!("unix:{}", socket.display()), "--validation-timeout", "1s"];
    let flags = flags.map(str::to_owned);
    let mut portcullis = Portcullis::start_with(&world.files, &flags).await?;
    let mut proxy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    world.answers("/a", 200, "1", &portcullis).await?;
    let (name, content) = route("r", &[("/a", "does-wrong")]);
    portcullis.write(&name, &content)?;
    world.answers("/a", 200, "does-wrong", &portcullis).await?;
    let ready = portcullis.admin("/readyz").await?.body;
    ensure!(ready.contains("JudgeUnavailable") && ready.contains("unjudged"), "{ready}");
    let envoy = Fake::new(MOODY)?;
    let agent = Agent::start_in(&envoy.path, folder)?;
    world.answers("/a", 500, "", &portcullis).await?;
    eventually(TIMEOUT, async || {
        let ready = portcullis.admin("/readyz").await?.body;
        ensure!(ready == "ready\n", "{ready}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    drop(agent);
    portcullis.check()?;
    proxy.check().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_envoy_refused_is_served_when_another_one_judges_that_takes_it() -> Result<()> {
    let world = World::new(&[route("r", &[("/a", "does-wrong"), ("/b", "1")])]).await?;
    let envoy = Fake::new(MOODY)?;
    let mut agent = Agent::start(&envoy.path)?;
    let flags = ["--strict-socket".to_owned(), format!("unix:{}", agent.socket().display())];
    let mut portcullis = Portcullis::start_with(&world.files, &flags).await?;
    let mut proxy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    world.answers("/a", 500, "", &portcullis).await?;
    world.answers("/b", 200, "1", &portcullis).await?;
    let load = Load::start(&world.target(), "/b");
    agent.kill().await?;
    let program = std::fs::read_to_string(&envoy.path)?;
    std::fs::write(&envoy.path, program.replace("1.40.0", "1.40.1").replace("does-wrong", "does-else"))?;
    agent.restart()?;
    world.answers("/a", 200, "does-wrong", &portcullis).await?;
    load.finish().await.with_context(|| portcullis.log_tail())?;
    portcullis.check()?;
    proxy.check().await
}

#[tokio::test(flavor = "multi_thread")]
async fn where_it_holds_nothing_is_sent_that_was_not_judged() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("socket");
    let world = World::new(&[route("r", &[("/a", "1")])]).await?;
    let socket = format!("unix:{}", socket.display());
    let flags = ["--strict-socket", &socket, "--validation-timeout", "1s", "--validation-when-unavailable", "hold"];
    let mut portcullis = Portcullis::launch_with(&world.files, &flags.map(str::to_owned))?;
    eventually(TIMEOUT, async || {
        let ready = portcullis.admin("/readyz").await?;
        ensure!(ready.status == 503, "{} {}", ready.status, ready.body);
        ensure!(portcullis.log_tail().contains("no Envoy can be asked"));
        Ok::<_, anyhow::Error>(())
    })
    .await
    .with_context(|| portcullis.log_tail())?;
    let envoy = Fake::new(MOODY)?;
    let mut agent = Agent::start_in(&envoy.path, folder)?;
    portcullis.wait_until_ready().await?;
    let mut proxy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    world.answers("/a", 200, "1", &portcullis).await?;
    // Killed in between: what was there goes on, and what changes waits.
    agent.kill().await?;
    let load = Load::start(&world.target(), "/a");
    let (name, content) = route("r", &[("/a", "2")]);
    portcullis.write(&name, &content)?;
    eventually(TIMEOUT, async || {
        let pending = portcullis.metric("portcullis_validation_pending").await?;
        let available = portcullis.metric("portcullis_validation_available").await?;
        ensure!(pending > Some(0.0) && available == Some(0.0), "{pending:?} {available:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .with_context(|| portcullis.log_tail())?;
    ensure!(world.get(&world.target(), "/a").await? == (200, "1".to_owned()));
    agent.restart()?;
    world.answers("/a", 200, "2", &portcullis).await?;
    load.finish().await.with_context(|| portcullis.log_tail())?;
    portcullis.check()?;
    proxy.check().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_waits_for_nobody_where_nobody_can_be_asked_and_the_gateway_waits_too() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let socket = format!("unix:{}", folder.path().join("socket").display());
    let (name, to_t) = route("t", &[("/t", "1")]);
    let to_t = (name, to_t.replace("name: s,", "name: t,"));
    let mut world = World::new(&[route("r", &[("/a", "1")]), to_t]).await?;
    world.files.push(("service.yaml".to_owned(), service("t", &world.echo)));
    let flags = ["--strict-socket", &socket, "--validation-when-unavailable", "hold"].map(str::to_owned);
    let envoy = Fake::new(MOODY)?;
    let mut agent = Agent::start_in(&envoy.path, folder)?;
    let mut portcullis = Portcullis::start_with(&world.files, &flags).await?;
    let mut proxy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    world.answers("/a", 200, "1", &portcullis).await?;
    world.answers("/t", 200, "1", &portcullis).await?;
    agent.kill().await?;
    let target = "{group: gateway.networking.k8s.io, kind: Gateway, name: gateway}";
    let wide = format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: wide, namespace: infra}}\n\
         spec: {{targetRefs: [{target}], headerModifiers: {{request: {{set: [{{name: x-wide, value: one}}]}}}}}}\n"
    );
    portcullis.write("wide.yaml", &wide)?;
    eventually(TIMEOUT, async || {
        let ready = portcullis.admin("/readyz").await?.body;
        ensure!(ready.contains("1 Gateways"), "{ready}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .with_context(|| portcullis.log_tail())?;
    portcullis.remove("service.yaml")?;
    world.answers("/t", 500, "", &portcullis).await?;
    world.answers("/a", 200, "1", &portcullis).await?;
    portcullis.was_never_refused().await?;
    portcullis.check()?;
    proxy.check().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_match_of_which_nobody_says_anything_answers_500_after_a_restart_too() -> Result<()> {
    let envoy = Fake::new(MOODY)?;
    let world = World::new(&[route("r", &[("/kills", "1")]), route("all", &[("/", "1")])]).await?;
    let flags = with(&envoy.path, "2s");
    let mut portcullis = Portcullis::start_with(&world.files, &flags).await?;
    let mut proxy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    for _ in 0..2 {
        world.answers("/kills", 500, "", &portcullis).await?;
        world.answers("/", 200, "1", &portcullis).await?;
        portcullis.restart().await?;
    }
    portcullis.was_never_refused().await?;
    portcullis.check()?;
    proxy.check().await
}
