//! Who is judged when, so that nobody waits for what another one writes.
//!
//! Two batches are judged at a time, one of each lane:
//!
//! * What **clean** namespaces have, all together, beginning where the last batch ended. A batch that ended without a word is
//!   halved by namespace until it is known whose word is missing: nobody else is judged apart, or blamed. Halves go first, and
//!   are judged whether anybody still waits for them: who writes something else meanwhile is found all the same. So is one with
//!   which the judge went away for the second time. While there is no judge a half stays what it is.
//! * One namespace at a time of those of which something was refused a short time ago, or that was found so. Each has so much time
//!   a minute: who writes what takes long waits for it himself. Where nobody else waits it has half of all time, so that a mistake
//!   is mended soon where a judge is slow; with whom the judge went away has no more in that minute.
//!
//! Nothing here does IO or knows a clock.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    ops::Bound,
    sync::Arc,
    time::{Duration, Instant},
};

use envoy::judged::Fragment;
use translate::{
    inspect::Sent,
    strict::{Asked, FragmentId as Id},
};

/// How many fragments a batch has at most, and how many bytes of them.
const MAX_FRAGMENTS: usize = 10_000;
const MAX_BYTES: usize = 8 << 20;
/// For how long a namespace is judged apart after something of it was refused, or ended a batch without a word.
const MEMORY: Duration = Duration::from_mins(10);
/// How much time a namespace that is not clean has, and in how long.
const TIME: Duration = Duration::from_secs(2);
const WINDOW: Duration = Duration::from_mins(1);

/// How much longer one may take that is judged alone.
const ALONE: Duration = Duration::from_secs(30);

fn id(fragment: &Fragment) -> Id {
    (fragment.kind, fragment.hash)
}

/// Which of the two lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Of namespaces that are clean, all together.
    Clean,
    /// Of one that is not.
    Watched,
}

/// What is judged together.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) fragments: Vec<Fragment>,
    /// Whose each of them is.
    pub(crate) namespaces: Vec<Arc<str>>,
    /// How long it may take.
    pub(crate) time: Duration,
    /// Whether it is a part of one that ended without a word.
    is_half: bool,
}

/// What became of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Became {
    Accepted,
    Refused,
    /// A process that had it ended without a word.
    Suspect,
    /// The judge went away with it.
    Lost,
    /// There was no judge.
    Unasked,
    Unknown,
}

/// What is known of a fragment that nobody has judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It may not be sent for want of a word, since that is its owner's fault.
    Suspect,
    /// It is judged.
    InFlight,
    /// It waits for its turn.
    Waiting,
}

/// What is in no batch, by namespace, in the order in which it came.
type Queues = BTreeMap<Arc<str>, BTreeMap<u64, Fragment>>;

/// Fragments of a batch by namespace.
type BySpace = BTreeMap<Arc<str>, Vec<Fragment>>;

/// What shall be judged.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// All of it, with its number.
    wanted: HashMap<Asked, u64>,
    /// The namespaces in whose names each is.
    names: HashMap<Id, BTreeSet<Arc<str>>>,
    last_number: u64,
    queues: Queues,
    /// Parts of batches that ended without a word, each of several namespaces or of one that is tried alone.
    halves: VecDeque<Vec<(Arc<str>, Fragment)>>,
    is_halved: HashSet<Id>,
    /// The namespace at which the last batch of clean ones ended.
    last: Option<Arc<str>>,
    in_flight: HashSet<Id>,
    /// The namespaces that are judged apart, and when they were last found to be to blame.
    apart: BTreeMap<Arc<str>, Instant>,
    /// What those had in a batch that ended without a word, of whom nothing was refused: once all of it is accepted, it was
    /// something else.
    doubted: BTreeMap<Arc<str>, HashSet<Id>>,
    /// The namespaces of batches with which the judge went away: when, and how many batches had been judged then.
    lost: BTreeMap<Arc<str>, (Instant, u64)>,
    /// How many batches were judged.
    judged: u64,
    /// Which lanes have a batch in flight, and whether that of the clean ones had the other beside it.
    busy: [bool; 2],
    is_overlapped: bool,
    /// How long it took to judge what a namespace has, since when.
    spent: HashMap<Arc<str>, (Instant, Duration)>,
    /// How many fragments of a namespace are judged together, where more of them took all of its time and nobody learned anything.
    most: HashMap<Arc<str>, usize>,
    /// About which something else is known than before.
    turned: Vec<Id>,
}

