//! Limits of all proxies together, counted by Envoy's own service in Redis, as the documentation sets them up.

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{Connection, Request, Response, Target, send};
use portcullis_tests::echo::Echo;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::ports;
use portcullis_tests::process::{freeze, root, thaw};
use portcullis_tests::ratelimit::RateLimit;
use portcullis_tests::wait::{TIMEOUT, eventually};
use tokio::sync::Mutex;

/// The host of the example.
const COUNTED: &str = "counted.example.com";

/// The file of limits on the page about providers.
fn limits() -> Result<String> {
    let page = std::fs::read_to_string(root().join("docs/extensions.md"))?;
    let mut blocks = page.split("```yaml\n").skip(1).filter_map(|block| block.split("```").next());
    Ok(blocks.find(|block| block.starts_with("domain: ")).context("no limits on the page")?.to_owned())
}

/// The quickstart with the example beside it, a proxy of it, and who counts.
struct World {
    portcullis: Portcullis,
    bootstrap: serde_json::Value,
    envoy: Envoy,
    target: Target,
    counter: RateLimit,
    example: String,
    _backend: Echo,
}

impl World {
    /// As it is before the example is applied.
    async fn start() -> Result<Self> {
        let counter = RateLimit::start(&limits()?).await?;
        let backend = Echo::start("a", ([127, 0, 0, 1], 0).into()).await?;
        let port = ports::free_port()?;
        let example = |name: &str| anyhow::Ok(std::fs::read_to_string(root().join("examples").join(name))?);
        let quickstart = [("port: 8080", port.to_string()), ("port: 9001", backend.address().port().to_string())];
        let mut files = Vec::new();
        for entry in std::fs::read_dir(root().join("examples/quickstart"))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let mut text = example(&format!("quickstart/{name}"))?;
            for (from, to) in &quickstart {
                text = text.replace(from, &format!("port: {to}"));
            }
            files.push((name, text));
        }
        let counted = example("ratelimit/limits.yaml")?;
        let route = counted.split("---\n").find(|text| text.contains("kind: HTTPRoute")).context("no route")?;
        files.push(("limits.yaml".to_owned(), route.to_owned()));
        let portcullis = Portcullis::start(&files).await?;
        let bootstrap = portcullis.bootstrap("quickstart/edge").await?;
        let envoy = Envoy::start(&bootstrap).await?;
        let example = counted.replace("  port: 8081\nendpoints", &format!("  port: {}\nendpoints", counter.port()));
        let target = Target::local(port);
        Ok(Self { portcullis, bootstrap, envoy, target, counter, example, _backend: backend })
    }

    /// Applies the example with `more` of its extension said.
    fn limit(&self, more: &str) -> Result<()> {
        self.portcullis.write(
            "limits.yaml",
            &self.example.replace("  rateLimit:\n    domain", &format!("  rateLimit:\n{more}    domain")),
        )
    }

    async fn becomes(&self, what: &str, request: &Request, is: impl Fn(&Response) -> bool) -> Result<()> {
        let answered = eventually(TIMEOUT, async || {
            let response = send(&self.target, request).await?;
            ensure!(is(&response), "{} {:?} {:.200}", response.status, response.headers, response.body);
            Ok(())
        });
        answered.await.with_context(|| format!("{what}\n{}", self.portcullis.log_tail()))
    }

    async fn statuses(&self, request: &Request, count: usize) -> Result<Vec<u16>> {
        let mut statuses = Vec::new();
        for _ in 0..count {
            statuses.push(send(&self.target, request).await?.status);
        }
        Ok(statuses)
    }
}

fn of(team: &str) -> Request {
    Request::get(COUNTED, "/").header("x-team", team)
}

/// What is left, as an answer says.
fn left(response: &Response) -> Option<String> {
    response.header("x-ratelimit-remaining")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_from_the_documentation_holds_whoever_connects_and_whatever_starts_anew() -> Result<()> {
    let mut world = World::start().await?;
    world.becomes("served", &Request::get(COUNTED, "/"), |response| response.status == 200).await?;
    let old = Mutex::new(Connection::open(&world.target).await?);
    ensure!(old.lock().await.send(&of("old")).await?.status == 200, "not served");
    // Nobody is let in because the service is slow.
    world.limit("    timeout: 10s\n")?;
    // A connection that was open before is counted, and ends where the limit is.
    let last = eventually(TIMEOUT, async || {
        let response = old.lock().await.send(&of("old")).await?;
        ensure!(response.status == 429, "{} left", left(&response).unwrap_or_default());
        anyhow::Ok(response)
    });
    ensure!(left(&last.await?).as_deref() == Some("0"), "not told");
    let ten_and_two = [[200; 10].as_slice(), &[429; 2]].concat();
    ensure!(world.statuses(&of("one"), 12).await? == ten_and_two, "others are counted by themselves");
    ensure!(world.statuses(&of("probes"), 20).await? == [200; 20], "unlimited");
    ensure!(world.statuses(&Request::get(COUNTED, "/"), 20).await? == [200; 20], "nobody is named");

    // What was counted is neither the proxy's nor the service's.
    world.envoy.check().await?;
    drop(world.envoy);
    world.envoy = Envoy::start(&world.bootstrap).await?;
    world.becomes("still over", &of("one"), |response| response.status == 429).await?;
    world.counter.end().await?;
    world.becomes("nobody counts", &of("one"), |response| response.status == 200).await?;
    world.counter.restart().await?;
    world.becomes("over again", &of("one"), |response| response.status == 429).await?;
    world.portcullis.check()?;
    world.envoy.check().await
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_nobody_counts_pass_or_not_as_is_said() -> Result<()> {
    let mut world = World::start().await?;
    let (opens, closes) = ("    timeout: 500ms\n", "    timeout: 500ms\n    failOpen: false\n");
    for (more, then) in [(opens, 200), (closes, 500)] {
        world.limit(more)?;
        world.becomes("counted", &of("two"), |response| left(response).is_some()).await?;
        let fails = |response: &Response| response.status == then && left(response).is_none();

        // It does not answer. `timeout` is waited for.
        let service = world.counter.id().context("the service ended")?;
        freeze(service).await?;
        world.becomes("slow", &of("two"), fails).await?;
        thaw(service).await?;
        world.becomes("counted again", &of("probes"), |response| response.status == 200).await?;

        // Its Redis is gone.
        world.counter.end_redis().await?;
        world.becomes("cannot count", &of("two"), fails).await?;
        world.counter.restart_redis().await?;
        world.becomes("counts again", &of("two"), |response| left(response).is_some()).await?;

        // It is gone itself.
        world.counter.end().await?;
        world.becomes("away", &of("two"), fails).await?;
        world.counter.restart().await?;
        world.becomes("there again", &of("two"), |response| left(response).is_some()).await?;

        // Over a limit is over a limit, whatever is said of failures.
        world.becomes("over", &of("two"), |response| response.status == 429).await?;
        world.counter.end_redis().await?;
        world.counter.restart_redis().await?;
        ensure!(send(&world.target, &Request::get(COUNTED, "/")).await?.status == 200, "a neighbour");
    }
    world.portcullis.check()?;
    world.envoy.check().await
}
