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
    time::timeout,
};

use crate::{
    cluster_snapshot::report::{Selection, StatusReport},
    document::{self, Document, DocumentError, Format},
    engine_task::{ClusterSource, EngineHandle, Stopped},
    http,
    metrics::{self, Metrics},
    pieces,
};

/// How long somebody waits while the document is written for others.
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

    /// Serves until `shutdown`, at most `connections` at a time. All pages are for those who ask for this host; figures
    /// are for whoever comes, by whatever name.
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

async fn healthz(State(admin): State<Admin>) -> Response {
    match admin.engine.ask(|_| ()).await {
        Ok(()) => "ok\n".into_response(),
        Err(error) => stopped(&error),
    }
}

/// Ready once everything was read, whatever happens then: what a replica serves while the API server is away is what
/// every other one has.
async fn readyz(State(admin): State<Admin>) -> Response {
    if !admin.hub.is_ready() {
        return (StatusCode::SERVICE_UNAVAILABLE, "not ready: not everything is read yet\n").into_response();
    }
    match admin.engine.ask(|view| view.cluster.map(degraded).unwrap_or_default()).await {
        Ok(degraded) => format!("ready\n{degraded}").into_response(),
        Err(error) => stopped(&error),
    }
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

async fn snapshot(State(admin): State<Admin>, Query(asked): Query<OfGateway>) -> Response {
    let gateway = asked.gateway.as_deref().map(gateway_name);
    if gateway == Some(None) {
        return (StatusCode::BAD_REQUEST, NO_GATEWAY_NAME).into_response();
    }
    let format = asked.format.unwrap_or(Format::Json);
    if format == Format::Text {
        return (StatusCode::BAD_REQUEST, "format is json or yaml\n").into_response();
    }
    let Ok(Ok(turn)) = timeout(DOCUMENT_TURN, Arc::clone(&admin.documents).acquire_owned()).await else {
        let busy = "another answer of this kind is being written: ask again in a moment\n";
        return (StatusCode::SERVICE_UNAVAILABLE, busy).into_response();
    };
    let document = admin.engine.ask(move |view| match gateway.as_ref().and_then(Option::as_ref) {
        None => Some(Document::of(view.translator)),
        Some(gateway) => Document::of_gateway(view.translator, gateway),
    });
    match document.await {
        Ok(Some(document)) => {
            let body = pieces::body(move |out| {
                let written = document.write(format, out);
                drop(turn);
                written
            });
            ([(header::CONTENT_TYPE, content_type(format))], body).into_response()
        }
        Ok(None) => (StatusCode::NOT_FOUND, "there is no such Gateway that is served\n").into_response(),
        Err(error) => stopped(&error),
    }
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
) -> Response {
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
    let as_json = accepted.is_some_and(|accepted| accepted.contains("application/json"));
    let format = format.unwrap_or(if as_json { Format::Json } else { Format::Text });
    let permit = Arc::clone(&admin.questions).acquire_owned().await;
    // The engine lends its rows, and they are read and written out elsewhere. The permit goes along, since whoever hangs up
    // does not end what is done for him.
    match admin.engine.ask(|view| (tree::Rows::of(view.translator), permit)).await {
        Ok((rows, permit)) => {
            let text = move || {
                let mut tree = rows.tree();
                tree.gateways.retain(|gateway| in_namespace(&gateway.gateway, namespace.as_deref()));
                document::render(&tree, format)
            };
            written(format, permit, text).await
        }
        Err(error) => stopped(&error),
    }
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

async fn status(State(admin): State<Admin>, Query(asked): Query<Selected>) -> Response {
    let kind = match asked.kind.map(|kind| Kind::ALL.iter().find(|known| known.as_str() == kind).ok_or(kind)) {
        None => None,
        Some(Ok(kind)) => Some(*kind),
        Some(Err(kind)) => {
            return (StatusCode::BAD_REQUEST, format!("{kind:?} is no kind that is read\n")).into_response();
        }
    };
    let selection = Selection { namespace: asked.namespace, kind, name: asked.name };
    let format = asked.format.unwrap_or_default();
    let permit = Arc::clone(&admin.questions).acquire_owned().await;
    let report = admin.engine.ask(move |view| {
        let mut report = StatusReport::of(view.translator, &selection);
        if let Some(cluster) = view.cluster {
            report.undecodable(cluster.undecodable(), &selection);
            report.unread(cluster.stale().iter().map(|(kind, why)| (*kind, why.as_str())));
        }
        (report, permit)
    });
    match report.await {
        Ok((report, permit)) => written(format, permit, move || document::render(&report, format)).await,
        Err(error) => stopped(&error),
    }
}

/// A list, since there may be several headers.
async fn explain(State(admin): State<Admin>, Query(asked): Query<Vec<(String, String)>>) -> Response {
    let all = |name: &'static str| asked.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str());
    let one = |name: &'static str| all(name).next();
    let refuse = |why: String| (StatusCode::BAD_REQUEST, why + "\n").into_response();
    let (Some(gateway), Some(url)) = (one("gateway"), one("url")) else {
        return refuse("ask for ?gateway=NS/NAME&url=URL".to_owned());
    };
    let Some(gateway) = gateway_name(gateway) else {
        return (StatusCode::BAD_REQUEST, NO_GATEWAY_NAME).into_response();
    };
    let format = match one("format").unwrap_or("text") {
        "text" => Format::Text,
        "json" => Format::Json,
        "yaml" => Format::Yaml,
        other => return refuse(format!("{other:?} is no format: ask for text, json or yaml")),
    };
    let request = match explain::Request::new(one("method").unwrap_or("GET"), url, all("header")) {
        Ok(request) => request,
        Err(error) => return refuse(error.to_string()),
    };
    let permit = Arc::clone(&admin.questions).acquire_owned().await;
    // The engine lends its rows, and regular expressions are tried on them elsewhere: a pattern takes its time.
    let query = admin.engine.ask(move |view| (explain::Query::new(view.translator, &gateway, request), permit));
    let matched = match query.await {
        Ok((query, permit)) => tokio::task::spawn_blocking(move || (query.match_routes(), permit)).await,
        Err(error) => return stopped(&error),
    };
    let (matched, permit) = match matched {
        Ok(matched) => matched,
        Err(error) => return (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    };
    let lineage = admin.engine.ask(move |view| (matched.lineage(view.translator), matched, permit));
    match lineage.await {
        Ok((lineage, matched, permit)) => {
            written(format, permit, move || document::render(&matched.explain(&lineage), format)).await
        }
        Err(error) => stopped(&error),
    }
}

const NO_GATEWAY_NAME: &str = "gateway is NAMESPACE/NAME\n";

fn gateway_name(text: &str) -> Option<NsName> {
    text.split_once('/').map(|(namespace, name)| NsName::new(namespace, name))
}

/// What a question may take, until it is answered; an error only when the process ends.
type Permit = Result<OwnedSemaphorePermit, AcquireError>;

/// What `text` writes, off the threads that serve: megabytes of text take their time.
async fn written(
    format: Format,
    permit: Permit,
    text: impl FnOnce() -> Result<String, DocumentError> + Send + 'static,
) -> Response {
    let text = move || {
        let text = text();
        drop(permit);
        text
    };
    match tokio::task::spawn_blocking(text).await {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, content_type(format))], text).into_response(),
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
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

async fn engine(State(admin): State<Admin>, Query(Why { why }): Query<Why>) -> Response {
    let answer = admin.engine.ask(move |view| match why {
        None => Some(view.translator.engine_report()),
        Some(row) => {
            let (table, key) = row.split_once(':').unwrap_or((&row, ""));
            view.translator.why(table, key)
        }
    });
    match answer.await {
        Ok(Some(text)) => text.into_response(),
        Ok(None) => (StatusCode::NOT_FOUND, "no such row: ask for TABLE:KEY\n").into_response(),
        Err(error) => stopped(&error),
    }
}

fn stopped(error: &Stopped) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response()
}
