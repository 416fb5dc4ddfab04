//! Who may refer across namespaces (Gateway API `ReferenceGrant`). Every kind of reference is decided here.

use std::sync::Arc;

use engine::{Derived, Emitter, Lookup, Scope};
use ir::{GATEWAY_API, NsName, RouteId};

use crate::tables::input::Grants;

/// A reference from an object to one in another namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Reference {
    /// Kind and namespace of both ends.
    pub(crate) ends: Ends,
    /// The name of the object referred to.
    pub(crate) to_name: Arc<str>,
}

/// Kind and namespace of both ends of a reference, which is what a grant names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ends {
    pub(crate) from_group: Arc<str>,
    pub(crate) from_kind: Arc<str>,
    pub(crate) from_namespace: Arc<str>,
    pub(crate) to_group: Arc<str>,
    pub(crate) to_kind: Arc<str>,
    pub(crate) to_namespace: Arc<str>,
}

/// Who refers to another object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Referrer<'a> {
    pub(crate) group: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) namespace: &'a Arc<str>,
}

impl<'a> Referrer<'a> {
    /// An object of Gateway API.
    pub(crate) fn gateway_api(kind: &'a str, namespace: &'a Arc<str>) -> Self {
        Self { group: GATEWAY_API, kind, namespace }
    }

    /// A route.
    pub(crate) fn route(route: &'a RouteId) -> Self {
        Self::gateway_api(route.kind.name(), route.namespace())
    }
}

/// Whether an object may refer to one of a group and kind: it stays in its namespace, or a grant allows it.
pub(crate) fn permits(scope: &Scope<'_>, from: Referrer<'_>, (to_group, to_kind): (&str, &str), to: &NsName) -> bool {
    let reference = || Reference {
        ends: Ends {
            from_group: from.group.into(),
            from_kind: from.kind.into(),
            from_namespace: from.namespace.clone(),
            to_group: to_group.into(),
            to_kind: to_kind.into(),
            to_namespace: to.namespace.clone(),
        },
        to_name: to.name.clone(),
    };
    *from.namespace == to.namespace || scope.get::<Permitted>(&reference()).is_some()
}

tables! {
    /// Spreads a grant over the pairs of ends that it names.
    GrantRow: NsName => ();
}

impl Derived for GrantRow {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<()> {
        let grant = scope.get::<Grants>(key)?;
        for (i, from) in grant.spec.from.iter().enumerate() {
            for (j, to) in grant.spec.to.iter().enumerate() {
                let ends = Ends {
                    from_group: from.group.clone(),
                    from_kind: from.kind.clone(),
                    from_namespace: from.namespace.clone(),
                    to_group: to.group.clone(),
                    to_kind: to.kind.clone(),
                    to_namespace: key.namespace.clone(),
                };
                let name = to.name.clone().filter(|name| !name.is_empty());
                scope.emit::<GrantsBetween>((ends, name), (key.name.clone(), i, j), ());
            }
        }
        Some(())
    }
}

groups! {
    /// The grants between two ends for the object of a name, or for all.
    GrantsBetween: (Ends, Option<Arc<str>>), (Arc<str>, usize, usize) => ();
}

tables! {
    /// Present while some grant allows the reference.
    Permitted: Reference => ();
}

impl Lookup for Permitted {
    fn compute(scope: &Scope<'_>, key: &Reference) -> Option<()> {
        let granted = |name| !scope.group::<GrantsBetween>(&(key.ends.clone(), name)).is_empty();
        (granted(None) || granted(Some(key.to_name.clone()))).then_some(())
    }
}
