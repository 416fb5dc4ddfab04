//! What `portcullis status` prints, and `/debug/status` answers: what is broken, where, and who must act.
//!
//! A controller sends it as JSON, so that both ways of asking end in the same text.

use std::fmt::{self, Write as _};

use api::{Kind, ObjectId};
use ir::{Problem, Reason, Severity};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use translate::Reports;

use super::{
    ClusterSnapshot,
    definitions::{ADMINISTRATOR, IncompleteDefinition},
};

/// Which objects are asked about; all without any limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Of this namespace, which leaves out objects of the cluster unless their kind is asked for.
    pub namespace: Option<String>,
    /// Of this kind.
    pub kind: Option<Kind>,
    /// Of this name.
    pub name: Option<String>,
}

impl Selection {
    /// Whether an object is asked about.
    pub fn takes(&self, id: &ObjectId) -> bool {
        let clustered = self.kind.is_some_and(|kind| !kind.namespaced());
        let in_namespace = |namespace: &str| clustered || *id.namespace == *namespace;
        self.namespace.as_deref().is_none_or(in_namespace)
            && self.kind.is_none_or(|kind| id.kind == kind)
            && self.name.as_deref().is_none_or(|name| *id.name == *name)
    }
}

/// What is broken, where, and who must act.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusReport {
    /// What is wrong with objects, by object.
    pub problems: Vec<ReportedProblem>,
    /// The object that was asked about by its name, if its kind has a status.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectStatus>,
    /// Definitions that are not there, or lack fields that are read.
    pub definitions: Vec<IncompleteDefinition>,
    /// Kinds that cannot be read, so that the rest of the report may not be true any more.
    pub unread: Vec<Unread>,
}

/// An object, as manifests name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Named {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; left out for an object of the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl From<&ObjectId> for Named {
    fn from(id: &ObjectId) -> Self {
        Self {
            api_version: id.kind.api_version(),
            kind: id.kind.as_str().to_owned(),
            namespace: id.namespace.to_string(),
            name: id.name.to_string(),
        }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

/// One thing that is wrong with an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedProblem {
    /// The object.
    pub object: Named,
    /// Who must act.
    pub actor: String,
    /// What becomes of the traffic: `refused`, `replaced`, `ignored` or `warning`.
    pub severity: String,
    /// The reason, as conditions have it.
    pub reason: String,
    /// The field; empty where it is none in particular.
    pub field: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl ReportedProblem {
    fn of(id: &ObjectId, problem: &Problem) -> Self {
        Self {
            object: id.into(),
            actor: if id.kind.namespaced() { format!("the owner of {id}") } else { ADMINISTRATOR.to_owned() },
            severity: problem.severity.to_string(),
            reason: problem.reason.to_string(),
            field: problem.field.clone(),
            message: problem.message.clone(),
        }
    }
}

/// What the status of an object is, or would be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectStatus {
    /// The object.
    pub object: Named,
    /// Its status, without times.
    pub status: Value,
}

/// A kind that is not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Unread {
    /// The kind.
    pub kind: String,
    /// Why not.
    pub why: String,
}

impl StatusReport {
    /// What a settled translator knows about what is asked for.
    pub fn of(reports: &Reports, selection: &Selection) -> Self {
        let problems = reports.problems().into_iter().filter(|(id, _)| selection.takes(id));
        let problems = problems.map(|(id, problem)| ReportedProblem::of(&id, &problem)).collect();
        let objects = match selection.name {
            None => Vec::new(),
            Some(_) => {
                let statuses = reports.statuses().filter(|(id, _)| selection.takes(id)).map(|(id, status)| {
                    let mut status = status.value();
                    crate::document::drop_times(&mut status);
                    ObjectStatus { object: id.into(), status }
                });
                statuses.collect()
            }
        };
        Self { problems, objects, ..Self::default() }
    }

    /// What a snapshot of a cluster has about what is asked for.
    pub fn of_snapshot(snapshot: &ClusterSnapshot, selection: &Selection) -> Self {
        let mut report = Self::of(&snapshot.translator.reports(), selection);
        report.undecodable(&snapshot.undecodable, selection);
        report.unread(snapshot.unread.iter().map(|(kind, why)| (*kind, why.as_str())));
        report
    }

