//! The admin server: is it alive, is it ready, what does it count, what does it serve.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use prometheus_client::registry::Registry;
use serde::Deserialize;
use tokio::net::TcpListener;

use crate::{
    document::{Content, Document},
    engine_task::{EngineHandle, Stopped},
    metrics::{self, Metrics},
};

/// What the handlers need.
#[derive(Clone)]
pub struct Admin {
    engine: EngineHandle,
    hub: xds::Hub,
    metrics: Metrics,
    registry: Arc<Registry>,
}

impl Admin {
    /// An admin server of this process.
    pub fn new(engine: EngineHandle, hub: xds::Hub, metrics: Metrics) -> Self {
        let registry = Arc::new(metrics.registry());
        Self { engine, hub, metrics, registry }
    }

    fn router(self, pages: Pages) -> Router {
        let observed = Router::new()
            .route("/healthz", get(healthz))
            .route("/readyz", get(readyz))
            .route("/metrics", get(show_metrics));
        let router = match pages {
            Pages::Observed => observed,
            Pages::All => observed
                .route("/", get(async || PAGES))
                .route("/debug/snapshot", get(snapshot))
                .route("/debug/routes", get(routes))
                .route("/debug/engine", get(engine)),
        };
        router.with_state(self)
    }

    /// Serves until `shutdown`.
    pub async fn serve(
        self,
        listener: TcpListener,
        pages: Pages,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        axum::serve(listener, self.router(pages)).with_graceful_shutdown(shutdown).await
    }
}

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// How the process is, and figures: what the network of a cluster may see.
    Observed,
    /// Everything that is served as well: for this host alone.
    All,
}

const PAGES: &str = "/healthz         whether the engine answers\n\
                     /readyz          whether everything was read once and is published\n\
                     /metrics         figures, for Prometheus\n\
                     /debug/snapshot  what Envoys get and the statuses, as `portcullis translate -o json`\n\
                     /debug/routes    the routes as a tree, as `portcullis tree`; ?format=json for JSON\n\
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
    let stale = admin.engine.ask(|view| {
        let stale = view.stale.into_iter().flatten();
        stale.map(|(kind, why)| format!("stale: {kind}: {why}\n")).collect::<Vec<_>>()
    });
    match stale.await {
        Ok(stale) => format!("ready\n{}", stale.concat()).into_response(),
        Err(error) => stopped(&error),
    }
}

async fn show_metrics(State(admin): State<Admin>) -> Response {
    admin.metrics.watches.refresh();
    // Counted when somebody looks, since it takes a look at every object.
    let counted = admin.metrics.clone();
    let count = move |view: &crate::engine_task::View<'_>| {
        let objects = view.translator.problems().into_iter().map(|(_, problem)| problem.severity);
        let files = view.file_problems.iter().map(|problem| problem.problem.severity);
        counted.count_problems(objects.chain(files));
    };
    match admin.engine.ask(count).await {
        Ok(()) => {
            let kind = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
            (kind, metrics::render(&admin.registry)).into_response()
        }
        Err(error) => stopped(&error),
    }
}

async fn snapshot(State(admin): State<Admin>) -> Response {
    let content = match admin.engine.ask(|view| Content::of(view.translator)).await {
        Ok(content) => content,
        Err(error) => return stopped(&error),
    };
    // Megabytes of text take their time, which is not the engine's.
    let text = tokio::task::spawn_blocking(|| Document::from_content(content)?.to_json()).await;
    match text {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

#[derive(Deserialize)]
struct Wanted {
    format: Option<String>,
}

async fn routes(State(admin): State<Admin>, Query(Wanted { format }): Query<Wanted>, headers: HeaderMap) -> Response {
    let as_json = match format.as_deref() {
        Some("json") => true,
        Some("text") => false,
        Some(_) => return (StatusCode::BAD_REQUEST, "format is text or json\n").into_response(),
        None => {
            let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
            accepted.is_some_and(|accepted| accepted.contains("application/json"))
        }
    };
    let tree = match admin.engine.ask(|view| translate::tree::tree(view.translator)).await {
        Ok(tree) => tree,
        Err(error) => return stopped(&error),
    };
    let text = tokio::task::spawn_blocking(move || {
        if as_json { serde_json::to_string_pretty(&tree).map(|text| text + "\n") } else { Ok(tree.to_string()) }
    });
    match text.await {
        Ok(Ok(text)) if as_json => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Ok(Ok(text)) => text.into_response(),
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
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
