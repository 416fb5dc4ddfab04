//! Who is let in, and for how long: everything that happens before a byte of a stream is parsed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use tonic::Status;

use crate::config::Config;
use crate::event::{Event, Reporter};
use crate::identity::{Identity, Refusal, Token};
use crate::jitter::jitter;
use crate::peer::Peer;

/// Tokens are not judged again more often than this, whatever the judge says.
const MIN_RECHECK: Duration = Duration::from_millis(100);

/// A connection on which nobody was let in yet takes one of few places, for a short time.
pub(crate) struct Newcomer {
    place: Mutex<Option<OwnedSemaphorePermit>>,
    until: Instant,
}

impl Newcomer {
    pub(crate) fn new(place: Option<OwnedSemaphorePermit>, until: Instant) -> Self {
        Self { place: Mutex::new(place), until }
    }

    /// When the connection ends if nobody was let in.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// Somebody was: the place is free for others.
    pub(crate) fn let_in(&self) {
        drop(self.place.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    pub(crate) fn was_let_in(&self) -> bool {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

/// Judges who comes, a few at a time, and counts whom it refuses.
pub(crate) struct Admission {
    config: Config,
    reporter: Reporter,
    turns: Semaphore,
    refused: [AtomicU64; Refusal::ALL.len()],
}

impl Admission {
    pub(crate) fn new(config: Config, reporter: Reporter) -> Self {
        let turns = config.max_concurrent_authentications.clamp(1, Semaphore::MAX_PERMITS);
        Self { config, reporter, turns: Semaphore::new(turns), refused: Default::default() }
    }

    /// What a stream shows of who it is, not judged yet. `None` where nobody has to show that.
    pub(crate) fn token(&self, peer: &Peer, headers: &HeaderMap) -> Result<Option<Token>, Status> {
        match &self.config.authenticate {
            None => Ok(None),
            Some(_) => Token::of(headers).map(Some).map_err(|refusal| self.turn_away(peer, refusal)),
        }
    }

    /// Who a stream is that shows `token`. `None` where nobody has to show that.
    pub(crate) async fn admit(&self, peer: &Peer, token: Option<Token>) -> Result<Option<Standing>, Status> {
        let Some(token) = token else { return Ok(None) };
        match self.judge(peer, &token).await {
            Ok(identity) => Ok(Some(Standing { token, identity })),
            Err(refusal) => Err(self.turn_away(peer, refusal)),
        }
    }

    fn turn_away(&self, peer: &Peer, refusal: Refusal) -> Status {
        tracing::debug!(peer = ?peer.address, reason = %refusal, "an xDS stream was refused");
        self.refuse(refusal)
    }

    async fn judge(&self, peer: &Peer, token: &Token) -> Result<Identity, Refusal> {
        let Some(authenticate) = &self.config.authenticate else { return Err(Refusal::Denied) };
        let judged = async {
            // Whoever waits longest is next, so that nobody keeps others out by asking often.
            let _turn = self.turns.acquire().await.map_err(|_| Refusal::Unavailable)?;
            authenticate.authenticate(peer, token).await
        };
        timeout(self.config.authentication_timeout, judged).await.unwrap_or(Err(Refusal::Unavailable))
    }

    /// Counts a refusal and gives the words for it, which are the same for all that say something about the client.
    pub(crate) fn refuse(&self, reason: Refusal) -> Status {
        let untold = &self.refused[reason.index()];
        untold.fetch_add(1, Ordering::Relaxed);
        // Without room the next one tells.
        if let Ok(room) = self.reporter.sender().try_reserve() {
            match untold.swap(0, Ordering::Relaxed) {
                0 => {}
                count => room.send(Event::Refused { reason, count }),
            }
        }
        match reason {
            Refusal::Unavailable => Status::unavailable("identities cannot be checked now"),
            _ => Status::unauthenticated("not authenticated"),
        }
    }
}

/// What a stream was let in with.
pub(crate) struct Standing {
    token: Token,
    identity: Identity,
}

impl Standing {
    /// The gateway whose resources the stream may read.
    pub(crate) fn gateway(&self) -> &str {
        &self.identity.gateway
    }

    /// Waits until the stream is no longer what it was let in as, and gives the status with which it ends.
    pub(crate) async fn lost(mut self, admission: &Admission, peer: &Peer) -> Status {
        loop {
            let after = self.identity.recheck_after;
            // Streams that came together do not ask together.
            sleep(jitter(after).min(after).max(MIN_RECHECK)).await;
            let judged = admission.judge(peer, &self.token).await;
            let refusal = match judged {
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
            tracing::debug!(identity = self.identity.name, reason = %refusal, "an xDS stream lost its standing");
            return admission.refuse(refusal);
        }
    }
}
