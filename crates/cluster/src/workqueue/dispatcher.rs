//! The IO around a state machine that says what to do next.
//!
//! Any thread may update the state machine, and never waits for a request. One task asks it what to do, does that, and
//! reports the result to it.

use std::{
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream::FuturesUnordered};
use prometheus_client::metrics::gauge::Gauge;
use tokio::{sync::Notify, task::yield_now, time::sleep_until};

/// A state machine that a [`Dispatcher`] works for.
pub(crate) trait Reconcile {
    /// How much is to be done or is being done. While it is none, there is nothing to do until an update. Asked often.
    fn pending(&self) -> usize;
    /// How much is being done.
    fn in_flight(&self) -> usize;
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next<T> {
    /// Do this, and ask again.
    Start(T),
    /// Let other tasks run, and ask again.
    Again,
    /// Nothing until then, or until an update.
    Wait(Option<Instant>),
}

impl<T> Next<T> {
    /// The same with another thing to do.
    pub(crate) fn map<U>(self, map: impl FnOnce(T) -> U) -> Next<U> {
        match self {
            Self::Start(work) => Next::Start(map(work)),
            Self::Again => Next::Again,
            Self::Wait(until) => Next::Wait(until),
        }
    }
}

/// How long an update that comes while nothing is in flight waits for more updates.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Debounce {
    /// Until no update came for so long.
    pub(crate) after: Duration,
    /// But no longer than this.
    pub(crate) max: Duration,
}

/// A state machine and its loop.
#[derive(Debug)]
pub(crate) struct Dispatcher<R> {
    reconciler: Mutex<R>,
    debounce: Debounce,
    /// Wakes the loop.
    updated: Notify,
    /// Wakes who waits for what is in flight.
    finished: Notify,
    /// How much is to be done.
    pending: Gauge,
}

impl<R: Reconcile> Dispatcher<R> {
    /// `pending` shows how much is to be done.
    pub(crate) fn new(reconciler: R, debounce: Debounce, pending: Gauge) -> Self {
        Self { reconciler: Mutex::new(reconciler), debounce, updated: Notify::new(), finished: Notify::new(), pending }
    }

    /// Calls the state machine with the time. All calls go through here, so that the gauge is right after each.
    pub(crate) fn with<T>(&self, call: impl FnOnce(&mut R, Instant) -> T) -> T {
        let mut reconciler = self.lock();
        let result = call(&mut reconciler, tokio::time::Instant::now().into_std());
        self.pending.set(i64::try_from(reconciler.pending()).unwrap_or(i64::MAX));
        result
    }

    /// Changes what is to be done. The loop wakes only if there is anything to do.
    pub(crate) fn update<T>(&self, update: impl FnOnce(&mut R, Instant) -> T) -> T {
        let (result, pending) = self.with(|reconciler, now| (update(reconciler, now), reconciler.pending()));
        if pending > 0 {
            self.updated.notify_one();
        }
        result
    }

    /// Waits until nothing is in flight.
    pub(crate) async fn drained(&self) {
        loop {
            let mut finished = pin!(self.finished.notified());
            finished.as_mut().enable();
            if self.lock().in_flight() == 0 {
                return;
            }
            finished.await;
        }
    }

