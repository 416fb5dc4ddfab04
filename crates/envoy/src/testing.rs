//! What tests of this and of other crates check messages by, and check them on.

pub mod pgv;
pub mod samples;

use serde_json::Value;

/// Puts the filters that proxies are sent apart from a connection manager into it. `of` gives the `TypedExtensionConfig` of a
/// name.
///
/// # Panics
///
/// Where the manager is not JSON of that message.
pub fn inline_extensions(manager: &mut Value, of: impl Fn(&str) -> Value) {
    for filter in manager["httpFilters"].as_array_mut().expect("filters") {
        let filter = filter.as_object_mut().expect("a filter");
        if filter.remove("configDiscovery").is_some() {
            let mut extension = of(filter["name"].as_str().expect("a name"));
            filter.insert("typedConfig".into(), extension["typedConfig"].take());
        }
    }
}
