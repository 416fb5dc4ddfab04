use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::policy::LocalPolicyTargetReference;
use crate::{DecodeError, Decoded, Kind, Object, decode, schema::openapi, violations};

/// The fields of a TrafficPolicy's spec, as its CRD has them.
const FIELDS: [&str; 26] = [
    "acl",
    "apiKeyAuth",
    "autoHostRewrite",
    "basicAuth",
    "buffer",
    "compression",
    "cors",
    "csrf",
    "extAuth",
    "extProc",
    "faultInjection",
    "headerModifiers",
    "internalRedirect",
    "jwtAuth",
    "oauth2",
    "rateLimit",
    "rbac",
    "requestMirror",
    "retry",
    "statPrefix",
    "targetRefs",
    "targetSelectors",
    "timeouts",
    "tracing",
    "transformation",
    "urlRewrite",
];

fn manifest(spec: &Value) -> Value {
    json!({
        "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
        "metadata": { "name": "p", "namespace": "ns" }, "spec": spec,
    })
}

fn decoded(spec: &Value) -> Decoded {
    decode(manifest(spec)).expect("a TrafficPolicy")
}

fn policy(spec: &Value) -> TrafficPolicySpec {
    let Object::TrafficPolicy(policy) = decoded(spec).object else { panic!("another kind") };
    policy.spec
}

fn broken(spec: &Value) -> Vec<String> {
    let told = |violations: Vec<Violation>| violations.iter().map(ToString::to_string).collect::<Vec<_>>();
    let object = decoded(spec).object;
    let broken = told(violations(&object));
    let Object::TrafficPolicy(policy) = object else { panic!("another kind") };
    assert_eq!(told(policy.spec.violations()), broken, "the short way tells the same");
    broken
}

/// A value of the field's type.
fn value(field: &str) -> Value {
    match field {
        "autoHostRewrite" => json!(false),
        "statPrefix" => json!("s"),
        "targetRefs" | "targetSelectors" => json!([]),
        _ => json!({}),
    }
}

#[test]
fn every_field_of_the_schema_is_known_and_kept_as_it_is_written() {
    let Some(openapi::Node::Object(table)) = Kind::TrafficPolicy.spec_schema() else { panic!("a table") };
    let mut known: Vec<_> = table.iter().map(|field| field.name).collect();
    known.sort_unstable();
    assert_eq!(known, FIELDS);
    for field in FIELDS {
        let spec = json!({ field: value(field) });
        assert_eq!(decoded(&spec).unknown_fields, [""; 0], "{field}");
        let expected: Vec<_> = (!field.starts_with("target")).then(|| (field, value(field))).into_iter().collect();
        assert_eq!(policy(&spec).fields.iter().collect::<Vec<_>>(), expected, "{field}");
    }
}

#[test]
fn a_field_that_nobody_knows_is_reported_and_not_taken_for_harmless() {
    let spec = json!({ "jwtAuht": { "providers": [] }, "urlRewrite": { "pathRegx": {} } });
    assert_eq!(decoded(&spec).unknown_fields, ["spec.jwtAuht", "spec.urlRewrite.pathRegx"]);
    assert!(policy(&spec).fields.contains("jwtAuht"));
    let object = decoded(&spec).object;
    assert!(object.keeps("spec.jwtAuht.providers[0]"));
    assert!(!object.keeps("spec.targetRefs[0]"));
}

#[test]
fn what_stands_in_a_field_that_is_not_read_is_nobodys_concern() {
    let spec = json!({ "cors": { "anything": [1, { "at": "all" }] }, "buffer": { "maxRequestSize": 3 } });
    assert_eq!(decoded(&spec).unknown_fields, [""; 0]);
    assert_eq!(broken(&spec), [""; 0]);
}

#[test]
fn a_field_that_is_null_is_not_set() {
    assert_eq!(policy(&json!({ "cors": null, "urlRewrite": null })), TrafficPolicySpec::default());
}

#[test]
fn a_policy_without_targets_is_a_valid_one() {
    assert_eq!(broken(&json!({})), [""; 0]);
    assert_eq!(broken(&json!({ "urlRewrite": { "pathRegex": { "pattern": "a", "substitution": "b" } } })), [""; 0]);
}

