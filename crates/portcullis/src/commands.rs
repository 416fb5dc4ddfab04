//! What the commands do.

pub(crate) mod cluster;
pub(crate) mod judge;
pub(crate) mod records;

use std::{
    io::{BufWriter, Write},
    process::ExitCode,
};

use anyhow::Context;
use controller::{
    check::Report,
    cluster_snapshot,
    document::{self, Document},
    run::{Bind, Options, Source},
};
use envoy::bootstrap::{AdminAddress, XdsAddress};
use ir::settings::ValidationLevel;

use crate::{
    cli::{self, CheckFormat, Format},
    logging,
    source::{self, Loaded, on_this_host},
};

/// Serves until it is stopped.
pub(crate) fn run(args: Box<cli::Run>) -> anyhow::Result<ExitCode> {
    logging::start(args.log_format, &args.log_level)?;
    let args = *args;
    let mut settings = args.settings.settings()?;
    let is_strict = args.strict_with.is_some()
        || args.strict_socket.is_some()
        || settings.validation.level == ValidationLevel::Strict;
    let envoy = args.strict_with.or(args.judge_with);
    let judge = judge::judge_at(envoy, args.strict_socket.or(args.judge_socket), is_strict)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start a runtime")?;
    runtime.block_on(async {
        let (source, xds) = if args.files.is_empty() {
            settings = cluster_snapshot::in_cluster(settings);
            (Source::Cluster(Box::new(args.cluster.options().await?)), Bind::Tcp(([0, 0, 0, 0], 9977).into()))
        } else {
            settings.system_trust_store = on_this_host(settings.system_trust_store);
            (Source::Files { folders: args.files, envoy: args.envoy }, Bind::Tcp(([127, 0, 0, 1], 18000).into()))
        };
        let options = Options {
            source,
            xds: args.xds_address.unwrap_or(xds),
            admin: args.admin_address,
            metrics: args.metrics_address,
            settings,
            state: args.state,
            judge,
            is_strict,
            settling_timeout: args.settling_timeout,
            #[cfg(debug_assertions)]
            fail_at: args.fail_at,
        };
        let stop = stop_signal().context("cannot listen for signals")?;
        Box::pin(controller::run::run(options, stop)).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Ends when the process is asked to.
pub(crate) fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
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
    let Loaded { mut translator, problems, edge, .. } = source::load(args.files)?;
    // What is printed has no place for what is wrong with files.
    problems.iter().try_for_each(|problem| writeln!(std::io::stderr(), "{problem}"))?;
    if let Some(envoy) = args.strict_with {
        let judged = judge::validate(translator.translator_mut(), envoy, &edge)?;
        judged.problems.iter().try_for_each(|(object, problem)| writeln!(std::io::stderr(), "{object}: {problem}"))?;
        // Who asked for Envoy's word shall not take for it what is none.
        anyhow::ensure!(judged.unknown == 0, "{} parts of what is sent were not judged", judged.unknown);
    }
    print_document(&Document::of(&translator), args.output)
}

/// Prints a document while it is decoded.
fn print_document(document: &Document, format: Format) -> anyhow::Result<ExitCode> {
    let format = match format {
        Format::Yaml => document::Format::Yaml,
        Format::Json => document::Format::Json,
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    match document.write(format, &mut out).and_then(|()| Ok(out.flush()?)) {
        // Who reads it has seen enough.
        Err(error) if error.is_broken_pipe() => {
            // Nor is what is left in the buffer tried again.
            drop(out.into_parts());
        }
        written => written.context("cannot write to standard output")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Says what is wrong.
pub(crate) fn check(args: Box<cli::Check>) -> anyhow::Result<ExitCode> {
    let Loaded { mut translator, files, problems, edge, .. } = source::load(args.files)?;
    if files.manifests().files().next().is_none() {
        let paths: Vec<_> = files.roots().iter().map(|path| path.display().to_string()).collect();
        // What gates a change must not pass because it looked in the wrong place.
        anyhow::bail!("there is no .yaml, .yml or .json file in {}", paths.join(", "));
    }
    let judged = match args.strict_with {
        Some(envoy) => judge::validate(translator.translator_mut(), envoy, &edge)?.problems,
        None => Vec::new(),
    };
    let report = Report::of(&files, &problems, &translator, judged);
    let text = match args.output {
        CheckFormat::Text => report.to_text(),
        CheckFormat::Json => report.to_json()?,
    };
    print(&text)?;
    Ok(if report.fails(args.strict) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs one of the commands that ask a cluster.
pub(crate) fn ask(command: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start a runtime")?.block_on(command)
}

/// Prints a bootstrap.
pub(crate) fn bootstrap(args: Box<cli::Bootstrap>) -> anyhow::Result<ExitCode> {
    let xds = xds_address(&args.xds_address)?;
    let admin = match args.envoy_admin_address {
        Bind::Tcp(address) => AdminAddress::Tcp { address: address.ip(), port: address.port() },
        Bind::Unix(path) => AdminAddress::Unix(path),
    };
    let edge = args.settings.settings()?.edge;
    let bootstrap = envoy::bootstrap::bootstrap(&args.gateway, &args.node_id, &xds, &admin, &edge);
    let mut value = envoy::bootstrap::bootstrap_json(&bootstrap)?;
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

fn print(text: &str) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // Who reads it has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        written => written.context("cannot write to standard output")?,
    }
    Ok(ExitCode::SUCCESS)
}
