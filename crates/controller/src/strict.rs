//! Strict validation of what a translator has: an Envoy judges all that would be sent, and what it refuses is replaced.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api::ObjectId;
use envoy::{
    json::holds_credentials,
    judged::{Fragment, Kind},
};
use ir::{Problem, Reason, RouteId, Severity};
use judge::{Budget, How, Judge, Refusal, Verdict};
use tokio::time::Instant;
use translate::{RefusedRows, Translator, inspect::Sent};

/// How often what stands in the place of what is refused is judged: what answers 500, and what then is left without a match.
const ROUNDS: usize = 4;
/// How long it may take to find out whom to blame, and how many processes.
const TIME: Duration = Duration::from_mins(5);
const RUNS: u32 = 20_000;

/// Has all that would be sent judged, and what is refused of routes replaced, until nothing of them is refused any more. What is
/// wrong and told nowhere else is returned.
pub async fn validate(translator: &mut Translator, judge: &Judge) -> Vec<(ObjectId, Problem)> {
    let mut budget = Budget { runs: RUNS, until: Instant::now() + TIME };
    let mut refused: BTreeMap<RouteId, RefusedRows> = BTreeMap::new();
    let mut problems = BTreeSet::new();
    for _ in 0..ROUNDS {
        let sent = translator.inspect().sent();
        let fragments: Vec<_> = sent.iter().map(|sent| sent.fragment.clone()).collect();
        let verdicts = judge.judge(&fragments, &mut budget).await;
        let mut changed = BTreeSet::new();
        for (Sent { fragment, object, field, route }, verdict) in sent.iter().zip(verdicts) {
            let problem = match &verdict {
                Verdict::Accepted => continue,
                Verdict::Refused(refusal) => {
                    let words = words(fragment, refusal);
                    if let Some(route) = route {
                        refused.entry(route.clone()).or_default().insert(fragment.hash, &*words);
                        changed.insert(route.clone());
                        let message = format!("{words}; write the rule or the match otherwise");
                        Problem::new(Severity::Replaced, Reason::UnsupportedValue, field, message)
                    } else {
                        Problem::new(
                            Severity::Refused,
                            Reason::UnsupportedValue,
                            field,
                            format!("{words}; {}", what(fragment.kind)),
                        )
                    }
                }
                Verdict::Unknown(why) => {
                    let message = format!("nobody knows whether Envoy takes {}: {why}", what(fragment.kind));
                    Problem::new(Severity::Refused, Reason::UnsupportedValue, field, message)
                }
            };
            problems.insert((object.clone(), problem));
        }
        if changed.is_empty() {
            break;
        }
        for route in changed {
            translator.set_refused(&route, refused[&route].clone());
        }
        translator.settle();
    }
    // A route tells itself what was replaced of it, unless its Envoy routes differ from listener to listener.
    problems.retain(|(object, problem)| {
        translator.problems_of(object).iter().all(|told| told.field != problem.field || told.reason != problem.reason)
    });
    problems.into_iter().collect()
}

/// Why a fragment is refused, without what may quote a credential.
fn words(fragment: &Fragment, refusal: &Refusal) -> String {
    match refusal.how {
        How::Words(_) if holds_credentials(fragment.kind.message_name(), &fragment.bytes) => {
            format!("{} refuses it; its words are withheld, since there is a credential in it", refusal.build)
        }
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
