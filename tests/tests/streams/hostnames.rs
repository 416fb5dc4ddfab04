//! Hostnames that come and go on a port beside others.

use anyhow::{Context, Result, ensure};
use portcullis_tests::certificates::{Certificate, KeyKind};
use portcullis_tests::client::{Connection, Request, Target, Tls};
use portcullis_tests::echo::Echo;
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, ports};

use super::world::{Server, World, route, service, tls_to};

fn named(number: usize) -> (String, String) {
    let name = format!("n{number}.example");
    let content =
        route("TLSRoute", &format!("n{number}"), "through", &format!("hostnames: [{name}]"), &[("secure", 1)]);
    (format!("name-{number}.yaml"), content)
}

/// How often Envoy changed a listener in place, how often it made one anew, and how many filter chains it drains.
async fn updates(world: &World) -> Result<(u64, u64, u64)> {
    let stats = world.envoy.stats().await?;
    let stat = |name: &str| stats.get(name).copied().with_context(|| format!("no stat {name}"));
    let in_place = stat("listener_manager.listener_in_place_updated")?;
    // Changes in place are among all changes.
    let anew = stat("listener_manager.listener_modified")?.saturating_sub(in_place);
    Ok((in_place, anew, stat("listener_manager.total_filter_chains_draining")?))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostname_that_comes_drains_no_chain_and_one_that_goes_its_own_alone() -> Result<()> {
    const NAMES: usize = 20;
    let own = |name: &str| Certificate::new(&[name.to_owned()], KeyKind::Ecdsa);
    let (through, web) = (own("a.example")?, own("web.example")?);
    let secure = Server::tcp("secure", Some(through.server(None)?)).await?;
    let echo = Echo::start("web", ([127, 0, 0, 1], 0).into()).await?;
    let port = ports::free_port()?;
    let listeners = [
        format!("{{name: through, port: {port}, protocol: TLS, tls: {{mode: Passthrough}}}}"),
        format!(
            "{{name: web, port: {port}, protocol: HTTPS, hostname: web.example, tls: {{certificateRefs: [{{name: web}}]}}}}"
        ),
    ];
    let rules = "  - backendRefs: [{name: web, port: 80}]";
    let http = objects::Route { hosts: "web.example", rules, ..Default::default() };
    let files = [
        ("services.yaml", service("secure", "TCP", &secure) + &objects::service("web", &echo)),
        ("secrets.yaml", objects::secret("web", &web.certificate, &web.key)),
        ("http.yaml", http.to_string()),
        ("names.yaml", route("TLSRoute", "a", "through", "hostnames: [a.example]", &[("secure", 1)])),
    ];
    let world = World::start(&listeners, &files).await?;
    let session = eventually(TIMEOUT, async || tls_to(port, "a.example", &through).await).await;
    let (mut session, by) = session.with_context(|| world.portcullis.log_tail())?;
    ensure!(by == "secure", "{by}");
    let target = Target { tls: Some(Tls::to("web.example")), ..Target::local(port) };
    let mut requests = Connection::open(&target).await?;
    let (_, anew_before, _) = updates(&world).await?;
    for number in 0..=NAMES {
        let (before, ..) = updates(&world).await?;
        let (file, content) = named(number.min(NAMES - 1));
        // The last step takes one away.
        if number < NAMES {
            world.portcullis.write(&file, &content)?;
        } else {
            world.portcullis.remove(&file)?;
        }
        let updated = eventually(TIMEOUT, async || {
            let (now, anew, draining) = updates(&world).await?;
            ensure!(now > before, "step {number} does not arrive");
            ensure!(anew == anew_before, "step {number} makes a listener anew");
            Ok(draining)
        });
        let draining = updated.await.with_context(|| world.portcullis.log_tail())?;
        ensure!(draining <= u64::from(number == NAMES), "step {number} drains {draining} chains");
        session.says("still here").await?;
        let answer = requests.send(&Request::get("web.example", "/")).await?;
        ensure!(answer.status == 200 && answer.header("connection").is_none(), "step {number}: {}", answer.status);
    }
    world.end().await
}
