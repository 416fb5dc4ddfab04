//! A real Envoy as Kubernetes would run it for a Gateway.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Context, Result};
use envoy::bootstrap::{AdminAddress, Credentials, XdsAddress, bootstrap_json, secured_bootstrap};
use ir::{NsName, settings::Edge};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::ports::free_port;
use portcullis_tests::wait::TIMEOUT;

use crate::mount::Mount;

/// The name by which proxies know the controller.
const SERVER: &str = "localhost";

/// Starts a proxy of `gateway` that asks at `xds`, shows what is in `token_file`, and trusts the authority that a
/// controller keeps in the namespace `home`. What it is mounted goes with the folder.
pub(crate) async fn launch(
    api: &ApiServer,
    home: &str,
    gateway: &NsName,
    token_file: PathBuf,
    xds: SocketAddr,
) -> Result<(Envoy, tempfile::TempDir)> {
    let bundle = authority(api, home).await?;
    let folder = tempfile::tempdir()?;
    let authorities = Mount::new(folder.path().join("authorities"), &[("ca.crt", &bundle)])?;
    let credentials = Credentials {
        server_name: SERVER.to_owned(),
        authorities_file: authorities.file("ca.crt"),
        token_file,
        folder: folder.path().to_owned(),
    };
    for file in credentials.files()? {
        std::fs::write(folder.path().join(file.name), file.content.to_string())?;
    }
    let admin = free_port()?;
    let bootstrap = secured_bootstrap(
        gateway,
        "proxy",
        &XdsAddress::Tcp { host: xds.ip().to_string(), port: xds.port() },
        &credentials,
        &AdminAddress::Tcp { address: Ipv4Addr::LOCALHOST.into(), port: admin },
        SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?)),
        &Edge::default(),
    );
    Ok((Envoy::launch_with_admin(&bootstrap_json(&bootstrap)?, admin)?, folder))
}

/// The authorities that a controller has proxies trust, once it made one.
async fn authority(api: &ApiServer, home: &str) -> Result<String> {
    let secrets: Api<Secret> = Api::namespaced(api.client().await?, home);
    let made = |secret: Option<&Secret>| secret.is_some_and(|secret| secret.data.is_some());
    let secret = api.wait_for(&secrets, "portcullis-xds-authority", TIMEOUT, made).await?;
    let bundle = secret.and_then(|secret| secret.data?.remove("ca.crt")).context("the Secret has no ca.crt")?;
    Ok(String::from_utf8(bundle.0)?)
}
