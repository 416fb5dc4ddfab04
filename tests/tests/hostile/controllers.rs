//! What whoever may write objects does to a controller that watches them.

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::PostParams;
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::portcullis::Portcullis;

/// How many of each kind, and the bytes in each.
const OBJECTS: usize = 48;
const BYTES: usize = 700 << 10;

/// What a restart and some thousand bytes an object may make of a difference.
const NOISE: usize = 24 << 20;

/// A controller that watches all namespaces, of a class and a namespace of its own.
async fn controller(api: &ApiServer, namespace: &str) -> Result<Portcullis> {
    let name = format!("portcullis.dev/{namespace}");
    let arguments = [["--xds-service", "localhost:1"], ["--deploy-proxies", "false"], ["--controller-name", &name]];
    let mut portcullis = Portcullis::start_in_cluster(&api.kubeconfig(), namespace, arguments.as_flattened())?;
    portcullis.wait_until_ready().await?;
    Ok(portcullis)
}

/// Bytes of memory that a process holds.
fn resident(portcullis: &Portcullis) -> Result<usize> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", portcullis.id().context("it ended")?))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<usize>()? << 10)
}

#[tokio::test]
async fn config_maps_and_secrets_that_nothing_refers_to_cost_the_controller_no_memory() -> Result<()> {
    let api = ApiServer::shared().await?;
    let namespace = api.namespace().await?;
    let mut portcullis = controller(api, &namespace).await?;
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
