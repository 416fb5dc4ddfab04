//! Which routes attach to which listeners, and with which hostnames.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::meta::StringMap;
use engine::{Derived, Emitter, Lookup, Scope};
use ir::{
    Chain, Hostname, ListenerId, ParentId, Port, Problem, Reason, RouteId, RouteKind, Severity,
    listener::ListenerProtocol, route::Head,
};

use crate::{
    delegation, internal,
    resolve::RuleFindings,
    stream,
    tables::{
        attachment::{
            Attached, AttachedRoutes, Attachment, NamespaceLabels, ParentState, ServedHostname, Unacceptable,
        },
        capacity::AskedHost,
        delegation::ServedChain,
        edition::{ServedFrom, TreeOf},
        gateway::{Admission, Fault},
        host::VirtualHost,
        input::Namespaces,
        listener::{Bucket, ListenerIndex, ListenerRow, ListenerSummary},
        route::RouteHead,
        set::{GatewayPresence, Present, SetHead, Standing},
    },
    words::listed_with,
};

impl Lookup for NamespaceLabels {
    fn compute(scope: &Scope<'_>, key: &Arc<str>) -> Option<StringMap> {
        Some(scope.get::<Namespaces>(key)?.labels.clone())
    }
}

tables! {
    /// Whether a listener that asks for labels admits a namespace.
    Admits: (ListenerId, Arc<str>) => ();
}

impl Lookup for Admits {
    fn compute(scope: &Scope<'_>, (listener, namespace): &Self::Key) -> Option<()> {
        let listener = scope.get::<ListenerRow>(listener)?;
        let Admission::Selector(selector) = &listener.model.admits else { return None };
        let labels = scope.get::<NamespaceLabels>(namespace)?;
        selector.matches(&labels).unwrap_or(false).then_some(())
    }

    /// Nobody is admitted of whom nobody knows whether he is.
    fn poisoned(_: &Scope<'_>, _: &Self::Key, _: &engine::Fault) -> Option<()> {
        None
    }
}

tables! {
    /// Listeners in a bucket of a parent that admit a kind of route from a namespace. A listener that admits nobody there
    /// ends here, and wakes no hostname.
    Open: (ParentId, Bucket, Arc<str>, RouteKind) => Box<[Arc<ListenerSummary>]>;
}

impl Lookup for Open {
    fn compute(scope: &Scope<'_>, (parent, bucket, namespace, kind): &Self::Key) -> Option<Self::Value> {
        let listeners = scope.group::<ListenerIndex>(&(parent.clone(), bucket.clone()));
        let open = listeners.iter().map(|(_, summary)| summary);
        let open: Box<[_]> = open.filter(|summary| admits(scope, summary, namespace, *kind)).cloned().collect();
        (!open.is_empty()).then_some(open)
    }
}

/// What [`Candidates`] are asked by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CandidateQuery {
    pub(crate) parent: ParentId,
    pub(crate) namespace: Arc<str>,
    pub(crate) kind: RouteKind,
    pub(crate) hostname: Hostname,
}

tables! {
    /// Listeners of a parent that admit a kind of route from a namespace and have names in common with a hostname, with
    /// those names.
    Candidates: CandidateQuery => Box<[(Arc<ListenerSummary>, Hostname)]>;
}

impl Lookup for Candidates {
    fn compute(scope: &Scope<'_>, key: &CandidateQuery) -> Option<Self::Value> {
        let mut found: BTreeMap<Arc<str>, (Arc<ListenerSummary>, Hostname)> = BTreeMap::new();
        for bucket in buckets(&key.hostname) {
            let open = scope.get::<Open>(&(key.parent.clone(), bucket, key.namespace.clone(), key.kind));
            for summary in open.iter().flat_map(|open| open.iter()) {
                if let Some(common) = summary.hostname.intersection(&key.hostname) {
                    found.entry(summary.id.name.section.clone()).or_insert_with(|| (summary.clone(), common));
                }
            }
        }
        Some(found.into_values().collect())
    }

