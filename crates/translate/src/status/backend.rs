//! The status of Backends.

use api::status::BackendStatus as Status;
use engine::{Derived, Emitter};
use ir::{NsName, Reason};

use super::{Conditions, StatusReport};
use crate::{backend::hosts::BackendHosts, tables::input::Backends};

tables! {
    /// Statuses of Backends.
    BackendStatus: NsName => StatusReport<Status>;
}

impl Derived for BackendStatus {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<Self::Value> {
        let backend = scope.get::<Backends>(key)?;
        let mut conditions = Conditions::new(backend.metadata.generation);
        let mut problems = Vec::new();
        match &*scope.get::<BackendHosts>(key)? {
            Ok(_) => conditions.yes("Accepted", Reason::Accepted, "requests can be sent to it"),
            Err(problem) => {
                conditions.no("Accepted", problem.reason, problem.to_string());
                problems.push(problem.clone());
            }
        }
        Some(StatusReport { status: Some(Status { conditions: conditions.done() }), problems })
    }
}
