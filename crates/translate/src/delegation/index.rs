//! Where the routes of a namespace and those of a label are found.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use api::meta::value_of;
use engine::{Derived, Emitter, Group, Lookup, Scope};
use ir::{
    RouteId,
    delegation::{Children, LABEL},
    route::{Head, ParentRef},
};

use super::select::may_consent;
use crate::tables::{
    edition::{EditionMember, Source},
    route::RouteHead,
};

/// Over so many buckets the routes of one namespace or label are spread, so that one that comes or goes wakes its bucket
/// alone. As many as a number has bits.
const BUCKETS: u64 = 64;

tables! {
    /// Files a bucket under what it is a bucket of.
    BucketRow: (Source<Children>, u8) => ();
    /// Which buckets hold anything, a bit each: most routes that come or go change nothing of that.
    Filled: Source<Children> => u64;
    /// What a parent needs to know of a route to select it.
    ChildHead: RouteId => Child;
}

groups! {
    /// The routes of one bucket of a namespace or label.
    Members: (Source<Children>, u8), RouteId => ();
}

/// The buckets of a namespace or label that hold anything, with the number of routes in each and in all.
pub(crate) struct Buckets;

impl Group for Buckets {
    const NAME: &'static str = "Buckets";
    type Key = Source<Children>;
    type Sort = u8;
    type Entry = u32;
    type Summary = u64;

    fn summary(members: &u32) -> u64 {
        u64::from(*members)
    }
}

/// Files a route under its namespace and its label, if it can be anybody's child.
pub(crate) fn file(scope: &Emitter<'_>, key: &RouteId, route: &Head) {
    if !key.kind.delegates() || !may_consent(&route.parents) {
        return;
    }
    let bucket = bucket(key);
    let file = |children: Children| {
        let children = Source::beside(key, children);
        scope.emit::<Members>((children.clone(), bucket), key.clone(), ());
        scope.demand::<BucketRow>((children, bucket));
    };
    file(Children::InNamespace(key.namespace().clone()));
    if let Some(label) = value_of(&route.labels, LABEL) {
        let label: Arc<str> = label.into();
        file(Children::Labelled(label.clone(), Some(key.namespace().clone())));
        file(Children::Labelled(label, None));
    }
}

/// The bucket of a route, in this process alone: another build may hash otherwise, and nothing that is told or served depends
/// on the bucket. Whoever chooses names that all fall into one loses what buckets save, and nothing else.
fn bucket(route: &RouteId) -> u8 {
    let mut hasher = DefaultHasher::new();
    route.hash(&mut hasher);
    u8::try_from(hasher.finish() % BUCKETS).unwrap_or_default()
}

impl Derived for EditionMember {
    fn compute(scope: &Emitter<'_>, key: &RouteId) -> Option<()> {
        file(scope, key, &*scope.get::<RouteHead>(key)?);
        Some(())
    }
}

impl Lookup for Filled {
    fn compute(scope: &Scope<'_>, key: &Source<Children>) -> Option<u64> {
        Some(scope.group::<Buckets>(key).iter().fold(0, |filled, (bucket, _)| filled | 1 << bucket))
    }
}

/// The buckets of `filled`.
pub(crate) fn buckets(filled: u64) -> impl Iterator<Item = u8> {
    (0..64).filter(move |bucket| filled >> bucket & 1 == 1)
}

impl Derived for BucketRow {
    fn compute(scope: &Emitter<'_>, key: &(Source<Children>, u8)) -> Option<()> {
        let members = u32::try_from(scope.group::<Members>(key).len()).unwrap_or(u32::MAX);
        scope.emit::<Buckets>(key.0.clone(), key.1, members);
        Some(())
    }

    /// It is looked into all the same: a child must not be missed.
    fn poisoned(scope: &Emitter<'_>, key: &(Source<Children>, u8), _: &engine::Fault) -> Option<()> {
        scope.emit::<Buckets>(
            key.0.clone(),
            key.1,
            u32::try_from(scope.group::<Members>(key).len()).unwrap_or(u32::MAX),
        );
        Some(())
    }
}

/// What a parent needs to know of a route to select it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Child {
    /// The parents that it names.
    pub(crate) parents: Box<[ParentRef]>,
    /// Its value of the label by which parents select.
    pub(crate) label: Option<Box<str>>,
    /// What tells it from a later route of its name; empty where nobody says.
    pub(crate) uid: Arc<str>,
}

impl Lookup for ChildHead {
    fn compute(scope: &Scope<'_>, key: &RouteId) -> Option<Child> {
        head(scope, key)
    }

    /// A child must not be missed.
    fn poisoned(scope: &Scope<'_>, key: &RouteId, _: &engine::Fault) -> Option<Child> {
        head(scope, key)
    }
}

fn head(scope: &Scope<'_>, route: &RouteId) -> Option<Child> {
    let head = scope.get::<RouteHead>(route)?;
    Some(Child {
        parents: head.parents.clone(),
        label: value_of(&head.labels, LABEL).map(Into::into),
        uid: head.uid.clone(),
    })
}
