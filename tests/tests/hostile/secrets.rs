//! Secrets that the controller does not get, and those of others.

use anyhow::{Context, Result, ensure};
use http::Method;
use portcullis_tests::api_server::{ApiServer, Verdict};
use portcullis_tests::certificates::{Certificate, KeyKind};
use portcullis_tests::client::{Connection, Protocol, Target, Tls};
use portcullis_tests::ports::free_port;
use portcullis_tests::wait::{TIMEOUT, eventually};

use crate::objects::{gateway, http, https};
use crate::world::World;

/// More than are read at a time.
const SECRETS: usize = 20;

fn secret(name: &str, certificate: &Certificate) -> String {
    portcullis_tests::objects::secret(name, &certificate.certificate, &certificate.key)
        .replace("namespace: infra, ", "")
}

/// Waits until the listener on a port shows a certificate.
async fn shows(port: u16, certificate: &Certificate) -> Result<()> {
    let tls = Tls { server_name: Some("example.com".to_owned()), key: None };
    let target = Target { address: ([127, 0, 0, 1], port).into(), protocol: Protocol::Http1, tls: Some(tls) };
    eventually(TIMEOUT, async || {
        let connection = Connection::open(&target).await?;
        ensure!(connection.certificate.as_ref() == Some(&certificate.der), "another certificate");
        anyhow::Ok(())
    })
    .await
}

/// Waits until the status of listener `of-0` in a namespace says this of its certificate.
async fn resolved(world: &World<'_>, namespace: &str, wanted: &str) -> Result<()> {
    let gateways = world.objects_in(namespace, "Gateway").await?;
    eventually(TIMEOUT, async || {
        let status = gateways.get("closed").await?.data["status"].take();
        let conditions = status["listeners"][0]["conditions"].as_array().cloned().unwrap_or_default();
        let is_wanted = conditions.iter().any(|each| each["type"] == "ResolvedRefs" && each["status"] == wanted);
        ensure!(is_wanted, "{status:#}");
        anyhow::Ok(())
    })
    .await
    .with_context(|| world.replica.portcullis.log_tail())
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_that_cannot_be_read_hold_up_neither_those_of_others_nor_a_start() -> Result<()> {
    let api = ApiServer::shared().await?;
    let closed = api.namespace().await?;
    let mut world = World::watching(api, &[&closed]).await?;
    let edge = world.edge().await?;
    let contents = format!("/namespaces/{closed}/secrets?");
    world.replica.way.judge(move |method, path| {
        let by_name = *method == Method::GET && path.contains(&contents) && path.contains("metadata.name");
        if by_name { Verdict::Refuse { code: 403, retry_after: None } } else { Verdict::Pass }
    });
    let certificate = Certificate::new(&["example.com".to_owned()], KeyKind::default())?;
    let names = (0..SECRETS).map(|number| format!("of-{number}"));
    let (mut secrets, mut listeners) = (Vec::new(), Vec::new());
    for name in names {
        let listener = https(free_port()?).replace("name: https", &format!("name: {name}"));
        listeners.push(listener.replace("name: certificate", &format!("name: {name}")));
        secrets.push(secret(&name, &certificate));
    }
    api.apply_in(&closed, &secrets.join("---\n")).await?;
    api.apply_in(&closed, &gateway("closed", &world.class, &listeners)).await?;
    eventually(TIMEOUT, async || {
        let asked = world.replica.way.exchanges().iter().filter(|exchange| exchange.status == 403).count();
        ensure!(asked > 0, "nothing was asked for");
        anyhow::Ok(())
    })
    .await?;

    let port = free_port()?;
    world.apply(&secret("certificate", &certificate)).await?;
    world.apply(&gateway("edge", &world.class, &[http(edge.port), https(port)])).await?;
    shows(port, &certificate).await.with_context(|| world.replica.portcullis.log_tail())?;

    world.replica.portcullis.restart().await?;
    resolved(&world, &closed, "False").await?;
    let told = async || {
        let page = format!("/debug/status?namespace={closed}&kind=Secret");
        anyhow::Ok(world.replica.portcullis.admin(&page).await?.body)
    };
    let why = told().await?;
    ensure!(why.contains("it cannot be read: the API server answered 403"), "{why}");
    shows(port, &certificate).await?;

    world.replica.way.pass();
    resolved(&world, &closed, "True").await?;
    eventually(TIMEOUT, async || {
        let why = told().await?;
        ensure!(!why.contains("it cannot be read"), "{why}");
        anyhow::Ok(())
    })
    .await?;
    world.is_unharmed(edge).await
}
