//! What decides where a route attaches, apart from its rules.

use std::sync::Arc;

use engine::{Lookup, Scope, Table};
use ir::{Hostname, NsName, Port, Problem, Severity, matching::Age};

use super::rule::RouteRule;
use crate::{
    gateway::{listener::Brief, model::Fault},
    grant::GATEWAY_API,
    input::Routes,
    validate,
};

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

    /// What it asks of a listener, as the end of "no listener…".
    pub(crate) fn describe(&self) -> String {
        let section = self.section.as_ref().map(|section| format!(" named {section}"));
        let port = self.port.map(|port| format!(" on port {port}"));
        format!("{}{}", section.unwrap_or_default(), port.unwrap_or_default())
    }
}

/// Routes without their rules.
pub(crate) struct RouteHead;

impl Table for RouteHead {
    const NAME: &'static str = "RouteHead";
    type Key = NsName;
    type Value = Head;
}

impl Lookup for RouteHead {
    fn compute(scope: &Scope<'_>, key: &NsName) -> Option<Head> {
        let route = scope.get::<Routes>(key)?;
        let mut problems = Vec::new();
        let parents = parents(&route, &key.namespace);
        let hostnames = hostnames(&route, &mut problems);
        for api::RefusedField { path, reason } in api::refused_in_route(&route) {
            // Those inside a rule are told by the rule.
            if !path.starts_with("spec.rules") {
                problems.push(Problem::new(Severity::Ignored, "UnsupportedValue", path, reason));
            }
        }
        let rules = u32::try_from(route.spec.rules.len()).unwrap_or(u32::MAX);
        Some(Head { parents, hostnames, rules, problems })
    }
}

fn parents(route: &api::HttpRoute, own_namespace: &Arc<str>) -> Vec<ParentRef> {
    let refs = route.spec.parent_refs.iter().enumerate();
    let gateways = refs.filter(|(_, parent)| &*parent.group == GATEWAY_API && &*parent.kind == "Gateway");
    let mut parents: Vec<_> = gateways
        .map(|(index, parent)| {
            let namespace = parent.namespace.as_ref().filter(|namespace| !namespace.is_empty());
            ParentRef {
                index,
                gateway: NsName::new(namespace.unwrap_or(own_namespace).clone(), parent.name.clone()),
                section: parent.section_name.clone().filter(|section| !section.is_empty()),
                port: parent.port,
            }
        })
        .collect();
    parents.shrink_to_fit();
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

/// A route's place among others that are otherwise equal.
pub(crate) struct RouteAge;

impl Table for RouteAge {
    const NAME: &'static str = "RouteAge";
    type Key = NsName;
    type Value = Age;
}

impl Lookup for RouteAge {
    fn compute(scope: &Scope<'_>, key: &NsName) -> Option<Age> {
        let route = scope.get::<Routes>(key)?;
        let created = route.metadata.creation_timestamp.map_or(0, jiff::Timestamp::as_second);
        Some(Age { created, name: key.clone() })
    }
}

/// Whether a route is accepted by whatever parent it attaches to: at least one rule does what it says.
pub(crate) struct RouteAccepted;

impl Table for RouteAccepted {
    const NAME: &'static str = "RouteAccepted";
    type Key = NsName;
    type Value = Result<(), Fault>;
}

impl Lookup for RouteAccepted {
    fn compute(scope: &Scope<'_>, key: &NsName) -> Option<Self::Value> {
        let head = scope.get::<RouteHead>(key)?;
        if head.hostnames.is_empty() {
            let first = head.problems.first().map(ToString::to_string).unwrap_or_default();
            return Some(Err(Fault::new("UnsupportedValue", format!("no hostname can be served: {first}"))));
        }
        let mut first = None;
        for rule in 0..head.rules {
            let Some(rule) = scope.get::<RouteRule>(&(key.clone(), rule)) else { continue };
            match rule.fault() {
                None => return Some(Ok(())),
                Some(problem) => {
                    first.get_or_insert_with(|| Fault::new(problem.reason, problem.to_string()));
                }
            }
        }
        Some(first.map_or(Ok(()), Err))
    }
}
