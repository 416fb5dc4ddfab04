//! Few places, shared by who wants one.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Who has more than this part of all places, and finds none to take at once, is not waited for.
const SHARE: usize = 32;
/// How long a holder may be busy before its place may go to somebody else.
const LONGEST_BUSY: Duration = Duration::from_secs(30);

/// A bounded number of places. Everybody who wants one has a key, such as its address, and what one key can do to
/// others is bounded: while all places are taken, they are taken from the key that has most.
///
/// Clones are handles to the same places.
pub struct Places<K>(Arc<Shared<K>>);

struct Shared<K> {
    limit: usize,
    patience: Duration,
    state: Mutex<State<K>>,
    /// A place became free, or may be taken from somebody.
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
    withdrawn: CancellationToken,
}

/// A place. It is free again when this is dropped, or when it was withdrawn.
pub struct Place<K: Clone + Eq + Hash> {
    places: Places<K>,
    number: u64,
    withdrawn: CancellationToken,
}

/// Says that the holder of a place waits for the server, and not the other way round, until it is dropped.
pub struct Busy<K: Clone + Eq + Hash> {
    places: Places<K>,
    number: u64,
    /// Whether it is as good as new then.
    renews: bool,
}

impl<K: Clone + Eq + Hash> Places<K> {
    /// `limit` places, at least one. A holder that is idle for `patience` may lose its place while others wait.
    pub fn new(limit: usize, patience: Duration) -> Self {
        let state = State { taken: BTreeMap::new(), counts: HashMap::new(), next: 0 };
        Self(Arc::new(Shared { limit: limit.max(1), patience, state: Mutex::new(state), changed: Notify::new() }))
    }

    /// Waits for a place. If all are taken, one is withdrawn: at once the oldest of the key that has most, idle ones before
    /// busy ones, provided that it still has as many as this one then; else the one that was idle for longest, once it was
    /// for the patience of these places, or has been busy for half a minute.
    ///
    /// None if the key itself has more than a thirty-second part of them, and nothing can be withdrawn at once: who waits in
    /// line behind it is not kept waiting for it.
    pub async fn enter(&self, key: K) -> Option<Place<K>> {
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

    /// A place at once, or none. If all are taken, the youngest of the key that has most is withdrawn, provided that
    /// it still has as many as this one then.
    pub fn claim(&self, key: K) -> Option<Place<K>> {
        let mut state = self.state();
        if state.taken.len() >= self.0.limit {
            let most = state.most_beside(&key)?;
            let (number, _) = state.taken.iter().rev().find(|(_, taken)| taken.key == most)?;
            let number = *number;
            state.withdraw(number);
        }
        Some(self.take(&mut state, key))
    }

    /// How many one key may have and still be waited for.
    fn share(&self) -> usize {
        (self.0.limit / SHARE).max(1)
    }

    /// How many places are taken.
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
                    |taken: &Taken<K>| taken.since + if taken.busy > 0 { LONGEST_BUSY } else { self.0.patience };
                let first = state.taken.iter().min_by_key(|(number, taken)| (until(taken), **number));
                match first.map(|(number, taken)| (*number, until(taken))) {
                    Some((number, until)) if until <= now => number,
                    first => return Err(first.map_or(now, |(_, until)| until)),
                }
            }
        };
        state.withdraw(number);
        Ok(())
    }

    fn take(&self, state: &mut State<K>, key: K) -> Place<K> {
        let number = state.next;
        state.next += 1;
        *state.counts.entry(key.clone()).or_default() += 1;
        let withdrawn = CancellationToken::new();
        let taken = Taken { key, since: Instant::now(), busy: 0, withdrawn: withdrawn.clone() };
        state.taken.insert(number, taken);
        Place { places: self.clone(), number, withdrawn }
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

    /// The place that goes first of the key that has most, if one may go for `key`.
    fn of_most(&self, key: &K) -> Option<u64> {
        let most = self.most_beside(key)?;
        let of_most = self.taken.iter().filter(|(_, taken)| taken.key == most);
        of_most.min_by_key(|(number, taken)| (taken.busy > 0, taken.since, **number)).map(|(number, _)| *number)
    }

    fn withdraw(&mut self, number: u64) {
        if let Some(taken) = self.remove(number) {
            taken.withdrawn.cancel();
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

impl<K: Clone + Eq + Hash> Place<K> {
    /// Waits until somebody else has the place.
    pub fn withdrawn(&self) -> impl Future<Output = ()> + Send + use<K> {
        self.withdrawn.clone().cancelled_owned()
    }

    /// The holder waits for the server from now on, and begins to be idle when that ends.
    pub fn busy(&self) -> Busy<K> {
        self.waits(true)
    }

    /// The same for what anybody may ask in vain: if nothing comes of it, the holder was idle all the time.
    pub fn asks(&self) -> Busy<K> {
        self.waits(false)
    }

    fn waits(&self, renews: bool) -> Busy<K> {
        let busy = Busy { places: self.places.clone(), number: self.number, renews };
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
        if let Some(taken) = self.places.state().taken.get_mut(&self.number) {
            change(taken);
            if self.renews {
                taken.since = Instant::now();
            }
        }
    }
}

impl<K: Clone + Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        self.places.state().remove(self.number);
        self.places.0.changed.notify_waiters();
    }
}

impl<K: Clone + Eq + Hash> Drop for Busy<K> {
    fn drop(&mut self) {
        self.change(|taken| taken.busy -= 1);
        self.places.0.changed.notify_waiters();
    }
}

impl<K> Clone for Places<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> fmt::Debug for Places<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Places").field("limit", &self.0.limit).finish_non_exhaustive()
    }
}

