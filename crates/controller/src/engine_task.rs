//! The task that owns the translator: events in, snapshots out.
//!
//! Everything that is ready is taken as one batch, settled once, and published. Nothing else touches the translator.
//! Each part has one subject:
//!
//! * `handle` is what the task reacts to, and how it is asked.
//! * `cluster` is a cluster as the source of objects, and gets back what became of them.
//! * `publisher` publishes snapshots, and which Gateways are served.
//! * `proxies` logs, counts and remembers what proxies report.
//! * `diagnostics` logs and counts what is wrong with objects.
//! * `freeze` has trees keep their last good version.
//! * `strict` has Envoy asked before anything is sent.
//! * `ports` checks whether ports can be bound, where Envoys run on this host.

mod cluster;
mod diagnostics;
mod freeze;
mod handle;
mod isolation;
mod ports;
mod proxies;
mod publisher;
mod strict;
mod verdicts;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::take,
    pin::pin,
    sync::Arc,
    time::Instant,
};

use api::{Kind, ObjectId};
use futures::{Stream, StreamExt, executor::block_on};
use ir::{NsName, RootId, Settings};
use judge::Judge;
use records::Quarantine;
use tokio::sync::{mpsc, watch};
use translate::{Deploying, LoginSeed, root_object, strict::Bounds};

pub use self::cluster::{Accounts, ClusterSinks, ClusterSource};
pub use freeze::{EditionEvent, Outcome, StoredEdition, Wanted, Wants, WrittenEdition};
pub use handle::{
    Aside, EngineHandle, Event, Overruling, Question, Refusals, Stopped, StoredRecord, Storing, View, channel,
};
pub use isolation::{Case, Isolated, Reviewed, isolate};
pub use ports::{HostPorts, PortCheck, ThisHost};
pub use strict::Desk;

use crate::{
    files::{FileProblem, Update},
    guarded::{Guarded, watchdog::Watchdog},
    metrics::{Metrics, OutcomeLabel, SourceLabel},
};
use diagnostics::Diagnostics;
use freeze::{Freezer, Known};
use isolation::Isolation;
use proxies::Proxies;
use publisher::Publisher;
use strict::Strict;
use verdicts::Verdicts;

/// How many events a batch has at most.
const MAX_BATCH: usize = 1024;

/// Where objects come from.
enum Source {
    /// Files, and what is wrong with them; none before they were read.
    Files(Option<Arc<Vec<FileProblem>>>),
    Cluster(Box<ClusterSource>),
}

/// The task.
pub struct EngineTask {
    guarded: Guarded,
    /// How many objects of files came: those that came later are younger.
    files_version: u64,
    /// How many files cannot be read.
    broken_files: usize,
    /// What shall be stored of objects that are set aside.
    aside: watch::Sender<Storing<Aside>>,
    source: Source,
    publisher: Publisher,
    proxies: Proxies,
    diagnostics: Diagnostics,
    ports: Option<PortCheck>,
    strict: Option<Strict>,
    isolation: Isolation,
    verdicts: Verdicts,
    freezer: Option<Freezer>,
    /// Whether nobody looked yet what is kept of trees.
    awaits_editions: bool,
    /// Whether nobody looked yet for what logins are proved by.
    awaits_login_seed: bool,
    /// Whether nobody looked yet which objects are set aside.
    awaits_records: bool,
    /// The number of the records that are known.
    records_known: u64,
    /// Why records cannot be read.
    unreadable_records: Option<String>,
    metrics: Metrics,
}

