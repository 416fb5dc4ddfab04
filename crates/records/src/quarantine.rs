//! Which objects are set aside, because this program panicked on them.

use std::{
    collections::BTreeMap,
    fmt,
    hash::{Hash, Hasher},
};

use api::{Kind, Object, ObjectId};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// This release. What one release panics on another may not.
pub const RELEASE: &str = env!("CARGO_PKG_VERSION");
/// The name of the record.
pub const NAME: &str = "portcullis-quarantine";

/// Versions of one object that come within this time of each other are counted together.
const SHORT: SignedDuration = SignedDuration::from_mins(10);
/// How long the third of them waits before anything else of it is tried; each further one waits twice as long.
const FIRST_WAIT: SignedDuration = SignedDuration::from_mins(10);
/// The longest wait.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_hours(24);
/// Nobody is interested any more in what another release did so long ago.
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(24);
/// Versions that are tried without a wait.
const FREE: u32 = 2;

/// Objects that are set aside.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quarantine {
    /// Each with its release, in order.
    pub entries: Vec<Entry>,
}

/// An object that is set aside, or that was a short time ago.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Kind.
    pub kind: String,
    /// Namespace; empty for an object of the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Tells the object from a later one of its name; empty where none is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The number of the last change of its spec; 0 where nobody counts.
    #[serde(default)]
    pub generation: i64,
    /// The hash of what is read of the object: see [`digest`]. Empty of an object of which it is not known whether it fails:
    /// it is tried again.
    pub content: String,
    /// The release that panicked.
    pub release: String,
    /// What panicked, and where in the source; nothing that an object says.
    pub fault: String,
    /// Since when this version is set aside.
    pub since: Timestamp,
    /// How many versions were set aside, each within a short time of the one before.
    pub versions: u32,
    /// Until then no other version is tried either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Whether the object says something else by now, and is not set aside for that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over: bool,
    /// The version that was in force before and stays so, as a manifest, which takes its place also in another process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Value>,
}

/// An object as it is recorded that stays in force: none unless it can be read back as it is, and is sound. What is less than
/// its owner wrote, such as a policy of which only the targets are known, would be wider in another process.
pub fn kept_manifest(object: &Object) -> Option<Value> {
    let manifest = object.manifest()?;
    let read = api::decode(manifest.clone()).ok()?.object;
    let violations = api::violations(object);
    // A rule of a route that is refused is refused again; a policy that is refused closes what it targets anyway.
    let is_sound = api::violations(&read) == violations && (violations.is_empty() || !object.kind().is_policy());
    (is_sound && digest(&read) == digest(object)).then_some(manifest)
}

/// A hash of what is read of an object: of its content, not of its status or its version. Nor of its age, which a file that
/// says none has by its place.
pub fn digest(object: &Object) -> String {
    struct Content(blake3::Hasher);

    impl Hasher for Content {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        fn finish(&self) -> u64 {
            0
        }
    }

    let mut object = object.clone();
    if let Some(metadata) = object.metadata_mut() {
        metadata.creation_timestamp = None;
    }
    let mut content = Content(blake3::Hasher::new());
    object.hash(&mut content);
    content.0.finalize().to_hex()[..32].to_owned()
}

impl Entry {
    /// The object is set aside now, for this fault; `before` is what was known of it, of this release, and `kept` what
    /// stays in force.
    pub fn new(object: &Object, fault: String, kept: Option<&Object>, before: Option<&Self>, now: Timestamp) -> Self {
        let ObjectId { kind, namespace, name } = object.id();
        let content = digest(object);
        let recent = before.filter(|before| before.is_recent(now));
        let versions = match recent {
            Some(before) if before.content == content => before.versions,
            Some(before) => before.versions.saturating_add(1),
            None => 1,
        };
        let waits = versions.checked_sub(FREE + 1);
        let wait = waits.map(|doubled| {
            let seconds = FIRST_WAIT.as_secs().saturating_mul(1_i64.checked_shl(doubled.min(16)).unwrap_or(i64::MAX));
            SignedDuration::from_secs(seconds.min(LONGEST_WAIT.as_secs()))
        });
        Self {
            kind: kind.to_string(),
            namespace: namespace.to_string(),
            name: name.to_string(),
            uid: object.metadata().map(|metadata| metadata.uid.to_string()).unwrap_or_default(),
            generation: object.metadata().map_or(0, |metadata| metadata.generation),
            content,
            release: RELEASE.to_owned(),
            fault,
            since: now,
            versions,
            until: wait.and_then(|wait| now.checked_add(wait).ok()),
            over: false,
            kept: kept.and_then(kept_manifest),
        }
    }

    /// The same of an object that may be innocent: it is tried again, after a wait.
    #[must_use]
    pub fn unproven(self) -> Self {
        let until = self.until.or_else(|| self.since.checked_add(FIRST_WAIT).ok());
        Self { content: String::new(), until, ..self }
    }

    /// The object; none of a kind that this release does not know.
    pub fn object(&self) -> Option<ObjectId> {
        let kind = Kind::ALL.iter().find(|kind| kind.as_str() == self.kind)?;
        Some(ObjectId::new(*kind, self.namespace.as_str(), self.name.as_str()))
    }

