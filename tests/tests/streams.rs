//! TCPRoutes, UDPRoutes and TLSRoutes through a real Envoy: what is sent comes back, and what is connected stays connected.

#[path = "streams/access.rs"]
mod access;
#[path = "streams/hellos.rs"]
mod hellos;
#[path = "streams/hostnames.rs"]
mod hostnames;
#[path = "streams/owners.rs"]
mod owners;
#[path = "streams/peers.rs"]
mod peers;
#[path = "streams/secured.rs"]
mod secured;
#[path = "streams/world.rs"]
mod world;

use std::net::Ipv4Addr;

use anyhow::{Context, Result, bail, ensure};
use portcullis_tests::certificates::{Certificate, KeyKind};
use portcullis_tests::client::{self, Request, Target, Tls};
use portcullis_tests::echo::Echo;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::process::envoy_binary;
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, ports};

use world::{Asks, Server, World, listener, route, service, tls_to};

fn about(share: usize, of: usize, percent: usize) -> bool {
    let expected = of * percent / 100;
    // Six times the deviation of so many draws at most.
    let room = 6 * (of * percent * (100 - percent)).isqrt() / 100 + 1;
    share.abs_diff(expected) <= room
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_go_by_weight_and_the_share_of_what_is_broken_is_reset() -> Result<()> {
    const CONNECTIONS: usize = 400;
    let (one, two) = (Server::tcp("one", None).await?, Server::tcp("two", None).await?);
    let port = ports::free_port()?;
    let services = service("one", "TCP", &one) + &service("two", "TCP", &two);
    let files = [
        ("services.yaml", services),
        ("route.yaml", route("TCPRoute", "r", "db", "", &[("one", 50), ("two", 20), ("missing", 30)])),
    ];
    let world = World::start(&[listener("db", port, "TCP")], &files).await?;
    world.answers(port, "one").await?.says("hello").await?;
    let tally = world.tally(port, CONNECTIONS).await;
    for (name, percent) in [("one", 50), ("two", 20), ("nobody", 30)] {
        let share = tally.get(name).copied().unwrap_or_default();
        ensure!(about(share, CONNECTIONS, percent), "{name} has {share} of {tally:?}");
    }
    // Without a backend that can be used, and without a route, connections are made and closed.
    world.portcullis.write("route.yaml", &route("TCPRoute", "r", "db", "", &[("missing", 1)]))?;
    world.closes(port).await?;
    world.portcullis.write("route.yaml", &route("TCPRoute", "r", "db", "", &[("two", 1)]))?;
    world.answers(port, "two").await?;
    world.portcullis.remove("route.yaml")?;
    world.closes(port).await?;
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_served_where_an_envoy_is_asked_first() -> Result<()> {
    let (one, two) = (Server::tcp("one", None).await?, Server::tcp("two", None).await?);
    let datagrams = Server::udp("three").await?;
    let port = ports::free_port()?;
    let files = [
        (
            "services.yaml",
            service("one", "TCP", &one) + &service("two", "TCP", &two) + &service("three", "UDP", &datagrams),
        ),
        ("route.yaml", route("TCPRoute", "r", "db", "", &[("one", 1)])),
        ("udp.yaml", route("UDPRoute", "r", "dns", "", &[("three", 1)])),
    ];
    let listeners = [listener("db", port, "TCP"), listener("dns", port, "UDP")];
    let envoy = envoy_binary()?.to_string_lossy().into_owned();
    let world = World::start_with(&listeners, &files, &["--strict-with".to_owned(), envoy]).await?;
    let mut open = world.answers(port, "one").await?;
    let client = Asks::new(port).await?;
    let told = eventually(TIMEOUT, async || client.ask(b"hello").await).await;
    ensure!(told.with_context(|| world.portcullis.log_tail())?.0 == "three");
    world.portcullis.write("route.yaml", &route("TCPRoute", "r", "db", "", &[("two", 1)]))?;
    world.answers(port, "two").await?;
    open.says("still here").await?;
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_survive_changes_of_routes_weights_and_other_listeners() -> Result<()> {
    let (one, two) = (Server::tcp("one", None).await?, Server::tcp("two", None).await?);
    let (port, tls_port, other) = (ports::free_port()?, ports::free_port()?, ports::free_port()?);
    let listeners = |more: &[String]| {
        let mut listeners = vec![
            listener("db", port, "TCP"),
            format!("{{name: through, port: {tls_port}, protocol: TLS, tls: {{mode: Passthrough}}}}"),
        ];
        listeners.extend_from_slice(more);
        objects::gateway(&listeners)
    };
    let certificate = Certificate::new(&["a.example".to_owned()], KeyKind::Ecdsa)?;
    let secure = Server::tcp("secure", Some(certificate.server(None)?)).await?;
    let services = service("one", "TCP", &one) + &service("two", "TCP", &two) + &service("secure", "TCP", &secure);
    let names = |names: &str| route("TLSRoute", "t", "through", &format!("hostnames: [{names}]"), &[("secure", 1)]);
    let files = [
        ("services.yaml", services),
        ("route.yaml", route("TCPRoute", "r", "db", "", &[("one", 1)])),
        ("names.yaml", names("a.example")),
    ];
    let portcullis = {
        let mut all = vec![("a-gateway.yaml".to_owned(), listeners(&[]))];
        all.extend(files.iter().map(|(name, content)| ((*name).to_owned(), content.clone())));
        Portcullis::start(&all).await?
    };
    let envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    let world = World { portcullis, envoy };
    let mut plain = world.answers(port, "one").await?;
    let tls = eventually(TIMEOUT, async || tls_to(tls_port, "a.example", &certificate).await).await;
    let (mut tls, by) = tls.with_context(|| world.portcullis.log_tail())?;
    ensure!(by == "secure", "{by}");

    // Each step is seen by new connections before the old ones are asked.
    world.portcullis.write("route.yaml", &route("TCPRoute", "r", "db", "", &[("one", 0), ("two", 1)]))?;
    world.answers(port, "two").await?;
    plain.says("weight").await?;
    world.portcullis.write("route.yaml", &route("TCPRoute", "another", "db", "", &[("two", 1)]))?;
    world.portcullis.write("names.yaml", &names("a.example, b.example, '*.c.example'"))?;
    let has_chains = eventually(TIMEOUT, async || {
        let chains = world.envoy.config_dump().await?.to_string();
        ensure!(chains.contains("tls-passthrough/through/*.c.example"), "a hostname has no chain");
        anyhow::Ok(())
    });
    has_chains.await.with_context(|| world.portcullis.log_tail())?;
    plain.says("route").await?;
    tls.says("names").await?;
    world.portcullis.write("a-gateway.yaml", &listeners(&[listener("other", other, "TCP")]))?;
    world.portcullis.write("z.yaml", &route("TCPRoute", "z", "other", "", &[("one", 1)]))?;
    world.answers(other, "one").await?;
    plain.says("listener").await?;
    tls.says("listener").await?;
    // The route goes: new connections end, and this one stays.
    world.portcullis.remove("route.yaml")?;
    world.closes(port).await?;
    plain.says("still here").await?;
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn datagrams_keep_their_sessions_and_new_ones_go_by_weight() -> Result<()> {
    let (one, two) = (Server::udp("one").await?, Server::udp("two").await?);
    let port = ports::free_port()?;
    let of = |one: u32, two: u32| route("UDPRoute", "r", "dns", "", &[("one", one), ("two", two)]);
    let files =
        [("services.yaml", service("one", "UDP", &one) + &service("two", "UDP", &two)), ("route.yaml", of(1, 0))];
    // The same number in TCP is another port.
    let listeners = [listener("dns", port, "UDP"), listener("dns-tcp", port, "TCP")];
    let world = World::start(&listeners, &files).await?;
    let client = Asks::new(port).await?;
    let first = eventually(TIMEOUT, async || client.ask(b"hello").await).await;
    let first = first.with_context(|| world.portcullis.log_tail())?;
    ensure!(first.0 == "one", "{first:?}");
    ensure!(client.ask(&[b'x'; 8000]).await? == first, "a large datagram passes both ways");
    // A backend without weight keeps the sessions that it has.
    world.portcullis.write("route.yaml", &of(0, 1))?;
    let moved = eventually(TIMEOUT, async || {
        let (name, _) = Asks::new(port).await?.ask(b"new").await?;
        ensure!(name == "two", "{name} answers");
        anyhow::Ok(())
    });
    moved.await.with_context(|| world.portcullis.log_tail())?;
    ensure!(client.ask(b"again").await? == first, "a session stays");
    // The share of what is broken is dropped.
    let broken = route("UDPRoute", "r", "dns", "", &[("two", 1), ("missing", 1)]);
    world.portcullis.write("route.yaml", &broken)?;
    let dropped = eventually(TIMEOUT, async || {
        let Err(_) = Asks::new(port).await?.ask(b"new").await else { bail!("it is answered") };
        Ok(())
    });
    dropped.await.with_context(|| world.portcullis.log_tail())?;
    let answered = eventually(TIMEOUT, async || Asks::new(port).await?.ask(b"new").await).await?;
    ensure!(answered.0 == "two", "{answered:?}");
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_passed_through_or_ended_by_server_name_beside_https() -> Result<()> {
    let own = |name: &str| Certificate::new(&[name.to_owned()], KeyKind::Ecdsa);
    let (through, ended, web) = (own("through.example")?, own("x.ends.example")?, own("web.example")?);
    let secure = Server::tcp("secure", Some(through.server(None)?)).await?;
    let plain = Server::tcp("plain", None).await?;
    let echo = Echo::start("web", (Ipv4Addr::LOCALHOST, 0).into()).await?;
    let port = ports::free_port()?;
    let secrets =
        objects::secret("ended", &ended.certificate, &ended.key) + &objects::secret("web", &web.certificate, &web.key);
    let listeners = [
        format!("{{name: through, port: {port}, protocol: TLS, tls: {{mode: Passthrough}}}}"),
        format!(
            "{{name: ends, port: {port}, protocol: TLS, hostname: '*.ends.example', tls: {{certificateRefs: [{{name: ended}}]}}}}"
        ),
        format!(
            "{{name: web, port: {port}, protocol: HTTPS, hostname: web.example, tls: {{certificateRefs: [{{name: web}}]}}}}"
        ),
    ];
    let http = objects::Route {
        hosts: "web.example",
        rules: "  - backendRefs: [{name: web, port: 80}]",
        ..Default::default()
    };
    let files = [
        (
            "services.yaml",
            service("secure", "TCP", &secure) + &service("plain", "TCP", &plain) + &objects::service("web", &echo),
        ),
        ("secrets.yaml", secrets),
        ("http.yaml", http.to_string()),
        ("through.yaml", route("TLSRoute", "through", "through", "hostnames: [through.example]", &[("secure", 1)])),
        ("ends.yaml", route("TLSRoute", "ends", "ends", "hostnames: ['*.ends.example']", &[("plain", 1)])),
    ];
    let world = World::start(&listeners, &files).await?;
    let passed = eventually(TIMEOUT, async || tls_to(port, "through.example", &through).await).await;
    let (mut talk, by) = passed.with_context(|| world.portcullis.log_tail())?;
    ensure!(by == "secure", "the backend's own certificate is shown: {by}");
    talk.says("hello").await?;
    let (mut talk, by) = tls_to(port, "x.ends.example", &ended).await?;
    ensure!(by == "plain", "TLS ends at the Gateway: {by}");
    talk.says("hello").await?;
    let tls = Tls::to("web.example");
    let target = Target { tls: Some(tls), ..Target::local(port) };
    let answer = client::send(&target, &Request::get("web.example", "/")).await?;
    ensure!(answer.status == 200, "{} {}", answer.status, answer.body);
    for name in ["other.example", "deeper.through.example"] {
        ensure!(tls_to(port, name, &through).await.is_err(), "{name} is nobody's");
    }
    world.end().await
}
