//! A keyed work queue, as client-go's `workqueue` is one: a state machine without IO and without a clock.
//!
//! * A key is in the queue once, however often it is added. It is due at the earliest of the times that it was added for.
//! * Keys are given out in the order in which they are due.
//! * One worker processes a key at a time. [`WorkQueue::done`] says whether the key was added meanwhile.
//! * Failures of a key are counted in a row, for a [`Backoff`].
//! * A failure that concerns all keys pauses the whole queue ([`throttle`]).
//!
//! A queue is closed at first, since only the leader works. [`Dispatcher`] is the IO around it.

mod backoff;
mod dispatcher;
#[cfg(test)]
mod tests;
mod throttle;

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    time::Instant,
};

pub(crate) use self::{
    backoff::Backoff,
    dispatcher::{Debounce, Dispatcher, Next, Reconcile},
    throttle::{Concurrency, LONGEST_PAUSE, Throttle, UNAVAILABLE},
};

/// When a key is due, and its place among those that are due at the same time.
type Turn = (Instant, u64);

/// The queue. A key that is neither scheduled nor processed nor failing takes no memory.
#[derive(Debug)]
pub(crate) struct WorkQueue<K> {
    open: bool,
    schedule: BTreeMap<Turn, K>,
    turns: HashMap<K, Turn>,
    last_turn: u64,
    /// Keys that are processed, and whether they were added since.
    processing: HashMap<K, bool>,
    /// In a row.
    failures: HashMap<K, u32>,
    /// What answers say of the API server.
    pub(crate) throttle: Throttle,
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// A closed queue.
    pub(crate) fn new(concurrency: Concurrency) -> Self {
        Self {
            open: false,
            schedule: BTreeMap::new(),
            turns: HashMap::new(),
            last_turn: 0,
            processing: HashMap::new(),
            failures: HashMap::new(),
            throttle: Throttle::new(concurrency),
        }
    }

    /// Forgets all keys, failures and pauses. An open queue takes keys and gives them out, a closed one does not. What is
    /// processed is still counted until it is done.
    pub(crate) fn reset(&mut self, open: bool) {
        self.open = open;
        self.schedule.clear();
        self.turns.clear();
        self.failures.clear();
        self.throttle.reset();
        self.processing.values_mut().for_each(|added| *added = false);
    }

    /// Whether it is open.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Has a key processed at that time, or sooner if it is due sooner already.
    pub(crate) fn add(&mut self, key: &K, at: Instant) {
        if !self.open {
            return;
        }
        if let Some(added) = self.processing.get_mut(key) {
            *added = true;
            return;
        }
        if self.turns.get(key).is_some_and(|(due, _)| *due <= at) {
            return;
        }
        self.last_turn += 1;
        let turn = (at, self.last_turn);
        if let Some(later) = self.turns.insert(key.clone(), turn) {
            self.schedule.remove(&later);
        }
        self.schedule.insert(turn, key.clone());
    }

    /// The next key that is due, which is processed from now on. If there is none, or if no more may be processed, the time
    /// until which that holds, unless the queue is changed.
    pub(crate) fn get(&mut self, now: Instant) -> Result<K, Option<Instant>> {
        if let Some(until) = self.throttle.paused(now) {
            return Err(Some(until));
        }
        if self.processing.len() >= self.throttle.concurrency() {
            return Err(None);
        }
        let first = self.schedule.first_entry().ok_or(None)?;
        let (due, _) = *first.key();
        if due > now {
            return Err(Some(due));
        }
        let key = first.remove();
        self.turns.remove(&key);
        self.processing.insert(key.clone(), false);
        Ok(key)
    }

    /// A key is not processed any more. Gives whether it was added meanwhile, in which case the caller adds it again.
    pub(crate) fn done(&mut self, key: &K) -> bool {
        self.processing.remove(key).unwrap_or(false)
    }

    /// A key failed. Gives how often it did in a row.
    pub(crate) fn failed(&mut self, key: &K) -> u32 {
        let failures = self.failures.entry(key.clone()).or_default();
        *failures = failures.saturating_add(1);
        *failures
    }

    /// A key does not fail any more.
    pub(crate) fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }

    /// Takes a key out of the queue with its failures. One that is processed stays so.
    pub(crate) fn remove(&mut self, key: &K) {
        self.forget(key);
        if let Some(turn) = self.turns.remove(key) {
            self.schedule.remove(&turn);
        }
    }

    /// Whether a key is neither scheduled nor processed.
    pub(crate) fn is_idle(&self, key: &K) -> bool {
        !self.turns.contains_key(key) && !self.is_processing(key)
    }

    /// Whether a key is processed.
    pub(crate) fn is_processing(&self, key: &K) -> bool {
        self.processing.contains_key(key)
    }

    /// How many keys are scheduled or processed.
    pub(crate) fn len(&self) -> usize {
        self.schedule.len() + self.processing()
    }

    /// How many keys are processed.
    pub(crate) fn processing(&self) -> usize {
        self.processing.len()
    }
}
