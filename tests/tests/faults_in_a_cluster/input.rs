//! Objects that are wrong, that go, and that come back as something else.

use anyhow::{Result, ensure};
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::certificates::{Certificate, KeyKind};
use portcullis_tests::client::{Connection, Protocol, Target, Tls};
use portcullis_tests::ports::free_port;
use portcullis_tests::wait::{TIMEOUT, eventually};

use super::objects::{class, gateway, http, https, route, rule, rules, service};
use super::world::{World, backend};

#[tokio::test(flavor = "multi_thread")]
async fn what_the_schema_lets_through_is_refused_where_it_is_wrong_and_told_there() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    let edge = world.edge().await?;
    let other = backend("other").await?;
    world.apply(&service("other", 80, "", &other)).await?;

    let fine = rule("/fine", "other", 80);
    let regex = rule("'/([a'", "other", 80).replace("PathPrefix", "RegularExpression");
    let kind = rule("/kind", "other", 80).replace("name: other", "group: example.com, kind: Thing, name: other");
    world.apply(&rules("wrong", "edge", &[fine, regex, kind])).await?;
    world.says("HTTPRoute", "wrong", "PartiallyInvalid", "True UnsupportedValue").await?;
    world.says("HTTPRoute", "wrong", "ResolvedRefs", "False InvalidKind").await?;
    edge.proxy.reaches("/fine", &other).await?;
    edge.proxy.answers("/kind", 500).await?;

    // A policy that contradicts itself closes what it is for, and nothing else.
    world.apply(&route("rewritten", "edge", "other", 80)).await?;
    edge.proxy.reaches("/rewritten", &other).await?;
    let policy = |entries: &str| {
        format!(
            "apiVersion: gateway.portcullis.dev/v1alpha1\n\
             kind: RewritePolicy\n\
             metadata: {{name: rewrite}}\n\
             spec:\n\
             \x20 targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: rewritten}}]\n\
             \x20 replacePrefix: [{entries}]\n"
        )
    };
    world.apply(&policy("{prefix: /rewritten, replacement: /a}, {prefix: /rewritten, replacement: /b}")).await?;
    world.says("RewritePolicy", "rewrite", "Accepted", "False").await?;
    edge.proxy.answers("/rewritten", 500).await?;
    edge.proxy.reaches("/fine", &other).await?;
    world.apply(&policy("{prefix: /rewritten, replacement: /a}")).await?;
    world.says("RewritePolicy", "rewrite", "Accepted", "True").await?;
    edge.proxy.reaches("/rewritten", &other).await?;

    world.apply(&rules("wrong", "edge", &[rule("/kind", "other", 80)])).await?;
    world.says("HTTPRoute", "wrong", "ResolvedRefs", "True").await?;
    edge.proxy.reaches("/kind", &other).await?;
    world.is_unharmed(edge).await
}