impl Lanes {
    /// Shall be judged, or no longer. Of what is not wanted any more nothing is remembered.
    pub(crate) fn want(&mut self, more: Vec<Sent>, less: &[Asked]) {
        for asked in less {
            let Some(number) = self.wanted.remove(asked) else { continue };
            let (id, namespace) = asked;
            remove(&mut self.queues, namespace, number);
            if let Some(names) = self.names.get_mut(id) {
                names.remove(namespace);
                if names.is_empty() {
                    self.names.remove(id);
                }
            }
            if !self.queues.contains_key(namespace) {
                self.most.remove(namespace);
            }
        }
        for Sent { fragment, object, .. } in more {
            let asked = (id(&fragment), object.namespace);
            if self.wanted.contains_key(&asked) {
                continue;
            }
            self.last_number += 1;
            self.wanted.insert(asked.clone(), self.last_number);
            self.names.entry(asked.0).or_default().insert(asked.1.clone());
            self.queue(asked.1, self.last_number, fragment);
        }
    }

    fn queue(&mut self, namespace: Arc<str>, number: u64, fragment: Fragment) {
        self.queues.entry(namespace).or_default().insert(number, fragment);
    }

    /// Has what was in a batch be in the next one again, if it is wanted still.
    fn queue_again(&mut self, namespace: &Arc<str>, fragment: &Fragment) {
        if let Some(number) = self.wanted.get(&(id(fragment), namespace.clone())) {
            self.queue(namespace.clone(), *number, fragment.clone());
        }
    }

    /// The fragments about which something else is known than when this was asked last.
    pub(crate) fn take_turned(&mut self) -> Vec<Id> {
        std::mem::take(&mut self.turned)
    }

    /// What is known of a fragment that nobody has judged.
    pub(crate) fn state(&self, sent: &Sent) -> State {
        let id = id(&sent.fragment);
        if self.apart.contains_key(&sent.object.namespace) {
            State::Suspect
        } else if self.in_flight.contains(&id) || self.is_halved.contains(&id) {
            State::InFlight
        } else {
            State::Waiting
        }
    }

    /// What a namespace that is not clean has used up in how long of its minute; nothing of one that is over.
    fn spent(&self, namespace: &str, now: Instant) -> (Duration, Duration) {
        let spent = self.spent.get(namespace).map(|(since, spent)| (*spent, now.saturating_duration_since(*since)));
        spent.filter(|(_, passed)| *passed < WINDOW).unwrap_or_default()
    }

    /// The next batch of a lane, if there is any: it is in flight until [`Lanes::done`].
    pub(crate) fn next(&mut self, lane: Lane, now: Instant, is_known: impl Fn(&Fragment) -> bool) -> Option<Batch> {
        self.apart.retain(|_, at| now.saturating_duration_since(*at) < MEMORY);
        self.doubted.retain(|namespace, _| self.apart.contains_key(namespace));
        self.lost.retain(|_, (at, _)| now.saturating_duration_since(*at) < MEMORY);
        self.spent.retain(|_, (since, _)| now.saturating_duration_since(*since) < WINDOW);
        let batch = match lane {
            Lane::Clean => self.next_half(&is_known).or_else(|| self.next_clean(&is_known)),
            Lane::Watched => self.next_watched(now, &is_known),
        }?;
        for (fragment, namespace) in batch.fragments.iter().zip(&batch.namespaces) {
            self.in_flight.insert(id(fragment));
            if let Some(number) = self.wanted.get(&(id(fragment), namespace.clone())).copied() {
                remove(&mut self.queues, namespace, number);
            }
        }
        let is_other_busy = self.busy[1 - lane as usize];
        self.is_overlapped = is_other_busy || lane == Lane::Watched && self.is_overlapped;
        self.busy[lane as usize] = true;
        // Who is alone is to be found out, however long one process takes: that is two of its own, and an empty one.
        let alone = if batch.fragments.len() == 1 { ALONE } else { Duration::ZERO };
        Some(Batch { time: batch.time + alone, ..batch })
    }

    /// What of clean namespaces was in no batch yet, beginning after the namespace at which the last one ended.
    fn next_clean(&mut self, is_known: impl Fn(&Fragment) -> bool) -> Option<Batch> {
        let start: Bound<&Arc<str>> = Bound::Unbounded;
        let after = self.last.as_ref().map_or(start, Bound::Excluded);
        let before = self.last.as_ref().map(|last| (start, Bound::Included(last)));
        let queues = self.queues.range::<Arc<str>, _>((after, start));
        let queues = queues.chain(before.into_iter().flat_map(|range| self.queues.range::<Arc<str>, _>(range)));
        let clean = queues.filter(|(namespace, _)| !self.apart.contains_key(*namespace));
        let all = clean.flat_map(|(namespace, queue)| queue.values().map(move |it| (namespace, it)));
        let batch = self.batch(all, MAX_FRAGMENTS, MEMORY, is_known)?;
        self.last = batch.namespaces.last().cloned();
        Some(batch)
    }