    /// What stays in force, if anything does and can be read. Of an object that is not set aside any more nothing does: a
    /// newer version was in force since.
    pub fn kept(&self) -> Option<Object> {
        let kept = self.kept.clone().filter(|_| !self.over)?;
        let object = api::decode(kept).ok()?.object;
        kept_manifest(&object).is_some().then_some(object)
    }

    /// The object is not set aside any more.
    pub fn end(&mut self) {
        self.over = true;
        self.kept = None;
    }

    /// What stays in force of an object on which another release failed too, as long as it says the same.
    pub fn inherited(&self, object: &Object) -> Option<Object> {
        let metadata = object.metadata()?;
        let is_same =
            metadata.generation > 0 && metadata.generation == self.generation || self.content == digest(object);
        self.kept().filter(|_| is_same && *metadata.uid == *self.uid)
    }

    /// By which people name it.
    pub fn id(&self) -> String {
        let name = format!("{}/{}/{}@{}", self.kind, self.namespace, self.name, self.release);
        blake3::hash(name.as_bytes()).to_hex()[..10].to_owned()
    }

    /// Whether it sets this object aside.
    pub fn holds(&self, object: &Object, now: Timestamp) -> bool {
        self.release == RELEASE && (self.is_waiting(now) || self.content == digest(object))
    }

    /// Whether whatever the object says now is not tried yet.
    pub fn is_waiting(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Whether a further version would be counted with it.
    pub fn is_recent(&self, now: Timestamp) -> bool {
        let end = self.until.unwrap_or(self.since).max(self.since);
        self.release == RELEASE && now.duration_since(end) < SHORT
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

impl Quarantine {
    /// The entry of an object, of this release.
    pub fn get(&self, id: &ObjectId) -> Option<&Entry> {
        let of = |entry: &&Entry| entry.release == RELEASE && entry.object().as_ref() == Some(id);
        self.entries.iter().find(of)
    }

    /// The entries of this release by object.
    pub fn by_object(&self) -> BTreeMap<ObjectId, Entry> {
        let ours = self.entries.iter().filter(|entry| entry.release == RELEASE);
        ours.filter_map(|entry| Some((entry.object()?, entry.clone()))).collect()
    }

    /// The entries of other releases by object, the newest of each that has something that stays in force.
    pub fn of_other_releases(&self) -> BTreeMap<ObjectId, Entry> {
        let mut others: Vec<_> = self.entries.iter().filter(|entry| entry.release != RELEASE && !entry.over).collect();
        others.retain(|entry| entry.kept.is_some());
        others.sort_by_key(|entry| entry.since);
        others.into_iter().filter_map(|entry| Some((entry.object()?, entry.clone()))).collect()
    }

    /// What shall be stored where this is: the entries of this release are those of `ours`, and of other releases those
    /// that are not too old to be of interest.
    pub fn with(&self, ours: &BTreeMap<ObjectId, Entry>, now: Timestamp) -> Self {
        let recent = |entry: &&Entry| now.duration_since(entry.since) < FORGOTTEN;
        let others = self.entries.iter().filter(|entry| entry.release != RELEASE).filter(recent);
        let mut entries: Vec<_> = others.chain(ours.values()).cloned().collect();
        entries.sort_by(|a, b| (a.object(), &a.release).cmp(&(b.object(), &b.release)));
        Self { entries }
    }

    /// Without what stays in force of the largest, until it has so many bytes at most.
    pub fn within(mut self, bytes: usize) -> Self {
        let size = |entry: &Entry| serde_json::to_vec(entry).map_or(0, |entry| entry.len() + 1);
        let mut total: usize = 64 + self.entries.iter().map(size).sum::<usize>();
        while total > bytes {
            let kept = self.entries.iter_mut().filter(|entry| entry.kept.is_some()).max_by_key(|entry| size(entry));
            let Some(entry) = kept else { break };
            let before = size(entry);
            entry.kept = None;
            total = total.saturating_sub(before - size(entry));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn route(path: &str) -> Object {
        let manifest = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"namespace": "apps", "name": "r"},
            "spec": {"rules": [{"matches": [{"path": {"value": path}}]}]},
        });
        api::decode(manifest).expect("a route").object
    }

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + 60 * minutes).expect("a time")
    }

    fn entry(path: &str, before: Option<&Entry>, minutes: i64) -> Entry {
        Entry::new(&route(path), "Row at file".into(), None, before, at(minutes))
    }

    #[test]
    fn an_object_is_set_aside_until_it_says_something_else_or_the_release_is_another() {
        let mut entry = entry("/a", None, 0);
        assert!(entry.holds(&route("/a"), at(0)) && entry.holds(&route("/a"), at(100_000)));
        assert!(!entry.holds(&route("/b"), at(0)));
        entry.release = "0.0.0".into();
        assert!(!entry.holds(&route("/a"), at(0)));
    }