    /// The same without the indices: it looks at all listeners.
    fn poisoned(scope: &Scope<'_>, key: &CandidateQuery, _: &engine::Fault) -> Option<Self::Value> {
        let all = scope.group::<ListenerIndex>(&(key.parent.clone(), Bucket::All));
        let open = all.iter().map(|(_, summary)| summary);
        let open = open.filter(|summary| admits(scope, summary, &key.namespace, key.kind));
        Some(
            open.filter_map(|summary| Some((summary.clone(), summary.hostname.intersection(&key.hostname)?))).collect(),
        )
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
fn admits(scope: &Scope<'_>, summary: &ListenerSummary, namespace: &Arc<str>, kind: RouteKind) -> bool {
    summary.kinds.contains(&kind)
        && match &summary.admits {
            Admission::All => true,
            Admission::Same => namespace == summary.id.namespace(),
            Admission::None => false,
            Admission::Selector(_) => scope.get::<Admits>(&(summary.id.clone(), namespace.clone())).is_some(),
        }
}

impl Derived for Attachment {
    fn compute(scope: &Emitter<'_>, key: &RouteId) -> Option<Attached> {
        attached(scope, key, Words::All)
    }

    /// A root of an edition is attached as far as it is now.
    fn depth(key: &RouteId) -> u32 {
        u32::from(key.edition.is_some())
    }

    /// Where it stands, without a word: what a route claims must not fall to others.
    fn poisoned(scope: &Emitter<'_>, key: &RouteId, _: &engine::Fault) -> Option<Attached> {
        attached(scope, key, Words::Few)
    }
}

/// A parent with listeners, as a route names it.
#[derive(Debug)]
struct ListenerParent {
    /// Its place in the spec.
    index: usize,
    id: ParentId,
    section: Option<Arc<str>>,
    port: Option<i32>,
}

impl ListenerParent {
    /// The parents of a route that have listeners, each once, in the order of the spec.
    fn of(head: &Head, route: &RouteId, problems: &mut Vec<Problem>) -> Vec<Self> {
        let mut parents: Vec<Self> = Vec::with_capacity(head.parents.len());
        for (index, parent) in head.parents.iter().enumerate() {
            let Some(id) = parent.parent(route.namespace()) else { continue }; // another controller's
            let parent = Self { index, id, section: parent.section().cloned(), port: parent.port };
            let is_same =
                |other: &&Self| (&other.id, &other.section, other.port) == (&parent.id, &parent.section, parent.port);
            if let Some(same) = parents.iter().find(is_same) {
                let field = format!("spec.parentRefs[{index}]");
                let message = format!("repeats spec.parentRefs[{}]; remove one", same.index);
                problems.push(Problem::new(Severity::Warning, Reason::UnsupportedValue, field, message));
            } else {
                parents.push(parent);
            }
        }
        parents
    }

    /// Whether it means this listener.
    fn selects(&self, listener: &ListenerSummary) -> bool {
        self.section.as_ref().is_none_or(|section| *section == listener.id.name.section)
            && self.port.is_none_or(|port| Port::try_from(port).is_ok_and(|port| port == listener.port))
    }

    /// What it asks of a listener, as the end of "no listener…".
    fn describe(&self) -> String {
        let section = self.section.as_ref().map(|section| format!(" named {section}"));
        let port = self.port.map(|port| format!(" on port {port}"));
        format!("{}{}", section.unwrap_or_default(), port.unwrap_or_default())
    }
}

/// How much is said of a route that is not attached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    All,
    /// No more than that something failed.
    Few,
}

/// A root of an edition, as far as it is attached now, and as the edition has it.
fn committed(scope: &Emitter<'_>, key: &RouteId) -> Option<Attached> {
    let now = scope.get::<Attachment>(&key.live())?;
    if delegation::freezing(scope, &key.live()) != Some(ServedFrom::Edition) {
        return None;
    }
    let head = scope.get::<RouteHead>(key)?;
    let hostnames: Vec<_> = head.hostnames.iter().map(|(_, hostname)| hostname.clone()).collect();
    let (mut listeners, mut served) = (BTreeMap::new(), BTreeMap::new());
    for parent in ListenerParent::of(&head, key, &mut Vec::new()) {
        if scope.get::<Presence>(&parent.id).is_some_and(|present| *present == Present::Ours) {
            attach(scope, key, &hostnames, &parent, &mut listeners, &mut served, &mut BTreeSet::new());
        }
    }
    for (listener, names) in &mut listeners {
        *names = in_common(names, now.hostnames(listener));
    }
    listeners.retain(|_, names| !names.is_empty());
    served.retain(|listener, _| listeners.contains_key(listener) && now.served.binary_search(listener).is_ok());
    demand(scope, &listeners, &served);
    if !served.is_empty() {
        let chain = Chain::root(key.clone());
        delegation::grow(scope, &chain, &head);
        scope.demand::<ServedChain>(chain);
    }
    Some(Attached {
        created: head.created,
        rules: u32::try_from(head.rules.len()).unwrap_or(u32::MAX),
        without_hostname: hostnames.is_empty(),
        parents: Box::default(),
        listeners: listeners.into_iter().map(|(listener, hostnames)| (listener, hostnames.into())).collect(),
        served: served.into_keys().collect(),
        passing: Box::default(),
        problems: Box::default(),
    })
}

/// What two lists of hostnames have in common.
fn in_common(kept: &[ServedHostname], now: &[ServedHostname]) -> Vec<ServedHostname> {
    let mut common: Vec<ServedHostname> = Vec::with_capacity(kept.len());
    for (kept, now) in kept.iter().flat_map(|kept| now.iter().map(move |now| (kept, now))) {
        let Some(hostname) = kept.hostname.intersection(&now.hostname) else { continue };
        let precedence = kept.precedence.min(now.precedence);
        match common.iter_mut().find(|known| known.hostname == hostname) {
            Some(known) => known.precedence = known.precedence.min(precedence),
            None => common.push(ServedHostname { hostname, precedence }),
        }
    }
    common
}

/// Has the hostnames served that a route has at listeners.
fn demand(
    scope: &Emitter<'_>,
    listeners: &BTreeMap<ListenerId, Vec<ServedHostname>>,
    served: &BTreeMap<ListenerId, Arc<ListenerSummary>>,
) {
    for (listener, summary) in served {
        let Some(config) = summary.route_config() else { continue };
        for ServedHostname { hostname, .. } in listeners.get(listener).into_iter().flatten() {
            scope.demand::<VirtualHost>((config.clone(), hostname.clone()));
            scope.demand::<AskedHost>((listener.clone(), hostname.clone()));
        }
    }
}

fn attached(scope: &Emitter<'_>, key: &RouteId, words: Words) -> Option<Attached> {
    if key.edition.is_some() {
        return committed(scope, key);
    }
    let head = scope.get::<RouteHead>(key)?;
    delegation::file(scope, key, &head);
    let mut problems = Vec::new();
    let named = ListenerParent::of(&head, key, &mut problems);
    problems.extend(head.problems.iter().cloned());
    let hostnames: Vec<_> = head.hostnames.iter().map(|(_, hostname)| hostname.clone()).collect();
    let mut parents = Vec::with_capacity(named.len());
    let mut listeners = BTreeMap::new();
    let mut served = BTreeMap::new();
    let mut passing = BTreeSet::new();
    let mut all_ours = true;
    for parent in &named {
        match scope.get::<Presence>(&parent.id).as_deref() {
            Some(Present::Foreign) => all_ours = false,
            Some(Present::Unknown) => {
                all_ours = false;
                parents.push(ParentState { index: parent.index, refused: Some(Box::new(internal::fault())) });
            }
            Some(Present::NotAllowed) => {
                all_ours = false;
                parents.push(ParentState { index: parent.index, refused: Some(Box::new(not_allowed(parent))) });
            }
            Some(Present::Ours) => {
                let any = attach(scope, key, &hostnames, parent, &mut listeners, &mut served, &mut passing);
                // Without a hostname that can be served, the hostnames are what is wrong, not the parent.
                let refused = (!any && !hostnames.is_empty()).then(|| match words {
                    Words::All => why_not(scope, key, &hostnames, parent),
                    Words::Few => internal::fault(),
                });
                parents.push(ParentState { index: parent.index, refused: refused.map(Box::new) });
            }
            None => {
                all_ours = false;
                let field = format!("spec.parentRefs[{}].name", parent.index);
                let message = format!("{} does not exist; create it, or correct the name", parent.id);
                problems.push(Problem::new(Severity::Ignored, Reason::NoMatchingParent, field, message));
            }
        }
    }
    if words == Words::Few {
        problems.push(internal::problem(Severity::Warning, ""));
    } else if all_ours && !listeners.is_empty() {
        problems.extend(without_listener(&head, listeners.values().flatten()));
    }
    let freezing = delegation::freezing(scope, key);
    if freezing != Some(ServedFrom::Edition) {
        demand(scope, &listeners, &served);
    }
    if freezing.is_some() {
        scope.demand::<TreeOf>(key.clone());
    }
    if !served.is_empty() && !key.kind.is_stream() {
        let chain = Chain::root(key.clone());
        delegation::grow(scope, &chain, &head);
        scope.demand::<ServedChain>(chain);
    }
    if !parents.is_empty() {
        scope.demand::<Unacceptable>(key.clone());
    }
    let attached = Attached {
        created: head.created,
        rules: u32::try_from(head.rules.len()).unwrap_or(u32::MAX),
        without_hostname: hostnames.is_empty(),
        parents: parents.into(),
        listeners: listeners.into_iter().map(|(listener, hostnames)| (listener, hostnames.into())).collect(),
        served: served.into_keys().collect(),
        passing: passing.into_iter().collect(),
        problems: problems.into(),
    };
    if key.kind.is_stream() {
        stream::file(scope, key, &attached);
    }
    Some(attached)
}

impl Derived for Unacceptable {
    fn compute(scope: &Emitter<'_>, key: &RouteId) -> Option<Fault> {
        let attached = scope.get::<Attachment>(key)?;
        let fault = unacceptable(scope, key, &attached);
        if fault.is_none() {
            for (listener, _) in &attached.listeners {
                scope.emit::<AttachedRoutes>(listener.clone(), key.clone(), ());
            }
        }
        fault
    }
}

/// Hostnames that none of a route's listeners serves, though others of its hostnames are served.
fn without_listener<'a>(
    head: &Head,
    served: impl Iterator<Item = &'a ServedHostname> + Clone,
) -> impl Iterator<Item = Problem> {
    let written = head.names_hostnames.then_some(&head.hostnames).into_iter().flatten();
    written.filter_map(move |(index, hostname)| {
        let is_served = served.clone().any(|served| hostname.covers(&served.hostname));
        let message = format!("{hostname} is a hostname of no listener that the route is attached to; remove it");
        let field = || format!("spec.hostnames[{index}]");
        (!is_served).then(|| Problem::new(Severity::Ignored, Reason::NoMatchingListenerHostname, field(), message))
    })
}

