//! A client that asks for routes as Envoy does, by delta, and applies nothing: what it waits for is on the wire.

use std::time::Duration;

use anyhow::{Context, Result};
use envoy_types::pb::envoy::{
    config::core::v3::Node,
    service::discovery::v3::{
        DeltaDiscoveryRequest, DeltaDiscoveryResponse,
        aggregated_discovery_service_client::AggregatedDiscoveryServiceClient,
    },
};
use portcullis_tests::portcullis::Portcullis;
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, transport::Endpoint};
use xds::ResourceType;

/// What it allows a stream to have under way.
const WINDOW: u32 = 256 << 20;
/// How long anything may take.
const TIMEOUT: Duration = Duration::from_mins(2);

/// A client that asks for the routes alone.
pub(crate) struct Client {
    requests: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
}

impl Client {
    /// Asks for the route configuration of this name.
    pub(crate) async fn connect(portcullis: &Portcullis, name: &str) -> Result<Self> {
        let endpoint = Endpoint::from_shared(format!("http://{}", portcullis.xds_address()))?
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW);
        let (requests, receiver) = mpsc::channel(8);
        let node = Node { id: "bench".into(), cluster: "infra/gateway".into(), ..Node::default() };
        let names = vec![name.to_owned()];
        requests.send(DeltaDiscoveryRequest { node: Some(node), resource_names_subscribe: names, ..request() }).await?;
        let client = AggregatedDiscoveryServiceClient::new(endpoint.connect().await?);
        let mut client = client.max_decoding_message_size(usize::MAX);
        let responses = client.delta_aggregated_resources(ReceiverStream::new(receiver)).await?.into_inner();
        Ok(Self { requests, responses })
    }

    /// Waits for routes in which this stands.
    pub(crate) async fn until(&mut self, marker: &str) -> Result<()> {
        loop {
            let response = timeout(TIMEOUT, self.responses.message()).await.context("nothing comes")??;
            let response = response.context("the stream ended")?;
            self.requests.send(DeltaDiscoveryRequest { response_nonce: response.nonce, ..request() }).await?;
            let mut bodies = response.resources.iter().filter_map(|resource| resource.resource.as_ref());
            if bodies.any(|body| memchr::memmem::find(&body.value, marker.as_bytes()).is_some()) {
                return Ok(());
            }
        }
    }
}

fn request() -> DeltaDiscoveryRequest {
    let type_url = ResourceType::RouteConfiguration.type_url().to_owned();
    DeltaDiscoveryRequest { type_url, ..DeltaDiscoveryRequest::default() }
}
