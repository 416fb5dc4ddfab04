//! A controller's xDS end with an API server behind it, and proxies before it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use cluster::identity::Trust;
use cluster::identity::ca::RotationPolicy;
use cluster::identity::ca_controller::CaController;
use cluster::identity::tokens::{AUDIENCE, Clock, Settings, TokenAuthenticator};
use envoy::bootstrap::{AdminAddress, Credentials, XdsAddress, bootstrap_json, secured_bootstrap};
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use ir::NsName;
use ir::settings::Edge;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::client::{self, Request, Response, Target};
use portcullis_tests::envoy::Envoy;
use portcullis_tests::ports::free_port;
use portcullis_tests::wait::{TIMEOUT, eventually};
use prost::Message as _;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use xds::{Event, Hub, Refusal, Resource, ResourceType, Snapshot};

use crate::mount::Mount;
use crate::tokens;

/// The name by which proxies know the controller.
pub(crate) const SERVER: &str = "portcullis.portcullis-system.svc";
/// The `ServiceAccount`s of the proxies of two Gateways, and one of somebody else.
pub(crate) const EDGE: &str = "edge-account";
pub(crate) const OTHER: &str = "other-account";
pub(crate) const STRANGER: &str = "stranger";

/// A controller that can be ended and started again.
pub(crate) struct World<'a> {
    pub(crate) api: &'a ApiServer,
    pub(crate) namespace: String,
    pub(crate) trust: Trust,
    pub(crate) port: u16,
    /// How far the CA controller's clock is ahead, in seconds.
    ahead: Arc<AtomicU64>,
    controller: Option<Controller>,
    tasks: Vec<JoinHandle<()>>,
    _leads: watch::Sender<bool>,
}

/// One life of the controller.
struct Controller {
    hub: Hub,
    events: mpsc::Receiver<Event>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl<'a> World<'a> {
    pub(crate) async fn new(api: &'a ApiServer) -> Result<World<'a>> {
        let namespace = api.namespace().await?;
        for account in [EDGE, OTHER, STRANGER] {
            tokens::account(api, &namespace, account).await?;
        }
        let (trust, ahead) = (Trust::new(), Arc::new(AtomicU64::new(0)));
        let clock = ahead.clone();
        let clock: Clock = Arc::new(move || SystemTime::now() + Duration::from_secs(clock.load(Ordering::Relaxed)));
        let policy = RotationPolicy { propagation: Duration::from_mins(10), ..RotationPolicy::default() };
        let controller =
            CaController::new(api.client().await?, &namespace, "authority", vec![SERVER.to_owned()], policy)
                .with_clock(clock, Duration::from_millis(50));
        let (lead, leads) = watch::channel(true);
        let tasks = vec![tokio::spawn(controller.run(trust.clone(), leads))];
        let mut world =
            Self { api, namespace, trust, port: free_port()?, ahead, controller: None, tasks, _leads: lead };
        world.start().await?;
        Ok(world)
    }

    /// The Secret of the authority.
    pub(crate) async fn secrets(&self) -> Result<Api<Secret>> {
        Ok(Api::namespaced(self.api.client().await?, &self.namespace))
    }

    pub(crate) fn gateway(&self, name: &str) -> String {
        format!("{}/{name}", self.namespace)
    }

    /// Starts the controller, with what it had.
    pub(crate) async fn start(&mut self) -> Result<()> {
        let (edge, other) = (self.gateway("edge"), self.gateway("other"));
        let hub = Hub::new();
        hub.ready();
        hub.publish(&edge, Snapshot::new().with(self.cluster("edge-cluster", 1)));
        hub.publish(&other, Snapshot::new().with(self.cluster("other-cluster", 1)));
        let namespace = self.namespace.clone();
        let gateway_of = move |account: &NsName| {
            let gateway = match &*account.name {
                EDGE => "edge",
                OTHER => "other",
                _ => return None,
            };
            (*account.namespace == *namespace).then(|| NsName::new(namespace.as_str(), gateway))
        };
        let mut settings = Settings::default();
        settings.recheck = Duration::from_secs(1);
        settings.refused = Duration::from_secs(1);
        settings.pause = Duration::from_secs(1);
        let mut config = xds::Config::default();
        config.recheck_interval = Duration::from_secs(1);
        let review = Arc::new(self.api.client().await?);
        config.authenticate = Some(Arc::new(TokenAuthenticator::new(review, Arc::new(gateway_of), settings)));
        let (reporter, events) = xds::reporter(10_000);
        let server = xds::Server::new(hub.clone(), config, reporter);
        // All addresses: that is what authentication is for.
        // A program that another test starts meanwhile has what this process listened on, until it runs.
        let bind = async || TcpListener::bind((Ipv4Addr::UNSPECIFIED, self.port)).await;
        let listener = eventually(TIMEOUT, bind).await?;
        let (stop, stopped) = oneshot::channel::<()>();
        let certificate = self.trust.certificate.clone();
        let served = tokio::spawn(async move {
            let ended = server.serve_tls(listener, &certificate, async move { drop(stopped.await) }).await;
            ended.expect("it may listen there");
        });
        self.controller = Some(Controller { hub, events, stop, served });
        Ok(())
    }

    /// Ends the controller.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        let controller = self.controller.take().context("it runs")?;
        drop(controller.stop);
        controller.served.await?;
        Ok(())
    }

    pub(crate) async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        self.start().await
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.controller.as_ref().expect("it runs").hub
    }

