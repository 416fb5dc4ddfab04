//! What proxies refused, in force: by what is recorded, and by what was found since.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use api::ObjectId;
use envoy::judged::Fragment;
use ir::NsName;
use jiff::Timestamp;
use records::{
    Verdict,
    verdicts::{self, Full},
};
use tokio::sync::watch;
use translate::{RefusedRows, Translator, refused_clusters_of};
use xds::EnvoyVersion;

use super::{
    handle::{Overruling, Refusals, StoredRecord, Storing},
    isolation::Reviewed,
};
use crate::metrics::Metrics;

/// How often it is looked which of them something meets.
const LOOK: Duration = Duration::from_mins(10);

/// What proxies refused.
pub(super) struct Verdicts {
    /// All that is in force.
    all: records::Verdicts,
    /// What of it was found here, and is not known to be stored.
    found: BTreeMap<String, Verdict>,
    used: Option<Arc<BTreeSet<String>>>,
    looked: Option<Instant>,
    /// The versions of the proxies that are connected, by their streams; none of one that says none.
    proxies: HashMap<u64, Option<EnvoyVersion>>,
    /// Since when it is looked which are.
    watched_since: Option<Instant>,
    /// The Envoy that judges here, and what of that which another version refused it takes.
    judge: Option<Overruling>,
    /// What it refuses of that.
    confirmed: BTreeSet<String>,
    /// The number of the record that is known.
    known: u64,
    /// Whether nobody has looked yet what is recorded.
    awaited: bool,
    /// Why the record cannot be read.
    unreadable: Option<String>,
    storing: watch::Sender<Storing<Refusals>>,
    metrics: Metrics,
}