    /// The next part of a batch that ended without a word.
    fn next_half(&mut self, is_known: impl Fn(&Fragment) -> bool) -> Option<Batch> {
        while let Some(half) = self.halves.pop_front() {
            for (_, fragment) in &half {
                self.is_halved.remove(&id(fragment));
            }
            let (clean, others): (Vec<_>, Vec<_>) =
                half.into_iter().partition(|(namespace, _)| !self.apart.contains_key(namespace));
            let all = clean.iter().map(|(namespace, it)| (namespace, it));
            let batch = self.batch(all, MAX_FRAGMENTS, MEMORY, &is_known);
            let batch = batch.map(|batch| Batch { is_half: true, ..batch });
            // Who is judged apart by now is judged there, and what is in flight in another name comes again.
            for (namespace, fragment) in others.iter().chain(&clean) {
                self.queue_again(namespace, fragment);
            }
            if batch.is_some() {
                return batch;
            }
        }
        None
    }

    /// What one namespace has that is judged apart: of the one that has used up least of its time, if any is left to it or it has
    /// rested for as long as it was judged.
    fn next_watched(&mut self, now: Instant, is_known: impl Fn(&Fragment) -> bool) -> Option<Batch> {
        let namespaces = self.apart.keys().filter(|namespace| self.queues.contains_key(*namespace));
        let mut namespaces: Vec<_> = namespaces.map(|it| (self.spent(it, now), it)).collect();
        namespaces.sort_by_key(|((spent, _), _)| *spent);
        namespaces.into_iter().find_map(|((spent, passed), namespace)| {
            let left = match TIME.saturating_sub(spent) {
                Duration::ZERO if passed < 2 * spent => return None,
                Duration::ZERO => TIME,
                left => left,
            };
            let queue = self.queues.get(namespace).into_iter().flat_map(BTreeMap::values);
            let most = self.most.get(namespace).copied().unwrap_or(MAX_FRAGMENTS);
            self.batch(queue.map(|it| (namespace, it)), most, left, &is_known)
        })
    }

