//! Reading what decides where a route attaches, apart from its rules.

use std::sync::Arc;

use api::{RefusedField, meta::ObjectMeta, shared::ParentReference};
use ir::{
    Hostname, Problem, Reason, Severity,
    route::{Head, ParentRef, RuleHead},
};
use validate::hostname;

use super::annotations;

/// What routes of all kinds have beside rules.
pub(super) struct Written<'a> {
    pub(super) metadata: &'a ObjectMeta,
    pub(super) parents: &'a [ParentReference],
    pub(super) hostnames: &'a [Arc<str>],
    /// Fields that are set and not honoured.
    pub(super) refused: Vec<RefusedField>,
}

/// Reads everything but what the rules say.
pub(super) fn read(written: Written<'_>, rules: impl Iterator<Item = RuleHead>) -> Head {
    let Written { metadata, parents, hostnames, refused } = written;
    let mut problems = Vec::new();
    let read = read_hostnames(hostnames, &mut problems);
    problems.extend(annotations::problems(metadata));
    for RefusedField { path, affects, reason } in refused {
        // A rule tells of its own.
        if !matches!(affects, api::Affects::Rule(_)) {
            problems.push(Problem::new(Severity::Ignored, Reason::UnsupportedValue, path, reason));
        }
    }
    Head {
        uid: metadata.uid.clone(),
        created: metadata.creation_timestamp.map_or(0, jiff::Timestamp::as_second),
        labels: metadata.labels.entries().clone(),
        annotations: annotations::read(metadata),
        parents: parents.iter().map(parent_ref).collect(),
        hostnames: read.into(),
        names_hostnames: !hostnames.is_empty(),
        rules: rules.collect(),
        problems: problems.into(),
    }
}

fn parent_ref(written: &ParentReference) -> ParentRef {
    let ParentReference { group, kind, namespace, name, section_name, port } = written.clone();
    ParentRef { group, kind, namespace, name, section_name, port }
}

fn read_hostnames(written: &[Arc<str>], problems: &mut Vec<Problem>) -> Vec<(u32, Hostname)> {
    if written.is_empty() {
        return vec![(0, Hostname::Any)];
    }
    let mut hostnames: Vec<(u32, Hostname)> = Vec::with_capacity(written.len());
    for (name, index) in written.iter().zip(0..) {
        let field = || format!("spec.hostnames[{index}]");
        if let Err(invalid) = hostname::check(name) {
            problems.push(Problem::new(Severity::Refused, Reason::UnsupportedValue, field(), invalid.to_string()));
            continue;
        }
        let hostname = Hostname::parse(name);
        if hostnames.iter().any(|(_, known)| *known == hostname) {
            let message = format!("{hostname} stands here twice; remove one");
            problems.push(Problem::new(Severity::Warning, Reason::UnsupportedValue, field(), message));
        } else {
            hostnames.push((index, hostname));
        }
    }
    hostnames
}
