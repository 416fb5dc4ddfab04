//! Envoy's word before anything is sent.
//!
//! The engine never waits: what nobody has judged stays as it was, and verdicts come as an event.

mod versions;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use envoy::judged::{Fragment, Kind};
use ir::settings::WhenUnavailable;
use judge::{Budget, Build, Ends, How, Job, Judge, Verdict};
use tokio::{sync::Notify, time::timeout};
use translate::{
    Translator,
    inspect::Sent,
    strict::{Bounds, Gate, Held, NOTICED, Wanted, Word},
};

use self::versions::Versions;
use super::handle::{EngineHandle, Event};
use crate::{
    lanes::{Became, Lane, Lanes, State},
    metrics::{Metrics, OutcomeLabel, RefusedFragmentLabels},
    strict::words,
};

/// How often what was written is looked at again before the rest waits for the next look.
const MOST_PASSES: usize = 64;
/// How many processes a batch may take, and for how long those of clean namespaces are searched.
const RUNS: u32 = 400;
const CLEAN_TIME: Duration = Duration::from_secs(5);
/// How long who judges waits before it asks a judge again that is not there: at first, and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// What the engine and who judges know in common.
#[derive(Debug)]
pub struct Desk {
    judge: Arc<Judge>,
    lanes: Mutex<Lanes>,
    wanted: [Notify; 2],
    /// Why there is no verdict, while there is none to be had.
    unavailable: Mutex<Option<String>>,
    metrics: Metrics,
}

