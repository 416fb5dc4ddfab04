//! A semaphore that shares its permits fairly.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// A key with more than this part of all permits, for which none can be revoked at once, does not wait.
const SHARE: usize = 32;
/// How long a holder may be busy before its permit may be revoked.
const LONGEST_BUSY: Duration = Duration::from_secs(30);

/// A bounded number of permits. Each has a key, such as an address, and what one key can do to others is bounded: while
/// all permits are taken, they are revoked from the key that has most.
///
/// Clones are handles to the same semaphore.
pub struct FairSemaphore<K>(Arc<Shared<K>>);

struct Shared<K> {
    limit: usize,
    grace_period: Duration,
    state: Mutex<State<K>>,
    /// A permit became free, or may be revoked.
    changed: Notify,
}

struct State<K> {
    /// By number, so by age.
    taken: BTreeMap<u64, Taken<K>>,
    /// How many each key has. No key has none.
    counts: HashMap<K, usize>,
    next: u64,
}

struct Taken<K> {
    key: K,
    /// Since when its holder makes others wait, or they it.
    since: Instant,
    busy: usize,
    revoked: CancellationToken,
}

/// A permit. It is free again when this is dropped, or when it was revoked.
pub struct Permit<K: Clone + Eq + Hash> {
    semaphore: FairSemaphore<K>,
    number: u64,
    revoked: CancellationToken,
}

/// The holder of a permit waits for the server, and not the other way round, until this is dropped.
pub struct Busy<K: Clone + Eq + Hash> {
    semaphore: FairSemaphore<K>,
    number: u64,
    /// Whether the permit counts as new then.
    renews: bool,
}

impl<K: Clone + Eq + Hash> FairSemaphore<K> {
    /// `limit` permits, at least one. The permit of a holder that is idle for `grace_period` may be revoked while others wait.
    pub fn new(limit: usize, grace_period: Duration) -> Self {
        let state = State { taken: BTreeMap::new(), counts: HashMap::new(), next: 0 };
        Self(Arc::new(Shared { limit: limit.max(1), grace_period, state: Mutex::new(state), changed: Notify::new() }))
    }

    /// Waits for a permit. If all are taken, one is revoked: at once the oldest of the key that has most, idle ones before
    /// busy ones, provided that it still has as many as this one then; else the one that was idle for longest, once it was
    /// for the grace period of this semaphore, or has been busy for half a minute.
    ///
    /// None if the key itself has more than a thirty-second part of them, and nothing can be revoked at once: those in line
    /// behind it do not wait for it.
    pub async fn acquire(&self, key: K) -> Option<Permit<K>> {
        loop {
            let mut changed = pin!(self.0.changed.notified());
            changed.as_mut().enable();
            let wait = {
                let mut state = self.state();
                match self.make_room(&mut state, &key) {
                    Ok(()) => return Some(self.take(&mut state, key)),
                    Err(_) if state.count(&key) > self.share() => return None,
                    Err(wait) => wait,
                }
            };
            tokio::select! {
                () = changed => {}
                () = sleep_until(wait) => {}
            }
        }
    }

    /// A permit at once, or none. If all are taken, the youngest of the key that has most is revoked, provided that
    /// it still has as many as this one then.
    pub fn try_acquire(&self, key: K) -> Option<Permit<K>> {
        let mut state = self.state();
        if state.taken.len() >= self.0.limit {
            let most = state.most_beside(&key)?;
            let (number, _) = state.taken.iter().rev().find(|(_, taken)| taken.key == most)?;
            let number = *number;
            state.revoke(number);
        }
        Some(self.take(&mut state, key))
    }

    /// How many one key may have and still be waited for.
    fn share(&self) -> usize {
        (self.0.limit / SHARE).max(1)
    }

    /// How many permits are taken.
    pub fn taken(&self) -> usize {
        self.state().taken.len()
    }

    /// Or when it is worth to try again.
    fn make_room(&self, state: &mut State<K>, key: &K) -> Result<(), Instant> {
        if state.taken.len() < self.0.limit {
            return Ok(());
        }
        let now = Instant::now();
        let number = match state.of_most(key) {
            Some(number) => number,
            None => {
                let until =
                    |taken: &Taken<K>| taken.since + if taken.busy > 0 { LONGEST_BUSY } else { self.0.grace_period };
                let first = state.taken.iter().min_by_key(|(number, taken)| (until(taken), **number));
                match first.map(|(number, taken)| (*number, until(taken))) {
                    Some((number, until)) if until <= now => number,
                    first => return Err(first.map_or(now, |(_, until)| until)),
                }
            }
        };
        state.revoke(number);
        Ok(())
    }

