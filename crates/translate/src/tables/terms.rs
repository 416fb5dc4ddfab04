//! What is asked of children, and of rules, by those above them.

use std::sync::Arc;

use api::{
    meta::{LabelSelector, StringMap},
    shared::BackendRef,
};
use ir::{NsName, delegation::SortMethod};

/// What all policies and labels ask of a rule's children and of the rule itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    /// How the children are sorted.
    pub(crate) sort: SortMethod,
    /// What they may do; each of these counts.
    pub(crate) restrictions: Box<[Arc<Restriction>]>,
    /// Where rules without backends go.
    pub(crate) defaults: Option<Defaults>,
    /// Who demands that every request is authenticated.
    pub(crate) requires_auth: Option<Demand>,
}

/// Something that is asked of routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    /// The namespace in which it stands: to routes of others it is not named.
    pub(crate) namespace: Arc<str>,
    /// What it is.
    pub(crate) what: Arc<str>,
}

/// Backends of rules that name none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Defaults {
    /// The policy that has them, in whose namespace they are read.
    pub(crate) policy: NsName,
    /// The backends.
    pub(crate) backends: Arc<[BackendRef]>,
    /// How many restrictions stand above, which count for them too.
    pub(crate) below: usize,
}

impl Demand {
    /// The demand, as a route of `namespace` may know it.
    pub(crate) fn known_to(&self, namespace: &str) -> &str {
        if *self.namespace == *namespace { &self.what } else { "the owner of a route above this one" }
    }
}

/// What children may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Restriction {
    pub(crate) policy: NsName,
    pub(crate) namespaces: Option<Namespaces>,
    pub(crate) backends: Option<Vec<Backends>>,
    /// Whether they may switch off what policies of their parents say.
    pub(crate) may_disable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Namespaces {
    Named(Vec<Arc<str>>),
    Labelled(LabelSelector),
}

#[derive(Clone, Debug)]
pub(crate) struct Backends {
    pub(crate) group_kind: Option<(Arc<str>, Arc<str>)>,
    pub(crate) namespace: Option<Arc<str>>,
    pub(crate) name: Option<regex::Regex>,
}

impl PartialEq for Backends {
    fn eq(&self, other: &Self) -> bool {
        let pattern = |backends: &Self| backends.name.as_ref().map(|name| name.as_str().to_owned());
        (&self.group_kind, &self.namespace, pattern(self)) == (&other.group_kind, &other.namespace, pattern(other))
    }
}

impl Eq for Backends {}

impl Restriction {
    /// Whether a child may be in a namespace, of which `labels` tells the labels.
    pub(crate) fn allows_namespace(&self, namespace: &str, labels: impl FnOnce() -> Option<StringMap>) -> bool {
        match &self.namespaces {
            None => true,
            Some(Namespaces::Named(names)) => names.iter().any(|name| **name == *namespace),
            Some(Namespaces::Labelled(selector)) => {
                labels().is_some_and(|labels| selector.matches(&labels).unwrap_or(false))
            }
        }
    }

    /// Whether a child may send requests to a backend.
    pub(crate) fn allows_backend(&self, group: &str, kind: &str, backend: &NsName) -> bool {
        let Some(allowed) = &self.backends else { return true };
        allowed.iter().any(|allowed| {
            allowed.group_kind.as_ref().is_none_or(|(own, own_kind)| (&**own, &**own_kind) == (group, kind))
                && allowed.namespace.as_ref().is_none_or(|namespace| *namespace == backend.namespace)
                && allowed.name.as_ref().is_none_or(|name| name.is_match(&backend.name))
        })
    }

    /// Whose it is, as a route of `namespace` may know it.
    pub(crate) fn known_to(&self, namespace: &str) -> String {
        if *self.policy.namespace == *namespace {
            format!("DelegationPolicy {}", self.policy)
        } else {
            "the owner of a route above this one".to_owned()
        }
    }
}
