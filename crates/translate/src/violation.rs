//! What an API server would have refused.

use api::{Object, Violation};
use ir::{Problem, Reason, Severity};

/// Refuses what an API server with our schema would not have taken: a file, or an older schema, may let it through.
pub(crate) fn sound(policy: &Object) -> Result<(), Problem> {
    violations(policy).next().map_or(Ok(()), Err)
}

/// Refuses what the object asks for and nobody serves.
pub(crate) fn honoured(object: &Object) -> Result<(), Problem> {
    let refused = object.refused_fields().into_iter().next();
    refused.map_or(Ok(()), |field| {
        Err(Problem::new(Severity::Refused, Reason::UnsupportedValue, field.path, field.reason))
    })
}

/// All of it.
pub(crate) fn violations(policy: &Object) -> impl Iterator<Item = Problem> {
    api::violations(policy).into_iter().map(problem)
}

/// What is wrong with an object, in a sentence.
pub(crate) fn problem(violation: Violation) -> Problem {
    let value = violation.value.map(|value| format!("{value:?} is invalid: ")).unwrap_or_default();
    let message = format!("{value}{}", violation.message);
    Problem::new(Severity::Refused, Reason::Invalid, violation.path, message)
}
