//! An agent: runs Envoys for a client in another container, over a Unix socket.

use std::{io, sync::Arc};

use accept::Acceptor;
use tokio::{
    io::AsyncWriteExt,
    net::{UnixListener, UnixStream},
    sync::{Semaphore, mpsc},
};

use crate::{
    frame::{self, Answer, MAX_REQUEST},
    runner::{IN_FLIGHT, Runner},
};

/// How many clients there may be at a time: the controller, and the one that takes its place.
const MAX_CLIENTS: usize = 4;

/// Serves clients until the future is dropped. An Envoy that crashes costs its answer alone.
pub async fn serve(listener: UnixListener, runner: Runner) {
    let runner = Arc::new(runner);
    let clients = Arc::new(Semaphore::new(MAX_CLIENTS));
    let mut acceptor = Acceptor::new("judge");
    loop {
        // Never closed.
        let Ok(permit) = clients.clone().acquire_owned().await else { return };
        let (stream, _) = acceptor.accept(|| listener.accept()).await;
        let runner = runner.clone();
        tokio::spawn(async move {
            if let Err(error) = client(stream, runner).await {
                tracing::warn!(%error, "a client of the judge was let go");
            }
            drop(permit);
        });
    }
}

/// Serves one client until it goes.
async fn client(stream: UnixStream, runner: Arc<Runner>) -> io::Result<()> {
    let (mut requests, mut answers) = stream.into_split();
    let (tell, mut told) = mpsc::channel(IN_FLIGHT);
    let hello = Answer::Hello(runner.build().clone());
    let write = async move {
        answers.write_all(&frame::answer(&hello)).await?;
        while let Some(answer) = told.recv().await {
            answers.write_all(&frame::answer(&answer)).await?;
        }
        io::Result::Ok(())
    };
    let read = async move {
        let places = Arc::new(Semaphore::new(IN_FLIGHT));
        // Who sends more waits.
        while let Ok(place) = places.clone().acquire_owned().await
            && let Some(request) = frame::read(&mut requests, MAX_REQUEST).await?
        {
            let (id, job) = frame::read_request(request)?;
            let (runner, tell) = (runner.clone(), tell.clone());
            tokio::spawn(async move {
                let outcome = runner.run(job).await;
                // The client may be gone.
                let _: Result<(), _> = tell.send(Answer::Of(id, outcome)).await;
                drop(place);
            });
        }
        io::Result::Ok(())
    };
    // Ends when it is read to the end and all is answered, or either fails.
    tokio::try_join!(read, write).map(|_| ())
}
