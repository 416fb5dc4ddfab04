//! What decides where a route attaches, apart from its rules.

use std::sync::Arc;

use ir::{Hostname, NsName, Port, Problem, Severity};

use crate::{delegation::annotation_problems, grant::GATEWAY_API, tables::listener::Brief};

/// A route without its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Parents that are Gateways, in the order of the spec.
    pub(crate) parents: Vec<ParentRef>,
    /// The hostnames it asks for; [`Hostname::Any`] where it names none.
    pub(crate) hostnames: Vec<Hostname>,
    /// How many rules it has.
    pub(crate) rules: u32,
    /// What is wrong so far.
    pub(crate) problems: Vec<Problem>,
}

/// A parent that is a Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParentRef {
    /// Its place in the spec.
    pub(crate) index: usize,
    /// The Gateway.
    pub(crate) gateway: NsName,
    section: Option<Arc<str>>,
    port: Option<i32>,
}

impl ParentRef {
    /// Whether it means this listener.
    pub(crate) fn selects(&self, listener: &Brief) -> bool {
        self.section.as_ref().is_none_or(|section| *section == listener.name)
            && self.port.is_none_or(|port| Port::try_from(port).is_ok_and(|port| port == listener.port))
    }

    fn is_same(&self, other: &Self) -> bool {
        (&self.gateway, &self.section, self.port) == (&other.gateway, &other.section, other.port)
    }

    /// What it asks of a listener, as the end of "no listener…".
    pub(crate) fn describe(&self) -> String {
        let section = self.section.as_ref().map(|section| format!(" named {section}"));
        let port = self.port.map(|port| format!(" on port {port}"));
        format!("{}{}", section.unwrap_or_default(), port.unwrap_or_default())
    }
}

/// Reads everything but the rules.
pub(crate) fn read(route: &api::HttpRoute, own_namespace: &Arc<str>) -> Head {
    let mut problems = Vec::new();
    let parents = parents(route, own_namespace, &mut problems);
    let hostnames = hostnames(route, &mut problems);
    problems.extend(annotation_problems(&route.metadata));
    for api::RefusedField { path, reason } in api::refused_in_route(route) {
        // Those inside a rule are told by the rule.
        if !path.starts_with("spec.rules") {
            problems.push(Problem::new(Severity::Ignored, "UnsupportedValue", path, reason));
        }
    }
    Head { parents, hostnames, rules: u32::try_from(route.spec.rules.len()).unwrap_or(u32::MAX), problems }
}

fn parents(route: &api::HttpRoute, own_namespace: &Arc<str>, problems: &mut Vec<Problem>) -> Vec<ParentRef> {
    let mut parents: Vec<ParentRef> = Vec::with_capacity(route.spec.parent_refs.len());
    for (index, parent) in route.spec.parent_refs.iter().enumerate() {
        if &*parent.group != GATEWAY_API || &*parent.kind != "Gateway" {
            continue; // another controller's
        }
        let namespace = parent.namespace.as_ref().filter(|namespace| !namespace.is_empty());
        let parent = ParentRef {
            index,
            gateway: NsName::new(namespace.unwrap_or(own_namespace).clone(), parent.name.clone()),
            section: parent.section_name.clone().filter(|section| !section.is_empty()),
            port: parent.port,
        };
        if let Some(same) = parents.iter().find(|other| other.is_same(&parent)) {
            let field = format!("spec.parentRefs[{index}]");
            let message = format!("repeats spec.parentRefs[{}]; remove one", same.index);
            problems.push(Problem::new(Severity::Warning, "UnsupportedValue", field, message));
        } else {
            parents.push(parent);
        }
    }
    parents
}

fn hostnames(route: &api::HttpRoute, problems: &mut Vec<Problem>) -> Vec<Hostname> {
    if route.spec.hostnames.is_empty() {
        return vec![Hostname::Any];
    }
    let mut hostnames = Vec::with_capacity(route.spec.hostnames.len());
    for (index, written) in route.spec.hostnames.iter().enumerate() {
        let field = || format!("spec.hostnames[{index}]");
        if let Err(invalid) = validate::hostname::check(written) {
            problems.push(Problem::new(Severity::Refused, "UnsupportedValue", field(), invalid.to_string()));
            continue;
        }
        let hostname = Hostname::parse(written);
        if hostnames.contains(&hostname) {
            let message = format!("{hostname} stands here twice; remove one");
            problems.push(Problem::new(Severity::Warning, "UnsupportedValue", field(), message));
        } else {
            hostnames.push(hostname);
        }
    }
    hostnames
}
