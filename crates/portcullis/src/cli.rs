//! The command line.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use controller::run::Bind;
use ir::{NsName, RootId};

use crate::{
    cluster_args::{ApiServerArgs, ClusterArgs},
    logging::LogFormat,
    settings::{SettingsArgs, duration, not_empty, positive_duration},
};

/// A Kubernetes Gateway API control plane for Envoy that fails closed and fails small.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the Gateways of a cluster, or of folders of manifests, and follow every change.
    Run(Box<Run>),
    /// Print what Envoys would get for manifests, and the statuses.
    Translate(Box<Translate>),
    /// Say what is wrong with manifests; exits 1 when anything is refused, replaced or ignored.
    Check(Box<Check>),
    /// Print the routes as a tree: Gateways, listeners, root routes, and what they delegate to.
    Tree(Box<Tree>),
    /// Tell what becomes of one request: which rule takes it, why, and what comes of it.
    Explain(Box<Explain>),
    /// Say what is wrong in a cluster, where, and who must act.
    Status(Box<Status>),
    /// Print what the Envoys of a Gateway are given.
    ConfigDump(Box<ConfigDump>),
    /// What a controller remembers beyond its life: objects that are set aside.
    Records(Box<Records>),
    /// Print the bootstrap of an Envoy that shall serve a Gateway.
    Bootstrap(Box<Bootstrap>),
    /// Have an Envoy judge what would be sent to proxies, for a controller in another container.
    Judge(Box<Judge>),
    /// Become an Envoy that can reach nobody. For `judge`, and for nobody else.
    #[command(hide = true)]
    JudgeChild(JudgeChild),
    /// Copy this program, for a container whose image does not have it.
    CopySelf(CopySelf),
    /// Print the CustomResourceDefinitions of the group gateway.portcullis.dev, for kubectl apply.
    Crds,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Serve folders of manifests (.yaml, .yml, .json), sub-folders included, and no cluster.
    #[arg(long, num_args = 1.., value_name = "DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// Where Envoys get their configuration. With --files: ADDRESS:PORT on loopback, or unix:PATH, since private keys
    /// travel here without authentication [default: 127.0.0.1:18000]. In a cluster: over TLS, for those who show a
    /// token [default: 0.0.0.0:9977].
    #[arg(long, env = "PORTCULLIS_XDS_ADDRESS", value_name = "ADDRESS")]
    pub(crate) xds_address: Option<Bind>,
    /// Where others than this host may ask for /healthz, /readyz and /metrics, if anywhere.
    #[arg(long, env = "PORTCULLIS_METRICS_ADDRESS", value_name = "ADDRESS")]
    pub(crate) metrics_address: Option<SocketAddr>,
    /// Where /healthz, /readyz, /metrics, /debug/snapshot, /debug/routes and /debug/engine are.
    #[arg(long, env = "PORTCULLIS_ADMIN_ADDRESS", default_value = "127.0.0.1:18001", value_name = "ADDRESS")]
    pub(crate) admin_address: SocketAddr,
    /// Has a row of the engine panic whenever it is computed: for tests of what becomes of it. Release builds have no such
    /// thing.
    #[cfg(debug_assertions)]
    #[arg(long, value_name = "TABLE:KEY", hide = true)]
    pub(crate) fail_at: Option<String>,
    /// A folder that outlives the process. What is being settled is named there, should the process die of it; with --files,
    /// records are kept there too.
    #[arg(long, env = "PORTCULLIS_STATE", value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// How long one settling may take before the process ends, since it will never do; 0s for ever.
    #[arg(long, env = "PORTCULLIS_SETTLING_TIMEOUT", default_value = "5m", value_name = "DURATION", value_parser = duration)]
    pub(crate) settling_timeout: Duration,
    /// Run this Envoy for every Gateway of the manifests.
    #[arg(long, value_name = "PATH", requires = "files")]
    pub(crate) envoy: Option<PathBuf>,
    /// Have this Envoy judge all that would be sent before it is: `validation.level: Strict`. Give the build that proxies run.
    #[arg(long, value_name = "ENVOY")]
    pub(crate) strict_with: Option<PathBuf>,
    /// The same with an Envoy in another container: where `portcullis judge` listens, unix:PATH.
    #[arg(long, env = "PORTCULLIS_STRICT_SOCKET", value_name = "unix:PATH", conflicts_with = "strict_with", value_parser = unix_socket)]
    pub(crate) strict_socket: Option<PathBuf>,
    /// Have this Envoy find out who is to blame for what proxies refuse, and with `validation.level: Strict` judge all that would be
    /// sent before it is. Give the build that proxies run.
    #[arg(long, value_name = "ENVOY", conflicts_with_all = ["strict_with", "strict_socket"])]
    pub(crate) judge_with: Option<PathBuf>,
    /// The same with an Envoy in another container: where `portcullis judge` listens, unix:PATH.
    #[arg(long, env = "PORTCULLIS_JUDGE_SOCKET", value_name = "unix:PATH", conflicts_with_all = ["strict_with", "strict_socket", "judge_with"], value_parser = unix_socket)]
    pub(crate) judge_socket: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// How the log is written, to standard error.
    #[arg(long, env = "PORTCULLIS_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace, or a filter such as `info,xds=debug`.
    #[arg(long, env = "PORTCULLIS_LOG_LEVEL", default_value = "info", value_name = "LEVEL")]
    pub(crate) log_level: String,
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Translate {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// Have this Envoy judge all that would be sent, and print what stands in place of routes that it refuses.
    #[arg(long, value_name = "ENVOY")]
    pub(crate) strict_with: Option<PathBuf>,
    /// The format.
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    pub(crate) output: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    /// Have this Envoy judge all that would be sent, too, and report what it refuses.
    #[arg(long, value_name = "ENVOY")]
    pub(crate) strict_with: Option<PathBuf>,
    /// The format.
    #[arg(short, long, value_enum, default_value_t = CheckFormat::Text)]
    pub(crate) output: CheckFormat,
    /// Exit 1 for warnings too.
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Tree {
    /// What is kept of this root alone, its last good version, on what else there is now: the tree of a route,
    /// NAMESPACE/NAME, or a Gateway with its policies, Gateway/NAMESPACE/NAME.
    #[arg(long, value_name = "ROOT", value_parser = root, conflicts_with = "address")]
    pub(crate) edition: Option<RootId>,
    /// The folder in which a controller without a cluster keeps it, as its own --state; else a cluster is asked.
    #[arg(long, value_name = "DIR", requires = "edition")]
    pub(crate) state: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) answer: AnswerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
    /// The method.
    #[arg(short = 'X', long, default_value = "GET", value_name = "METHOD")]
    pub(crate) method: String,
    /// A call in gRPC, of /SERVICE/METHOD: a POST with the content-type that gRPC has.
    #[arg(long, conflicts_with = "method")]
    pub(crate) grpc: bool,
    /// A header of the request, `NAME: VALUE`; may be given several times. A host takes the place of the URL's.
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    pub(crate) headers: Vec<String>,
    /// What is asked for, as `http://HOST[:PORT]/PATH` or `https://HOST[:PORT]/PATH`; scheme and port choose the listener. Or a
    /// connection or datagrams, as `tcp://HOST:PORT`, `udp://HOST:PORT` or `tls://NAME:PORT`.
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) answer: AnswerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Of this object alone: KIND/NAME, such as httproute/shop, or KIND for all of a kind. Without -n, an object is looked
    /// for in the namespace of the context, and everything else in all.
    #[arg(value_name = "KIND[/NAME]", num_args = 0..=2)]
    pub(crate) object: Vec<String>,
    /// Of all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    #[command(flatten)]
    pub(crate) answer: AnswerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigDump {
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// The format.
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    pub(crate) output: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Records {
    /// Of which kind: quarantine, the objects that are set aside because Portcullis fails on them, verdicts, what proxies refused, or
    /// editions, what is kept of trees of routes.
    #[arg(value_enum, value_name = "KIND")]
    pub(crate) kind: RecordsKind,
    /// What to do with one: show, or forget, so that what it is about is tried again, or its tree kept anew; else all are listed.
    #[arg(value_enum, value_name = "ACTION", requires = "id")]
    pub(crate) action: Option<RecordsAction>,
    /// The one, as it is listed. `forget all` also forgets what cannot be read.
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// The folder of a controller without a cluster, as its own --state; else a cluster is asked.
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// The namespace of the controller.
    #[arg(
        long,
        env = "PORTCULLIS_CONTROLLER_NAMESPACE",
        default_value = "portcullis-system",
        value_name = "NAMESPACE"
    )]
    pub(crate) controller_namespace: String,
    /// How long an answer may take, such as 30s or 1m.
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = positive_duration)]
    pub(crate) request_timeout: Duration,
    /// The format.
    #[arg(short, long, value_enum, default_value_t = ReportFormat::Text)]
    pub(crate) output: ReportFormat,
    #[command(flatten)]
    pub(crate) api_server: ApiServerArgs,
}

