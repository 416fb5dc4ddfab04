//! Secrets that the controller does not get, and those of others.

use anyhow::{Context, Result, ensure};
use http::Method;
use portcullis_tests::api_server::{ApiServer, Channel, Verdict, loose_crd};
use portcullis_tests::certificates::{Certificate, KeyKind};
use portcullis_tests::client::{self, Connection, Protocol, Request, Target, Tls};
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
    let tls = Tls::to("example.com");
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

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_read_while_a_policy_selects_them_by_their_labels() -> Result<()> {
    // Of its own, since no other test has the kind.
    let api = ApiServer::start().await?;
    api.apply_crds(Channel::Experimental).await?;
    api.apply(&loose_crd("gateway.kgateway.dev", "v1alpha1", "trafficpolicies", "TrafficPolicy")).await?;
    let mut world = World::new(&api).await?;
    let edge = world.edge().await?;
    let keys = |team: &str, client: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: {client}, labels: {{team: {team}}}}}\n\
             stringData: {{{client}: key-of-{client}}}\n---\n"
        )
    };
    let policy = "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {name: guarded}\n\
                  spec:\n  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: guarded}]\n  \
                  apiKeyAuth: {secretSelector: {matchLabels: {team: shop}}}\n---\n";
    let route = crate::objects::route("guarded", "edge", "healthy", 80);
    let other = keys("office", "other");
    world.apply(&format!("{other}{}{policy}{route}", keys("shop", "alice"))).await?;
    let target = Target::local(edge.port);
    let answers = async |client: &str, status: u16| {
        let request = Request::get("localhost", "/guarded").header("api-key", &format!("key-of-{client}"));
        eventually(TIMEOUT, async || {
            let response = client::send(&target, &request).await?;
            ensure!(response.status == status, "{client}: {} and not {status}", response.status);
            anyhow::Ok(())
        })
        .await
    };
    answers("alice", 200).await.with_context(|| world.replica.portcullis.log_tail())?;
    answers("other", 401).await?;
    // A label that comes, one that goes, and a Secret that goes.
    world.apply(&keys("shop", "other")).await?;
    answers("other", 200).await?;
    world.apply(&keys("office", "alice")).await?;
    answers("alice", 401).await?;
    world.delete("Secret", "other").await?;
    answers("other", 500).await?;
    world.is_unharmed(edge).await
}