impl Verdicts {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self {
            all: records::Verdicts::default(),
            found: BTreeMap::new(),
            used: None,
            looked: None,
            proxies: HashMap::new(),
            watched_since: None,
            judge: None,
            confirmed: BTreeSet::new(),
            known: 0,
            awaited: false,
            unreadable: None,
            storing: watch::Sender::default(),
            metrics,
        }
    }

    /// Nothing is served before it is known what is recorded.
    pub(super) fn wait(&mut self) {
        self.awaited = true;
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.awaited
    }

    /// Why the record cannot be read.
    pub(super) fn unreadable(&self) -> Option<&str> {
        self.unreadable.as_deref()
    }

    /// What shall be stored, as it changes.
    pub(super) fn storing(&self) -> watch::Receiver<Storing<Refusals>> {
        self.storing.subscribe()
    }

    /// Takes over what is stored: what others found is in force here too, and what was forgotten is no more. Whether anything was.
    pub(super) fn take(&mut self, stored: StoredRecord<records::Verdicts>, translator: &mut Translator) -> bool {
        self.awaited = false;
        let mut is_less = false;
        match stored.record {
            Ok(mut record) => {
                self.found.retain(|hash, _| !record.entries.contains_key(hash));
                // What there is no room for in the record is in force all the same.
                record.entries.extend(self.found.clone());
                let before = std::mem::replace(&mut self.all, record);
                let (before, now) = (&before.entries, &self.all.entries);
                let gone: Vec<_> = before.iter().filter(|(hash, _)| !now.contains_key(*hash)).collect();
                let new: Vec<_> = now.iter().filter(|(hash, _)| !before.contains_key(*hash)).collect();
                is_less = !gone.is_empty();
                // What is refused again is asked about again.
                if let Some(judge) = &mut self.judge {
                    judge.accepts.retain(|hash| now.contains_key(hash));
                }
                self.confirmed.retain(|hash| now.contains_key(hash));
                use_all(&mut self.used, new.iter().map(|(hash, _)| (*hash).clone()));
                let turned: BTreeSet<_> =
                    gone.iter().chain(&new).filter_map(|(_, verdict)| Place::of(verdict)).collect();
                self.write(&turned, translator);
                (self.known, self.unreadable) = (stored.number, None);
            }
            Err(why) => {
                if self.unreadable.as_ref() != Some(&why) {
                    tracing::error!(why, "what proxies refused cannot be read; what is known of it stays in force");
                }
                self.unreadable = Some(why);
            }
        }
        self.tell();
        is_less
    }

    /// Adds what was found. How many of them there is no room for.
    pub(super) fn add(&mut self, found: Vec<(String, Verdict)>, translator: &mut Translator) -> usize {
        let (mut turned, mut left) = (BTreeSet::new(), 0);
        for (hash, verdict) in found {
            let (id, place) = (verdicts::id(&hash).to_owned(), Place::of(&verdict));
            if self.all.entries.contains_key(&hash) {
                continue;
            }
            match self.all.add(hash.clone(), verdict.clone()) {
                Ok(()) => {
                    tracing::error!(
                        verdict = id, part = verdict.part, object = %verdict, gateway = verdict.gateway, why = verdict.words,
                        "a proxy refused this, which is closed from now on; please report it"
                    );
                    use_all(&mut self.used, [hash.clone()]);
                    self.found.insert(hash, verdict.bounded());
                    turned.extend(place);
                }
                Err(Full) => {
                    tracing::error!(object = %verdict, "a proxy refused this, and too much is refused already");
                    left += 1;
                }
            }
        }
        // Others gave way.
        self.found.retain(|hash, _| self.all.entries.contains_key(hash));
        self.write(&turned, translator);
        self.tell();
        left
    }

    /// Has what is refused at these places be in force.
    fn write(&self, places: &BTreeSet<Place>, translator: &mut Translator) {
        let mut all: BTreeMap<_, RefusedRows> =
            places.iter().map(|place| (place.clone(), RefusedRows::default())).collect();
        for (hash, verdict) in &self.all.entries {
            let refused = Place::of(verdict).and_then(|place| all.get_mut(&place));
            if let (Some(refused), Some(content)) = (refused, number(hash)) {
                let words = format!("{}: {}", by_proxy(hash), verdict.words);
                refused.insert(content, words, is_said(verdict));
            }
        }
        for (place, refused) in all {
            match place {
                Place::Route(route) => _ = translator.set_refused_by_proxies(&route, refused),
                Place::Clusters(holder) => translator.set_refused_clusters(&holder, refused),
            }
        }
    }

    /// Whether it is to be looked which of them something meets.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let is_old = self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= LOOK);
        is_old && !self.all.entries.is_empty()
    }

    /// Takes note of a proxy that comes or goes.
    pub(super) fn meet(&mut self, event: &xds::Event) {
        match event {
            xds::Event::Connected { envoy, stream, .. } => {
                let is_first = !self.proxies.values().any(|version| version == envoy);
                self.proxies.insert(*stream, *envoy);
                // As long as it is there its version counts.
                if is_first && !self.all.entries.is_empty() {
                    self.tell();
                }
            }
            xds::Event::Disconnected { stream, .. } => _ = self.proxies.remove(stream),
            _ => {}
        }
    }

    /// Takes over what the Envoy that judges says of what another version refused.
    pub(super) fn take_reviewed(&mut self, Reviewed { version, taken }: Reviewed) {
        let Some(judge) = self.judge.as_mut().filter(|judge| judge.version == version) else { return };
        for (hash, is_taken) in taken {
            tracing::info!(
                verdict = verdicts::id(&hash),
                version,
                is_taken,
                "what another version refused was judged anew"
            );
            let said = if is_taken { &mut judge.accepts } else { &mut self.confirmed };
            said.insert(hash);
        }
        self.tell();
    }

    /// Now and then, which of them something meets. Gives what the Envoy that judges, of this version, is to be asked anew: another
    /// version refused it, of which there is no proxy any more.
    pub(super) fn look(&mut self, translator: &Translator, judge: Option<String>, now: Instant) -> Vec<Fragment> {
        if !self.is_due(now) {
            return Vec::new();
        }
        self.looked = Some(now);
        // One that is away is asked when it is back.
        if judge.is_some() && judge.as_ref() != self.judge.as_ref().map(|judge| &judge.version) {
            self.judge = judge.map(|version| Overruling { version, accepts: BTreeSet::new() });
            self.confirmed.clear();
        }
        let all = self.all.entries.iter().map(|(hash, verdict)| (hash, verdict, by_proxy(hash)));
        let (clusters, routes): (Vec<_>, Vec<_>) = all.partition(|(_, verdict, _)| verdict.is_cluster());
        let routes: Vec<_> =
            routes.into_iter().filter_map(|(hash, it, text)| Some((hash, it.object()?, text))).collect();
        let rows = routes.iter().map(|(_, object, text)| (object, &**text));
        let used = translator.inspect().may_be_refused(translator, rows);
        let routes = routes.iter().map(|(hash, ..)| *hash).zip(used);
        let mut used: BTreeSet<_> = routes.filter(|(_, is_used)| *is_used).map(|(hash, _)| hash.clone()).collect();
        if !clusters.is_empty() {
            let hashes = clusters.iter().map(|(hash, _, text)| (number(hash).unwrap_or_default(), &**text));
            let left_out = translator.inspect().are_left_out(hashes);
            let clusters = clusters.iter().map(|(hash, ..)| *hash).zip(left_out);
            used.extend(clusters.filter(|(_, is_used)| *is_used).map(|(hash, _)| hash.clone()));
        }
        self.used = Some(Arc::new(used));
        self.watched_since.get_or_insert(now);
        self.tell();
        if self.has_watched(now) { self.outdated(translator) } else { Vec::new() }
    }

    /// Whether a proxy that is there has had the time to come back, also where no controller was there for long.
    fn has_watched(&self, now: Instant) -> bool {
        let enough = verdicts::UNSEEN.unsigned_abs();
        self.watched_since.is_some_and(|since| now.saturating_duration_since(since) >= enough)
    }

    fn outdated(&self, translator: &Translator) -> Vec<Fragment> {
        let Some(judge) = &self.judge else { return Vec::new() };
        let outdated = self.all.outdated(&judge.version, Timestamp::now());
        let outdated: Vec<_> =
            outdated.filter(|hash| !judge.accepts.contains(*hash) && !self.confirmed.contains(*hash)).collect();
        if outdated.is_empty() {
            return Vec::new();
        }
        let routes = outdated.iter().filter_map(|hash| self.all.entries.get(*hash)?.object());
        let hashes = outdated.iter().filter_map(|hash| number(hash));
        translator.inspect().refused(&hashes.collect(), &routes.collect())
    }

    fn versions(&self) -> BTreeSet<String> {
        let versions: BTreeSet<_> = self.proxies.values().collect();
        versions.into_iter().map(|version| version.map(|version| version.to_string()).unwrap_or_default()).collect()
    }

    fn tell(&self) {
        self.metrics.quarantined_fragments.set(i64::try_from(self.all.entries.len()).unwrap_or(i64::MAX));
        let wanted = Refusals {
            found: Arc::new(self.found.clone()),
            used: self.used.clone(),
            proxies: self.versions(),
            judge: self.judge.clone(),
        };
        self.storing.send_replace(Storing { number: self.known, wanted });
    }
}

