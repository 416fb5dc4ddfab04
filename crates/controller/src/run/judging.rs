//! Who has Envoys judge what would be sent.

use std::{io, path::PathBuf, sync::Arc, thread};

use ir::settings::Edge;
use judge::{Client, Judge, Launch, Runner, Way};
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::RunError;
use crate::{
    engine_task::{Case, Desk, EngineHandle, isolate},
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
    judge: Arc<Judge>,
    /// What processes are given, which goes with this.
    _folder: Option<TempDir>,
}

impl Judging {
    /// Blocks for some milliseconds where Envoys run here.
    pub(super) fn start(at: JudgeAt, edge: &Edge) -> Result<Self, RunError> {
        let (way, folder) = match at {
            JudgeAt::Here(launch) => {
                let folder =
                    tempfile::Builder::new().prefix("portcullis-judge-").tempdir().map_err(judge::StartError::Io)?;
                let launch = Launch { folder: Some(folder.path().to_owned()), ..launch };
                (Way::Here(Runner::start(launch)?), Some(folder))
            }
            JudgeAt::There(socket) => (Way::There(Client::new(socket)), None),
        };
        Ok(Self { judge: Arc::new(Judge::new(way, edge)), _folder: folder })
    }

    /// Who judges.
    pub(super) fn judge(&self) -> Arc<Judge> {
        self.judge.clone()
    }

    /// Where all that would be sent is judged before it is.
    pub(super) fn desk(&self, metrics: &Metrics) -> Arc<Desk> {
        metrics.validation_available.set(1);
        Desk::new(self.judge.clone(), metrics.clone())
    }
}

/// Has what is wanted judged, on a thread of its own, until the engine ends: by a desk all that would be sent, and what proxies
/// refused.
pub(super) fn spawn(
    judging: &Judging,
    desk: Option<Arc<Desk>>,
    cases: mpsc::Receiver<Case>,
    engine: EngineHandle,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let judge = judging.judge.clone();
    let work = move || {
        runtime.block_on(async {
            let isolating = isolate(judge, cases, engine.clone());
            match desk {
                Some(desk) => drop(tokio::join!(isolating, desk.serve(engine))),
                None => isolating.await,
            }
        });
    };
    thread::Builder::new().name("judging".into()).spawn(work)?;
    Ok(())
}