    /// A cluster without endpoints.
    #[expect(clippy::unused_self, reason = "it reads well beside the hub")]
    pub(crate) fn cluster(&self, name: &str, version: u8) -> Resource {
        let cluster = Cluster { name: name.to_owned(), ..Cluster::default() };
        Resource::new(ResourceType::Cluster, name, [version; 16], cluster.encode_to_vec().into())
    }

    /// The next event that `wanted` takes; those before it are gone.
    pub(crate) async fn event<T>(&mut self, wanted: impl Fn(&Event) -> Option<T>) -> Result<T> {
        let events = &mut self.controller.as_mut().context("it runs")?.events;
        let mut seen = Vec::new();
        let found = timeout(2 * TIMEOUT, async {
            while let Some(event) = events.recv().await {
                if let Some(found) = wanted(&event) {
                    return Some(found);
                }
                seen.push(event);
            }
            None
        });
        match found.await {
            Ok(Some(found)) => Ok(found),
            _ => bail!("it never happened, but this did: {seen:#?}"),
        }
    }

    /// Waits for a stream of `gateway`.
    pub(crate) async fn connected(&mut self, gateway: &str) -> Result<u64> {
        self.event(|event| match event {
            Event::Connected { gateway: of, stream, .. } if of == gateway => Some(*stream),
            _ => None,
        })
        .await
    }

    pub(crate) async fn refused(&mut self, expected: Refusal) -> Result<()> {
        self.event(|event| matches!(event, Event::Refused { reason, .. } if *reason == expected).then_some(())).await
    }

    /// Everything that was told and not read yet.
    pub(crate) fn told(&mut self) -> Vec<Event> {
        let events = &mut self.controller.as_mut().expect("it runs").events;
        std::iter::from_fn(|| events.try_recv().ok()).collect()
    }

    /// Time passes for the authority.
    pub(crate) fn pass(&self, time: Duration) {
        self.ahead.fetch_add(time.as_secs(), Ordering::Relaxed);
    }

    /// The bundle of authorities, once there are so many in it.
    pub(crate) async fn bundle(&self, authorities: usize) -> Result<String> {
        let mut bundle = self.trust.bundle();
        let wanted = |bundle: &Option<Arc<str>>| {
            bundle.as_ref().is_some_and(|bundle| bundle.matches("BEGIN CERTIFICATE").count() == authorities)
        };
        let found = timeout(TIMEOUT, bundle.wait_for(wanted)).await.context("it never has so many")??;
        Ok(found.as_deref().unwrap_or_default().to_owned())
    }

    /// A token for proxies, of this account.
    pub(crate) async fn token(&self, account: &str) -> Result<String> {
        self.api.token(&self.namespace, account, &[AUDIENCE]).await
    }

    /// A proxy that says it is one of `gateway`, with this token.
    pub(crate) async fn proxy(&self, gateway: &str, token: &str) -> Result<Proxy> {
        self.proxy_with(gateway, token, |_| ()).await
    }

