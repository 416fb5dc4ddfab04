//! What a newcomer does first: `portcullis run --files examples/quickstart --envoy PATH`, then edit a file.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{self, Connection, Request, Target};
use portcullis_tests::echo::Echo;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::process::envoy_binary;
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{ports, process};

/// The files of the example with ports that are free.
fn example(port: u16, backends: [&Echo; 2]) -> Result<Vec<(String, String)>> {
    let folder = process::root().join("examples/quickstart");
    let replacements = [
        ("port: 8080", format!("port: {port}")),
        ("port: 9001", format!("port: {}", backends[0].address().port())),
        ("port: 9002", format!("port: {}", backends[1].address().port())),
    ];
    let mut files = Vec::new();
    let mut replaced = 0;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let mut content = std::fs::read_to_string(&path)?;
        for (from, to) in &replacements {
            replaced += content.matches(from).count();
            content = content.replace(from, to);
        }
        files.push((file_name(&path), content));
    }
    ensure!(replaced >= 3, "the example has other ports than this test thinks");
    Ok(files)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quickstart_serves_follows_an_edit_without_a_failed_request_and_ends_when_told() -> Result<()> {
    let anywhere: SocketAddr = ([127, 0, 0, 1], 0).into();
    let (a, b) = (Echo::start("a", anywhere).await?, Echo::start("b", anywhere).await?);
    let port = ports::free_port()?;
    let files = example(port, [&a, &b])?;
    let envoy = ["--envoy".to_owned(), envoy_binary()?.to_string_lossy().into_owned()];
    let mut portcullis = Portcullis::start_with(&files, &envoy).await?;
    let target = Target::local(port);
    let request = Request::get("localhost", "/");
    let first = eventually(TIMEOUT, || client::send(&target, &request)).await;
    first.with_context(|| portcullis.log_tail())?;

    let mut connection = Connection::open(&target).await?;
    let mut backend = async |request: &Request| {
        let response = connection.send(request).await?;
        ensure!(response.status == 200, "{} {}", response.status, response.body);
        let seen = response.echoed.context("no backend answered")?;
        Ok::<_, anyhow::Error>(seen.backend)
    };
    for _ in 0..20 {
        assert_eq!(backend(&request.clone().header("version", "b")).await?, "b");
    }
    let mut reached = [0, 0];
    for _ in 0..200 {
        reached[usize::from(backend(&request).await? == "b")] += 1;
    }
    ensure!(reached[0] > reached[1] && reached[1] > 0, "a and b answered {reached:?}");

    let (file, routes) = files.iter().find(|(name, _)| name == "routes.yaml").context("no routes.yaml")?;
    let edited = routes.replace("weight: 3", "weight: 0");
    ensure!(edited != *routes, "the example has other weights than this test thinks");
    portcullis.write(file, &edited)?;
    // Until the edit has arrived, and for a while after it, every request has to succeed.
    let mut in_a_row = 0;
    for _ in 0..100_000 {
        in_a_row = if backend(&request).await? == "b" { in_a_row + 1 } else { 0 };
        if in_a_row == 50 {
            break;
        }
    }
    ensure!(in_a_row == 50, "the edit did not arrive\n{}", portcullis.log_tail());

    portcullis.check()?;
    let ended = portcullis.terminate().await?;
    ensure!(ended.success(), "ended with {ended}\n{}", portcullis.log_tail());
    ensure!(Connection::open(&target).await.is_err(), "the Envoy outlived its supervisor");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_does_not_parse_keeps_its_last_good_objects_and_holds_nothing_else_up() -> Result<()> {
    let anywhere: SocketAddr = ([127, 0, 0, 1], 0).into();
    let (a, b) = (Echo::start("a", anywhere).await?, Echo::start("b", anywhere).await?);
    let port = ports::free_port()?;
    let envoy = ["--envoy".to_owned(), envoy_binary()?.to_string_lossy().into_owned()];
    let files = example(port, [&a, &b])?;
    let mut portcullis = Portcullis::start_with(&files, &envoy).await?;
    let target = Target::local(port);
    let by_header = Request::get("localhost", "/").header("version", "b");
    let first = eventually(TIMEOUT, || client::send(&target, &by_header)).await;
    first.with_context(|| portcullis.log_tail())?;

    portcullis.write("routes.yaml", "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n  metadata: [")?;
    portcullis.write(
        "more.yaml",
        "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: quickstart, name: more}
spec:
  parentRefs: [{name: edge}]
  hostnames: [more.example]
  rules:
  - backendRefs: [{name: a, port: 80}]
",
    )?;
    let served = eventually(TIMEOUT, async || {
        let response = client::send(&target, &Request::get("more.example", "/")).await?;
        let seen = response.echoed.with_context(|| format!("{} {}", response.status, response.body))?;
        ensure!(seen.backend == "a", "{} answers", seen.backend);
        Ok(())
    });
    served.await.with_context(|| portcullis.log_tail())?;
    let response = client::send(&target, &by_header).await?;
    let seen = response.echoed.context("the broken file took its routes away")?;
    assert_eq!(seen.backend, "b");
    let told = eventually(TIMEOUT, async || {
        let told = portcullis.log().contains("routes.yaml:");
        ensure!(told, "nothing tells where the file is broken\n{}", portcullis.log());
        Ok(())
    });
    told.await?;
    portcullis.check()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_that_dies_is_started_again() -> Result<()> {
    let anywhere: SocketAddr = ([127, 0, 0, 1], 0).into();
    let (a, b) = (Echo::start("a", anywhere).await?, Echo::start("b", anywhere).await?);
    let port = ports::free_port()?;
    let envoy = ["--envoy".to_owned(), envoy_binary()?.to_string_lossy().into_owned()];
    let portcullis = Portcullis::start_with(&example(port, [&a, &b])?, &envoy).await?;
    let target = Target::local(port);
    let request = Request::get("localhost", "/");
    let served = || eventually(TIMEOUT, || client::send(&target, &request));
    served().await.with_context(|| portcullis.log_tail())?;

    let before = portcullis.children()?;
    ensure!(before.len() == 1, "one Envoy for one Gateway, not {before:?}");
    process::kill(before[0]).await?;
    let replaced = eventually(TIMEOUT, async || {
        let now = portcullis.children()?;
        ensure!(now.len() == 1 && now != before, "children are {now:?}");
        Ok::<_, anyhow::Error>(())
    });
    replaced.await.with_context(|| portcullis.log_tail())?;
    served().await.with_context(|| portcullis.log_tail())?;
    Ok(())
}
