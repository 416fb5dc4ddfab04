//! `portcullis`: a Kubernetes Gateway API control plane for Envoy that fails closed and fails small.

mod cli;
mod cluster_args;
mod commands;
mod logging;
mod settings;
mod source;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What is wrong with how the program was called, or with what it reads and writes.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    // Chosen here, once, so that it does not depend on what else is linked.
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        return failed(&anyhow::anyhow!("another TLS provider is installed already"));
    }
    let outcome = match Cli::parse().command {
        Command::Run(run) => commands::run(run),
        Command::Translate(translate) => commands::translate(translate),
        Command::Check(check) => commands::check(check),
        Command::Tree(tree) => commands::ask(commands::cluster::tree(*tree)),
        Command::Explain(explain) => commands::ask(commands::cluster::explain(*explain)),
        Command::Status(status) => commands::ask(commands::cluster::status(*status)),
        Command::ConfigDump(dump) => commands::ask(commands::cluster::config_dump(*dump)),
        Command::Records(args) => commands::ask(commands::records::records(*args)),
        Command::Bootstrap(bootstrap) => commands::bootstrap(bootstrap),
        Command::Judge(judge) => commands::judge::judge(*judge),
        Command::JudgeChild(child) => Err(commands::judge::child(&child)),
        Command::CopySelf(copy) => commands::judge::copy_self(&copy),
        Command::Crds => commands::crds(),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    use std::io::Write;
    // There is nowhere to report a failure.
    let _: std::io::Result<()> = writeln!(std::io::stderr(), "portcullis: {error:#}");
    ExitCode::from(USAGE)
}
