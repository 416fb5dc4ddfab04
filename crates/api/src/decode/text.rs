//! From the JSON text of an API server to an object, without a tree of values between.

use serde::de::DeserializeSeed;
use serde_json::Value;

use super::{DecodeError, LABEL, SUBDOMAIN, decode_or_targets};
use crate::{Kind, Object};

/// Decodes an object from the JSON text in which an API server writes it, whatever the version. Its `apiVersion` and
/// `kind`, which the items of some lists lack, are not read.
///
/// Means the same as [`decode`](super::decode) but for what an API server answers for: unknown fields are not looked for,
/// and a missing `spec` is an empty one. What cannot be decoded comes with what
/// [`decode_or_targets`] makes of it.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode_json(kind: Kind, text: &str) -> Result<Object, (DecodeError, Option<Box<Object>>)> {
    // A null counts as absent, which serde does not know. Hardly an object has one, be it in the text of an annotation,
    // and looking for it costs next to nothing.
    if !text.contains("null")
        && let Some(object) = straight(kind, text)
    {
        return Ok(object);
    }
    let mut manifest: Value =
        serde_json::from_str(text).map_err(|_| (DecodeError::NotAnObject { found: "no JSON" }, None))?;
    if let Value::Object(fields) = &mut manifest {
        fields.insert("apiVersion".to_owned(), kind.api_version().into());
        fields.insert("kind".to_owned(), kind.as_str().into());
    }
    decode_or_targets(manifest).map(|decoded| decoded.object)
}

/// The object, if nothing at all is unusual about it.
fn straight(kind: Kind, text: &str) -> Option<Object> {
    let mut json = serde_json::Deserializer::from_str(text);
    let object = kind.deserialize(&mut json).ok()?;
    json.end().ok()?;
    let id = object.id();
    let names = if matches!(kind, Kind::Service | Kind::Namespace) { &LABEL } else { &SUBDOMAIN };
    let named = names.admit(&id.name);
    let placed = if kind.namespaced() { LABEL.admit(&id.namespace) } else { id.namespace.is_empty() };
    (named && placed).then_some(object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decode;

    fn manifests() -> Vec<Value> {
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
                "HTTPRoute",
                json!({ "spec": { "rules": [{ "matches": [], "filters": null, "backendRefs": [{ "name": "s", "port": 80 }] }] },
                        "status": { "parents": [] } }),
            ),
            manifest(
                gateway,
                "HTTPRoute",
                json!({ "spec": { "hostnames": ["nullable.example.com"], "rules": [{ "backendRefs": [{ "name": "s" }] }] } }),
            ),
            manifest(gateway, "ReferenceGrant", json!({ "spec": { "from": [], "to": [] } })),
            manifest(
                kgateway,
                "TrafficPolicy",
                json!({ "spec": { "targetRefs": target, "cors": null, "rateLimit": {} } }),
            ),
            manifest(
                kgateway,
                "DirectResponse",
                json!({ "spec": { "status": 200, "body": null, "bodyFormat": { "json": { "a": null } } } }),
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

    #[test]
    fn text_and_manifest_of_every_kind_give_the_same_object() {
        let mut seen = Vec::new();
        for manifest in manifests() {
            let kind = decode(manifest.clone()).expect("decodes").object.kind();
            seen.push(kind);
            let object = decode(manifest.clone()).expect("decodes").object;
            assert_eq!(decode_json(kind, &manifest.to_string()), Ok(object.clone()), "{manifest}");
            let mut item = manifest;
            item.as_object_mut().expect("an object").retain(|field, _| field != "kind" && field != "apiVersion");
            assert_eq!(decode_json(kind, &item.to_string()), Ok(object), "{item}");
        }
        for kind in Kind::ALL {
            assert!(seen.contains(kind), "{kind} is not tried");
        }
    }

    #[test]
    fn what_is_wrong_is_told_as_for_a_manifest() {
        let manifest = json!({
            "apiVersion": "gateway.portcullis.dev/v1alpha1", "kind": "RewritePolicy",
            "metadata": { "name": "p", "namespace": "n" },
            "spec": { "targetRefs": [{ "group": "g", "kind": "k", "name": "r" }], "replacePrefix": 1 },
        });
        let Err(refused) = decode_json(Kind::RewritePolicy, &manifest.to_string()) else { panic!("decodes") };
        assert_eq!(Err(refused.clone()), decode_or_targets(manifest));
        let (error, targets) = refused;
        assert_eq!(error.to_string(), "RewritePolicy n/p: spec.replacePrefix must be a list, found a number 1");
        let Some(Object::RewritePolicy(policy)) = targets.map(|object| *object) else { panic!("no targets") };
        assert_eq!(&*policy.spec.target_refs[0].name, "r");
    }

    #[test]
    fn text_that_is_no_object_is_an_error_and_no_panic() {
        for text in ["", "{", "[]", "1", "\"a\"", "{}", "{\"metadata\":{}}", "{\"metadata\":null}", "\u{0}"] {
            for kind in Kind::ALL {
                assert!(decode_json(*kind, text).is_err(), "{kind} {text:?}");
            }
        }
    }

    #[test]
    fn a_name_that_no_api_server_takes_gets_nowhere() {
        for (name, namespace) in [("a/b", "n"), ("a", "n/m"), ("A", "n"), ("", "n")] {
            let item = json!({ "metadata": { "name": name, "namespace": namespace }, "spec": {} });
            for kind in [Kind::HttpRoute, Kind::Service, Kind::Secret] {
                assert!(decode_json(kind, &item.to_string()).is_err(), "{kind} {item}");
            }
        }
    }
}