/// The certificate that the listener on `port` shows.
async fn shown(port: u16) -> Result<Vec<u8>> {
    let tls = Tls::to("example.com");
    let target = Target { address: ([127, 0, 0, 1], port).into(), protocol: Protocol::Http1, tls: Some(tls) };
    let connection = Connection::open(&target).await?;
    connection.certificate.clone().ok_or_else(|| anyhow::anyhow!("no certificate"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_goes_takes_its_listener_alone_and_one_that_comes_back_brings_it_back() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    let edge = world.edge().await?;
    let port = free_port()?;
    let certificates = [(); 2].map(|()| Certificate::new(&["example.com".to_owned()], KeyKind::default()));
    let [first, second] = certificates;
    let (first, second) = (first?, second?);
    let secret = |certificate: &Certificate| {
        portcullis_tests::objects::secret("certificate", &certificate.certificate, &certificate.key)
            .replace("namespace: infra, ", "")
    };
    let shows = async |certificate: &Certificate| {
        let shown = async || {
            ensure!(shown(port).await? == certificate.der, "another certificate");
            anyhow::Ok(())
        };
        eventually(TIMEOUT, shown).await
    };
    world.apply(&secret(&first)).await?;
    world.apply(&gateway("edge", &world.name, &[http(edge.port), https(port)])).await?;
    shows(&first).await?;

    world.delete("Secret", "certificate").await?;
    world.says("Gateway", "edge", "ResolvedRefs", "False InvalidCertificateRef").await?;
    eventually(TIMEOUT, async || {
        ensure!(shown(port).await.is_err(), "a certificate is shown that is gone");
        anyhow::Ok(())
    })
    .await?;

    world.apply(&secret(&second)).await?;
    shows(&second).await?;
    world.says("Gateway", "edge", "Programmed", "True").await?;
    world.is_unharmed(edge).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_made_again_with_other_ports_is_served_by_those() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    let edge = world.edge().await?;
    let (first, second) = (backend("one").await?, backend("two").await?);
    world.apply(&service("moving", 80, "", &first)).await?;
    world.apply(&route("moving", "edge", "moving", 80)).await?;
    edge.proxy.reaches("/moving", &first).await?;

    world.delete("Service", "moving").await?;
    edge.proxy.answers("/moving", 500).await?;
    world.says("HTTPRoute", "moving", "ResolvedRefs", "False BackendNotFound").await?;

    // The endpoints of another port are not those of the one that the route names.
    world.apply(&service("moving", 8080, "web", &second)).await?;
    world.says("HTTPRoute", "moving", "ResolvedRefs", "False BackendNotFound").await?;
    edge.proxy.answers("/moving", 500).await?;
    world.apply(&route("moving", "edge", "moving", 8080)).await?;
    edge.proxy.reaches("/moving", &second).await?;
    world.says("HTTPRoute", "moving", "ResolvedRefs", "True").await?;

    // The same number, and another name and another target behind it.
    world.delete("Service", "moving").await?;
    world.delete("EndpointSlice", "moving").await?;
    edge.proxy.answers("/moving", 500).await?;
    world.apply(&service("moving", 8080, "other", &first)).await?;
    edge.proxy.reaches("/moving", &first).await?;
    world.says("HTTPRoute", "moving", "ResolvedRefs", "True").await?;
    world.is_unharmed(edge).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_made_again_is_served_by_the_proxies_that_wait_for_it() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    let edge = world.edge().await?;
    let port = free_port()?;
    let other = gateway("other", &world.name, &[http(port)]);
    world.apply(&other).await?;
    world.apply(&route("found", "other", "healthy", 80)).await?;
    let proxy = world.proxy("other", &Target::local(port)).await?;
    proxy.answers("/found", 200).await?;

    world.delete("Gateway", "other").await?;
    eventually(TIMEOUT, async || {
        ensure!(Connection::open(&proxy.target).await.is_err(), "the listener is there");
        anyhow::Ok(())
    })
    .await?;
    world.apply(&other).await?;
    proxy.answers("/found", 200).await?;
    world.says("Gateway", "other", "Programmed", "True").await?;
    world.says("HTTPRoute", "found", "Accepted", "True").await?;
    world.is_unharmed(edge).await
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_of_one_name_and_class_in_two_namespaces_have_nothing_in_common() -> Result<()> {
    let api = ApiServer::shared().await?;
    let namespace = api.namespace().await?;
    let mut world = World::watching(api, &[&namespace]).await?;
    let edge = world.edge().await?;
    let port = free_port()?;
    // The port of the other's listener: each has its own proxies, so that both can have it.
    let ports = [http(port), http(edge.port).replace("name: http", "name: theirs")];
    api.apply_in(&namespace, &gateway("edge", &world.name, &ports)).await?;
    let theirs = backend("theirs").await?;
    api.apply_in(&namespace, &service("healthy", 80, "", &theirs)).await?;
    api.apply_in(&namespace, &route("theirs", "edge", "healthy", 80)).await?;
    let snapshot = async |gateway: String| {
        let snapshot = world.replica.portcullis.snapshot().await?;
        let found = snapshot["gateways"].as_array().into_iter().flatten().find(|entry| entry["gateway"] == *gateway);
        found.map(ToString::to_string).ok_or_else(|| anyhow::anyhow!("no {gateway}: {snapshot:#}"))
    };
    let (ours, other) = (format!("{}/edge", world.name), format!("{namespace}/edge"));
    eventually(TIMEOUT, async || {
        let theirs = snapshot(other.clone()).await?;
        ensure!(theirs.contains("/theirs") && !theirs.contains("/healthy\""), "{theirs}");
        anyhow::Ok(())
    })
    .await?;
    ensure!(!snapshot(ours).await?.contains("/theirs"), "a route of the other");
    // The token of one is none for the other.
    edge.proxy.answers("/theirs", 404).await?;
    api.apply_in(&namespace, &gateway("edge", "nobodys", &ports)).await?;
    eventually(TIMEOUT, async || {
        ensure!(snapshot(other.clone()).await.is_err(), "it is served");
        anyhow::Ok(())
    })
    .await?;
    edge.proxy.answers("/healthy", 200).await?;
    world.is_unharmed(edge).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_that_is_deleted_and_made_again_costs_no_request() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    let edge = world.edge().await?;
    let ours = class(&world.name, &format!("portcullis.dev/{}", world.name));
    world.delete("GatewayClass", &world.name).await?;
    world.replica.is_ready_and_says("deleted: GatewayClass ").await?;
    let (first, second) = (backend("first").await?, backend("second").await?);
    world.apply(&service("later", 80, "", &first)).await?;
    world.apply(&route("later", "edge", "later", 80)).await?;
    // What goes on changes as before.
    edge.proxy.reaches("/later", &first).await?;

    world.apply(&ours).await?;
    world.says("GatewayClass", &world.name, "Accepted", "True").await?;
    world.replica.is_ready_and_says("").await?;
    world.says("Gateway", "edge", "Programmed", "True").await?;
    world.apply(&service("later", 80, "", &second)).await?;
    edge.proxy.reaches("/later", &second).await?;
    world.is_unharmed(edge).await
}
