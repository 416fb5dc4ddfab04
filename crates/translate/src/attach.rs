//! Which routes attach to which listeners, and with which hostnames.

use std::{collections::BTreeMap, sync::Arc};

use api::{meta::StringMap, shared::RouteGroupKind};
use engine::{Derived, Emitter, Group, Lookup, Scope, Table};
use ir::{Hostname, ListenerId, NsName};

use crate::{
    gateway::{
        GatewayRow,
        listener::{Brief, Bucket, ListenerIndex},
        model::{Admission, Fault},
    },
    host::{Placement, VirtualHost},
    input::{Gateways, Namespaces},
    route::head::{ParentRef, RouteAccepted, RouteHead},
};

/// The labels of a namespace, which are all that anyone reads of it.
pub(crate) struct NamespaceLabels;

impl Table for NamespaceLabels {
    const NAME: &'static str = "NamespaceLabels";
    type Key = Arc<str>;
    type Value = StringMap;
}

impl Lookup for NamespaceLabels {
    fn compute(scope: &Scope<'_>, key: &Arc<str>) -> Option<StringMap> {
        Some(scope.get::<Namespaces>(key)?.labels.clone())
    }
}

/// Listeners of a Gateway that admit a kind of route from a namespace and have names in common with a hostname, with
/// those names.
pub(crate) struct Candidates;

/// What [`Candidates`] are asked by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CandidateQuery {
    pub(crate) gateway: NsName,
    pub(crate) namespace: Arc<str>,
    pub(crate) kind: &'static str,
    pub(crate) hostname: Hostname,
}

impl Table for Candidates {
    const NAME: &'static str = "Candidates";
    type Key = CandidateQuery;
    type Value = Vec<(Arc<Brief>, Hostname)>;
}

impl Lookup for Candidates {
    fn compute(scope: &Scope<'_>, key: &CandidateQuery) -> Option<Self::Value> {
        let mut found: BTreeMap<Arc<str>, (Arc<Brief>, Hostname)> = BTreeMap::new();
        for bucket in buckets(&key.hostname) {
            for (name, brief) in scope.group::<ListenerIndex>(&(key.gateway.clone(), bucket)).iter() {
                let Some(common) = brief.hostname.intersection(&key.hostname) else { continue };
                if !found.contains_key(name) && admits(scope, &key.gateway, brief, &key.namespace, key.kind) {
                    found.insert(name.clone(), (brief.clone(), common));
                }
            }
        }
        Some(found.into_values().collect())
    }
}

fn buckets(hostname: &Hostname) -> Vec<Bucket> {
    match hostname {
        Hostname::Any => vec![Bucket::All],
        Hostname::Wildcard(suffix) => {
            let covering = hostname.covering().map(Bucket::At);
            covering.chain([Bucket::Below(suffix.clone())]).collect()
        }
        Hostname::Exact(_) => hostname.covering().map(Bucket::At).collect(),
    }
}

/// Gateway API `AllowedRoutes`.
fn admits(scope: &Scope<'_>, gateway: &NsName, brief: &Brief, namespace: &Arc<str>, kind: &str) -> bool {
    let kind = RouteGroupKind::gateway_api(kind);
    brief.kinds.contains(&kind)
        && match &brief.admits {
            Admission::All => true,
            Admission::Same => *namespace == gateway.namespace,
            Admission::None => false,
            Admission::Selector(selector) => {
                let labels = scope.get::<NamespaceLabels>(namespace);
                labels.is_some_and(|labels| selector.matches(&labels).unwrap_or(false))
            }
        }
}

/// What became of each of a route's parents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attached {
    /// One entry for each parent that is a Gateway of ours, in the order of the spec.
    pub(crate) parents: Vec<ParentState>,
    /// The listeners it is attached to, sorted, each once, with the hostnames it serves there.
    pub(crate) listeners: Vec<(ListenerId, Vec<Hostname>)>,
}

/// One parent of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParentState {
    /// Its place in `spec.parentRefs`.
    pub(crate) index: usize,
    /// Why the route is not attached to it.
    pub(crate) refused: Option<Fault>,
}

/// Attaches HTTPRoutes.
pub(crate) struct Attachment;

impl Table for Attachment {
    const NAME: &'static str = "Attachment";
    type Key = NsName;
    type Value = Attached;
}

