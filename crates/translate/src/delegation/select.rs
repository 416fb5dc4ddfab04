//! Which routes a parent selects, and whether they consent.

use std::sync::Arc;

use ir::{
    Chain, Problem, Reason, RouteId, RouteKind, Severity,
    delegation::Children,
    route::{BackendRef, Head, ParentRef},
};

/// Group of references that select by label.
const LABEL_GROUP: &str = "delegation.kgateway.dev";

/// The children that a backend reference of a route in `own` namespace means; none for an ordinary backend. `everywhere` is
/// the word that means all namespaces in a reference by label, and only there.
pub(crate) fn children_of(reference: &BackendRef, own: &Arc<str>, everywhere: &str) -> Option<Children> {
    let target = reference.target(own);
    if let Some(kind) = delegate_kind(&reference.group, &reference.kind) {
        return Some(match &*reference.name {
            "" | "*" => Children::InNamespace(target.namespace),
            _ => Children::Named(RouteId::new(kind, target)),
        });
    }
    selects_by_label(&reference.group, &reference.kind).then(|| {
        let namespace = (*target.namespace != *everywhere).then_some(target.namespace);
        Children::Labelled(target.name, namespace)
    })
}

/// Whether a reference means routes.
pub(crate) fn is_delegate(group: &str, kind: &str) -> bool {
    delegate_kind(group, kind).is_some() || selects_by_label(group, kind)
}

/// The kind of routes that a reference means, if these delegate.
fn delegate_kind(group: &str, kind: &str) -> Option<RouteKind> {
    RouteKind::named(group, kind).filter(|kind| kind.delegates())
}

fn selects_by_label(group: &str, kind: &str) -> bool {
    (group, kind) == (LABEL_GROUP, "label")
}

/// Whether a route lets any other delegate to it. Most routes stand at Gateways and do not.
pub(crate) fn may_consent(own: &[ParentRef]) -> bool {
    own.is_empty() || own.iter().any(names_route)
}

fn names_route(reference: &ParentRef) -> bool {
    delegate_kind(&reference.group, &reference.kind).is_some()
}

/// What its owner is told of a route at `chain` that names no parent, where one of another namespace publishes it.
pub fn published_unasked(chain: &Chain, route: &Head) -> Option<Problem> {
    let (parent, _) = chain.above()?;
    let parent = parent.route();
    if !route.parents.is_empty() || parent.namespace() == chain.route().namespace() {
        return None;
    }
    let message = format!(
        "{parent} of another namespace publishes this route, which names no parent and so admits every one; \
         name those that may in parentRefs"
    );
    Some(Problem::new(Severity::Warning, Reason::PublishedUnasked, "spec.parentRefs", message))
}

/// Whether a route lets a rule of `parent` delegate to it. A route without `parentRefs` lets every parent; otherwise one
/// of them must be that parent, with group and kind, or that rule of it by `sectionName`.
pub(crate) fn consents(own: &[ParentRef], own_namespace: &Arc<str>, parent: &RouteId, rule: Option<&str>) -> bool {
    own.is_empty()
        || own.iter().any(|reference| {
            reference.route(own_namespace).as_ref() == Some(parent)
                && reference.section().is_none_or(|section| rule == Some(section))
        })
}

#[cfg(test)]
mod tests {
    use api::shared::{BackendObjectReference, ParentReference};
    use ir::GATEWAY_API;
    use serde_json::{Value, json};

    use super::*;

    fn children(reference: Value) -> Option<Children> {
        let BackendObjectReference { group, kind, namespace, name, port } =
            serde_json::from_value(reference).expect("a reference");
        let reference = BackendRef { group, kind, namespace, name, port };
        children_of(&reference, &"own".into(), "all")
    }

    #[test]
    fn routes_are_selected_by_name_namespace_or_label() {
        let named = |namespace: &str, name: &str| Some(Children::Named(RouteId::http(namespace, name)));
        let labelled =
            |value: &str, namespace: Option<&str>| Some(Children::Labelled(value.into(), namespace.map(Into::into)));
        for (name, namespace, expected) in [
            ("a", None, named("own", "a")),
            ("a", Some(""), named("own", "a")),
            ("a", Some("b"), named("b", "a")),
            // All namespaces can be meant by a label only.
            ("a", Some("all"), named("all", "a")),
            ("*", Some("b"), Some(Children::InNamespace("b".into()))),
            ("", None, Some(Children::InNamespace("own".into()))),
        ] {
            let reference =
                json!({"group": GATEWAY_API, "kind": "HTTPRoute", "name": name, "namespace": namespace, "port": 80});
            assert_eq!(children(reference), expected, "{name} {namespace:?}");
        }
        for (namespace, expected) in [
            (None, labelled("v", Some("own"))),
            (Some("b"), labelled("v", Some("b"))),
            (Some("all"), labelled("v", None)),
        ] {
            let reference = json!({"group": LABEL_GROUP, "kind": "label", "name": "v", "namespace": namespace});
            assert_eq!(children(reference), expected, "{namespace:?}");
        }
        for (group, kind) in [("", "Service"), (GATEWAY_API, "GRPCRoute"), (LABEL_GROUP, "HTTPRoute")] {
            assert_eq!(children(json!({"group": group, "kind": kind, "name": "a"})), None, "{group} {kind}");
        }
    }

    #[test]
    fn a_route_consents_to_every_parent_or_to_those_that_it_names() {
        let parent = RouteId::http("infra", "parent");
        let consents = |references: Value, rule: Option<&str>| {
            let references: Vec<ParentReference> = serde_json::from_value(references).expect("references");
            let references = references.into_iter().map(|reference| {
                let ParentReference { group, kind, namespace, name, section_name, port } = reference;
                ParentRef { group, kind, namespace, name, section_name, port }
            });
            let references: Vec<_> = references.collect();
            consents(&references, &"team".into(), &parent, rule)
        };
        let naming = |more: Value| {
            let mut reference =
                json!({"group": GATEWAY_API, "kind": "HTTPRoute", "name": "parent", "namespace": "infra"});
            reference.as_object_mut().expect("a mapping").extend(more.as_object().expect("a mapping").clone());
            json!([{"name": "another"}, reference])
        };
        assert!(consents(json!([]), None));
        assert!(consents(naming(json!({})), None));
        assert!(consents(naming(json!({"sectionName": "r"})), Some("r")));
        assert!(!consents(naming(json!({"sectionName": "r"})), Some("other")));
        assert!(!consents(naming(json!({"sectionName": "r"})), None));
        for other in [
            json!({"name": "parents"}),
            json!({"namespace": "team"}),
            json!({"namespace": null}),
            json!({"kind": "Gateway"}),
            json!({"group": ""}),
        ] {
            assert!(!consents(naming(other.clone()), None), "{other}");
        }
    }
}
