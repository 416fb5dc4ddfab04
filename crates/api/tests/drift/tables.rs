//! The tables of `api::schema::openapi`, in both directions.

use api::schema::openapi::{self, Node, Text, Unique};
use serde_json::Value;

use crate::crd::{self, kinds, properties, requires};

#[test]
fn our_tables_say_what_the_crds_say_and_no_more() {
    for kind in kinds() {
        let mut found = Vec::new();
        compare(kind.spec_schema().expect("a table"), &crd::spec(kind), "spec", &mut found);
        assert_eq!(found, [""; 0], "{kind}");
    }
}

#[test]
fn our_table_of_a_policy_status_says_what_a_policy_of_the_release_says() {
    let mut found = Vec::new();
    compare(openapi::policy_status(), &crd::policy_status(), "status", &mut found);
    assert_eq!(found, [""; 0]);
}

fn compare(node: &Node, schema: &Value, path: &str, found: &mut Vec<String>) {
    let mut expect = |what: &str, ours: String, theirs: String| {
        if ours != theirs {
            found.push(format!("{path} {what}: ours {ours}, the CRD's {theirs}"));
        }
    };
    let count = |name: &str, otherwise: usize| {
        schema[name].as_u64().map_or(otherwise, |count| usize::try_from(count).expect("a small number"))
    };
    let number = |name: &str, otherwise: i64| schema[name].as_i64().unwrap_or(otherwise);
    match node {
        Node::Text(Text { min, max, pattern, values }) => {
            expect("type", "string".to_owned(), text(&schema["type"]));
            expect("minLength", min.to_string(), count("minLength", 0).to_string());
            expect("maxLength", max.to_string(), count("maxLength", usize::MAX).to_string());
            expect("pattern", pattern.map_or("", |pattern| pattern.regex).to_owned(), text(&schema["pattern"]));
            let theirs: Vec<_> = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            expect("enum", format!("{values:?}"), format!("{theirs:?}"));
        }
        Node::Number { min, max, values } => {
            expect("type", "integer".to_owned(), text(&schema["type"]));
            expect("minimum", min.to_string(), number("minimum", i64::MIN).to_string());
            expect("maximum", max.to_string(), number("maximum", i64::MAX).to_string());
            let theirs: Vec<_> = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
            expect("enum", format!("{values:?}"), format!("{theirs:?}"));
        }
        Node::Flag => expect("type", "boolean".to_owned(), text(&schema["type"])),
        Node::List { min, max, unique, items } => {
            expect("type", "array".to_owned(), text(&schema["type"]));
            expect("minItems", min.to_string(), count("minItems", 0).to_string());
            expect("maxItems", max.to_string(), count("maxItems", usize::MAX).to_string());
            let ours = match unique {
                Unique::No => "atomic".to_owned(),
                Unique::Items => "set".to_owned(),
                Unique::By(key) => format!("map by [\"{key}\"]"),
            };
            let theirs = match text(&schema["x-kubernetes-list-type"]).as_str() {
                "map" => format!("map by {}", schema["x-kubernetes-list-map-keys"]),
                other => other.to_owned(),
            };
            expect("list type", ours, theirs);
            compare(items, &schema["items"], &format!("{path}[]"), found);
        }
        Node::Map { max, values } => {
            expect("maxProperties", max.to_string(), count("maxProperties", usize::MAX).to_string());
            compare(values, &schema["additionalProperties"], &format!("{path}{{}}"), found);
        }
        Node::Opaque => found.push(format!("{path}: Gateway API leaves nothing open")),
        Node::Object(fields) => {
            expect("type", "object".to_owned(), text(&schema["type"]));
            let mut ours: Vec<_> = fields.iter().map(|field| (field.name, field.required)).collect();
            ours.sort_unstable();
            let mut theirs: Vec<_> =
                properties(schema).map(|(name, _)| (name.as_str(), requires(schema, name))).collect();
            theirs.sort_unstable();
            expect("properties and whether they are required", format!("{ours:?}"), format!("{theirs:?}"));
            for field in *fields {
                compare(field.node, &schema["properties"][field.name], &format!("{path}.{}", field.name), found);
            }
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[test]
fn the_crds_use_no_keyword_that_the_tables_cannot_hold() {
    // What the other tests of this folder hold, and what constrains nothing.
    let known = [
        "type",
        "properties",
        "required",
        "items",
        "additionalProperties",
        "default",
        "description",
        "enum",
        "format",
        "minLength",
        "maxLength",
        "pattern",
        "minimum",
        "maximum",
        "minItems",
        "maxItems",
        "maxProperties",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
        "x-kubernetes-validations",
    ];
    for kind in kinds() {
        crd::walk(&crd::spec(kind), "spec", &mut |path, schema| {
            for (keyword, value) in schema.as_object().expect("a schema is an object") {
                // Addresses of type IPAddress: among the rules, since it concerns two fields.
                let address = path == "spec.addresses[]" && keyword == "oneOf";
                let empty = keyword == "minLength" && value == 0;
                assert!(known.contains(&keyword.as_str()) || address || empty, "{kind} {path} {keyword}");
                assert!(keyword != "format" || ["int32", "int64"].contains(&text(value).as_str()), "{path} {value}");
            }
        });
    }
}
