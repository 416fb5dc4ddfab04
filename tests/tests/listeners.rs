//! How listeners take connections and requests, as a ListenerPolicy says.

use std::net::Ipv4Addr;

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{self, Connection, Request, Target};
use portcullis_tests::echo::Echo;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, ports};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[path = "listeners/clients.rs"]
mod clients;
#[path = "listeners/telemetry.rs"]
mod telemetry;

/// A Gateway with two ports, whose only route leads to Service `backend`.
struct World {
    portcullis: Portcullis,
    envoy: Envoy,
    echo: Echo,
    own: u16,
    other: u16,
}

impl World {
    /// Each of `default` and `own`, which is the own port's, is a flow mapping.
    async fn start(default: &str, own: &str) -> Result<Self> {
        Self::start_with(default, own, &[]).await
    }

    /// The same with settings.
    async fn start_with(default: &str, own: &str, arguments: &[&str]) -> Result<Self> {
        let echo = Echo::start("backend", (Ipv4Addr::LOCALHOST, 0).into()).await?;
        let (port, other) = (ports::free_port()?, ports::free_port()?);
        let listeners = [("own", port), ("other", other)];
        let listeners = listeners.map(|(name, port)| format!("{{name: {name}, port: {port}, protocol: HTTP}}"));
        let rules = "  - backendRefs: [{name: backend, port: 80}]";
        let route = objects::Route { name: "route", rules, ..Default::default() };
        let base = format!("{}{}{route}", objects::gateway(&listeners), objects::service("backend", &echo));
        let files = [("base.yaml".to_owned(), base), ("policy.yaml".to_owned(), policy(default, port, own))];
        let arguments: Vec<_> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let portcullis = Portcullis::start_with(&files, &arguments).await?;
        let envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
        Ok(Self { portcullis, envoy, echo, own: port, other })
    }

    fn says(&self, default: &str, own: &str) -> Result<()> {
        self.portcullis.write("policy.yaml", &policy(default, self.own, own))
    }

    async fn answers(&self, port: u16, request: &Request, status: u16) -> Result<client::Response> {
        let answered = eventually(TIMEOUT, async || {
            let response = client::send(&Target::local(port), request).await?;
            ensure!(response.status == status, "{} {}", response.status, response.body);
            Ok(response)
        });
        answered.await.with_context(|| self.portcullis.log_tail())
    }

    /// Nobody listens on a port.
    async fn is_closed(&self, port: u16) -> Result<()> {
        let closed = eventually(TIMEOUT, async || {
            ensure!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err(), "port {port} is open");
            Ok(())
        });
        closed.await.with_context(|| self.portcullis.log_tail())
    }

    async fn end(mut self) -> Result<()> {
        self.portcullis.was_never_refused().await?;
        self.portcullis.check()?;
        self.envoy.check().await
    }
}

fn policy(default: &str, port: u16, own: &str) -> String {
    format!(
        "
apiVersion: gateway.kgateway.dev/v1alpha1
kind: ListenerPolicy
metadata: {{namespace: infra, name: gateway}}
spec:
  targetRefs: [{{group: gateway.networking.k8s.io, kind: Gateway, name: gateway}}]
  default: {default}
  perPort: [{{port: {port}, listener: {own}}}]
"
    )
}

/// What comes back for bytes that a client sends, until the server closes.
async fn sent(port: u16, bytes: &str) -> Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream.write_all(bytes.as_bytes()).await?;
    let mut answer = Vec::new();
    // A server that closes what it did not read has the rest fail.
    let _ = stream.read_to_end(&mut answer).await;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn get() -> Request {
    Request::get("example.com", "/asked")
}

