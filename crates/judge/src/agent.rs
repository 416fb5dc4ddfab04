//! An agent: runs Envoys for a client in another container, over a Unix socket.

use std::{io, sync::Arc, time::Duration};

use accept::{Acceptor, FairSemaphore, Permit};
use tokio::{
    io::AsyncWriteExt,
    net::{UnixListener, UnixStream},
    sync::{Semaphore, mpsc},
    task::JoinSet,
};

use crate::{
    frame::{self, Answer, MAX_REQUEST},
    runner::{IN_FLIGHT, Runner},
};

/// How many clients there may be at a time: the controller, and the one that takes its place.
const MAX_CLIENTS: usize = 4;
/// How long a client may ask nothing while another waits for its place.
const IDLE: Duration = Duration::from_secs(1);

/// Serves clients until the future is dropped. An Envoy that crashes costs its answer alone.
pub async fn serve(listener: UnixListener, runner: Runner) {
    let runner = Arc::new(runner);
    // Each client is one of its own, so that the idlest makes room.
    let clients = FairSemaphore::new(MAX_CLIENTS, IDLE);
    let mut acceptor = Acceptor::new("judge");
    let mut numbers = 0_u64..;
    loop {
        let (stream, _) = acceptor.accept(|| listener.accept()).await;
        let Some(permit) = clients.acquire(numbers.next().unwrap_or_default()).await else { continue };
        let runner = runner.clone();
        tokio::spawn(async move {
            let (revoked, permit) = (permit.revoked(), Arc::new(permit));
            let served = tokio::select! {
                served = client(stream, runner, &permit) => served,
                () = revoked => Err(io::Error::new(io::ErrorKind::TimedOut, "it asked nothing, and another one waited")),
            };
            if let Err(error) = served {
                tracing::warn!(%error, "a client of the judge was let go");
            }
        });
    }
}

/// Serves one client until it goes. What it asked and has no answer to is given up with it.
async fn client(stream: UnixStream, runner: Arc<Runner>, permit: &Arc<Permit<u64>>) -> io::Result<()> {
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
        let mut running = JoinSet::new();
        // Who sends more waits.
        while let Ok(place) = places.clone().acquire_owned().await
            && let Some(request) = frame::read(&mut requests, MAX_REQUEST).await?
        {
            let (id, job) = frame::read_request(request)?;
            let (runner, tell, permit) = (runner.clone(), tell.clone(), permit.clone());
            running.spawn(async move {
                let _busy = permit.busy();
                let outcome = runner.run(job).await;
                // The client may be gone.
                let _: Result<(), _> = tell.send(Answer::Of(id, outcome)).await;
                drop(place);
            });
            // What has ended is not kept.
            while running.try_join_next().is_some() {}
        }
        // Who asks no more may still wait for answers.
        running.join_all().await;
        io::Result::Ok(())
    };
    // Ends when it is read to the end and all is answered, or either fails.
    tokio::try_join!(read, write).map(|_| ())
}
