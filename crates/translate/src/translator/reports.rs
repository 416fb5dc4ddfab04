//! Statuses and problems, for readers outside.

use std::sync::Arc;

use api::{Kind, ObjectId, Violation};
use engine::{Engine, Table};
use ir::{Problem, Reason, RouteId, Severity};

use super::Translator;
use crate::{
    internal,
    route::direct_response::RefusedResponses,
    status::{
        Report, StatusRow, backend::BackendStatus, class::ClassStatus, extension::ExtensionStatus,
        gateway::GatewayStatus, policy::PolicyStatus, route::RouteStatus, set::SetStatus,
    },
    tables::input::ObjectKey,
};

/// The tables of reports, each with a kind of its objects. A table has the objects of all kinds whose status is of one form.
const TABLES: [(Kind, &dyn ReportTable); 8] = [
    (Kind::GatewayClass, &ClassStatus),
    (Kind::Gateway, &GatewayStatus),
    (Kind::ListenerSet, &SetStatus),
    (Kind::HttpRoute, &RouteStatus),
    (Kind::TrafficPolicy, &PolicyStatus),
    (Kind::GatewayExtension, &ExtensionStatus),
    (Kind::DirectResponse, &RefusedResponses),
    (Kind::Backend, &BackendStatus),
];

/// Whether the table that is listed with `listed` has the objects of a kind.
fn has(listed: Kind, kind: Kind) -> bool {
    listed == kind || kind.has_status_of_ours() && listed.status() == kind.status()
}

/// A table of reports. Its objects are of `kind`, unless its keys name another.
trait ReportTable {
    fn take_changes(&self, engine: &mut Engine, kind: Kind) -> Vec<ObjectId>;
    fn get(&self, engine: &Engine, id: &ObjectId) -> Option<Arc<dyn Report>>;
    fn rows(&self, engine: &Engine, kind: Kind) -> Vec<(ObjectId, Arc<dyn Report>)>;
    fn poisoned(&self, engine: &Engine, kind: Kind) -> Vec<ObjectId>;
    fn resume(&self, engine: &mut Engine, before: &Engine);
}

impl<T: Table<Key: ObjectKey, Value: Report>> ReportTable for T {
    fn take_changes(&self, engine: &mut Engine, kind: Kind) -> Vec<ObjectId> {
        engine.take_changes::<T>().into_iter().map(|key| key.id(kind)).collect()
    }

    fn get(&self, engine: &Engine, id: &ObjectId) -> Option<Arc<dyn Report>> {
        Some(engine.get::<T>(&T::Key::of(id)?)?)
    }

    fn rows(&self, engine: &Engine, kind: Kind) -> Vec<(ObjectId, Arc<dyn Report>)> {
        engine.rows::<T>().into_iter().map(|(key, row)| (key.id(kind), row as Arc<dyn Report>)).collect()
    }

    fn poisoned(&self, engine: &Engine, kind: Kind) -> Vec<ObjectId> {
        engine.poisoned::<T>().into_iter().map(|(key, _)| key.id(kind)).collect()
    }

    fn resume(&self, engine: &mut Engine, before: &Engine) {
        engine.resume::<T>(before);
    }
}

/// Has an engine in the place of another one tell the reports that differ.
pub(super) fn resume(engine: &mut Engine, before: &Engine) {
    for (_, table) in TABLES {
        table.resume(engine, before);
    }
}

impl Translator {
    /// Objects whose status changed since the last time, and others whose problems did.
    pub(super) fn take_reported(&mut self) -> (Vec<ObjectId>, Vec<ObjectId>) {
        let turned = std::mem::take(&mut self.turned).into_iter();
        let (mut statuses, mut problems): (Vec<_>, Vec<_>) = turned.partition(|id| id.kind.has_status_of_ours());
        for (kind, table) in TABLES {
            let list = if kind.has_status_of_ours() { &mut statuses } else { &mut problems };
            list.extend(table.take_changes(&mut self.engine, kind));
        }
        if !self.quarantined.is_empty() {
            for list in [&mut statuses, &mut problems] {
                list.sort_unstable();
                list.dedup();
            }
        }
        for route in statuses.iter().filter_map(RouteId::of) {
            if self.engine.get::<RouteStatus>(&route).is_some_and(|report| report.is_published_unasked()) {
                self.unasked.insert(route);
            } else {
                self.unasked.remove(&route);
            }
        }
        (statuses, problems)
    }

