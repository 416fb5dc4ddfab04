//! The HTTP filters that every listener has from the start: what they do to requests while no route switches them on, and
//! what becomes of an Envoy that does not know them all.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use envoy_types::pb::envoy::config::core::v3::node::UserAgentVersionType;
use envoy_types::pb::envoy::config::core::v3::{BuildVersion, Node};
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use envoy_types::pb::envoy::r#type::v3::SemanticVersion;
use portcullis_tests::certificates::{Certificate, KeyKind};
use portcullis_tests::client::{self, Protocol, Request, Target, Tls};
use portcullis_tests::echo::Echo;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::statuses::StatusExpectation;
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, ports};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;
use xds::ResourceType;

#[path = "filter_chain/bare.rs"]
mod bare;
#[path = "filter_chain/bodies.rs"]
mod bodies;
#[path = "filter_chain/guards.rs"]
mod guards;
#[path = "filter_chain/limits.rs"]
mod limits;
#[path = "filter_chain/login_changes.rs"]
mod login_changes;
#[path = "filter_chain/login_tokens.rs"]
mod login_tokens;
#[path = "filter_chain/logins.rs"]
mod logins;
#[path = "filter_chain/providers.rs"]
mod providers;
#[path = "filter_chain/templates.rs"]
mod templates;
#[path = "filter_chain/tokens.rs"]
mod tokens;
#[path = "filter_chain/unseen.rs"]
mod unseen;

const HOST: &str = "plain.example";
/// What Envoy adds to a request on its way, whatever its filters.
const ADDED: [&str; 7] = [
    "cdn-loop",
    "content-length",
    "x-envoy-expected-rq-timeout-ms",
    "x-envoy-external-address",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-request-id",
];

fn route(more: &str) -> String {
    format!(
        "
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{namespace: infra, name: plain}}
spec:
  parentRefs: [{{name: gateway}}]
  hostnames: [{HOST}]
  rules:
  - {{backendRefs: [{{name: backend, port: 80}}]{more}}}
"
    )
}

/// Requests of which each would be changed or refused by some filter, if that acted.
fn requests() -> Vec<Request> {
    let get = Request::get(HOST, "/some/path?api-key=one&x=%20y")
        .header("accept-encoding", "gzip, br, zstd")
        .header("authorization", "Basic bm9ib2R5OndyaXRlcw==")
        .header("api-key", "none")
        .header("cookie", "OauthHMAC=x; BearerToken=y");
    let post = Request { method: "POST".to_owned(), body: "no archive, ".repeat(1_000), ..get.clone() };
    let of = |name: &str, value: &str| post.clone().header(name, value);
    vec![
        get,
        of("content-encoding", "gzip"),
        of("content-encoding", "br"),
        of("content-encoding", "zstd"),
        of("content-type", "application/grpc-web+proto"),
        of("origin", "https://other.example"),
    ]
}

