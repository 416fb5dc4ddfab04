use serde_json::json;

use super::*;
use crate::http_route::{HttpRouteFilterType, PathMatchType};

mod generated;

/// A manifest of each kind that is read, as an API server has it.
#[allow(clippy::too_many_lines, reason = "a list")]
pub(super) fn manifests() -> Vec<Value> {
    let metadata = json!({
        "name": "a", "namespace": "n", "uid": "1", "resourceVersion": "7", "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z", "labels": { "a": "b" },
        "managedFields": [{ "fieldsV1": { "f:spec": {} } }],
    });
    let gateway = "gateway.networking.k8s.io/v1";
    let kgateway = "gateway.kgateway.dev/v1alpha1";
    let portcullis = "gateway.portcullis.dev/v1alpha1";
    let manifest = |version: &str, kind: &str, rest: Value| {
        let mut manifest = json!({ "apiVersion": version, "kind": kind, "metadata": metadata });
        for (field, value) in rest.as_object().expect("fields") {
            manifest[field] = value.clone();
        }
        if matches!(kind, "GatewayClass" | "Namespace") {
            manifest["metadata"].as_object_mut().expect("metadata").remove("namespace");
        }
        manifest
    };
    let target = json!([{ "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "r" }]);
    vec![
        manifest(gateway, "GatewayClass", json!({ "spec": { "controllerName": "example.com/a" } })),
        manifest(
            gateway,
            "Gateway",
            json!({ "spec": { "gatewayClassName": "c", "listeners": [
                { "name": "l", "port": 80, "protocol": "HTTP", "hostname": null }
            ] } }),
        ),
        manifest(
            gateway,
            "ListenerSet",
            json!({ "spec": { "parentRef": { "name": "g" }, "listeners": [{ "name": "l", "port": 80, "protocol": "HTTP", "hostname": null }] } }),
        ),
        manifest(
            gateway,
            "HTTPRoute",
            json!({ "spec": { "rules": [{ "matches": [], "filters": null, "backendRefs": [{ "name": "s", "port": 80 }] }] },
                    "status": { "parents": [] } }),
        ),
        manifest(
            gateway,
            "HTTPRoute",
            json!({ "spec": { "hostnames": ["nullable.example.com"], "rules": [{ "backendRefs": [{ "name": "s" }] }] } }),
        ),
        manifest(
            gateway,
            "GRPCRoute",
            json!({ "spec": { "rules": [{ "matches": [{ "method": { "service": "a.B", "method": null } }], "backendRefs": [{ "name": "s", "port": 80 }] }] } }),
        ),
        manifest(
            gateway,
            "TLSRoute",
            json!({ "spec": { "hostnames": ["a.example.com"], "rules": [{ "name": null, "backendRefs": [{ "name": "s", "port": 443 }] }] } }),
        ),
        manifest(
            gateway,
            "TCPRoute",
            json!({ "spec": { "rules": [{ "backendRefs": [{ "name": "s", "port": 5432 }] }] } }),
        ),
        manifest(
            gateway,
            "UDPRoute",
            json!({ "spec": { "rules": [{ "backendRefs": [{ "name": "s", "port": 53 }] }] } }),
        ),
        manifest(
            gateway,
            "BackendTLSPolicy",
            json!({ "spec": { "targetRefs": [{ "group": "", "kind": "Service", "name": "s" }], "options": null,
                "validation": { "caCertificateRefs": [{ "group": "", "kind": "ConfigMap", "name": "ca" }], "hostname": "a.example.com" } } }),
        ),
        manifest(gateway, "ReferenceGrant", json!({ "spec": { "from": [], "to": [] } })),
        manifest(kgateway, "TrafficPolicy", json!({ "spec": { "targetRefs": target, "cors": null, "rateLimit": {} } })),
        manifest(
            kgateway,
            "DirectResponse",
            json!({ "spec": { "status": 200, "body": null, "bodyFormat": { "json": { "a": null } } } }),
        ),
        manifest(
            kgateway,
            "Backend",
            json!({ "spec": { "type": "Static", "static": { "hosts": [{ "host": "a.example.com", "port": 443 }] }, "aws": null } }),
        ),
        manifest(
            kgateway,
            "BackendConfigPolicy",
            json!({ "spec": { "targetRefs": [{ "group": "", "kind": "Service", "name": "s" }], "connectTimeout": "5s", "tls": null } }),
        ),
        manifest(
            kgateway,
            "ListenerPolicy",
            json!({ "spec": { "targetRefs": [{ "group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "g" }], "default": { "proxyProtocol": {} } } }),
        ),
        manifest(
            kgateway,
            "GatewayExtension",
            json!({ "spec": { "extAuth": { "grpcService": { "backendRef": { "name": "s", "port": 80 } } } } }),
        ),
        manifest(portcullis, "RewritePolicy", json!({ "spec": { "targetRefs": target, "replacePrefix": [] } })),
        manifest(portcullis, "DelegationPolicy", json!({ "spec": { "targetRefs": target } })),
        manifest("v1", "Service", json!({ "spec": { "ports": [{ "port": 80, "targetPort": "http" }] } })),
        manifest(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            json!({ "addressType": "IPv4", "endpoints": null, "ports": [{ "port": 0 }, { "port": 80 }] }),
        ),
        manifest("v1", "Secret", json!({ "type": "kubernetes.io/tls", "data": { "tls.crt": "aGVsbG8=" } })),
        manifest("v1", "ConfigMap", json!({ "data": { "ca.crt": "null" } })),
        manifest(
            kgateway,
            "GatewayParameters",
            json!({ "spec": { "kube": { "deployment": { "replicas": 2 }, "podTemplate": null } } }),
        ),
        manifest("apps/v1", "Deployment", json!({ "spec": {}, "status": { "availableReplicas": 1 } })),
        manifest("v1", "Namespace", json!({ "spec": { "finalizers": ["kubernetes"] } })),
    ]
}

fn route(spec: &Value) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": { "name": "r", "namespace": "ns", "uid": "1" }, "spec": spec, "status": { "parents": [] },
    })
}

fn decoded_route(spec: &Value) -> (crate::HttpRoute, Vec<String>) {
    let Decoded { object: Object::HttpRoute(route), unknown_fields } = decode(route(spec)).expect("a route") else {
        panic!("not a route");
    };
    (route, unknown_fields)
}

fn refused(manifest: Value) -> String {
    decode(manifest).expect_err("must be refused").to_string()
}

#[test]
fn an_empty_route_is_what_an_api_server_makes_of_it() {
    let (route, unknown) = decoded_route(&json!({}));
    assert_eq!(unknown, [""; 0]);
    let [rule] = &route.spec.rules[..] else { panic!("one rule") };
    let [only] = &rule.matches[..] else { panic!("one match") };
    assert_eq!((&only.path.r#type, &*only.path.value), (&PathMatchType::PathPrefix, "/"));
}

#[test]
fn an_empty_list_of_matches_matches_everything() {
    let (route, _) = decoded_route(&json!({ "rules": [{ "matches": [] }] }));
    assert_eq!(route.spec.rules[0].matches, [crate::http_route::HttpRouteMatch::default()]);
}

#[test]
fn null_is_as_good_as_absent() {
    let (route, _) = decoded_route(&json!({
        "hostnames": null,
        "rules": [{ "matches": null, "filters": null, "backendRefs": [{ "name": "s", "weight": null, "port": null }] }],
    }));
    let backend = &route.spec.rules[0].backend_refs[0];
    assert_eq!((backend.weight, backend.backend_ref.port), (1, None));
    assert_eq!(route.spec.rules[0].matches.len(), 1);
}

#[test]
fn a_missing_numerator_is_not_none_of_all() {
    let mirror = json!({ "backendRef": { "name": "s", "port": 80 }, "fraction": {} });
    let filter = json!({ "type": "RequestMirror", "requestMirror": mirror });
    let object = decode(route(&json!({ "rules": [{ "filters": [filter] }] }))).expect("a route").object;
    let paths: Vec<_> = crate::violations(&object).into_iter().map(|violation| violation.path).collect();
    assert_eq!(paths, ["spec.rules[0].filters[0].requestMirror.fraction.numerator"]);
}

#[test]
fn unknown_fields_are_ignored_and_reported_with_their_place() {
    let (route, unknown) = decoded_route(&json!({
        "hostname": "a.example",
        "rules": [
            { "backendRefs": [{ "name": "s", "port": 80, "wieght": 3 }] },
            { "filters": [{ "type": "RequestRedirect", "requestRedirect": { "code": 301 } }], "match": [] },
        ],
    }));
    assert_eq!(
        unknown,
        [
            "spec.hostname",
            "spec.rules[0].backendRefs[0].wieght",
            "spec.rules[1].filters[0].requestRedirect.code",
            "spec.rules[1].match",
        ]
    );
    assert_eq!(route.spec.rules[0].backend_refs[0].weight, 1);
}

#[test]
fn a_field_beside_the_spec_is_reported_but_metadata_and_status_are_not_ours_to_know() {
    let mut manifest = route(&json!({}));
    manifest["rules"] = json!([]);
    assert_eq!(decode(manifest).expect("a route").unknown_fields, ["rules"]);
}

#[test]
fn an_unknown_value_of_an_enum_costs_nothing_but_itself() {
    let (route, _) = decoded_route(&json!({ "rules": [{ "filters": [{ "type": "Teleport" }] }] }));
    let filter = &route.spec.rules[0].filters[0];
    assert_eq!(filter.r#type, HttpRouteFilterType::Unknown("Teleport".into()));
}

#[test]
fn a_wrong_type_is_told_with_object_path_value_and_what_it_must_be() {
    let backend = |port: Value| json!({ "rules": [{ "backendRefs": [{ "name": "s", "port": port }] }] });
    let header = json!({ "name": "a", "value": 1 });
    let text = "a string (put it in quotes)";
    let cases = [
        (backend(json!("80")), "spec.rules[0].backendRefs[0].port", "a whole number", "a string \"80\""),
        (backend(json!(80.5)), "spec.rules[0].backendRefs[0].port", "a whole number", "a number 80.5"),
        (
            backend(json!(3_000_000_000_u32)),
            "spec.rules[0].backendRefs[0].port",
            "a number between -2147483648 and 2147483647",
            "a number 3000000000",
        ),
        (
            json!({ "rules": [{}, { "matches": [{ "headers": [header] }] }] }),
            "spec.rules[1].matches[0].headers[0].value",
            text,
            "a number 1",
        ),
        (json!([]), "spec", "a mapping", "a list"),
        (json!({ "rules": {} }), "spec.rules", "a list", "a mapping"),
        (json!({ "rules": [[]] }), "spec.rules[0]", "a mapping", "a list"),
        (json!({ "rules": [null] }), "spec.rules[0]", "a mapping", "nothing"),
        (json!({ "parentRefs": [{ "name": true }] }), "spec.parentRefs[0].name", text, "a boolean true"),
        (json!({ "rules": [{ "filters": [{ "type": 3 }] }] }), "spec.rules[0].filters[0].type", text, "a number 3"),
    ];
    for (spec, path, expected, found) in cases {
        assert_eq!(refused(route(&spec)), format!("HTTPRoute ns/r: {path} must be {expected}, found {found}"));
    }
}

#[test]
fn a_grant_must_write_its_groups_out() {
    let grant = |from: Value| {
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
            "metadata": { "name": "g" }, "spec": { "from": [from], "to": [{ "group": "", "kind": "Service" }] },
        })
    };
    let error = refused(grant(json!({ "kind": "HTTPRoute", "namespace": "ns" })));
    assert_eq!(error, "ReferenceGrant default/g: spec.from[0].group is missing");
    assert!(decode(grant(json!({ "group": "", "kind": "HTTPRoute", "namespace": "ns" }))).is_ok());
}

#[test]
fn what_is_no_object_of_ours_is_told_and_what_was_meant() {
    let manifest = |api_version: &str, kind: &str| json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "x" }, "spec": {} });
    let cases = [
        (json!([1]), "a manifest must be a mapping with apiVersion, kind and metadata, found a list"),
        (json!({ "kind": "Gateway" }), "apiVersion is missing: set it to a string"),
        (json!({ "apiVersion": "v1" }), "kind is missing: set it to a string"),
        (manifest("apps/v1", "StatefulSet"), "apps/v1 StatefulSet is not a kind that is read here"),
        (
            manifest("gateway.networking.k8s.io/v1", "HttpRoute"),
            "gateway.networking.k8s.io/v1 HttpRoute is not a kind that is read here: did you mean \
             gateway.networking.k8s.io/v1 HTTPRoute?",
        ),
        (
            manifest("gateway.networking.k8s.io/v1alpha2", "Gateway"),
            "gateway.networking.k8s.io/v1alpha2 Gateway is not a kind that is read here: did you mean \
             gateway.networking.k8s.io/v1 Gateway?",
        ),
        (
            manifest("gateway.networking.k8s.io/v1", "HTTPRout"),
            "gateway.networking.k8s.io/v1 HTTPRout is not a kind that is read here: did you mean \
             gateway.networking.k8s.io/v1 HTTPRoute?",
        ),
        (
            manifest("gateway.kgateway.dev/v1alpha1", "TrafficPolices"),
            "gateway.kgateway.dev/v1alpha1 TrafficPolices is not a kind that is read here: did you mean \
             gateway.kgateway.dev/v1alpha1 TrafficPolicy?",
        ),
        (
            manifest("gateway.kgateway.dev/v1alpha1", "HTTPListenerPolicy"),
            "gateway.kgateway.dev/v1alpha1 HTTPListenerPolicy is not a kind that is read here: write a ListenerPolicy, with \
             its fields in spec.default.httpSettings",
        ),
        (
            manifest("gateway.networking.k8s.io/v1", "XMesh"),
            "gateway.networking.k8s.io/v1 XMesh is not a kind that is read here",
        ),
        (manifest("serving.example/v1", "Servic"), "serving.example/v1 Servic is not a kind that is read here"),
        (manifest("v1", "List"), "v1 List is not a kind that is read here: give each item a document of its own"),
        (json!({ "apiVersion": "v1", "kind": "Service" }), "Service: metadata.name is missing"),
        (json!({ "apiVersion": "v1", "kind": "Service", "metadata": {} }), "Service: metadata.name is missing"),
    ];
    for (manifest, message) in cases {
        assert_eq!(refused(manifest), message);
    }
}

#[test]
fn a_name_that_no_api_server_takes_is_refused() {
    let manifest = |kind: &str, name: Value, namespace: Value| json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name, "namespace": namespace } });
    for (name, namespace) in [("a/b", "ns"), ("A", "ns"), ("a", "n/s"), ("a", "n.s"), ("-a", "ns"), ("a b", "ns")] {
        let error = decode(manifest("Secret", json!(name), json!(namespace))).expect_err("refused");
        assert!(matches!(error, DecodeError::InvalidName { .. }), "{error}");
    }
    assert!(decode(manifest("Secret", json!("a.b"), json!("ns"))).is_ok());
    assert!(decode(manifest("Service", json!("a.b"), json!("ns"))).is_err());
    let error = refused(manifest("Secret", json!(12), json!("ns")));
    assert_eq!(error, "Secret : metadata.name must be a string (put it in quotes), found a number 12");
}