/// Where what is refused is in force.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// A route.
    Route(ObjectId),
    /// The clusters that stand with an object.
    Clusters(ObjectId),
}

impl Place {
    /// None of what this release does not know.
    fn of(verdict: &Verdict) -> Option<Self> {
        let object = verdict.object()?;
        if !verdict.is_cluster() {
            return Some(Self::Route(object));
        }
        let (namespace, name) = verdict.gateway()?;
        Some(Self::Clusters(refused_clusters_of(&object, &NsName::new(namespace, name))))
    }
}

/// Whether an Envoy said so itself.
fn is_said(verdict: &Verdict) -> bool {
    ["words", "nack"].contains(&&*verdict.how)
}

/// A hash as it stands in the record.
fn number(hash: &str) -> Option<[u8; 16]> {
    u128::from_str_radix(hash, 16).ok().map(u128::to_be_bytes)
}

/// What is new is met by something, until somebody looks.
fn use_all(used: &mut Option<Arc<BTreeSet<String>>>, new: impl IntoIterator<Item = String>) {
    if let Some(used) = used {
        Arc::make_mut(used).extend(new);
    }
}

/// What the owner is told of who refused it.
fn by_proxy(hash: &str) -> String {
    format!("a proxy refused it (verdict {})", verdicts::id(hash))
}

#[cfg(test)]
mod tests {
    use envoy::resource::ResourceKind;
    use jiff::Timestamp;

    use super::*;
    use crate::{
        files::Update,
        testing::{Memory, world},
    };

    struct World {
        translator: Translator,
        files: Memory,
        verdicts: Verdicts,
    }

    impl World {
        fn new() -> Self {
            let (translator, verdicts) = (Translator::new(ir::Settings::default()), Verdicts::new(Metrics::default()));
            let mut world_ = Self { translator, files: Memory::default(), verdicts };
            world_.write(&route("/a", "/b"));
            world_
        }

        fn write(&mut self, text: &str) {
            let Update { changes, .. } = self.files.write("a.yaml", text);
            for change in changes {
                self.translator.apply(change);
            }
            self.translator.settle();
        }

        /// What stands for each path.
        fn served(&mut self) -> Vec<(String, bool)> {
            self.translator.settle();
            let resources = self.translator.resources().into_values().flatten();
            let config = resources.filter(|(key, _)| key.kind == ResourceKind::RouteConfiguration);
            let config = config.map(|(_, encoded)| encoded.body.to_bytes()).next().expect("a configuration");
            let config = envoy::json::value(ResourceKind::RouteConfiguration.message_name(), &config).expect("JSON");
            let routes = config["virtualHosts"][0]["routes"].as_array().cloned().unwrap_or_default();
            let of = |route: &serde_json::Value| {
                let path = route["match"]["pathSeparatedPrefix"].as_str().unwrap_or_default().to_owned();
                (path, route["directResponse"].is_object())
            };
            routes.iter().map(of).collect()
        }

