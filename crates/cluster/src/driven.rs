//! A state machine that says what to do next, and the loop that does it.
//!
//! Whoever knows something tells the machine, from any thread, and waits for nobody. One task asks it what to do, does
//! that, and tells it what became of it.

use std::{
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream::FuturesUnordered};
use prometheus_client::metrics::gauge::Gauge;
use tokio::{sync::Notify, task::yield_now, time::sleep_until};

/// What is asked of a state machine.
pub(crate) trait Machine {
    /// How much is to be done, or is being done: while it is none, there is nothing to do until something is told. Asked
    /// often.
    fn len(&self) -> usize;
    /// How much was begun and has not ended.
    fn under_way(&self) -> usize;
}

/// What a state machine says.
pub(crate) enum Next<F> {
    /// Do this, and ask again.
    Start(F),
    /// Let others run, and ask again.
    Again,
    /// Nothing until then, or until something is told.
    Wait(Option<Instant>),
}

/// How long something that is told while nothing is under way waits for more of its kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gather {
    /// Until nothing was told for so long.
    pub(crate) quiet: Duration,
    /// But no longer than this.
    pub(crate) most: Duration,
}

/// A state machine and its loop.
#[derive(Debug)]
pub(crate) struct Driven<M> {
    machine: Mutex<M>,
    gather: Gather,
    /// Something was told.
    told: Notify,
    /// Something that was under way ended.
    ended: Notify,
    /// How much is to be done.
    length: Gauge,
}

impl<M: Machine> Driven<M> {
    /// `length` shows how much is to be done.
    pub(crate) fn new(machine: M, gather: Gather, length: Gauge) -> Self {
        Self { machine: Mutex::new(machine), gather, told: Notify::new(), ended: Notify::new(), length }
    }

    /// Calls the machine with the time. All calls go through here, so that the gauge is never wrong for longer than one
    /// takes.
    pub(crate) fn with<T>(&self, call: impl FnOnce(&mut M, Instant) -> T) -> T {
        let mut machine = self.lock();
        let result = call(&mut machine, tokio::time::Instant::now().into_std());
        self.length.set(i64::try_from(machine.len()).unwrap_or(i64::MAX));
        result
    }

    /// Tells the machine something that may change what is to be done. The loop wakes only if there is anything.
    pub(crate) fn tell<T>(&self, tell: impl FnOnce(&mut M, Instant) -> T) -> T {
        let (result, length) = self.with(|machine, now| (tell(machine, now), machine.len()));
        if length > 0 {
            self.told.notify_one();
        }
        result
    }

