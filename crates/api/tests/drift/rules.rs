//! The rules that the CRDs write in CEL.

use std::collections::BTreeSet;

use api::{Kind, decode, violations};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::crd::{self, kinds, manifest};

/// Concerns changes of an object; a manifest has no past.
const NOT_OF_ONE_OBJECT: &str = "Value is immutable";

#[derive(Deserialize)]
struct Case {
    /// The CRD's message, or the keyword where it is not written in CEL.
    rule: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    spec: Value,
    filters: Option<Value>,
    broken: Vec<String>,
}

fn cases() -> Vec<Case> {
    let long = "a".repeat(253);
    let sixty = serde_json::to_string(&vec![json!({}); 60]).expect("a list encodes");
    let text = include_str!("rules.yaml").replace("LONG", &long).replace("SIXTY", &sixty);
    serde_saphyr::from_str(&text).expect("cases")
}

#[test]
fn every_rule_of_the_crds_has_a_case_and_every_case_a_rule() {
    let mut theirs = BTreeSet::from(["oneOf".to_owned()]);
    for kind in kinds() {
        crd::walk(&crd::spec(kind), "spec", &mut |path, schema| {
            for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
                theirs.insert(rule["message"].as_str().unwrap_or_else(|| panic!("{path}: no message")).to_owned());
            }
        });
    }
    assert!(theirs.remove(NOT_OF_ONE_OBJECT));
    let ours: BTreeSet<_> = cases().into_iter().map(|case| case.rule).collect();
    assert_eq!(ours.symmetric_difference(&theirs).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn an_object_that_breaks_a_rule_is_told_where() {
    for Case { rule, kind, spec, filters, broken } in cases() {
        let Some(filters) = filters else {
            let kind = kinds().find(|known| known.as_str() == kind).expect("a kind");
            assert_eq!(broken_fields(kind, &spec), broken, "{rule}");
            continue;
        };
        let of_rule = json!({ "rules": [{ "filters": filters }] });
        let of_backend = json!({ "rules": [{ "backendRefs": [{ "name": "s", "port": 80, "filters": filters }] }] });
        for (spec, path) in [(of_rule, "spec.rules[0].filters"), (of_backend, "spec.rules[0].backendRefs[0].filters")] {
            let broken: Vec<_> = broken.iter().map(|field| format!("{path}{field}")).collect();
            assert_eq!(broken_fields(Kind::HttpRoute, &spec), broken, "{rule}");
        }
    }
}

fn broken_fields(kind: Kind, spec: &Value) -> Vec<String> {
    let decoded = decode(manifest(kind, spec)).expect("a manifest with types of the schema decodes");
    assert_eq!(decoded.unknown_fields, [""; 0]);
    violations(&decoded.object).into_iter().map(|violation| violation.path).collect()
}