    /// Does what `next` says, for ever, and hands each result to `finish`, which reports it by [`Dispatcher::with`]. To be
    /// called by one task.
    pub(crate) async fn run<F: Future>(
        &self,
        mut next: impl FnMut(&mut R, Instant) -> Next<F>,
        mut finish: impl FnMut(F::Output),
    ) {
        let mut in_flight = FuturesUnordered::new();
        // When the first of the updates that wait came, and when they are taken up.
        let mut debounced: Option<(Instant, Instant)> = None;
        loop {
            let until = match debounced {
                Some((_, end)) => Some(end),
                None => match self.with(&mut next) {
                    Next::Start(work) => {
                        in_flight.push(work);
                        continue;
                    }
                    Next::Again => {
                        yield_now().await;
                        continue;
                    }
                    Next::Wait(until) => until,
                },
            };
            let time = async {
                match until {
                    Some(until) => sleep_until(until.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(output) = in_flight.next() => {
                    finish(output);
                    self.finished.notify_waiters();
                }
                () = self.updated.notified() => {
                    if in_flight.is_empty() && !self.debounce.after.is_zero() {
                        let now = tokio::time::Instant::now().into_std();
                        let began = debounced.map_or(now, |(began, _)| began);
                        debounced = Some((began, (now + self.debounce.after).min(began + self.debounce.max)));
                    }
                }
                () = time => debounced = None,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, R> {
        // A panic half way through a call leaves what the next comparison of desired and stored puts right.
        self.reconciler.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, sync::Arc};

    use futures::{FutureExt as _, future::BoxFuture};
    use tokio::{sync::oneshot, task::AbortHandle, time::sleep};

    use super::*;
    use crate::workqueue::{Concurrency, WorkQueue};

    const MS: Duration = Duration::from_millis(1);

    /// Does one thing at a time, each until its sender says so.
    struct Fixture {
        queue: WorkQueue<u8>,
        work: HashMap<u8, oneshot::Receiver<()>>,
        done: Vec<u8>,
        asked: usize,
    }

    impl Reconcile for Fixture {
        fn pending(&self) -> usize {
            self.queue.len()
        }

        fn in_flight(&self) -> usize {
            self.queue.processing()
        }
    }

    impl Fixture {
        fn start(debounce: Debounce) -> (Arc<Dispatcher<Self>>, Gauge, AbortHandle) {
            let mut queue = WorkQueue::new(Concurrency { max: 1, min: 1 });
            queue.reset(true);
            let gauge = Gauge::default();
            let fixture = Self { queue, work: HashMap::new(), done: Vec::new(), asked: 0 };
            let dispatcher = Arc::new(Dispatcher::new(fixture, debounce, gauge.clone()));
            let running = Arc::clone(&dispatcher);
            let task = tokio::spawn(async move {
                let finish = |key| running.with(|fixture, _| fixture.finish(key));
                running.run(Self::next, finish).await;
            });
            (dispatcher, gauge, task.abort_handle())
        }

        fn next(&mut self, now: Instant) -> Next<BoxFuture<'static, u8>> {
            self.asked += 1;
            match self.queue.get(now) {
                Ok(key) => {
                    let work = self.work.remove(&key).expect("it was added with its work");
                    Next::Start(work.map(move |_| key).boxed())
                }
                Err(until) => Next::Wait(until),
            }
        }

        fn finish(&mut self, key: u8) {
            self.queue.done(&key);
            self.done.push(key);
        }
    }

    fn add(dispatcher: &Dispatcher<Fixture>, key: u8, after: Duration) -> oneshot::Sender<()> {
        let (sender, receiver) = oneshot::channel();
        dispatcher.update(|fixture, now| {
            fixture.work.insert(key, receiver);
            fixture.queue.add(&key, now + after);
        });
        sender
    }

    fn in_flight(dispatcher: &Dispatcher<Fixture>) -> usize {
        dispatcher.with(|fixture, _| fixture.in_flight())
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_added_is_done_when_it_is_due_and_drained_waits_for_what_is_in_flight() {
        let (dispatcher, gauge, task) = Fixture::start(Debounce::default());
        dispatcher.drained().await;
        let delay = Duration::from_secs(5);
        let first = add(&dispatcher, 1, delay);
        assert_eq!((gauge.get(), in_flight(&dispatcher)), (1, 0));
        sleep(2 * delay).await;
        assert_eq!(in_flight(&dispatcher), 1);
        let second = add(&dispatcher, 2, Duration::ZERO);
        second.send(()).expect("somebody waits");
        first.send(()).expect("somebody waits");
        while dispatcher.with(|fixture, _| fixture.pending()) > 0 {
            dispatcher.drained().await;
            yield_now().await;
        }
        assert_eq!((dispatcher.with(|fixture, _| fixture.done.clone()), gauge.get()), (vec![1, 2], 0));
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn an_update_waits_for_more_but_not_for_ever_nor_behind_what_is_in_flight() {
        let (dispatcher, _, task) = Fixture::start(Debounce { after: 50 * MS, max: 500 * MS });
        sleep(MS).await;
        let first = add(&dispatcher, 1, Duration::ZERO);
        sleep(49 * MS).await;
        assert_eq!(in_flight(&dispatcher), 0);
        sleep(2 * MS).await;
        assert_eq!(in_flight(&dispatcher), 1);
        let second = add(&dispatcher, 2, Duration::ZERO);
        first.send(()).expect("somebody waits");
        sleep(MS).await;
        let done = dispatcher.with(|fixture, _| fixture.done.clone());
        assert_eq!((in_flight(&dispatcher), done), (1, vec![1]), "nothing waits behind it");
        second.send(()).expect("somebody waits");
        sleep(MS).await;
        let mut more = Vec::new();
        for key in 10..30 {
            assert_eq!(in_flight(&dispatcher), 0);
            more.push(add(&dispatcher, key, Duration::ZERO));
            sleep(25 * MS).await;
        }
        sleep(MS).await;
        assert_eq!(in_flight(&dispatcher), 1, "half a second has gone");
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn an_update_that_leaves_nothing_to_do_wakes_nobody() {
        let (dispatcher, _, task) = Fixture::start(Debounce::default());
        let asked = async || {
            sleep(Duration::from_secs(1)).await;
            dispatcher.with(|fixture, _| fixture.asked)
        };
        assert_eq!(asked().await, 1);
        dispatcher.update(|_, _| ());
        assert_eq!(asked().await, 1);
        let _sender = add(&dispatcher, 1, Duration::ZERO);
        assert!(asked().await > 1);
        task.abort();
    }
}
