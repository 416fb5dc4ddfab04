//! Gateways whose proxies would share a name: whoever had it first keeps its objects and its proxies' identity.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::wait::{TIMEOUT, eventually};
use serde_json::Value;

use crate::deployed::{World, condition};

/// Another class of the same controller, such that `web` of it and `web-internal` of the world's share a name.
async fn second_class(world: &World<'_>) -> Result<String> {
    let class = format!("internal-{}", world.namespace);
    let yaml = format!(
        "apiVersion: gateway.networking.k8s.io/v1\n\
         kind: GatewayClass\n\
         metadata: {{name: {class}}}\n\
         spec: {{controllerName: portcullis.dev/{}}}\n",
        world.namespace
    );
    world.api.apply(&yaml).await?;
    Ok(class)
}

fn gateway(name: &str, class: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\n\
         kind: Gateway\n\
         metadata: {{name: {name}}}\n\
         spec:\n\
         \x20 gatewayClassName: {class}\n\
         \x20 listeners: [{{name: http, port: 80, protocol: HTTP}}]\n"
    )
}

/// Whether a Gateway is told that its name is another's.
fn told_of(status: &Value, other: &str) -> bool {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let accepted = conditions.into_iter().find(|condition| condition["type"] == "Accepted");
    accepted.is_some_and(|accepted| {
        let message = accepted["message"].as_str().unwrap_or_default();
        accepted["status"] == "False" && message.contains(other) && message.contains("another name")
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_whose_proxies_would_share_a_name_takes_no_object_and_heals_when_the_first_goes() -> Result<()> {
    let server = ApiServer::shared().await?;
    let world = World::deploying(server).await?;
    let class = second_class(&world).await?;
    let deployments: Api<Deployment> = Api::namespaced(server.client().await?, &world.namespace);
    let name = format!("web-internal-{}", world.namespace);
    let owner = async || {
        let owners = deployments.get(&name).await?.metadata.owner_references;
        anyhow::Ok(owners.into_iter().flatten().next().context("it has no owner")?.name)
    };
    let belongs_to = async |gateway: &str| {
        let owned = eventually(2 * TIMEOUT, async || {
            let owner = owner().await?;
            ensure!(owner == gateway, "it belongs to {owner}");
            Ok(())
        });
        owned.await.with_context(|| world.portcullis.log_tail())
    };
    world.apply_gateway("web-internal").await?;
    belongs_to("web-internal").await?;

    world.apply(&gateway("web", &class)).await?;
    world.says("Gateway", "web", |status| told_of(status, "/web-internal")).await?;
    ensure!(owner().await? == "web-internal", "the newcomer has taken the Deployment");
    world
        .says("Gateway", "web-internal", |status| condition(&status["conditions"], "Accepted") == Some("True"))
        .await?;

    world.delete("Gateway", "web-internal").await?;
    world.says("Gateway", "web", |status| condition(&status["conditions"], "Accepted") == Some("True")).await?;
    belongs_to("web").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_is_served_as_before_when_a_newcomer_would_share_its_account() -> Result<()> {
    let server = ApiServer::shared().await?;
    let mut world = World::new(server).await?;
    let class = second_class(&world).await?;
    world.apply_gateway("web-internal").await?;
    world.apply(&world.answering_route("first", "web-internal", "/first", 301)).await?;
    let proxy = world.proxy("web-internal").await?;
    proxy.answers("/first", 301).await?;
    // Nothing runs that Portcullis has made, so age alone decides, which is in seconds.
    eventually(TIMEOUT, async || {
        let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?;
        ensure!(now > world.created("Gateway", "web-internal").await?, "another would be as old");
        Ok(())
    })
    .await?;

    world.apply(&gateway("web", &class)).await?;
    world.apply(&world.answering_route("stolen", "web", "/stolen", 302)).await?;
    world.says("Gateway", "web", |status| told_of(status, "/web-internal")).await?;
    // A change of the first is served, and a proxy that connects anew with the token of that account is the first's.
    world.apply(&world.answering_route("first", "web-internal", "/first", 302)).await?;
    proxy.answers("/first", 302).await?;
    proxy.answers("/stolen", 404).await?;
    drop(proxy);
    let again = world.proxy("web-internal").await?;
    again.answers("/first", 302).await?;
    again.answers("/stolen", 404).await?;
    world.portcullis.check()
}
