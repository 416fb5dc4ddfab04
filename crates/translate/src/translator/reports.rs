//! Statuses and problems, for readers outside.

use std::sync::Arc;

use api::{Kind, ObjectId, Violation};
use engine::{Engine, Table};
use ir::{NsName, Problem, Severity};

use super::Translator;
use crate::{
    internal,
    route::direct_response::RefusedResponses,
    status::{Report, StatusRow, class::ClassStatus, gateway::GatewayStatus, policy::PolicyStatus, route::RouteStatus},
    tables::input::ObjectKey,
};

/// The tables of reports, with the kinds of their objects.
const TABLES: [(&[Kind], &dyn ReportTable); 5] = [
    (&[Kind::GatewayClass], &ClassStatus),
    (&[Kind::Gateway], &GatewayStatus),
    (&[Kind::HttpRoute], &RouteStatus),
    (&[Kind::TrafficPolicy, Kind::RewritePolicy, Kind::DelegationPolicy], &PolicyStatus),
    (&[Kind::DirectResponse], &RefusedResponses),
];

/// A table of reports. Its objects are of `kind`, unless its keys name another.
trait ReportTable {
    fn take_changes(&self, engine: &mut Engine, kind: Kind) -> Vec<ObjectId>;
    fn get(&self, engine: &Engine, id: &ObjectId) -> Option<Arc<dyn Report>>;
    fn rows(&self, engine: &Engine, kind: Kind) -> Vec<(ObjectId, Arc<dyn Report>)>;
    fn poisoned(&self, engine: &Engine, kind: Kind) -> Vec<ObjectId>;
}

impl<T: Table<Key: ObjectKey, Value: Report>> ReportTable for T {
    fn take_changes(&self, engine: &mut Engine, kind: Kind) -> Vec<ObjectId> {
        engine.take_changes::<T>().into_iter().map(|key| key.id(kind)).collect()
    }

    fn get(&self, engine: &Engine, id: &ObjectId) -> Option<Arc<dyn Report>> {
        Some(engine.get::<T>(&T::Key::of(id))?)
    }

    fn rows(&self, engine: &Engine, kind: Kind) -> Vec<(ObjectId, Arc<dyn Report>)> {
        engine.rows::<T>().into_iter().map(|(key, row)| (key.id(kind), row as Arc<dyn Report>)).collect()
    }

    fn poisoned(&self, engine: &Engine, kind: Kind) -> Vec<ObjectId> {
        engine.poisoned::<T>().into_iter().map(|(key, _)| key.id(kind)).collect()
    }
}

impl Translator {
    /// Objects whose status changed since the last time, and others whose problems did.
    pub(super) fn take_reported(&mut self) -> (Vec<ObjectId>, Vec<ObjectId>) {
        let (mut statuses, mut problems) = (Vec::new(), std::mem::take(&mut self.turned));
        for (kinds, table) in TABLES {
            let list = if kinds[0].has_status_of_ours() { &mut statuses } else { &mut problems };
            list.extend(table.take_changes(&mut self.engine, kinds[0]));
        }
        for id in statuses.iter().filter(|id| id.kind == Kind::HttpRoute) {
            let route = NsName::of(id);
            if self.engine.get::<RouteStatus>(&route).is_some_and(|report| report.is_published_unasked()) {
                self.unasked.insert(route);
            } else {
                self.unasked.remove(&route);
            }
        }
        (statuses, problems)
    }

    fn report(&self, id: &ObjectId) -> Option<Arc<dyn Report>> {
        let (_, table) = TABLES.into_iter().find(|(kinds, _)| kinds.contains(&id.kind))?;
        table.get(&self.engine, id)
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
        let rows = TABLES.into_iter().flat_map(|(kinds, table)| table.rows(&self.engine, kinds[0]));
        rows.filter(|(_, report)| report.has_status()).map(|(id, report)| (id, StatusRow(report))).collect()
    }

    /// The problems of one object. That its status cannot be computed is not among them.
    pub fn problems_of(&self, id: &ObjectId) -> Vec<Problem> {
        let left_out = self.left_out.get(id).map(|violations| left_out(violations));
        left_out.or_else(|| Some(self.report(id)?.problems())).unwrap_or_default()
    }

    /// The problems of all objects. Reads all tables: for people, not for a hot path.
    pub fn problems(&self) -> Vec<(ObjectId, Problem)> {
        let mut problems = Vec::new();
        let mut add = |id: &ObjectId, list: Vec<Problem>| {
            problems.extend(list.into_iter().map(|problem| (id.clone(), problem)));
        };
        for (id, violations) in &self.left_out {
            add(id, left_out(violations));
        }
        for (kinds, table) in TABLES {
            for (id, report) in table.rows(&self.engine, kinds[0]) {
                add(&id, report.problems());
            }
            for id in table.poisoned(&self.engine, kinds[0]) {
                add(&id, vec![internal::problem(Severity::Refused, "")]);
            }
        }
        problems.sort();
        problems
    }
}

fn left_out(violations: &[Violation]) -> Vec<Problem> {
    let problem = |violation: &Violation| {
        let message = format!("{}; this entry is left out", violation.message);
        Problem::new(Severity::Ignored, "UnsupportedValue", violation.path.clone(), message)
    };
    violations.iter().map(problem).collect()
}
