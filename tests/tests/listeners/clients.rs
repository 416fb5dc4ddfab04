//! Certificates of clients, as `spec.tls.frontend` of a Gateway asks for them.

use std::process::Stdio;

use portcullis_tests::certificates::{Authority, Certificate, KeyKind};
use portcullis_tests::client::{Protocol, Tls};
use serde_json::Value;

use super::*;

/// A Gateway with ports of HTTPS whose only route leads to Service `backend`: on `strict` clients are asked for certificates by
/// authority `ca`, on `lax` by whichever, on `open` for none. On each TLS ends for connections too, which go there.
struct Asking {
    portcullis: Portcullis,
    envoy: Envoy,
    echo: Echo,
    strict: u16,
    lax: u16,
    open: u16,
    listeners: Vec<String>,
}

fn files(of: &[(&str, String)]) -> Vec<(String, String)> {
    of.iter().map(|(name, content)| ((*name).to_owned(), content.clone())).collect()
}

const BY_CA: &str = "validation: {caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}";
const BY_WHICHEVER: &str =
    "validation: {caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}], mode: AllowInsecureFallback}";

/// The Gateway with this for port `lax`.
fn said(listeners: &[String], lax: u16, open: u16, validation: &str) -> String {
    let per_port = format!("{{port: {lax}, tls: {{{validation}}}}}, {{port: {open}, tls: {{}}}}");
    let frontend = format!("frontend: {{default: {{{BY_CA}}}, perPort: [{per_port}]}}");
    format!("{}  tls: {{{frontend}}}\n", objects::gateway(listeners))
}

/// What goes to the listeners of TLS.
const STREAMS: &str = "
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {namespace: infra, name: streams}
spec:
  parentRefs: [{name: gateway}]
  hostnames: [strict-stream.example.com, lax-stream.example.com, open-stream.example.com]
  rules:
  - backendRefs: [{name: backend, port: 80}]
";

fn to(port: u16, server: &str, certificate: Option<&Certificate>) -> Target {
    let tls = Tls { certificate: certificate.cloned(), ..Tls::to(server) };
    Target { address: (Ipv4Addr::LOCALHOST, port).into(), protocol: Protocol::Http1, tls: Some(tls) }
}

impl Asking {
    async fn start(authority: &Authority) -> Result<Self> {
        Self::start_with(authority, &[]).await
    }

    /// The same with settings.
    async fn start_with(authority: &Authority, arguments: &[String]) -> Result<Self> {
        let echo = Echo::start("backend", (Ipv4Addr::LOCALHOST, 0).into()).await?;
        let ports = [ports::free_port()?, ports::free_port()?, ports::free_port()?];
        let [strict, lax, open] = ports;
        let tls = "tls: {certificateRefs: [{name: shown}]}";
        let listeners = [("strict", strict), ("lax", lax), ("open", open)];
        let listeners = listeners.map(|(name, port)| {
            let listener = |name: &str, protocol| {
                format!("{{name: {name}, hostname: {name}.example.com, port: {port}, protocol: {protocol}, {tls}}}")
            };
            format!("{}, {}", listener(name, "HTTPS"), listener(&format!("{name}-stream"), "TLS"))
        });
        let hosts = "strict.example.com, lax.example.com, open.example.com";
        let rules = "  - backendRefs: [{name: backend, port: 80}]";
        let route = objects::Route { name: "route", rules, hosts, ..Default::default() };
        let shown = Certificate::new(&["*.example.com".to_owned()], KeyKind::Ecdsa)?;
        let secret = objects::secret("shown", &shown.certificate, &shown.key);
        let base = format!("{secret}{}{route}{STREAMS}", objects::service("backend", &echo));
        let first = said(&listeners, lax, open, BY_WHICHEVER);
        let files = files(&[
            ("base.yaml", base),
            ("ca.yaml", objects::authorities("ca", &[&authority.pem])),
            ("gateway.yaml", first),
        ]);
        let portcullis = Portcullis::start_with(&files, arguments).await?;
        let envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
        Ok(Self { portcullis, envoy, echo, strict, lax, open, listeners: listeners.to_vec() })
    }