/// A kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RecordsKind {
    /// Objects that are set aside.
    Quarantine,
    /// What proxies refused.
    Verdicts,
    /// What is kept of trees of routes.
    Editions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RecordsAction {
    Show,
    Forget,
}

#[derive(Debug, Args)]
pub(crate) struct Bootstrap {
    /// The Gateway: NAMESPACE/NAME.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = gateway)]
    pub(crate) gateway: NsName,
    /// Where the control plane serves xDS: HOST:PORT or unix:PATH.
    #[arg(long, env = "PORTCULLIS_XDS_ADDRESS", default_value = "127.0.0.1:18000", value_name = "ADDRESS")]
    pub(crate) xds_address: String,
    /// Where Envoy's own admin interface is: ADDRESS:PORT or unix:PATH; port 0 lets the system choose one.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    pub(crate) envoy_admin_address: Bind,
    /// Tells the Envoys of a Gateway apart; the name of the host if none is given.
    #[arg(long, env = "HOSTNAME", default_value = "envoy", value_name = "NAME", value_parser = not_empty)]
    pub(crate) node_id: String,
    /// The format.
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Judge {
    /// The Envoy: of the build that proxies have.
    #[arg(long, value_name = "PATH")]
    pub(crate) envoy: PathBuf,
    /// Where the controller asks: unix:PATH. In the same folder processes are given what they judge.
    #[arg(long, value_name = "unix:PATH", value_parser = unix_socket)]
    pub(crate) listen: PathBuf,
    /// How the log is written, to standard error.
    #[arg(long, env = "PORTCULLIS_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace, or a filter such as `info,xds=debug`.
    #[arg(long, env = "PORTCULLIS_LOG_LEVEL", default_value = "info", value_name = "LEVEL")]
    pub(crate) log_level: String,
}

#[derive(Debug, Args)]
pub(crate) struct JudgeChild {
    /// The process that starts this one, and with which it ends.
    pub(crate) parent: u32,
    /// The program, and its arguments.
    #[arg(required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct CopySelf {
    /// Where the copy shall stand.
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
}

/// Manifests, and what they are read with.
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// Files and folders of manifests (.yaml, .yml, .json), sub-folders included.
    #[arg(short = 'f', long = "files", required = true, num_args = 1.., value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Judge them as `run --files` serves them, where all Gateways share one host and its ports; else as in a cluster, where
    /// each has pods of its own.
    #[arg(long)]
    pub(crate) host: bool,
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
}

