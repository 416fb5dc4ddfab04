//! Who is judged when, so that nobody waits for what another one writes.
//!
//! Two batches are judged at a time, one of each lane:
//!
//! * What **clean** namespaces have, all together, beginning where the last batch ended. A batch that ended without a word is
//!   halved by namespace until it is known whose word is missing: nobody else is judged apart, or blamed.
//! * One namespace at a time of those of which something was refused a short time ago, or was in a batch that ended without a
//!   word. Each has so much time a minute: who writes what takes long waits for it himself.
//!
//! Nothing here does IO or knows a clock.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use envoy::judged::{Fragment, Kind};
use translate::inspect::Sent;

/// How many fragments a batch has at most, and how many bytes of them.
const MAX_FRAGMENTS: usize = 10_000;
const MAX_BYTES: usize = 8 << 20;
/// For how long a namespace is not clean of which something was refused.
const MEMORY: Duration = Duration::from_mins(10);
/// How much time a namespace that is not clean has, and in how long.
const TIME: Duration = Duration::from_secs(2);
const WINDOW: Duration = Duration::from_mins(1);

/// How much longer one may take that is judged alone.
const ALONE: Duration = Duration::from_secs(30);

/// A fragment, whatever object it is of.
type Id = (Kind, [u8; 16]);

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
}

/// What became of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Became {
    Accepted,
    Refused,
    /// A process that had it ended without a word.
    Suspect,
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

/// What shall be judged.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// By namespace.
    wanted: BTreeMap<Arc<str>, Vec<Fragment>>,
    suspects: HashSet<Id>,
    /// Parts of batches that ended without a word, each of several namespaces or of one that is tried alone.
    halves: VecDeque<Vec<Id>>,
    /// Whether the next batch of clean namespaces is one of those.
    is_halved_next: bool,
    /// The namespace at which the last batch of clean ones ended.
    last: Option<Arc<str>>,
    in_flight: HashSet<Id>,
    /// When something of a namespace was last refused.
    refused: HashMap<Arc<str>, Instant>,
    /// How long it took to judge what a namespace has, since when.
    spent: HashMap<Arc<str>, (Instant, Duration)>,
    /// How many fragments of a namespace are judged together, where more of them took all of its time and nobody learned anything.
    most: HashMap<Arc<str>, usize>,
}

impl Lanes {
    /// Shall be judged, in place of all that should be before. Of what is not wanted any more nothing is remembered.
    pub(crate) fn want(&mut self, sent: &[Sent], now: Instant) {
        self.wanted.clear();
        let mut all = HashSet::new();
        for Sent { fragment, object, .. } in sent {
            all.insert(id(fragment));
            self.wanted.entry(object.namespace.clone()).or_default().push(fragment.clone());
        }
        self.suspects.retain(|id| all.contains(id));
        self.halves.iter_mut().for_each(|half| half.retain(|id| all.contains(id)));
        self.halves.retain(|half| !half.is_empty());
        self.refused.retain(|_, at| now.saturating_duration_since(*at) < MEMORY);
        self.spent.retain(|_, (since, _)| now.saturating_duration_since(*since) < WINDOW);
    }

    /// What is known of a fragment that nobody has judged.
    pub(crate) fn state(&self, sent: &Sent) -> State {
        let id = id(&sent.fragment);
        if self.suspects.contains(&id) || self.refused.contains_key(&sent.object.namespace) {
            State::Suspect
        } else if self.in_flight.contains(&id) || self.halves.iter().any(|half| half.contains(&id)) {
            State::InFlight
        } else {
            State::Waiting
        }
    }

    /// How much time is left to a namespace that is not clean.
    fn left(&self, namespace: &str, now: Instant) -> Duration {
        match self.spent.get(namespace) {
            Some((since, spent)) if now.saturating_duration_since(*since) < WINDOW => TIME.saturating_sub(*spent),
            _ => TIME,
        }
    }

