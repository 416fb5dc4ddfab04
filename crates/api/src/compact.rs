//! Decoding into no more memory than what is decoded takes: a cluster has many objects.

use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};

use crate::group::GROUP;

/// The namespaces of the objects that there are at the moment, and a few more: those of one share its text.
static NAMESPACES: LazyLock<Mutex<HashSet<Arc<str>>>> = LazyLock::new(Mutex::default);

/// Decodes a namespace, whose text is there once: keys are compared by pointers as far as they have that in common.
pub(crate) fn namespace<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    let text = text(deserializer)?;
    let mut known = NAMESPACES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.get(&*text) {
        return Ok(known.clone());
    }
    if known.len() == known.capacity() {
        // What nobody has any more goes. There is room for as many again, so that this takes no time of most.
        known.retain(|text| Arc::strong_count(text) > 1);
        let room = known.len() + 1;
        known.reserve(room);
    }
    known.insert(text.clone());
    Ok(text)
}

/// Texts that references of most objects have.
static USUAL: LazyLock<[Arc<str>; 5]> = LazyLock::new(|| ["", GROUP, "Gateway", "HTTPRoute", "Service"].map(Arc::from));

/// A text; the usual ones share their memory.
pub fn shared(text: &str) -> Arc<str> {
    USUAL.iter().find(|usual| &***usual == text).map_or_else(|| text.into(), Arc::clone)
}

/// Decodes a [`shared`] text.
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    struct Text;
    impl Visitor<'_> for Text {
        type Value = Arc<str>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Arc<str>, E> {
            Ok(shared(text))
        }
    }
    deserializer.deserialize_str(Text)
}

/// Decodes a list without room for more: serde would leave room for four.
pub(crate) fn exact<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let mut list = Vec::deserialize(deserializer)?;
    list.shrink_to_fit();
    Ok(list)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{HttpRoute, http_route::HttpRouteMatch};

    #[test]
    fn objects_of_one_namespace_share_its_text() {
        let namespace = |name: &str| {
            let route: HttpRoute =
                serde_json::from_value(json!({ "metadata": { "namespace": name } })).expect("decodes");
            route.metadata.namespace
        };
        assert!(Arc::ptr_eq(&namespace("shared"), &namespace("shared")));
        assert_ne!(namespace("shared"), namespace("other"));
        let many: Vec<_> = (0..1_000).map(|at| namespace(&format!("passing-{at}"))).collect();
        drop(many);
        let known = || NAMESPACES.lock().expect("nobody panicked").len();
        for at in 0..10_000 {
            namespace(&format!("gone-{at}"));
        }
        assert!(known() < 4_000, "{}", known());
    }

    #[test]
    fn a_route_takes_no_more_memory_than_its_parts() {
        let route = json!({ "metadata": { "name": "r" }, "spec": {
            "parentRefs": [{ "group": GROUP, "kind": "Gateway", "name": "edge" }],
            "hostnames": ["a.example.com"],
            "rules": [{ "matches": [{}], "filters": [{ "type": "CORS" }], "backendRefs": [{ "name": "s" }] }],
        } });
        let HttpRoute { spec, .. } = serde_json::from_value(route).expect("decodes");
        let rule = &spec.rules[0];
        let room = [
            spec.parent_refs.capacity(),
            spec.hostnames.capacity(),
            spec.rules.capacity(),
            rule.matches.capacity(),
            rule.filters.capacity(),
            rule.backend_refs.capacity(),
        ];
        assert_eq!(room, [1; 6]);
        let parent = &spec.parent_refs[0];
        assert!(Arc::ptr_eq(&parent.kind, &shared("Gateway")) && Arc::ptr_eq(&parent.group, &shared(GROUP)));
        assert_eq!(rule.matches, [HttpRouteMatch::default()]);
    }
}