impl Desk {
    /// For this judge.
    pub fn new(judge: Arc<Judge>, metrics: Metrics) -> Arc<Self> {
        Arc::new(Self {
            judge,
            lanes: Mutex::default(),
            wanted: Default::default(),
            unavailable: Mutex::default(),
            metrics,
        })
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        // Each change of it is done by one call, which leaves it sound.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unavailable(&self) -> MutexGuard<'_, Option<String>> {
        self.unavailable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a part of what is sent.
    fn word(&self, sent: &Sent) -> Word {
        match self.judge.known(&sent.fragment) {
            Some(Verdict::Accepted) => Word::Accepted,
            Some(Verdict::Refused(refusal)) => {
                let words = words(sent, &refusal).into();
                if matches!(refusal.how, How::Words(_)) { Word::Refused(words) } else { Word::Fatal(words) }
            }
            _ => match self.lanes().state(sent) {
                State::Suspect => Word::Suspect,
                State::Waiting if self.unavailable().is_some() => Word::Unknown,
                State::InFlight | State::Waiting => Word::Judging,
            },
        }
    }

    /// Has what is wanted judged, and tells the engine whenever a batch is done, or another Envoy judges, until that ends.
    pub async fn serve(self: Arc<Self>, engine: EngineHandle) {
        let lanes =
            async { tokio::join!(self.serve_lane(Lane::Clean, &engine), self.serve_lane(Lane::Watched, &engine)) };
        tokio::select! {
            _ = lanes => {}
            () = self.tell_of_others(&engine) => {}
        }
    }

    async fn tell_of_others(&self, engine: &EngineHandle) {
        let mut build = None;
        loop {
            build = Some(self.judge.another(build.as_ref()).await);
            if engine.send(Event::Judged).await.is_err() {
                return;
            }
        }
    }

    async fn serve_lane(&self, lane: Lane, engine: &EngineHandle) {
        let mut wait = AGAIN.0;
        loop {
            let now = Instant::now();
            let next = self.lanes().next(lane, now, |fragment| self.judge.known(fragment).is_some());
            let Some(batch) = next else {
                // A namespace has time again by and by.
                let _: Result<(), _> = timeout(AGAIN.1, self.wanted[lane as usize].notified()).await;
                continue;
            };
            let start = Instant::now();
            let time = match lane {
                Lane::Clean => CLEAN_TIME,
                Lane::Watched => batch.time,
            };
            let mut budget = Budget { runs: RUNS, until: tokio::time::Instant::now() + time };
            let judged = self.judge.judge_and_tell(&batch.fragments, &mut budget, lane == Lane::Clean);
            // The last process may begin when the time is over.
            let fragments = u32::try_from(batch.fragments.len()).unwrap_or(u32::MAX);
            let longest = time + 2 * Job { bootstrap: Bytes::new(), fragments }.time();
            let (verdicts, ends) = timeout(longest, judged).await.unwrap_or_else(|_| {
                let silent = Verdict::Unknown("the judge does not answer".into());
                (vec![silent; batch.fragments.len()], Ends { unavailable: true, lost: true, ..Ends::default() })
            });
            let took = start.elapsed();
            let why = verdicts.iter().find_map(|verdict| match verdict {
                Verdict::Unknown(why) if ends.unavailable => Some(why.to_string()),
                _ => None,
            });
            let is_gone = why.is_some();
            // What teaches nobody anything in its time is judged apart, so that the next batch does.
            let is_barren = !is_gone && verdicts.iter().all(|verdict| matches!(verdict, Verdict::Unknown(_)));
            let ended = lane == Lane::Clean && (ends.wordless || is_barren);
            let without = match ends {
                _ if ended => Became::Suspect,
                Ends { lost: true, .. } => Became::Lost,
                Ends { unavailable: true, .. } => Became::Unasked,
                _ => Became::Unknown,
            };
            let became = batch.fragments.iter().zip(&verdicts).map(|(it, verdict)| self.became(it, verdict, without));
            let became: Vec<_> = became.collect();
            let outcome = match &became[..] {
                _ if is_gone => "unavailable",
                _ if ended => "ended",
                became if became.contains(&Became::Refused) => "refused",
                became if became.contains(&Became::Unknown) => "unfinished",
                _ => "accepted",
            };
            self.metrics.validation_batches.get_or_create(&OutcomeLabel::of(outcome)).inc();
            self.metrics.validation_seconds.observe(took.as_secs_f64());
            self.lanes().done(lane, &batch, &became, took, Instant::now());
            self.set_available(if is_gone { why } else { None });
            // What one lane cannot say the other one may.
            self.wanted[Lane::Watched as usize].notify_one();
            if engine.send(Event::Judged).await.is_err() {
                return;
            }
            if is_gone {
                tokio::time::sleep(wait).await;
                wait = (2 * wait).min(AGAIN.1);
            } else {
                wait = AGAIN.0;
            }
        }
    }

    /// What became of a fragment; of one without a verdict, `without`.
    fn became(&self, fragment: &Fragment, verdict: &Verdict, without: Became) -> Became {
        match verdict {
            Verdict::Accepted => Became::Accepted,
            Verdict::Refused(refusal) => {
                let labels = RefusedFragmentLabels { kind: kind(fragment.kind), how: refusal.how.as_str() };
                self.metrics.validation_refused.get_or_create(&labels).inc();
                Became::Refused
            }
            Verdict::Unknown(_) => without,
        }
    }

    fn set_available(&self, why: Option<String>) {
        self.metrics.validation_available.set(i64::from(why.is_none()));
        let mut now = self.unavailable();
        match (&*now, &why) {
            (None, Some(why)) => tracing::error!(why, "no Envoy can be asked whether it takes what would be sent"),
            (Some(_), None) => tracing::info!("an Envoy can be asked again"),
            _ => {}
        }
        *now = why;
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Row => "route",
        Kind::Host => "virtual_host",
        Kind::RouteConfiguration => "route_configuration",
        Kind::Cluster => "cluster",
        Kind::Listener => "listener",
        Kind::Extension => "extension",
    }
}

/// What waits at the engine for Envoy's word.
pub(super) struct Strict {
    gate: Gate,
    desk: Arc<Desk>,
    bounds: Bounds,
    /// When all was read.
    loaded: Option<Instant>,
    passes: usize,
    /// Whether the last pass wrote nothing.
    rests: bool,
    /// Who judged last.
    build: Option<Build>,
    versions: Versions,
}

impl Strict {
    pub(super) fn new(desk: Arc<Desk>, bounds: Bounds) -> Self {
        Self {
            gate: Gate::new(bounds),
            desk,
            bounds,
            loaded: None,
            passes: 0,
            rests: true,
            build: None,
            versions: Versions::default(),
        }
    }

