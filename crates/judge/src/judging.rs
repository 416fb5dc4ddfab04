//! Verdicts of fragments.

use std::{
    collections::HashMap,
    future::pending,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use envoy::judged::{Fragment, Wrapper};
use ir::settings::Edge;

use crate::{
    cache::{Key, Verdicts},
    client::Client,
    outcome::{Build, Job, Outcome},
    runner::Runner,
    search::{Budget, Found, search},
    verdict::{How, Refusal, Verdict},
};

/// How many fragments are judged together at most, and how many bytes of them.
const MAX_FRAGMENTS: usize = 10_000;
const MAX_BYTES: usize = 8 << 20;

/// Who runs Envoys.
#[derive(Debug)]
pub enum Way {
    /// This process.
    Here(Runner),
    /// An agent.
    There(Client),
}

impl Way {
    async fn run(&self, job: Job) -> Outcome {
        match self {
            Self::Here(runner) => runner.run(job).await,
            Self::There(client) => client.run(job).await,
        }
    }

    fn build(&self) -> Option<Build> {
        match self {
            Self::Here(runner) => Some(runner.build().clone()),
            Self::There(client) => client.build(),
        }
    }
}

/// How processes ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// One ended without a word.
    pub wordless: bool,
    /// One could not be had.
    pub unavailable: bool,
    /// The judge was there, and went away with it.
    pub lost: bool,
}

/// Judges fragments, each once.
#[derive(Debug)]
pub struct Judge {
    way: Way,
    wrapper: Wrapper,
    verdicts: Mutex<Verdicts>,
}

impl Judge {
    /// A judge for proxies with these limits.
    pub fn new(way: Way, edge: &Edge) -> Self {
        Self { way, wrapper: Wrapper::new(edge), verdicts: Mutex::default() }
    }

    /// The Envoy that judges; none while it cannot be reached.
    pub fn build(&self) -> Option<Build> {
        self.way.build()
    }

    /// Waits until an Envoy judges that is another one than this. Without an end where there is none but the one of this process.
    pub async fn another(&self, than: Option<&Build>) -> Build {
        let Way::There(client) = &self.way else { return pending().await };
        let mut builds = client.watch();
        let is_another = |build: &Option<Build>| build.is_some() && build.as_ref() != than;
        match builds.wait_for(is_another).await.map(|build| build.clone()) {
            Ok(Some(build)) => build,
            // The connection is kept as long as the client.
            _ => pending().await,
        }
    }

    /// What is known of a fragment; none if it has to be judged. Waits for nothing.
    pub fn known(&self, fragment: &Fragment) -> Option<Verdict> {
        let key = Key::of(fragment, self.wrapper.hash(), &self.build()?);
        Some(match self.verdicts().get(key)? {
            Ok(()) => Verdict::Accepted,
            Err(refusal) => Verdict::Refused(refusal),
        })
    }

    /// Judges fragments, in their order, as far as the budget reaches. What stands together in them had better come from one
    /// owner: neighbours that are refused are found together.
    pub async fn judge(&self, fragments: &[Fragment], budget: &mut Budget) -> Vec<Verdict> {
        self.judge_until(fragments, budget, |_| false).await
    }

    /// The same, and tells how processes ended. With `stops` nothing more is judged when one ended without a word, and nobody is
    /// blamed for that.
    pub async fn judge_and_tell(
        &self,
        fragments: &[Fragment],
        budget: &mut Budget,
        stops: bool,
    ) -> (Vec<Verdict>, Ends) {
        let (wordless, unavailable) = (AtomicBool::new(false), AtomicBool::new(self.build().is_none()));
        let lost = AtomicBool::new(false);
        let is_end = |outcome: &Outcome| {
            match outcome {
                Outcome::Accepted | Outcome::Refused(_) => {}
                Outcome::Unavailable(_) => {
                    let was_there = !unavailable.swap(true, Ordering::Relaxed);
                    lost.fetch_or(was_there && self.build().is_none(), Ordering::Relaxed);
                }
                _ => wordless.store(true, Ordering::Relaxed),
            }
            stops && wordless.load(Ordering::Relaxed)
        };
        let verdicts = self.judge_until(fragments, budget, is_end).await;
        let ends = [wordless, unavailable, lost].map(AtomicBool::into_inner);
        (verdicts, Ends { wordless: ends[0], unavailable: ends[1], lost: ends[2] })
    }