    /// Writes the Gateway with this for port `lax`.
    fn says(&self, lax: &str) -> Result<()> {
        self.portcullis.write("gateway.yaml", &said(&self.listeners, self.lax, self.open, lax))
    }

    fn name(&self, port: u16) -> &'static str {
        match port {
            _ if port == self.strict => "strict",
            _ if port == self.lax => "lax",
            _ => "open",
        }
    }

    fn target(&self, port: u16, certificate: Option<&Certificate>) -> Target {
        to(port, &format!("{}.example.com", self.name(port)), certificate)
    }

    /// The listener of TLS.
    fn stream(&self, port: u16, certificate: Option<&Certificate>) -> Target {
        let mut target = to(port, &format!("{}-stream.example.com", self.name(port)), certificate);
        target.tls = target.tls.map(|tls| Tls { without_alpn: true, ..tls });
        target
    }

    fn request(target: &Target) -> Request {
        let name = target.tls.as_ref().and_then(|tls| tls.server_name.clone());
        Request::get(&name.unwrap_or_default(), "/asked")
    }

    async fn answers(&self, port: u16, certificate: Option<&Certificate>) -> Result<client::Response> {
        self.lets_in(&self.target(port, certificate)).await
    }

    async fn refuses(&self, port: u16, certificate: Option<&Certificate>) -> Result<()> {
        self.keeps_out(&self.target(port, certificate)).await
    }

    /// Connections to a port, over each protocol, of clients that show no certificate. Each had an answer.
    async fn opened(&self, port: u16) -> Result<Vec<Connection>> {
        let mut opened = Vec::new();
        for protocol in [Protocol::Http1, Protocol::H2] {
            let target = Target { protocol, ..self.target(port, None) };
            self.lets_in(&target).await?;
            let mut connection = Connection::open(&target).await?;
            let response = connection.send(&Self::request(&target)).await?;
            ensure!(response.status == 200, "{protocol:?}: {}", response.status);
            opened.push(connection);
        }
        Ok(opened)
    }

    async fn lets_in(&self, target: &Target) -> Result<client::Response> {
        let answered = eventually(TIMEOUT, async || {
            let response = client::send(target, &Self::request(target)).await?;
            ensure!(response.status == 200, "{} {}", response.status, response.body);
            Ok(response)
        });
        answered.await.with_context(|| self.portcullis.log_tail())
    }

    /// A client gets no answer, and no request of it comes to the backend.
    async fn keeps_out(&self, target: &Target) -> Result<()> {
        let refused = eventually(TIMEOUT, async || {
            let answer = client::send(target, &Self::request(target)).await;
            ensure!(answer.is_err(), "{answer:?}");
            Ok(())
        });
        refused.await.with_context(|| self.portcullis.log_tail())?;
        let before = self.echo.total();
        ensure!(client::send(target, &Self::request(target)).await.is_err(), "a client was let in");
        ensure!(self.echo.total() == before, "a request came through");
        Ok(())
    }

    /// The sum of the statistics of Envoy with a name.
    async fn count(&self, stat: &str) -> Result<u64> {
        let stats = self.envoy.stats().await?;
        Ok(stats.iter().filter(|(name, _)| name.contains(stat)).map(|(_, count)| count).sum())
    }

    async fn end(mut self) -> Result<()> {
        self.portcullis.was_never_refused().await?;
        self.portcullis.check()?;
        self.envoy.check().await
    }
}

fn names() -> Vec<String> {
    vec!["client.example".to_owned()]
}

