//! What a proxy refused of route configurations and clusters: who is to blame, by an Envoy of its version that judges.
//!
//! Envoy refuses a route configuration as a whole and goes on with the one that it had. Suspects are the routes that this one lacks;
//! the judge finds by halves whom Envoy refuses alone. Of clusters those are suspects that came together: Envoy takes those that are
//! sound, or none of them. What the judge takes was refused for another reason, which is told as Envoy says it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use envoy::judged::{Fragment, Kind, row_hashes};
use ir::NsName;
use jiff::Timestamp;
use judge::{Budget, Build, Judge, Refusal, Verdict};
use records::verdicts;
use tokio::{sync::mpsc, time::sleep};
use translate::{Translator, inspect::Sent};
use xds::{EnvoyVersion, Resource, ResourceType, Version};

use super::handle::{EngineHandle, Event};
use crate::strict::words;

/// How many responses wait at most for who is to blame.
const WAITING: usize = 64;
/// How many versions it is remembered of what came of them.
const MOST_KNOWN: usize = 100_000;
/// How long it is looked, and with how many processes.
const TIME: Duration = Duration::from_secs(30);
const RUNS: u32 = 400;
/// How long a judge is waited for that is not there, and how often it is looked.
const AWAY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_millis(250));

/// A route configuration, or clusters that came together, which a proxy refused.
#[derive(Debug)]
struct Refused {
    gateway: NsName,
    kind: ResourceType,
    names: Vec<(String, Version)>,
    /// The route configuration with which the proxy goes on.
    before: Option<Resource>,
    envoy: Option<EnvoyVersion>,
    since: Instant,
}

/// The same with what may be to blame.
#[derive(Debug)]
pub struct Suspects {
    refused: Refused,
    rows: Vec<Sent>,
}

/// Who is to blame for what a proxy refused.
#[derive(Debug)]
pub struct Isolated {
    refused: Refused,
    outcome: Outcome,
    /// With the content hash of each, in hexadecimal digits.
    found: Vec<(String, records::Verdict)>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Found,
    /// The judge takes all.
    Innocent,
    Unfinished,
    /// There is no judge, or too much waits for it.
    Unjudged,
    /// The proxy is of another version, or does not say which.
    OtherVersion,
    /// There is no room for some.
    Full,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Innocent => "innocent",
            Self::Unfinished => "unfinished",
            Self::Unjudged => "unjudged",
            Self::OtherVersion => "other_version",
            Self::Full => "full",
        }
    }
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
    judge: Arc<Judge>,
    cases: mpsc::Sender<Case>,
    /// What proxies refused and nobody has looked at.
    refused: Vec<Refused>,
    /// The versions of which it was found who is to blame, or is being looked for: proxies of one Gateway refuse the same.
    known: HashMap<(NsName, ResourceType, String), Version>,
}

impl Isolation {
    pub(super) fn new(judge: Arc<Judge>) -> (Self, mpsc::Receiver<Case>) {
        let (cases, receiver) = mpsc::channel(WAITING);
        (Self { judge, cases, refused: Vec::new(), known: HashMap::new() }, receiver)
    }

    /// The version of the Envoy that judges; none where there is none.
    pub(super) fn judge(&self) -> Option<String> {
        self.judge.build().map(|build| build.number().to_owned())
    }

    /// Has the Envoy that judges be asked about what another version refused. Where too much waits for it, at another time.
    pub(super) fn review(&self, outdated: Vec<Fragment>) {
        if !outdated.is_empty() {
            drop(self.cases.try_send(Case::Review(outdated)));
        }
    }

    /// Takes note of what a proxy refuses.
    pub(super) fn take(&mut self, event: &xds::Event) {
        let xds::Event::Nacked { gateway, kind, names, versions, acknowledged, envoy, .. } = event else { return };
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

    /// Has what was refused be looked at: the routes that stand there now, and did not stand where the proxy took it; clusters as
    /// they are now. Gives those for which there is no room.
    pub(super) fn look(&mut self, translator: &Translator) -> Vec<Isolated> {
        let mut left = Vec::new();
        for refused in std::mem::take(&mut self.refused) {
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
            if let Err(error) = self.cases.try_send(Case::Suspects(Suspects { refused, rows })) {
                let Case::Suspects(Suspects { refused, .. }) = error.into_inner() else { continue };
                left.push(Isolated { refused, outcome: Outcome::Unjudged, found: Vec::new() });
            }
        }
        left
    }

    /// Something that was found is not refused any more: a proxy may refuse the same again.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// What may come of it another time is looked at again when a proxy refuses it again.
    pub(super) fn done(&mut self, isolated: &Isolated) {
        let Refused { gateway, kind, names, .. } = &isolated.refused;
        if matches!(isolated.outcome, Outcome::Found | Outcome::Innocent | Outcome::Full) {
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

impl Isolated {
    /// Takes out what was found.
    pub(super) fn take_found(&mut self) -> Vec<(String, records::Verdict)> {
        std::mem::take(&mut self.found)
    }

    /// Some of it found no room.
    pub(super) fn set_full(&mut self) {
        self.outcome = Outcome::Full;
    }

    /// As metrics call what came of it, and how long that took.
    pub(super) fn outcome(&self) -> (&'static str, Duration) {
        let Refused { gateway, kind, names, since, .. } = &self.refused;
        let (outcome, name) = (self.outcome.as_str(), names.first().map_or("", |(name, _)| name));
        tracing::info!(%gateway, %kind, name, count = names.len(), outcome, "it was looked who is to blame for what a proxy refused");
        (outcome, since.elapsed())
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

/// The content hash of a part, as it is recorded.
fn hash(fragment: &Fragment) -> String {
    format!("{:032x}", u128::from_be_bytes(fragment.hash))
}

async fn find(judge: &Judge, Suspects { refused, rows }: Suspects) -> Isolated {
    let of = |refused, outcome| Isolated { refused, outcome, found: Vec::new() };
    let Some(build) = build(judge).await else { return of(refused, Outcome::Unjudged) };
    if refused.envoy.is_none_or(|version| version.to_string() != build.number()) {
        return of(refused, Outcome::OtherVersion);
    }
    let fragments: Vec<_> = rows.iter().map(|sent| sent.fragment.clone()).collect();
    let verdicts = judge.judge(&fragments, &mut budget()).await;
    let is_unfinished = verdicts.iter().any(|verdict| matches!(verdict, Verdict::Unknown(_)));
    let found = rows.iter().zip(&verdicts).filter_map(|(sent, verdict)| match verdict {
        Verdict::Refused(refusal) => Some(recorded(&refused, sent, refusal)),
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

fn recorded(refused: &Refused, sent: &Sent, refusal: &Refusal) -> (String, records::Verdict) {
    let verdict = records::Verdict {
        part: if sent.fragment.kind == Kind::Cluster { verdicts::CLUSTER } else { verdicts::ROUTE }.to_owned(),
        kind: sent.object.kind.to_string(),
        namespace: sent.object.namespace.to_string(),
        name: sent.object.name.to_string(),
        gateway: refused.gateway.to_string(),
        version: refusal.build.number().to_owned(),
        how: refusal.how.as_str().to_owned(),
        words: words(sent, refusal),
        since: Timestamp::now(),
        unused_since: None,
    };
    (hash(&sent.fragment), verdict)
}

#[cfg(test)]
mod tests {
    use std::{
        env,
        path::{Path, PathBuf},
    };

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
