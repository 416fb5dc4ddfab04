//! What policies of connections are told alike, whichever side of a proxy they are of.

use api::{ObjectId, meta::ObjectMeta, status::Condition};
use ir::{Problem, Reason, Severity};

use super::{Conditions, and_notes, listed};

/// How a policy stands where it applies: what is wrong with it, whether any of its fields holds there, and who says something
/// in place of it.
pub(super) fn standing<'a>(
    metadata: &ObjectMeta,
    faults: impl IntoIterator<Item = &'a Problem>,
    notes: &[Problem],
    holds: bool,
    winners: &[impl ToString],
) -> Vec<Condition> {
    let mut conditions = Conditions::new(metadata.generation);
    let faults: Vec<_> = faults.into_iter().collect();
    if let Some(first) = faults.first() {
        let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
        conditions.no("Accepted", first.reason, told.join("; "));
        return conditions.done();
    }
    conditions.yes("Accepted", Reason::Valid, and_notes("the policy is valid", notes));
    match (holds, winners) {
        (_, []) => conditions.yes("Attached", Reason::Attached, "nothing overrides it"),
        (true, winners) => {
            conditions.yes("Attached", Reason::Merged, format!("it holds in part, beside {}", listed(winners)));
        }
        (false, winners) => {
            conditions.no("Attached", Reason::Overridden, format!("it is overridden by {}", listed(winners)));
        }
    }
    conditions.done()
}

/// What a policy is told whose target of this index is not there.
pub(super) fn missing(metadata: &ObjectMeta, object: &ObjectId, index: usize) -> (Problem, Vec<Condition>) {
    let message = format!("{object} does not exist; create it, or correct the name");
    let field = format!("spec.targetRefs[{index}].name");
    let problem = Problem::new(Severity::Ignored, Reason::TargetNotFound, field, message);
    let mut conditions = Conditions::new(metadata.generation);
    conditions.no("Accepted", problem.reason, problem.to_string());
    (problem, conditions.done())
}
