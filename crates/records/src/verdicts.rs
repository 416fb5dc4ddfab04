//! What proxies refused, and an Envoy that judges, or they, said who is to blame: verdicts.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use api::{Kind, ObjectId};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::store::MAX_BYTES;

/// The name of the record.
pub const NAME: &str = "portcullis-verdicts";

/// A route of Envoy's, see [`Verdict::part`].
pub const ROUTE: &str = "route";
/// A cluster.
pub const CLUSTER: &str = "cluster";

/// How many there are at most: of all, of those that the proxies of one Gateway refused, and of one namespace.
const MOST: usize = 10_000;
const MOST_OF_GATEWAY: usize = 1_000;
const MOST_OF_NAMESPACE: usize = 100;
/// So long one is kept that nothing meets any more.
const UNUSED: SignedDuration = SignedDuration::from_hours(24);
/// So long no proxy of another version was seen before the word of an Envoy that judges counts: an hour, and as long as it may take
/// until it is recorded that one is there.
pub const UNSEEN: SignedDuration = SignedDuration::from_mins(60 + 2 * SEEN_EVERY.as_mins());
/// How often it is recorded that a proxy is there. Who records it looks as often.
const SEEN_EVERY: SignedDuration = SignedDuration::from_mins(10);
/// How many versions are told apart. Proxies say themselves which they have.
const MOST_SEEN: usize = 16;
/// Of the versions that are not told apart, and of proxies that say none.
const OTHER: &str = "";
/// The most bytes of words.
const WORDS: usize = 512;
/// What a verdict takes beside its texts: the names of its fields, and times.
const FRAME: usize = 256;
/// How many digits of a hash people see.
const DIGITS: usize = 10;

/// All of them, by the content hash of what is refused, in hexadecimal digits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdicts {
    /// Each with its hash.
    pub entries: BTreeMap<String, Verdict>,
    /// When a proxy of each version was last there, as far as that may matter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub seen: BTreeMap<String, Timestamp>,
}

/// A part of what was sent, which proxies do not take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// What it is: [`ROUTE`] or [`CLUSTER`].
    pub part: String,
    /// The kind of the object that it is made from.
    pub kind: String,
    /// The namespace of that.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The Gateway whose proxies refused it first, `NAMESPACE/NAME`.
    pub gateway: String,
    /// The version of Envoy that refuses it.
    pub version: String,
    /// How, as metrics call it: `words`, `crash`, `time`, `memory` or `end`; `nack` where the proxy itself was asked.
    pub how: String,
    /// Why, as the owner of the object is told.
    pub words: String,
    /// Since when.
    pub since: Timestamp,
    /// Since when nothing meets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unused_since: Option<Timestamp>,
}