impl EngineTask {
    /// A task that publishes at `hub`. Ports are checked before they are used only where the Envoys that bind them are
    /// on this host and started by this process: with `ports`.
    pub fn new(settings: Settings, hub: xds::Hub, ports: Option<PortCheck>, metrics: Metrics) -> Self {
        Self {
            source: Source::Files(None),
            publisher: Publisher::new(hub.clone(), Arc::clone(&settings.controller_name), metrics.clone()),
            freezer: settings.freeze.enabled.then(|| Freezer::new(settings.freeze, None)),
            guarded: Guarded::new(settings),
            awaits_editions: false,
            files_version: 0,
            broken_files: 0,
            aside: watch::Sender::default(),
            proxies: Proxies::new(metrics.clone()),
            diagnostics: Diagnostics::new(metrics.clone()),
            ports,
            strict: None,
            isolation: Isolation::new(hub),
            verdicts: Verdicts::new(metrics.clone()),
            awaits_login_seed: false,
            awaits_records: false,
            records_known: 0,
            unreadable_records: None,
            metrics,
        }
    }

    /// The same with a cluster as the source, which gets through `sinks` what became of its objects. With `deploying` the
    /// proxies of Gateways are run there too.
    pub fn watching(mut self, sinks: ClusterSinks, deploying: Option<Deploying>) -> Self {
        self.guarded.translator_mut().set_deploying(deploying.clone());
        let source = ClusterSource::new(sinks, deploying, self.metrics.clone());
        Self { source: Source::Cluster(Box::new(source)), ..self }
    }

    /// The same, where logins are proved by what is made of `seed`; none of one that is still looked for, until
    /// [`Event::LoginSeed`] nothing is served.
    pub fn with_login_seed(mut self, seed: Option<LoginSeed>) -> Self {
        self.awaits_login_seed = seed.is_none();
        self.guarded.translator_mut().set_login_seed(seed);
        self
    }

    /// The same, where Envoy is asked before anything is sent.
    pub fn strict(mut self, desk: Arc<Desk>, bounds: Bounds) -> Self {
        self.guarded.translator_mut().set_strict();
        Self { strict: Some(Strict::new(desk, bounds)), ..self }
    }

    /// Has [`isolate()`] look who is to blame for what proxies refuse, before they are asked themselves.
    pub fn isolate(&mut self, judge: Arc<Judge>) -> mpsc::Receiver<Case> {
        self.isolation.judged_by(judge)
    }

    /// The same, where it is stored which objects are set aside, and what proxies refused: until [`Event::Quarantine`] and
    /// [`Event::Verdicts`] nothing is served.
    pub fn with_records(mut self) -> Self {
        self.awaits_records = true;
        self.verdicts.wait();
        self
    }

    /// The same, where what is kept of trees is stored by who listens to the channel that is returned: until
    /// [`Event::Edition`] nothing is served.
    pub fn keeping(mut self, freeze: ir::settings::Freeze) -> (Self, watch::Receiver<Wants>) {
        let (wants, wanted) = watch::channel(Wants::default());
        self.freezer = Some(Freezer::new(freeze, Some(wants)));
        (Self { awaits_editions: true, ..self }, wanted)
    }

    /// The same, where settlings that do not end, or end the process, are found out.
    pub fn watched(self, watchdog: Watchdog) -> Self {
        Self { guarded: self.guarded.watched(watchdog), ..self }
    }

    /// Has a row panic whenever it is computed, `TABLE:KEY`: for tests of what becomes of it.
    #[cfg(debug_assertions)]
    pub fn fail_at(&mut self, row: Option<&str>) {
        if let Some((table, key)) = row.and_then(|row| row.split_once(':')) {
            self.guarded.translator_mut().fail_at(table, key);
        }
    }

    /// What shall be stored of objects that are set aside, as it changes.
    pub fn aside(&self) -> watch::Receiver<Storing<Aside>> {
        self.aside.subscribe()
    }

    /// What shall be stored of what proxies refused, as it changes.
    pub fn refusals(&self) -> watch::Receiver<Storing<Refusals>> {
        self.verdicts.storing()
    }

    /// The Gateways that are served, as they change.
    pub fn served(&self) -> watch::Receiver<BTreeSet<NsName>> {
        self.publisher.served()
    }