    fn report(&self, id: &ObjectId) -> Option<Arc<dyn Report>> {
        let table = TABLES.into_iter().find(|(kind, _)| has(*kind, id.kind));
        self.told(id, table.and_then(|(_, table)| table.get(&self.engine, id)))
    }

    /// The status of an object as JSON; none if it has no status of ours.
    pub fn status(&self, id: &ObjectId) -> Option<String> {
        self.report(id)?.json()
    }

    /// All statuses, by object: for people, not for a hot path.
    pub fn statuses(&self) -> Vec<(ObjectId, serde_json::Value)> {
        self.status_rows().into_iter().map(|(id, row)| (id, row.value())).collect()
    }

    /// The same, not encoded yet.
    pub fn status_rows(&self) -> Vec<(ObjectId, StatusRow)> {
        self.report_rows()
            .into_iter()
            .filter(|(_, report)| report.has_status())
            .map(|(id, report)| (id, StatusRow(report)))
            .collect()
    }

    fn report_rows(&self) -> Vec<(ObjectId, Arc<dyn Report>)> {
        let mut rows: Vec<_> = TABLES.into_iter().flat_map(|(kind, table)| table.rows(&self.engine, kind)).collect();
        if !self.quarantined.is_empty() {
            rows.retain(|(id, _)| !self.quarantined.contains_key(id));
            rows.extend(self.quarantined.keys().filter_map(|id| Some((id.clone(), self.report(id)?))));
        }
        rows
    }

    /// The problems of one object. That its status cannot be computed is not among them.
    pub fn problems_of(&self, id: &ObjectId) -> Vec<Problem> {
        let left_out = self.left_out.get(id).map(|violations| left_out(violations));
        left_out.or_else(|| Some(self.report(id)?.problems())).unwrap_or_default()
    }

    /// The problems of all objects. Reads all tables: for people, not for a hot path.
    pub fn problems(&self) -> Vec<(ObjectId, Problem)> {
        self.reports().problems()
    }

    /// What is to be said of all objects, not put into words yet. Looks at each.
    pub fn reports(&self) -> Reports {
        let mut reports = Reports {
            left_out: self.left_out.iter().map(|(id, violations)| (id.clone(), violations.clone())).collect(),
            rows: self.report_rows(),
            poisoned: Vec::new(),
        };
        for (kind, table) in TABLES {
            reports.poisoned.extend(table.poisoned(&self.engine, kind));
        }
        reports
    }
}

/// What is to be said of all objects at one moment. Shared with the translator: to take it costs a look at each object, so
/// that the translator's thread may do it, and words are for another one.
pub struct Reports {
    left_out: Vec<(ObjectId, Box<[Violation]>)>,
    rows: Vec<(ObjectId, Arc<dyn Report>)>,
    /// Those of which nobody knows what is to be said.
    poisoned: Vec<ObjectId>,
}

impl Reports {
    /// All problems, sorted by object.
    pub fn problems(&self) -> Vec<(ObjectId, Problem)> {
        let left_out = self.left_out.iter().map(|(id, violations)| (id, left_out(violations)));
        let told = self.rows.iter().map(|(id, report)| (id, report.problems()));
        let unknown = self.poisoned.iter().map(|id| (id, vec![internal::problem(Severity::Refused, "")]));
        let all = left_out.chain(told).chain(unknown);
        let mut problems: Vec<_> =
            all.flat_map(|(id, list)| list.into_iter().map(|problem| (id.clone(), problem))).collect();
        problems.sort();
        problems
    }

    /// The statuses of objects that have one of ours, not encoded yet.
    pub fn statuses(&self) -> impl Iterator<Item = (&ObjectId, StatusRow)> {
        let having = self.rows.iter().filter(|(_, report)| report.has_status());
        having.map(|(id, report)| (id, StatusRow(report.clone())))
    }
}

fn left_out(violations: &[Violation]) -> Vec<Problem> {
    let problem = |violation: &Violation| {
        let message = format!("{}; this entry is left out", violation.message);
        Problem::new(Severity::Ignored, Reason::UnsupportedValue, violation.path.clone(), message)
    };
    violations.iter().map(problem).collect()
}
