//! Real proxies, real tokens: who gets a Gateway's configuration, and how that lasts while everything rotates.

#[path = "xds_security/world.rs"]
mod world;

use std::time::{Duration, SystemTime};

use anyhow::{Result, ensure};
use cluster::identity::Trust;
use cluster::identity::ca::RotationPolicy;
use cluster::identity::ca_controller::CaController;
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::{
    AggregatedConfigSource, ApiVersion, ConfigSource, TransportSocket, transport_socket,
};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CommonTlsContext, SdsSecretConfig, UpstreamTlsContext,
};
use envoy_types::pb::google::protobuf::Any;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::certificates::{Certificate, KeyKind};
use portcullis_tests::client::{self, Request, Target};
use portcullis_tests::wait::{TIMEOUT, eventually};
use prost::{Message as _, Name as _};
use serde_json::Value;
use tokio::sync::watch;
use xds::{Event, Refusal, Resource, ResourceType, Snapshot};

use crate::tokens::{self, Bound};
use world::{EDGE, OTHER, SERVER, STRANGER, World};

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_with_its_token_is_configured_over_tls() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    let mut proxy = world.proxy("edge", &world.token(EDGE).await?).await?;
    proxy.has("edge-cluster").await?;
    let edge = world.gateway("edge");
    world.connected(&edge).await?;
    ensure!(proxy.counter("cluster.xds.ssl.versions.TLSv1.3").await? > 0, "not over TLS");
    ensure!(proxy.clusters().await? == ["edge-cluster"], "more than its own: {:?}", proxy.clusters().await?);
    proxy.envoy.check().await
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_is_told_anything() -> Result<()> {
    let api = ApiServer::shared().await?;
    let mut world = World::new(api).await?;
    let namespace = world.namespace.clone();
    let (past, future) = (SystemTime::now() - MINUTE, SystemTime::now() + 10 * MINUTE);
    let forged = tokens::expiring(api, &namespace, EDGE, future).await?;
    // A token with everything right but the signature.
    let mut unsigned = forged.clone();
    unsigned.replace_range(unsigned.len() - 8.., "AAAAAAAA");
    let cases = [
        ("for another audience", api.token(&namespace, EDGE, &["other"]).await?, "edge", Refusal::Denied),
        ("for the API server", api.token(&namespace, EDGE, &[]).await?, "edge", Refusal::Denied),
        ("garbage", "garbage".to_owned(), "edge", Refusal::Denied),
        ("with a wrong signature", unsigned, "edge", Refusal::Denied),
        ("expired", tokens::expiring(api, &namespace, EDGE, past).await?, "edge", Refusal::Denied),
        ("of no proxy", world.token(STRANGER).await?, "edge", Refusal::NoGateway),
        ("of another Gateway's proxy", world.token(OTHER).await?, "edge", Refusal::WrongGateway),
    ];
    for (what, token, gateway, refusal) in cases {
        let proxy = world.proxy(gateway, &token).await?;
        // It comes again, and again in vain.
        for _ in 0..2 {
            world.refused(refusal).await.map_err(|error| error.context(what))?;
        }
        ensure!(proxy.clusters().await?.is_empty(), "a token {what} gave {:?}", proxy.clusters().await?);
        drop(proxy);
        world.told();
    }
    let without = |bootstrap: &mut Value| {
        let options = &mut bootstrap["staticResources"]["clusters"][0]["typedExtensionProtocolOptions"];
        let options = &mut options["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"];
        options["httpFilters"].as_array_mut().expect("filters").remove(0);
    };
    let proxy = world.proxy_with("edge", "unused", without).await?;
    world.refused(Refusal::Token).await?;
    ensure!(proxy.clusters().await?.is_empty(), "without a token: {:?}", proxy.clusters().await?);
    // What was made here is taken, if it is not expired: the test can tell.
    let proxy = world.proxy("edge", &forged).await?;
    proxy.has("edge-cluster").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_another_gateway_does_not_exist_and_who_asks_is_counted() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    let (edge, other) = (world.gateway("edge"), world.gateway("other"));
    let theirs = Resource::new(ResourceType::Secret, "theirs", [1; 16], Vec::new().into());
    world.hub().publish(&other, Snapshot::new().with(theirs));
    let ads = ConfigSource {
        resource_api_version: ApiVersion::V3 as i32,
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        ..ConfigSource::default()
    };
    let context = UpstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            tls_certificate_sds_secret_configs: vec![SdsSecretConfig { name: "theirs".into(), sds_config: Some(ads) }],
            ..CommonTlsContext::default()
        }),
        ..UpstreamTlsContext::default()
    };
    let curious = Cluster {
        name: "curious".into(),
        transport_socket: Some(TransportSocket {
            name: "envoy.transport_sockets.tls".into(),
            config_type: Some(transport_socket::ConfigType::TypedConfig(Any {
                type_url: UpstreamTlsContext::type_url(),
                value: context.encode_to_vec(),
            })),
        }),
        ..Cluster::default()
    };
    let curious = Resource::new(ResourceType::Cluster, "curious", [2; 16], curious.encode_to_vec().into());
    world.hub().publish(&edge, Snapshot::new().with(curious));
    let proxy = world.proxy("edge", &world.token(EDGE).await?).await?;
    let asked = world.event(|event| match event {
        Event::UnknownName { gateway, kind: ResourceType::Secret, name, .. } => Some((gateway.clone(), name.clone())),
        _ => None,
    });
    ensure!(asked.await? == (edge, "theirs".to_owned()));
    let dump = proxy.envoy.admin("/config_dump?resource=dynamic_active_secrets").await?.body;
    ensure!(!dump.contains("theirs"), "{dump}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_was_rotated_is_shown_when_the_old_one_is_revoked() -> Result<()> {
    let api = ApiServer::shared().await?;
    let mut world = World::new(api).await?;
    let (namespace, edge) = (world.namespace.clone(), world.gateway("edge"));
    let first = Bound::new(api, &namespace, EDGE, "first").await?;
    let second = Bound::new(api, &namespace, EDGE, "second").await?;
    let mut proxy = world.proxy("edge", &first.token).await?;
    proxy.has("edge-cluster").await?;
    let stream = world.connected(&edge).await?;
    let added = proxy.counter("cluster_manager.cluster_added").await?;
    proxy.mount_token(&second.token)?;
    // The API server itself remembers for ten seconds what it said of a token.
    first.revoke().await?;
    let ended = |event: &Event| matches!(event, Event::Disconnected { stream: of, .. } if *of == stream).then_some(());
    world.event(ended).await?;
    world.connected(&edge).await?;
    // It has all there is to have, so what comes next is the next change.
    world.hub().publish(&edge, Snapshot::new().with(world.cluster("edge-cluster", 1)).with(world.cluster("next", 1)));
    let sent = world.event(|event| match event {
        Event::Acked { versions, .. } if !versions.is_empty() => Some(versions.clone()),
        _ => None,
    });
    let names: Vec<_> = sent.await?.into_iter().map(|(name, _)| name.to_string()).collect();
    ensure!(names == ["next"], "it was sent {names:?}");
    proxy.has("next").await?;
    ensure!(proxy.counter("cluster_manager.cluster_added").await? == added + 1);
    proxy.envoy.check().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_comes_back_to_a_controller_that_was_restarted() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    let edge = world.gateway("edge");
    let proxy = world.proxy("edge", &world.token(EDGE).await?).await?;
    proxy.has("edge-cluster").await?;
    world.stop().await?;
    eventually(TIMEOUT, async || {
        ensure!(proxy.envoy.stats().await?.get("control_plane.connected_state") == Some(&0), "still connected");
        anyhow::Ok(())
    })
    .await?;
    proxy.has("edge-cluster").await?;
    world.start().await?;
    world.connected(&edge).await?;
    world.hub().publish(&edge, Snapshot::new().with(world.cluster("next", 1)));
    proxy.has("next").await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_authority_is_replaced_without_a_dropped_stream() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    let edge = world.gateway("edge");
    let mut proxy = world.proxy("edge", &world.token(EDGE).await?).await?;
    proxy.has("edge-cluster").await?;
    world.connected(&edge).await?;
    let first = world.bundle(1).await?;
    // Somebody asks for another one. It is announced and does not sign yet.
    world.secrets().await?.delete("authority", &DeleteParams::default()).await?;
    let both = world.bundle(2).await?;
    ensure!(both.starts_with(&first), "the old one is not there any more");
    proxy.trusts(&both).await?;
    // It signs now, and who connects now believes it.
    world.pass(10 * MINUTE);
    eventually(TIMEOUT, async || {
        let bundle = world.bundle(2).await?;
        ensure!(bundle != both, "it does not sign");
        anyhow::Ok(())
    })
    .await?;
    world.pass(10 * MINUTE);
    let last = world.bundle(1).await?;
    ensure!(!both.starts_with(&last) && both.contains(&last), "not the one that was announced");
    world.hub().publish(&edge, Snapshot::new().with(world.cluster("next", 1)));
    proxy.has("next").await?;
    let ended = world.told().into_iter().find(|event| matches!(event, Event::Disconnected { .. }));
    ensure!(ended.is_none(), "{ended:?}");
    // A proxy that comes back meets the new certificate, and with the new bundle alone, too.
    world.restart().await?;
    world.connected(&edge).await?;
    proxy.trusts(&last).await?;
    world.restart().await?;
    world.connected(&edge).await?;
    proxy.envoy.check().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_says_nothing_to_who_is_not_its_controller() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    let edge = world.gateway("edge");
    let token = world.token(EDGE).await?;
    // It looks for somebody of another name, whom the same authority could have signed.
    let mut other = world.proxy_named("elsewhere.svc", "edge", &token, |_| ()).await?;
    world.refused(Refusal::Handshake).await?;
    ensure!(other.clusters().await?.is_empty(), "{:?}", other.clusters().await?);
    other.envoy.check().await?;
    drop(other);
    // One that trusts another authority.
    let mut proxy = world.proxy("edge", &token).await?;
    proxy.has("edge-cluster").await?;
    let bundle = world.bundle(1).await?;
    let foreign = Certificate::new(&[SERVER.to_owned()], KeyKind::default())?;
    proxy.trusts(&foreign.certificate).await?;
    world.restart().await?;
    for _ in 0..2 {
        world.refused(Refusal::Handshake).await?;
    }
    let came = world.told().into_iter().find(|event| matches!(event, Event::Connected { .. }));
    ensure!(came.is_none(), "{came:?}");
    proxy.trusts(&bundle).await?;
    world.connected(&edge).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_api_server_does_not_answer_who_is_known_is_served() -> Result<()> {
    let api = ApiServer::in_turn().await?;
    let mut world = World::new(&api).await?;
    let edge = world.gateway("edge");
    let unknown = world.token(EDGE).await?;
    let proxy = world.proxy("edge", &world.token(EDGE).await?).await?;
    proxy.has("edge-cluster").await?;
    world.connected(&edge).await?;
    api.freeze().await?;
    // Its token is to be checked again, which nobody does.
    let stranger = world.proxy("edge", &unknown).await?;
    world.refused(Refusal::Unavailable).await?;
    world.hub().publish(&edge, Snapshot::new().with(world.cluster("next", 1)));
    proxy.has("next").await?;
    ensure!(stranger.clusters().await?.is_empty(), "nobody knows who that is");
    // It comes back with the token that is known.
    world.hub().withdraw(&edge);
    world.hub().publish(&edge, Snapshot::new().with(world.cluster("after", 1)));
    world.connected(&edge).await?;
    proxy.has("after").await?;
    api.thaw().await?;
    stranger.has("after").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_shows_two_pages_and_nothing_else() -> Result<()> {
    let world = World::new(ApiServer::shared().await?).await?;
    let proxy = world.proxy("edge", &world.token(EDGE).await?).await?;
    proxy.has("edge-cluster").await?;
    eventually(TIMEOUT, async || {
        let ready = proxy.observe("GET", "/ready").await?;
        ensure!(ready.status == 200 && ready.body.trim() == "LIVE", "{ready:?}");
        anyhow::Ok(())
    })
    .await?;
    let stats = proxy.observe("GET", "/stats/prometheus").await?;
    ensure!(stats.status == 200 && stats.body.contains("envoy_cluster_upstream_cx_total"), "{stats:?}");
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/stats"),
        ("GET", "/config_dump"),
        ("GET", "/clusters"),
        ("GET", "/ready/"),
        ("GET", "/ready/../config_dump"),
        ("GET", "/stats/prometheus/../../config_dump"),
        ("GET", "//config_dump"),
        ("GET", "/ready%2f..%2fconfig_dump"),
        ("POST", "/ready"),
        ("POST", "/stats/prometheus"),
        ("POST", "/quitquitquit"),
        ("GET", "/quitquitquit"),
        ("POST", "/healthcheck/fail"),
        ("POST", "/drain_listeners"),
        ("POST", "/logging?level=trace"),
        ("POST", "/runtime_modify?a=b"),
    ] {
        let answer = proxy.observe(method, path).await?;
        ensure!(answer.status == 404 && answer.body.is_empty(), "{method} {path}: {answer:?}");
    }
    // A proxy that is to be taken out says so.
    let admin = Target::local(proxy.envoy.admin_address().port());
    let fail = Request { method: "POST".to_owned(), ..Request::get("localhost", "/healthcheck/fail") };
    client::send(&admin, &fail).await?;
    let ready = proxy.observe("GET", "/ready").await?;
    ensure!(ready.status == 503, "{ready:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_show_what_the_leader_made_and_it_outlives_the_leader() -> Result<()> {
    let api = ApiServer::shared().await?;
    let namespace = api.namespace().await?;
    let client = api.client().await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    let replica = |leading: bool| {
        let names = vec![SERVER.to_owned()];
        let controller = CaController::new(client.clone(), &namespace, "authority", names, RotationPolicy::default());
        let controller = controller.with_clock(std::sync::Arc::new(SystemTime::now), Duration::from_millis(50));
        let (lead, leads) = watch::channel(leading);
        let trust = Trust::new();
        let task = tokio::spawn(controller.run(trust.clone(), leads));
        (trust, lead, task)
    };
    let bundle_of = async |trust: &Trust, wanted: &(dyn Fn(&str) -> bool + Sync)| -> Result<String> {
        let mut bundle = trust.bundle();
        let found = tokio::time::timeout(TIMEOUT, bundle.wait_for(|bundle| bundle.as_deref().is_some_and(wanted)));
        Ok(found.await??.as_deref().unwrap_or_default().to_owned())
    };
    // It is there and empty, as where nobody may create any.
    let mut empty = Secret::default();
    empty.metadata.name = Some("authority".to_owned());
    secrets.create(&PostParams::default(), &empty).await?;
    let (follower, lead_second, second) = replica(false);
    let (leader, _lead_first, first) = replica(true);
    let made = bundle_of(&leader, &|_| true).await?;
    ensure!(bundle_of(&follower, &|_| true).await? == made);
    eventually(TIMEOUT, async || {
        ensure!(follower.certificate.is_set() && leader.certificate.is_set(), "nothing to show");
        anyhow::Ok(())
    })
    .await?;
    // The leader goes, and what is stored is destroyed by hand. The follower goes on with what it has.
    first.abort();
    let mut secret = secrets.get("authority").await?;
    secret.data.get_or_insert_default().insert("signing.key".into(), ByteString(b"nothing".to_vec()));
    let broken = secrets.replace("authority", &PostParams::default(), &secret).await?;
    ensure!(follower.bundle().borrow().as_deref() == Some(made.as_str()));
    // It leads, and repairs it from what it knows: with a successor, and with no break.
    lead_second.send_replace(true);
    let repaired = bundle_of(&follower, &|bundle| bundle != made).await?;
    ensure!(repaired.starts_with(&made) && repaired.matches("BEGIN CERTIFICATE").count() == 2, "{repaired}");
    let stored = secrets.get("authority").await?;
    ensure!(stored.metadata.resource_version != broken.metadata.resource_version, "it was not written");
    let data = stored.data.unwrap_or_default();
    ensure!(data.get("ca.crt").is_some_and(|bundle| bundle.0 == repaired.as_bytes()), "people read another bundle");
    second.abort();
    Ok(())
}
