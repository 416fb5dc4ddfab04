//! A client that asks as Envoy does, by delta, and knows when bytes reach it.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use hyper_util::rt::TokioIo;
use prost::Message as _;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tonic::{Request, Streaming};
use xds::ResourceType;

use crate::controller::Controller;
use crate::world::World;

/// What Envoy allows a stream to have under way.
const WINDOW: u32 = 256 << 20;
const TIMEOUT: Duration = Duration::from_mins(1);
/// How many reads of a socket are remembered.
const READS: usize = 4_096;

/// What has come in over a socket.
#[derive(Clone, Default)]
pub(crate) struct Wire {
    bytes: Arc<AtomicU64>,
    reads: Arc<Mutex<VecDeque<Instant>>>,
}

pub(crate) struct Envoy {
    requests: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
    pub(crate) wire: Wire,
}

/// A response, and when its last byte was there.
pub(crate) struct Arrived {
    pub(crate) response: DeltaDiscoveryResponse,
    pub(crate) at: Instant,
}

impl Envoy {
    /// Connects as soon as it is let in, and asks for everything; back when all that is asked for is there.
    pub(crate) async fn connect(controller: &Controller, world: &World) -> Result<Self> {
        let authority = world.authority().await?;
        Self::connect_with(controller, world, &authority).await
    }

    pub(crate) async fn connect_with(controller: &Controller, world: &World, authority: &[u8]) -> Result<Self> {
        let end = Instant::now() + TIMEOUT;
        loop {
            match Self::open(controller, world, authority).await {
                Ok(mut this) => {
                    this.configure(world).await?;
                    return Ok(this);
                }
                Err(error) if Instant::now() > end => return Err(error),
                // An Envoy waits longer; here the controller is what is measured.
                Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    }

    async fn open(controller: &Controller, world: &World, authority: &[u8]) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authority) {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let (connector, address, wire) =
            (TlsConnector::from(Arc::new(config)), controller.xds_address(), Wire::default());
        let stamped = wire.clone();
        let connect = move |_| {
            let (connector, wire) = (connector.clone(), stamped.clone());
            async move {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                let stream = Stamped { stream, wire };
                let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
                connector.connect(name, stream).await.map(TokioIo::new)
            }
        };
        let endpoint = Endpoint::from_static("http://xds")
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW);
        let channel = endpoint.connect_with_connector(tower::service_fn(connect)).await?;
        let (requests, receiver) = mpsc::channel(8);
        let node = Node { id: "bench".into(), cluster: world.gateway(), ..Node::default() };
        requests.send(DeltaDiscoveryRequest { node: Some(node), ..ask(ResourceType::Cluster, Vec::new()) }).await?;
        let mut request = Request::new(ReceiverStream::new(receiver));
        request.metadata_mut().insert("authorization", format!("Bearer {}", world.token()).parse()?);
        let mut client = AggregatedDiscoveryServiceClient::new(channel).max_decoding_message_size(usize::MAX);
        let responses = client.delta_aggregated_resources(request).await?.into_inner();
        Ok(Self { requests, responses, wire })
    }

    /// All clusters, their endpoints, the listener and its routes.
    async fn configure(&mut self, world: &World) -> Result<()> {
        let wanted = world.routes() / 2;
        let (mut clusters, mut endpoints, mut routes) = (0, 0, false);
        while clusters < wanted || endpoints < wanted || !routes {
            let response = self.next().await?.response;
            let of = |kind: ResourceType| response.type_url == kind.type_url();
            if of(ResourceType::Cluster) {
                let names = response.resources.iter().filter_map(|resource| {
                    let cluster = Cluster::decode(resource.resource.as_ref()?.value.as_slice()).ok()?;
                    let eds = cluster.eds_cluster_config?;
                    Some(if eds.service_name.is_empty() { cluster.name } else { eds.service_name })
                });
                let names: Vec<String> = names.collect();
                clusters += names.len();
                self.requests.send(ask(ResourceType::Endpoints, names)).await?;
            } else if of(ResourceType::Endpoints) {
                let first = endpoints == 0;
                endpoints += response.resources.len();
                if first {
                    self.requests.send(ask(ResourceType::Listener, Vec::new())).await?;
                }
            } else if of(ResourceType::Listener) {
                let names = response.resources.iter().filter_map(|resource| resource.resource.as_ref());
                let names = names.map(|body| route_configurations(&body.value)).collect::<Result<Vec<_>>>()?.concat();
                self.requests.send(ask(ResourceType::RouteConfiguration, names)).await?;
            } else if of(ResourceType::RouteConfiguration) {
                routes = true;
            }
        }
        Ok(())
    }