    /// The same with a bootstrap that is changed before it starts.
    pub(crate) async fn proxy_with(
        &self,
        gateway: &str,
        token: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<Proxy> {
        self.proxy_named(SERVER, gateway, token, change).await
    }

    /// The same, of a controller that it knows by another name.
    pub(crate) async fn proxy_named(
        &self,
        server: &str,
        gateway: &str,
        token: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<Proxy> {
        let bundle = self.bundle(1).await?;
        let folder = tempfile::tempdir()?;
        let authorities = Mount::new(folder.path().join("authorities"), &[("ca.crt", &bundle)])?;
        let token = Mount::new(folder.path().join("token"), &[("token", token)])?;
        let credentials = Credentials {
            server_name: server.to_owned(),
            authorities_file: authorities.file("ca.crt"),
            token_file: token.file("token"),
            folder: folder.path().to_owned(),
        };
        for file in credentials.files()? {
            std::fs::write(folder.path().join(file.name), file.content.to_string())?;
        }
        let (admin, observed) = (free_port()?, free_port()?);
        let message = secured_bootstrap(
            &NsName::new(self.namespace.as_str(), gateway),
            "proxy",
            &XdsAddress::Tcp { host: "127.0.0.1".to_owned(), port: self.port },
            &credentials,
            &AdminAddress::Tcp { address: Ipv4Addr::LOCALHOST.into(), port: admin },
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, observed)),
            &Edge::default(),
        );
        let mut bootstrap = bootstrap_json(&message)?;
        change(&mut bootstrap);
        let envoy = Envoy::launch_with_admin(&bootstrap, admin)?;
        Ok(Proxy { envoy, authorities, token, observed: Target::local(observed), _folder: folder })
    }
}

/// A real Envoy with what is mounted into it.
pub(crate) struct Proxy {
    pub(crate) envoy: Envoy,
    authorities: Mount,
    token: Mount,
    observed: Target,
    _folder: tempfile::TempDir,
}

impl Proxy {
    /// The names of the clusters that Envoy was given.
    pub(crate) async fn clusters(&self) -> Result<Vec<String>> {
        let dump: Value =
            serde_json::from_str(&self.envoy.admin("/config_dump?resource=dynamic_active_clusters").await?.body)?;
        let configs = dump["configs"].as_array().into_iter().flatten();
        Ok(configs.filter_map(|config| Some(config["cluster"]["name"].as_str()?.to_owned())).collect())
    }

    /// Waits until Envoy has a cluster.
    pub(crate) async fn has(&self, cluster: &str) -> Result<()> {
        eventually(TIMEOUT, async || {
            let clusters = self.envoy.admin("/clusters").await?.body;
            ensure!(clusters.contains(&format!("{cluster}::")), "only {clusters}\n{}", self.envoy.log_tail());
            anyhow::Ok(())
        })
        .await
    }

    /// A counter of Envoy's.
    pub(crate) async fn counter(&self, name: &str) -> Result<u64> {
        Ok(self.envoy.stats().await?.get(name).copied().unwrap_or_default())
    }

    /// How often Envoy has made its TLS settings anew, since authorities were read.
    pub(crate) async fn authorities_read(&self) -> Result<u64> {
        self.counter("cluster.xds.client_ssl_socket_factory.ssl_context_update_by_sds").await
    }

    /// Has other authorities mounted and waits until Envoy has read them.
    pub(crate) async fn trusts(&mut self, bundle: &str) -> Result<()> {
        let before = self.authorities_read().await?;
        self.authorities.replace(&[("ca.crt", bundle)])?;
        eventually(TIMEOUT, async || {
            ensure!(self.authorities_read().await? > before, "it was not read");
            anyhow::Ok(())
        })
        .await
    }

    pub(crate) fn mount_token(&mut self, token: &str) -> Result<()> {
        self.token.replace(&[("token", token)])
    }

    /// What kubelet or Prometheus would be told.
    pub(crate) async fn observe(&self, method: &str, path: &str) -> Result<Response> {
        let request = Request { method: method.to_owned(), ..Request::get("localhost", path) };
        client::send(&self.observed, &request).await
    }
}
