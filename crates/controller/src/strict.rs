//! Strict validation of what a translator has: an Envoy judges all that would be sent, and what it refuses is replaced.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api::ObjectId;
use envoy::{json::holds_credentials, judged::Kind};
use ir::{Problem, Reason, RouteId, Severity};
use judge::{Budget, How, Judge, Refusal, Verdict};
use tokio::time::Instant;
use translate::{RefusedRows, Translator, inspect::Sent};

/// How often what stands in the place of what is refused is judged: what answers 500, and what then is left without a match; and
/// how often what nobody could say.
const ROUNDS: usize = 4;
/// How long it may take to find out whom to blame, and how many processes.
const TIME: Duration = Duration::from_mins(5);
const RUNS: u32 = 20_000;

/// What came of judging.
#[derive(Debug)]
pub struct Judged {
    /// What is wrong and told nowhere else.
    pub problems: Vec<(ObjectId, Problem)>,
    /// Of how many parts of what is sent now nobody knows whether Envoy takes them.
    pub unknown: usize,
}

/// Has all that would be sent judged, and what is refused of routes replaced, until nothing more of them is refused.
pub async fn validate(translator: &mut Translator, judge: &Judge) -> Judged {
    let mut budget = Budget { runs: RUNS, until: Instant::now() + TIME };
    let mut refused: BTreeMap<RouteId, RefusedRows> = BTreeMap::new();
    // What was replaced, which later rounds see no more of.
    let mut replaced = BTreeSet::new();
    let (mut last, mut unknown) = (BTreeSet::new(), 0);
    for round in 1..=ROUNDS {
        let sent = translator.inspect().sent();
        let fragments: Vec<_> = sent.iter().map(|sent| sent.fragment.clone()).collect();
        let verdicts = judge.judge(&fragments, &mut budget).await;
        let mut changed = BTreeMap::new();
        (last, unknown) = (BTreeSet::new(), 0);
        for (sent, verdict) in sent.iter().zip(&verdicts) {
            let problem = |severity, message| {
                (sent.object.clone(), Problem::new(severity, Reason::UnsupportedValue, &sent.field, message))
            };
            match (verdict, &sent.route) {
                (Verdict::Accepted, _) => {}
                (Verdict::Refused(refusal), Some(route)) => {
                    let words = words(sent, refusal);
                    let is_said = matches!(refusal.how, How::Words(_));
                    if refused.entry(route.clone()).or_default().insert(sent.fragment.hash, &*words, is_said) {
                        changed.insert(route.clone(), sent.object.clone());
                        replaced.insert(problem(Severity::Replaced, RefusedRows::told(&words)));
                    } else {
                        let message = format!("{words}; it answers 500 already, and is sent as it is");
                        last.insert(problem(Severity::Refused, message));
                    }
                }
                (Verdict::Refused(refusal), None) => {
                    let message = format!("{}; {}", words(sent, refusal), what(sent.fragment.kind));
                    last.insert(problem(Severity::Refused, message));
                }
                (Verdict::Unknown(why), _) => {
                    unknown += 1;
                    let what = what(sent.fragment.kind);
                    last.insert(problem(Severity::Refused, format!("nobody knows whether Envoy takes {what}: {why}")));
                }
            }
        }
        if changed.is_empty() && unknown == 0 {
            break;
        }
        for route in changed.keys() {
            translator.set_refused(route, refused[route].clone());
        }
        translator.settle();
        if round == ROUNDS {
            unknown += changed.len();
            last.extend(changed.into_values().map(|object| {
                let message = "nobody knows whether Envoy takes what stands in place of what it refuses: it refused that too often";
                let problem = Problem::new(Severity::Refused, Reason::UnsupportedValue, "spec.rules", message);
                (object, problem)
            }));
        }
    }
    // A route tells itself what was replaced of it, unless its Envoy routes differ from listener to listener.
    replaced.retain(|(object, problem)| {
        let told = translator.problems_of(object);
        told.iter().all(|told| (&told.field, &told.message) != (&problem.field, &problem.message))
    });
    Judged { problems: replaced.into_iter().chain(last).collect(), unknown }
}

/// Why a part is refused, without what may quote a credential, or what its owner may not read.
pub(crate) fn words(Sent { fragment, is_shared, .. }: &Sent, refusal: &Refusal) -> String {
    let withheld = |why| format!("{} refuses it; its words are withheld, since {why}", refusal.build);
    match refusal.how {
        How::Words(_) | How::End(_) if holds_credentials(fragment.kind.message_name(), &fragment.bytes) => {
            withheld("there is a credential in it")
        }
        How::Words(_) | How::End(_) if *is_shared => withheld("what another namespace says is in it"),
        _ => refusal.to_string(),
    }
}

/// What a fragment is to the owner of its object.
fn what(kind: Kind) -> &'static str {
    match kind {
        Kind::Row => "the route that a match becomes",
        Kind::Host | Kind::RouteConfiguration => "what policies say for all routes of the Gateway or a listener",
        Kind::Cluster => "the cluster of this backend, and what policies say of it",
        Kind::Listener => "the listener, and what policies say of connections",
        Kind::Extension => "what policies of the Gateway's routes have in common",
    }
}
