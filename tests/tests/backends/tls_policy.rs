//! Connections by TLS, as a BackendTLSPolicy says.

use std::sync::{Arc, Mutex, PoisonError};

use portcullis_tests::certificates::Authority;
use tokio::{io::AsyncReadExt as _, net::TcpListener, task::JoinHandle};

use super::*;

/// The policy `NAME` on Service `backend`, with this validation.
fn tls_policy(name: &str, validation: &str) -> String {
    format!(
        "
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {{namespace: infra, name: {name}}}
spec:
  targetRefs: [{{group: '', kind: Service, name: backend}}]
  validation: {validation}
"
    )
}

/// Validation by ConfigMap `ca`.
fn by_ca(more: &str) -> String {
    format!("{{caCertificateRefs: [{{group: '', kind: ConfigMap, name: ca}}], {more}}}")
}

fn authority(pem: &str) -> String {
    objects::authorities("ca", &[pem])
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_shows_the_name_and_an_authority_of_the_policy_gets_requests() -> Result<()> {
    let names = ["backend.example", "*.wild.example"].map(str::to_owned);
    let own = Certificate::new(&names, KeyKind::Ecdsa)?;
    let other = Certificate::new(&names, KeyKind::Ecdsa)?;
    let echo = Echo::start_tls("backend", (LOOPBACK, 0).into(), own.server(None)?).await?;
    let trusted = authority(&own.certificate);
    let said = |more: &str| format!("{}{trusted}", tls_policy("p", &by_ca(more)));
    let world = World::start(&echo, &said("hostname: backend.example")).await?;
    world.answers(200).await?;
    let alternative = |name: &str| format!("hostname: backend.example, subjectAltNames: [{name}]");
    let among = |others: usize| {
        let others = Authority::many(others)?;
        let all: Vec<_> = others.iter().map(String::as_str).chain([own.certificate.as_str()]).collect();
        anyhow::Ok(objects::authorities("ca", &all))
    };
    for (more, status) in [
        // Somebody else's certificate.
        (said("hostname: other.example"), 503),
        // A certificate for a pattern is one for each name below.
        (said("hostname: a.wild.example"), 200),
        // Of nobody's authority.
        (format!("{}{}", tls_policy("p", &by_ca("hostname: backend.example")), authority(&other.certificate)), 503),
        // Other names count alone.
        (said(&alternative("{type: Hostname, hostname: other.example}")), 503),
        (said(&alternative("{type: Hostname, hostname: '*.example'}")), 200),
        (said(&alternative("{type: Hostname, hostname: '*.other.example'}")), 503),
        (said(&alternative("{type: URI, uri: 'spiffe://a/b'}")), 503),
        (said(&alternative("{type: URI, uri: 'spiffe://a/b'}, {type: Hostname, hostname: backend.example}")), 200),
        // Whose certificate is one of an authority of the system, which none of ours is.
        (tls_policy("p", "{hostname: backend.example, wellKnownCACertificates: System}"), 503),
        // Nobody knows whom to trust, so nobody is asked.
        (tls_policy("p", &by_ca("hostname: backend.example")), 500),
        (format!("{}{}", tls_policy("p", &by_ca("hostname: backend.example")), authority("none")), 500),
        (tls_policy("p", "{hostname: backend.example, wellKnownCACertificates: example.com/ours}"), 500),
        // As many authorities as there may be, its own the last of them, and one more.
        (format!("{}{}", tls_policy("p", &by_ca("hostname: backend.example")), among(255)?), 200),
        (format!("{}{}", tls_policy("p", &by_ca("hostname: backend.example")), among(256)?), 500),
        (said("hostname: backend.example"), 200),
    ] {
        world.portcullis.write("more.yaml", &more)?;
        world.answers(status).await.with_context(|| more.clone())?;
        let before = echo.count(any);
        world.answers(status).await?;
        let came = echo.count(any) > before;
        ensure!(came == (status == 200), "{status}, and a request came: {came}: {more}");
    }
    world.end().await
}

/// A proxy learns of a cluster and of the authorities that it refers to one after the other. A connection that comes in between must
/// not be judged by the authorities of before: it would stay.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_and_an_authority_that_change_at_once_leave_no_connection_by_the_authority_of_before() -> Result<()> {
    let names = ["backend.example", "*.wild.example"].map(str::to_owned);
    let own = Certificate::new(&names, KeyKind::Ecdsa)?;
    let other = Certificate::new(&names, KeyKind::Ecdsa)?;
    let echo = Echo::start_tls("backend", (LOOPBACK, 0).into(), own.server(None)?).await?;
    let said = |name: &str, certificate: &Certificate| {
        format!("{}{}", tls_policy("p", &by_ca(&format!("hostname: {name}"))), authority(&certificate.certificate))
    };
    let (trusted, foreign) = (said("a.wild.example", &own), said("backend.example", &other));
    let world = World::start(&echo, &trusted).await?;
    let mut load = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let target = world.target.clone();
        load.spawn(async move {
            loop {
                // What it gets does not matter: it only has connections be there at every moment.
                let _ = client::send(&target, &Request::get("example.com", "/load")).await;
            }
        });
    }
    for _ in 0..5 {
        for (said, status) in [(&trusted, 200), (&foreign, 503)] {
            world.portcullis.write("more.yaml", said)?;
            let settled = eventually(TIMEOUT, async || {
                for _ in 0..20 {
                    let seen = world.get().await?.status;
                    ensure!(seen == status, "{seen} where {status} is expected");
                }
                Ok(())
            });
            settled.await.with_context(|| world.portcullis.log_tail())?;
        }
    }
    load.shutdown().await;
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_reach_a_backend_in_http_2_over_tls_and_end_where_its_policy_is_not_valid() -> Result<()> {
    let own = Certificate::new(&["backend.example".to_owned()], KeyKind::Ecdsa)?;
    let echo = Echo::start_tls("backend", (LOOPBACK, 0).into(), own.server(None)?).await?;
    let calls = "
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {namespace: infra, name: calls}
spec:
  parentRefs: [{name: gateway}]
  rules: [{backendRefs: [{name: backend, port: 80}]}]
";
    let policy = tls_policy("p", &by_ca("hostname: backend.example"));
    let world = World::start(&echo, &format!("{calls}{policy}{}", authority(&own.certificate))).await?;
    let mut call = Request::get("example.com", "/shop.Cart/Add");
    call.headers.push(("content-type".into(), "application/grpc".into()));
    let reached = eventually(TIMEOUT, async || {
        client::send(&world.target, &call).await?;
        let seen = echo.latest(|seen| seen.path == "/shop.Cart/Add").context("no call came")?;
        ensure!(seen.protocol == "HTTP/2.0", "{}", seen.protocol);
        Ok(())
    });
    reached.await.with_context(|| world.portcullis.log_tail())?;
    // Requests that are no calls are spoken to in HTTP/1.1, over TLS too.
    world.answers(200).await?;
    world.portcullis.write("more.yaml", &format!("{calls}{policy}"))?;
    world.answers(500).await?;
    let ended = eventually(TIMEOUT, async || {
        let response = client::send(&world.target, &call).await?;
        let status = response.header("grpc-status");
        ensure!(status.as_deref() == Some("14"), "{} {status:?}", response.status);
        Ok(())
    });
    ended.await.with_context(|| world.portcullis.log_tail())?;
    world.end().await
}

