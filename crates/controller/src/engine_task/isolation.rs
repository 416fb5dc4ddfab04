//! What a proxy refused of route configurations and clusters: who is to blame, by an Envoy of its version that judges, and by what
//! the proxy takes.
//!
//! Envoy refuses a route configuration as a whole and goes on with the one that it had. Suspects are the routes that this one lacks;
//! the judge finds by halves whom Envoy refuses alone. Of clusters those are suspects that came together: Envoy takes those that are
//! sound, or none of them. Where no such Envoy can be asked, or it takes all of a route configuration, the proxy itself is asked
//! (`trials`). What it takes too was refused for another reason, which is told as Envoy says it.

mod refused;
mod streams;
mod trials;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use envoy::judged::{Fragment, row_hashes};
use ir::NsName;
use judge::{Budget, Build, Judge, Verdict};
use tokio::{sync::mpsc, time::sleep};
use translate::{Translator, inspect::Sent};
use xds::{Hub, Resource, ResourceType, Version};

use self::{
    refused::{Outcome, Refused, hash, recorded},
    trials::Trials,
};
use super::handle::{EngineHandle, Event};

pub use refused::Isolated;

/// How many responses wait at most for who is to blame.
const WAITING: usize = 64;
/// How many versions it is remembered of what came of them.
const MOST_KNOWN: usize = 100_000;
/// How long it is looked, and with how many processes.
const TIME: Duration = Duration::from_secs(30);
const RUNS: u32 = 400;
/// How long a judge is waited for that is not there, and how often it is looked.
const AWAY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_millis(250));

/// The same with what may be to blame.
#[derive(Debug)]
pub struct Suspects {
    refused: Refused,
    rows: Vec<Sent>,
}

/// What the Envoy that judges is asked.
#[derive(Debug)]
pub enum Case {
    /// Who is to blame.
    Suspects(Suspects),
    /// Whether it takes what another version refused.
    Review(Vec<Fragment>),
}

/// What an Envoy says of what another version refused.
#[derive(Debug)]
pub struct Reviewed {
    /// The version of the one that was asked.
    pub(super) version: String,
    /// The content hash of each of which it said anything, in hexadecimal digits, and whether it takes that.
    pub(super) taken: Vec<(String, bool)>,
}

/// At the engine.
pub(super) struct Isolation {
    /// Who judges, and the way there.
    judge: Option<(Arc<Judge>, mpsc::Sender<Case>)>,
    trials: Trials,
    /// What proxies refused and nobody has looked at.
    refused: Vec<Refused>,
    /// The versions of which it was found who is to blame, or is being looked for: proxies of one Gateway refuse the same.
    known: HashMap<(NsName, ResourceType, String), Version>,
}

impl Isolation {
    /// One of the proxies of this hub.
    pub(super) fn new(hub: Hub) -> Self {
        Self { judge: None, trials: Trials::new(hub), refused: Vec::new(), known: HashMap::new() }
    }

    /// The same, where an Envoy can be asked that judges.
    pub(super) fn judged_by(&mut self, judge: Arc<Judge>) -> mpsc::Receiver<Case> {
        let (cases, receiver) = mpsc::channel(WAITING);
        self.judge = Some((judge, cases));
        receiver
    }

    /// The version of the Envoy that judges; none where there is none.
    pub(super) fn judge(&self) -> Option<String> {
        let (judge, _) = self.judge.as_ref()?;
        judge.build().map(|build| build.number().to_owned())
    }

    /// Has the Envoy that judges be asked about what another version refused. Where too much waits for it, at another time.
    pub(super) fn review(&self, outdated: Vec<Fragment>) {
        if let Some((_, cases)) = self.judge.as_ref().filter(|_| !outdated.is_empty()) {
            drop(cases.try_send(Case::Review(outdated)));
        }
    }