/// A route is accepted if at least one rule does what it says (Gateway API `RouteParentStatus`).
fn unacceptable(scope: &Scope<'_>, route: &RouteId, attached: &Attached) -> Option<Fault> {
    if attached.without_hostname {
        let first = attached.problems.iter().find(|problem| problem.severity == Severity::Refused);
        let first = first.map(ToString::to_string).unwrap_or_default();
        return Some(Fault::new(Reason::UnsupportedValue, format!("no hostname can be served: {first}")));
    }
    if route.kind.is_stream() {
        let fault = stream::fault(scope, route)?;
        return Some(Fault::new(fault.reason, fault.to_string()));
    }
    let chain = Chain::root(route.clone());
    let mut first = None;
    for rule in 0..attached.rules {
        let found = scope.get::<RuleFindings>(&(chain.clone(), rule))?;
        if found.is_nowhere {
            continue;
        }
        let problem = found.fault.as_ref()?;
        first.get_or_insert_with(|| Fault::new(problem.reason, problem.to_string()));
    }
    first
}

/// Attaches to every listener that `parent` selects and that wants the route; tells whether there is any.
fn attach(
    scope: &Scope<'_>,
    route: &RouteId,
    hostnames: &[Hostname],
    parent: &ListenerParent,
    listeners: &mut BTreeMap<ListenerId, Vec<ServedHostname>>,
    served: &mut BTreeMap<ListenerId, Arc<ListenerSummary>>,
    passing: &mut BTreeSet<ListenerId>,
) -> bool {
    let mut any = false;
    for hostname in hostnames {
        let query = CandidateQuery {
            parent: parent.id.clone(),
            namespace: route.namespace().clone(),
            kind: route.kind,
            hostname: hostname.clone(),
        };
        let candidates = scope.get::<Candidates>(&query);
        for (summary, common) in candidates.iter().flat_map(|found| found.iter()) {
            if !parent.selects(summary) {
                continue;
            }
            any = true;
            let id = summary.id.clone();
            if summary.served {
                served.insert(id.clone(), summary.clone());
            }
            if summary.protocol == Some(ListenerProtocol::TlsPassthrough) {
                passing.insert(id.clone());
            }
            let own = if *hostname == Hostname::Any { common } else { hostname };
            let precedence = own.precedence();
            let names = listeners.entry(id).or_default();
            match names.iter_mut().find(|served| served.hostname == *common) {
                // Two hostnames of the route may come to the same here: the one that tells more counts.
                Some(known) => known.precedence = known.precedence.min(precedence),
                None => names.push(ServedHostname { hostname: common.clone(), precedence }),
            }
        }
    }
    any
}

