//! Reading what decides where an HTTPRoute attaches, apart from its rules.

use api::http_route::HttpRouteRule;
use ir::{
    Hostname, Problem, Reason, Severity,
    route::{Head, ParentRef, RuleHead},
};
use validate::hostname;

use super::reference::delegates;
use crate::route::annotations;

/// Reads everything but what the rules say.
pub(super) fn read(route: &api::HttpRoute) -> Head {
    let mut problems = Vec::new();
    let hostnames = hostnames(route, &mut problems);
    problems.extend(annotations::problems(&route.metadata));
    for api::RefusedField { path, affects, reason } in route.spec.refused_fields() {
        // A rule tells of its own.
        if !matches!(affects, api::Affects::Rule(_)) {
            problems.push(Problem::new(Severity::Ignored, Reason::UnsupportedValue, path, reason));
        }
    }
    Head {
        created: route.metadata.creation_timestamp.map_or(0, jiff::Timestamp::as_second),
        labels: route.metadata.labels.clone(),
        annotations: annotations::read(&route.metadata),
        parents: route.spec.parent_refs.iter().map(parent_ref).collect(),
        hostnames: hostnames.into(),
        names_hostnames: !route.spec.hostnames.is_empty(),
        rules: route.spec.rules.iter().map(rule_head).collect(),
        problems: problems.into(),
    }
}

fn rule_head(rule: &HttpRouteRule) -> RuleHead {
    RuleHead {
        name: rule.name.clone().filter(|name| !name.is_empty()),
        delegates: rule.backend_refs.iter().any(delegates),
    }
}

fn parent_ref(written: &api::shared::ParentReference) -> ParentRef {
    let api::shared::ParentReference { group, kind, namespace, name, section_name, port } = written.clone();
    ParentRef { group, kind, namespace, name, section_name, port }
}

fn hostnames(route: &api::HttpRoute, problems: &mut Vec<Problem>) -> Vec<(u32, Hostname)> {
    if route.spec.hostnames.is_empty() {
        return vec![(0, Hostname::Any)];
    }
    let mut hostnames: Vec<(u32, Hostname)> = Vec::with_capacity(route.spec.hostnames.len());
    for (written, index) in route.spec.hostnames.iter().zip(0..) {
        let field = || format!("spec.hostnames[{index}]");
        if let Err(invalid) = hostname::check(written) {
            problems.push(Problem::new(Severity::Refused, Reason::UnsupportedValue, field(), invalid.to_string()));
            continue;
        }
        let hostname = Hostname::parse(written);
        if hostnames.iter().any(|(_, known)| *known == hostname) {
            let message = format!("{hostname} stands here twice; remove one");
            problems.push(Problem::new(Severity::Warning, Reason::UnsupportedValue, field(), message));
        } else {
            hostnames.push((index, hostname));
        }
    }
    hostnames
}