        /// A verdict on what stands for a path.
        fn on(&self, path: &str) -> (String, Verdict) {
            let gateway = ir::NsName::new("web", "edge");
            let rows = self.translator.inspect().rows_of(&gateway, "http/8080");
            let has = |bytes: &[u8]| bytes.windows(path.len()).any(|window| window == path.as_bytes());
            let row = rows.iter().find(|sent| has(&sent.fragment.bytes)).expect("a row");
            let verdict = Verdict {
                part: "route".into(),
                kind: row.object.kind.to_string(),
                namespace: row.object.namespace.to_string(),
                name: row.object.name.to_string(),
                gateway: gateway.to_string(),
                version: "1.40.0".into(),
                how: "words".into(),
                words: "Envoy 1.40.0 refuses it: no".into(),
                since: Timestamp::UNIX_EPOCH,
                unused_since: None,
            };
            (format!("{:032x}", u128::from_be_bytes(row.fragment.hash)), verdict)
        }

        fn stores(&mut self, number: u64, entries: &[(String, Verdict)]) {
            let seen = BTreeMap::from([("1.40.0".to_owned(), Timestamp::UNIX_EPOCH)]);
            let record = Ok(records::Verdicts { entries: entries.iter().cloned().collect(), seen });
            self.verdicts.take(StoredRecord { number, record }, &mut self.translator);
        }
    }

    fn route(first: &str, second: &str) -> String {
        let rule =
            |path: &str| format!("{{matches: [{{path: {{value: {path}}}}}], backendRefs: [{{name: app, port: 80}}]}}");
        world(8080).replace(
            "rules: [{backendRefs: [{name: app, port: 80}]}]",
            &format!("rules: [{}, {}]", rule(first), rule(second)),
        )
    }

    fn served(all: [(&str, bool); 2]) -> Vec<(String, bool)> {
        all.map(|(path, replaced)| (path.to_owned(), replaced)).to_vec()
    }

    #[test]
    fn what_is_refused_alone_answers_by_itself_until_it_is_forgotten() {
        let mut w = World::new();
        assert_eq!(w.served(), served([("/a", false), ("/b", false)]));
        let verdict = w.on("/b");
        assert_eq!(w.verdicts.add(vec![verdict.clone()], &mut w.translator), 0);
        assert_eq!(w.served(), served([("/a", false), ("/b", true)]));
        let told = w.translator.problems_of(&verdict.1.object().expect("a route"));
        let id = verdicts::id(&verdict.0);
        let words = format!("a proxy refused it (verdict {id}): Envoy 1.40.0 refuses it: no");
        assert!(told.iter().any(|problem| problem.message.contains(&words)), "{told:?}");
        assert_eq!(w.verdicts.storing().borrow().wanted.found.len(), 1);
        // It is stored, and forgotten.
        w.stores(1, &[verdict]);
        assert!(w.verdicts.storing().borrow().wanted.found.is_empty());
        assert_eq!(w.served(), served([("/a", false), ("/b", true)]));
        w.stores(2, &[]);
        assert_eq!(w.served(), served([("/a", false), ("/b", false)]));
    }

    #[test]
    fn a_replica_that_reads_it_serves_the_same_and_a_route_that_changes_is_tried_anew() {
        let (mut found, mut other) = (World::new(), World::new());
        let verdict = found.on("/b");
        found.verdicts.add(vec![verdict.clone()], &mut found.translator);
        other.verdicts.wait();
        assert!(other.verdicts.is_awaited());
        other.stores(1, &[verdict]);
        assert!(!other.verdicts.is_awaited());
        other.served();
        found.served();
        assert_eq!(found.translator.resources(), other.translator.resources());
        other.write(&route("/a", "/c"));
        assert_eq!(other.served(), served([("/a", false), ("/c", false)]));
        other.write(&route("/a", "/b"));
        assert_eq!(other.served(), served([("/a", false), ("/b", true)]), "it is what it was");
    }

    #[test]
    fn it_is_known_which_are_met_by_something() {
        let mut w = World::new();
        let (a, b) = (w.on("/a"), w.on("/b"));
        w.verdicts.add(vec![a, b.clone()], &mut w.translator);
        w.write(&route("/c", "/b"));
        let start = Instant::now();
        w.verdicts.look(&w.translator, None, start);
        let used = |w: &World| w.verdicts.storing().borrow().wanted.used.clone();
        assert_eq!(used(&w).as_deref(), Some(&BTreeSet::from([b.0])));
        w.write(&route("/c", "/d"));
        w.verdicts.look(&w.translator, None, start + LOOK / 2);
        assert_eq!(used(&w).map(|used| used.len()), Some(1), "it was looked a short time ago");
        w.verdicts.look(&w.translator, None, start + LOOK);
        assert_eq!(used(&w).map(|used| used.len()), Some(0));
    }

