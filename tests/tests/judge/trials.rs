//! Without an Envoy that judges, a proxy is asked itself what it takes of what it refused. The proxies here are clients by hand, which
//! refuse what they are told to, leave, and lie.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use envoy_types::pb::envoy::config::core::v3::{BuildVersion, Node, node::UserAgentVersionType};
use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, VirtualHost, route::Action};
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use envoy_types::pb::envoy::r#type::v3::SemanticVersion;
use envoy_types::pb::google::rpc;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::wait::{TIMEOUT, eventually};
use prost::Message;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;
use xds::ResourceType;

use crate::running::{World, route};

/// What these proxies do not take.
const CULPRIT: &str = "culprit";
/// Where suspects stand.
const ON_TRIAL: &str = "on trial";
/// The bound of questions.
const MOST: usize = 32;

const HELD: &str = "portcullis_quarantined_fragments";

fn isolations(outcome: &str) -> String {
    format!("portcullis_nack_isolations_total{{outcome=\"{outcome}\"}}")
}

async fn value(portcullis: &Portcullis, series: &str) -> Result<f64> {
    Ok(portcullis.metric(series).await?.unwrap_or_default())
}

async fn counts(portcullis: &Portcullis, series: &str, wanted: f64) -> Result<()> {
    eventually(TIMEOUT, async || {
        let value = value(portcullis, series).await?;
        ensure!((value - wanted).abs() < 0.5, "{series} is {value}, not {wanted}");
        anyhow::Ok(())
    })
    .await
    .with_context(|| portcullis.log_tail())
}

/// A stream of a proxy.
struct Proxy {
    requests: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
    /// What it goes on with.
    has: Option<RouteConfiguration>,
}

/// Routes that were sent.
struct Sent {
    response: DeltaDiscoveryResponse,
    routes: RouteConfiguration,
}

impl Sent {
    fn bytes(&self) -> Vec<u8> {
        self.routes.encode_to_vec()
    }

    /// Whether any of it is what these proxies do not take.
    fn is_bad(&self) -> bool {
        let (bytes, culprit) = (self.bytes(), CULPRIT.as_bytes());
        bytes.windows(culprit.len()).any(|window| window == culprit)
    }

    fn is_trial(&self) -> bool {
        self.routes.virtual_hosts.iter().any(is_on_trial)
    }

