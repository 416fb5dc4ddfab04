//! The CRDs of the kinds that are Portcullis' own.
//!
//! Each fact has one source: names, types, defaults and descriptions are those of the Rust types, by way of schemars;
//! bounds and patterns are those of the tables that files are checked with ([`crate::schema::openapi`]), and the rules
//! in CEL stand beside the code that checks the same in files.

use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{
    Kind,
    group::PORTCULLIS_GROUP,
    schema::{
        Cel, Own,
        openapi::{self, Field, Node, Text, Unique},
    },
    status::PolicyStatus,
};

/// The definitions of the kinds that are Portcullis' own, by name, as an API server takes them.
pub fn crds() -> Vec<Value> {
    own().into_iter().map(|(kind, own)| crd(kind, own)).collect()
}

fn own() -> Vec<(Kind, Own)> {
    let mut own: Vec<_> = Kind::ALL.iter().filter_map(|kind| Some((*kind, kind.schema().own?))).collect();
    own.sort_by_key(|(kind, _)| kind.as_str());
    own
}

fn crd(kind: Kind, own: Own) -> Value {
    let Own { about, describe, rules } = own;
    let mut unplaced = rules.iter().collect::<Vec<_>>();
    let spec = kind.schema().table.map(|node| structural(node, &described(describe), "spec", &mut unplaced));
    let status = described(SchemaGenerator::into_root_schema_for::<PolicyStatus>);
    let status = structural(openapi::policy_status(), &status, "status", &mut unplaced);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{}.{PORTCULLIS_GROUP}", kind.plural()),
            // What tools find policies by, and that these reach below their targets.
            "labels": { "gateway.networking.k8s.io/policy": "Inherited" },
        },
        "spec": {
            "group": PORTCULLIS_GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.as_str(),
                "listKind": format!("{kind}List"),
                "plural": kind.plural(),
                "singular": kind.as_str().to_lowercase(),
                "categories": ["gateway-api", "portcullis"],
            },
            "versions": [{
                "name": kind.versions()[0],
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
                "additionalPrinterColumns": [
                    {
                        "name": "Accepted",
                        "type": "string",
                        "jsonPath": ".status.ancestors[*].conditions[?(@.type=='Accepted')].status",
                    },
                    { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
                ],
                "schema": { "openAPIV3Schema": {
                    "description": about,
                    "type": "object",
                    "required": ["spec"],
                    "properties": {
                        "apiVersion": { "type": "string" },
                        "kind": { "type": "string" },
                        "metadata": { "type": "object" },
                        "spec": spec,
                        "status": status,
                    },
                }},
            }],
        },
    })
}

/// What schemars makes of a type, references resolved.
fn described(describe: fn(SchemaGenerator) -> schemars::Schema) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    describe(settings.into_generator()).to_value()
}

/// Joins what a table and a type say about a value; takes the rules of its path from `rules`.
fn structural(node: &Node, described: &Value, path: &str, rules: &mut Vec<&'static Cel>) -> Value {
    let mut schema = Map::new();
    for keyword in ["description", "default", "format"] {
        if let Some(value) = described.get(keyword) {
            schema.insert(keyword.to_owned(), value.clone());
        }
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        // Documentation of code to plain text.
        let paragraphs = text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ").replace('`', ""));
        *text = paragraphs.collect::<Vec<_>>().join("\n\n");
    }
    let mut bound = |keyword: &str, set: bool, value: Value| {
        if set {
            schema.insert(keyword.to_owned(), value);
        }
    };
    match node {
        Node::Text(Text { min, max, pattern, values }) => {
            bound("type", true, json!("string"));
            bound("minLength", *min > 0, json!(min));
            bound("maxLength", *max < usize::MAX, json!(max));
            bound("pattern", pattern.is_some(), json!(pattern.map(|pattern| pattern.regex)));
            bound("enum", !values.is_empty(), json!(values));
        }
        Node::Number { min, max, values } => {
            bound("type", true, json!("integer"));
            bound("minimum", *min > i64::MIN, json!(min));
            bound("maximum", *max < i64::MAX, json!(max));
            bound("enum", !values.is_empty(), json!(values));
        }
        Node::Flag => bound("type", true, json!("boolean")),
        Node::List { min, max, unique, items } => {
            let mut items = structural(items, &described["items"], &format!("{path}[]"), rules);
            // The list says it, and what the type says is told to whoever reads the code.
            items.as_object_mut().map(|items| items.remove("description"));
            bound("type", true, json!("array"));
            bound("minItems", *min > 0, json!(min));
            bound("maxItems", *max < usize::MAX, json!(max));
            bound("items", true, items);
            let (kind, keys) = match unique {
                Unique::No => ("atomic", None),
                Unique::Items => ("set", None),
                Unique::By(key) => ("map", Some([key])),
            };
            bound("x-kubernetes-list-type", true, json!(kind));
            bound("x-kubernetes-list-map-keys", keys.is_some(), json!(keys));
        }
        Node::Map { max, values } => {
            let values = structural(values, &described["additionalProperties"], &format!("{path}{{}}"), rules);
            bound("type", true, json!("object"));
            bound("maxProperties", *max < usize::MAX, json!(max));
            bound("additionalProperties", true, values);
        }
        Node::Object(fields) => {
            let mut properties = Map::new();
            for Field { name, required, node } in *fields {
                let mut property = structural(node, &described["properties"][name], &format!("{path}.{name}"), rules);
                if *required {
                    // What must be written has no default; the type's stands for an object that is incomplete.
                    property.as_object_mut().map(|property| property.remove("default"));
                }
                properties.insert((*name).to_owned(), property);
            }
            let required: Vec<_> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
            bound("type", true, json!("object"));
            bound("required", !required.is_empty(), json!(required));
            bound("properties", true, Value::Object(properties));
        }
        Node::Opaque => {
            bound("type", true, json!("object"));
            bound("x-kubernetes-preserve-unknown-fields", true, json!(true));
        }
    }
    let (here, elsewhere) = rules.iter().partition::<Vec<_>, _>(|rule| rule.path == path);
    *rules = elsewhere;
    let here: Vec<_> = here.iter().map(|rule| json!({ "rule": rule.rule, "message": rule.message })).collect();
    bound("x-kubernetes-validations", !here.is_empty(), json!(here));
    Value::Object(schema)
}

#[cfg(test)]
mod tests;