/// A proxy that refuses what a policy comes to must not go on as if there were none.
#[tokio::test(flavor = "multi_thread")]
async fn a_backend_in_plain_text_gets_nothing_once_a_policy_comes_that_proxies_refuse() -> Result<()> {
    let echo = Echo::start("backend", (LOOPBACK, 0).into()).await?;
    let folder = tempfile::tempdir()?;
    let store = folder.path().join("authorities.pem");
    std::fs::write(&store, "")?;
    let arguments = ["--backend-system-trust-store", store.to_str().context("a path")?];
    let by_policy = tls_policy("p", "{hostname: backend.example, wellKnownCACertificates: System}");
    let by_config = policy("tls: {wellKnownCACertificates: System, sni: backend.example}");
    for said in [by_policy, by_config] {
        let mut world = World::start_as(&service("backend", &echo), "", &arguments).await?;
        world.answers(200).await?;
        world.portcullis.write("more.yaml", &said)?;
        let refused = eventually(TIMEOUT, async || {
            let refused = world.envoy.stats().await?.get("cluster_manager.cds.update_rejected").copied();
            ensure!(refused.unwrap_or_default() > 0, "no cluster was refused");
            Ok(())
        });
        refused.await.with_context(|| world.portcullis.log_tail())?;
        world.answers(503).await?;
        let before = echo.count(any);
        world.answers(503).await?;
        ensure!(echo.count(any) == before, "a request came in plain text under {said}");
        // Without the policy it is as before.
        world.portcullis.write("more.yaml", "")?;
        world.answers(200).await?;
        world.portcullis.check()?;
    }
    Ok(())
}

