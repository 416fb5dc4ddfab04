//! The entries that the status of an HTTPRoute has.

use std::collections::{BTreeMap, HashSet};

use engine::{Derived, Emitter, Scope, View};
use ir::{
    Chain, GATEWAY_API, RouteId,
    route::{Head, ParentRef},
};

use super::MAX_PARENTS;
use crate::{
    delegation::consents,
    tables::{
        attachment::{Attached, Attachment, ParentState},
        delegation::{Delegating, Place, Places, ServedChain, TruncatedChildren, TruncatedStatus},
        route::RouteHead,
    },
};

/// The parent that an entry of a status is about.
pub(super) enum Entry<'a> {
    /// A Gateway of ours that the route names.
    Gateway(&'a ParentState),
    /// A route that selects it, and where it stands below that.
    Selecting(ParentRef, RouteId, Vec<(&'a Chain, &'a Place)>),
    /// A route that it names, and that never selects it.
    Never(ParentRef, RouteId),
}

/// The entries of a route's status, more than there is room for: first those for its own `parentRefs`, then parents of its
/// own namespace that it does not name, then those of others, one of each namespace in turn. A route
/// that publishes another one unasked cannot fill the status of that.
pub(super) fn entries<'a>(
    scope: &Scope<'_>,
    key: &RouteId,
    route: &Head,
    attached: &'a Attached,
    places: Option<&'a View<Places>>,
) -> Vec<Entry<'a>> {
    let mut entries: Vec<_> = attached.parents.iter().map(Entry::Gateway).collect();
    let mut below: BTreeMap<&RouteId, Vec<_>> = BTreeMap::new();
    for (chain, place) in places.into_iter().flat_map(View::iter) {
        if let Some((parent, _)) = chain.above() {
            below.entry(parent.route()).or_default().push((chain, &**place));
        }
    }
    let mut named = HashSet::new();
    for reference in &route.parents {
        let Some(parent) = reference.route(key.namespace()) else { continue };
        if let Some(places) = below.remove(&parent) {
            named.insert(parent.clone());
            // One that names a rule that selects it, if there are several.
            let mut all = route.parents.iter().filter(|other| other.route(key.namespace()).as_ref() == Some(&parent));
            let reference = all.find(|other| admits(scope, other, key, &places)).unwrap_or(reference);
            entries.push(Entry::Selecting(reference.clone(), parent, places));
        } else if !named.contains(&parent) && stands_in_a_tree(scope, &parent) {
            named.insert(parent.clone());
            entries.push(Entry::Never(reference.clone(), parent));
        }
    }
    let mut turns = BTreeMap::new();
    let mut unnamed: Vec<_> = below
        .into_iter()
        .map(|(parent, places)| {
            let turn = turns.entry(parent.namespace()).or_insert(0);
            *turn += usize::from(parent.namespace() != key.namespace());
            (*turn, parent, places)
        })
        .collect();
    unnamed.sort_by_key(|(turn, ..)| *turn);
    entries.extend(unnamed.into_iter().map(|(_, parent, places)| {
        let reference = ParentRef {
            group: GATEWAY_API.into(),
            kind: parent.kind.name().into(),
            namespace: Some(parent.namespace().clone()),
            name: parent.name.name.clone(),
            section_name: None,
            port: None,
        };
        Entry::Selecting(reference, parent.clone(), places)
    }));
    entries
}

/// Whether a reference of `own` admits a rule that selects it.
fn admits(scope: &Scope<'_>, reference: &ParentRef, own: &RouteId, places: &[(&Chain, &Place)]) -> bool {
    let mut rules = places.iter().filter_map(|(chain, _)| chain.above());
    rules.any(|(parent, rule)| {
        let delegation = scope.get::<Delegating>(&(parent.clone(), rule));
        let name = delegation.as_ref().and_then(|delegation| delegation.rule_name.as_deref());
        consents(std::slice::from_ref(reference), own.namespace(), parent.route(), name)
    })
}

impl Derived for TruncatedStatus {
    fn compute(scope: &Emitter<'_>, key: &RouteId) -> Option<()> {
        let places = scope.group::<Places>(key);
        let route = scope.get::<RouteHead>(key)?;
        if places.len() + route.parents.len() <= MAX_PARENTS {
            return None;
        }
        let attached = scope.get::<Attachment>(key)?;
        for entry in entries(scope, key, &route, &attached, Some(&places)).into_iter().skip(MAX_PARENTS) {
            if let Entry::Selecting(_, parent, _) = entry {
                scope.emit::<TruncatedChildren>(parent, key.clone(), ());
            }
        }
        Some(())
    }
}

/// Whether a route stands below a Gateway of ours, somewhere.
fn stands_in_a_tree(scope: &Scope<'_>, route: &RouteId) -> bool {
    scope.get::<ServedChain>(&Chain::root(route.clone())).is_some() || !scope.group::<Places>(route).is_empty()
}
