//! What proxies refused, in force: by what is recorded, and by what was found since.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use api::ObjectId;
use records::{
    Verdict,
    verdicts::{self, Full},
};
use tokio::sync::watch;
use translate::{RefusedRows, Translator};

use super::handle::{Refusals, StoredRecord, Storing};
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
                use_all(&mut self.used, new.iter().map(|(hash, _)| (*hash).clone()));
                let turned: BTreeSet<_> = gone.iter().chain(&new).filter_map(|(_, verdict)| verdict.object()).collect();
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
            let (id, object) = (verdicts::id(&hash).to_owned(), verdict.object());
            if self.all.entries.contains_key(&hash) {
                continue;
            }
            match self.all.add(hash.clone(), verdict.clone()) {
                Ok(()) => {
                    tracing::error!(
                        verdict = id, object = %verdict, gateway = verdict.gateway, why = verdict.words,
                        "a proxy refused this route, which answers 500 from now on; please report it"
                    );
                    use_all(&mut self.used, [hash.clone()]);
                    self.found.insert(hash, verdict.bounded());
                    turned.extend(object);
                }
                Err(Full) => {
                    tracing::error!(object = %verdict, "a proxy refused this route, and too many are refused already");
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

    /// Has what is refused of these objects be in force.
    fn write(&self, objects: &BTreeSet<ObjectId>, translator: &mut Translator) {
        let mut rows: BTreeMap<_, RefusedRows> =
            objects.iter().map(|object| (object.clone(), RefusedRows::default())).collect();
        for (hash, verdict) in &self.all.entries {
            let rows = verdict.object().and_then(|object| rows.get_mut(&object));
            if let (Some(rows), Ok(number)) = (rows, u128::from_str_radix(hash, 16)) {
                let words = format!("{}: {}", by_proxy(hash), verdict.words);
                rows.insert(number.to_be_bytes(), words, verdict.how == "words");
            }
        }
        for (object, rows) in rows {
            translator.set_refused_by_proxies(&object, rows);
        }
    }

    /// Whether it is to be looked which of them something meets.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let is_old = self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= LOOK);
        is_old && !self.all.entries.is_empty()
    }

    /// Now and then, which of them something meets.
    pub(super) fn look(&mut self, translator: &Translator, now: Instant) {
        if !self.is_due(now) {
            return;
        }
        self.looked = Some(now);
        let all: Vec<_> =
            self.all.entries.iter().filter_map(|(hash, it)| Some((hash, it.object()?, by_proxy(hash)))).collect();
        let rows = all.iter().map(|(_, object, text)| (object, &**text));
        let used = translator.inspect().may_be_refused(translator, rows);
        let used = all.iter().zip(used).filter(|(_, used)| *used).map(|((hash, ..), _)| (*hash).clone());
        self.used = Some(Arc::new(used.collect()));
        self.tell();
    }

    fn tell(&self) {
        self.metrics.quarantined_fragments.set(i64::try_from(self.all.entries.len()).unwrap_or(i64::MAX));
        let wanted = Refusals { found: Arc::new(self.found.clone()), used: self.used.clone() };
        self.storing.send_replace(Storing { number: self.known, wanted });
    }
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
            let record = Ok(records::Verdicts { entries: entries.iter().cloned().collect() });
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
        w.verdicts.look(&w.translator, start);
        let used = |w: &World| w.verdicts.storing().borrow().wanted.used.clone();
        assert_eq!(used(&w).as_deref(), Some(&BTreeSet::from([b.0])));
        w.write(&route("/c", "/d"));
        w.verdicts.look(&w.translator, start + LOOK / 2);
        assert_eq!(used(&w).map(|used| used.len()), Some(1), "it was looked a short time ago");
        w.verdicts.look(&w.translator, start + LOOK);
        assert_eq!(used(&w).map(|used| used.len()), Some(0));
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