    /// Works until the events end. For a thread of its own, which outlives the runtime: no timer of that may be among them.
    pub fn run(mut self, events: impl Stream<Item = Event>) {
        let mut batches = pin!(events.ready_chunks(MAX_BATCH));
        while let Some(batch) = block_on(batches.next()) {
            self.work(batch);
        }
    }

    /// Takes in a batch, settles, publishes, and answers questions, in this order.
    pub fn work(&mut self, batch: Vec<Event>) {
        let idle = |event: &Event| match event {
            Event::RecheckPorts => self.ports.as_ref().is_none_or(PortCheck::is_content),
            Event::RetryQuarantined => {
                !self.guarded.is_waiting() && !self.verdicts.is_due(Instant::now()) && !self.isolation.is_waiting()
            }
            Event::RecheckWaiting => self.strict.as_ref().is_none_or(|it| !it.is_due() && self.publisher.is_ready()),
            _ => false,
        };
        if batch.iter().all(idle) {
            return;
        }
        let start = Instant::now();
        let mut questions = Vec::new();
        let mut events = 0;
        for event in batch {
            if let Some((source, count)) = event.source() {
                self.metrics.events.get_or_create(&SourceLabel::of(source)).inc_by(count as u64);
                events += count;
            }
            match event {
                Event::Ask(question) => questions.push(question),
                event => self.take(event),
            }
        }
        let loaded = match &self.source {
            Source::Files(problems) => problems.is_some(),
            Source::Cluster(cluster) => cluster.is_complete() && !self.awaits_login_seed,
        };
        let loaded = loaded && !self.awaits_records && !self.verdicts.is_awaited() && !self.awaits_editions;
        self.guarded.set_complete(loaded);
        // Until everything was read nothing is served, and what is made of a part of it is made anew by the next part.
        if loaded || !questions.is_empty() {
            self.settle(loaded);
        }
        if loaded {
            self.look_who_is_to_blame();
        }
        // Questions alone make no batch.
        if events > 0 {
            self.metrics.batches.inc();
            self.metrics.batch_events.observe(f64::from(u32::try_from(events).unwrap_or(u32::MAX)));
            self.metrics.settle_seconds.observe(start.elapsed().as_secs_f64());
        }
        if loaded && !self.publisher.is_ready() && self.strict.as_mut().is_none_or(Strict::is_ready) {
            if let Source::Cluster(cluster) = &self.source {
                cluster.complete();
            }
            self.publisher.ready();
        }
        for question in questions {
            let (file_problems, cluster) = match &self.source {
                Source::Files(problems) => (problems.as_deref().map_or(&[][..], Vec::as_slice), None),
                Source::Cluster(cluster) => (&[][..], Some(&**cluster)),
            };
            let unreadable =
                [("quarantine", self.unreadable_records.as_deref()), ("verdicts", self.verdicts.unreadable())];
            let unreadable = unreadable.map(|(kind, why)| why.map(|why| format!("records: {kind}: {why}\n")));
            let unreadable_records = unreadable.into_iter().flatten().collect();
            let waiting = self.strict.as_ref().map(Strict::told).unwrap_or_default();
            question(&View { translator: &self.guarded, file_problems, unreadable_records, waiting, cluster });
        }
    }