#[test]
fn an_object_without_a_namespace_gets_one_if_its_kind_has_one() {
    let manifest = |kind: &str, metadata: Value| json!({ "apiVersion": "v1", "kind": kind, "metadata": metadata });
    let id = |manifest| decode_in(manifest, "here").expect("an object").object.id().to_string();
    assert_eq!(id(manifest("Secret", json!({ "name": "a" }))), "Secret here/a");
    assert_eq!(id(manifest("Secret", json!({ "name": "a", "namespace": "ns" }))), "Secret ns/a");
    assert_eq!(id(manifest("Namespace", json!({ "name": "a", "namespace": "ns" }))), "Namespace a");
    assert_eq!(
        decode(manifest("Secret", json!({ "name": "a" }))).expect("a Secret").object.id().to_string(),
        "Secret default/a"
    );
}

#[test]
fn a_gateway_api_object_needs_a_spec() {
    let manifest =
        json!({ "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": { "name": "g" } });
    assert_eq!(refused(manifest), "Gateway default/g: spec is missing");
}

#[test]
fn a_secret_shows_no_value_in_an_error() {
    let manifest = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "data": { "password": 12345 },
    });
    let error = refused(manifest);
    assert!(error.starts_with("Secret default/s: data.password must be"), "{error}");
    assert!(!error.contains("12345"), "{error}");
}

