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
//! * `ports` checks whether ports can be bound, where Envoys run on this host.

mod cluster;
mod diagnostics;
mod handle;
mod ports;
mod proxies;
mod publisher;

use std::{collections::BTreeSet, mem::take, pin::pin, sync::Arc, time::Instant};

use api::Kind;
use futures::{Stream, StreamExt, executor::block_on};
use ir::{NsName, Settings};
use tokio::sync::watch;
use translate::{Deploying, LoginSeed, Translator};

pub use self::cluster::{Accounts, ClusterSinks, ClusterSource};
pub use handle::{EngineHandle, Event, Question, Stopped, View, channel};
pub use ports::{HostPorts, PortCheck, ThisHost};

use crate::{
    files::{FileProblem, Update},
    metrics::{Metrics, SourceLabel},
};
use diagnostics::Diagnostics;
use proxies::Proxies;
use publisher::Publisher;

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
    translator: Translator,
    source: Source,
    publisher: Publisher,
    proxies: Proxies,
    diagnostics: Diagnostics,
    ports: Option<PortCheck>,
    /// Whether nobody looked yet for what logins are proved by.
    awaits_login_seed: bool,
    metrics: Metrics,
}

impl EngineTask {
    /// A task that publishes at `hub`. Ports are checked before they are used only where the Envoys that bind them are
    /// on this host and started by this process: with `ports`.
    pub fn new(settings: Settings, hub: xds::Hub, ports: Option<PortCheck>, metrics: Metrics) -> Self {
        Self {
            source: Source::Files(None),
            publisher: Publisher::new(hub, Arc::clone(&settings.controller_name), metrics.clone()),
            translator: Translator::new(settings),
            proxies: Proxies::new(metrics.clone()),
            diagnostics: Diagnostics::new(metrics.clone()),
            ports,
            awaits_login_seed: false,
            metrics,
        }
    }

    /// The same with a cluster as the source, which gets through `sinks` what became of its objects. With `deploying` the
    /// proxies of Gateways are run there too.
    pub fn watching(mut self, sinks: ClusterSinks, deploying: Option<Deploying>) -> Self {
        self.translator.set_deploying(deploying.clone());
        let source = ClusterSource::new(sinks, deploying, self.metrics.clone());
        Self { source: Source::Cluster(Box::new(source)), ..self }
    }

    /// The same, where logins are proved by what is made of `seed`; none of one that is still looked for, until
    /// [`Event::LoginSeed`] nothing is served.
    pub fn with_login_seed(mut self, seed: Option<LoginSeed>) -> Self {
        self.awaits_login_seed = seed.is_none();
        self.translator.set_login_seed(seed);
        self
    }

    /// Has a row panic whenever it is computed, `TABLE:KEY`: for tests of what becomes of it.
    #[cfg(debug_assertions)]
    pub fn fail_at(&mut self, row: Option<&str>) {
        if let Some((table, key)) = row.and_then(|row| row.split_once(':')) {
            self.translator.fail_at(table, key);
        }
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
        let idle = |event: &Event| matches!(event, Event::RecheckPorts);
        if batch.iter().all(idle) && self.ports.as_ref().is_none_or(PortCheck::is_content) {
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
        // Until everything was read nothing is served, and what is made of a part of it is made anew by the next part.
        if loaded || !questions.is_empty() {
            self.settle();
        }
        // Questions alone make no batch.
        if events > 0 {
            self.metrics.batches.inc();
            self.metrics.batch_events.observe(f64::from(u32::try_from(events).unwrap_or(u32::MAX)));
            self.metrics.settle_seconds.observe(start.elapsed().as_secs_f64());
        }
        if loaded && !self.publisher.is_ready() {
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
            question(&View { translator: &self.translator, file_problems, cluster });
        }
    }

    fn take(&mut self, event: Event) {
        match (event, &mut self.source) {
            (Event::Files(update), Source::Files(problems)) => {
                let Update { changes, problems: now, broken_files, files } = update;
                for change in changes {
                    self.translator.apply(change);
                }
                self.diagnostics.count_file_problems(&now);
                *problems = Some(now);
                self.metrics.files.set(i64::try_from(files).unwrap_or(i64::MAX));
                self.metrics.files_broken.set(i64::try_from(broken_files).unwrap_or(i64::MAX));
            }
            (Event::Cluster(observed), Source::Cluster(cluster)) => cluster.take(observed, &mut self.translator),
            (Event::Authorities(authorities), Source::Cluster(cluster)) => {
                cluster.trust(authorities, &mut self.translator);
            }
            (Event::LoginSeed(seed), _) => {
                self.awaits_login_seed = false;
                self.translator.set_login_seed(seed);
            }
            (Event::Applied(report), _) => {
                let failures = report.failures.iter().map(|failure| format!("{}: {}", failure.object, failure.message));
                let failures = failures.collect::<Vec<_>>().join("; ");
                self.translator.set_unapplied(&report.owner, Some(failures).filter(|failures| !failures.is_empty()));
            }
            (Event::Proxy(event), _) => {
                if let Some((gateway, report)) = self.proxies.take(&event) {
                    self.translator.set_nack(&gateway, report);
                }
            }
            (Event::RecheckPorts, _) => {
                if let Some(ports) = &mut self.ports {
                    ports.recheck(&mut self.translator);
                }
            }
            // There is one source, and questions are answered at the end.
            (Event::Files(_) | Event::Cluster(_) | Event::Authorities(_) | Event::Ask(_), _) => {}
        }
    }

    fn settle(&mut self) {
        let mut statuses = BTreeSet::new();
        loop {
            let mut changes = self.translator.settle();
            if let Source::Cluster(cluster) = &mut self.source {
                cluster.deploy(take(&mut changes.proxies), &self.translator);
            }
            let gateways = changes.statuses.iter().any(|id| id.kind == Kind::Gateway) || !changes.gateways.is_empty();
            self.diagnostics.take(&mut changes, &self.translator);
            self.publisher.take(changes.resources, changes.gateways);
            statuses.extend(changes.statuses);
            // A port that cannot be bound is taken back before any proxy gets it.
            let ports = self.ports.as_mut().filter(|_| gateways);
            if !ports.is_some_and(|ports| ports.check(&mut self.translator)) {
                break;
            }
        }
        self.publisher.publish();
        let mut undecodable = 0;
        if let Source::Cluster(cluster) = &mut self.source {
            cluster.write_statuses(&statuses, &self.translator);
            undecodable = cluster.undecodable().len();
        }
        self.diagnostics.log_conditions(statuses, &self.translator);
        self.diagnostics.show(undecodable, &self.translator);
    }
}

#[cfg(test)]
mod tests;