    /// Waits until nothing is under way.
    pub(crate) async fn quiet(&self) {
        loop {
            let mut ended = pin!(self.ended.notified());
            ended.as_mut().enable();
            if self.lock().under_way() == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Does what `next` says, for ever, and hands what becomes of it to `ended`, which tells the machine by
    /// [`Driven::with`]. For one task.
    pub(crate) async fn run<F: Future>(
        &self,
        mut next: impl FnMut(&mut M, Instant) -> Next<F>,
        mut ended: impl FnMut(F::Output),
    ) {
        let mut under_way = FuturesUnordered::new();
        // What is gathered began then, and is taken up at the second moment.
        let mut gathered: Option<(Instant, Instant)> = None;
        loop {
            let until = match gathered {
                Some((_, end)) => Some(end),
                None => match self.with(&mut next) {
                    Next::Start(work) => {
                        under_way.push(work);
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
                Some(output) = under_way.next() => {
                    ended(output);
                    self.ended.notify_waiters();
                }
                () = self.told.notified() => {
                    if under_way.is_empty() && !self.gather.quiet.is_zero() {
                        let now = tokio::time::Instant::now().into_std();
                        let began = gathered.map_or(now, |(began, _)| began);
                        gathered = Some((began, (now + self.gather.quiet).min(began + self.gather.most)));
                    }
                }
                () = time => gathered = None,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, M> {
        // A machine does not panic half way; if it did, what it looks at next puts right what it left.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, sync::Arc, time::Duration};

    use tokio::sync::oneshot;

    use super::*;

    /// Does one thing at a time, and pauses before each.
    #[derive(Default)]
    struct Line {
        waiting: VecDeque<oneshot::Receiver<u8>>,
        paused: Option<Instant>,
        under_way: usize,
        done: Vec<u8>,
        asked: usize,
    }

    impl Machine for Line {
        fn len(&self) -> usize {
            self.waiting.len() + self.under_way
        }

        fn under_way(&self) -> usize {
            self.under_way
        }
    }

    impl Line {
        fn next(&mut self, now: Instant) -> Next<oneshot::Receiver<u8>> {
            self.asked += 1;
            if let Some(paused) = self.paused.filter(|paused| now < *paused) {
                return Next::Wait(Some(paused));
            }
            match (self.under_way, self.waiting.pop_front()) {
                (0, Some(work)) => {
                    self.under_way = 1;
                    Next::Start(work)
                }
                (_, Some(work)) => {
                    self.waiting.push_front(work);
                    Next::Wait(None)
                }
                (_, None) => Next::Wait(None),
            }
        }

        fn ended(&mut self, output: u8) {
            self.under_way = 0;
            self.done.push(output);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_told_is_done_when_its_time_comes_and_quiet_waits_for_what_is_under_way() {
        let gauge = Gauge::default();
        let driven = Arc::new(Driven::new(Line::default(), Gather::default(), gauge.clone()));
        let running = Arc::clone(&driven);
        let task = tokio::spawn(async move {
            let ended = |output: Result<u8, _>| running.with(|line, _| line.ended(output.expect("it is sent")));
            running.run(Line::next, ended).await;
        });
        driven.quiet().await;
        let (first, receiver) = oneshot::channel();
        let pause = Duration::from_secs(5);
        driven.tell(|line, now| {
            line.waiting.push_back(receiver);
            line.paused = Some(now + pause);
        });
        assert_eq!(gauge.get(), 1);
        assert_eq!(driven.with(|line, _| line.under_way()), 0);
        tokio::time::sleep(2 * pause).await;
        assert_eq!(driven.with(|line, _| line.under_way()), 1);
        let (second, receiver) = oneshot::channel();
        driven.tell(|line, _| line.waiting.push_back(receiver));
        second.send(2).expect("somebody waits");
        first.send(1).expect("somebody waits");
        while driven.with(|line, _| line.len()) > 0 {
            driven.quiet().await;
            tokio::task::yield_now().await;
        }
        assert_eq!((driven.with(|line, _| line.done.clone()), gauge.get()), (vec![1, 2], 0));
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_told_waits_for_more_of_its_kind_but_not_for_ever_nor_behind_what_is_under_way() {
        const MS: Duration = Duration::from_millis(1);
        let gather = Gather { quiet: 50 * MS, most: 500 * MS };
        let driven = Arc::new(Driven::new(Line::default(), gather, Gauge::default()));
        let running = Arc::clone(&driven);
        let task = tokio::spawn(async move {
            let ended = |output: Result<u8, _>| running.with(|line, _| line.ended(output.expect("it is sent")));
            running.run(Line::next, ended).await;
        });
        let tell = || {
            let (sender, receiver) = oneshot::channel();
            driven.tell(|line, _| line.waiting.push_back(receiver));
            sender
        };
        let under_way = || driven.with(|line, _| line.under_way());
        tokio::time::sleep(MS).await;
        let first = tell();
        tokio::time::sleep(49 * MS).await;
        assert_eq!(under_way(), 0);
        tokio::time::sleep(2 * MS).await;
        assert_eq!(under_way(), 1);
        let second = tell();
        first.send(1).expect("somebody waits");
        tokio::time::sleep(MS).await;
        assert_eq!(
            (under_way(), driven.with(|line, _| line.done.clone())),
            (1, vec![1]),
            "nothing is gathered behind it"
        );
        second.send(2).expect("somebody waits");
        tokio::time::sleep(MS).await;
        let mut more: Vec<_> = Vec::new();
        for _ in 0..20 {
            assert_eq!(under_way(), 0);
            more.push(tell());
            tokio::time::sleep(25 * MS).await;
        }
        tokio::time::sleep(MS).await;
        assert_eq!(under_way(), 1, "half a second has gone");
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn what_leaves_nothing_to_be_done_wakes_nobody() {
        let driven = Arc::new(Driven::new(Line::default(), Gather::default(), Gauge::default()));
        let running = Arc::clone(&driven);
        let task = tokio::spawn(async move { running.run(Line::next, drop).await });
        let asked = async || {
            tokio::time::sleep(Duration::from_secs(1)).await;
            driven.with(|line, _| line.asked)
        };
        assert_eq!(asked().await, 1);
        driven.tell(|_, _| ());
        assert_eq!(asked().await, 1);
        let (_sender, receiver) = oneshot::channel();
        driven.tell(|line, _| line.waiting.push_back(receiver));
        assert!(asked().await > 1);
        task.abort();
    }
}