    /// Adds those of what is asked for that cannot be decoded, or read, and why.
    pub fn undecodable<'a>(
        &mut self,
        undecodable: impl IntoIterator<Item = (&'a ObjectId, &'a String)>,
        selection: &Selection,
    ) {
        let undecodable = undecodable.into_iter().filter(|(id, _)| selection.takes(id));
        self.problems.extend(undecodable.map(|(id, why)| {
            let problem = Problem::new(Severity::Refused, Reason::Invalid, "", why.clone());
            ReportedProblem::of(id, &problem)
        }));
    }

    /// Adds another report's problems and kinds that are not read.
    pub fn append(&mut self, other: Self) {
        self.problems.extend(other.problems);
        self.unread.extend(other.unread);
    }

    /// Adds kinds that are not read.
    pub fn unread<'a>(&mut self, unread: impl IntoIterator<Item = (Kind, &'a str)>) {
        let unread = unread.into_iter().map(|(kind, why)| Unread { kind: kind.to_string(), why: why.to_owned() });
        self.unread.extend(unread);
    }

    /// Whether anything is refused, replaced or ignored, cannot be there at all, or is not known.
    pub fn fails(&self) -> bool {
        let warning = Severity::Warning.to_string();
        self.problems.iter().any(|problem| problem.severity != warning)
            || self.definitions.iter().any(IncompleteDefinition::is_vital)
            || !self.unread.is_empty()
    }

    /// How many problems are of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        let severity = severity.to_string();
        self.problems.iter().filter(|problem| problem.severity == severity).count()
    }
}

impl fmt::Display for StatusReport {
    /// By object; a last line sums up.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Unread { kind, why } in &self.unread {
            writeln!(f, "! {kind} cannot be read, so what depends on it may be otherwise: {why}")?;
        }
        for lacking in &self.definitions {
            write!(f, "{lacking}")?;
        }
        for object in &self.objects {
            writeln!(f, "{}", object.object)?;
            write!(f, "{}", conditions(&object.status))?;
        }
        let mut object = None;
        for problem in &self.problems {
            if object != Some(&problem.object) {
                writeln!(f, "{}: {} must act", problem.object, problem.actor)?;
                object = Some(&problem.object);
            }
            let field = if problem.field.is_empty() { String::new() } else { format!("{}: ", problem.field) };
            writeln!(f, "  {}: {field}{} ({})", problem.severity, problem.message, problem.reason)?;
        }
        let [refused, replaced, ignored, warnings] =
            [Severity::Refused, Severity::Replaced, Severity::Ignored, Severity::Warning]
                .map(|severity| self.count(severity));
        writeln!(f, "{refused} refused, {replaced} replaced, {ignored} ignored, {warnings} warnings")
    }
}

/// The conditions of a status, one a line, wherever in it they stand.
fn conditions(status: &Value) -> String {
    let mut text = String::new();
    for condition in status["conditions"].as_array().into_iter().flatten() {
        write_condition(&mut text, condition, "");
    }
    for (list, reference) in [("parents", "parentRef"), ("ancestors", "ancestorRef")] {
        for entry in status[list].as_array().into_iter().flatten() {
            let place = at(&entry[reference]);
            for condition in entry["conditions"].as_array().into_iter().flatten() {
                write_condition(&mut text, condition, &place);
            }
        }
    }
    for listener in status["listeners"].as_array().into_iter().flatten() {
        let place = format!(" at listener {}", listener["name"].as_str().unwrap_or_default());
        for condition in listener["conditions"].as_array().into_iter().flatten() {
            write_condition(&mut text, condition, &place);
        }
    }
    text
}

fn at(reference: &Value) -> String {
    let part = |name: &str| reference[name].as_str().filter(|text| !text.is_empty());
    let kind = part("kind").unwrap_or("Gateway");
    let namespace = part("namespace").map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let section = part("sectionName").map(|section| format!(" section {section}")).unwrap_or_default();
    format!(" at {kind} {namespace}{}{section}", part("name").unwrap_or_default())
}

fn write_condition(text: &mut String, condition: &Value, place: &str) {
    let part = |name: &str| condition[name].as_str().unwrap_or_default();
    let _ = writeln!(text, "  {}={} ({}){place}", part("type"), part("status"), part("reason"));
}

#[cfg(test)]
mod tests;