    /// The next response, which is acknowledged.
    pub(crate) async fn next(&mut self) -> Result<Arrived> {
        let response = timeout(TIMEOUT, self.responses.message()).await.context("nothing comes")??;
        let (response, at) = (response.context("the stream ended")?, Instant::now());
        let ack = DeltaDiscoveryRequest { response_nonce: response.nonce.clone(), ..ask_url(&response.type_url) };
        self.requests.send(ack).await?;
        Ok(Arrived { response, at })
    }

    /// Reads what comes until nothing has come for so long.
    pub(crate) async fn still(&mut self, time: Duration) -> Result<()> {
        while let Ok(arrived) = timeout(time, self.next()).await {
            arrived?;
        }
        Ok(())
    }

    /// Reads until a response has the marker, and gives that one. Whatever comes must be of `kind`.
    pub(crate) async fn until(&mut self, kind: ResourceType, marker: &str) -> Result<Arrived> {
        self.until_all(kind, &[marker.to_owned()]).await
    }

    /// The same for a response that has all markers.
    pub(crate) async fn until_all(&mut self, kind: ResourceType, markers: &[String]) -> Result<Arrived> {
        loop {
            let arrived = self.next().await?;
            if arrived.response.type_url != kind.type_url() {
                bail!("{} was sent too", arrived.response.type_url);
            }
            let bodies = arrived.response.resources.iter().filter_map(|resource| resource.resource.as_ref());
            let bodies: Vec<_> = bodies.map(|body| body.value.as_slice()).collect();
            let found =
                |marker: &String| bodies.iter().any(|body| memchr::memmem::find(body, marker.as_bytes()).is_some());
            // The one that was made last is missing for longest.
            if markers.iter().rev().all(found) {
                return Ok(arrived);
            }
        }
    }
}

impl Wire {
    /// The bytes that came in so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// When the first bytes after that moment came in, if it is not long ago.
    pub(crate) fn first_after(&self, moment: Instant) -> Option<Instant> {
        self.reads.lock().unwrap().iter().copied().find(|read| *read >= moment)
    }
}

/// The names of the route configurations that a listener wants.
fn route_configurations(listener: &[u8]) -> Result<Vec<String>> {
    let listener = Listener::decode(listener)?;
    let filters =
        listener.filter_chains.into_iter().chain(listener.default_filter_chain).flat_map(|chain| chain.filters);
    let managers = filters.filter_map(|filter| match filter.config_type? {
        ConfigType::TypedConfig(any) => HttpConnectionManager::decode(any.value.as_slice()).ok(),
        ConfigType::ConfigDiscovery(_) => None,
    });
    let names = managers.filter_map(|manager| match manager.route_specifier? {
        RouteSpecifier::Rds(rds) => Some(rds.route_config_name),
        _ => None,
    });
    Ok(names.collect())
}

fn ask(kind: ResourceType, names: Vec<String>) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest { resource_names_subscribe: names, ..ask_url(kind.type_url()) }
}

fn ask_url(type_url: &str) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest { type_url: type_url.to_owned(), ..DeltaDiscoveryRequest::default() }
}

/// A socket that says when bytes came in.
struct Stamped {
    stream: TcpStream,
    wire: Wire,
}

impl AsyncRead for Stamped {
    fn poll_read(self: Pin<&mut Self>, cx: &mut TaskContext<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(cx, buf);
        let count = buf.filled().len() - before;
        if count > 0 {
            this.wire.bytes.fetch_add(count as u64, Ordering::Relaxed);
            let mut reads = this.wire.reads.lock().unwrap();
            if reads.len() == READS {
                reads.pop_front();
            }
            reads.push_back(Instant::now());
        }
        polled
    }
}

impl AsyncWrite for Stamped {
    fn poll_write(self: Pin<&mut Self>, cx: &mut TaskContext<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
