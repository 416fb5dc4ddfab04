//! Who is let in, and for how long: everything that happens before a byte of a stream is parsed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use accept::{Busy, Place};
use http::HeaderMap;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use tonic::Status;

use crate::config::Config;
use crate::event::{Event, Reporter};
use crate::identity::{Identity, Refusal, Token};
use crate::jitter::jitter;
use crate::peer::{Origin, Peer};

/// Tokens are not judged again more often than this, whatever the judge says.
const MIN_RECHECK: Duration = Duration::from_millis(100);

/// That a Gateway has its share of all streams is told so often at most.
const SHARE_TOLD_EVERY: Duration = Duration::from_mins(1);

/// A connection without a stream takes one of few places, for a short time.
pub(crate) struct Newcomer {
    place: Mutex<Option<Place<Origin>>>,
    streams: watch::Sender<usize>,
}

impl Newcomer {
    pub(crate) fn new(place: Place<Origin>) -> Self {
        Self { place: Mutex::new(Some(place)), streams: watch::Sender::new(0) }
    }

    /// The connection waits for the server, until what is returned is dropped. A token that lets nobody in makes it no
    /// younger.
    pub(crate) fn asks(&self) -> Option<Busy<Origin>> {
        self.place().as_ref().map(Place::asks)
    }

    /// A stream was let in: until it ends, the place is free for others.
    pub(crate) fn let_in(self: &Arc<Self>) -> LetIn {
        self.streams.send_modify(|streams| *streams += 1);
        drop(self.place().take());
        LetIn(self.clone())
    }

    /// How many streams there are.
    pub(crate) fn streams(&self) -> watch::Receiver<usize> {
        self.streams.subscribe()
    }

    /// Whether it takes a place.
    pub(crate) fn has_place(&self) -> bool {
        self.place().is_some()
    }

    /// There is no stream any more, so it takes a place again; or not, if there is one by now.
    pub(crate) fn return_to(&self, place: Place<Origin>) {
        let mut slot = self.place();
        if *self.streams.borrow() == 0 {
            *slot = Some(place);
        }
    }

    fn place(&self) -> MutexGuard<'_, Option<Place<Origin>>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream that was let in, for as long as it lasts.
pub(crate) struct LetIn(Arc<Newcomer>);

impl Drop for LetIn {
    fn drop(&mut self) {
        self.0.streams.send_modify(|streams| *streams -= 1);
    }
}

/// Judges who comes, a few at a time, and counts whom it refuses.
pub(crate) struct Admission {
    config: Config,
    reporter: Reporter,
    turns: Semaphore,
    share_told: Mutex<Option<Instant>>,
    refused: [AtomicU64; Refusal::ALL.len()],
}

impl Admission {
    pub(crate) fn new(config: Config, reporter: Reporter) -> Self {
        let turns = config.max_concurrent_authentications.clamp(1, Semaphore::MAX_PERMITS);
        let turns = Semaphore::new(turns);
        Self { config, reporter, turns, share_told: Mutex::default(), refused: Default::default() }
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

    /// A stream of a gateway that has its share does not get a place, or loses it.
    pub(crate) fn has_its_share(&self, gateway: &str) -> Status {
        let now = Instant::now();
        let mut told = self.share_told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|told| now >= told + SHARE_TOLD_EVERY) {
            *told = Some(now);
            let max = self.config.max_streams;
            tracing::warn!(
                gateway,
                max,
                "all xDS streams are taken, most of them by this Gateway: it gives way to others"
            );
        }
        drop(told);
        self.refuse(Refusal::Share)
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
            Refusal::Share => Status::unavailable("there are as many streams as are allowed"),
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
