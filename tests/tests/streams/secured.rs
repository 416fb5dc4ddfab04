//! TLS to backends: nothing goes there in plain text that is not meant to.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use portcullis_tests::certificates::{Authority, Certificate, KeyKind};
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, ports};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::world::{
    Listens, Server, World, authorities, handshake, listener, route, service, service_at, tls_policy, tls_to,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_passes_tls_through_from_now_on_sends_nothing_in_plain_text() -> Result<()> {
    let own = Certificate::new(&["a.example".to_owned()], KeyKind::Ecdsa)?;
    let authority = Authority::new("authority")?;
    let backend = Listens::start().await?;
    let port = ports::free_port()?;
    let modes = [
        format!("{{name: tls, port: {port}, protocol: TLS, tls: {{certificateRefs: [{{name: own}}]}}}}"),
        format!("{{name: tls, port: {port}, protocol: TLS, tls: {{mode: Passthrough}}}}"),
    ];
    // So many clusters take Envoy a while, and only then it is sent listeners.
    let names: Vec<_> = (0..300).map(|number| format!("n{number}.example")).collect();
    let names = format!("hostnames: [a.example, {}]", names.join(", "));
    let files = [
        ("services.yaml", service_at("secure", "TCP", backend.address)),
        ("secrets.yaml", objects::secret("own", &own.certificate, &own.key)),
        ("route.yaml", route("TLSRoute", "r", "tls", &names, &[("secure", 1)])),
        ("policy.yaml", authorities(&authority) + &tls_policy("secure", "backend.example")),
    ];
    let world = World::start(&modes[..1], &files).await?;
    let asks = |own: Vec<u8>| async move {
        loop {
            // Where TLS ends at the Gateway, what is sent in it must not come out in plain text.
            let own: &[&[u8]] = &[&own];
            if let Ok(Ok(mut stream)) = timeout(Duration::from_secs(1), handshake(port, "a.example", own)).await {
                let _ = stream.write_all(b"secret").await;
                let _ = stream.flush().await;
            }
        }
    };
    let mut clients = JoinSet::new();
    for _ in 0..8 {
        clients.spawn(asks(own.der.clone()));
    }
    for turn in 0..10 {
        let mode = (turn + 1) % 2;
        world.portcullis.write("a-gateway.yaml", &objects::gateway(&modes[mode..=mode]))?;
        let arrived = eventually(TIMEOUT, async || {
            let ends_tls = world.envoy.listeners().await?.contains("transport_socket");
            ensure!(ends_tls == (mode == 0), "the listener is as it was");
            anyhow::Ok(())
        });
        arrived.await.with_context(|| world.portcullis.log_tail())?;
        let before = backend.counts()[1];
        let is_asked = eventually(TIMEOUT, async || {
            ensure!(backend.counts()[1] > before, "nobody asks the backend");
            anyhow::Ok(())
        });
        is_asked.await.with_context(|| world.portcullis.log_tail())?;
    }
    ensure!(backend.counts()[0] == 0, "plain text came {} times", backend.counts()[0]);
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_a_policy_secures_is_never_sent_plain_text() -> Result<()> {
    let authority = Authority::new("authority")?;
    let shown = authority.issue(&["backend.example".to_owned()])?;
    let secure = Server::tcp("secure", Some(shown.server(None)?)).await?;
    let port = ports::free_port()?;
    let policy = |hostname: &str| tls_policy("secure", hostname);
    let ca = authorities(&authority);
    let files = [
        ("services.yaml", service("secure", "TCP", &secure)),
        ("route.yaml", route("TCPRoute", "r", "db", "", &[("secure", 1)])),
        ("ca.yaml", ca.clone()),
        ("policy.yaml", policy("backend.example")),
    ];
    let world = World::start(&[listener("db", port, "TCP")], &files).await?;
    world.answers(port, "secure").await?.says("hello").await?;
    world.portcullis.write("policy.yaml", &policy("another.example"))?;
    world.closes(port).await?;
    world.portcullis.write("policy.yaml", &policy("backend.example"))?;
    world.answers(port, "secure").await?;
    world.portcullis.remove("ca.yaml")?;
    world.closes(port).await?;
    world.portcullis.write("ca.yaml", &ca)?;
    world.answers(port, "secure").await?.says("healed").await?;
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn hostnames_without_room_are_closed_and_lead_to_no_broader_one() -> Result<()> {
    let mut names: Vec<_> = (0..20).map(|number| format!("n{number}.ends.example")).collect();
    let hostnames = format!("hostnames: [{}]", names.join(", "));
    names.push("any.ends.example".to_owned());
    let own = Certificate::new(&names, KeyKind::Ecdsa)?;
    names.pop();
    let (wild, named) = (Server::tcp("wild", None).await?, Server::tcp("named", None).await?);
    let port = ports::free_port()?;
    let listeners = [format!(
        "{{name: ends, port: {port}, protocol: TLS, hostname: '*.ends.example', tls: {{certificateRefs: [{{name: own}}]}}}}"
    )];
    let files = [
        ("services.yaml", service("wild", "TCP", &wild) + &service("named", "TCP", &named)),
        ("secrets.yaml", objects::secret("own", &own.certificate, &own.key)),
        ("a.yaml", route("TLSRoute", "a", "ends", "hostnames: ['*.ends.example']", &[("wild", 1)])),
        ("b.yaml", route("TLSRoute", "b", "ends", &hostnames, &[("named", 1)])),
    ];
    // Some six hostnames have room.
    let bound = ["--capacity-max-bytes".to_owned(), "1200000".to_owned()];
    let world = World::start_with(&listeners, &files, &bound).await?;
    let answers = eventually(TIMEOUT, async || tls_to(port, "any.ends.example", &own).await).await;
    let (_, by) = answers.with_context(|| world.portcullis.log_tail())?;
    ensure!(by == "wild", "{by}");
    let mut served = 0;
    for name in &names {
        if let Ok((_, by)) = tls_to(port, name, &own).await {
            ensure!(by == "named", "{by} has the connections of {name}");
            served += 1;
        }
    }
    ensure!((1..names.len()).contains(&served), "{served} of {} are served", names.len());
    world.end().await
}
