use std::collections::BTreeSet;

use cel::{Context, Program};

use super::*;
use crate::{decode, violations};

/// Calls back for every pair of a table's node and what its type says.
fn walk(node: &Node, described: &Value, path: &str, visit: &mut impl FnMut(&str, &Node, &Value)) {
    visit(path, node, described);
    match node {
        Node::List { items, .. } => walk(items, &described["items"], &format!("{path}[]"), visit),
        Node::Map { values, .. } => {
            walk(values, &described["additionalProperties"], &format!("{path}{{}}"), visit);
        }
        Node::Object(fields) => {
            for field in *fields {
                let below = &described["properties"][field.name];
                walk(field.node, below, &format!("{path}.{}", field.name), visit);
            }
        }
        Node::Text(_) | Node::Number { .. } | Node::Flag | Node::Opaque => {}
    }
}

#[test]
fn tables_and_types_have_the_same_fields_of_the_same_types() {
    let specs = own().into_iter().map(|(kind, own)| (kind.schema().table, described(own.describe), kind.as_str()));
    let status = described(SchemaGenerator::into_root_schema_for::<PolicyStatus>);
    let mut seen = 0;
    for (node, described, name) in specs.chain([(Some(openapi::policy_status()), status, "status")]) {
        walk(node.expect("a table"), &described, name, &mut |path, node, described| {
            let theirs = ["/type/0", "/type", "/oneOf/0/type"].iter().find_map(|place| described.pointer(place));
            let ours = match node {
                Node::Text(_) => "string",
                Node::Number { .. } => "integer",
                Node::Flag => "boolean",
                Node::List { .. } => "array",
                Node::Map { .. } | Node::Object(_) | Node::Opaque => "object",
            };
            assert_eq!(theirs.and_then(Value::as_str), Some(ours), "{path}: {described}");
            if let Node::Object(fields) = node {
                let ours: BTreeSet<_> = fields.iter().map(|field| field.name.to_owned()).collect();
                let theirs = described["properties"].as_object().expect("properties");
                assert_eq!(ours, theirs.keys().cloned().collect(), "{path}");
            }
            seen += 1;
        });
    }
    assert!(seen > 60, "the walk must meet the fields, it met {seen}");
}

#[test]
fn every_field_is_described_and_no_description_is_for_readers_of_the_code() {
    fn fields(schema: &Value, path: &str, found: &mut Vec<(String, String)>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            found.push((path.clone(), property["description"].as_str().unwrap_or_default().to_owned()));
            fields(property, &path, found);
            fields(&property["items"], &path, found);
        }
    }
    for crd in crds() {
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        let mut found = Vec::new();
        fields(&json!({ "properties": { "spec": schema["spec"], "status": schema["status"] } }), "", &mut found);
        assert!(found.len() > 20, "the walk must meet the fields");
        for (path, text) in found {
            assert!(text.ends_with('.'), "{path}: {text}");
            assert!(!text.contains("::") && !text.contains('['), "{path}: {text}");
        }
    }
}

#[test]
fn only_what_may_be_left_out_has_a_default() {
    fn collect(schema: &Value, path: &str, found: &mut Vec<String>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            if let Some(default) = property.get("default") {
                found.push(format!("{path} = {default}"));
            }
            collect(property, &path, found);
            collect(&property["items"], &format!("{path}[]"), found);
        }
    }
    let crds = crds();
    let spec = |at: usize| &crds[at]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let mut defaults = Vec::new();
    collect(spec(0), "spec", &mut defaults);
    collect(spec(1), "spec", &mut defaults);
    assert_eq!(
        defaults,
        [
            "spec.allowedChildren.allowDisablingInheritedPolicies = true",
            "spec.defaultBackendRefs[].group = \"\"",
            "spec.defaultBackendRefs[].kind = \"Service\"",
            "spec.defaultBackendRefs[].weight = 1",
        ]
    );
}

#[test]
fn every_rule_in_cel_stands_in_its_crd() {
    for ((kind, own), crd) in own().into_iter().zip(crds()) {
        let text = crd.to_string();
        assert_eq!(text.matches("\"rule\":").count(), own.rules.len(), "{kind}");
    }
}

/// A case: kind, spec, the message of the rule that it breaks, and the field that files are told; both empty for a spec
/// that breaks none.
type Case = (Kind, Value, &'static str, &'static str);

