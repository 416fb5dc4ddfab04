//! What an API server would have refused.

use api::Object;
use ir::{Problem, Reason, Severity};

/// Refuses what an API server with our schema would not have taken: a file, or an older schema, may let it through.
pub(crate) fn sound(policy: &Object) -> Result<(), Problem> {
    match api::violations(policy).into_iter().next() {
        None => Ok(()),
        Some(violation) => {
            let value = violation.value.map(|value| format!("{value:?} is invalid: ")).unwrap_or_default();
            let message = format!("{value}{}", violation.message);
            Err(Problem::new(Severity::Refused, Reason::Invalid, violation.path, message))
        }
    }
}
