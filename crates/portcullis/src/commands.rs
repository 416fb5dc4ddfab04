//! What the commands do.

use std::{io::Write, process::ExitCode};

use anyhow::Context;
use controller::{
    check::Report,
    cluster_snapshot,
    document::Document,
    files::{FileProblem, Files, Update},
    run::{Bind, Options, Source},
};
use translate::{
    Translator,
    envoy::bootstrap::{AdminAddress, XdsAddress},
};

use crate::{
    cli::{self, FileArgs, Format, ReportFormat, SourceArgs},
    logging,
    settings::SettingsArgs,
};

/// Serves until it is told to stop.
pub(crate) fn run(args: Box<cli::Run>) -> anyhow::Result<ExitCode> {
    logging::start(args.log_format, &args.log_level)?;
    let args = *args;
    let mut settings = args.settings.settings()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start a runtime")?;
    runtime.block_on(async {
        let (source, xds) = if args.files.is_empty() {
            settings = cluster_snapshot::in_cluster(settings);
            (Source::Cluster(Box::new(args.cluster.options().await?)), Bind::Tcp(([0, 0, 0, 0], 9977).into()))
        } else {
            (Source::Files { folders: args.files, envoy: args.envoy }, Bind::Tcp(([127, 0, 0, 1], 18000).into()))
        };
        let options = Options {
            source,
            xds: args.xds_address.unwrap_or(xds),
            admin: args.admin_address,
            metrics: args.metrics_address,
            settings,
        };
        let stop = stop_signal().context("cannot listen for signals")?;
        controller::run::run(options, stop).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Ends when the process is asked to.
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Prints what Envoys would get.
pub(crate) fn translate(args: Box<cli::Translate>) -> anyhow::Result<ExitCode> {
    let (translator, _, problems) = load(args.files, args.settings)?;
    tell(&problems)?;
    let document = Document::of(&translator)?;
    let text = match args.output {
        Format::Yaml => document.to_yaml()?,
        Format::Json => document.to_json()?,
    };
    print(&text)
}

/// Says what is wrong.
pub(crate) fn check(args: Box<cli::Check>) -> anyhow::Result<ExitCode> {
    let (translator, files, problems) = load(args.files, args.settings)?;
    if files.manifests().files().next().is_none() {
        let paths: Vec<_> = files.roots().iter().map(|path| path.display().to_string()).collect();
        // What gates a change must not pass because it looked in the wrong place.
        anyhow::bail!("there is no .yaml, .yml or .json file in {}", paths.join(", "));
    }
    let report = Report::of(&files, &problems, &translator);
    let text = match args.output {
        ReportFormat::Text => report.to_text(),
        ReportFormat::Json => report.to_json()?,
    };
    print(&text)?;
    Ok(if report.fails(args.strict) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Prints the routes as a tree.
pub(crate) fn tree(args: Box<cli::Tree>) -> anyhow::Result<ExitCode> {
    let translator = read(args.source, args.settings)?;
    let tree = translate::tree::tree(&translator);
    print(&match args.output {
        ReportFormat::Text => tree.to_string(),
        ReportFormat::Json => serde_json::to_string_pretty(&tree)? + "\n",
    })
}

/// Tells what becomes of a request.
pub(crate) fn explain(args: Box<cli::Explain>) -> anyhow::Result<ExitCode> {
    let headers = args.headers.iter().map(String::as_str);
    let request = translate::explain::Request::new(&args.method, &args.url, headers)?;
    let source = SourceArgs { paths: args.paths, api_server: args.api_server };
    let translator = read(source, args.settings)?;
    let explanation = translate::explain::explain(&translator, &args.gateway, &request);
    print(&match args.output {
        ReportFormat::Text => explanation.to_string(),
        ReportFormat::Json => serde_json::to_string_pretty(&explanation)? + "\n",
    })
}

/// Says what is wrong with the objects of a cluster.
pub(crate) fn status(args: Box<cli::Status>) -> anyhow::Result<ExitCode> {
    let args = *args;
    let wanted = args.object.as_deref().map(kind_and_name).transpose()?;
    let translator = read(args.source, args.settings)?;
    let report = Report::of_cluster(&translator, |id| {
        let namespace = args.namespace.as_deref().is_none_or(|namespace| *id.namespace == *namespace);
        let (kind, name) = wanted.unwrap_or_default();
        namespace && kind.is_none_or(|kind| id.kind == kind) && name.is_none_or(|name| *id.name == *name)
    });
    print(&match args.output {
        ReportFormat::Text => report.to_text(),
        ReportFormat::Json => report.to_json()?,
    })
}

/// `KIND/NAME` or `KIND`, the kind in any case, in the singular or in the plural.
fn kind_and_name(text: &str) -> anyhow::Result<(Option<api::Kind>, Option<&str>)> {
    let (kind, name) = text.split_once('/').map_or((text, None), |(kind, name)| (kind, Some(name)));
    let means =
        |known: &&api::Kind| known.as_str().eq_ignore_ascii_case(kind) || known.plural().eq_ignore_ascii_case(kind);
    let known = api::Kind::ALL.iter().find(means);
    let known = known.with_context(|| format!("{kind:?} is no kind that is read; name one such as httproute"))?;
    Ok((Some(*known), name))
}

/// Prints what the Envoys of a Gateway are given.
pub(crate) fn config_dump(args: Box<cli::ConfigDump>) -> anyhow::Result<ExitCode> {
    let args = *args;
    let translator = read(args.source, args.settings)?;
    let document = Document::of_gateway(&translator, &args.gateway)?;
    let Some(document) = document else { anyhow::bail!("there is no Gateway {} that is served", args.gateway) };
    print(&match args.output {
        Format::Yaml => document.to_yaml()?,
        Format::Json => document.to_json()?,
    })
}

/// Prints a bootstrap.
pub(crate) fn bootstrap(args: Box<cli::Bootstrap>) -> anyhow::Result<ExitCode> {
    let xds = xds_address(&args.xds_address)?;
    let admin = match args.envoy_admin_address {
        Bind::Tcp(address) => AdminAddress::Tcp { address: address.ip(), port: address.port() },
        Bind::Unix(path) => AdminAddress::Unix(path),
    };
    let edge = args.settings.settings()?.edge;
    let bootstrap = translate::envoy::bootstrap::bootstrap(&args.gateway, &args.node_id, &xds, &admin, &edge);
    let mut value = translate::envoy::bootstrap::bootstrap_json(&bootstrap)?;
    controller::document::whole_numbers(&mut value);
    let text = match args.output {
        Format::Yaml => controller::document::yaml(&value)?,
        Format::Json => serde_json::to_string_pretty(&value)? + "\n",
    };
    print(&text)
}

/// Prints the definitions of our own kinds.
pub(crate) fn crds() -> anyhow::Result<ExitCode> {
    let mut text = "# Printed by `portcullis crds`.\n".to_owned();
    for crd in api::crds() {
        text += "---\n";
        text += &controller::document::yaml(&crd)?;
    }
    print(&text)
}

fn xds_address(text: &str) -> anyhow::Result<XdsAddress> {
    if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
        return Ok(XdsAddress::Unix(path.into()));
    }
    let host_and_port = text.rsplit_once(':').filter(|(host, _)| {
        !host.is_empty() && !host.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control())
    });
    let (host, port) = host_and_port.context("--xds-address must be HOST:PORT or unix:PATH")?;
    let port = port.parse().ok().filter(|port| *port != 0).context("--xds-address must end with a port")?;
    Ok(XdsAddress::Tcp { host: host.to_owned(), port })
}

/// Everything that files or a cluster hold, settled.
fn read(source: SourceArgs, settings: SettingsArgs) -> anyhow::Result<Translator> {
    if !source.paths.is_empty() {
        let (translator, _, problems) = load(FileArgs { paths: source.paths }, settings)?;
        tell(&problems)?;
        return Ok(translator);
    }
    let settings = settings.settings()?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start a runtime")?;
    let snapshot = runtime.block_on(async {
        let config = source.api_server.config().await?;
        anyhow::Ok(cluster_snapshot::read(config, settings).await?)
    })?;
    for (kind, why) in &snapshot.unread {
        writeln!(std::io::stderr(), "{kind} cannot be read, and counts as not there: {why}")?;
    }
    Ok(snapshot.translator)
}

/// Everything there is, settled.
fn load(files: FileArgs, settings: SettingsArgs) -> anyhow::Result<(Translator, Files, Vec<FileProblem>)> {
    let settings = settings.settings()?;
    let mut files = Files::open(files.paths)?;
    let Update { changes, problems, .. } = files.load();
    let mut translator = Translator::new(settings);
    for change in changes {
        translator.apply(change);
    }
    translator.settle();
    Ok((translator, files, problems.to_vec()))
}

/// What is printed has no place for what is wrong with files, and must not be taken for the whole truth.
fn tell(problems: &[FileProblem]) -> std::io::Result<()> {
    problems.iter().try_for_each(|problem| writeln!(std::io::stderr(), "{problem}"))
}

fn print(text: &str) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // Who reads it has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        written => written.context("cannot write to standard output")?,
    }
    Ok(ExitCode::SUCCESS)
}