    /// Takes note of what a proxy reports, and refuses.
    pub(super) fn take(&mut self, event: &xds::Event) {
        self.trials.take(event);
        let xds::Event::Nacked { gateway, kind, names, versions, acknowledged, envoy, stream, .. } = event else {
            return;
        };
        let Some((namespace, name)) = gateway.split_once('/') else { return };
        let gateway = NsName::new(namespace, name);
        // Names come and go.
        if self.known.len() > MOST_KNOWN {
            self.known.clear();
        }
        let mut of = |names: Vec<(String, Version)>, before: Option<Resource>| {
            let turned = names.iter().fold(false, |turned, (name, version)| {
                let key = (gateway.clone(), *kind, name.clone());
                (self.known.insert(key, *version) != Some(*version)) | turned
            });
            if let Some((name, version)) = names.first().filter(|_| *kind == ResourceType::RouteConfiguration) {
                let of = (gateway.clone(), name.clone());
                self.trials.refuses(of, *version, *stream, before.clone(), turned);
            }
            if turned {
                let (gateway, since) = (gateway.clone(), Instant::now());
                self.refused.push(Refused { gateway, kind: *kind, names, before, envoy: *envoy, since });
            }
        };
        let names = names.iter().cloned().zip(versions.iter().copied());
        match kind {
            ResourceType::RouteConfiguration => {
                names.zip(acknowledged).for_each(|(named, before)| of(vec![named], before.clone()));
            }
            ResourceType::Cluster => of(names.collect(), None),
            // Listeners fail alone, and a proxy goes on with what it has of them.
            _ => {}
        }
    }

    /// Whether something may come of it that no event tells.
    pub(super) fn is_waiting(&self) -> bool {
        self.trials.is_waiting()
    }

    /// Has what was refused be looked at: the routes that stand there now, and did not stand where the proxy took it; clusters as
    /// they are now. Gives what came of it, until nothing more has. To be called again once that is settled.
    pub(super) fn look(&mut self, translator: &Translator) -> Vec<Isolated> {
        let mut left = Vec::new();
        for refused in std::mem::take(&mut self.refused) {
            let Some((_, cases)) = &self.judge else {
                left.extend(self.other_than(refused, Outcome::Unjudged));
                continue;
            };
            let rows = if refused.kind == ResourceType::Cluster {
                let names = refused.names.iter().map(|(name, _)| &**name).collect::<HashSet<_>>();
                translator.inspect().clusters_of(&refused.gateway, &names)
            } else {
                let before = refused.before.as_ref();
                let before = before.map(|before| row_hashes(&before.body().concat())).unwrap_or_default();
                let rows =
                    refused.names.iter().flat_map(|(name, _)| translator.inspect().rows_of(&refused.gateway, name));
                rows.filter(|sent| !before.contains(&sent.fragment.hash)).collect()
            };
            if let Err(error) = cases.try_send(Case::Suspects(Suspects { refused, rows })) {
                let Case::Suspects(Suspects { refused, .. }) = error.into_inner() else { continue };
                left.extend(self.other_than(refused, Outcome::Unjudged));
            }
        }
        if left.is_empty() { self.trials.look(translator) } else { left }
    }

    /// Has a proxy be asked about what it refused, where nothing but this came of asking others. Gives back what it cannot be asked
    /// about.
    fn other_than(&mut self, refused: Refused, outcome: Outcome) -> Option<Isolated> {
        if refused.kind == ResourceType::RouteConfiguration {
            return self.trials.add(refused, outcome);
        }
        Some(Isolated::new(refused, outcome))
    }

    /// What the Envoy that judges says: none where the proxy is to be asked too.
    pub(super) fn judged(&mut self, isolated: Isolated) -> Option<Isolated> {
        match isolated.outcome {
            Outcome::Found | Outcome::Full => Some(isolated),
            outcome => self.other_than(isolated.refused, outcome),
        }
    }

    /// What came of it is published: proxies that were asked go back to what they had, unless they get something else.
    pub(super) fn release(&mut self) {
        self.trials.release();
    }

    /// Something that was found is not refused any more: a proxy may refuse the same again.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// What may come of it another time is looked at again when a proxy refuses it again.
    pub(super) fn done(&mut self, isolated: &Isolated) {
        let Refused { gateway, kind, names, .. } = &isolated.refused;
        self.trials.forget(&isolated.refused);
        if isolated.outcome.is_final() {
            return;
        }
        for (name, version) in names {
            let key = (gateway.clone(), *kind, name.clone());
            if self.known.get(&key) == Some(version) {
                self.known.remove(&key);
            }
        }
    }
}

/// Looks who is to blame, and whether what one version refused another one takes, until the engine ends.
pub async fn isolate(judge: Arc<Judge>, mut cases: mpsc::Receiver<Case>, engine: EngineHandle) {
    while let Some(case) = cases.recv().await {
        let event = match case {
            Case::Suspects(suspects) => Event::Isolated(find(&judge, suspects).await),
            Case::Review(fragments) => match review(&judge, &fragments).await {
                Some(reviewed) => Event::Reviewed(reviewed),
                None => continue,
            },
        };
        if engine.send(event).await.is_err() {
            return;
        }
    }
}