impl Derived for Attachment {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<Attached> {
        let head = scope.get::<RouteHead>(key)?;
        let mut parents = Vec::with_capacity(head.parents.len());
        let mut listeners = BTreeMap::new();
        let mut served = BTreeMap::new();
        for parent in &head.parents {
            if scope.get::<Presence>(&parent.gateway).is_none_or(|presence| *presence == Present::Foreign) {
                continue;
            }
            let refused = attach(scope, key, &head.hostnames, parent, &mut listeners, &mut served);
            parents.push(ParentState { index: parent.index, refused });
        }
        let accepted = scope.get::<RouteAccepted>(key).is_some_and(|accepted| accepted.is_ok());
        for (listener, hostnames) in &listeners {
            if accepted {
                scope.emit::<AttachedRoutes>(listener.clone(), key.clone(), ());
            }
            let Some(brief) = served.get(listener) else { continue };
            let Some(config) = brief.route_config(&listener.gateway) else { continue };
            for hostname in hostnames {
                scope.demand::<VirtualHost>((config.clone(), hostname.clone()));
            }
            for rule in 0..head.rules {
                scope.demand::<Placement>((key.clone(), rule, listener.clone()));
            }
        }
        Some(Attached { parents, listeners: listeners.into_iter().collect() })
    }
}

/// Attaches to every listener that `parent` selects and that wants the route; tells why if there is none.
fn attach(
    scope: &Scope<'_>,
    route: &NsName,
    hostnames: &[Hostname],
    parent: &ParentRef,
    listeners: &mut BTreeMap<ListenerId, Vec<Hostname>>,
    served: &mut BTreeMap<ListenerId, Arc<Brief>>,
) -> Option<Fault> {
    let mut any = false;
    for hostname in hostnames {
        let query = CandidateQuery {
            gateway: parent.gateway.clone(),
            namespace: route.namespace.clone(),
            kind: "HTTPRoute",
            hostname: hostname.clone(),
        };
        let candidates = scope.get::<Candidates>(&query);
        for (brief, common) in candidates.iter().flat_map(|found| found.iter()) {
            if !parent.selects(brief) {
                continue;
            }
            any = true;
            let id = ListenerId { gateway: parent.gateway.clone(), name: brief.name.clone() };
            if brief.served {
                served.insert(id.clone(), brief.clone());
            }
            let common_names = listeners.entry(id).or_default();
            if !common_names.contains(common) {
                common_names.push(common.clone());
            }
        }
    }
    if any { None } else { Some(why_not(scope, route, parent)) }
}

/// Only a route that found no listener looks at all of them, for the sake of the words.
fn why_not(scope: &Scope<'_>, route: &NsName, parent: &ParentRef) -> Fault {
    let field = format!("spec.parentRefs[{}]", parent.index);
    let all = scope.group::<ListenerIndex>(&(parent.gateway.clone(), Bucket::All));
    let selected: Vec<_> = all.iter().map(|(_, brief)| brief).filter(|brief| parent.selects(brief)).collect();
    if selected.is_empty() {
        let message = format!(
            "{field}: Gateway {} has no listener{}; correct sectionName or port",
            parent.gateway,
            parent.describe()
        );
        return Fault::new("NoMatchingParent", message);
    }
    if selected.iter().any(|brief| admits(scope, &parent.gateway, brief, &route.namespace, "HTTPRoute")) {
        let message = format!(
            "{field}: no hostname of spec.hostnames is served by a listener of Gateway {} that admits this route",
            parent.gateway
        );
        return Fault::new("NoMatchingListenerHostname", message);
    }
    let message = format!(
        "{field}: no listener of Gateway {} admits HTTPRoutes of namespace {}; its owner decides by allowedRoutes",
        parent.gateway, route.namespace
    );
    Fault::new("NotAllowedByListeners", message)
}

/// Whose a Gateway is; absent for one that does not exist. All that its routes need to know of it.
pub(crate) struct Presence;

/// Whose a Gateway is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Present {
    /// Of one of our classes.
    Ours,
    /// Another controller's.
    Foreign,
}

impl Table for Presence {
    const NAME: &'static str = "Presence";
    type Key = NsName;
    type Value = Present;
}

impl Lookup for Presence {
    fn compute(scope: &Scope<'_>, key: &NsName) -> Option<Present> {
        scope.get::<Gateways>(key)?;
        Some(if scope.get::<GatewayRow>(key).is_some() { Present::Ours } else { Present::Foreign })
    }
}

/// The routes attached to a listener; their number is `attachedRoutes`.
pub(crate) struct AttachedRoutes;

impl Group for AttachedRoutes {
    const NAME: &'static str = "AttachedRoutes";
    type Key = ListenerId;
    type Sort = NsName;
    type Entry = ();
}

/// The hostnames with which a route is attached to a listener.
pub(crate) struct AttachedHosts;

impl Table for AttachedHosts {
    const NAME: &'static str = "AttachedHosts";
    type Key = (NsName, ListenerId);
    type Value = Vec<Hostname>;
}

impl Lookup for AttachedHosts {
    fn compute(scope: &Scope<'_>, (route, listener): &(NsName, ListenerId)) -> Option<Vec<Hostname>> {
        let attachment = scope.get::<Attachment>(route)?;
        let at = attachment.listeners.binary_search_by(|(id, _)| id.cmp(listener)).ok()?;
        Some(attachment.listeners[at].1.clone())
    }
}
