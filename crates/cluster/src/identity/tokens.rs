//! Tokens of `ServiceAccount`s: who shows one is asked of the API server (`TokenReview`), and remembered for a while.
//!
//! A token is a bearer's secret. It is remembered by its hash, and nothing here can print it.

mod claims;
mod review;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use ir::NsName;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use xds::{Authenticate, Identity, Peer, Refusal, Token};

use self::claims::Claims;
use super::cache::{Cache, Digest};
pub use ir::settings::XDS_TOKEN_AUDIENCE as AUDIENCE;
pub use review::{Bearer, Review, ReviewError};

/// The Gateway whose proxies run as this `ServiceAccount`. Whoever deploys them says so; it is never read out of a name.
pub type GatewayOf = Arc<dyn Fn(&NsName) -> Option<NsName> + Send + Sync>;

/// What time it is.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// How long what is known of a token is believed, and how much of it is kept.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// A token that is good is judged again after this time. So it takes a revoked one until its stream ends.
    pub recheck: Duration,
    /// One that is not good is not judged again before this time.
    pub refused: Duration,
    /// How long the API server may take.
    pub review_timeout: Duration,
    /// After the API server could not be asked, tokens that are known are believed without asking for this time.
    pub pause: Duration,
    /// How many tokens may be asked about at once.
    pub concurrent: usize,
    /// How many good tokens are remembered.
    pub good_capacity: usize,
    /// How many others are remembered; apart, so that nobody forgets a good one for them.
    pub refused_capacity: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            recheck: Duration::from_mins(5),
            refused: Duration::from_secs(10),
            review_timeout: Duration::from_secs(3),
            pause: Duration::from_secs(10),
            concurrent: 16,
            good_capacity: 16_384,
            refused_capacity: 4_096,
        }
    }
}

/// A token is asked about again when it is about to expire, but not more often than this.
const MIN_RECHECK: Duration = Duration::from_secs(1);

/// Judges the tokens of proxies.
pub struct TokenAuthenticator {
    review: Arc<dyn Review>,
    gateway_of: GatewayOf,
    clock: Clock,
    settings: Settings,
    known: Mutex<TokenCache>,
    turns: Semaphore,
}

struct TokenCache {
    good: Cache<Accepted>,
    /// When each was refused.
    refused: Cache<Instant>,
    /// Until then the API server is not asked about what is known.
    paused_until: Option<Instant>,
}

#[derive(Clone)]
struct Accepted {
    bearer: Bearer,
    expires: SystemTime,
    judged: Instant,
}

impl TokenAuthenticator {
    /// A judge that asks `review`, and `gateway_of` which Gateway a `ServiceAccount` belongs to.
    pub fn new(review: Arc<dyn Review>, gateway_of: GatewayOf, settings: Settings) -> Self {
        Self::with_clock(review, gateway_of, settings, Arc::new(SystemTime::now))
    }

    /// The same with a clock of one's own, by which tokens expire.
    pub fn with_clock(review: Arc<dyn Review>, gateway_of: GatewayOf, settings: Settings, clock: Clock) -> Self {
        let known = TokenCache {
            good: Cache::new(settings.good_capacity),
            refused: Cache::new(settings.refused_capacity),
            paused_until: None,
        };
        let turns = Semaphore::new(settings.concurrent.clamp(1, Semaphore::MAX_PERMITS));
        Self { review, gateway_of, clock, settings, known: Mutex::new(known), turns }
    }