/// Who is asked, and how the answer is written.
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// The format.
    #[arg(short, long, value_enum, default_value_t = ReportFormat::Text)]
    pub(crate) output: ReportFormat,
}

/// A Gateway of a cluster.
#[derive(Debug, Args)]
pub(crate) struct GatewayArgs {
    /// The Gateway: NAMESPACE/NAME, or NAME in the namespace of -n, else of the context.
    #[arg(long = "gateway", value_name = "[NAMESPACE/]NAME", value_parser = gateway_of_any_namespace)]
    pub(crate) name: GatewayName,
}

/// Who is asked.
#[derive(Debug, Args)]
pub(crate) struct SourceArgs {
    /// A file or folder of manifests (.yaml, .yml, .json), sub-folders included; may be given several times. Without any,
    /// a cluster is asked.
    #[arg(short = 'f', long = "files", value_name = "PATH", conflicts_with_all = ["from", "address"])]
    pub(crate) paths: Vec<PathBuf>,
    /// Judge the manifests as `run --files` serves them, where all Gateways share one host and its ports; else as in a
    /// cluster, where each has pods of its own.
    #[arg(long, requires = "paths")]
    pub(crate) host: bool,
    /// The namespace of what is asked about.
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Who answers for a cluster.
    #[arg(long, value_enum, default_value_t = From::Auto)]
    pub(crate) from: From,
    /// The admin server of a controller to which a port is forwarded already, HOST:PORT.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "from")]
    pub(crate) address: Option<String>,
    /// The namespace of the controller.
    #[arg(
        long,
        env = "PORTCULLIS_CONTROLLER_NAMESPACE",
        default_value = "portcullis-system",
        value_name = "NAMESPACE"
    )]
    pub(crate) controller_namespace: String,
    /// How long an answer may take, such as 30s or 1m. Until then, what an API server has no time for is asked for again.
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = positive_duration)]
    pub(crate) request_timeout: Duration,
    /// Go on without the kinds that cannot be read; what is said may then be wrong.
    #[arg(long)]
    pub(crate) partial: bool,
    #[command(flatten)]
    pub(crate) api_server: ApiServerArgs,
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
}

