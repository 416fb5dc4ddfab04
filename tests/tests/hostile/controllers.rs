//! What those who may write objects, and another controller, do to a controller of a cluster.

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::PostParams;
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::process::memory;
use portcullis_tests::wait::{TIMEOUT, eventually};

/// How many of each kind, and the bytes in each.
const OBJECTS: usize = 48;
const BYTES: usize = 700 << 10;

/// What a restart and some thousand bytes an object may make of a difference.
const NOISE: u64 = 24 << 20;

/// A controller of this name that watches all namespaces, installed in this one.
async fn controller(api: &ApiServer, namespace: &str, name: &str, deploys: &str) -> Result<Portcullis> {
    let arguments = [["--xds-service", "localhost:1"], ["--deploy-proxies", deploys], ["--controller-name", name]];
    let mut portcullis = Portcullis::start_in_cluster(&api.kubeconfig(), namespace, arguments.as_flattened())?;
    portcullis.wait_until_ready().await?;
    Ok(portcullis)
}

#[tokio::test]
async fn config_maps_and_secrets_that_nothing_refers_to_cost_the_controller_no_memory() -> Result<()> {
    let api = ApiServer::shared().await?;
    let namespace = api.namespace().await?;
    let mut portcullis = controller(api, &namespace, &format!("portcullis.dev/{namespace}"), "false").await?;
    let resident = |portcullis: &Portcullis| anyhow::Ok(memory(portcullis.id().context("it ended")?)?.resident);
    let before = resident(&portcullis)?;

    let client = api.client().await?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let secrets: Api<Secret> = Api::namespaced(client, &namespace);
    let create = async |index: usize| {
        let (mut map, mut secret) = (ConfigMap::default(), Secret::default());
        map.metadata.name = Some(format!("hostile-{index}"));
        map.data = Some([("ca.crt".to_owned(), "x".repeat(BYTES))].into());
        secret.metadata.name = map.metadata.name.clone();
        secret.data = Some([("tls.crt".to_owned(), ByteString(vec![b'x'; BYTES]))].into());
        maps.create(&PostParams::default(), &map).await?;
        secrets.create(&PostParams::default(), &secret).await?;
        anyhow::Ok(())
    };
    stream::iter(0..OBJECTS).map(create).buffer_unordered(8).try_collect::<()>().await?;
    // Who is ready has read everything once.
    portcullis.restart().await?;
    let after = resident(&portcullis)?;
    ensure!(after < before + NOISE, "{} MB became {} MB", before >> 20, after >> 20);
    portcullis.check()
}

#[tokio::test]
async fn two_installations_with_one_controller_name_soon_write_rarely_and_name_each_other() -> Result<()> {
    let api = ApiServer::shared().await?;
    let (one, other) = (api.namespace().await?, api.namespace().await?);
    let name = format!("portcullis.dev/{one}");
    api.apply(&format!(
        "apiVersion: gateway.networking.k8s.io/v1\n\
         kind: GatewayClass\n\
         metadata: {{name: {one}}}\n\
         spec: {{controllerName: {name}}}\n"
    ))
    .await?;
    let gateway = format!(
        "apiVersion: gateway.networking.k8s.io/v1\n\
         kind: Gateway\n\
         metadata: {{name: edge}}\n\
         spec: {{gatewayClassName: {one}, listeners: [{{name: http, port: 8080, protocol: HTTP}}]}}\n"
    );
    api.apply_in(&one, &gateway).await?;
    // They say different things of a Gateway: one runs its proxies, and none is available.
    let first = controller(api, &one, &name, "false").await?;
    let second = controller(api, &other, &name, "true").await?;
    for (portcullis, rival) in [(&first, &other), (&second, &one)] {
        let told = eventually(TIMEOUT, async || {
            let ready = portcullis.admin("/readyz").await?.body;
            let by = format!("is overwritten by \"portcullis.{rival}\"; only one installation");
            let told = ready.contains("contested: GatewayClass") && ready.contains(&by) && ready.contains(&name);
            ensure!(told, "{ready}");
            anyhow::Ok(())
        });
        told.await.with_context(|| portcullis.log_tail())?;
        let overwritten = portcullis.metric("portcullis_status_overwritten_total").await?.context("not counted")?;
        let written = portcullis.metric("portcullis_status_writes_total{result=\"written\"}").await?.context("none")?;
        // Where nobody answered more rarely, it would be some hundreds by now.
        ensure!(overwritten >= 3.0 && written < 20.0, "overwritten {overwritten} times, written {written} times");
        ensure!(
            portcullis.log().matches("somebody else overwrites statuses").count() == 1,
            "{}",
            portcullis.log_tail()
        );
    }
    Ok(())
}