/// Why a route is not attached to a ListenerSet that its Gateway does not admit.
fn not_allowed(parent: &ListenerParent) -> Fault {
    let message = format!(
        "{} has no listeners, since its Gateway does not admit it; the owner of the Gateway decides by allowedListeners",
        parent.id
    );
    Fault::at(Reason::NotAllowedByListeners, format!("spec.parentRefs[{}]", parent.index), message)
}

/// Only a route that found no listener looks at all of them, for the sake of the words.
fn why_not(scope: &Scope<'_>, route: &RouteId, hostnames: &[Hostname], parent: &ListenerParent) -> Fault {
    let (kind, field) = (route.kind, format!("spec.parentRefs[{}]", parent.index));
    let none = format!("no listener{} of {}", parent.describe(), parent.id);
    let all = scope.group::<ListenerIndex>(&(parent.id.clone(), Bucket::All));
    let selected: Vec<_> = all.iter().map(|(_, summary)| summary).filter(|summary| parent.selects(summary)).collect();
    if selected.is_empty() {
        let message = format!("{} has no listener{}; correct sectionName or port", parent.id, parent.describe());
        return Fault::at(Reason::NoMatchingParent, field, message);
    }
    if !selected.iter().any(|summary| summary.kinds.contains(&kind)) {
        let message = format!("{none} takes {kind}s, see supportedKinds in its status; name another listener");
        return Fault::at(Reason::NotAllowedByListeners, field, message);
    }
    let admitting: Vec<_> = selected.iter().filter(|summary| admits(scope, summary, route.namespace(), kind)).collect();
    if admitting.is_empty() {
        let message = format!(
            "{none} admits {kind}s of namespace {}; its owner decides by allowedRoutes.namespaces",
            route.namespace()
        );
        return Fault::at(Reason::NotAllowedByListeners, field, message);
    }
    let theirs: BTreeSet<_> = admitting.iter().map(|summary| &summary.hostname).collect();
    let message = format!(
        "{none} serves {}; those that admit this route serve {}: correct spec.hostnames or the parent",
        listed_with(", ", hostnames),
        listed_with(", ", &theirs.into_iter().collect::<Vec<_>>())
    );
    Fault::at(Reason::NoMatchingListenerHostname, field, message)
}

tables! {
    /// Whose a parent is; absent for one that does not exist. All that its routes need to know of it.
    Presence: ParentId => Present;
}

impl Lookup for Presence {
    fn compute(scope: &Scope<'_>, key: &ParentId) -> Option<Present> {
        present(scope, key)
    }

    /// A route may have other parents, of which it is not to lose any.
    fn poisoned(scope: &Scope<'_>, key: &ParentId, _: &engine::Fault) -> Option<Present> {
        scope.attempt(|| present(scope, key)).unwrap_or(Some(Present::Unknown))
    }
}

fn present(scope: &Scope<'_>, parent: &ParentId) -> Option<Present> {
    let set = match parent {
        ParentId::Gateway(gateway) => return scope.get::<GatewayPresence>(gateway).map(|present| *present),
        ParentId::ListenerSet(set) => set,
    };
    Some(match scope.get::<SetHead>(set)?.standing {
        Standing::Admitted | Standing::Doubtful => Present::Ours,
        Standing::NotAllowed => Present::NotAllowed,
        // Whose it is nobody can say while its Gateway is missing.
        Standing::Foreign | Standing::Missing => Present::Foreign,
        Standing::Unknown => Present::Unknown,
    })
}