/// Who answers for a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum From {
    /// The controller, by a port forwarded to its pod; where none runs or may be asked, or settings are given, what the API
    /// server holds.
    Auto,
    /// The controller, by a port forwarded to its pod: what it serves, by its own settings.
    Controller,
    /// What a controller with these settings would make of what the API server holds.
    ApiServer,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    Yaml,
    Json,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CheckFormat {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ReportFormat {
    Text,
    Json,
    Yaml,
}

/// The name of a Gateway, in a namespace that may have to be found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GatewayName {
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

fn gateway_of_any_namespace(text: &str) -> Result<GatewayName, String> {
    if is_name(text) {
        return Ok(GatewayName { namespace: None, name: text.to_owned() });
    }
    let NsName { namespace, name } = gateway(text)?;
    Ok(GatewayName { namespace: Some(namespace.to_string()), name: name.to_string() })
}

fn gateway(text: &str) -> Result<NsName, String> {
    match text.split_once('/') {
        Some((namespace, name)) if is_name(namespace) && is_name(name) => Ok(NsName::new(namespace, name)),
        _ => Err("must be NAMESPACE/NAME, both in lower case".into()),
    }
}

/// As `records editions` lists it.
fn root(text: &str) -> Result<RootId, String> {
    let is_root = |name| gateway(name).map_err(|_| "must be NAMESPACE/NAME or Gateway/NAMESPACE/NAME".into());
    match text.strip_prefix("Gateway/") {
        Some(name) => is_root(name).map(RootId::Gateway),
        None => is_root(text).map(RootId::Route),
    }
}

fn unix_socket(text: &str) -> Result<PathBuf, String> {
    match text.parse()? {
        Bind::Unix(path) => Ok(path),
        Bind::Tcp(_) => Err("must be unix:PATH: whoever can connect is judged for".into()),
    }
}

/// The shape of the name of a Kubernetes object (RFC 1123), loosely: an Envoy with another one is refused by xDS.
fn is_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    !text.is_empty() && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_gateway_has_a_namespace_and_a_name_and_so_has_a_root() {
        assert_eq!(gateway("infra/edge"), Ok(NsName::new("infra", "edge")));
        for text in ["", "edge", "/edge", "infra/", "a/b/c", "Infra/edge", "infra/ed ge"] {
            assert!(gateway(text).is_err(), "{text}");
        }
        assert_eq!(root("apps/shop"), Ok(RootId::Route(NsName::new("apps", "shop"))));
        assert_eq!(root("Gateway/infra/edge"), Ok(RootId::Gateway(NsName::new("infra", "edge"))));
        for text in ["shop", "Gateway/edge", "gateway/infra/edge", "HTTPRoute/apps/shop"] {
            assert!(root(text).is_err(), "{text}");
        }
        let name = |namespace: Option<&str>| GatewayName { namespace: namespace.map(Into::into), name: "edge".into() };
        assert_eq!(gateway_of_any_namespace("infra/edge"), Ok(name(Some("infra"))));
        assert_eq!(gateway_of_any_namespace("edge"), Ok(name(None)));
        assert!(gateway_of_any_namespace("infra/").is_err());
    }
}
