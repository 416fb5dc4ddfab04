//! What `portcullis check` reports: everything that is wrong with manifests, with the place to look at.

use std::{collections::HashMap, path::PathBuf};

use api::ObjectId;
use ir::{Problem, Severity};
use serde::Serialize;
use translate::Translator;

use crate::{
    document::Name,
    files::{FilePlaces, FileProblem, Files},
};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, where one has it.
    pub file: Option<PathBuf>,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
    /// The object, if it is known.
    pub object: Option<ObjectId>,
    /// What is wrong with it.
    pub problem: Problem,
}

/// All that is wrong, by file and place.
#[derive(Debug, Default)]
pub struct Report(Vec<Finding>);

impl Report {
    /// What files and a settled translator know to be wrong, and what an Envoy said besides ([`validate`](crate::strict::validate)).
    pub fn of(
        files: &Files,
        file_problems: &[FileProblem],
        translator: &Translator,
        judged: Vec<(ObjectId, Problem)>,
    ) -> Self {
        let mut files_places = HashMap::new();
        let mut locate = |id: &ObjectId, field: &str| {
            let origin = files.manifests().origin(id)?;
            let path = origin.file.path().to_owned();
            let places = files_places
                .entry(path.clone())
                .or_insert_with(|| FilePlaces::of(&std::fs::read_to_string(&path).unwrap_or_default()));
            let position = places.locate(&origin, field);
            Some((path, position))
        };
        let mut findings: Vec<_> = file_problems
            .iter()
            .map(|FileProblem { file, position, object, problem, .. }| Finding {
                file: Some(file.clone()),
                line: position.line,
                column: position.column,
                object: object.clone(),
                problem: problem.clone(),
            })
            .collect();
        for (id, problem) in translator.problems().into_iter().chain(judged) {
            let place = locate(&id, &problem.field);
            let (line, column) = place.as_ref().map_or((1, 1), |(_, position)| (position.line, position.column));
            findings.push(Finding { file: place.map(|(path, _)| path), line, column, object: Some(id), problem });
        }
        findings.sort();
        findings.dedup();
        Self(findings)
    }

    /// All that is wrong.
    pub fn findings(&self) -> &[Finding] {
        &self.0
    }

    /// Whether anything is refused, replaced or ignored; with `strict`, whether there is anything at all.
    pub fn fails(&self, strict: bool) -> bool {
        self.0.iter().any(|finding| strict || finding.problem.severity != Severity::Warning)
    }

    fn count(&self, severity: Severity) -> usize {
        self.0.iter().filter(|finding| finding.problem.severity == severity).count()
    }

    /// One line each, and a last line that sums up.
    pub fn to_text(&self) -> String {
        let line = |Finding { file, line, column, object, problem }: &Finding| {
            let file = file.as_ref().map(|file| format!("{}:{line}:{column}: ", file.display())).unwrap_or_default();
            let object = object.as_ref().map(|object| format!("{object}: ")).unwrap_or_default();
            format!("{file}{object}{}: {problem}\n", problem.severity)
        };
        let text: String = self.0.iter().map(line).collect();
        let counts = SEVERITIES.map(|severity| format!("{} {}", self.count(severity), plural(severity)));
        text + &counts.join(", ") + "\n"
    }

    /// As JSON.
    pub fn to_json(&self) -> serde_json::Result<String> {
        #[derive(Serialize)]
        struct Document<'a> {
            problems: Vec<Entry<'a>>,
            summary: Summary,
        }
        let summary = Summary {
            refused: self.count(Severity::Refused),
            replaced: self.count(Severity::Replaced),
            ignored: self.count(Severity::Ignored),
            warnings: self.count(Severity::Warning),
        };
        let document = Document { problems: self.0.iter().map(entry).collect(), summary };
        Ok(serde_json::to_string_pretty(&document)? + "\n")
    }
}

const SEVERITIES: [Severity; 4] = [Severity::Refused, Severity::Replaced, Severity::Ignored, Severity::Warning];

fn plural(severity: Severity) -> &'static str {
    match severity {
        Severity::Refused => "refused",
        Severity::Replaced => "replaced",
        Severity::Ignored => "ignored",
        Severity::Warning => "warnings",
    }
}

#[derive(Serialize)]
struct Summary {
    refused: usize,
    replaced: usize,
    ignored: usize,
    warnings: usize,
}

#[derive(Serialize)]
struct Entry<'a> {
    severity: String,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<Object>,
    field: &'a str,
    message: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Object {
    api_version: String,
    kind: &'static str,
    metadata: Name,
}

fn entry(finding: &Finding) -> Entry<'_> {
    let Finding { file, line, column, object, problem } = finding;
    Entry {
        severity: problem.severity.to_string(),
        reason: problem.reason.as_str(),
        file: file.as_ref().map(|file| file.display().to_string()),
        line: file.as_ref().map(|_| *line),
        column: file.as_ref().map(|_| *column),
        object: object.as_ref().map(|id| Object {
            api_version: id.kind.api_version(),
            kind: id.kind.as_str(),
            metadata: Name { namespace: id.namespace.to_string(), name: id.name.to_string() },
        }),
        field: &problem.field,
        message: &problem.message,
    }
}