#[test]
fn metadata_that_is_read_is_kept() {
    let manifest = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
        "metadata": {
            "name": "c", "generation": 3, "labels": { "a": "b" }, "annotations": { "c": "d" },
            "creationTimestamp": "2024-01-02T03:04:05Z", "managedFields": [{}],
        },
        "spec": { "controllerName": "a.example/b" },
    });
    let object = decode(manifest).expect("a GatewayClass").object;
    let metadata = object.metadata().expect("metadata");
    assert_eq!(metadata.generation, 3);
    assert_eq!(metadata.labels.get("a"), Some("b"));
    assert_eq!(metadata.annotations.get("c"), Some("d"));
    assert_eq!(metadata.creation_timestamp.map(|time| time.to_string()).as_deref(), Some("2024-01-02T03:04:05Z"));
    assert_eq!(metadata.deletion_timestamp, None);
}

#[test]
fn of_a_policy_that_does_not_decode_the_targets_that_can_be_read_are_left() {
    let route = |name: &str| json!({ "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": name });
    let labelled = json!({ "group": "g", "kind": "K", "matchLabels": { "a": "b" } });
    let mut in_section = route("b");
    in_section["sectionName"] = json!(5);
    let kinds = [
        ("gateway.kgateway.dev", "TrafficPolicy", "urlRewrite"),
        ("gateway.portcullis.dev", "RewritePolicy", "replacePrefix"),
        ("gateway.portcullis.dev", "DelegationPolicy", "requireAuth"),
    ];
    let refs = [
        (json!([route("a")]), vec!["a"]),
        (json!([route("a"), "b", in_section]), vec!["a", "b"]),
        (route("a"), vec!["a"]),
        (json!("a"), vec![]),
    ];
    for (group, kind, field) in kinds {
        for (refs, left) in &refs {
            let mut spec = json!({ "targetRefs": refs, field: 5 });
            if kind != "DelegationPolicy" {
                spec["targetSelectors"] = json!([labelled, { "group": "g", "kind": "K", "matchLabels": 5 }]);
            }
            let manifest = json!({
                "apiVersion": format!("{group}/v1alpha1"), "kind": kind,
                "metadata": { "name": "p", "namespace": "ns", "generation": 7 }, "spec": spec,
            });
            let (error, targets) = super::decode_or_targets(manifest).expect_err("refused");
            let targets = targets.expect("a policy");
            assert_eq!(targets.id().to_string(), format!("{kind} ns/p"));
            assert_eq!(targets.metadata().map(|metadata| metadata.generation), Some(7));
            assert_eq!(crate::violations(&targets), [error.violation().expect("a field")], "{error}");
            let (refs, selectors) = match &*targets {
                Object::TrafficPolicy(policy) => (&policy.spec.target_refs, policy.spec.target_selectors.len()),
                Object::RewritePolicy(policy) => (&policy.spec.target_refs, policy.spec.target_selectors.len()),
                Object::DelegationPolicy(policy) => (&policy.spec.target_refs, 1),
                other => panic!("another kind: {other:?}"),
            };
            assert_eq!(refs.iter().map(|target| &*target.name).collect::<Vec<_>>(), *left);
            assert!(refs.iter().all(|target| target.section_name.is_none()));
            assert_eq!(selectors, 1, "a selector of which the labels cannot be read selects nothing");
        }
    }
}

#[test]
fn nothing_is_left_of_a_policy_without_a_name_and_of_other_kinds() {
    let left = |kind: &str, metadata: Value, spec: Value| {
        let group =
            if kind == "HTTPRoute" { "gateway.networking.k8s.io/v1" } else { "gateway.portcullis.dev/v1alpha1" };
        let manifest = json!({ "apiVersion": group, "kind": kind, "metadata": metadata, "spec": spec });
        super::decode_or_targets(manifest).expect_err("refused").1
    };
    assert_eq!(left("DelegationPolicy", json!({ "name": 5 }), json!({})), None);
    assert_eq!(left("DelegationPolicy", json!({ "name": "p", "namespace": 5 }), json!({})), None);
    assert_eq!(left("HTTPRoute", json!({ "name": "r" }), json!({ "rules": 5 })), None);
    let odd = left("DelegationPolicy", json!({ "name": "p", "labels": 5 }), json!({ "targetRefs": [] }));
    assert_eq!(odd.map(|policy| policy.id().to_string()).as_deref(), Some("DelegationPolicy default/p"));
    assert!(left("DelegationPolicy", json!({ "name": "p" }), json!(5)).is_some());
}