#[test]
fn targets_and_the_rewrite_are_kept_as_written() {
    let spec = policy(&json!({
        "targetRefs": [
            { "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "r", "sectionName": "s" },
            { "group": "", "kind": "", "name": "" },
        ],
        "targetSelectors": [{ "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "matchLabels": { "a": "b" } }],
        "urlRewrite": { "pathRegex": { "pattern": "^/a(.*)$", "substitution": "/b\\1" } },
    }));
    assert_eq!(spec.target_refs[0].section_name.as_deref(), Some("s"));
    assert_eq!(spec.target_refs[1], LocalPolicyTargetReference::default());
    assert_eq!(spec.target_selectors[0].match_labels.get("a"), Some("b"));
    let rewrite = spec.fields.get("urlRewrite").expect("a rewrite");
    assert_eq!(rewrite["pathRegex"], json!({ "pattern": "^/a(.*)$", "substitution": "/b\\1" }));
}

#[test]
fn a_target_must_write_out_what_would_widen_it_if_it_were_forgotten() {
    for (field, target, missing) in [
        ("targetRefs", json!({ "kind": "HTTPRoute", "name": "r" }), "group"),
        ("targetSelectors", json!({ "kind": "HTTPRoute", "matchLabels": {} }), "group"),
        ("targetSelectors", json!({ "group": "g", "kind": "HTTPRoute" }), "matchLabels"),
    ] {
        let error = decode(manifest(&json!({ field: [target] }))).expect_err("refused");
        let DecodeError::MissingField { path, .. } = error else { panic!("{error}") };
        assert_eq!(path, format!("spec.{field}[0].{missing}"));
    }
}

#[test]
fn a_wrong_type_is_told_with_its_place() {
    let cases = [
        (json!([]), "spec must be a mapping, found a list"),
        (json!({ "cors": true }), "spec.cors must be a mapping, found a boolean true"),
        (json!({ "autoHostRewrite": "yes" }), "spec.autoHostRewrite must be true or false, found a string \"yes\""),
        (
            json!({ "urlRewrite": { "pathRegex": { "pattern": 1 } } }),
            "spec.urlRewrite.pathRegex.pattern must be a string (put it in quotes), found a number 1",
        ),
    ];
    for (spec, message) in cases {
        let error = decode(manifest(&spec)).expect_err("refused");
        assert_eq!(error.to_string(), format!("TrafficPolicy ns/p: {message}"));
    }
}

#[test]
fn what_the_schema_refuses_is_told_with_field_and_remedy() {
    let target = |kind: &str| json!([{ "group": "gateway.networking.k8s.io", "kind": kind, "name": "n" }]);
    let selector = json!([{ "group": "gateway.networking.k8s.io", "kind": "Gateway", "matchLabels": {} }]);
    let regex = json!({ "pathRegex": { "pattern": "a", "substitution": "b" } });
    let only = "must be Gateway, HTTPRoute, GRPCRoute or ListenerSet";
    let cases = [
        (json!({ "targetRefs": target("XListenerSet") }), String::new()),
        (json!({ "targetRefs": target("GRPCRoute"), "tracing": {} }), String::new()),
        (
            json!({ "targetRefs": target("Service") }),
            format!("spec.targetRefs[0].kind is \"Service of group gateway.networking.k8s.io\": {only}"),
        ),
        (
            json!({ "urlRewrite": regex, "targetSelectors": selector }),
            "spec.urlRewrite: must not be set in a policy that applies to Gateway, only to HTTPRoute".to_owned(),
        ),
        (
            json!({ "statPrefix": "s", "targetRefs": target("Gateway") }),
            "spec.statPrefix: must not be set in a policy that applies to Gateway, only to HTTPRoute and GRPCRoute"
                .to_owned(),
        ),
        (json!({ "urlRewrite": {} }), "spec.urlRewrite.pathRegex: is missing: set it, or remove urlRewrite".to_owned()),
        (
            json!({ "urlRewrite": { "pathRegex": { "substitution": "b" } } }),
            "spec.urlRewrite.pathRegex.pattern: is missing: set it".to_owned(),
        ),
    ];
    for (spec, message) in cases {
        assert_eq!(broken(&spec).join("\n"), message);
    }
}

/// Texts that are sound in one place or another, and some that are so nowhere.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("gateway.networking.k8s.io".to_owned()),
        Just("HTTPRoute".to_owned()),
        Just("Gateway".to_owned()),
        Just("GRPCRoute".to_owned()),
        Just("Service".to_owned()),
        Just("a-name".to_owned()),
        Just(String::new()),
        Just("Not.A_Name!".to_owned()),
        Just("a".repeat(254)),
    ]
}

fn target() -> impl Strategy<Value = Value> {
    (texts(), texts(), texts(), proptest::option::of(texts())).prop_map(|(group, kind, name, section)| {
        let mut target = json!({ "group": group, "kind": kind, "name": name });
        if let Some(section) = section {
            target["sectionName"] = section.into();
        }
        target
    })
}

fn selector() -> impl Strategy<Value = Value> {
    (texts(), texts(), proptest::option::of(texts())).prop_map(|(group, kind, section)| {
        let mut target = json!({ "group": group, "kind": kind, "matchLabels": { "a": "b" } });
        if let Some(section) = section {
            target["sectionName"] = section.into();
        }
        target
    })
}

proptest! {
    #[test]
    fn the_short_way_tells_what_the_schema_and_the_rules_tell(
        refs in proptest::collection::vec(target(), 0..18),
        selectors in proptest::collection::vec(selector(), 0..3),
        pattern in prop_oneof![Just(None), Just(Some(1)), Just(Some(1_025))],
        others in any::<[bool; 4]>(),
    ) {
        let mut spec = json!({ "targetRefs": refs, "targetSelectors": selectors });
        if let Some(length) = pattern {
            spec["urlRewrite"] = json!({ "pathRegex": { "pattern": "a".repeat(length), "substitution": "" } });
        }
        let values = [
            ("autoHostRewrite", json!(true)),
            ("statPrefix", json!("s")),
            ("tracing", json!({})),
            ("cors", json!({ "anything": 1 })),
        ];
        for ((field, value), _) in values.into_iter().zip(others).filter(|(_, is_set)| *is_set) {
            spec[field] = value;
        }
        // What both tell is compared there.
        broken(&spec);
    }
}
