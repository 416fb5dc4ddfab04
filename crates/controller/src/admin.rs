//! The admin server: is it alive, is it ready, what does it count, what does it serve.

use std::{net::IpAddr, sync::Arc, time::Duration};

use api::Kind;
use axum::{
    Router,
    extract::{Query, State},
    http::{HeaderMap, StatusCode, header},
    middleware,
    response::{IntoResponse, Response},
    routing::get,
};
use explain::tree;
use ir::NsName;
use prometheus_client::registry::Registry;
use serde::Deserialize;
use tokio::{
    net::TcpListener,
    sync::{AcquireError, OwnedSemaphorePermit, Semaphore},
    task::{JoinError, spawn_blocking},
    time::timeout,
};

use crate::{
    chunks,
    cluster_snapshot::report::{Selection, StatusReport},
    document::{self, Document, DocumentError, Format},
    engine_task::{ClusterSource, EngineHandle, Stopped},
    http,
    metrics::{self, Metrics},
};

/// How long a request waits while the document is written for others.
const DOCUMENT_TURN: Duration = Duration::from_secs(20);

/// What the handlers need.
#[derive(Clone)]
pub struct Admin {
    engine: EngineHandle,
    hub: xds::Hub,
    metrics: Metrics,
    registry: Arc<Registry>,
    /// One document is written at a time: that takes the memory of its largest resource, and a core.
    documents: Arc<Semaphore>,
    /// For questions that cost more than a look.
    questions: Arc<Semaphore>,
}

/// How many such questions are answered at once; more wait.
const QUESTIONS: usize = 2;

impl Admin {
    /// An admin server of this process.
    pub fn new(engine: EngineHandle, hub: xds::Hub, metrics: Metrics) -> Self {
        let registry = Arc::new(metrics.registry());
        let (documents, questions) = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(QUESTIONS)));
        Self { engine, hub, metrics, registry, documents, questions }
    }

    fn router(self, pages: Pages) -> Router {
        let health = Router::new()
            .route("/healthz", get(healthz))
            .route("/readyz", get(readyz))
            .route("/metrics", get(show_metrics));
        let router = match pages {
            Pages::Health => health,
            Pages::All => health
                .route("/", get(async || PAGES))
                .route("/debug/snapshot", get(snapshot))
                .route("/debug/routes", get(routes))
                .route("/debug/status", get(status))
                .route("/debug/explain", get(explain))
                .route("/debug/engine", get(engine)),
        };
        router.with_state(self)
    }

    /// Serves until `shutdown`, at most `connections` at a time. All pages are for requests to this host; health and
    /// figures are for any client, by any name.
    pub async fn serve(
        self,
        listener: TcpListener,
        pages: Pages,
        connections: usize,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) {
        let own = listener.local_addr().map_or(IpAddr::from([127, 0, 0, 1]), |address| address.ip());
        let router = self.router(pages);
        let router = match pages {
            Pages::Health => router,
            Pages::All => router.layer(middleware::from_fn_with_state(Arc::new(own), http::for_this_host)),
        };
        http::serve(listener, router, connections, shutdown).await;
    }
}

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// How the process is, and figures: what the network of a cluster may see.
    Health,
    /// Everything that is served as well: for this host alone.
    All,
}

const PAGES: &str = "/healthz         whether the engine answers\n\
                     /readyz          whether everything was read once and is published\n\
                     /metrics         figures, for Prometheus\n\
                     /debug/snapshot  what Envoys get and the statuses, as `portcullis translate -o json`; ?gateway=NS/NAME for\n\
                     \x20                one Gateway, as `portcullis config-dump`, ?format=yaml for YAML\n\
                     /debug/routes    the routes as a tree, as `portcullis tree`; ?format=json or yaml, ?namespace=NS\n\
                     /debug/status    what is wrong with objects, as `portcullis status`; ?format=json or yaml, ?namespace=NS,\n\
                     \x20                ?kind=KIND, ?name=NAME\n\
                     /debug/explain   what becomes of a request, as `portcullis explain`; ?gateway=NS/NAME&url=URL, ?method=,\n\
                     \x20                ?header=NAME: VALUE, ?format=json or yaml\n\
                     /debug/engine    what the tables hold; ?why=TABLE:KEY for one row\n";

