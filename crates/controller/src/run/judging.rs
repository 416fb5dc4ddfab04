//! Who has Envoys judge what would be sent.

use std::{io, path::PathBuf, sync::Arc, thread};

use ir::settings::Edge;
use judge::{Client, Judge, Launch, Runner, Way};
use tempfile::TempDir;

use super::RunError;
use crate::{
    engine_task::{Desk, EngineHandle},
    metrics::Metrics,
};

/// Where Envoys run that judge.
#[derive(Clone, Debug)]
pub enum JudgeAt {
    /// Here.
    Here(Launch),
    /// With an agent that listens on this Unix socket.
    There(PathBuf),
}

/// Judging, under way.
pub(super) struct Judging {
    desk: Arc<Desk>,
    /// What processes are given, which goes with this.
    _folder: Option<TempDir>,
}

impl Judging {
    /// Blocks for some milliseconds where Envoys run here.
    pub(super) fn start(at: JudgeAt, edge: &Edge, metrics: &Metrics) -> Result<Self, RunError> {
        let (way, folder) = match at {
            JudgeAt::Here(launch) => {
                let folder =
                    tempfile::Builder::new().prefix("portcullis-judge-").tempdir().map_err(judge::StartError::Io)?;
                let launch = Launch { folder: Some(folder.path().to_owned()), ..launch };
                (Way::Here(Runner::start(launch)?), Some(folder))
            }
            JudgeAt::There(socket) => (Way::There(Client::new(socket)), None),
        };
        metrics.validation_available.set(1);
        Ok(Self { desk: Desk::new(Judge::new(way, edge), metrics.clone()), _folder: folder })
    }

    pub(super) fn desk(&self) -> Arc<Desk> {
        self.desk.clone()
    }
}

/// Has what is wanted judged, on a thread of its own, until the engine ends.
pub(super) fn spawn(desk: Arc<Desk>, engine: EngineHandle) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("judging".into()).spawn(move || runtime.block_on(desk.serve(engine)))?;
    Ok(())
}
