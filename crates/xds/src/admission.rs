//! Authenticates streams, and ends them when that no longer holds: all that happens before a byte of a stream is parsed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use accept::{Busy, Permit};
use http::HeaderMap;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use tonic::Status;

use crate::config::Config;
use crate::event::{Event, Reporter};
use crate::identity::{Identity, Refusal, Token};
use crate::jitter::jitter;
use crate::peer::{Origin, Peer};

/// The least time after which a token is checked again, whatever the answer asks for.
const MIN_RECHECK: Duration = Duration::from_millis(100);

/// How often it is logged at most that a Gateway has its share of all streams.
const SHARE_LOG_INTERVAL: Duration = Duration::from_mins(1);

/// A connection, and its permit of few, which it has for a short time and while there is no stream on it.
pub(crate) struct IdleConnection {
    permit: Mutex<Option<Permit<Origin>>>,
    streams: watch::Sender<usize>,
}

impl IdleConnection {
    pub(crate) fn new(permit: Permit<Origin>) -> Self {
        Self { permit: Mutex::new(Some(permit)), streams: watch::Sender::new(0) }
    }

    /// The connection waits for the server, until what is returned is dropped. A token that is refused does not renew its
    /// permit.
    pub(crate) fn asks(&self) -> Option<Busy<Origin>> {
        self.permit().as_ref().map(Permit::asks)
    }

    /// A stream is authenticated: until it ends, the permit is free for others.
    pub(crate) fn open_stream(self: &Arc<Self>) -> StreamGuard {
        self.streams.send_modify(|streams| *streams += 1);
        drop(self.permit().take());
        StreamGuard(self.clone())
    }

    /// How many streams there are.
    pub(crate) fn streams(&self) -> watch::Receiver<usize> {
        self.streams.subscribe()
    }

    /// Whether it has a permit.
    pub(crate) fn has_permit(&self) -> bool {
        self.permit().is_some()
    }

    /// There is no stream any more, so it has a permit again, unless there is a stream by now.
    pub(crate) fn return_to(&self, permit: Permit<Origin>) {
        let mut slot = self.permit();
        if *self.streams.borrow() == 0 {
            *slot = Some(permit);
        }
    }

    fn permit(&self) -> MutexGuard<'_, Option<Permit<Origin>>> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a stream for as long as it lasts.
pub(crate) struct StreamGuard(Arc<IdleConnection>);

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.0.streams.send_modify(|streams| *streams -= 1);
    }
}

/// Authenticates streams, a few at a time, and counts refusals.
pub(crate) struct Admission {
    config: Config,
    reporter: Reporter,
    turns: Semaphore,
    share_logged: Mutex<Option<Instant>>,
    refused: [AtomicU64; Refusal::ALL.len()],
}

impl Admission {
    pub(crate) fn new(config: Config, reporter: Reporter) -> Self {
        let turns = config.max_concurrent_authentications.clamp(1, Semaphore::MAX_PERMITS);
        let turns = Semaphore::new(turns);
        Self { config, reporter, turns, share_logged: Mutex::default(), refused: Default::default() }
    }

    /// The token of a stream, not checked yet. `None` where no token is asked for.
    pub(crate) fn token(&self, peer: &Peer, headers: &HeaderMap) -> Result<Option<Token>, Status> {
        match &self.config.authenticate {
            None => Ok(None),
            Some(_) => Token::of(headers).map(Some).map_err(|refusal| self.reject(peer, refusal)),
        }
    }

    /// Checks the token of a stream. `None` where no token is asked for.
    pub(crate) async fn admit(&self, peer: &Peer, token: Option<Token>) -> Result<Option<Authenticated>, Status> {
        let Some(token) = token else { return Ok(None) };
        match self.authenticate(peer, &token).await {
            Ok(identity) => Ok(Some(Authenticated { token, identity })),
            Err(refusal) => Err(self.reject(peer, refusal)),
        }
    }

    fn reject(&self, peer: &Peer, refusal: Refusal) -> Status {
        tracing::debug!(peer = ?peer.address, reason = %refusal, "an xDS stream was refused");
        self.refuse(refusal)
    }

    async fn authenticate(&self, peer: &Peer, token: &Token) -> Result<Identity, Refusal> {
        let Some(authenticate) = &self.config.authenticate else { return Err(Refusal::Denied) };
        let identity = async {
            // First in, first out: asking often keeps no others out.
            let _turn = self.turns.acquire().await.map_err(|_| Refusal::Unavailable)?;
            authenticate.authenticate(peer, token).await
        };
        timeout(self.config.authentication_timeout, identity).await.unwrap_or(Err(Refusal::Unavailable))
    }

    /// Refuses a permit to a stream of a gateway that has its share, or takes it back.
    pub(crate) fn exceeds_share(&self, gateway: &str) -> Status {
        let now = Instant::now();
        let mut logged = self.share_logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.is_none_or(|logged| now >= logged + SHARE_LOG_INTERVAL) {
            *logged = Some(now);
            let max = self.config.max_streams;
            tracing::warn!(
                gateway,
                max,
                "all xDS streams are taken, most of them by this Gateway: it gives way to others"
            );
        }
        drop(logged);
        self.refuse(Refusal::Share)
    }

    /// Counts a refusal and gives its status, which is the same for every fault of the client.
    pub(crate) fn refuse(&self, reason: Refusal) -> Status {
        let unreported = &self.refused[reason.index()];
        unreported.fetch_add(1, Ordering::Relaxed);
        // Without room the next refusal reports this one too.
        if let Ok(room) = self.reporter.sender().try_reserve() {
            match unreported.swap(0, Ordering::Relaxed) {
                0 => {}
                count => room.send(Event::Refused { reason, count }),
            }
        }
        match reason {
            Refusal::Unavailable => Status::unavailable("identities cannot be checked now"),
            Refusal::Share => Status::unavailable("there are as many streams as are allowed"),
            _ => Status::unauthenticated("not authenticated"),
        }
    }
}

/// What a stream was authenticated with.
pub(crate) struct Authenticated {
    token: Token,
    identity: Identity,
}

impl Authenticated {
    /// The gateway whose resources the stream may read.
    pub(crate) fn gateway(&self) -> &str {
        &self.identity.gateway
    }

    /// Waits until the token is no longer valid for the same gateway, and gives the status with which the stream ends.
    pub(crate) async fn revoked(mut self, admission: &Admission, peer: &Peer) -> Status {
        loop {
            let after = self.identity.recheck_after;
            // Streams that came together do not ask together.
            sleep(jitter(after).min(after).max(MIN_RECHECK)).await;
            let identity = admission.authenticate(peer, &self.token).await;
            let refusal = match identity {
                Ok(identity) if identity.gateway == self.identity.gateway => {
                    self.identity = identity;
                    continue;
                }
                // Nothing was learned about the client.
                Err(Refusal::Unavailable) => {
                    self.identity.recheck_after = admission.config.recheck_interval;
                    continue;
                }
                Ok(_) => Refusal::WrongGateway,
                Err(refusal) => refusal,
            };
            tracing::debug!(identity = self.identity.name, reason = %refusal, "an xDS stream is no longer authenticated");
            return admission.refuse(refusal);
        }
    }
}
