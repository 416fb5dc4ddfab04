//! What answers questions about a cluster, its controller or what its API server holds; or about files.

mod controller;
mod pod;

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Duration};

use ::controller::{
    cluster_snapshot::{self, ClusterSnapshot, Refusal, SnapshotError},
    files::{FileProblem, Files, Update},
    guarded::Guarded,
};
use anyhow::{Context, bail};
use api::ObjectId;
use ir::settings::Edge;
use kube::{Client, Config};
use translate::{Change, Deploying, LoginSeed};

pub(crate) use controller::Controller;

use crate::{
    cli::{FileArgs, From, SourceArgs},
    settings::{SettingsArgs, by_objects_alone},
};

/// What answers, and the cluster if one is at hand.
pub(crate) struct Source {
    pub(crate) answers: Answers,
    pub(crate) cluster: Option<Cluster>,
    /// How long an answer may take.
    pub(crate) request_timeout: Duration,
    /// The namespace that is asked about, if one is named.
    pub(crate) namespace: Option<String>,
}

/// What answers.
pub(crate) enum Answers {
    /// Manifests.
    Files(Box<Loaded>),
    /// What an API server holds.
    Snapshot(Box<ClusterSnapshot>),
    /// A controller that runs.
    Controller(Controller),
}

/// An API server.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    /// The namespace of the context.
    pub(crate) namespace: String,
}

/// What manifests hold, settled.
pub(crate) struct Loaded {
    pub(crate) translator: Guarded,
    pub(crate) files: Files,
    pub(crate) problems: Vec<FileProblem>,
    /// Whatever was read.
    pub(crate) objects: BTreeSet<ObjectId>,
    /// The limits of proxies.
    pub(crate) edge: Edge,
}

/// Reads manifests, as for a cluster that deploys proxies, or for one host.
pub(crate) fn load(args: FileArgs) -> anyhow::Result<Loaded> {
    let mut settings = args.settings.settings()?;
    let deploying = if args.host {
        settings.system_trust_store = on_this_host(settings.system_trust_store);
        None
    } else {
        settings = cluster_snapshot::in_cluster(settings);
        Some(Deploying::dry_run())
    };
    let mut files = Files::open(args.paths)?;
    let Update { changes, problems, .. } = files.load();
    let edge = settings.edge.clone();
    let mut translator = Guarded::new(settings);
    translator.translator_mut().set_deploying(deploying);
    translator.translator_mut().set_login_seed(Some(LoginSeed::unserved()));
    let mut objects = BTreeSet::new();
    for (version, change) in (0..).zip(changes) {
        if let Change::Put(object) = &change {
            objects.insert(object.id());
        }
        translator.apply(change, version);
    }
    translator.settle();
    Ok(Loaded { translator, files, problems: problems.to_vec(), objects, edge })
}

/// The file with the authorities of the system, if it is there: what is for one host is served by Envoys of this one, and Envoy refuses who
/// is to be judged by a file that is not.
pub(crate) fn on_this_host(trust_store: Arc<str>) -> Arc<str> {
    if trust_store.is_empty() || Path::new(&*trust_store).is_file() {
        return trust_store;
    }
    tracing::warn!(%trust_store, "is not there, so nobody can trust the authorities of the system (backend.systemTrustStore)");
    "".into()
}

/// What is printed has no place for this, and must not be taken for the whole truth.
pub(crate) fn note(text: impl std::fmt::Display) {
    use std::io::Write;
    // There is nowhere to report a failure.
    let _: std::io::Result<()> = writeln!(std::io::stderr(), "portcullis: {text}");
}