/// None where there is no judge, or another one than in the beginning.
async fn review(judge: &Judge, fragments: &[Fragment]) -> Option<Reviewed> {
    let version = judge.build()?.number().to_owned();
    let verdicts = judge.judge(fragments, &mut budget()).await;
    judge.build().filter(|build| build.number() == version)?;
    let taken = fragments.iter().zip(&verdicts).filter_map(|(fragment, verdict)| {
        let is_taken = match verdict {
            Verdict::Accepted => true,
            Verdict::Refused(_) => false,
            Verdict::Unknown(_) => return None,
        };
        Some((hash(fragment), is_taken))
    });
    Some(Reviewed { taken: taken.collect(), version })
}

fn budget() -> Budget {
    Budget { runs: RUNS, until: tokio::time::Instant::now() + TIME }
}

async fn find(judge: &Judge, Suspects { refused, rows }: Suspects) -> Isolated {
    let of = Isolated::new;
    let Some(build) = build(judge).await else { return of(refused, Outcome::Unjudged) };
    if refused.envoy.is_none_or(|version| version.to_string() != build.number()) {
        return of(refused, Outcome::OtherVersion);
    }
    let fragments: Vec<_> = rows.iter().map(|sent| sent.fragment.clone()).collect();
    let verdicts = judge.judge(&fragments, &mut budget()).await;
    let is_unfinished = verdicts.iter().any(|verdict| matches!(verdict, Verdict::Unknown(_)));
    let found = rows.iter().zip(&verdicts).filter_map(|(sent, verdict)| match verdict {
        Verdict::Refused(refusal) => Some(recorded(&refused, sent, refusal, refusal.how.as_str())),
        Verdict::Accepted | Verdict::Unknown(_) => None,
    });
    let found: Vec<_> = found.collect();
    let outcome = match (found.is_empty(), is_unfinished) {
        (false, _) => Outcome::Found,
        (true, true) => Outcome::Unfinished,
        (true, false) => Outcome::Innocent,
    };
    Isolated { refused, outcome, found }
}

/// The Envoy that judges. One that is away for a moment is waited for.
async fn build(judge: &Judge) -> Option<Build> {
    let start = Instant::now();
    loop {
        if let Some(build) = judge.build() {
            return Some(build);
        }
        if start.elapsed() > AWAY.0 {
            return None;
        }
        sleep(AWAY.1).await;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        env,
        path::{Path, PathBuf},
    };

    use envoy::judged::Kind;
    use ir::settings::Edge;
    use judge::{Launch, Runner, Way};

    use super::*;
    use crate::testing::{Memory, world};

    /// A program that `make test` builds or installs.
    fn program(variable: &str, path: &str) -> PathBuf {
        let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        let program = env::var_os(variable).map_or_else(own, PathBuf::from);
        assert!(program.exists(), "{} is missing: run `make test`", program.display());
        program
    }

    #[tokio::test]
    async fn an_envoy_says_what_it_takes_of_what_another_version_refused() {
        let launch = Launch {
            program: program("PORTCULLIS_BIN", "target/debug/portcullis"),
            arguments: vec!["judge-child".into()],
            envoy: program("PORTCULLIS_ENVOY", ".tools/envoy/bin/envoy"),
            folder: None,
            time: Launch::TIME,
        };
        let runner = Runner::start(launch).expect("an Envoy starts");
        let judge = Judge::new(Way::Here(runner), &Edge::default());
        let version = build(&judge).await.expect("an Envoy").number().to_owned();

        let mut translator = Translator::new(ir::Settings::default());
        for change in Memory::default().write("world.yaml", &world(8080)).changes {
            translator.apply(change);
        }
        translator.settle();
        let rows = translator.inspect().rows_of(&NsName::new("web", "edge"), "http/8080");
        let sound = rows.first().expect("a row").fragment.clone();
        // A route needs a match.
        let broken = Fragment::new(Kind::Row, Vec::new());
        let reviewed = review(&judge, &[sound.clone(), broken.clone()]).await.expect("it says something");
        assert_eq!(reviewed.version, version);
        assert_eq!(reviewed.taken, [(hash(&sound), true), (hash(&broken), false)]);
    }
}