    fn batch<'a>(
        &self,
        fragments: impl Iterator<Item = (&'a Arc<str>, &'a Fragment)>,
        most: usize,
        time: Duration,
        is_known: impl Fn(&Fragment) -> bool,
    ) -> Option<Batch> {
        let mut batch = Batch { fragments: Vec::new(), namespaces: Vec::new(), time, is_half: false };
        let (mut bytes, mut taken) = (0, HashSet::new());
        for (namespace, fragment) in fragments {
            if self.in_flight.contains(&id(fragment)) || is_known(fragment) || !taken.insert(id(fragment)) {
                continue;
            }
            bytes += fragment.bytes.len();
            if batch.fragments.len() == most || bytes > MAX_BYTES && !batch.fragments.is_empty() {
                break;
            }
            batch.fragments.push(fragment.clone());
            batch.namespaces.push(namespace.clone());
        }
        (!batch.fragments.is_empty()).then_some(batch)
    }

    /// Takes note of what became of a batch, and of how long that took.
    pub(crate) fn done(&mut self, lane: Lane, batch: &Batch, became: &[Became], took: Duration, now: Instant) {
        self.busy[lane as usize] = false;
        let mut wordless = BySpace::new();
        let (mut refused, mut unasked) = (BTreeSet::new(), Vec::new());
        for ((fragment, namespace), became) in batch.fragments.iter().zip(&batch.namespaces).zip(became) {
            self.in_flight.remove(&id(fragment));
            self.turned.push(id(fragment));
            match became {
                Became::Refused => drop(refused.insert(namespace.clone())),
                Became::Accepted => self.trust(namespace, fragment),
                Became::Suspect | Became::Lost => {
                    wordless.entry(namespace.clone()).or_default().push(fragment.clone());
                    continue;
                }
                // Nobody learned anything, and who is to blame is searched for on.
                Became::Unasked if batch.is_half => {
                    unasked.push((namespace.clone(), fragment.clone()));
                    continue;
                }
                Became::Unasked | Became::Unknown => {}
            }
            // Who knows by now what he waited for wants it no more.
            self.queue_again(namespace, fragment);
        }
        if !unasked.is_empty() {
            self.is_halved.extend(unasked.iter().map(|(_, fragment)| id(fragment)));
            self.halves.push_front(unasked);
        }
        for namespace in &refused {
            self.set_apart(namespace, now);
            self.doubted.remove(namespace);
        }
        let is_lost = became.contains(&Became::Lost);
        if became.iter().any(|it| matches!(it, Became::Accepted | Became::Refused)) {
            self.judged += 1;
        }
        if lane == Lane::Watched {
            self.queue_all_again(wordless);
            self.watch(batch, became, took, now);
        } else if is_lost {
            self.lose(wordless, now);
        } else if wordless.len() > 1 {
            self.halve(wordless);
        } else {
            for (namespace, fragments) in &wordless {
                if !self.apart.contains_key(namespace) {
                    self.doubted.insert(namespace.clone(), fragments.iter().map(id).collect());
                }
                self.set_apart(namespace, now);
            }
            self.queue_all_again(wordless);
        }
    }

    /// A fragment of a namespace is accepted. Where that was the last of what a batch had that ended without a word, the namespace
    /// was not to blame for that. Who takes out what he is to blame for stays apart.
    fn trust(&mut self, namespace: &Arc<str>, fragment: &Fragment) {
        let Some(doubted) = self.doubted.get_mut(namespace) else { return };
        doubted.remove(&id(fragment));
        if doubted.is_empty() {
            self.doubted.remove(namespace);
            self.apart.remove(namespace);
            self.turned.extend(self.queues.get(namespace).into_iter().flat_map(BTreeMap::values).map(id));
        }
    }

    /// The judge went away with these.
    fn lose(&mut self, lost: BySpace, now: Instant) {
        let is_alone = lost.len() == 1;
        // What was judged beside it may have been it.
        let (again, once): (BySpace, BySpace) =
            lost.into_iter().partition(|(namespace, _)| !self.is_overlapped && self.lost.contains_key(namespace));
        let judged = self.judged;
        if !self.is_overlapped {
            self.lost.extend(once.keys().map(|namespace| (namespace.clone(), (now, judged))));
        }
        self.queue_all_again(once);
        if !is_alone {
            self.halve(again);
            return;
        }
        // A judge that has judged nothing since goes away with whatever it is given.
        let is_to_blame =
            |(namespace, _): &(&Arc<str>, _)| self.lost.get(*namespace).is_some_and(|(_, at)| *at < judged);
        let to_blame: Vec<_> = again.iter().filter(is_to_blame).map(|(namespace, _)| namespace.clone()).collect();
        for namespace in &to_blame {
            self.set_apart(namespace, now);
        }
        self.queue_all_again(again);
    }

    /// Has these be judged by halves of their namespaces.
    fn halve(&mut self, wordless: BySpace) {
        let mut halves: Vec<_> = wordless.into_iter().collect();
        let second = halves.split_off(halves.len() / 2);
        for half in [halves, second].into_iter().filter(|half| !half.is_empty()) {
            let half = half.into_iter().flat_map(|(namespace, fragments)| {
                fragments.into_iter().map(move |fragment| (namespace.clone(), fragment))
            });
            let half: Vec<_> = half.collect();
            self.is_halved.extend(half.iter().map(|(_, fragment)| id(fragment)));
            self.halves.push_back(half);
        }
    }

    /// Has a namespace be judged apart from now on: what it has may be sent by no other word than Envoy's.
    fn set_apart(&mut self, namespace: &Arc<str>, now: Instant) {
        if self.apart.insert(namespace.clone(), now).is_none() {
            self.turned.extend(self.queues.get(namespace).into_iter().flat_map(BTreeMap::values).map(id));
        }
    }

    /// Takes note of what it took to judge a namespace apart. With what the judge goes away all its time of that minute is used up.
    fn watch(&mut self, batch: &Batch, became: &[Became], took: Duration, now: Instant) {
        let Some(namespace) = batch.namespaces.first() else { return };
        let spent = self.spent.entry(namespace.clone()).or_insert((now, Duration::ZERO));
        if now.saturating_duration_since(spent.0) >= WINDOW {
            *spent = (now, Duration::ZERO);
        }
        spent.1 += if became.contains(&Became::Lost) { took.max(WINDOW) } else { took };
        if became.contains(&Became::Unasked) {
            return;
        }
        let is_wanted = self.queues.contains_key(namespace);
        if is_wanted && became.iter().all(|it| matches!(it, Became::Unknown | Became::Lost)) {
            // The others are found sound one half after the other, and who is to blame in the end.
            self.most.insert(namespace.clone(), (batch.fragments.len() / 2).max(1));
        } else {
            self.most.remove(namespace);
        }
    }

    fn queue_all_again(&mut self, all: BySpace) {
        for (namespace, fragments) in all {
            for fragment in fragments {
                self.queue_again(&namespace, &fragment);
            }
        }
    }
}

fn remove(queues: &mut Queues, namespace: &Arc<str>, number: u64) {
    if let Some(queue) = queues.get_mut(namespace) {
        queue.remove(&number);
        if queue.is_empty() {
            queues.remove(namespace);
        }
    }
}

#[cfg(test)]
mod tests;