/// There is no room for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Verdict {
    /// The object; none of a kind that this release does not know.
    pub fn object(&self) -> Option<ObjectId> {
        let kind = Kind::ALL.iter().find(|kind| kind.as_str() == self.kind)?;
        Some(ObjectId::new(*kind, self.namespace.as_str(), self.name.as_str()))
    }

    /// The Gateway whose proxies refused it first; none where that is no name.
    pub fn gateway(&self) -> Option<(&str, &str)> {
        self.gateway.split_once('/')
    }

    /// Whether it is on a cluster.
    pub fn is_cluster(&self) -> bool {
        self.part == CLUSTER
    }

    /// The same with no more words than are kept.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        let end = self.words.floor_char_boundary(WORDS);
        if end < self.words.len() {
            self.words.truncate(end);
            self.words.push('…');
        }
        self
    }

    /// How many bytes it takes in a record, at most: words are one line, and each byte of them may have to be escaped.
    fn bytes(&self, hash: &str) -> usize {
        let Self { part, kind, namespace, name, gateway, version, how, words, .. } = self;
        let texts = [hash, part, kind, namespace, name, gateway, version, how];
        FRAME + texts.map(str::len).iter().sum::<usize>() + 2 * words.len()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// By which people name the verdict on what has this hash.
pub fn id(hash: &str) -> &str {
    hash.get(..DIGITS).unwrap_or(hash)
}

impl Verdicts {
    /// Adds one, as far as there is room: the one that is unused for longest gives way.
    ///
    /// # Errors
    /// There is none.
    pub fn add(&mut self, hash: String, verdict: Verdict) -> Result<(), Full> {
        if self.entries.contains_key(&hash) {
            return Ok(());
        }
        let verdict = verdict.bounded();
        let of_namespace = |other: &Verdict| other.namespace == verdict.namespace;
        let of_gateway = |other: &Verdict| other.gateway == verdict.gateway;
        self.make_room(MOST_OF_NAMESPACE, of_namespace)?;
        self.make_room(MOST_OF_GATEWAY, of_gateway)?;
        self.make_room(MOST, |_| true)?;
        let bytes = |all: &Self| {
            128 + (MOST_SEEN + 1) * FRAME + all.entries.iter().map(|(hash, verdict)| verdict.bytes(hash)).sum::<usize>()
        };
        while bytes(self) + verdict.bytes(&hash) > MAX_BYTES {
            self.forget_unused(|_| true)?;
        }
        self.entries.insert(hash, verdict);
        Ok(())
    }

    fn make_room(&mut self, most: usize, of: impl Fn(&Verdict) -> bool) -> Result<(), Full> {
        while self.entries.values().filter(|verdict| of(verdict)).count() >= most {
            self.forget_unused(&of)?;
        }
        Ok(())
    }

    /// Forgets the one that is unused for longest.
    fn forget_unused(&mut self, of: impl Fn(&Verdict) -> bool) -> Result<(), Full> {
        let unused = self.entries.iter().filter(|(_, verdict)| of(verdict));
        let unused = unused.filter_map(|(hash, verdict)| Some((verdict.unused_since?, hash.clone())));
        let (_, hash) = unused.min().ok_or(Full)?;
        self.entries.remove(&hash);
        Ok(())
    }

    /// What shall be stored where this is: with those that were found, as far as there is room. `used` are those that something
    /// meets, where that is known: others are forgotten after a day.
    pub fn with(&self, found: &BTreeMap<String, Verdict>, used: Option<&BTreeSet<String>>, now: Timestamp) -> Self {
        let mut all = self.clone();
        if let Some(used) = used {
            for (hash, verdict) in &mut all.entries {
                verdict.unused_since = if used.contains(hash) { None } else { verdict.unused_since.or(Some(now)) };
            }
            let is_old =
                |verdict: &Verdict| verdict.unused_since.is_some_and(|since| now.duration_since(since) > UNUSED);
            all.entries.retain(|_, verdict| !is_old(verdict));
        }
        for (hash, verdict) in found {
            // What there is no room for is in force for as long as this process lives.
            let _: Result<(), Full> = all.add(hash.clone(), verdict.clone());
        }
        all
    }

    /// Takes note that proxies of these versions are there. One that says none has an empty one.
    pub fn see(&mut self, versions: &BTreeSet<String>, now: Timestamp) {
        if self.entries.is_empty() {
            return;
        }
        for version in versions {
            let is_told_apart = self.seen.contains_key(version) || self.seen.len() < MOST_SEEN && version.len() < FRAME;
            let last = self.seen.entry(if is_told_apart { version.clone() } else { OTHER.to_owned() }).or_default();
            if now.duration_since(*last) >= SEEN_EVERY {
                *last = now;
            }
        }
    }

    /// Forgets what an Envoy of version `judge` `accepts`, where another version refused it and only proxies of version `judge` were
    /// seen for an hour. Of versions of which none was ever seen, it is looked from now on.
    pub fn overrule(&mut self, judge: &str, accepts: &BTreeSet<String>, now: Timestamp) {
        let overruled: BTreeSet<_> =
            self.outdated(judge, now).filter(|hash| accepts.contains(*hash)).cloned().collect();
        self.entries.retain(|hash, _| !overruled.contains(hash));
        let others: BTreeSet<_> =
            self.entries.values().map(|verdict| &verdict.version).filter(|it| *it != judge).collect();
        self.seen.retain(|version, last| others.contains(version) || now.duration_since(*last) < UNSEEN);
        for version in others {
            if self.seen.len() < MOST_SEEN {
                self.seen.entry(version.clone()).or_insert(now);
            }
        }
    }

    /// What an Envoy of version `judge` is to be asked about anew: another version refused it, and only proxies of version `judge`
    /// were seen for an hour. A proxy of a third version may refuse it too, and never met it.
    pub fn outdated(&self, judge: &str, now: Timestamp) -> impl Iterator<Item = &String> {
        let mut others = self.seen.iter().filter(|(version, _)| *version != judge);
        let are_gone = others.all(|(_, last)| now.duration_since(*last) >= UNSEEN);
        let is_outdated =
            move |verdict: &Verdict| are_gone && verdict.version != judge && self.seen.contains_key(&verdict.version);
        self.entries.iter().filter(move |(_, verdict)| is_outdated(verdict)).map(|(hash, _)| hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RecordKind, format};

    fn verdict(namespace: &str, gateway: &str) -> Verdict {
        Verdict {
            part: "route".into(),
            kind: "HTTPRoute".into(),
            namespace: namespace.into(),
            name: "r".into(),
            gateway: gateway.into(),
            version: "1.40.0".into(),
            how: "words".into(),
            words: "Envoy 1.40.0 refuses it: no".into(),
            since: Timestamp::UNIX_EPOCH,
            unused_since: None,
        }
    }

    fn hash(number: usize) -> String {
        format!("{number:032x}")
    }

    fn hours(hours: i64) -> Timestamp {
        Timestamp::from_second(hours * 3600).expect("a time")
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut all = Verdicts::default();
        assert_eq!(all.add(hash(1), verdict("a", "infra/edge")), Ok(()));
        let written = format::write(RecordKind::Verdicts, &all);
        assert_eq!(format::read(RecordKind::Verdicts, &written), Ok(all));
        assert_eq!(verdict("a", "g").object().map(|object| object.to_string()), Some("HTTPRoute a/r".into()));
    }

    #[test]
    fn one_namespace_and_one_gateway_fill_their_own_share_alone() {
        let mut all = Verdicts::default();
        for number in 0..MOST_OF_NAMESPACE {
            assert_eq!(all.add(hash(number), verdict("a", "infra/edge")), Ok(()));
        }
        assert_eq!(all.add(hash(500), verdict("a", "infra/other")), Err(Full));
        assert_eq!(all.add(hash(0), verdict("a", "infra/edge")), Ok(()), "it is there");
        for number in MOST_OF_NAMESPACE..MOST_OF_GATEWAY {
            let namespace = format!("n{}", number / MOST_OF_NAMESPACE);
            assert_eq!(all.add(hash(number), verdict(&namespace, "infra/edge")), Ok(()));
        }
        assert_eq!(all.add(hash(5000), verdict("b", "infra/edge")), Err(Full));
        assert_eq!(all.add(hash(5000), verdict("b", "infra/other")), Ok(()));
    }

    #[test]
    fn the_record_has_as_many_bytes_as_a_store_takes_whatever_words_are() {
        let mut all = Verdicts::default();
        let wordy = |namespace: usize| Verdict { words: "ü".repeat(4096), ..verdict(&namespace.to_string(), "") };
        let mut number = 0;
        while all.add(hash(number), Verdict { gateway: (number / 900).to_string(), ..wordy(number) }).is_ok() {
            number += 1;
        }
        assert!(number > 500, "{number}");
        assert!(format::write(RecordKind::Verdicts, &all).len() <= MAX_BYTES);
        let nothing_found = BTreeMap::new();
        let all = all.with(&nothing_found, Some(&BTreeSet::new()), hours(1));
        let found = BTreeMap::from([(hash(number), verdict("new", "new"))]);
        let all = all.with(&found, None, hours(2));
        assert!(all.entries.contains_key(&hash(number)), "what is unused gives way");
    }

    #[test]
    fn what_nothing_meets_is_forgotten_after_a_day_and_what_something_meets_never() {
        let mut all = Verdicts::default();
        all.add(hash(1), verdict("a", "g")).expect("room");
        all.add(hash(2), verdict("a", "g")).expect("room");
        let (none, used) = (BTreeMap::new(), BTreeSet::from([hash(1)]));
        let all = all.with(&none, Some(&used), hours(1));
        assert_eq!(all.entries[&hash(2)].unused_since, Some(hours(1)));
        assert_eq!(all.with(&none, Some(&used), hours(20)), all, "a look changes nothing");
        assert_eq!(all.with(&none, None, hours(99)), all, "nor does anything, as long as nobody knows");
        let again = all.with(&none, Some(&BTreeSet::from([hash(1), hash(2)])), hours(20));
        assert_eq!(again.entries[&hash(2)].unused_since, None);
        let all = all.with(&none, Some(&used), hours(26));
        assert_eq!(all.entries.keys().collect::<Vec<_>>(), [&hash(1)]);
    }
    #[test]
    fn what_another_version_accepts_is_forgotten_an_hour_after_the_last_proxy_of_the_one_that_refused_it() {
        let minutes = |minutes: i64| Timestamp::from_second(minutes * 60).expect("a time");
        let (old, new) = ("1.40.0", "1.41.0");
        let mut all = Verdicts::default();
        all.add(hash(1), verdict("a", "g")).expect("room");
        all.add(hash(2), verdict("a", "g")).expect("room");
        all.add(hash(3), Verdict { version: new.into(), ..verdict("a", "g") }).expect("room");
        let (accepts, proxies) = (BTreeSet::from([hash(1), hash(3)]), BTreeSet::from([old.to_owned()]));
        let hashes = |all: &Verdicts| all.entries.keys().cloned().collect::<Vec<_>>();
        let asked = |all: &Verdicts, now| all.outdated(new, minutes(now)).cloned().collect::<Vec<_>>();
        // The version that judges is nobody's but its own.
        all.see(&proxies, minutes(0));
        all.overrule(old, &accepts, minutes(0));
        assert_eq!(all.seen.keys().collect::<Vec<_>>(), [old, new]);
        all.seen.clear();
        all.overrule(new, &accepts, minutes(500));
        assert_eq!((hashes(&all).len(), all.seen.get(old)), (3, Some(&minutes(500))), "it is looked from now on");
        // As long as proxies are there that refuse it, it holds.
        for now in (510..900).step_by(10) {
            all.see(&proxies, minutes(now));
            all.overrule(new, &accepts, minutes(now));
        }
        let before = all.clone();
        all.see(&proxies, minutes(895));
        all.overrule(new, &accepts, minutes(895));
        assert_eq!(all, before, "a look changes nothing");
        assert_eq!((hashes(&all).len(), asked(&all, 949)), (3, vec![]));
        all.overrule(new, &accepts, minutes(949));
        assert_eq!(hashes(&all).len(), 3, "no hour has gone");
        assert_eq!(asked(&all, 970), [hash(1), hash(2)]);
        all.overrule(new, &accepts, minutes(970));
        assert_eq!(hashes(&all), [hash(2), hash(3)], "what it refuses too is refused");
        all.entries.remove(&hash(2));
        all.overrule(new, &accepts, minutes(980));
        assert!(all.seen.is_empty());
    }

    #[test]
    fn while_proxies_of_a_third_version_or_of_none_are_there_nothing_is_forgotten() {
        let minutes = |minutes: i64| Timestamp::from_second(minutes * 60).expect("a time");
        for third in ["1.39.0", ""] {
            let mut all = Verdicts::default();
            all.add(hash(1), verdict("a", "g")).expect("room");
            let accepts = BTreeSet::from([hash(1)]);
            all.overrule("1.41.0", &accepts, minutes(0));
            for now in (10..200).step_by(10) {
                all.see(&[third.to_owned(), "1.41.0".to_owned()].into(), minutes(now));
                all.overrule("1.41.0", &accepts, minutes(now));
                assert_eq!(all.entries.len(), 1, "{third}: {now}");
            }
            all.overrule("1.41.0", &accepts, minutes(269));
            assert_eq!(all.entries.len(), 1, "{third}");
            all.overrule("1.41.0", &accepts, minutes(270));
            assert!(all.entries.is_empty(), "{third}");
        }
    }

    #[test]
    fn proxies_that_say_ever_other_versions_fill_no_record() {
        let mut all = Verdicts::default();
        all.see(&["1.40.0".to_owned()].into(), hours(1));
        assert!(all.seen.is_empty(), "there is nothing to forget");
        all.add(hash(1), verdict("a", "g")).expect("room");
        for number in 0..100 {
            all.see(&[number.to_string()].into(), hours(1));
        }
        assert_eq!((all.seen.len(), all.seen[OTHER]), (MOST_SEEN + 1, hours(1)));
        assert_eq!(all.outdated("0", hours(2)).count(), 0);
    }
}