    fn take(&self, state: &mut State<K>, key: K) -> Permit<K> {
        let number = state.next;
        state.next += 1;
        *state.counts.entry(key.clone()).or_default() += 1;
        let revoked = CancellationToken::new();
        let taken = Taken { key, since: Instant::now(), busy: 0, revoked: revoked.clone() };
        state.taken.insert(number, taken);
        Permit { semaphore: self.clone(), number, revoked }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        // Whole at every moment, so a panic of another holder leaves nothing half done.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    fn count(&self, key: &K) -> usize {
        self.counts.get(key).copied().unwrap_or_default()
    }

    /// The key that has most, provided that with one less it still has as many as `key` with one more.
    fn most_beside(&self, key: &K) -> Option<K> {
        let (most, count) = self.counts.iter().max_by_key(|(_, count)| **count)?;
        (*count > self.count(key) + 1).then(|| most.clone())
    }

    /// The permit to revoke of the key that has most, if one may go for `key`.
    fn of_most(&self, key: &K) -> Option<u64> {
        let most = self.most_beside(key)?;
        let of_most = self.taken.iter().filter(|(_, taken)| taken.key == most);
        of_most.min_by_key(|(number, taken)| (taken.busy > 0, taken.since, **number)).map(|(number, _)| *number)
    }

    fn revoke(&mut self, number: u64) {
        if let Some(taken) = self.remove(number) {
            taken.revoked.cancel();
        }
    }

    fn remove(&mut self, number: u64) -> Option<Taken<K>> {
        let taken = self.taken.remove(&number)?;
        if let Some(count) = self.counts.get_mut(&taken.key) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&taken.key);
            }
        }
        Some(taken)
    }
}

impl<K: Clone + Eq + Hash> Permit<K> {
    /// Waits until the permit is revoked.
    pub fn revoked(&self) -> impl Future<Output = ()> + Send + use<K> {
        self.revoked.clone().cancelled_owned()
    }

    /// The holder waits for the server from now on, and begins to be idle when that ends.
    pub fn busy(&self) -> Busy<K> {
        self.waits(true)
    }

    /// The same for a request that may be refused: if it is, the holder was idle all the time.
    pub fn asks(&self) -> Busy<K> {
        self.waits(false)
    }

    fn waits(&self, renews: bool) -> Busy<K> {
        let busy = Busy { semaphore: self.semaphore.clone(), number: self.number, renews };
        busy.change(|taken| taken.busy += 1);
        busy
    }
}

impl<K: Clone + Eq + Hash> Busy<K> {
    /// It does not wait in vain: something came of it just now.
    pub fn goes_on(&self) {
        self.change(|_| ());
    }

    fn change(&self, change: impl FnOnce(&mut Taken<K>)) {
        if let Some(taken) = self.semaphore.state().taken.get_mut(&self.number) {
            change(taken);
            if self.renews {
                taken.since = Instant::now();
            }
        }
    }
}

impl<K: Clone + Eq + Hash> Drop for Permit<K> {
    fn drop(&mut self) {
        self.semaphore.state().remove(self.number);
        self.semaphore.0.changed.notify_waiters();
    }
}

impl<K: Clone + Eq + Hash> Drop for Busy<K> {
    fn drop(&mut self) {
        self.change(|taken| taken.busy -= 1);
        self.semaphore.0.changed.notify_waiters();
    }
}

impl<K> Clone for FairSemaphore<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> fmt::Debug for FairSemaphore<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairSemaphore").field("limit", &self.0.limit).finish_non_exhaustive()
    }
}

impl<K: Clone + Eq + Hash> fmt::Debug for Permit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("number", &self.number).finish_non_exhaustive()
    }
}

