//! Backends: how they are connected to, by whom they are judged, and what they are shown.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use portcullis_tests::certificates::{Authority, Certificate, KeyKind};
use portcullis_tests::client::{Request, Target};
use portcullis_tests::echo::Echo;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, objects::service, ports};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::load::{Load, MOVE, file, route, secret, until_served, updates};

/// Shows one certificate at first, and another one from when it is told to.
#[derive(Debug)]
struct Shown(Mutex<Arc<CertifiedKey>>);

impl Shown {
    fn certified(config: &rustls::ServerConfig, certificate: &Certificate) -> Result<Arc<CertifiedKey>> {
        let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes())?;
        let key = config.crypto_provider().key_provider.load_private_key(key)?;
        Ok(Arc::new(CertifiedKey::new(vec![CertificateDer::from(certificate.der.clone())], key)))
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// A backend turns to a certificate of another authority: both are trusted while it does, and each request makes a connection.
#[tokio::test(flavor = "multi_thread")]
async fn authorities_of_backends_that_rotate_lose_no_request() -> Result<()> {
    const TURNS: usize = 10;
    let names = ["backend.example".to_owned()];
    let mut trusted = Authority::new("authority 0")?;
    let shown = trusted.issue(&names)?;
    let mut config = shown.server(None)?;
    let resolver = Arc::new(Shown(Mutex::new(Shown::certified(&config, &shown)?)));
    config.cert_resolver = Arc::clone(&resolver) as _;
    // Who resumes shows no certificate.
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    let echo = Echo::start_tls("backend", ([127, 0, 0, 1], 0).into(), config.clone()).await?;
    let port = ports::free_port()?;
    let listener = format!("{{name: http, port: {port}, protocol: HTTP}}");
    let route = objects::Route { rules: "  - backendRefs: [{name: backend, port: 80}]", ..Default::default() };
    let policies = "
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {namespace: infra, name: tls}
spec:
  targetRefs: [{group: '', kind: Service, name: backend}]
  validation: {hostname: backend.example, caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: BackendConfigPolicy
metadata: {namespace: infra, name: connections}
spec:
  targetRefs: [{group: '', kind: Service, name: backend}]
  commonHttpProtocolOptions: {maxRequestsPerConnection: 1}
";
    let files = [
        file("a-gateway.yaml", objects::gateway(std::slice::from_ref(&listener))),
        file("route.yaml", format!("{}{route}{policies}", service("backend", &echo))),
        file("ca.yaml", objects::authorities("ca", &[&trusted.pem])),
    ];
    let mut portcullis = Portcullis::start(&files).await?;
    let mut envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    until_served(port, &portcullis).await?;
    let clusters_before = updates(&envoy).await?;
    let load = Load::start(&Target::local(port));
    for turn in 1..=TURNS {
        let next = Authority::new(&format!("authority {turn}"))?;
        let shown = next.issue(&names)?;
        for of in [&[&*trusted.pem, &*next.pem][..], &[&*next.pem]] {
            let before = loaded(&envoy).await?;
            portcullis.write("ca.yaml", &objects::authorities("ca", of))?;
            let taken = eventually(TIMEOUT, async || {
                let now = loaded(&envoy).await?;
                ensure!(now > before, "Envoy has not taken the authorities: {now}");
                Ok(())
            });
            taken.await.with_context(|| portcullis.log_tail())?;
            // A connection that began before trusts what it began with.
            let held = load.hold().await;
            *resolver.0.lock().unwrap_or_else(PoisonError::into_inner) = Shown::certified(&config, &shown)?;
            drop(held);
            // Some requests are sent by what is trusted now.
            let sent = load.sent();
            let goes_on = eventually(TIMEOUT, async || {
                ensure!(load.sent() > sent + 20, "no request is sent");
                Ok(())
            });
            if let Err(error) = goes_on.await {
                load.finish().await.with_context(|| portcullis.log_tail())?;
                return Err(error);
            }
        }
        trusted = next;
    }
    let sent = load.finish().await.with_context(|| portcullis.log_tail())?;
    println!("{sent} requests, {TURNS} turns");
    ensure!(updates(&envoy).await? == clusters_before, "a rotation changed a cluster or a listener");
    portcullis.check()?;
    envoy.check().await
}

/// How often Envoy took over the authorities of the backend.
async fn loaded(envoy: &Envoy) -> Result<u64> {
    let stats = envoy.stats().await?;
    let own = stats.iter().filter(|(name, _)| name.contains("ssl_context_update_by_sds"));
    Ok(own.map(|(_, count)| count).sum())
}

/// Each backend has authorities of its own, which Envoy asks for once it has the cluster.
#[tokio::test(flavor = "multi_thread")]
async fn a_route_that_moves_to_new_backends_by_tls_loses_no_request() -> Result<()> {
    const MOVES: usize = 40;
    let own = Certificate::new(&["backend.example".to_owned()], KeyKind::Ecdsa)?;
    let echo = Echo::start_tls("backend", ([127, 0, 0, 1], 0).into(), own.server(None)?).await?;
    let port = ports::free_port()?;
    let listener = format!("{{name: http, port: {port}, protocol: HTTP}}");
    let secured = |number: usize| {
        let name = format!("b-{number}");
        let authorities = objects::authorities(&name, &[&own.certificate]);
        format!(
            "{}{authorities}
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {{namespace: infra, name: {name}}}
spec:
  targetRefs: [{{group: '', kind: Service, name: {name}}}]
  validation: {{hostname: backend.example, caCertificateRefs: [{{group: '', kind: ConfigMap, name: {name}}}]}}
{}",
            service(&name, &echo),
            route(number, &name)
        )
    };
    let files =
        [file("a-gateway.yaml", objects::gateway(std::slice::from_ref(&listener))), file("route.yaml", secured(0))];
    let mut portcullis = Portcullis::start(&files).await?;
    let mut envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    until_served(port, &portcullis).await?;
    let load = Load::start(&Target::local(port));
    for number in 1..=MOVES {
        portcullis.write("route.yaml", &secured(number))?;
        let moved = eventually(TIMEOUT, async || {
            let latest = echo.latest(|seen| seen.header(MOVE).as_deref() == Some(&number.to_string()));
            latest.map(drop).with_context(|| format!("move {number} does not arrive"))
        });
        if let Err(error) = moved.await {
            load.finish().await?;
            return Err(error.context(portcullis.log_tail()));
        }
    }
    let sent = load.finish().await.with_context(|| portcullis.log_tail())?;
    println!("{sent} requests, {MOVES} moves");
    portcullis.check()?;
    envoy.check().await
}

/// Hands each connection to one of two, by whether it begins with a handshake of TLS.
async fn either(plain: SocketAddr, tls: SocketAddr) -> Result<(SocketAddr, JoinSet<()>)> {
    let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut connection, _)) = listener.accept().await {
            connections.spawn(async move {
                let mut first = [0];
                if connection.peek(&mut first).await.is_ok_and(|read| read > 0)
                    && let Ok(mut to) = TcpStream::connect(if first == [0x16] { tls } else { plain }).await
                {
                    let _ = tokio::io::copy_bidirectional(&mut connection, &mut to).await;
                }
            });
        }
    });
    Ok((address, tasks))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_turns_to_tls_and_back_loses_no_request() -> Result<()> {
    turns_to_tls_and_back(
        "
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {namespace: infra, name: tls}
spec:
  targetRefs: [{group: '', kind: Service, name: backend}]
  validation: {hostname: backend.example, caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}
",
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_turns_to_tls_by_its_configuration_and_back_loses_no_request() -> Result<()> {
    turns_to_tls_and_back(
        "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: BackendConfigPolicy
metadata: {namespace: infra, name: tls}
spec:
  targetRefs: [{group: '', kind: Service, name: backend}]
  tls: {insecureSkipVerify: true, sni: backend.example}
",
    )
    .await
}

/// The cluster behind TLS is another one than the one in plain text.
async fn turns_to_tls_and_back(policy: &str) -> Result<()> {
    const TURNS: usize = 20;
    let own = Certificate::new(&["backend.example".to_owned()], KeyKind::Ecdsa)?;
    let plain = Echo::start("backend", ([127, 0, 0, 1], 0).into()).await?;
    let tls = Echo::start_tls("backend", ([127, 0, 0, 1], 0).into(), own.server(None)?).await?;
    let (address, _tasks) = either(plain.address(), tls.address()).await?;
    let port = ports::free_port()?;
    let listener = format!("{{name: http, port: {port}, protocol: HTTP}}");
    let route = objects::Route { rules: "  - backendRefs: [{name: backend, port: 80}]", ..Default::default() };
    let files = [
        file("a-gateway.yaml", objects::gateway(std::slice::from_ref(&listener))),
        file("route.yaml", format!("{}{route}", objects::service_at("backend", address))),
        file("ca.yaml", objects::authorities("ca", &[&own.certificate])),
        file("policy.yaml", String::new()),
    ];
    let mut portcullis = Portcullis::start(&files).await?;
    let mut envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    until_served(port, &portcullis).await?;
    let load = Load::start(&Target::local(port));
    for turn in 1..=TURNS {
        let (said, to) = if turn % 2 == 1 { (policy, &tls) } else { ("", &plain) };
        let before = to.total();
        portcullis.write("policy.yaml", said)?;
        let turned = eventually(TIMEOUT, async || {
            ensure!(to.total() > before + 20, "turn {turn} does not arrive");
            Ok(())
        });
        if let Err(error) = turned.await {
            load.finish().await?;
            return Err(error.context(portcullis.log_tail()));
        }
    }
    let sent = load.finish().await.with_context(|| portcullis.log_tail())?;
    println!("{sent} requests, {TURNS} turns");
    portcullis.check()?;
    envoy.check().await
}

/// A cluster that begins to show a certificate, or ends to, is made anew under its name.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_begins_and_ends_to_show_a_certificate_loses_no_request() -> Result<()> {
    const TURNS: usize = 20;
    let own = Certificate::new(&["backend.example".to_owned()], KeyKind::Ecdsa)?;
    let echo = Echo::start_tls("backend", ([127, 0, 0, 1], 0).into(), own.server(None)?).await?;
    let port = ports::free_port()?;
    let listener = format!("{{name: http, port: {port}, protocol: HTTP}}");
    let gateway = objects::gateway(std::slice::from_ref(&listener));
    let policy = "
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {namespace: infra, name: tls}
spec:
  targetRefs: [{group: '', kind: Service, name: backend}]
  validation: {hostname: backend.example, caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}
";
    let files = [
        file("a-gateway.yaml", gateway.clone()),
        file("route.yaml", format!("{}{}{policy}", service("backend", &echo), route(0, "backend"))),
        file("ca.yaml", objects::authorities("ca", &[&own.certificate])),
        file("secret.yaml", secret(&own)),
    ];
    let mut portcullis = Portcullis::start(&files).await?;
    let mut envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    until_served(port, &portcullis).await?;
    let load = Load::start(&Target::local(port));
    for turn in 1..=TURNS {
        let shown = "  tls: {backend: {clientCertificateRef: {name: certificate}}}\n";
        let before = envoy.stats().await?.get("cluster_manager.cluster_modified").copied().unwrap_or_default();
        portcullis.write("a-gateway.yaml", &format!("{gateway}{}", if turn % 2 == 1 { shown } else { "" }))?;
        let turned = eventually(TIMEOUT, async || {
            let now = envoy.stats().await?.get("cluster_manager.cluster_modified").copied().unwrap_or_default();
            ensure!(now > before, "turn {turn} does not arrive");
            Ok(())
        });
        if let Err(error) = turned.await {
            load.finish().await?;
            return Err(error.context(portcullis.log_tail()));
        }
    }
    let sent = load.finish().await.with_context(|| portcullis.log_tail())?;
    println!("{sent} requests, {TURNS} turns");
    portcullis.check()?;
    envoy.check().await
}

fn policy(number: usize) -> String {
    format!(
        "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: BackendConfigPolicy
metadata: {{namespace: infra, name: connections}}
spec:
  targetRefs:
  - {{group: '', kind: Service, name: backend}}
  - {{group: gateway.kgateway.dev, kind: Backend, name: backend}}
  connectTimeout: {}s
  commonHttpProtocolOptions: {{idleTimeout: {}s}}
",
        number + 1,
        number + 10
    )
}

/// Neither of one whose endpoints are told to proxies, nor of one that they look for themselves.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_changes_how_to_connect_loses_no_request() -> Result<()> {
    const CHANGES: usize = 20;
    let echo = Echo::start("backend", ([127, 0, 0, 1], 0).into()).await?;
    let port = ports::free_port()?;
    let listener = format!("{{name: http, port: {port}, protocol: HTTP}}");
    let backend = format!(
        "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: Backend
metadata: {{namespace: infra, name: backend}}
spec: {{static: {{hosts: [{{host: localhost, port: {}}}]}}}}
",
        echo.address().port()
    );
    let rules = "
  - backendRefs: [{name: backend, port: 80}, {group: gateway.kgateway.dev, kind: Backend, name: backend}]";
    let route = objects::Route { name: "both", rules, ..Default::default() }.to_string();
    let files = [
        file("a-gateway.yaml", objects::gateway(std::slice::from_ref(&listener))),
        file("route.yaml", format!("{}{backend}{route}", service("backend", &echo))),
        file("policy.yaml", policy(0)),
    ];
    let flags = ["--backend-allow-local", "true"].map(String::from);
    let mut portcullis = Portcullis::start_with(&files, &flags).await?;
    let mut envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    eventually(TIMEOUT, async || {
        for _ in 0..8 {
            let response =
                portcullis_tests::client::send(&Target::local(port), &Request::get("example.com", "/")).await?;
            ensure!(response.status == 200, "{}", response.status);
        }
        Ok(())
    })
    .await?;
    let load = Load::start(&Target::local(port));
    for number in 1..=CHANGES {
        let changed =
            async || envoy.stats().await?.get("cluster_manager.cluster_modified").copied().context("no statistics");
        let before = changed().await?;
        portcullis.write("policy.yaml", &policy(number))?;
        let both = async || {
            let now = changed().await?;
            ensure!(now >= before + 2, "{now} changes after {before}");
            Ok(())
        };
        if let Err(error) = eventually(TIMEOUT, both).await {
            load.finish().await?;
            return Err(error.context(portcullis.log_tail()));
        }
    }
    let sent = load.finish().await.with_context(|| portcullis.log_tail())?;
    println!("{sent} requests, {CHANGES} changes");
    portcullis.check()?;
    envoy.check().await
}
