//! GatewayClasses that are deleted while Gateways name them.
//!
//! All traffic of a class hangs on that one object. Gateway API has a finalizer keep it (`GatewayClassFinalizerGatewaysExist`),
//! which takes the right to write classes, and blocks the removal of a class when its controller is gone already. Here
//! the last version of a class stays in force instead, until it is there again or no Gateway names it any more.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use api::{Kind, Object, ObjectId};
use translate::Change;

/// Which classes Gateways name, and which of these are deleted.
#[derive(Debug, Default)]
pub(super) struct Classes {
    /// The class that each Gateway names.
    named: HashMap<ObjectId, Arc<str>>,
    /// Deleted classes that are named and stay in force.
    in_use: BTreeSet<Arc<str>>,
}

impl Classes {
    /// What a change comes to, in order: itself, unless it takes a class away that is named, and the end of a class that
    /// nobody names any more because of it.
    pub(super) fn pass(&mut self, change: Change) -> impl Iterator<Item = Change> + use<> {
        let mut left = None;
        let mut passes = true;
        match &change {
            Change::Put(object @ Object::Gateway(gateway)) => {
                left = self.named.insert(object.id(), Arc::clone(&gateway.spec.gateway_class_name));
            }
            Change::Put(Object::GatewayClass(class)) => {
                self.in_use.remove(&class.metadata.name);
            }
            Change::Remove(id) if id.kind == Kind::Gateway => left = self.named.remove(id),
            Change::Remove(id) if id.kind == Kind::GatewayClass && self.is_named(&id.name) => {
                tracing::warn!(class = %id.name, "the GatewayClass is deleted and Gateways name it; its last version stays in force");
                self.in_use.insert(Arc::clone(&id.name));
                passes = false;
            }
            _ => {}
        }
        let ended = left.filter(|class| self.in_use.contains(class) && !self.is_named(class));
        let ended = ended.map(|class| {
            self.in_use.remove(&class);
            Change::Remove(ObjectId::new(Kind::GatewayClass, "", class))
        });
        passes.then_some(change).into_iter().chain(ended)
    }

    /// Deleted classes that stay in force.
    pub(super) fn deleted_in_use(&self) -> &BTreeSet<Arc<str>> {
        &self.in_use
    }

    fn is_named(&self, class: &str) -> bool {
        self.named.values().any(|named| **named == *class)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn put(kind: &str, name: &str, spec: &serde_json::Value) -> Change {
        let namespace = if kind == "Gateway" { "ns" } else { "" };
        let manifest = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": kind,
            "metadata": { "name": name, "namespace": namespace }, "spec": spec,
        });
        Change::Put(api::decode(manifest).expect("an object").object)
    }

    fn gateway(class: &str) -> Change {
        put("Gateway", "edge", &json!({ "gatewayClassName": class, "listeners": [] }))
    }

    fn class(name: &str) -> Change {
        put("GatewayClass", name, &json!({ "controllerName": "example.com/a" }))
    }

    fn gone(kind: Kind, name: &str) -> Change {
        Change::Remove(ObjectId::new(kind, if kind == Kind::Gateway { "ns" } else { "" }, name))
    }

    fn passed(classes: &mut Classes, change: Change) -> Vec<String> {
        let word = |change| match change {
            Change::Put(object) => format!("put {}", object.id()),
            Change::Remove(id) => format!("remove {id}"),
        };
        classes.pass(change).map(word).collect()
    }

    #[test]
    fn a_class_that_nobody_names_goes_at_once() {
        let mut classes = Classes::default();
        assert_eq!(passed(&mut classes, class("a")), ["put GatewayClass a"]);
        assert_eq!(passed(&mut classes, gateway("b")), ["put Gateway ns/edge"]);
        assert_eq!(passed(&mut classes, gone(Kind::GatewayClass, "a")), ["remove GatewayClass a"]);
    }

    #[test]
    fn a_class_that_is_named_stays_in_force_until_the_last_gateway_leaves_it() {
        for leaves in [gone(Kind::Gateway, "edge"), gateway("b")] {
            let mut classes = Classes::default();
            let word = match &leaves {
                Change::Put(_) => "put Gateway ns/edge",
                Change::Remove(_) => "remove Gateway ns/edge",
            };
            passed(&mut classes, class("a"));
            passed(&mut classes, gateway("a"));
            assert!(passed(&mut classes, gone(Kind::GatewayClass, "a")).is_empty());
            assert_eq!(passed(&mut classes, gateway("a")), ["put Gateway ns/edge"]);
            assert_eq!(passed(&mut classes, leaves), [word, "remove GatewayClass a"]);
        }
    }

    #[test]
    fn a_class_that_is_made_again_is_one_like_any_other() {
        let mut classes = Classes::default();
        passed(&mut classes, class("a"));
        passed(&mut classes, gateway("a"));
        assert!(passed(&mut classes, gone(Kind::GatewayClass, "a")).is_empty());
        assert_eq!(passed(&mut classes, class("a")), ["put GatewayClass a"]);
        assert_eq!(passed(&mut classes, gone(Kind::Gateway, "edge")), ["remove Gateway ns/edge"]);
        assert_eq!(passed(&mut classes, gone(Kind::GatewayClass, "a")), ["remove GatewayClass a"]);
    }
}