    #[test]
    fn of_what_another_version_refused_that_is_gone_the_one_that_judges_is_asked_once() {
        let mut w = World::new();
        let (a, b) = (w.on("/a"), w.on("/b"));
        w.stores(1, &[a.clone(), b.clone()]);
        w.served();
        let start = Instant::now();
        let look = |w: &mut World, judge: &str, looks: u32| {
            let asked = w.verdicts.look(&w.translator, Some(judge.to_owned()), start + looks * LOOK);
            asked.iter().map(|it| format!("{:032x}", u128::from_be_bytes(it.hash))).collect::<BTreeSet<_>>()
        };
        let both = BTreeSet::from([a.0.clone(), b.0.clone()]);
        for looks in 0..8 {
            assert!(look(&mut w, "1.41.0", looks).is_empty(), "proxies that are there may still have to come back");
        }
        assert!(look(&mut w, "1.40.0", 8).is_empty(), "it is the one that refused it");
        assert_eq!(look(&mut w, "1.41.0", 9), both);
        let taken = vec![(a.0.clone(), true), (b.0.clone(), false)];
        w.verdicts.take_reviewed(Reviewed { version: "1.40.0".into(), taken: taken.clone() });
        assert_eq!(look(&mut w, "1.41.0", 10), both, "nobody of this version has answered");
        w.verdicts.take_reviewed(Reviewed { version: "1.41.0".into(), taken });
        assert!(look(&mut w, "1.41.0", 11).is_empty());
        let judge = |w: &World| w.verdicts.storing().borrow().wanted.judge.clone().expect("a judge");
        assert_eq!(judge(&w).version, "1.41.0");
        assert_eq!(judge(&w).accepts, BTreeSet::from([a.0.clone()]));
        assert_eq!(w.served(), served([("/a", true), ("/b", true)]), "it holds until the record says otherwise");
        // Who leads forgets it; refused once more, it is asked about once more.
        w.stores(2, std::slice::from_ref(&b));
        assert_eq!(w.served(), served([("/a", false), ("/b", true)]));
        w.stores(3, &[a.clone(), b]);
        w.served();
        assert_eq!(look(&mut w, "1.41.0", 12), BTreeSet::from([a.0]));
        assert_eq!(look(&mut w, "1.42.0", 13), both, "another one may say otherwise");
    }

    #[test]
    fn it_is_told_of_which_versions_proxies_are_there_at_once_where_that_matters() {
        let mut w = World::new();
        let verdict = w.on("/b");
        let connected = |stream: u64, minor: u32| xds::Event::Connected {
            gateway: "web/edge".into(),
            node_id: String::new(),
            envoy: (minor > 0).then_some(EnvoyVersion { major: 1, minor, patch: 0 }),
            stream,
        };
        let told = |w: &World| w.verdicts.storing().borrow().wanted.proxies.clone();
        w.verdicts.meet(&connected(1, 41));
        assert!(told(&w).is_empty(), "nothing was refused");
        w.stores(1, &[verdict]);
        assert_eq!(told(&w), BTreeSet::from(["1.41.0".to_owned()]));
        w.verdicts.meet(&connected(2, 40));
        assert_eq!(told(&w), BTreeSet::from(["1.40.0".to_owned(), "1.41.0".to_owned()]));
        w.verdicts.meet(&connected(3, 0));
        assert_eq!(told(&w).len(), 3, "one that says none");
        w.verdicts.meet(&xds::Event::Disconnected { gateway: "web/edge".into(), stream: 3 });
        w.verdicts.meet(&xds::Event::Disconnected { gateway: "web/edge".into(), stream: 2 });
        w.verdicts.look(&w.translator, None, Instant::now());
        assert_eq!(told(&w), BTreeSet::from(["1.41.0".to_owned()]));
    }

    #[test]
    fn a_record_that_cannot_be_read_takes_nothing_back() {
        let mut w = World::new();
        let verdict = w.on("/b");
        w.stores(1, &[verdict]);
        w.verdicts.take(StoredRecord { number: 2, record: Err("damaged".into()) }, &mut w.translator);
        assert_eq!(w.verdicts.unreadable(), Some("damaged"));
        assert_eq!(w.served(), served([("/a", false), ("/b", true)]));
    }
}