const RAW: &str = "GET /raw HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n";
const FROM: &str = "PROXY TCP4 192.0.2.7 192.0.2.8 1234 80\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_load_balancer_says_who_the_client_is_and_who_says_nothing_is_closed() -> Result<()> {
    let world = World::start("{}", "{proxyProtocol: {}}").await?;
    world.answers(world.other, &get(), 200).await?;
    let answer = eventually(TIMEOUT, async || {
        let answer = sent(world.own, &format!("{FROM}{RAW}")).await?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        Ok(answer)
    });
    answer.await?;
    let seen = world.echo.latest(|seen| seen.path == "/raw").context("nothing came")?;
    ensure!(seen.header("x-forwarded-for").as_deref() == Some("192.0.2.7"), "{seen:?}");
    let before = world.echo.total();
    let answer = sent(world.own, RAW).await?;
    ensure!(answer.is_empty(), "{answer}");
    ensure!(world.echo.total() == before, "a request came through");

    // Those who say nothing are let in once the policy says so.
    world.says("{}", "{proxyProtocol: {allowRequestsWithoutProxyProtocol: true}}")?;
    world.answers(world.own, &get(), 200).await?;
    ensure!(
        sent(world.own, &format!("{FROM}{RAW}")).await?.starts_with("HTTP/1.1 200"),
        "a header is not read any more"
    );
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_of_a_port_holds_there_and_drains_nobody_elsewhere() -> Result<()> {
    let world = World::start("{}", "{httpSettings: {serverName: shop}}").await?;
    let named = world.answers(world.own, &get(), 200).await?;
    ensure!(named.header("server").as_deref() == Some("shop"), "{:?}", named.headers);
    let other = world.answers(world.other, &get(), 200).await?;
    ensure!(other.header("server").as_deref() != Some("shop"), "{:?}", other.headers);

    let mut stays = Connection::open(&Target::local(world.other)).await?;
    ensure!(stays.send(&get()).await?.status == 200);
    world.says("{}", "{httpSettings: {maxHeadersCount: 4, upgradeConfig: {enabledUpgrades: [spdy/3.1]}}}")?;
    let mut many = get();
    for index in 0..6 {
        many = many.header(&format!("x-{index}"), "a");
    }
    world.answers(world.own, &many, 431).await?;
    ensure!(stays.send(&many).await?.status == 200, "it holds elsewhere");
    ensure!(stays.is_open(), "a connection of another port is drained");
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn x_forwarded_for_is_believed_from_those_who_are_trusted() -> Result<()> {
    let ranges = |range: &str| {
        format!("{{httpSettings: {{useRemoteAddress: false, xffTrustedCIDRs: [{range}], skipXFFAppend: true}}}}")
    };
    let acl = "
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {namespace: infra, name: acl}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: route}]
  acl: {defaultAction: allow, rules: [{cidrs: [192.0.2.7/32], action: deny}]}
";
    let world = World::start("{httpSettings: {xffNumTrustedHops: 1}}", &ranges("127.0.0.0/8")).await?;
    let from = get().header("x-forwarded-for", "192.0.2.7");
    for (port, appended) in [(world.other, true), (world.own, false)] {
        world.answers(port, &from, 200).await?;
        let seen = world.echo.latest(|_| true).context("nothing came")?;
        let seen = seen.header("x-forwarded-for").unwrap_or_default();
        ensure!(seen.starts_with("192.0.2.7") && seen.contains(',') == appended, "{seen}");
    }
    world.portcullis.write("acl.yaml", acl)?;
    for port in [world.other, world.own] {
        world.answers(port, &from, 403).await?;
        world.answers(port, &get(), 200).await?;
    }
    // Whoever is not trusted does not speak for others.
    world.says("{httpSettings: {xffNumTrustedHops: 0}}", &ranges("10.0.0.0/8"))?;
    for port in [world.other, world.own] {
        world.answers(port, &from, 200).await?;
    }
    world.end().await
}

/// Where the address of the connection does not count, headers say who the client is: the proxy in front of this one is not
/// among the trusted ones any more, and nobody is taken for a part of the mesh.
#[tokio::test(flavor = "multi_thread")]
async fn where_headers_alone_say_who_the_client_is_nobody_steers_the_proxy_by_what_he_says() -> Result<()> {
    const STEERING: [&str; 9] = [
        "x-envoy-decorator-operation",
        "x-envoy-downstream-service-cluster",
        "x-envoy-downstream-service-node",
        "x-envoy-external-address",
        "x-envoy-original-host",
        "x-envoy-original-path",
        "x-envoy-force-trace",
        "x-envoy-max-retries",
        "x-envoy-retry-on",
    ];
    let acl = "
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {namespace: infra, name: acl}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: route}]
  acl: {defaultAction: allow, rules: [{cidrs: [198.51.100.7/32], action: deny}]}
