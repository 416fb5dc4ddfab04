//! No request pays for a change: while configuration changes again and again, requests run and none may fail.

#[path = "zero_loss/backends.rs"]
mod backends;
#[path = "zero_loss/load.rs"]
mod load;
#[path = "zero_loss/open.rs"]
mod open;

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use portcullis_tests::certificates::{Certificate, KeyKind};
use portcullis_tests::client::{Connection, Protocol, Request, Target, Tls};
use portcullis_tests::echo::Echo;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, objects::service, ports};

use load::{Load, MOVE, file, route, secret, updates};

const MOVES: usize = 200;
const ROTATIONS: usize = 50;

#[tokio::test(flavor = "multi_thread")]
async fn a_route_that_moves_to_new_backends_loses_no_request() -> Result<()> {
    let echo = Echo::start("backend", ([127, 0, 0, 1], 0).into()).await?;
    let port = ports::free_port()?;
    let listener = format!("{{name: http, port: {port}, protocol: HTTP}}");
    let files = [
        file("a-gateway.yaml", objects::gateway(std::slice::from_ref(&listener))),
        file("route.yaml", format!("{}{}", service("b-0", &echo), route(0, "b-0"))),
    ];
    let mut portcullis = Portcullis::start(&files).await?;
    let mut envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    let load = Load::start(&Target::local(port));

    for number in 1..=MOVES {
        let name = format!("b-{number}");
        let content = format!("{}{}", service(&name, &echo), route(number, &name));
        portcullis.write("route.yaml", &content)?;
        let arrived = async || {
            let number = number.to_string();
            let moved = echo.latest(|seen| seen.header(MOVE).as_ref() == Some(&number));
            moved.map(drop).with_context(|| format!("no request by move {number}"))
        };
        if let Err(error) = eventually(TIMEOUT, arrived).await {
            // A request that failed ends the load, and is the reason.
            load.finish().await?;
            return Err(error.context(portcullis.log_tail()));
        }
    }
    let sent = load.finish().await.with_context(|| portcullis.log_tail())?;
    println!("{sent} requests, {MOVES} moves");
    portcullis.check()?;
    envoy.check().await?;
    clusters_go_with_their_routes(&envoy).await
}

/// What no route uses any more does not pile up.
async fn clusters_go_with_their_routes(envoy: &Envoy) -> Result<()> {
    let checked = eventually(TIMEOUT, async || {
        let active = envoy.stats().await?.get("cluster_manager.active_clusters").copied();
        let active = active.context("no cluster_manager.active_clusters")?;
        ensure!(active < 10, "{active} clusters are left after {MOVES} moves");
        Ok(())
    });
    checked.await
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_rotate_lose_no_request() -> Result<()> {
    let echo = Echo::start("backend", ([127, 0, 0, 1], 0).into()).await?;
    let port = ports::free_port()?;
    let tls = "tls: {certificateRefs: [{name: certificate}]}";
    let listener = format!("{{name: https, port: {port}, protocol: HTTPS, {tls}}}");
    let names = ["example.com".to_owned()];
    let files = [
        file("a-gateway.yaml", objects::gateway(std::slice::from_ref(&listener))),
        file("route.yaml", format!("{}{}", service("b-0", &echo), route(0, "b-0"))),
        file("secret.yaml", secret(&Certificate::new(&names, KeyKind::Ecdsa)?)),
    ];
    let mut portcullis = Portcullis::start(&files).await?;
    let mut envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    let tls = Tls::to("example.com");
    let target = Target { address: ([127, 0, 0, 1], port).into(), protocol: Protocol::Http1, tls: Some(tls) };
    let load = Load::start(&target);

    for rotation in 0..ROTATIONS {
        let next = Certificate::new(&names, KeyKind::Ecdsa)?;
        portcullis.write("secret.yaml", &secret(&next))?;
        let start = Instant::now();
        // Every handshake until then, and the request after it, has to succeed too.
        while shown_certificate(&target).await? != next.der {
            ensure!(start.elapsed() < TIMEOUT, "rotation {rotation} is not shown\n{}", portcullis.log_tail());
        }
    }
    let sent = load.finish().await.with_context(|| portcullis.log_tail())?;
    println!("{sent} requests, {ROTATIONS} rotations");
    portcullis.check()?;
    envoy.check().await
}

async fn shown_certificate(target: &Target) -> Result<Vec<u8>> {
    let mut connection = Connection::open(target).await?;
    let response = connection.send(&Request::get("example.com", "/probe")).await?;
    ensure!(response.status == 200, "{} {}", response.status, response.body);
    connection.certificate.take().context("no certificate")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_control_plane_loses_no_request_and_changes_nothing() -> Result<()> {
    let echo = Echo::start("backend", ([127, 0, 0, 1], 0).into()).await?;
    let port = ports::free_port()?;
    let listener = format!("{{name: http, port: {port}, protocol: HTTP}}");
    let files = [
        file("a-gateway.yaml", objects::gateway(std::slice::from_ref(&listener))),
        file("route.yaml", format!("{}{}", service("b-0", &echo), route(0, "b-0"))),
    ];
    let mut portcullis = Portcullis::start(&files).await?;
    let mut envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    let load = Load::start(&Target::local(port));
    let before = updates(&envoy).await?;

    portcullis.restart().await?;
    let connected = eventually(TIMEOUT, async || {
        let state = envoy.stats().await?.get("control_plane.connected_state").copied();
        ensure!(state == Some(1), "control_plane.connected_state is {state:?}");
        Ok::<_, anyhow::Error>(())
    });
    connected.await.with_context(|| portcullis.log_tail())?;
    // A change that arrives shows that whatever was sent on the new stream before it has arrived too.
    portcullis.write("route.yaml", &format!("{}{}", service("b-0", &echo), route(1, "b-0")))?;
    let arrived = eventually(TIMEOUT, async || {
        let moved = echo.latest(|seen| seen.header(MOVE).as_deref() == Some("1"));
        moved.map(drop).context("the change does not arrive")
    });
    arrived.await.with_context(|| portcullis.log_tail())?;

    let after = updates(&envoy).await?;
    ensure!(after == before, "the restart changed more than the route: {before:?} became {after:?}");
    load.finish().await.with_context(|| portcullis.log_tail())?;
    portcullis.check()?;
    envoy.check().await
}
