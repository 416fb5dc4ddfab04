//! A client of xDS that takes whatever it gets, and remembers it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use portcullis_tests::client::{Grpc, Protocol, Target, Tls};
use portcullis_tests::wait::TIMEOUT;
use prost::Message;
use serde_json::Value;
use tokio::time::timeout;
use xds::ResourceType;

const SERVICE: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService";

/// Versions and bytes by type and name.
pub(crate) type Known = BTreeMap<(&'static str, String), (String, Vec<u8>)>;

/// What the proxies of a Gateway subscribe to; all names where there are none.
pub(crate) type Wanted = Vec<(ResourceType, BTreeSet<String>)>;

/// What proxies of `gateway` subscribe to, by what a controller says that they get.
pub(crate) fn wanted(snapshot: &Value, gateway: &str) -> Result<Wanted> {
    let gateways = snapshot["gateways"].as_array().context("no gateways")?;
    let entry = gateways.iter().find(|entry| entry["gateway"] == gateway).context("it is not served")?;
    let names = |list: &str, name: &str| {
        let all = entry[list].as_array().into_iter().flatten();
        all.filter_map(|resource| resource[name].as_str().map(str::to_owned)).collect()
    };
    Ok(vec![
        (ResourceType::Cluster, BTreeSet::new()),
        (ResourceType::Endpoints, names("endpoints", "clusterName")),
        (ResourceType::Listener, BTreeSet::new()),
        (ResourceType::RouteConfiguration, names("routes", "name")),
    ])
}

fn node(gateway: &str) -> Node {
    Node { id: "client".to_owned(), cluster: gateway.to_owned(), ..Node::default() }
}

async fn open(address: SocketAddr, method: &str, token: &str) -> Result<Grpc> {
    let tls = Tls::to("localhost");
    let target = Target { address, protocol: Protocol::H2, tls: Some(tls) };
    Grpc::open(&target, &format!("{SERVICE}/{method}"), token).await
}

async fn next<M: Message + Default>(stream: &mut Grpc) -> Result<M> {
    let message = timeout(TIMEOUT, stream.next()).await.context("nothing came")??;
    Ok(M::decode(&*message.context("the stream has ended")?)?)
}

/// A delta stream.
pub(crate) struct Delta {
    stream: Grpc,
    pub(crate) known: Known,
}

impl Delta {
    /// Subscribes at `address` as who knows all this already.
    pub(crate) async fn open(
        address: SocketAddr,
        gateway: &str,
        token: &str,
        wanted: &Wanted,
        known: Known,
    ) -> Result<Self> {
        let stream = open(address, "DeltaAggregatedResources", token).await?;
        for (kind, names) in wanted {
            let of_kind = known.iter().filter(|((r#type, _), _)| *r#type == kind.type_url());
            let versions: HashMap<_, _> =
                of_kind.map(|((_, name), (version, _))| (name.clone(), version.clone())).collect();
            let request = DeltaDiscoveryRequest {
                node: Some(node(gateway)),
                type_url: kind.type_url().to_owned(),
                resource_names_subscribe: names.iter().cloned().collect(),
                initial_resource_versions: versions,
                ..DeltaDiscoveryRequest::default()
            };
            stream.send(request.encode_to_vec()).await?;
        }
        Ok(Self { stream, known })
    }

    /// Takes the next response, and gives the names of what was in it.
    pub(crate) async fn take(&mut self) -> Result<Vec<String>> {
        let response: DeltaDiscoveryResponse = next(&mut self.stream).await?;
        let kind = ResourceType::ALL.into_iter().find(|kind| kind.type_url() == response.type_url);
        let kind = kind.with_context(|| response.type_url.clone())?.type_url();
        let ack = DeltaDiscoveryRequest {
            type_url: response.type_url,
            response_nonce: response.nonce,
            ..DeltaDiscoveryRequest::default()
        };
        self.stream.send(ack.encode_to_vec()).await?;
        let mut names = response.removed_resources;
        for name in &names {
            self.known.remove(&(kind, name.clone()));
        }
        for resource in response.resources {
            let Some(body) = resource.resource else { bail!("{} without a body", resource.name) };
            names.push(resource.name.clone());
            self.known.insert((kind, resource.name), (resource.version, body.value));
        }
        Ok(names)
    }

    /// Takes responses until everything that is wanted is known.
    pub(crate) async fn take_all(&mut self, wanted: &Wanted) -> Result<()> {
        let missing = |known: &Known| {
            wanted.iter().any(|(kind, names)| {
                let known: BTreeSet<_> =
                    known.keys().filter(|(r#type, _)| *r#type == kind.type_url()).map(|(_, name)| name).collect();
                known.is_empty() || !names.iter().all(|name| known.contains(name))
            })
        };
        while missing(&self.known) {
            self.take().await?;
        }
        Ok(())
    }
}

/// The first answers of a state-of-the-world stream, by type: version and bytes in order.
pub(crate) async fn whole(
    address: SocketAddr,
    gateway: &str,
    token: &str,
    wanted: &Wanted,
) -> Result<BTreeMap<String, (String, Vec<Vec<u8>>)>> {
    let mut stream = open(address, "StreamAggregatedResources", token).await?;
    for (kind, names) in wanted {
        let request = DiscoveryRequest {
            node: Some(node(gateway)),
            type_url: kind.type_url().to_owned(),
            resource_names: names.iter().cloned().collect(),
            ..DiscoveryRequest::default()
        };
        stream.send(request.encode_to_vec()).await?;
    }
    let mut answers = BTreeMap::new();
    while answers.len() < wanted.len() {
        let response: DiscoveryResponse = next(&mut stream).await?;
        let ack = DiscoveryRequest {
            type_url: response.type_url.clone(),
            version_info: response.version_info.clone(),
            response_nonce: response.nonce,
            resource_names: wanted
                .iter()
                .filter(|(kind, _)| kind.type_url() == response.type_url)
                .flat_map(|(_, names)| names.iter().cloned())
                .collect(),
            ..DiscoveryRequest::default()
        };
        stream.send(ack.encode_to_vec()).await?;
        let bodies = response.resources.into_iter().map(|body| body.value).collect();
        answers.insert(response.type_url, (response.version_info, bodies));
    }
    Ok(answers)
}