impl<K: Clone + Eq + Hash> fmt::Debug for Busy<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Busy").field("number", &self.number).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const GRACE_PERIOD: Duration = Duration::from_secs(1);

    /// Whether it was revoked.
    fn lost(permit: &Permit<&'static str>) -> bool {
        permit.revoked.is_cancelled()
    }

    async fn acquire_all(semaphore: &FairSemaphore<&'static str>, keys: &[&'static str]) -> Vec<Permit<&'static str>> {
        let mut acquired = Vec::new();
        for key in keys {
            acquired.push(semaphore.acquire(key).await.expect("a permit"));
        }
        acquired
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_most_makes_room_at_once_for_anybody_else() {
        let semaphore = FairSemaphore::new(4, GRACE_PERIOD);
        let hog = acquire_all(&semaphore, &["hog"; 4]).await;
        let (start, busy) = (Instant::now(), hog[0].busy());
        let other = semaphore.acquire("other").await.expect("a permit");
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert_eq!([false, true, false, false].as_slice(), hog.iter().map(lost).collect::<Vec<_>>());
        // Also from what is busy, if there is nothing else.
        let rest = [hog[2].busy(), hog[3].busy()];
        let another = semaphore.acquire("another").await.expect("a permit");
        assert!(lost(&hog[0]) && !lost(&hog[2]) && !lost(&other) && !lost(&another));
        assert_eq!(start.elapsed(), Duration::ZERO);
        drop((busy, rest));
        assert_eq!(semaphore.taken(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_behind_who_has_most() {
        let semaphore = FairSemaphore::new(2, GRACE_PERIOD);
        let hog = acquire_all(&semaphore, &["hog"; 2]).await;
        let start = Instant::now();
        assert!(semaphore.acquire("hog").await.is_none());
        assert_eq!((start.elapsed(), lost(&hog[0])), (Duration::ZERO, false));
        advance(GRACE_PERIOD).await;
        assert!(semaphore.acquire("hog").await.is_some() && lost(&hog[0]));
    }

    #[tokio::test(start_paused = true)]
    async fn among_equals_the_one_that_is_idle_for_longest_goes_and_not_before_its_time() {
        let semaphore = FairSemaphore::new(2, GRACE_PERIOD);
        let held = acquire_all(&semaphore, &["a", "b"]).await;
        let busy = held[0].busy();
        advance(GRACE_PERIOD / 2).await;
        let start = Instant::now();
        let third = semaphore.acquire("c").await.expect("a permit");
        assert_eq!(start.elapsed(), GRACE_PERIOD / 2);
        assert!(!lost(&held[0]) && lost(&held[1]));
        // The same key has to wait for its own.
        drop(busy);
        let again = semaphore.acquire("c").await.expect("a permit");
        assert!(lost(&held[0]) && !lost(&third) && !lost(&again));
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_busy_for_ever_loses_its_permit_unless_something_comes_of_it() {
        let semaphore = FairSemaphore::new(2, GRACE_PERIOD);
        let held = acquire_all(&semaphore, &["a", "b"]).await;
        let busy = [held[0].busy(), held[1].busy()];
        advance(LONGEST_BUSY).await;
        busy[0].goes_on();
        let start = Instant::now();
        let _third = semaphore.acquire("c").await.expect("a permit");
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert!(!lost(&held[0]) && lost(&held[1]));
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_in_vain_is_idle_for_as_long_as_who_says_nothing() {
        let semaphore = FairSemaphore::new(2, GRACE_PERIOD);
        let held = acquire_all(&semaphore, &["a", "b"]).await;
        let asked = held[0].asks();
        advance(GRACE_PERIOD / 2).await;
        drop(asked);
        let served = held[1].busy();
        drop(served);
        let start = Instant::now();
        let third = semaphore.acquire("c").await.expect("a permit");
        assert_eq!(start.elapsed(), GRACE_PERIOD / 2);
        assert!(lost(&held[0]) && !lost(&held[1]) && !lost(&third));
        // While it waits for an answer, those go who wait for nothing.
        let asking = held[1].asks();
        let start = Instant::now();
        let fourth = semaphore.acquire("d").await.expect("a permit");
        assert_eq!(start.elapsed(), GRACE_PERIOD);
        assert!(!lost(&held[1]) && lost(&third) && !lost(&fourth));
        drop(asking);
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_that_is_dropped_goes_to_who_waits() {
        let semaphore = FairSemaphore::new(1, Duration::from_hours(1));
        let first = semaphore.acquire("a").await.expect("a permit");
        let waiting = tokio::spawn({
            let semaphore = semaphore.clone();
            async move { semaphore.acquire("a").await }
        });
        advance(GRACE_PERIOD).await;
        drop(first);
        let second = waiting.await.expect("it ends").expect("a permit");
        assert_eq!((semaphore.taken(), lost(&second)), (1, false));
    }

    #[tokio::test]
    async fn a_claim_takes_from_who_has_most_and_never_from_its_equals() {
        let semaphore = FairSemaphore::new(4, GRACE_PERIOD);
        let mut hog: Vec<_> = (0..4).map(|_| semaphore.try_acquire("hog").expect("there is room")).collect();
        assert!(semaphore.try_acquire("hog").is_none());
        let first = semaphore.try_acquire("other").expect("its share");
        let second = semaphore.try_acquire("other").expect("its share");
        assert_eq!([false, false, true, true].as_slice(), hog.iter().map(lost).collect::<Vec<_>>());
        assert!(
            semaphore.try_acquire("other").is_none() && semaphore.try_acquire("hog").is_none(),
            "both have their share"
        );
        let third = semaphore.try_acquire("third").is_some();
        // It takes the first permit of one of them, so that all have as many or one more.
        assert!(third);
        drop((first, second));
        hog.clear();
        assert_eq!(semaphore.taken(), 0);
    }
}