    async fn judge(&self, token: &str) -> Result<Identity, Refusal> {
        // What a token says of itself is believed only where it speaks against it. That keeps from the API server what
        // could never be let in.
        let claims = Claims::of(token).ok_or(Refusal::Denied)?;
        if !claims.is_for(AUDIENCE) {
            return Err(Refusal::Denied);
        }
        let account = claims.account().ok_or(Refusal::Denied)?;
        (self.gateway_of)(&account).ok_or(Refusal::NoGateway)?;
        let digest = *blake3::hash(token.as_bytes()).as_bytes();
        let good = match self.remembered(&digest) {
            Cached::Fresh(good) => return self.identity(&good),
            Cached::Refused => return Err(Refusal::Denied),
            Cached::Stale(good) => Some(good),
            Cached::Nothing => None,
        };
        match self.ask(token).await {
            Ok(Some(bearer)) => {
                let good = Accepted { bearer, expires: claims.expires(), judged: Instant::now() };
                self.known().good.put(digest, good.clone());
                self.identity(&good)
            }
            Ok(None) => {
                let mut known = self.known();
                known.good.remove(&digest);
                known.refused.put(digest, Instant::now());
                Err(Refusal::Denied)
            }
            Err(error) => {
                self.pause(&error);
                match good {
                    Some(good) if good.expires > (self.clock)() => self.identity(&good),
                    _ => Err(Refusal::Unavailable),
                }
            }
        }
    }

    fn remembered(&self, digest: &Digest) -> Cached {
        let now = Instant::now();
        let known = self.known();
        if let Some(good) = known.good.get(digest) {
            let expired = good.expires <= (self.clock)();
            let paused = known.paused_until.is_some_and(|until| now < until);
            let fresh = paused || now.duration_since(good.judged) < self.settings.recheck;
            // One that is expired by this clock is asked about: the clock that counts is the API server's.
            return if fresh && !expired { Cached::Fresh(good.clone()) } else { Cached::Stale(good.clone()) };
        }
        match known.refused.get(digest) {
            Some(at) if now.duration_since(*at) < self.settings.refused => Cached::Refused,
            _ => Cached::Nothing,
        }
    }

    async fn ask(&self, token: &str) -> Result<Option<Bearer>, ReviewError> {
        // Who asks has its own bound for the wait in line, which says nothing about the API server.
        let _turn = self.turns.acquire().await.map_err(|_| ReviewError::new("closed"))?;
        timeout(self.settings.review_timeout, self.review.review(token, AUDIENCE))
            .await
            .unwrap_or_else(|_| Err(ReviewError::new("no answer in time")))
    }

    /// Asks less for a while, and logs why once in that time.
    fn pause(&self, error: &ReviewError) {
        let now = Instant::now();
        let until = self.known().paused_until.replace(now + self.settings.pause);
        if until.is_none_or(|until| until <= now) {
            tracing::warn!(%error, "the API server cannot be asked about tokens");
        }
    }

    /// Which Gateway a bearer belongs to is asked each time, since it may change while its token stays good.
    fn identity(&self, good: &Accepted) -> Result<Identity, Refusal> {
        let gateway = (self.gateway_of)(&good.bearer.account).ok_or(Refusal::NoGateway)?;
        let age = Instant::now().duration_since(good.judged);
        let left = good.expires.duration_since((self.clock)()).unwrap_or_default();
        let due = self.settings.recheck.saturating_sub(age);
        // While nobody can be asked, there is no hurry either.
        let recheck = if due.is_zero() { self.settings.pause } else { due };
        // What the API server takes although it is expired by this clock will not become so at a known time.
        let left = if left.is_zero() { self.settings.pause } else { left };
        Ok(Identity {
            name: good.bearer.to_string(),
            gateway: gateway.to_string(),
            recheck_after: recheck.min(left).max(MIN_RECHECK),
        })
    }

    fn known(&self) -> std::sync::MutexGuard<'_, TokenCache> {
        // Each step leaves it whole, so a panic of another holder leaves nothing half done.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Cached {
    /// It is good.
    Fresh(Accepted),
    /// It was good when it was asked about, which is too long ago or before it expired.
    Stale(Accepted),
    Refused,
    Nothing,
}

impl Authenticate for TokenAuthenticator {
    fn authenticate<'a>(&'a self, _: &'a Peer, token: &'a Token) -> BoxFuture<'a, Result<Identity, Refusal>> {
        self.judge(token.reveal()).boxed()
    }
}

impl fmt::Debug for TokenAuthenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("settings", &self.settings).finish_non_exhaustive()
    }
}