    /// The next batch of a lane, if there is any: it is in flight until [`Lanes::done`].
    pub(crate) fn next(&mut self, lane: Lane, now: Instant, is_known: impl Fn(&Fragment) -> bool) -> Option<Batch> {
        let batch = match lane {
            Lane::Clean => {
                self.is_halved_next = !self.is_halved_next;
                if self.is_halved_next {
                    self.next_half(&is_known).or_else(|| self.next_clean(&is_known))
                } else {
                    self.next_clean(&is_known).or_else(|| self.next_half(&is_known))
                }
            }
            Lane::Watched => {
                let mut namespaces: Vec<_> = self.wanted.keys().collect();
                namespaces.sort_by_key(|namespace| std::cmp::Reverse(self.left(namespace, now)));
                let of = |namespace: &Arc<str>| {
                    let left = self.left(namespace, now);
                    let is_watched = self.refused.contains_key(namespace);
                    let fragments = self.wanted[namespace].iter();
                    let fragments = fragments.filter(|it| is_watched || self.suspects.contains(&id(it)));
                    let namespace = self.wanted.get_key_value(namespace)?.0;
                    let most = self.most.get(namespace).copied().unwrap_or(MAX_FRAGMENTS);
                    (!left.is_zero()).then(|| self.batch(fragments.map(|it| (namespace, it)), most, left, &is_known))?
                };
                namespaces.into_iter().find_map(of)
            }
        }?;
        self.in_flight.extend(batch.fragments.iter().map(id));
        // Who is alone is to be found out, however long one process takes: that is two of its own, and an empty one.
        let alone = if batch.fragments.len() == 1 { ALONE } else { Duration::ZERO };
        Some(Batch { time: batch.time + alone, ..batch })
    }

    /// What of clean namespaces was in no batch yet, beginning after the namespace at which the last one ended.
    fn next_clean(&mut self, is_known: impl Fn(&Fragment) -> bool) -> Option<Batch> {
        let halved: HashSet<&Id> = self.halves.iter().flatten().collect();
        let (after, before): (Vec<_>, Vec<_>) =
            self.wanted.iter().partition(|(namespace, _)| self.last.as_ref().is_none_or(|last| *namespace > last));
        let clean = after.into_iter().chain(before).filter(|(namespace, _)| !self.refused.contains_key(*namespace));
        let all = clean.flat_map(|(namespace, fragments)| fragments.iter().map(move |it| (namespace, it)));
        let all = all.filter(|(_, it)| !self.suspects.contains(&id(it)) && !halved.contains(&id(it)));
        let batch = self.batch(all, MAX_FRAGMENTS, MEMORY, is_known)?;
        self.last = batch.namespaces.last().cloned();
        Some(batch)
    }

    /// The next part of a batch that ended without a word.
    fn next_half(&mut self, is_known: impl Fn(&Fragment) -> bool) -> Option<Batch> {
        while let Some(half) = self.halves.pop_front() {
            let half: HashSet<_> = half.into_iter().collect();
            let clean = self.wanted.iter().filter(|(namespace, _)| !self.refused.contains_key(*namespace));
            let all = clean.flat_map(|(namespace, fragments)| fragments.iter().map(move |it| (namespace, it)));
            let all = all.filter(|(_, it)| half.contains(&id(it)));
            if let Some(batch) = self.batch(all, MAX_FRAGMENTS, MEMORY, &is_known) {
                return Some(batch);
            }
        }
        None
    }

