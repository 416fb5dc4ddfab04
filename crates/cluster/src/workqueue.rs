//! A keyed work queue, as client-go's `workqueue` is one: a state machine without IO and without a clock.
//!
//! * A key is in the queue once, however often it is added. It is due at the earliest of the times that it was added for.
//! * Keys are given out in the order in which they are due.
//! * One worker processes a key at a time. [`WorkQueue::done`] says whether the key was added meanwhile.
//! * Failures of a key are counted in a row, for a [`Backoff`].
//! * A failure that concerns all keys pauses the whole queue ([`throttle`]).
//!
//! A queue is closed until [`WorkQueue::open`], since only the leader works. [`Dispatcher`] is the IO around it.

mod backoff;
mod dispatcher;
#[cfg(test)]
mod tests;
mod throttle;

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    time::{Duration, Instant},
};

use self::throttle::Throttle;
pub(crate) use self::{
    backoff::Backoff,
    dispatcher::{Debounce, Dispatcher, Next, Reconcile},
    throttle::{Concurrency, UNAVAILABLE},
};

/// When a key is due, and its place among those that are due at the same time.
type Turn = (Instant, u64);

/// The queue. Only keys that are due, waiting, processed or failing take memory.
#[derive(Debug)]
pub(crate) struct WorkQueue<K> {
    open: bool,
    items: HashMap<K, Item>,
    schedule: BTreeMap<Turn, K>,
    serial: u64,
    processing: usize,
    throttle: Throttle,
}

#[derive(Debug, Default)]
struct Item {
    state: State,
    /// In a row.
    failures: u32,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Scheduled(Turn),
    Processing {
        /// Whether the key was added since.
        added: bool,
    },
}

/// What a queue gives.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Get<K> {
    /// This key is processed from now on, until [`WorkQueue::done`].
    Key(K),
    /// Nothing until then, or until the next call that changes the queue.
    Wait(Option<Instant>),
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// A closed queue.
    pub(crate) fn new(concurrency: Concurrency) -> Self {
        Self {
            open: false,
            items: HashMap::new(),
            schedule: BTreeMap::new(),
            serial: 0,
            processing: 0,
            throttle: Throttle::new(concurrency),
        }
    }

    /// Takes keys and gives them out from now on.
    pub(crate) fn open(&mut self) {
        self.close();
        self.open = true;
    }

    /// Forgets all keys, failures and pauses, and takes nothing. What is processed is still counted until it is done.
    pub(crate) fn close(&mut self) {
        self.open = false;
        self.schedule.clear();
        self.throttle.reset();
        self.items.retain(|_, item| {
            item.failures = 0;
            match &mut item.state {
                State::Processing { added } => {
                    *added = false;
                    true
                }
                State::Idle | State::Scheduled(_) => false,
            }
        });
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
        let item = self.items.entry(key.clone()).or_default();
        match &mut item.state {
            State::Processing { added } => {
                *added = true;
                return;
            }
            State::Scheduled((due, _)) if *due <= at => return,
            State::Scheduled(turn) => drop(self.schedule.remove(turn)),
            State::Idle => {}
        }
        self.serial += 1;
        let turn = (at, self.serial);
        item.state = State::Scheduled(turn);
        self.schedule.insert(turn, key.clone());
    }

    /// The next key that is due, if one more may be processed.
    pub(crate) fn get(&mut self, now: Instant) -> Get<K> {
        if !self.open {
            return Get::Wait(None);
        }
        if let Some(until) = self.paused(now) {
            return Get::Wait(Some(until));
        }
        if self.processing >= self.throttle.concurrency() {
            return Get::Wait(None);
        }
        let Some(first) = self.schedule.first_entry() else { return Get::Wait(None) };
        let (due, _) = *first.key();
        if due > now {
            return Get::Wait(Some(due));
        }
        let key = first.remove();
        self.items.entry(key.clone()).or_default().state = State::Processing { added: false };
        self.processing += 1;
        Get::Key(key)
    }

    /// A key is not processed any more. Gives whether it was added meanwhile, in which case the caller adds it again.
    pub(crate) fn done(&mut self, key: &K) -> bool {
        let Some(Item { state, .. }) = self.items.get_mut(key) else { return false };
        let State::Processing { added } = *state else { return false };
        *state = State::Idle;
        self.processing -= 1;
        self.drop_if_idle(key);
        added
    }

    /// A key failed. Gives how often it did in a row.
    pub(crate) fn failed(&mut self, key: &K) -> u32 {
        let item = self.items.entry(key.clone()).or_default();
        item.failures = item.failures.saturating_add(1);
        item.failures
    }

    /// A key does not fail any more.
    pub(crate) fn forget(&mut self, key: &K) {
        if let Some(item) = self.items.get_mut(key) {
            item.failures = 0;
            self.drop_if_idle(key);
        }
    }

    /// Takes a key out of the queue with its failures. One that is processed stays so.
    pub(crate) fn remove(&mut self, key: &K) {
        if let Some(item) = self.items.get_mut(key) {
            if let State::Scheduled(turn) = item.state {
                self.schedule.remove(&turn);
                item.state = State::Idle;
            }
            self.forget(key);
        }
    }

    /// Whether a key is neither scheduled nor processed.
    pub(crate) fn is_idle(&self, key: &K) -> bool {
        self.items.get(key).is_none_or(|item| matches!(item.state, State::Idle))
    }

    /// Whether a key is processed.
    pub(crate) fn is_processing(&self, key: &K) -> bool {
        self.items.get(key).is_some_and(|item| matches!(item.state, State::Processing { .. }))
    }

    /// How many keys are scheduled or processed.
    pub(crate) fn len(&self) -> usize {
        self.schedule.len() + self.processing
    }

    /// How many keys are processed.
    pub(crate) fn processing(&self) -> usize {
        self.processing
    }

    /// The API server answered, whatever the answer was.
    pub(crate) fn available(&mut self) {
        self.throttle.available();
    }

    /// The API server is away or overloaded, and wants to be left alone for `retry_after`. Gives whether that is the first
    /// failure of its kind since it last answered.
    pub(crate) fn unavailable(&mut self, retry_after: Duration, now: Instant) -> bool {
        self.throttle.unavailable(retry_after, now)
    }

    /// Until when no key is given out, because the API server is away or overloaded.
    pub(crate) fn paused(&self, now: Instant) -> Option<Instant> {
        self.throttle.paused(now)
    }

    fn drop_if_idle(&mut self, key: &K) {
        if self.items.get(key).is_some_and(|item| matches!(item.state, State::Idle) && item.failures == 0) {
            self.items.remove(key);
        }
    }
}