impl<K: Clone + Eq + Hash> fmt::Debug for Place<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("number", &self.number).finish_non_exhaustive()
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

    const PATIENCE: Duration = Duration::from_secs(1);

    /// Whether it has lost its place.
    fn lost(place: &Place<&'static str>) -> bool {
        place.withdrawn.is_cancelled()
    }

    async fn enter_all(places: &Places<&'static str>, keys: &[&'static str]) -> Vec<Place<&'static str>> {
        let mut entered = Vec::new();
        for key in keys {
            entered.push(places.enter(key).await.expect("a place"));
        }
        entered
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_most_makes_room_at_once_for_anybody_else() {
        let places = Places::new(4, PATIENCE);
        let hog = enter_all(&places, &["hog"; 4]).await;
        let (start, busy) = (Instant::now(), hog[0].busy());
        let other = places.enter("other").await.expect("a place");
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert_eq!([false, true, false, false].as_slice(), hog.iter().map(lost).collect::<Vec<_>>());
        // Also from what is busy, if there is nothing else.
        let rest = [hog[2].busy(), hog[3].busy()];
        let another = places.enter("another").await.expect("a place");
        assert!(lost(&hog[0]) && !lost(&hog[2]) && !lost(&other) && !lost(&another));
        assert_eq!(start.elapsed(), Duration::ZERO);
        drop((busy, rest));
        assert_eq!(places.taken(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_behind_who_has_most() {
        let places = Places::new(2, PATIENCE);
        let hog = enter_all(&places, &["hog"; 2]).await;
        let start = Instant::now();
        assert!(places.enter("hog").await.is_none());
        assert_eq!((start.elapsed(), lost(&hog[0])), (Duration::ZERO, false));
        advance(PATIENCE).await;
        assert!(places.enter("hog").await.is_some() && lost(&hog[0]));
    }

    #[tokio::test(start_paused = true)]
    async fn among_equals_the_one_that_is_idle_for_longest_goes_and_not_before_its_time() {
        let places = Places::new(2, PATIENCE);
        let held = enter_all(&places, &["a", "b"]).await;
        let busy = held[0].busy();
        advance(PATIENCE / 2).await;
        let start = Instant::now();
        let third = places.enter("c").await.expect("a place");
        assert_eq!(start.elapsed(), PATIENCE / 2);
        assert!(!lost(&held[0]) && lost(&held[1]));
        // The same key has to wait for its own.
        drop(busy);
        let again = places.enter("c").await.expect("a place");
        assert!(lost(&held[0]) && !lost(&third) && !lost(&again));
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_busy_for_ever_loses_its_place_unless_something_comes_of_it() {
        let places = Places::new(2, PATIENCE);
        let held = enter_all(&places, &["a", "b"]).await;
        let busy = [held[0].busy(), held[1].busy()];
        advance(LONGEST_BUSY).await;
        busy[0].goes_on();
        let start = Instant::now();
        let _third = places.enter("c").await.expect("a place");
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert!(!lost(&held[0]) && lost(&held[1]));
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_in_vain_is_idle_for_as_long_as_who_says_nothing() {
        let places = Places::new(2, PATIENCE);
        let held = enter_all(&places, &["a", "b"]).await;
        let asked = held[0].asks();
        advance(PATIENCE / 2).await;
        drop(asked);
        let served = held[1].busy();
        drop(served);
        let start = Instant::now();
        let third = places.enter("c").await.expect("a place");
        assert_eq!(start.elapsed(), PATIENCE / 2);
        assert!(lost(&held[0]) && !lost(&held[1]) && !lost(&third));
        // While it waits for an answer, those go who wait for nothing.
        let asking = held[1].asks();
        let start = Instant::now();
        let fourth = places.enter("d").await.expect("a place");
        assert_eq!(start.elapsed(), PATIENCE);
        assert!(!lost(&held[1]) && lost(&third) && !lost(&fourth));
        drop(asking);
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_that_is_left_goes_to_who_waits() {
        let places = Places::new(1, Duration::from_hours(1));
        let first = places.enter("a").await.expect("a place");
        let waiting = tokio::spawn({
            let places = places.clone();
            async move { places.enter("a").await }
        });
        advance(PATIENCE).await;
        drop(first);
        let second = waiting.await.expect("it ends").expect("a place");
        assert_eq!((places.taken(), lost(&second)), (1, false));
    }

    #[tokio::test]
    async fn a_claim_takes_from_who_has_most_and_never_from_its_equals() {
        let places = Places::new(4, PATIENCE);
        let mut hog: Vec<_> = (0..4).map(|_| places.claim("hog").expect("there is room")).collect();
        assert!(places.claim("hog").is_none());
        let first = places.claim("other").expect("its share");
        let second = places.claim("other").expect("its share");
        assert_eq!([false, false, true, true].as_slice(), hog.iter().map(lost).collect::<Vec<_>>());
        assert!(places.claim("other").is_none() && places.claim("hog").is_none(), "both have their share");
        let third = places.claim("third").is_some();
        // It takes the first place of one of them, so that all have as many or one more.
        assert!(third);
        drop((first, second));
        hog.clear();
        assert_eq!(places.taken(), 0);
    }
}