    /// Takes note of what a proxy reports.
    pub(super) fn take(&mut self, event: &xds::Event) {
        self.versions.take(event);
    }

    /// Takes note of what settled, and of what was judged. Whether it has to settle again.
    pub(super) fn pass(&mut self, translator: &mut Translator) -> bool {
        let desk = &self.desk;
        let turned = translator.set_judge_unavailable(desk.unavailable().clone());
        let build = desk.judge.build();
        let turned = turned | self.versions.tell(build.as_ref().map(Build::number), translator);
        if build.is_some() && build != self.build && std::mem::replace(&mut self.build, build).is_some() {
            self.gate.all_turned();
        }
        for fragment in desk.lanes().take_turned() {
            self.gate.turned(&fragment);
        }
        let wrote = turned | self.gate.pass(translator, Instant::now(), &mut |sent| desk.word(sent));
        self.passes += 1;
        self.rests = !wrote;
        wrote && self.passes < MOST_PASSES
    }

    /// Whether all that it wrote has settled.
    pub(super) fn rests(&self) -> bool {
        self.rests
    }

    /// Has what nobody knows judged.
    pub(super) fn ask(&mut self) {
        self.passes = 0;
        self.gate.settled();
        let Wanted { more, less } = self.gate.take_wanted();
        if !more.is_empty() || !less.is_empty() {
            self.desk.lanes().want(more, &less);
            self.desk.wanted.iter().for_each(Notify::notify_one);
        }
        let pending = self.gate.unknown().len();
        self.desk.metrics.validation_pending.set(i64::try_from(pending).unwrap_or(i64::MAX));
        self.desk.metrics.validation_waived.set(i64::try_from(self.gate.waived()).unwrap_or(i64::MAX));
        let not_judged = i64::try_from(self.versions.not_judged()).unwrap_or(i64::MAX);
        self.desk.metrics.validation_unjudged_versions.set(not_judged);
    }

    /// Whether anything is to be looked at, though nothing happened.
    pub(super) fn is_due(&self) -> bool {
        !self.rests || self.gate.is_due(Instant::now())
    }

    /// Whether proxies may be served: what was there when all was read was judged, or waited for long enough. With
    /// [`WhenUnavailable::Hold`], never without anybody who judges. Asked once all was read.
    pub(super) fn is_ready(&mut self) -> bool {
        let loaded = *self.loaded.get_or_insert_with(Instant::now);
        let is_late = loaded.elapsed() > self.bounds.longest();
        let is_bounded = self.bounds.then == WhenUnavailable::Standard || self.desk.unavailable().is_none();
        !self.gate.is_holding() || is_late && is_bounded
    }

    /// What is to be known of it, a line each.
    pub(super) fn told(&self) -> String {
        let unavailable = self.desk.unavailable().as_ref().map(|why| format!("JudgeUnavailable: {why}\n"));
        let Held { gateways, routes, parts, since } = self.gate.held(Instant::now());
        let is_told = !gateways.is_empty() || since.is_some_and(|since| since >= NOTICED);
        let waits = is_told.then(|| {
            let gateways = gateways.len();
            format!("ValidationPending: {routes} routes, {gateways} Gateways and {parts} parts wait for Envoy's word\n")
        });
        let waived = self.gate.waived();
        let waived = (waived > 0).then(|| format!("unjudged: {waived} parts of what is sent were not judged\n"));
        [unavailable, waits, waived].into_iter().flatten().collect()
    }
}
