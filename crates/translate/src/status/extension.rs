//! The status of GatewayExtensions.

use api::status::ExtensionStatus as Status;
use engine::{Derived, Emitter};
use ir::{NsName, Reason, Severity};

use super::{Conditions, StatusReport, and_notes};
use crate::{extension::ExtensionRow, internal, tables::input::Extensions};

tables! {
    /// Statuses of GatewayExtensions.
    ExtensionStatus: NsName => StatusReport<Status>;
}

impl Derived for ExtensionStatus {
    fn compute(scope: &Emitter<'_>, id: &NsName) -> Option<Self::Value> {
        let written = scope.get::<Extensions>(id)?;
        let judged = scope.get::<ExtensionRow>(id)?;
        let mut conditions = Conditions::new(written.metadata.generation);
        let mut problems = judged.warnings.clone();
        match &judged.extension {
            Ok(_) => conditions.yes("Accepted", Reason::Accepted, and_notes("policies can ask it", &judged.warnings)),
            Err(fault) => {
                conditions.no("Accepted", fault.reason, fault.to_string());
                problems.insert(0, fault.clone());
            }
        }
        Some(StatusReport { status: Some(Status { conditions: conditions.done() }), problems })
    }

    fn poisoned(scope: &Emitter<'_>, id: &NsName, _: &engine::Fault) -> Option<Self::Value> {
        let written = scope.get::<Extensions>(id)?;
        let fault = internal::problem(Severity::Refused, "");
        let mut conditions = Conditions::new(written.metadata.generation);
        conditions.no("Accepted", fault.reason, fault.to_string());
        Some(StatusReport { status: Some(Status { conditions: conditions.done() }), problems: vec![fault] })
    }
}