fn as_sent(target: &Target, sent: &Request, response: &client::Response) -> Result<()> {
    let context = || format!("{:?} {:?}: {response:?}", target.protocol, sent.headers);
    ensure!(response.status == 200, context());
    let seen = response.echoed.as_ref().with_context(context)?;
    ensure!((&seen.method, &seen.path, &seen.body) == (&sent.method, &sent.path, &sent.body), context());
    let mut headers: BTreeMap<_, _> = seen.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    for (name, value) in &sent.headers {
        ensure!(headers.remove(&**name) == Some(&**value), "{name}: {}", context());
    }
    headers.retain(|name, _| !ADDED.contains(name) && !["host", ":authority"].contains(name));
    ensure!(headers.is_empty(), "{headers:?}: {}", context());
    let answered: Vec<_> = response.headers.iter().map(|(name, _)| &**name).collect();
    let usual = ["content-length", "content-type", "date", "server", "x-envoy-upstream-service-time"];
    ensure!(answered.iter().all(|name| usual.contains(name)), "{answered:?}: {}", context());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_no_route_does_anything_to_passes_every_filter_as_it_came() -> Result<()> {
    let echo = Echo::start("backend", ([127, 0, 0, 1], 0).into()).await?;
    let (http, https) = (ports::free_port()?, ports::free_port()?);
    let certificate = Certificate::new(&[HOST.to_owned()], KeyKind::Ecdsa)?;
    let listeners = [
        format!("{{name: http, port: {http}, protocol: HTTP}}"),
        format!("{{name: https, port: {https}, protocol: HTTPS, tls: {{certificateRefs: [{{name: cert}}]}}}}"),
    ];
    let files = [
        ("a-gateway.yaml", objects::gateway(&listeners)),
        ("b-backend.yaml", objects::service("backend", &echo)),
        ("c-secret.yaml", objects::secret("cert", &certificate.certificate, &certificate.key)),
        ("route.yaml", route("")),
    ];
    let portcullis = Portcullis::start(&files.map(|(name, content)| (name.to_owned(), content))).await?;
    let mut envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    let tls = Tls::to(HOST);
    let mut targets = Vec::new();
    for protocol in [Protocol::Http1, Protocol::H2] {
        targets.push(Target { protocol, ..Target::local(http) });
        targets.push(Target { protocol, tls: Some(tls.clone()), ..Target::local(https) });
    }
    for target in &targets {
        let get = Request::get(HOST, "/");
        eventually(TIMEOUT, async || as_sent(target, &get, &client::send(target, &get).await?)).await?;
        for request in requests() {
            as_sent(target, &request, &client::send(target, &request).await?)?;
        }
    }
    // A filter that a route switches on acts, and no listener changes for it.
    let cors = "filters: [{type: CORS, cors: {allowOrigins: ['https://other.example']}}]";
    portcullis.write("route.yaml", &route(&format!(", {cors}")))?;
    let request = Request::get(HOST, "/").header("origin", "https://other.example");
    for target in &targets {
        eventually(TIMEOUT, async || {
            let allowed = client::send(target, &request).await?.header("access-control-allow-origin");
            ensure!(allowed.as_deref() == Some("https://other.example"), "{allowed:?}");
            Ok(())
        })
        .await?;
    }
    let stats = envoy.stats().await?;
    let of_listeners = ["listener_added", "listener_modified", "listener_in_place_updated"]
        .map(|name| stats.get(&format!("listener_manager.{name}")).copied());
    ensure!(of_listeners == [Some(2), Some(0), Some(0)], "{of_listeners:?}");
    envoy.check().await
}

/// A proxy of `infra/gateway` that says that it is this version of Envoy.
struct Proxy {
    node: Node,
    requests: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
}

impl Proxy {
    /// One that asks for clusters and listeners.
    async fn connect(portcullis: &Portcullis, minor_number: u32) -> Result<Self> {
        let endpoint = Channel::from_shared(format!("http://{}", portcullis.xds_address()))?;
        let mut ads = AggregatedDiscoveryServiceClient::new(endpoint.connect().await?);
        let (requests, receiver) = mpsc::channel(8);
        let version = SemanticVersion { major_number: 1, minor_number, patch: 4 };
        let version = BuildVersion { version: Some(version), metadata: None };
        let node = Node {
            id: "proxy".into(),
            cluster: "infra/gateway".into(),
            user_agent_name: "envoy".into(),
            user_agent_version_type: Some(UserAgentVersionType::UserAgentBuildVersion(version)),
            ..Node::default()
        };
        for kind in [ResourceType::Cluster, ResourceType::Listener] {
            let type_url = kind.type_url().to_owned();
            let node = Some(node.clone());
            requests.send(DeltaDiscoveryRequest { node, type_url, ..DeltaDiscoveryRequest::default() }).await?;
        }
        let responses = ads.delta_aggregated_resources(ReceiverStream::new(receiver)).await?.into_inner();
        Ok(Self { node, requests, responses })
    }

    /// Takes the next response; gives the name of its type.
    async fn take(&mut self) -> Result<&'static str> {
        let response = timeout(TIMEOUT, self.responses.message()).await.context("nothing came")??;
        let response = response.context("the stream has ended")?;
        let kind = ResourceType::from_type_url(&response.type_url).context(response.type_url.clone())?;
        let ack = DeltaDiscoveryRequest {
            type_url: response.type_url,
            response_nonce: response.nonce,
            ..DeltaDiscoveryRequest::default()
        };
        self.requests.send(ack).await?;
        Ok(kind.name())
    }

    async fn ask(&self, kind: ResourceType, name: &str) -> Result<()> {
        let request = DeltaDiscoveryRequest {
            node: Some(self.node.clone()),
            type_url: kind.type_url().to_owned(),
            resource_names_subscribe: vec![name.to_owned()],
            ..DeltaDiscoveryRequest::default()
        };
        Ok(self.requests.send(request).await?)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_that_is_too_old_is_told_on_its_gateway_and_is_sent_no_listener() -> Result<()> {
    let gateway = objects::gateway(&[format!("{{name: http, port: {}, protocol: HTTP}}", ports::free_port()?)]);
    let files = [("gateway.yaml".to_owned(), gateway), ("route.yaml".to_owned(), route(""))];
    let portcullis = Portcullis::start(&files).await?;
    let programmed = async |status: &str, words: &str| {
        let expected: StatusExpectation = serde_json::from_value(json!({
            "object": "Gateway infra/gateway",
            "conditions": {"Programmed": status},
            "messages": {"Programmed": words},
        }))?;
        eventually(TIMEOUT, async || expected.check(&portcullis.snapshot().await?)).await
    };
    let mut recent = Proxy::connect(&portcullis, 40).await?;
    ensure!([recent.take().await?, recent.take().await?] == ["Cluster", "Listener"], "in another order");
    programmed("True", "").await?;

    let mut old = Proxy::connect(&portcullis, 39).await?;
    ensure!(old.take().await? == "Cluster", "not clusters first");
    programmed("False", "a proxy is Envoy 1.39.4, which is too old").await?;
    old.ask(ResourceType::RouteConfiguration, "http/80").await?;
    old.ask(ResourceType::Secret, "secret/infra/none").await?;
    // What was asked for before it is left unanswered.
    ensure!(old.take().await? == "Secret", "listeners or routes");
    let metric = "portcullis_xds_outdated_streams_total{gateway=\"infra/gateway\"}";
    ensure!(portcullis.metric(metric).await? == Some(1.0), "it is not counted");
    ensure!(portcullis.log().contains("an Envoy is too old"), "no line says it");
    drop(old);
    programmed("True", "").await
}