#[tokio::test(flavor = "multi_thread")]
async fn whom_no_authority_vouches_for_is_let_in_where_that_is_asked_for_and_nowhere_else() -> Result<()> {
    let authority = Authority::new("own")?;
    let (own, other) = (authority.issue(&names())?, Authority::new("other")?.issue(&names())?);
    let world = Asking::start(&authority).await?;
    for certificate in [None, Some(&own), Some(&other)] {
        world.answers(world.lax, certificate).await?;
        world.answers(world.open, certificate).await?;
    }
    world.answers(world.strict, Some(&own)).await?;
    world.refuses(world.strict, None).await?;
    world.refuses(world.strict, Some(&other)).await?;
    // Gateway API has clients asked there too.
    for (port, is_asked) in [(world.strict, true), (world.lax, true), (world.open, false)] {
        let name = format!("{}.example.com", world.name(port));
        let said = resumed(port, &name, "-tls1_2", &[]).await?;
        ensure!(said.contains("Client Certificate Types") == is_asked, "{name}: {said}");
    }
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_of_tls_asks_whom_one_of_https_would() -> Result<()> {
    let authority = Authority::new("own")?;
    let (own, other) = (authority.issue(&names())?, Authority::new("other")?.issue(&names())?);
    let world = Asking::start(&authority).await?;
    for certificate in [None, Some(&own), Some(&other)] {
        world.lets_in(&world.stream(world.lax, certificate)).await?;
        world.lets_in(&world.stream(world.open, certificate)).await?;
    }
    world.lets_in(&world.stream(world.strict, Some(&own))).await?;
    // Of an authority of the same name with another key, and one with a key that is not its own.
    let namesake = Authority::new("own")?.issue(&names())?;
    for certificate in [None, Some(&other), Some(&namesake), Some(&own.with_key_of(&other))] {
        world.keeps_out(&world.stream(world.strict, certificate)).await?;
        world.keeps_out(&world.target(world.strict, certificate)).await?;
    }
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_says_nothing_of_certificates_by_a_header() -> Result<()> {
    let authority = Authority::new("own")?;
    let own = authority.issue(&names())?;
    let world = Asking::start(&authority).await?;
    for port in [world.strict, world.lax, world.open] {
        world.answers(port, Some(&own)).await?;
        let target = world.target(port, Some(&own));
        let request = Asking::request(&target).header("x-forwarded-client-cert", "Hash=00;Subject=\"CN=admin\"");
        let response = client::send(&target, &request).await?;
        let seen = response.echoed.context("no backend answered")?;
        ensure!(seen.header("x-forwarded-client-cert").is_none(), "{seen:?}");
    }
    world.end().await
}

/// What is said of backends that are told of certificates.
fn telling(said: &str) -> String {
    policy(&format!("{{httpSettings: {{forwardClientCertDetails: {{{said}}}}}}}"), 1, "{}")
}

#[tokio::test(flavor = "multi_thread")]
async fn backends_are_told_of_certificates_as_policies_and_settings_say_and_of_nobody_without_one() -> Result<()> {
    const FORGED: &str = "Hash=00;Subject=\"CN=admin\"";
    let authority = Authority::new("own")?;
    let own = authority.issue(&names())?;
    let told = ["--client-certificate-details".to_owned(), "dns".to_owned()];
    let world = Asking::start_with(&authority, &told).await?;
    // What a client says is the first in each, where it is there.
    for (said, first, shown) in [
        (None, false, "DNS=client.example"),
        (Some("mode: Sanitize"), false, ""),
        (Some("mode: SanitizeSet, details: {subject: true}"), false, "Subject="),
        (Some("details: {cert: true}"), false, "Cert=\"-----BEGIN"),
        (Some("mode: AppendForward, details: {dns: true}"), true, "DNS=client.example"),
        (Some("mode: ForwardOnly"), true, ""),
    ] {
        if let Some(said) = said {
            world.portcullis.write("policy.yaml", &telling(said))?;
        }
        for (port, certificate) in [(world.strict, Some(&own)), (world.lax, Some(&own)), (world.open, None)] {
            let target = world.target(port, certificate);
            let request = Asking::request(&target).header("x-forwarded-client-cert", FORGED);
            let (first, shown) = if port == world.strict { (first, shown) } else { (false, "") };
            let is_told = eventually(TIMEOUT, async || {
                let seen = client::send(&target, &request).await?.echoed.context("no backend answered")?;
                let told = seen.header("x-forwarded-client-cert").unwrap_or_default();
                ensure!(told.starts_with(FORGED) == first && told.contains("admin") == first, "{said:?}: {told}");
                ensure!(
                    told.contains(shown) && told.contains("Hash=") == (first || !shown.is_empty()),
                    "{said:?}: {told}"
                );
                Ok(())
            });
            is_told.await.with_context(|| format!("{} {said:?}", world.name(port)))?;
        }
    }
    // By that one anybody could say that he is somebody else.
    world.portcullis.write("policy.yaml", &telling("mode: AlwaysForwardOnly"))?;
    let closed = eventually(TIMEOUT, async || {
        ensure!(TcpStream::connect((Ipv4Addr::LOCALHOST, world.open)).await.is_err(), "the port is open");
        Ok(())
    });
    closed.await.with_context(|| world.portcullis.log_tail())?;
    world.end().await
}

/// What is asked is asked of a port, so a connection that a client reuses for another hostname leads to none that asks for more.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_reused_reaches_no_hostname_that_asks_for_more() -> Result<()> {
    let authority = Authority::new("own")?;
    let world = Asking::start(&authority).await?;
    world.answers(world.lax, None).await?;
    let target = Target { protocol: Protocol::H2, ..world.target(world.lax, None) };
    let mut connection = Connection::open(&target).await?;
    let response = connection.send(&Asking::request(&target)).await?;
    ensure!(response.status == 200, "{}", response.status);
    for host in ["strict.example.com".to_owned(), format!("strict.example.com:{}", world.strict)] {
        let response = connection.send(&Request::get(&host, "/asked")).await?;
        ensure!(response.status == 404 || response.status == 421, "{host}: {}", response.status);
    }
    world.end().await
}

/// The domains that a route configuration of an Envoy answers 421 for.
fn misdirected(dump: &Value, config: &str) -> Vec<Value> {
    let dynamic = |of: &Value| of["dynamic_route_configs"].as_array().cloned().unwrap_or_default();
    let all = dump["configs"].as_array().into_iter().flatten().flat_map(dynamic);
    let named = all.map(|at| at["route_config"].clone()).filter(|at| at["name"] == config);
    let hosts = named.flat_map(|at| at["virtual_hosts"].as_array().cloned().unwrap_or_default());
    let misdirected = hosts.filter(|host| host["name"] == "misdirected");
    misdirected.flat_map(|host| host["domains"].as_array().cloned().unwrap_or_default()).collect()
}

/// They drain for as long as Envoy lets them, ten minutes here.
#[tokio::test(flavor = "multi_thread")]
async fn connections_from_before_a_certificate_is_demanded_reach_nothing_that_comes_with_it() -> Result<()> {
    const HOST: &str = "lax.example.com";
    let authority = Authority::new("own")?;
    let own = authority.issue(&names())?;
    let world = Asking::start(&authority).await?;
    let private = Echo::start("private", (Ipv4Addr::LOCALHOST, 0).into()).await?;
    let (early, late) = (world.opened(world.lax).await?, world.opened(world.lax).await?);

    // Demand and route are one change.
    let demand = said(&world.listeners, world.lax, world.open, BY_CA);
    let rules = "  - matches: [{path: {value: /private}}]\n    backendRefs: [{name: private, port: 80}]";
    let route = objects::Route { name: "private", hosts: HOST, rules, ..Default::default() };
    let service = objects::service("private", &private);
    world.portcullis.write("gateway.yaml", &format!("{demand}{service}{route}"))?;
    let shown = world.target(world.lax, Some(&own));
    let served = eventually(TIMEOUT, async || {
        let seen =
            client::send(&shown, &Request::get(HOST, "/private")).await?.echoed.context("no backend answered")?;
        ensure!(seen.backend == "private", "{seen:?}");
        Ok(())
    });
    served.await.with_context(|| world.portcullis.log_tail())?;

    // At first they have what they had. One may be closed already.
    let before = Request::get(HOST, "/private/before");
    for mut connection in early {
        if let Ok(response) = connection.send(&before).await {
            ensure!(response.status == 421 || response.echoed.is_some(), "{} {}", response.status, response.body);
        }
    }
    ensure!(private.count(|seen| seen.path == before.path) == 0, "a request came to what is private");
    let config = format!("https/{}/lax", world.lax);
    let over = eventually(TIMEOUT, async || {
        let domains = misdirected(&world.envoy.config_dump().await?, &config);
        ensure!(domains.iter().any(|domain| domain == "*"), "{config} answers 421 for {domains:?}");
        Ok(())
    });
    over.await.with_context(|| world.portcullis.log_tail())?;
    let mut answers = Vec::new();
    for mut connection in late {
        answers.extend(connection.send(&before).await.map(|response| response.status));
    }
    ensure!(!answers.is_empty() && answers.iter().all(|status| *status == 421), "{answers:?}");
    ensure!(private.count(|seen| seen.path == before.path) == 0, "a request came to what is private");
    world.refuses(world.lax, None).await?;
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn authorities_of_clients_that_rotate_drain_nothing_and_hold_for_new_connections() -> Result<()> {
    let (old, new) = (Authority::new("old")?, Authority::new("new")?);
    let (before, after) = (old.issue(&names())?, new.issue(&names())?);
    let world = Asking::start(&old).await?;
    world.answers(world.strict, Some(&before)).await?;
    world.refuses(world.strict, Some(&after)).await?;
    let target = world.target(world.strict, Some(&before));
    let mut connection = Connection::open(&target).await?;
    let changed = async || {
        let listeners = ["listener_manager.listener_added", "listener_manager.listener_modified"];
        anyhow::Ok([world.count(listeners[0]).await?, world.count(listeners[1]).await?])
    };
    let listeners = changed().await?;
    world.portcullis.write("ca.yaml", &objects::authorities("ca", &[&new.pem]))?;
    world.answers(world.strict, Some(&after)).await?;
    world.refuses(world.strict, Some(&before)).await?;
    // Whoever is in stays.
    let response = connection.send(&Asking::request(&target)).await?;
    ensure!(response.status == 200, "{}", response.status);
    ensure!(changed().await? == listeners, "a listener changed");
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_whose_authorities_are_gone_is_closed_until_they_are_back_and_others_go_on() -> Result<()> {
    let authority = Authority::new("own")?;
    let own = authority.issue(&names())?;
    let world = Asking::start(&authority).await?;
    world.answers(world.strict, Some(&own)).await?;
    for nothing in
        ["", &objects::authorities("ca", &["no certificate"]), &objects::authorities("other", &[&authority.pem])]
    {
        world.portcullis.write("ca.yaml", nothing)?;
        for port in [world.strict, world.lax] {
            let closed = eventually(TIMEOUT, async || {
                ensure!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err(), "port {port} is open");
                Ok(())
            });
            closed.await.with_context(|| world.portcullis.log_tail())?;
        }
        world.answers(world.open, None).await?;
    }
    world.portcullis.write("ca.yaml", &objects::authorities("ca", &[&authority.pem]))?;
    world.answers(world.strict, Some(&own)).await?;
    world.refuses(world.strict, None).await?;
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_authorities_as_there_may_be_judge_clients_and_more_close_their_port_alone() -> Result<()> {
    let authority = Authority::new("own")?;
    let own = authority.issue(&names())?;
    let world = Asking::start(&authority).await?;
    world.answers(world.open, None).await?;
    let target = world.target(world.open, None);
    let mut neighbour = Connection::open(&target).await?;
    let others = Authority::many(1_000)?;
    let among = |count: usize| {
        let all: Vec<_> = others[..count].iter().chain([&authority.pem]).map(String::as_str).collect();
        objects::authorities("ca", &all)
    };
    let padding = format!("{}{}", authority.pem, "# padding\n".repeat(1_000_000));
    for beyond in [among(1_000), objects::authorities("ca", &[&padding]), among(256)] {
        world.portcullis.write("ca.yaml", &among(255))?;
        world.answers(world.strict, Some(&own)).await?;
        world.refuses(world.strict, None).await?;
        world.portcullis.write("ca.yaml", &beyond)?;
        let closed = eventually(TIMEOUT, async || {
            ensure!(TcpStream::connect((Ipv4Addr::LOCALHOST, world.strict)).await.is_err(), "the port is open");
            Ok(())
        });
        closed.await.with_context(|| world.portcullis.log_tail())?;
        let response = neighbour.send(&Asking::request(&target)).await?;
        ensure!(response.status == 200 && response.header("connection").is_none(), "{}", response.status);
    }
    let told = world.portcullis.snapshot().await?["statuses"].to_string();
    ensure!(told.contains("257 certificates") && told.contains("at most 256, in 262144 bytes"), "{told}");
    world.end().await
}

/// What `openssl s_client` prints that resumes a session, or keeps one.
async fn resumed(port: u16, name: &str, version: &str, session: &[&str]) -> Result<String> {
    let mut client = tokio::process::Command::new("openssl")
        .args(["s_client", "-connect", &format!("127.0.0.1:{port}"), "-servername", name, version, "-ign_eof"])
        .args(session)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let request = format!("GET /resumed HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
    // One that is refused does not read it.
    let _ = client.stdin.take().context("an input")?.write_all(request.as_bytes()).await;
    let output = client.wait_with_output().await?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

/// Who resumes a session shows no certificate again.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_port_that_let_in_anybody_is_no_pass_once_it_does_not() -> Result<()> {
    let authority = Authority::new("own")?;
    let own = authority.issue(&names())?;
    let world = Asking::start(&authority).await?;
    world.answers(world.lax, None).await?;
    let folder = tempfile::tempdir()?;
    for version in ["-tls1_2", "-tls1_3"] {
        world.says(BY_WHICHEVER)?;
        world.answers(world.lax, None).await?;
        let file = folder.path().join(version).display().to_string();
        let first = resumed(world.lax, "lax.example.com", version, &["-sess_out", &file]).await?;
        ensure!(first.contains("200 OK") && first.contains("New, TLS"), "{first}");
        let again = resumed(world.lax, "lax.example.com", version, &["-sess_in", &file]).await?;
        ensure!(again.contains("200 OK") && again.contains("Reused, TLS"), "{version} is not resumed: {again}");
        world.says(BY_CA)?;
        world.refuses(world.lax, None).await?;
        world.answers(world.lax, Some(&own)).await?;
        let before = world.echo.count(|seen| seen.path == "/resumed");
        let strict = resumed(world.lax, "lax.example.com", version, &["-sess_in", &file]).await?;
        ensure!(!strict.contains("200 OK"), "a session was a pass: {strict}");
        ensure!(world.echo.count(|seen| seen.path == "/resumed") == before, "a request came through: {strict}");
        // Nor at a port that was strict before.
        let strict = resumed(world.strict, "strict.example.com", version, &["-sess_in", &file]).await?;
        ensure!(!strict.contains("200 OK"), "a session of another port was a pass: {strict}");
    }
    world.end().await
}

/// Who resumes a session shows no certificate again, though that may have expired, and its authority may be gone.
#[tokio::test(flavor = "multi_thread")]
async fn no_session_is_resumed_where_a_certificate_is_asked_for() -> Result<()> {
    let authority = Authority::new("own")?;
    let own = authority.issue(&names())?;
    let world = Asking::start(&authority).await?;
    world.answers(world.strict, Some(&own)).await?;
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (path("certificate"), path("key"));
    std::fs::write(&certificate, &own.certificate)?;
    std::fs::write(&key, &own.key)?;
    let shown = ["-cert", &certificate, "-key", &key];
    for version in ["-tls1_2", "-tls1_3"] {
        let file = path(version);
        let by = |session| [&shown[..], &[session, &file]].concat();
        let first = resumed(world.strict, "strict.example.com", version, &by("-sess_out")).await?;
        ensure!(first.contains("200 OK") && first.contains("New, TLS"), "{first}");
        ensure!(!first.contains("New Session Ticket"), "{version}: a ticket to resume by: {first}");
        // A client may keep what leads nowhere.
        if std::path::Path::new(&file).exists() {
            let again = resumed(world.strict, "strict.example.com", version, &by("-sess_in")).await?;
            ensure!(again.contains("200 OK") && !again.contains("Reused, TLS"), "{version} is resumed: {again}");
            let without = resumed(world.strict, "strict.example.com", version, &["-sess_in", &file]).await?;
            ensure!(!without.contains("200 OK"), "a session was a pass: {without}");
        }
    }
    world.end().await
}

/// Lets in by the name in a certificate, on each of the ports.
const BY_NAME: &str = "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {namespace: infra, name: by-name}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: route}]
  rbac:
    policy:
      matchExpressions:
      - connection.dns_san_peer_certificate == 'client.example' || connection.mtls
";

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_believes_no_certificate_that_nobody_verified() -> Result<()> {
    let authority = Authority::new("own")?;
    let (own, forged) = (authority.issue(&names())?, Authority::new("own")?.issue(&names())?);
    let world = Asking::start(&authority).await?;
    world.portcullis.write("policy.yaml", BY_NAME)?;
    for (port, certificate) in [
        (world.lax, None),
        (world.lax, Some(&forged)),
        (world.lax, Some(&own)),
        (world.open, Some(&forged)),
        (world.open, None),
    ] {
        let target = world.target(port, certificate);
        let denied = eventually(TIMEOUT, async || {
            let response = client::send(&target, &Asking::request(&target)).await?;
            ensure!(response.status == 403, "{} on {}", response.status, world.name(port));
            Ok(())
        });
        denied.await.with_context(|| world.portcullis.log_tail())?;
    }
    world.answers(world.strict, Some(&own)).await?;
    world.refuses(world.strict, Some(&forged)).await?;
    world.end().await
}

/// Has a provider judge requests, which is told whose certificate a client shows.
const BY_PROVIDER: &str = "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {namespace: infra, name: judge}
spec: {extAuth: {grpcService: {backendRef: {name: backend, port: 80}, requestTimeout: 5s}}}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {namespace: infra, name: judged}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: route}]
  extAuth: {extensionRef: {name: judge}}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_told_of_clients_is_not_asked_where_nobody_judges_them() -> Result<()> {
    let authority = Authority::new("own")?;
    let own = authority.issue(&names())?;
    let world = Asking::start(&authority).await?;
    world.portcullis.write("policy.yaml", BY_PROVIDER)?;
    for certificate in [None, Some(&own)] {
        let target = world.target(world.lax, certificate);
        let denied = eventually(TIMEOUT, async || {
            let response = client::send(&target, &Asking::request(&target)).await?;
            ensure!(response.status == 403, "{}", response.status);
            Ok(())
        });
        denied.await.with_context(|| world.portcullis.log_tail())?;
    }
    world.answers(world.strict, Some(&own)).await?;
    world.answers(world.open, None).await?;
    world.end().await
}