";
    let inherits = "{httpSettings: {useRemoteAddress: false}}";
    let own = "{httpSettings: {useRemoteAddress: false, xffNumTrustedHops: 0}}";
    let world = World::start_with(inherits, own, &["--trusted-hops", "2"]).await?;
    world.portcullis.write("acl.yaml", acl)?;
    for port in [world.other, world.own] {
        for client in ["192.0.2.7", "10.0.0.1", "127.0.0.1", "255.255.255.255"] {
            let sent = get().header("x-forwarded-for", &format!("{client}, {client}"));
            let sent = STEERING.iter().fold(sent, |sent, name| sent.header(name, "spoofed"));
            world.answers(port, &sent, 200).await?;
            let seen = world.echo.latest(|_| true).context("nothing came")?;
            for name in STEERING {
                let value = seen.header(name).unwrap_or_default();
                ensure!(!value.contains("spoofed"), "{client}: {name} came through");
            }
        }
    }
    // Two proxies are trusted, of which one is the peer, whose address is not looked at: the last but one is the client.
    let from = |list: &str| get().header("x-forwarded-for", list);
    world.answers(world.other, &from("198.51.100.7, 192.0.2.1"), 403).await?;
    world.answers(world.other, &from("198.51.100.7, 192.0.2.1, 192.0.2.2"), 200).await?;
    world.answers(world.other, &from("192.0.2.1, 198.51.100.7"), 200).await?;
    // And the last one where a policy says that.
    world.answers(world.own, &from("192.0.2.1, 198.51.100.7"), 403).await?;
    world.answers(world.own, &from("198.51.100.7, 192.0.2.1"), 200).await?;
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_is_broken_closes_its_port_until_it_is_sound() -> Result<()> {
    let world = World::start("{}", "{}").await?;
    world.answers(world.own, &get(), 200).await?;
    world.says("{}", "{httpSettings: {localReplies: {}}}")?;
    world.is_closed(world.own).await?;
    world.answers(world.other, &get(), 200).await?;
    world.says("{fromTheFuture: 1}", "{}")?;
    world.is_closed(world.other).await?;
    world.answers(world.own, &get(), 200).await?;
    world.says("{}", "{}")?;
    world.answers(world.other, &get(), 200).await?;
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_logged_as_the_policy_says_and_only_those_it_chooses() -> Result<()> {
    let log = r#"{httpSettings: {accessLog: [
      {fileSink: {path: /dev/stdout, stringFormat: "logged %REQ(:PATH)% %RESPONSE_CODE%\n"},
        filter: {andFilter: [{headerFilter: {header: {name: x-log, value: "yes"}}}, {statusCodeFilter: {op: LE, value: 299}}]}},
      {fileSink: {path: /dev/stderr, jsonFormat: {object: {path: "%REQ(:PATH)%"}}},
        filter: {responseFlagFilter: {flags: [NR]}}}]}}"#;
    let world = World::start("{}", log).await?;
    let request = |path: &str| Request::get("example.com", path);
    world.answers(world.own, &request("/passed"), 200).await?;
    world.answers(world.own, &request("/chosen").header("x-log", "yes"), 200).await?;
    world.answers(world.other, &request("/elsewhere").header("x-log", "yes"), 200).await?;
    let logged = eventually(TIMEOUT, async || {
        let log = world.envoy.log();
        ensure!(log.contains("logged /chosen 200\n"), "{log}");
        Ok(log)
    });
    let log = logged.await?;
    ensure!(!log.contains("logged /passed") && !log.contains("logged /elsewhere"), "{log}");
    world.end().await
}
