//! Stands between the controller and the API server, and sees when what is looked for passes.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::Kubeconfig;
use portcullis_tests::api_server::ApiServer;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

/// What is looked for, and when it passed.
#[derive(Default)]
struct Look {
    marker: Vec<u8>,
    seen: Option<Instant>,
}

/// Plain HTTP in, TLS of the administrator out.
pub(crate) struct Relay {
    look: Arc<Mutex<Look>>,
    kubeconfig: PathBuf,
}

impl Relay {
    pub(crate) async fn start(api: &ApiServer) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let kubeconfig = api.folder().join("relay.kubeconfig");
        let content = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "relay", "cluster": { "server": url } }],
            "users": [{ "name": "relay", "user": {} }],
            "contexts": [{ "name": "relay", "context": { "cluster": "relay", "user": "relay" } }],
            "current-context": "relay",
        });
        std::fs::write(&kubeconfig, content.to_string())?;
        let connector = TlsConnector::from(Arc::new(administrator(api)?));
        let to = api.url().trim_start_matches("https://").to_owned();
        let look = Arc::new(Mutex::new(Look::default()));
        let watching = look.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (connector, to, look) = (connector.clone(), to.clone(), watching.clone());
                tokio::spawn(async move { drop(carry(near, &connector, &to, &look).await) });
            }
        });
        Ok(Self { look, kubeconfig })
    }

    pub(crate) fn kubeconfig(&self) -> &std::path::Path {
        &self.kubeconfig
    }

    /// From now on this is looked for.
    pub(crate) fn look_for(&self, marker: &str) {
        *self.look.lock().unwrap() = Look { marker: marker.as_bytes().to_vec(), seen: None };
    }

    /// When it first went on its way to the controller.
    pub(crate) fn seen(&self) -> Option<Instant> {
        self.look.lock().unwrap().seen
    }
}

fn administrator(api: &ApiServer) -> Result<ClientConfig> {
    let kubeconfig = Kubeconfig::read_from(api.kubeconfig())?;
    let cluster = kubeconfig.clusters.first().and_then(|named| named.cluster.clone()).context("no cluster")?;
    let user = kubeconfig.auth_infos.first().and_then(|named| named.auth_info.clone()).context("no user")?;
    let user = serde_json::to_value(&user)?;
    let pem = |text: &str| anyhow::Ok(STANDARD.decode(text)?);
    let field = |name: &str| pem(user[name].as_str().with_context(|| format!("no {name}"))?);
    let mut roots = RootCertStore::empty();
    let authority = cluster.certificate_authority_data.context("no authority")?;
    roots.add(CertificateDer::from_pem_slice(&pem(&authority)?)?)?;
    let certificate = CertificateDer::from_pem_slice(&field("client-certificate-data")?)?;
    let key = PrivateKeyDer::from_pem_slice(&field("client-key-data")?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_client_auth_cert(vec![certificate], key)?)
}

async fn carry(near: TcpStream, connector: &TlsConnector, to: &str, look: &Mutex<Look>) -> Result<()> {
    near.set_nodelay(true)?;
    let far = TcpStream::connect(to).await?;
    far.set_nodelay(true)?;
    let far = connector.connect(ServerName::try_from("localhost")?, far).await?;
    let (mut from_near, mut to_near) = near.into_split();
    let (mut from_far, mut to_far) = tokio::io::split(far);
    let out = async {
        tokio::io::copy(&mut from_near, &mut to_far).await?;
        to_far.shutdown().await?;
        anyhow::Ok(())
    };
    let back = async {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = from_far.read(&mut buffer).await?;
            if count == 0 {
                return anyhow::Ok(());
            }
            pass(&buffer[..count], look);
            to_near.write_all(&buffer[..count]).await?;
        }
    };
    // Whoever ends first ends both.
    tokio::select! { ended = out => ended, ended = back => ended }
}

fn pass(bytes: &[u8], look: &Mutex<Look>) {
    let mut look = look.lock().unwrap();
    if look.seen.is_none() && !look.marker.is_empty() && memchr::memmem::find(bytes, &look.marker).is_some() {
        look.seen = Some(Instant::now());
    }
}