/// Who judges for one host says what becomes of a policy there.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_authorities_of_its_system_is_told_by_whoever_judges_for_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("policy.yaml");
    let policy = tls_policy("p", "{hostname: backend.example, wellKnownCACertificates: System}");
    std::fs::write(&path, objects::service_at("backend", ([192, 0, 2, 1], 443).into()) + &policy)?;
    let path = path.to_str().context("a path")?;
    let translate = async |more: &[&str]| {
        let given = ["translate", "--backend-system-trust-store", "/nowhere", "-f", path];
        portcullis_tests::portcullis::run(&[&given, more].concat()).await
    };
    let words = "proxies have no certificates of authorities of their own here";
    ensure!(translate(&["--host"]).await?.contains(words), "it is not told");
    ensure!(!translate(&[]).await?.contains(words), "proxies of other hosts may have one");
    Ok(())
}

/// One for a Backend is as good as one for a Service, and closes it as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_on_a_backend_has_it_verified_or_closed() -> Result<()> {
    let own = Certificate::new(&["backend.example".to_owned()], KeyKind::Ecdsa)?;
    let echo = Echo::start_tls("backend", (LOOPBACK, 0).into(), own.server(None)?).await?;
    let host = format!(
        "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: Backend
metadata: {{namespace: infra, name: ext}}
spec: {{static: {{hosts: [{{host: 127.0.0.1, port: {}}}]}}}}
",
        echo.address().port()
    );
    let route = objects::Route {
        name: "route",
        rules: "  - backendRefs: [{group: gateway.kgateway.dev, kind: Backend, name: ext}]",
        ..Default::default()
    };
    let target = |text: String| {
        text.replace("group: '', kind: Service, name: backend", "group: gateway.kgateway.dev, kind: Backend, name: ext")
    };
    let sound = target(tls_policy("p", &by_ca("hostname: backend.example")));
    let world = World::start_as("", "", &["--backend-allow-local", "true"]).await?;
    let base = std::fs::read_to_string(world.portcullis.files().join("base.yaml"))?;
    let base =
        base.split("---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute").next().context("a Gateway")?;
    world.portcullis.write("base.yaml", &format!("{base}{host}{route}"))?;
    for (said, status) in [
        (format!("{sound}{}", authority(&own.certificate)), 200),
        (sound.clone(), 500),
        (format!("{}{}", target(tls_policy("p", &by_ca("hostname: other.example"))), authority(&own.certificate)), 503),
        (format!("{sound}{}", authority(&own.certificate)), 200),
    ] {
        world.portcullis.write("more.yaml", &said)?;
        world.answers(status).await.with_context(|| said.clone())?;
    }
    world.portcullis.was_never_refused().await?;
    world.end().await
}

/// Takes connections, keeps the first bytes of each, and answers nothing.
struct Sink {
    address: std::net::SocketAddr,
    heard: Arc<Mutex<Vec<Vec<u8>>>>,
    task: JoinHandle<()>,
}

impl Sink {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, heard) = (listener.local_addr()?, Arc::<Mutex<Vec<Vec<u8>>>>::default());
        let kept = Arc::clone(&heard);
        let task = tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                tokio::spawn(async move {
                    let mut bytes = vec![0; 4096];
                    let read = connection.read(&mut bytes).await.unwrap_or(0);
                    bytes.truncate(read);
                    kept.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
                });
            }
        });
        Ok(Self { address, heard, task })
    }

    fn heard(&self) -> Vec<Vec<u8>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The first bytes of a handshake of TLS: a record of that type, of a version 3.
