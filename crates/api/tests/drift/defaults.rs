//! Defaults of the schema.

use api::decode;
use serde_json::Value;

use crate::crd::{self, differences, encoded_spec, kinds, manifest, properties, sparse};

#[test]
fn decoding_sets_exactly_the_defaults_that_an_api_server_sets() {
    let mut changed = 0;
    for kind in kinds() {
        let schema = crd::spec(kind);
        for spec in sparse(&schema, "spec") {
            let decoded = decode(manifest(kind, &spec)).expect("a manifest of the schema decodes");
            let mut defaulted = spec.clone();
            set_defaults(&schema, &mut defaulted);
            let found = differences(&encoded_spec(&decoded.object), &defaulted, "spec");
            assert_eq!(found, [""; 0], "{kind} {spec}");
            changed += usize::from(defaulted != spec);
        }
    }
    assert!(changed > 20, "the schemas must set defaults, they set {changed}");
}

#[test]
fn every_default_of_the_schema_is_met_by_some_instance() {
    for kind in kinds() {
        let schema = crd::spec(kind);
        let instances = sparse(&schema, "spec");
        crd::walk(&schema, "spec", &mut |path, node| {
            let met = |instance: &Value| lacks(instance, path.strip_prefix("spec").unwrap_or(path));
            assert!(node.get("default").is_none() || instances.iter().any(met), "{kind} {path}");
        });
    }
}

/// What an API server does: a property that is absent gets its default, and so on inside of it.
fn set_defaults(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, property) in properties(schema) {
                if let (false, Some(default)) = (fields.contains_key(name), property.get("default")) {
                    fields.insert(name.clone(), default.clone());
                }
                if let Some(value) = fields.get_mut(name) {
                    set_defaults(property, value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| set_defaults(&schema["items"], item)),
        _ => {}
    }
}

/// Whether the parent of the property is there and the property is not.
fn lacks(instance: &Value, path: &str) -> bool {
    if let Some(rest) = path.strip_prefix("[]") {
        return instance.as_array().is_some_and(|items| items.iter().any(|item| lacks(item, rest)));
    }
    let path = path.strip_prefix('.').unwrap_or(path);
    let end = path.find(['.', '[']).unwrap_or(path.len());
    let (name, rest) = path.split_at(end);
    match instance.get(name) {
        Some(value) => !rest.is_empty() && lacks(value, rest),
        None => rest.is_empty() && instance.is_object(),
    }
}
