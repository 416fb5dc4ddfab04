//! Threads of which it is noticed when they end.

use std::{io, thread};

use tokio::{
    runtime::{Builder, Handle},
    sync::{oneshot, watch},
};

/// Has `work` run on a thread of its own. What is returned changes when it ends, also by a panic.
pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<watch::Receiver<()>> {
    let (alive, ended) = watch::channel(());
    let run = move || {
        let _alive = alive;
        work();
    };
    thread::Builder::new().name(name.into()).spawn(run)?;
    Ok(ended)
}

/// A runtime of one thread. Ends when this is dropped.
pub(super) struct SingleThread {
    pub(super) runtime: Handle,
    /// Changes when the thread ends, whatever ended it.
    pub(super) ended: watch::Receiver<()>,
    _end: oneshot::Sender<()>,
}

impl SingleThread {
    pub(super) fn start(name: &str) -> io::Result<Self> {
        let (started, starting) = std::sync::mpsc::channel();
        let (end, ending) = oneshot::channel::<()>();
        let run = move || {
            // Made and dropped here: a runtime may not be dropped where another one runs.
            match Builder::new_current_thread().enable_all().build() {
                Err(error) => drop(started.send(Err(error))),
                Ok(runtime) => {
                    drop(started.send(Ok(runtime.handle().clone())));
                    drop(runtime.block_on(ending));
                }
            }
        };
        let ended = spawn(name, run)?;
        let runtime = starting.recv().map_err(io::Error::other)??;
        Ok(Self { runtime, ended, _end: end })
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, time::Duration};

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn the_thread_outlives_a_fault_of_a_task_and_its_end_is_noticed() {
        let thread = SingleThread::start("test").unwrap();
        let mut ended = thread.ended.clone();
        let mut ended = pin!(ended.changed());
        thread.runtime.spawn(async { panic!("a fault") }).await.unwrap_err();
        thread.runtime.spawn(async {}).await.unwrap();
        timeout(Duration::ZERO, &mut ended).await.unwrap_err();
        drop(thread);
        timeout(Duration::from_secs(20), ended).await.unwrap().unwrap_err();
    }

    #[tokio::test]
    async fn the_end_of_a_thread_that_panics_is_noticed() {
        let mut ended = spawn("test", || panic!("a fault")).unwrap();
        timeout(Duration::from_secs(20), ended.changed()).await.unwrap().unwrap_err();
    }
}