    fn batch<'a>(
        &self,
        fragments: impl Iterator<Item = (&'a Arc<str>, &'a Fragment)>,
        most: usize,
        time: Duration,
        is_known: impl Fn(&Fragment) -> bool,
    ) -> Option<Batch> {
        let mut batch = Batch { fragments: Vec::new(), namespaces: Vec::new(), time };
        let mut bytes = 0;
        for (namespace, fragment) in fragments {
            if self.in_flight.contains(&id(fragment)) || is_known(fragment) {
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
        let mut wordless: BTreeMap<&Arc<str>, Vec<Id>> = BTreeMap::new();
        for ((fragment, namespace), became) in batch.fragments.iter().zip(&batch.namespaces).zip(became) {
            self.in_flight.remove(&id(fragment));
            match became {
                Became::Accepted => drop(self.suspects.remove(&id(fragment))),
                Became::Refused => drop(self.refused.insert(namespace.clone(), now)),
                Became::Suspect => wordless.entry(namespace).or_default().push(id(fragment)),
                Became::Unknown => {}
            }
        }
        if lane == Lane::Clean && wordless.len() > 1 {
            let mut halves: Vec<Vec<Id>> = wordless.into_values().collect();
            let second = halves.split_off(halves.len() / 2);
            self.halves.extend([halves, second].map(|half| half.into_iter().flatten().collect()));
        } else {
            self.suspects.extend(wordless.into_values().flatten());
        }
        if let (Lane::Watched, Some(namespace)) = (lane, batch.namespaces.first()) {
            let spent = self.spent.entry(namespace.clone()).or_insert((now, Duration::ZERO));
            if now.saturating_duration_since(spent.0) >= WINDOW {
                *spent = (now, Duration::ZERO);
            }
            spent.1 += took;
            if became.iter().all(|it| *it == Became::Unknown) {
                // The others are found sound one half after the other, and who is to blame in the end.
                self.most.insert(namespace.clone(), (batch.fragments.len() / 2).max(1));
            } else {
                self.most.remove(namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use api::{Kind as ObjectKind, ObjectId};

    use super::*;

    fn sent(namespace: &str, text: &str) -> Sent {
        Sent {
            fragment: Fragment::new(Kind::Row, text.as_bytes().to_vec()),
            object: ObjectId::new(ObjectKind::HttpRoute, namespace, "r"),
            field: String::new(),
            route: None,
            is_shared: false,
        }
    }

    fn texts(batch: Option<Batch>) -> Vec<String> {
        let fragments = batch.into_iter().flat_map(|batch| batch.fragments);
        fragments.map(|fragment| String::from_utf8_lossy(&fragment.bytes).into_owned()).collect()
    }

    const NOBODY: fn(&Fragment) -> bool = |_| false;

    #[test]
    fn what_is_in_flight_known_or_not_wanted_any_more_is_in_no_batch() {
        let (mut lanes, now) = (Lanes::default(), Instant::now());
        lanes.want(&[sent("a", "1"), sent("b", "2")], now);
        let batch = lanes.next(Lane::Clean, now, |it| *it.bytes == *b"2").expect("one");
        assert_eq!(texts(Some(batch.clone())), ["1"]);
        assert_eq!(texts(lanes.next(Lane::Clean, now, NOBODY)), ["2"]);
        assert!(lanes.next(Lane::Clean, now, NOBODY).is_none());
        lanes.done(Lane::Clean, &batch, &[Became::Unknown], Duration::ZERO, now);
        assert_eq!(texts(lanes.next(Lane::Clean, now, NOBODY)), ["1"], "nobody knows, so it is asked again");
        lanes.want(&[], now);
        assert!(lanes.next(Lane::Clean, now, NOBODY).is_none());
    }

    #[test]
    fn a_namespace_of_which_something_was_refused_is_judged_apart_for_ten_minutes() {
        let (mut lanes, now) = (Lanes::default(), Instant::now());
        lanes.want(&[sent("good", "1"), sent("bad", "2")], now);
        let batch = lanes.next(Lane::Clean, now, NOBODY).expect("both");
        lanes.done(Lane::Clean, &batch, &[Became::Refused, Became::Accepted], Duration::ZERO, now);
        let all = [sent("good", "3"), sent("bad", "4")];
        lanes.want(&all, now);
        assert_eq!([&all[0], &all[1]].map(|it| lanes.state(it)), [State::Waiting, State::Suspect]);
        assert_eq!(texts(lanes.next(Lane::Clean, now, NOBODY)), ["3"]);
        assert_eq!(texts(lanes.next(Lane::Watched, now, NOBODY)), ["4"]);
        let later = now + MEMORY;
        lanes.want(&[sent("bad", "5")], later);
        assert_eq!(texts(lanes.next(Lane::Clean, later, NOBODY)), ["5"]);
    }

    #[test]
    fn a_batch_that_ended_without_a_word_is_halved_until_one_namespace_is_to_blame() {
        let (mut lanes, now) = (Lanes::default(), Instant::now());
        let all: Vec<_> = (0..64).map(|number| sent(&format!("n{number:02}"), &number.to_string())).collect();
        lanes.want(&all, now);
        let mut batches = 0;
        while let Some(batch) = lanes.next(Lane::Clean, now, NOBODY) {
            let ended = batch.fragments.iter().any(|it| *it.bytes == *b"37");
            let became = if ended { Became::Suspect } else { Became::Accepted };
            lanes.done(Lane::Clean, &batch, &vec![became; batch.fragments.len()], Duration::ZERO, now);
            let left: Vec<_> = all
                .iter()
                .filter(|it| ended || !batch.fragments.iter().any(|other| id(other) == id(&it.fragment)))
                .cloned()
                .collect();
            let left: Vec<_> = left.into_iter().filter(|it| lanes.state(it) != State::Waiting).collect();
            lanes.want(&left, now);
            batches += 1;
        }
        assert!(batches <= 13, "{batches}");
        assert_eq!(lanes.state(&all[37]), State::Suspect);
        assert!(all.iter().filter(|it| *it.fragment.bytes != *b"37").all(|it| lanes.state(it) != State::Suspect));
        assert_eq!(texts(lanes.next(Lane::Watched, now, NOBODY)), ["37"]);
    }

    #[test]
    fn who_fills_batches_leaves_the_next_ones_to_others() {
        let (mut lanes, now) = (Lanes::default(), Instant::now());
        let large = |number: usize| sent("aaa", &number.to_string().repeat(MAX_BYTES / 2 + 1));
        lanes.want(&[large(0), large(1), sent("b", "b")], now);
        assert_eq!(texts(lanes.next(Lane::Clean, now, NOBODY)).len(), 1);
        assert!(texts(lanes.next(Lane::Clean, now, NOBODY)).contains(&"b".to_owned()));
    }

    #[test]
    fn who_has_used_up_his_time_waits_and_nobody_else_does() {
        let (mut lanes, now) = (Lanes::default(), Instant::now());
        let all = [sent("slow", "1"), sent("fast", "2")];
        for one in &all {
            lanes.want(std::slice::from_ref(one), now);
            let batch = lanes.next(Lane::Clean, now, NOBODY).expect("it");
            lanes.done(Lane::Clean, &batch, &[Became::Refused], Duration::ZERO, now);
        }
        lanes.want(&all, now);
        let batch = lanes.next(Lane::Watched, now, |it| *it.bytes == *b"2").expect("slow's");
        lanes.done(Lane::Watched, &batch, &[Became::Suspect], TIME, now);
        assert_eq!(texts(lanes.next(Lane::Watched, now, NOBODY)), ["2"]);
        assert!(lanes.next(Lane::Watched, now, NOBODY).is_none());
        assert_eq!(texts(lanes.next(Lane::Watched, now + WINDOW, NOBODY)), ["1"]);
    }

    #[test]
    fn a_batch_is_bounded_by_number_and_by_bytes() {
        let (mut lanes, now) = (Lanes::default(), Instant::now());
        let many: Vec<_> = (0..=MAX_FRAGMENTS).map(|number| sent("a", &number.to_string())).collect();
        lanes.want(&many, now);
        assert_eq!(texts(lanes.next(Lane::Clean, now, NOBODY)).len(), MAX_FRAGMENTS);
        let large: Vec<_> = (0..3).map(|number| sent("a", &number.to_string().repeat(MAX_BYTES / 2 + 1))).collect();
        lanes.want(&large, now);
        assert_eq!(texts(lanes.next(Lane::Clean, now, NOBODY)).len(), 1);
    }
}