/// Why a page is not answered.
enum Refused {
    /// What was asked for is wrong.
    BadRequest(String),
    NotFound(&'static str),
    Unavailable(String),
    Failed(String),
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let (status, why) = match self {
            Self::BadRequest(why) => (StatusCode::BAD_REQUEST, why),
            Self::NotFound(why) => (StatusCode::NOT_FOUND, why.to_owned()),
            Self::Unavailable(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
            Self::Failed(why) => (StatusCode::INTERNAL_SERVER_ERROR, why),
        };
        (status, why + "\n").into_response()
    }
}

impl From<Stopped> for Refused {
    fn from(error: Stopped) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<JoinError> for Refused {
    fn from(error: JoinError) -> Self {
        Self::Failed(error.to_string())
    }
}

async fn healthz(State(admin): State<Admin>) -> Result<&'static str, Refused> {
    admin.engine.ask(|_| ()).await?;
    Ok("ok\n")
}

/// Ready once everything was read, whatever happens then: what a replica serves while the API server is away is what
/// every other one has.
async fn readyz(State(admin): State<Admin>) -> Result<String, Refused> {
    if !admin.hub.is_ready() {
        // Asks the engine nothing: that would have it work on what is not all there yet.
        return Err(Refused::Unavailable("not ready: not everything is read yet, or judged".to_owned()));
    }
    let degraded = admin.engine.ask(|view| {
        let cluster = view.cluster.map(degraded).unwrap_or_default();
        [&*view.unreadable_records, &*view.waiting, &*cluster].concat()
    });
    Ok(format!("ready\n{}", degraded.await?))
}

/// What of a cluster is not as it should be, a line each.
fn degraded(cluster: &ClusterSource) -> String {
    let stale = cluster.stale().iter().map(|(kind, why)| format!("stale: {kind}: {why}\n"));
    let deleted = cluster.deleted_classes().iter();
    let deleted =
        deleted.map(|class| format!("deleted: GatewayClass {class}: Gateways name it, so it stays in force\n"));
    let contested = cluster.contested_statuses().into_iter().map(|line| format!("contested: {line}\n"));
    stale.chain(deleted).chain(contested).collect()
}

/// Asks the engine nothing: figures are kept up to date by what changes.
async fn show_metrics(State(admin): State<Admin>) -> Response {
    admin.metrics.watches.refresh();
    let kind = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    (kind, metrics::render(&admin.registry)).into_response()
}

#[derive(Deserialize)]
struct OfGateway {
    gateway: Option<String>,
    format: Option<Format>,
}

async fn snapshot(State(admin): State<Admin>, Query(asked): Query<OfGateway>) -> Result<Response, Refused> {
    let gateway = asked.gateway.as_deref().map(gateway_name).transpose()?;
    let format = asked.format.unwrap_or(Format::Json);
    if format == Format::Text {
        return Err(Refused::BadRequest("format is json or yaml".to_owned()));
    }
    let Ok(Ok(turn)) = timeout(DOCUMENT_TURN, Arc::clone(&admin.documents).acquire_owned()).await else {
        return Err(Refused::Unavailable(
            "another answer of this kind is being written: ask again in a moment".to_owned(),
        ));
    };
    let document = admin.engine.ask(move |view| match &gateway {
        None => Some(Document::of(view.translator)),
        Some(gateway) => Document::of_gateway(view.translator, gateway),
    });
    let document = document.await?.ok_or(Refused::NotFound("there is no such Gateway that is served"))?;
    let body = chunks::body(move |out| {
        let written = document.write(format, out);
        drop(turn);
        written
    });
    Ok(([(header::CONTENT_TYPE, content_type(format))], body).into_response())
}

#[derive(Deserialize)]
struct Wanted {
    format: Option<Format>,
    namespace: Option<String>,
}

async fn routes(
    State(admin): State<Admin>,
    Query(Wanted { format, namespace }): Query<Wanted>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
    let as_json = accepted.is_some_and(|accepted| accepted.contains("application/json"));
    let format = format.unwrap_or(if as_json { Format::Json } else { Format::Text });
    let permit = Arc::clone(&admin.questions).acquire_owned().await;
    // The engine lends its rows, and they are read and written out elsewhere. The permit goes along, since a client that hangs up
    // does not end the work.
    let (rows, permit) = admin.engine.ask(|view| (tree::Rows::of(view.translator), permit)).await?;
    let text = move || {
        let mut tree = rows.tree();
        tree.gateways.retain(|gateway| in_namespace(&gateway.gateway, namespace.as_deref()));
        document::render(&tree, format)
    };
    written(format, permit, text).await
}

/// Whether a `NAMESPACE/NAME` is in a namespace, if one is asked for.
pub fn in_namespace(named: &str, namespace: Option<&str>) -> bool {
    namespace.is_none_or(|namespace| named.split_once('/').is_some_and(|(of, _)| of == namespace))
}

#[derive(Deserialize)]
struct Selected {
    format: Option<Format>,
    namespace: Option<String>,
    kind: Option<String>,
    name: Option<String>,
}

async fn status(State(admin): State<Admin>, Query(asked): Query<Selected>) -> Result<Response, Refused> {
    let known = |kind: String| {
        let known = Kind::ALL.iter().copied().find(|known| known.as_str() == kind);
        known.ok_or_else(|| Refused::BadRequest(format!("{kind:?} is no kind that is read")))
    };
    let kind = asked.kind.map(known).transpose()?;
    let selection = Selection { namespace: asked.namespace, kind, name: asked.name };
    let format = asked.format.unwrap_or_default();
    let permit = Arc::clone(&admin.questions).acquire_owned().await;
    // The engine lends its rows, and they are put into words elsewhere.
    let lent = admin.engine.ask(move |view| {
        let mut besides = StatusReport::default();
        if let Some(cluster) = view.cluster {
            besides.undecodable(cluster.undecodable(), &selection);
            besides.unread(cluster.stale().iter().map(|(kind, why)| (*kind, why.as_str())));
        }
        (view.translator.reports(), besides, selection, permit)
    });
    let (reports, besides, selection, permit) = lent.await?;
    let report = move || {
        let mut report = StatusReport::of(&reports, &selection);
        report.append(besides);
        document::render(&report, format)
    };
    written(format, permit, report).await
}

/// A list, since there may be several headers.
async fn explain(State(admin): State<Admin>, Query(asked): Query<Vec<(String, String)>>) -> Result<Response, Refused> {
    let all = |name: &'static str| asked.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str());
    let one = |name: &'static str| all(name).next();
    let (Some(gateway), Some(url)) = (one("gateway"), one("url")) else {
        return Err(Refused::BadRequest("ask for ?gateway=NS/NAME&url=URL".to_owned()));
    };
    let gateway = gateway_name(gateway)?;
    let format = match one("format").unwrap_or("text") {
        "text" => Format::Text,
        "json" => Format::Json,
        "yaml" => Format::Yaml,
        other => return Err(Refused::BadRequest(format!("{other:?} is no format: ask for text, json or yaml"))),
    };
    if let Some(connection) = explain::Connection::parse(url) {
        let connection = connection.map_err(|error| Refused::BadRequest(error.to_string()))?;
        let permit = Arc::clone(&admin.questions).acquire_owned().await;
        let answer =
            admin.engine.ask(move |view| (explain::explain_connection(view.translator, &gateway, &connection), permit));
        let (explanation, permit) = answer.await?;
        return written(format, permit, move || document::render(&explanation, format)).await;
    }
    let request = explain::Request::new(one("method").unwrap_or("GET"), url, all("header"))
        .map_err(|error| Refused::BadRequest(error.to_string()))?;
    let permit = Arc::clone(&admin.questions).acquire_owned().await;
    // The engine lends its rows, and regular expressions are tried on them elsewhere: a pattern takes its time.
    let query = admin.engine.ask(move |view| (explain::Query::new(view.translator, &gateway, request), permit));
    let (query, permit) = query.await?;
    let (matched, permit) = spawn_blocking(move || (query.match_routes(), permit)).await?;
    let lineage = admin.engine.ask(move |view| (matched.lineage(view.translator), matched, permit));
    let (lineage, matched, permit) = lineage.await?;
    written(format, permit, move || document::render(&matched.explain(&lineage), format)).await
}

fn gateway_name(text: &str) -> Result<NsName, Refused> {
    let name = text.split_once('/').map(|(namespace, name)| NsName::new(namespace, name));
    name.ok_or_else(|| Refused::BadRequest("gateway is NAMESPACE/NAME".to_owned()))
}

/// What a question may take, until it is answered; an error only when the process ends.
type Permit = Result<OwnedSemaphorePermit, AcquireError>;

/// What `text` writes, off the threads that serve: megabytes of text take their time.
async fn written(
    format: Format,
    permit: Permit,
    text: impl FnOnce() -> Result<String, DocumentError> + Send + 'static,
) -> Result<Response, Refused> {
    let text = move || {
        let text = text();
        drop(permit);
        text
    };
    let text = spawn_blocking(text).await?.map_err(|error| Refused::Failed(error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, content_type(format))], text).into_response())
}

fn content_type(format: Format) -> &'static str {
    match format {
        Format::Text => "text/plain; charset=utf-8",
        Format::Json => "application/json",
        Format::Yaml => "application/yaml",
    }
}

#[derive(Deserialize)]
struct Why {
    why: Option<String>,
}

async fn engine(State(admin): State<Admin>, Query(Why { why }): Query<Why>) -> Result<String, Refused> {
    let answer = admin.engine.ask(move |view| match why {
        None => Some(view.translator.engine_report()),
        Some(row) => {
            let (table, key) = row.split_once(':').unwrap_or((&row, ""));
            view.translator.why(table, key)
        }
    });
    answer.await?.ok_or(Refused::NotFound("no such row: ask for TABLE:KEY"))
}