fn is_handshake(bytes: &[u8]) -> bool {
    matches!(bytes, [0x16, 0x03, ..])
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_policy_targets_a_port_no_byte_reaches_it_in_plain_text_whatever_else_is_said() -> Result<()> {
    let own = Certificate::new(&["backend.example".to_owned()], KeyKind::Ecdsa)?;
    let trusted = authority(&own.certificate);
    let sink = Sink::start().await?;
    // The copies of requests to another backend go there too, and calls.
    let other = Echo::start("other", (LOOPBACK, 0).into()).await?;
    let mirror = "{type: RequestMirror, requestMirror: {backendRef: {name: backend, port: 80}}}";
    let copied = objects::Route {
        name: "copied",
        hosts: "copied.example",
        rules: &format!("  - {{filters: [{mirror}], backendRefs: [{{name: other, port: 80}}]}}"),
        ..Default::default()
    };
    let calls = "
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {namespace: infra, name: calls}
spec: {parentRefs: [{name: gateway}], rules: [{backendRefs: [{name: backend, port: 80}]}]}
";
    let base = format!("{copied}{calls}{}", service("other", &other));
    let sound = tls_policy("p", &by_ca("hostname: backend.example"));
    let loose = policy("tls: {insecureSkipVerify: true}");
    // Of two of one age the name decides: `a-broken` holds, and closes.
    let broken = tls_policy(
        "a-broken",
        "{hostname: backend.example, caCertificateRefs: [{group: '', kind: ConfigMap, name: none}]}",
    );
    let with_option = format!("{}  options: {{example.com/a: b}}\n", sound.trim_end_matches('\n').to_owned() + "\n");
    let world = World::start_with(&objects::service_at("backend", sink.address), &base).await?;
    let mut call = Request::get("example.com", "/shop.Cart/Add");
    call.headers.push(("content-type".into(), "application/grpc".into()));
    let requests = [Request::get("example.com", "/plain"), Request::get("copied.example", "/copied"), call];
    let short = async |request: &Request| {
        // What stands there answers nothing.
        let send = client::send(&world.target, request);
        let _ = tokio::time::timeout(std::time::Duration::from_millis(300), send).await;
    };
    let plain = eventually(TIMEOUT, async || {
        short(&requests[0]).await;
        ensure!(sink.heard().iter().any(|bytes| bytes.starts_with(b"GET /plain")), "no plain text");
        Ok(())
    });
    plain.await.with_context(|| world.portcullis.log_tail())?;
    for (said, dials) in [
        (format!("{sound}{trusted}"), true),
        (sound.clone(), false),
        (format!("{sound}{}", authority("no PEM")), false),
        (format!("{sound}{trusted}{loose}"), true),
        (format!("{sound}{loose}"), false),
        (format!("{broken}{sound}{trusted}{loose}"), false),
        (format!("{with_option}{trusted}"), false),
        (tls_policy("p", "none"), false),
        (tls_policy("p", &by_ca("hostname: 10.0.0.1")) + &trusted, false),
        (format!("{sound}{trusted}"), true),
    ] {
        world.portcullis.write("more.yaml", &format!("{base}{said}"))?;
        let before = sink.heard().len();
        // Until proxies have it, they go on as before.
        let settled = eventually(TIMEOUT, async || {
            if dials {
                short(&requests[0]).await;
                ensure!(sink.heard()[before..].iter().any(|bytes| is_handshake(bytes)), "nobody connected by TLS");
                return Ok(());
            }
            let get = tokio::time::timeout(std::time::Duration::from_millis(300), world.get()).await??;
            ensure!(get.status == 500, "{}", get.status);
            Ok(())
        });
        settled.await.with_context(|| format!("{said}\n{}", world.portcullis.log_tail()))?;
        let before = sink.heard().len();
        for request in &requests {
            short(request).await;
        }
        let heard = sink.heard();
        ensure!(dials == (heard.len() > before), "{} came to {before} under {said}", heard.len());
        for bytes in heard[before..].iter().filter(|bytes| !bytes.is_empty()) {
            ensure!(is_handshake(bytes), "{:?} under {said}", String::from_utf8_lossy(bytes));
        }
    }
    world.end().await
}
