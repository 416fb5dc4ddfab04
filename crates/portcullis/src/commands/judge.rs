//! Envoys that judge.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use controller::{
    run::JudgeAt,
    strict::{self, Judged},
};
use ir::settings::Edge;
use judge::{Judge, Launch, Runner, Way, agent, confine};
use translate::Translator;

use super::{ask, stop_signal};
use crate::{cli, logging};

/// Judges for a controller until it is stopped.
pub(crate) fn judge(args: cli::Judge) -> anyhow::Result<ExitCode> {
    logging::start(args.log_format, &args.log_level)?;
    let folder = args.listen.parent().filter(|folder| !folder.as_os_str().is_empty());
    let runner = Runner::start(launch(args.envoy, Some(folder.unwrap_or(Path::new(".")).to_owned()))?)?;
    ask(async {
        let stop = stop_signal().context("cannot listen for signals")?;
        let listener = accept::bind_unix(&args.listen)
            .with_context(|| format!("cannot listen on unix:{}", args.listen.display()))?;
        tracing::info!(build = runner.build().as_str(), listen = %args.listen.display(), "judging");
        tokio::select! {
            () = agent::serve(listener, runner) => {}
            () = stop => tracing::info!("stopping"),
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Becomes an Envoy; why it does not.
pub(crate) fn child(args: &cli::JudgeChild) -> anyhow::Error {
    let Some((program, arguments)) = args.command.split_first() else { return anyhow::anyhow!("no program is named") };
    anyhow::Error::new(confine::exec(args.parent, program, arguments))
        .context(format!("cannot run {}", program.display()))
}

/// Has an Envoy judge all that would be sent, and what it refuses of routes replaced.
pub(crate) fn validate(translator: &mut Translator, envoy: PathBuf, edge: &Edge) -> anyhow::Result<Judged> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start a runtime")?;
    let runner = Runner::start(launch(envoy, None)?).context("--strict-with")?;
    let judge = Judge::new(Way::Here(runner), edge);
    Ok(runtime.block_on(strict::validate(translator, &judge)))
}

/// Where it is judged what `run` sends, or what proxies refused of it; if anywhere.
pub(crate) fn judge_at(
    envoy: Option<PathBuf>,
    socket: Option<PathBuf>,
    is_strict: bool,
) -> anyhow::Result<Option<JudgeAt>> {
    Ok(match (envoy, socket) {
        (Some(envoy), _) => Some(JudgeAt::Here(launch(envoy, None)?)),
        (None, Some(socket)) => Some(JudgeAt::There(socket)),
        (None, None) => {
            anyhow::ensure!(
                !is_strict,
                "validation.level is Strict, and nobody is named who judges: give --judge-with or --judge-socket"
            );
            None
        }
    })
}

fn launch(envoy: PathBuf, folder: Option<PathBuf>) -> anyhow::Result<Launch> {
    let program = std::env::current_exe().context("cannot find this program")?;
    // Processes run in another folder.
    let envoy = std::path::absolute(envoy)?;
    let folder = folder.map(std::path::absolute).transpose()?;
    Ok(Launch { program, arguments: vec!["judge-child".into()], envoy, folder, time: Launch::TIME })
}

/// Copies this program.
pub(crate) fn copy_self(args: &cli::CopySelf) -> anyhow::Result<ExitCode> {
    let copied = || {
        let folder = args.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Whoever finds it finds all of it.
        let fresh = tempfile::Builder::new().prefix(".copy-").tempfile_in(folder)?;
        std::fs::copy(std::env::current_exe()?, fresh.path())?;
        std::fs::set_permissions(fresh.path(), PermissionsExt::from_mode(0o555))?;
        fresh.persist(&args.path)?;
        anyhow::Ok(())
    };
    copied().with_context(|| format!("cannot copy this program to {}", args.path.display()))?;
    Ok(ExitCode::SUCCESS)
}
