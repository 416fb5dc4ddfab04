//! Starts and supervises one Envoy for every Gateway that is served.
//!
//! Each Envoy gets a folder of its own with its bootstrap and its admin socket, so that no port is taken and no other
//! user can reach it. Its standard output, where the access log goes, is ours; its standard error is
//! logged with the Gateway's name. One that dies is started again, later and later.

mod backoff;
mod proxy;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use envoy::bootstrap::XdsAddress;
use ir::{NsName, settings::Edge};
use tokio::{
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::timeout,
};

use crate::metrics::Metrics;

/// How long the program may take to print its version.
const PROBE: Duration = Duration::from_secs(10);

/// How to run Envoys.
#[derive(Clone, Debug)]
pub struct Supervisor {
    /// The program.
    pub envoy: PathBuf,
    /// Where it gets its configuration.
    pub xds: XdsAddress,
    /// Limits of the process.
    pub edge: Edge,
    /// How long an Envoy may take for requests under way before it is stopped, and then for stopping.
    pub grace_period: Duration,
    /// Where starts are counted.
    pub metrics: Metrics,
}

/// Why Envoys cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The program cannot be run at all.
    #[error("cannot run {path}: {why}", path = path.display())]
    Program {
        /// The program.
        path: PathBuf,
        /// The system's error, or its own.
        why: String,
    },
}

impl Supervisor {
    /// Looks whether the program can be run, by asking for its version; gives the version.
    pub async fn probe(&self) -> Result<String, SupervisorError> {
        let failed = |why: String| SupervisorError::Program { path: self.envoy.clone(), why };
        let output = tokio::process::Command::new(&self.envoy).arg("--version").kill_on_drop(true).output();
        let Ok(output) = timeout(PROBE, output).await else {
            return Err(failed(format!("it does not print its version within {PROBE:?}")));
        };
        let output = output.map_err(|error| failed(error.to_string()))?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() { Ok(text) } else { Err(failed(output.status.to_string())) }
    }

    /// Keeps an Envoy running for each Gateway that is served, until `stop` is true; then stops them all.
    pub async fn run(self, mut served: watch::Receiver<BTreeSet<NsName>>, mut stop: watch::Receiver<bool>) {
        let mut running: BTreeMap<NsName, Running> = BTreeMap::new();
        let mut leaving = JoinSet::new();
        loop {
            let wanted = served.borrow_and_update().clone();
            let gone: Vec<_> = running.keys().filter(|gateway| !wanted.contains(*gateway)).cloned().collect();
            for gateway in gone {
                if let Some(running) = running.remove(&gateway) {
                    leaving.spawn(running.stop());
                }
            }
            for gateway in wanted {
                running.entry(gateway.clone()).or_insert_with(|| Running::start(self.clone(), gateway));
            }
            tokio::select! {
                changed = served.changed() => if changed.is_err() { break },
                _ = stop.wait_for(|stop| *stop) => break,
                Some(_) = leaving.join_next() => {}
            }
        }
        for running in running.into_values() {
            leaving.spawn(running.stop());
        }
        while leaving.join_next().await.is_some() {}
    }
}

/// The Envoy of one Gateway.
struct Running {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Running {
    fn start(supervisor: Supervisor, gateway: NsName) -> Self {
        let (stop, stopped) = watch::channel(false);
        Self { stop, task: tokio::spawn(proxy::keep_running(supervisor, gateway, stopped)) }
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the task of an Envoy failed");
        }
    }
}

#[cfg(test)]
mod tests;