fn cases() -> Vec<Case> {
    use Kind::{DelegationPolicy, RewritePolicy};
    let target = |group: &str, kind: &str| json!({ "group": group, "kind": kind, "name": "r", "matchLabels": {} });
    let route = target("gateway.networking.k8s.io", "HTTPRoute");
    let delegation = |field: &str, value: Value| json!({ "targetRefs": [route.clone()], field: value });
    let children = |field: &str, value: Value| delegation("allowedChildren", json!({ field: value }));
    let only = "must be HTTPRoute of group gateway.networking.k8s.io";
    let either = "must have either names or selector";
    vec![
        (DelegationPolicy, json!({ "targetRefs": [route.clone(), route.clone()] }), "", ""),
        (
            DelegationPolicy,
            json!({ "targetRefs": [route.clone(), target("", "HTTPRoute")] }),
            only,
            "spec.targetRefs[1].kind",
        ),
        (
            DelegationPolicy,
            json!({ "targetRefs": [target("gateway.networking.k8s.io", "Gateway")] }),
            only,
            "spec.targetRefs[0].kind",
        ),
        (RewritePolicy, json!({}), "", ""),
        (RewritePolicy, json!({ "targetRefs": [route.clone()], "targetSelectors": [route.clone()] }), "", ""),
        (RewritePolicy, json!({ "targetRefs": [target("g", "HTTPRoute")] }), only, "spec.targetRefs[0].kind"),
        (RewritePolicy, json!({ "targetSelectors": [target("", "Service")] }), only, "spec.targetSelectors[0].kind"),
        (DelegationPolicy, delegation("allowedChildren", json!({})), "", ""),
        (DelegationPolicy, children("namespaces", json!({ "names": ["a"] })), "", ""),
        (DelegationPolicy, children("namespaces", json!({ "selector": {} })), "", ""),
        (DelegationPolicy, children("namespaces", json!({})), either, "spec.allowedChildren.namespaces"),
        (
            DelegationPolicy,
            children("namespaces", json!({ "names": ["a"], "selector": {} })),
            either,
            "spec.allowedChildren.namespaces",
        ),
        (DelegationPolicy, children("backends", json!([{ "kind": "Service" }, { "name": "a.*" }])), "", ""),
        (DelegationPolicy, children("backends", json!([{ "namespace": "a" }, { "group": "g", "kind": "K" }])), "", ""),
        (
            DelegationPolicy,
            children("backends", json!([{ "kind": "K" }, { "group": "g", "name": "n" }])),
            "must set kind beside group",
            "spec.allowedChildren.backends[1]",
        ),
        (
            DelegationPolicy,
            children("backends", json!([{}])),
            "must set kind, namespace or name",
            "spec.allowedChildren.backends[0]",
        ),
        (
            DelegationPolicy,
            delegation(
                "defaultBackendRefs",
                json!([{ "name": "s", "port": 80 }, { "name": "b", "kind": "Backend", "group": "g" }]),
            ),
            "",
            "",
        ),
        (
            DelegationPolicy,
            delegation("defaultBackendRefs", json!([{ "name": "s", "port": 80 }, { "name": "s" }])),
            "must set port for a Service",
            "spec.defaultBackendRefs[1].port",
        ),
    ]
}

#[test]
fn files_are_told_what_an_api_server_tells_by_cel() {
    let mut broken = BTreeSet::new();
    for (kind, spec, message, path) in cases() {
        let metadata = json!({ "name": "p" });
        let manifest =
            json!({ "apiVersion": kind.api_version(), "kind": kind.as_str(), "metadata": metadata, "spec": spec });
        let object = decode(manifest).expect("a policy").object;
        // As a server evaluates it: with defaults in place.
        let encoded = match &object {
            crate::Object::DelegationPolicy(policy) => serde_json::to_value(&policy.spec),
            crate::Object::RewritePolicy(policy) => serde_json::to_value(&policy.spec),
            _ => panic!("another kind"),
        };
        let encoded = json!({ "spec": encoded.expect("a policy encodes") });
        let rules = kind.schema().own.expect("a kind of our own").rules.iter();
        let refused: Vec<_> = rules.filter(|rule| !holds(rule, &encoded)).map(|rule| rule.message).collect();
        assert_eq!(refused.concat(), message, "{kind} {spec}");
        let told: Vec<_> = violations(&object).into_iter().map(|violation| violation.path).collect();
        assert_eq!(told.concat(), path, "{kind} {spec}");
        broken.insert((kind, message));
    }
    for (kind, own) in own() {
        for rule in own.rules {
            assert!(broken.contains(&(kind, rule.message)), "no case breaks {rule:?}");
        }
    }
}

/// Whether the rule holds for every value at its path.
fn holds(rule: &Cel, object: &Value) -> bool {
    let program = Program::compile(rule.rule).expect("an expression in CEL");
    values(object, rule.path).into_iter().all(|value| {
        let mut context = Context::default();
        context.add_variable("self", value).expect("a value");
        program.execute(&context).expect("a verdict") == true.into()
    })
}

/// The values at a path such as `spec.list[].field`.
fn values<'v>(value: &'v Value, path: &str) -> Vec<&'v Value> {
    let mut values = vec![value];
    for step in path.split('.') {
        let (name, items) = step.strip_suffix("[]").map_or((step, false), |name| (name, true));
        values = values.into_iter().filter_map(|value| value.get(name)).collect();
        if items {
            values = values.into_iter().filter_map(Value::as_array).flatten().collect();
        }
    }
    values
}