    /// The paths that answer 500.
    fn closed(&self) -> BTreeSet<String> {
        let hosts = self.routes.virtual_hosts.iter().filter(|host| !is_on_trial(host));
        let routes = hosts
            .flat_map(|host| &host.routes)
            .filter(|route| matches!(&route.action, Some(Action::DirectResponse(response)) if response.status == 500));
        routes.map(|route| format!("{:?}", route.r#match)).collect()
    }
}

fn is_on_trial(host: &VirtualHost) -> bool {
    host.domains == [ON_TRIAL]
}

impl Proxy {
    /// One that asks for the routes of Gateway `infra/gateway`, and has none.
    async fn start(portcullis: &Portcullis) -> Result<Self> {
        let endpoint = Channel::from_shared(format!("http://{}", portcullis.xds_address()))?;
        let mut ads = AggregatedDiscoveryServiceClient::new(endpoint.connect().await?);
        let (requests, receiver) = mpsc::channel(8);
        let snapshot = portcullis.snapshot().await?;
        let name = snapshot["gateways"][0]["routes"][0]["name"].as_str().context("no routes")?.to_owned();
        let version = SemanticVersion { major_number: 1, minor_number: 40, patch: 0 };
        let built =
            UserAgentVersionType::UserAgentBuildVersion(BuildVersion { version: Some(version), metadata: None });
        let node = Node {
            id: "by-hand".into(),
            cluster: "infra/gateway".into(),
            user_agent_name: "envoy".into(),
            user_agent_version_type: Some(built),
            ..Node::default()
        };
        let first = DeltaDiscoveryRequest {
            node: Some(node),
            type_url: ResourceType::RouteConfiguration.type_url().to_owned(),
            resource_names_subscribe: vec![name],
            ..DeltaDiscoveryRequest::default()
        };
        requests.send(first).await?;
        let responses = ads.delta_aggregated_resources(ReceiverStream::new(receiver)).await?.into_inner();
        Ok(Self { requests, responses, has: None })
    }

    /// The next routes that it is sent. What is on trial never stands where requests are, and all else is what it goes on with.
    async fn next(&mut self) -> Result<Sent> {
        let response = timeout(TIMEOUT, self.responses.message()).await.context("nothing came")??;
        let response = response.context("the stream has ended")?;
        let body = response.resources.first().and_then(|resource| resource.resource.clone()).context("no routes")?;
        let sent = Sent { response, routes: RouteConfiguration::decode(&*body.value)? };
        if sent.is_trial() {
            let mut routes = sent.routes.clone();
            let host = routes.virtual_hosts.pop().filter(is_on_trial).context("it does not stand at the end")?;
            let has = self
                .has
                .clone()
                .unwrap_or_else(|| RouteConfiguration { name: routes.name.clone(), ..RouteConfiguration::default() });
            ensure!(routes == has, "a trial changes what requests meet: {routes:#?}, not {has:#?}");
            ensure!(host.routes.first().is_some_and(|route| route.name == "trial"), "{host:#?}");
        }
        Ok(sent)
    }

    /// Whether it took it.
    async fn answer(&mut self, sent: &Sent, error: Option<&str>) -> Result<()> {
        let request = DeltaDiscoveryRequest {
            type_url: sent.response.type_url.clone(),
            response_nonce: sent.response.nonce.clone(),
            error_detail: error.map(|words| rpc::Status { message: words.into(), ..rpc::Status::default() }),
            ..DeltaDiscoveryRequest::default()
        };
        self.requests.send(request).await?;
        if error.is_none() && !sent.is_trial() {
            self.has = Some(sent.routes.clone());
        }
        Ok(())
    }

    /// Takes the next routes, which are no trial.
    async fn takes(&mut self) -> Result<Sent> {
        let sent = self.next().await?;
        ensure!(!sent.is_trial() && !sent.is_bad(), "{:#?}", sent.routes);
        self.answer(&sent, None).await?;
        Ok(sent)
    }

    /// Refuses the next routes, which are no trial.
    async fn refuses(&mut self) -> Result<Sent> {
        let sent = self.next().await?;
        ensure!(!sent.is_trial(), "{:#?}", sent.routes);
        self.answer(&sent, Some("no: culprit")).await?;
        Ok(sent)
    }

    /// Answers as what it is told says, until it is sent what is no trial, which it leaves unanswered. How many trials there were.
    async fn is_tried(&mut self) -> Result<(Sent, usize)> {
        for trials in 0..=MOST {
            let sent = self.next().await?;
            if !sent.is_trial() {
                return Ok((sent, trials));
            }
            let error = sent.is_bad().then_some("no: culprit");
            self.answer(&sent, error).await?;
        }
        bail!("it is asked more than {MOST} times");
    }
}

/// A route of two rules, the second of which says this.
fn with(said: &str) -> (String, String) {
    route("r", &[("/sound", "1"), ("/bad", said)])
}

#[tokio::test]
async fn a_proxy_is_asked_by_halves_and_what_it_alone_refuses_is_replaced() -> Result<()> {
    let world = World::new(&[with("1"), route("other", &[("/other", "1")])]).await?;
    let mut portcullis = Portcullis::start(&world.files).await?;
    let mut proxy = Proxy::start(&portcullis).await?;
    proxy.takes().await?;
    let (name, content) = with(CULPRIT);
    portcullis.write(&name, &content.replace("'1'", "'2'"))?;
    let refused = proxy.refuses().await?;
    ensure!(refused.is_bad() && refused.closed().is_empty());
    let (healed, trials) = proxy.is_tried().await?;
    ensure!(trials >= 4, "all, nothing at all, and each alone are {trials} questions");
    let closed = healed.closed();
    ensure!(closed.len() == 1 && closed.iter().all(|matching| matching.contains("/bad")), "{closed:?}");
    ensure!(!healed.is_bad());
    proxy.answer(&healed, None).await?;
    counts(&portcullis, &isolations("found"), 1.0).await?;
    counts(&portcullis, HELD, 1.0).await?;
    for (answer, least) in [("taken", 1.0), ("refused", 2.0)] {
        let series = format!("portcullis_nack_trials_total{{outcome=\"{answer}\"}}");
        let count = value(&portcullis, &series).await?;
        ensure!(count >= least, "{series} is {count}");
    }
    let status = portcullis.admin("/debug/status?kind=HTTPRoute").await?.body;
    for words in ["spec.rules[1].matches[0]", "a proxy refused it (verdict ", "Envoy 1.40.0 refuses it: no: culprit"] {
        ensure!(status.contains(words), "no {words:?} in {status}");
    }
    // Who comes later meets none of that.
    let mut another = Proxy::start(&portcullis).await?;
    another.takes().await?;
    portcullis.check()
}

#[tokio::test]
async fn a_proxy_that_has_nothing_is_asked_too() -> Result<()> {
    let world = World::new(&[with(CULPRIT), route("other", &[("/other", "1")])]).await?;
    let mut portcullis = Portcullis::start(&world.files).await?;
    let mut proxy = Proxy::start(&portcullis).await?;
    proxy.refuses().await?;
    let (healed, _) = proxy.is_tried().await?;
    ensure!(healed.closed().len() == 1 && !healed.is_bad(), "{:#?}", healed.routes);
    portcullis.check()
}

#[tokio::test]
async fn what_is_newer_ends_the_trials_and_is_sent_next() -> Result<()> {
    let world = World::new(&[with("1")]).await?;
    let mut portcullis = Portcullis::start(&world.files).await?;
    let mut proxy = Proxy::start(&portcullis).await?;
    proxy.takes().await?;
    let (name, content) = with(CULPRIT);
    portcullis.write(&name, &content)?;
    proxy.refuses().await?;
    let trial = proxy.next().await?;
    ensure!(trial.is_trial() && trial.is_bad());
    let (name, content) = with("mended");
    portcullis.write(&name, &content)?;
    eventually(TIMEOUT, async || {
        let snapshot = portcullis.snapshot().await?.to_string();
        ensure!(snapshot.contains("mended"), "not yet");
        anyhow::Ok(())
    })
    .await?;
    proxy.answer(&trial, Some("no: culprit")).await?;
    let newer = proxy.takes().await?;
    ensure!(newer.closed().is_empty());
    counts(&portcullis, &isolations("overtaken"), 1.0).await?;
    counts(&portcullis, HELD, 0.0).await?;
    portcullis.check()
}

#[tokio::test]
async fn of_proxies_that_refuse_the_same_one_is_asked_and_another_one_where_it_leaves() -> Result<()> {
    let world = World::new(&[with("1")]).await?;
    let mut portcullis = Portcullis::start(&world.files).await?;
    let mut proxies = Vec::new();
    for _ in 0..2 {
        let mut proxy = Proxy::start(&portcullis).await?;
        proxy.takes().await?;
        proxies.push(proxy);
    }
    let (name, content) = with(CULPRIT);
    portcullis.write(&name, &content)?;
    for proxy in &mut proxies {
        proxy.refuses().await?;
    }
    let nacks = "portcullis_xds_nacks_total{gateway=\"infra/gateway\",type=\"RouteConfiguration\"}";
    counts(&portcullis, nacks, 2.0).await?;
    let [first, second] = &mut proxies[..] else { bail!("there are two") };
    let (trial, is_first) = tokio::select! {
        sent = first.next() => (sent?, true),
        sent = second.next() => (sent?, false),
    };
    ensure!(trial.is_trial());
    drop(proxies.remove(usize::from(!is_first)));
    let mut left = proxies.remove(0);
    let (healed, trials) = left.is_tried().await?;
    ensure!(trials >= 2 && healed.closed().len() == 1, "{trials} {:#?}", healed.routes);
    left.answer(&healed, None).await?;
    counts(&portcullis, &isolations("found"), 1.0).await?;
    counts(&portcullis, nacks, 2.0).await?;
    Proxy::start(&portcullis).await?.takes().await?;
    portcullis.check()
}

#[tokio::test]
async fn many_culprits_are_found_in_rounds_none_of_which_asks_more_than_it_may() -> Result<()> {
    const ROUTES: usize = 3;
    const RULES: usize = 14;
    let of = |said: &'static str| {
        let all = (0..ROUTES).map(move |number| {
            let paths: Vec<_> = (0..RULES).map(|rule| format!("/{number}-{rule}")).collect();
            let rules: Vec<_> = paths.iter().map(|path| (path.as_str(), said)).collect();
            route(&format!("r{number}"), &rules)
        });
        all.collect::<Vec<_>>()
    };
    let world = World::new(&of(CULPRIT)).await?;
    let mut portcullis = Portcullis::start(&world.files).await?;
    let mut proxy = Proxy::start(&portcullis).await?;
    let (mut sent, mut rounds, mut closed) = (proxy.next().await?, 0, 0);
    while sent.is_bad() {
        proxy.answer(&sent, Some("no: culprit")).await?;
        (sent, _) = proxy.is_tried().await?;
        let now = sent.closed().len();
        ensure!(now > closed, "a round finds nothing: {now} after {closed}");
        (closed, rounds) = (now, rounds + 1);
    }
    ensure!(closed == ROUTES * RULES && rounds > 1, "{closed} in {rounds}");
    proxy.answer(&sent, None).await?;
    portcullis.check()
}

#[tokio::test]
async fn a_proxy_that_refuses_everything_is_believed_nothing_and_others_get_what_changes() -> Result<()> {
    let world = World::new(&[with("1")]).await?;
    let mut portcullis = Portcullis::start(&world.files).await?;
    let (mut honest, mut liar) = (Proxy::start(&portcullis).await?, Proxy::start(&portcullis).await?);
    honest.takes().await?;
    liar.takes().await?;
    let (name, content) = with("2");
    portcullis.write(&name, &content)?;
    // It is asked before the other one says anything.
    liar.refuses().await?;
    for _ in 0..2 {
        let trial = liar.next().await?;
        ensure!(trial.is_trial(), "{:#?}", trial.routes);
        liar.answer(&trial, Some("no")).await?;
    }
    counts(&portcullis, &isolations("unfinished"), 1.0).await?;
    honest.takes().await?;
    let (name, content) = with("3");
    portcullis.write(&name, &content)?;
    honest.takes().await?;
    let next = liar.next().await?;
    ensure!(!next.is_trial(), "it took no trial, and has nothing to go back to: {:#?}", next.routes);
    counts(&portcullis, HELD, 0.0).await?;
    portcullis.check()
}

#[tokio::test]
async fn a_proxy_that_blames_what_another_one_of_its_version_takes_is_not_believed() -> Result<()> {
    let world = World::new(&[with("1")]).await?;
    let mut portcullis = Portcullis::start(&world.files).await?;
    let (mut honest, mut liar) = (Proxy::start(&portcullis).await?, Proxy::start(&portcullis).await?);
    honest.takes().await?;
    liar.takes().await?;
    // It blames one route and answers as who is honest would; the other one takes its time.
    let (name, content) = with(CULPRIT);
    portcullis.write(&name, &content)?;
    liar.refuses().await?;
    for (outcome, error) in [("refused", Some("no: culprit")), ("taken", None)] {
        let trial = liar.next().await?;
        ensure!(trial.is_trial() && trial.is_bad() == error.is_some(), "{:#?}", trial.routes);
        liar.answer(&trial, error).await?;
        counts(&portcullis, &format!("portcullis_nack_trials_total{{outcome=\"{outcome}\"}}"), 1.0).await?;
    }
    counts(&portcullis, HELD, 0.0).await?;
    let sent = honest.next().await?;
    ensure!(sent.is_bad() && !sent.is_trial());
    honest.answer(&sent, None).await?;
    counts(&portcullis, &isolations("contradicted"), 1.0).await?;
    counts(&portcullis, HELD, 0.0).await?;
    // It goes back to what it had, and is asked nothing more about that.
    let back = liar.next().await?;
    ensure!(!back.is_trial() && Some(&back.routes) == liar.has.as_ref(), "{:#?}", back.routes);
    portcullis.check()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_refuses_at_random_has_nothing_replaced_that_another_one_takes() -> Result<()> {
    const CHANGES: usize = 20;
    let world = World::new(&[with("0"), route("other", &[("/other", "1")])]).await?;
    let mut portcullis = Portcullis::start(&world.files).await?;
    let (mut honest, mut liar) = (Proxy::start(&portcullis).await?, Proxy::start(&portcullis).await?);
    honest.takes().await?;
    liar.takes().await?;
    let lying: JoinHandle<Result<()>> = tokio::spawn(async move {
        let mut random = fastrand::Rng::with_seed(7);
        let mut last = 0;
        loop {
            // After the last change nothing comes.
            let sent = liar.next().await?;
            last = if sent.is_trial() { last + 1 } else { 0 };
            ensure!(last <= MOST, "it is asked without end");
            let error = random.bool().then_some("no");
            liar.answer(&sent, error).await?;
        }
    });
    for number in 1..=CHANGES {
        let said = format!("said-{number}");
        let (name, content) = with(&said);
        portcullis.write(&name, &content)?;
        loop {
            let sent = honest.takes().await?;
            ensure!(sent.closed().is_empty(), "a route is closed: {:#?}", sent.routes);
            if sent.bytes().windows(said.len()).any(|window| window == said.as_bytes()) {
                break;
            }
        }
    }
    ensure!(!lying.is_finished(), "the liar failed: {:?}", lying.await);
    lying.abort();
    counts(&portcullis, HELD, 0.0).await?;
    ensure!(value(&portcullis, &isolations("found")).await? < 0.5);
    portcullis.check()
}