    async fn judge_until(
        &self,
        fragments: &[Fragment],
        budget: &mut Budget,
        is_end: impl Fn(&Outcome) -> bool,
    ) -> Vec<Verdict> {
        let Some(build) = self.build() else {
            return vec![Verdict::Unknown("no Envoy that judges can be reached".into()); fragments.len()];
        };
        let keys: Vec<_> = fragments.iter().map(|fragment| Key::of(fragment, self.wrapper.hash(), &build)).collect();
        let mut unknown = HashMap::new();
        let mut fresh: Vec<&Fragment> = Vec::new();
        for (key, fragment) in keys.iter().zip(fragments) {
            if self.verdicts().get(*key).is_none() && !unknown.contains_key(key) {
                unknown.insert(*key, fresh.len());
                fresh.push(fragment);
            }
        }
        let mut fresh_verdicts = Vec::with_capacity(fresh.len());
        for batch in batches(&fresh) {
            fresh_verdicts.extend(self.judge_batch(&fresh[batch], &build, budget, &is_end).await);
        }
        let mut verdicts = self.verdicts();
        for (key, at) in &unknown {
            match &fresh_verdicts[*at] {
                Verdict::Accepted => verdicts.put(*key, Ok(())),
                Verdict::Refused(refusal) => verdicts.put(*key, Err(refusal.clone())),
                Verdict::Unknown(_) => {}
            }
        }
        let verdict = |key: &Key| match unknown.get(key) {
            Some(at) => fresh_verdicts[*at].clone(),
            None => match verdicts.get(*key) {
                Some(Ok(())) => Verdict::Accepted,
                Some(Err(refusal)) => Verdict::Refused(refusal),
                None => Verdict::Unknown("it was forgotten meanwhile".into()),
            },
        };
        keys.iter().map(verdict).collect()
    }

    async fn judge_batch(
        &self,
        batch: &[&Fragment],
        build: &Build,
        budget: &mut Budget,
        is_end: impl Fn(&Outcome) -> bool,
    ) -> Vec<Verdict> {
        let found = self.search(batch, budget, is_end).await;
        let verdict = |found| match found {
            Found::Accepted => Verdict::Accepted,
            Found::Unknown(why) => Verdict::Unknown(why),
            Found::ToBlame(outcome) => {
                let how = match outcome {
                    Outcome::Refused(words) => How::Words(words),
                    Outcome::Crashed(signal) => How::Crash(signal),
                    Outcome::OutOfMemory => How::Memory,
                    Outcome::Ended(end) => How::End(end),
                    Outcome::TooExpensive | Outcome::Stalled | Outcome::Accepted | Outcome::Unavailable(_) => How::Time,
                };
                Verdict::Refused(Arc::new(Refusal { build: build.clone(), how }))
            }
        };
        found.into_iter().map(verdict).collect()
    }

    async fn search(&self, batch: &[&Fragment], budget: &mut Budget, is_end: impl Fn(&Outcome) -> bool) -> Vec<Found> {
        let run = async |range: Range<usize>| {
            let batch = &batch[range];
            let fragments = u32::try_from(batch.len()).unwrap_or(u32::MAX);
            let outcome = self.way.run(Job { bootstrap: self.wrapper.bootstrap(batch).into(), fragments }).await;
            if is_end(&outcome) {
                return Outcome::Unavailable("a batch that it was in ended without a word".into());
            }
            outcome
        };
        search(batch.len(), budget, run).await
    }

    fn verdicts(&self) -> MutexGuard<'_, Verdicts> {
        // What a thread that panicked left is sound: each verdict is put by one call.
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ranges of what is judged together: 10,000, and 8 MiB of them.
pub fn batches(fragments: &[&Fragment]) -> Vec<Range<usize>> {
    let mut batches: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (at, fragment) in fragments.iter().enumerate() {
        bytes += fragment.bytes.len();
        match batches.last_mut() {
            Some(batch) if batch.len() < MAX_FRAGMENTS && bytes <= MAX_BYTES => batch.end = at + 1,
            _ => {
                batches.push(at..at + 1);
                bytes = fragment.bytes.len();
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use envoy::judged::Kind;

    use super::*;

    #[test]
    fn a_batch_is_bounded_by_number_and_by_bytes() {
        let small = Fragment::new(Kind::Cluster, &b"x"[..]);
        let large = Fragment::new(Kind::Cluster, vec![0; MAX_BYTES / 2 + 1]);
        assert_eq!(batches(&vec![&small; MAX_FRAGMENTS + 1]), [0..MAX_FRAGMENTS, MAX_FRAGMENTS..MAX_FRAGMENTS + 1]);
        assert_eq!(batches(&[&small, &large, &large, &small]), [0..2, 2..4]);
        assert!(batches(&[]).is_empty());
    }
}