    #[test]
    fn the_third_version_within_a_short_time_waits_and_further_ones_twice_as_long_up_to_a_day() {
        let first = entry("/1", None, 0);
        let second = entry("/2", Some(&first), 5);
        assert_eq!([first.until, second.until], [None, None]);
        let third = entry("/3", Some(&second), 10);
        assert_eq!((third.versions, third.until), (3, Some(at(20))));
        assert!(third.holds(&route("/4"), at(19)) && !third.holds(&route("/4"), at(20)));
        let fourth = entry("/4", Some(&third), 20);
        assert_eq!(fourth.until, Some(at(40)));
        let mut last = fourth;
        for path in 5..40 {
            let now = last.until.expect("it waits");
            last = Entry::new(&route(&format!("/{path}")), String::new(), None, Some(&last), now);
            assert!(last.until.expect("it waits").duration_since(now) <= SignedDuration::from_hours(24));
        }
        assert_eq!(last.until.expect("it waits").duration_since(last.since), SignedDuration::from_hours(24));
        // Who has been good for a while begins anew.
        assert_eq!(entry("/5", Some(&third), 31).versions, 1);
        // The same version again is no further one.
        assert_eq!(entry("/3", Some(&third), 12).versions, 3);
    }

    #[test]
    fn what_stays_in_force_comes_back_as_it_was() {
        let entry = Entry::new(&route("/bad"), String::new(), Some(&route("/good")), None, at(0));
        assert_eq!(entry.kept(), Some(route("/good")));
    }

    #[test]
    fn what_is_less_than_its_owner_wrote_is_not_recorded_as_what_stays_in_force() {
        let manifest = json!({
            "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy", "metadata": {"namespace": "apps", "name": "p"},
            "spec": {
                "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "r"}],
                "timeouts": {"request": "5s"},
            },
        });
        let policy = api::decode(manifest).expect("a policy").object;
        assert!(kept_manifest(&policy).is_some());
        let targets = policy.targets_only(api::Violation::without_value("spec", "is set aside")).expect("a policy");
        assert!(targets.manifest().is_some());
        assert_eq!(kept_manifest(&targets), None);
        let extension = |field: &str| {
            let manifest = json!({
                "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "GatewayExtension",
                "metadata": {"namespace": "apps", "name": "e"},
                "spec": {"extAuth": {"grpcService": {"backendRef": {"name": "s", "port": 80}}, field: true}},
            });
            api::decode(manifest).expect("an extension").object
        };
        assert!(kept_manifest(&extension("failOpen")).is_some());
        assert_eq!(kept_manifest(&extension("newer")), None);
    }

    #[test]
    fn what_stays_in_force_goes_on_to_another_release_while_the_object_says_the_same() {
        let mut entry = Entry::new(&route("/bad"), String::new(), Some(&route("/good")), None, at(0));
        assert_eq!(entry.inherited(&route("/bad")), Some(route("/good")));
        assert_eq!(entry.inherited(&route("/other")), None);
        entry.uid = "another".to_owned();
        assert_eq!(entry.inherited(&route("/bad")), None);
        entry.uid = String::new();
        entry.end();
        assert_eq!((entry.inherited(&route("/bad")), entry.kept()), (None, None));
    }

    #[test]
    fn who_may_be_innocent_is_tried_again_after_a_wait() {
        let entry = entry("/a", None, 0).unproven();
        assert!(entry.holds(&route("/a"), at(9)) && !entry.holds(&route("/a"), at(10)));
        let again = Entry::new(&route("/a"), String::new(), None, Some(&entry), at(11)).unproven();
        let third = Entry::new(&route("/a"), String::new(), None, Some(&again), at(22)).unproven();
        let fourth = Entry::new(&route("/a"), String::new(), None, Some(&third), at(33)).unproven();
        assert_eq!((third.until, fourth.until), (Some(at(32)), Some(at(53))));
    }

    #[test]
    fn entries_of_other_releases_stay_for_a_day() {
        let mut other = entry("/a", None, 0);
        other.release = "0.0.0".into();
        let stored = Quarantine { entries: vec![other.clone()] };
        let ours = BTreeMap::from([(route("/b").id(), entry("/b", None, 5))]);
        let both = stored.with(&ours, at(10));
        assert_eq!(both.entries.len(), 2);
        assert_eq!(both.by_object(), ours);
        assert_eq!(both.with(&BTreeMap::new(), at(10)).entries, [other]);
        assert_eq!(both.with(&BTreeMap::new(), at(2000)).entries, []);
    }

    #[test]
    fn what_stays_in_force_is_left_out_where_there_is_no_room() {
        let long = route(&format!("/{}", "x".repeat(5000)));
        let large = Entry::new(&route("/bad"), String::new(), Some(&long), None, at(0));
        let quarantine = Quarantine { entries: vec![large, entry("/b", None, 0)] };
        assert_eq!(quarantine.clone().within(100_000), quarantine);
        let small = quarantine.within(2000);
        assert_eq!(small.entries.iter().map(|entry| entry.kept.is_some()).collect::<Vec<_>>(), [false, false]);
    }
}
