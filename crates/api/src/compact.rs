//! Decoding into no more memory than what is decoded takes: a cluster has many objects.

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};

use crate::group::GROUP;

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
