use std::path::Path;

use serde_json::json;

use super::*;

/// The definition of a kind that a chart brings.
fn charted(kind: Kind) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/portcullis-crds/files");
    let file = match kind.group() {
        PORTCULLIS_GROUP => "gateway.portcullis.dev.yaml".to_owned(),
        group => format!("{group}_{}.yaml", kind.plural()),
    };
    let text = std::fs::read_to_string(folder.join(file)).expect("the chart has it");
    let all: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
    all.into_iter().find(|crd| crd["spec"]["names"]["kind"] == kind.as_str()).expect("it is defined there")
}

/// A definition of HTTPRoute with these properties of a rule.
fn route(rule: &Value) -> Value {
    let of = |properties: Value| json!({ "type": "object", "properties": properties });
    let list = |items: Value| json!({ "type": "array", "items": items });
    let spec = of(json!({ "rules": list(of(rule.clone())), "hostnames": {}, "parentRefs": { "items": {
        "x-kubernetes-preserve-unknown-fields": true } } }));
    json!({
        "metadata": { "annotations": {
            "gateway.networking.k8s.io/channel": "standard", "gateway.networking.k8s.io/bundle-version": "v1.0.0",
        } },
        "spec": { "versions": [
            { "name": "v1beta1", "served": true, "schema": { "openAPIV3Schema": {} } },
            { "name": "v1", "served": true, "schema": { "openAPIV3Schema": of(json!({ "spec": spec })) } },
        ] },
    })
}

#[test]
fn what_the_charts_bring_lacks_nothing() {
    for kind in Kind::ALL.iter().filter(|kind| [PORTCULLIS_GROUP, KGATEWAY_GROUP].contains(&kind.group())) {
        assert_eq!(compare(*kind, Some(&charted(*kind))), None, "{kind}");
    }
}

#[test]
fn a_field_that_is_dropped_is_reported_without_what_is_below_it() {
    let any = json!({ "x-kubernetes-preserve-unknown-fields": true });
    let rule = json!({
        "name": {}, "matches": { "items": any }, "filters": { "items": any }, "backendRefs": { "items": any },
        "timeouts": { "properties": { "request": {} } },
    });
    let lacking = compare(Kind::HttpRoute, Some(&route(&rule))).expect("it lacks something");
    assert_eq!(
        lacking.fields,
        ["spec.rules[].retry", "spec.rules[].sessionPersistence", "spec.rules[].timeouts.backendRequest"]
    );
    assert_eq!((lacking.channel.as_deref(), lacking.release.as_deref()), (Some("standard"), Some("v1.0.0")));
    let text = lacking.to_string();
    let begin = "CustomResourceDefinition httproutes.gateway.networking.k8s.io (v1.0.0, standard channel): an administrator \
                 of the cluster may act\n";
    assert!(text.starts_with(begin), "{text}");
    assert!(text.contains("spec.rules[].retry") && text.contains("experimental-install.yaml"), "{text}");
}

#[test]
fn a_kind_that_is_not_defined_or_served_is_reported() {
    let absent = compare(Kind::RewritePolicy, None).expect("it is not there");
    assert!(absent.unserved.is_some() && absent.remedy.contains("portcullis crds"), "{absent:?}");
    let mut old = charted(Kind::TrafficPolicy);
    old["spec"]["versions"][0]["name"] = "v1beta9".into();
    let old = compare(Kind::TrafficPolicy, Some(&old)).expect("nothing that is understood");
    assert!(old.to_string().contains("v1alpha1"), "{old}");
}

#[test]
fn a_definition_that_keeps_everything_drops_nothing() {
    let mut keeping = charted(Kind::DirectResponse);
    keeping["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = json!({});
    assert!(compare(Kind::DirectResponse, Some(&keeping)).is_some());
    keeping["spec"]["preserveUnknownFields"] = true.into();
    assert_eq!(compare(Kind::DirectResponse, Some(&keeping)), None);
}