    fn take(&mut self, event: Event) {
        match (event, &mut self.source) {
            (Event::Files(update), Source::Files(problems)) => {
                let Update { changes, problems: now, broken_files, files } = update;
                for change in changes {
                    self.files_version += 1;
                    self.guarded.apply(change, self.files_version);
                }
                self.diagnostics.count_file_problems(&now);
                *problems = Some(now);
                self.broken_files = broken_files;
                self.metrics.files.set(i64::try_from(files).unwrap_or(i64::MAX));
                self.metrics.files_broken.set(i64::try_from(broken_files).unwrap_or(i64::MAX));
            }
            (Event::Cluster(observed), Source::Cluster(cluster)) => cluster.take(observed, &mut self.guarded),
            (Event::Authorities(authorities), Source::Cluster(cluster)) => {
                cluster.trust(authorities, self.guarded.translator_mut());
            }
            (Event::LoginSeed(seed), _) => {
                self.awaits_login_seed = false;
                self.guarded.translator_mut().set_login_seed(seed);
            }
            (Event::Quarantine(stored), _) => self.take_records(stored),
            (Event::Verdicts(stored), _) => {
                let is_less = self.verdicts.take(stored, self.guarded.translator_mut());
                if is_less {
                    self.isolation.forget();
                }
                self.count_unreadable();
            }
            (Event::Isolated(isolated), _) => {
                if let Some(isolated) = self.isolation.judged(isolated) {
                    self.take_isolated(isolated);
                }
            }
            (Event::Reviewed(reviewed), _) => self.verdicts.take_reviewed(reviewed),
            (Event::Edition(event), _) => {
                self.awaits_editions &= !matches!(event, EditionEvent::Stored(_));
                if let Some(freezer) = &mut self.freezer {
                    freezer.take(event, &mut self.guarded, &self.metrics);
                }
            }
            (Event::RetryQuarantined, _) => self.guarded.try_again(),
            (Event::Applied(report), _) => {
                let ports =
                    report.failures.iter().filter_map(|failure| Some((failure.port?, failure.message.as_str().into())));
                let failures = report.failures.iter().filter(|failure| failure.port.is_none());
                let failures = failures.map(|failure| format!("{}: {}", failure.object, failure.message));
                let failures = failures.collect::<Vec<_>>().join("; ");
                let translator = self.guarded.translator_mut();
                translator.set_unserved_ports(&report.owner, ports.collect());
                translator.set_unapplied(&report.owner, Some(failures).filter(|failures| !failures.is_empty()));
            }
            (Event::Proxy(event), _) => {
                if let Some(strict) = &mut self.strict {
                    strict.take(&event);
                }
                self.verdicts.meet(&event);
                self.isolation.take(&event);
                if let Some((gateway, report)) = self.proxies.take(&event) {
                    self.guarded.translator_mut().set_nack(&gateway, report);
                }
            }
            (Event::RecheckPorts, _) => {
                if let Some(ports) = &mut self.ports {
                    ports.recheck(self.guarded.translator_mut());
                }
            }
            // There is one source, and questions are answered at the end.
            // What is known of what waits is asked for when all is settled.
            (
                Event::Files(_)
                | Event::Cluster(_)
                | Event::Authorities(_)
                | Event::Ask(_)
                | Event::Judged
                | Event::RecheckWaiting,
                _,
            ) => {}
        }
    }

    fn count_unreadable(&self) {
        let is_unreadable = self.unreadable_records.is_some() || self.verdicts.unreadable().is_some();
        self.metrics.unreadable_records.set(i64::from(is_unreadable));
    }

    /// Has it be looked who is to blame for what proxies refused, and whether that is still so.
    fn look_who_is_to_blame(&mut self) {
        let outdated = self.verdicts.look(&self.guarded, self.isolation.judge(), Instant::now());
        self.isolation.review(outdated);
        loop {
            let isolated = self.isolation.look(&self.guarded);
            if isolated.is_empty() {
                break;
            }
            for isolated in isolated {
                self.take_isolated(isolated);
            }
            self.settle(true);
        }
        self.isolation.release();
    }

    /// It was looked who is to blame for what a proxy refused.
    fn take_isolated(&mut self, mut isolated: Isolated) {
        if self.verdicts.add(isolated.take_found(), self.guarded.translator_mut()) > 0 {
            isolated.set_full();
        }
        self.isolation.done(&isolated);
        let (outcome, took) = isolated.outcome();
        self.metrics.nack_isolations.get_or_create(&OutcomeLabel::of(outcome)).inc();
        self.metrics.nack_isolation_seconds.observe(took.as_secs_f64());
    }