impl Source {
    /// Chooses what answers.
    pub(crate) async fn open(args: SourceArgs) -> anyhow::Result<Self> {
        let request_timeout = args.request_timeout;
        let namespace = args.namespace;
        if !args.paths.is_empty() {
            let loaded = load(FileArgs { paths: args.paths, host: args.host, settings: args.settings })?;
            loaded.problems.iter().for_each(note);
            return Ok(Self { answers: Answers::Files(Box::new(loaded)), cluster: None, request_timeout, namespace });
        }
        if let Some(address) = args.address {
            own_settings(&args.settings)?;
            // The cluster at the other end of the port is known only if it is named.
            let mut cluster = None;
            if args.api_server.is_named() {
                cluster = Some(Cluster::new(&args.api_server.config().await?)?);
            }
            let controller = Controller::at(&address, request_timeout, &args.controller_namespace).await?;
            return Ok(Self { answers: Answers::Controller(controller), cluster, request_timeout, namespace });
        }
        let config = args.api_server.config().await?;
        let cluster = Cluster::new(&config)?;
        let from = match args.from {
            From::Auto if !args.settings.is_empty() => From::ApiServer,
            from => from,
        };
        if from != From::ApiServer {
            own_settings(&args.settings)?;
            match Controller::in_cluster(&cluster.client, &args.controller_namespace, request_timeout).await {
                Ok(controller) => {
                    let answers = Answers::Controller(controller);
                    return Ok(Self { answers, cluster: Some(cluster), request_timeout, namespace });
                }
                // Where the API server refuses or cannot be reached, that alone is reported.
                Err(error) if is_hopeless(&error) => bail!("{}: {error:#}: {REACH}", config.cluster_url),
                Err(error) if from == From::Controller => bail!(
                    "no controller can be asked: {error:#}; ask with --from api-server, or say by --controller-namespace where \
                     it runs"
                ),
                Err(error) => note(format_args!(
                    "no controller can be asked, so this is what one with the settings given here would make of the objects \
                     (--from api-server): {error:#}"
                )),
            }
        }
        let snapshot = snapshot(config, args.settings, request_timeout, args.partial).await?;
        Ok(Self { answers: Answers::Snapshot(Box::new(snapshot)), cluster: Some(cluster), request_timeout, namespace })
    }

    /// The namespace of what is named without one.
    pub(crate) fn default_namespace(&self) -> String {
        let of_context = || self.cluster.as_ref().map(|cluster| cluster.namespace.clone());
        self.namespace.clone().or_else(of_context).unwrap_or_else(|| "default".to_owned())
    }
}

/// What to do where the API server is of no use.
const REACH: &str = "see that it runs, log in anew, or choose another by --context or --kubeconfig";

fn is_hopeless(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Unusable(Refusal::Unreached(_) | Refusal::Unauthorized(_))))
}

/// A controller has settings of its own, and none that are given here.
fn own_settings(settings: &SettingsArgs) -> anyhow::Result<()> {
    let text = "the controller answers by its own settings: leave out those given here, by a flag, an environment variable \
                or --config, or ask with --from api-server";
    if settings.is_empty() { Ok(()) } else { Err(anyhow::anyhow!(text)) }
}

impl Cluster {
    fn new(config: &Config) -> anyhow::Result<Self> {
        let namespace = config.default_namespace.clone();
        // Without retries of its own, so that an answer comes in time.
        let client = cluster::watch::client(config.clone()).context("there is no way to the API server")?;
        Ok(Self { client, namespace })
    }
}

/// Why an API server is of no use.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.why())]
struct Unusable(Refusal);

impl Unusable {
    fn of(error: &kube::Error) -> anyhow::Error {
        anyhow::Error::new(Self(Refusal::of(error)))
    }
}

/// What the API server holds; all of it, unless `partial`.
async fn snapshot(
    config: Config,
    settings: SettingsArgs,
    request_timeout: Duration,
    partial: bool,
) -> anyhow::Result<ClusterSnapshot> {
    let settings = settings.settings()?;
    by_objects_alone(&settings)?;
    let read = cluster_snapshot::read(config, settings, request_timeout).await;
    let snapshot = read.map_err(|error| {
        let remedy = match &error {
            SnapshotError::Unreachable { .. } | SnapshotError::Unauthorized { .. } => REACH,
            SnapshotError::Client(_) => "correct the kubeconfig",
        };
        anyhow::anyhow!("{error}: {remedy}")
    })?;
    if snapshot.unread.is_empty() {
        return Ok(snapshot);
    }
    if snapshot.unread.len() < api::Kind::ALL.len() && partial {
        for (kind, why) in &snapshot.unread {
            note(format_args!("{kind} cannot be read, and counts as not there: {why}"));
        }
        return Ok(snapshot);
    }
    let unread: Vec<_> = snapshot.unread.iter().map(|(kind, why)| format!("\n  {kind}: {why}")).collect();
    bail!(
        "not everything can be read, so nothing that is said would be sure:{}\nask for the right to list these kinds, ask the \
         controller with --from controller, or go on without them with --partial",
        unread.concat()
    )
}