    fn take_records(&mut self, StoredRecord { number, record }: StoredRecord<Quarantine>) {
        self.awaits_records = false;
        self.unreadable_records = match record {
            Ok(stored) => {
                self.guarded.set_stored(&stored);
                self.records_known = number;
                None
            }
            Err(why) => {
                if self.unreadable_records.as_ref() != Some(&why) {
                    tracing::error!(
                        why,
                        "which objects are set aside cannot be read; what is known of it stays in force"
                    );
                }
                Some(why)
            }
        };
        self.count_unreadable();
    }

    /// Looks at what changed of trees that are kept. Whether that has to be settled.
    fn keep_trees(&mut self) -> bool {
        let Some(freezer) = &mut self.freezer else { return false };
        let (broken_files, undecodable) = match &self.source {
            Source::Files(_) => (self.broken_files, None),
            Source::Cluster(cluster) => (0, Some(cluster.undecodable())),
        };
        let decides = |object: &ObjectId, root: &RootId| match (root, object.kind) {
            (RootId::Route(root), Kind::DelegationPolicy) => object.namespace == root.namespace,
            _ => *object == root_object(root),
        };
        let of = |root: &RootId| {
            broken_files == 0 && !undecodable.into_iter().flatten().any(|(object, _)| decides(object, root))
        };
        let all = broken_files == 0 && undecodable.is_none_or(BTreeMap::is_empty);
        freezer.look(&mut self.guarded, &Known { all, of: &of })
    }

    fn settle(&mut self, loaded: bool) {
        let mut statuses = BTreeSet::new();
        loop {
            let mut changes = self.guarded.settle();
            if let Source::Cluster(cluster) = &mut self.source {
                cluster.deploy(take(&mut changes.proxies), &self.guarded);
            }
            let has_listeners = |id: &ObjectId| matches!(id.kind, Kind::Gateway | Kind::ListenerSet);
            let gateways = changes.statuses.iter().any(has_listeners) || !changes.gateways.is_empty();
            self.diagnostics.take(&mut changes, &self.guarded);
            // What is made of a part of what there is is neither judged nor cleared: a route may be there before its policies are.
            let strict = self.strict.as_mut().filter(|_| loaded);
            let again = strict.is_some_and(|strict| strict.pass(self.guarded.translator_mut()));
            // Whoever keeps trees looks at what is known to wait.
            let rests = self.strict.as_ref().is_none_or(Strict::rests);
            let again = again || rests && loaded && self.keep_trees();
            self.publisher.take(changes.resources, changes.gateways);
            statuses.extend(changes.statuses);
            // A port that cannot be bound is taken back before any proxy gets it.
            let ports = self.ports.as_mut().filter(|_| gateways);
            if !ports.is_some_and(|ports| ports.check(self.guarded.translator_mut())) && !again {
                break;
            }
        }
        if let Some(strict) = self.strict.as_mut().filter(|_| loaded) {
            strict.ask();
        }
        if let Some(freezer) = &self.freezer {
            freezer.count(&self.metrics);
        }
        self.publisher.publish();
        let mut undecodable = 0;
        if let Source::Cluster(cluster) = &mut self.source {
            cluster.write_statuses(&statuses, &self.guarded);
            undecodable = cluster.undecodable().len();
        }
        self.diagnostics.log_conditions(statuses, &self.guarded);
        self.diagnostics.show(undecodable, &self.guarded);
        let turned = self.guarded.take_turned();
        if turned || self.aside.borrow().number != self.records_known {
            let count = self.guarded.quarantined().count();
            self.metrics.quarantined_objects.set(i64::try_from(count).unwrap_or(i64::MAX));
            let wanted = Arc::new(self.guarded.entries().clone());
            self.aside.send_replace(Storing { number: self.records_known, wanted });
        }
    }
}

#[cfg(test)]
mod tests;
