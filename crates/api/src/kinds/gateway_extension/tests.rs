use serde_json::{Value, json};

use crate::{Kind, Object, decode, decode_json, violations};

fn manifest(spec: &Value) -> Value {
    json!({
        "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "GatewayExtension",
        "metadata": { "name": "e" }, "spec": spec,
    })
}

fn object(spec: &Value) -> Object {
    let decoded = decode(manifest(spec)).expect("a GatewayExtension");
    assert_eq!(decoded.unknown_fields, [""; 0]);
    decoded.object
}

fn broken(spec: &Value) -> Vec<String> {
    violations(&object(spec)).iter().map(|violation| violation.path.clone()).collect()
}

fn service() -> Value {
    json!({"backendRef": {"name": "s", "port": 80}})
}

#[test]
fn of_five_members_one_is_set_and_the_type_says_nothing() {
    assert_eq!(broken(&json!({"type": "JWT", "extAuth": {"grpcService": service()}})), [""; 0]);
    assert_eq!(broken(&json!({})), ["spec"]);
    let two = json!({"extProc": {"grpcService": service()}, "rateLimit": {"grpcService": service(), "domain": "d"}});
    assert_eq!(broken(&two), ["spec"]);
}

#[test]
fn what_a_crd_completes_is_completed() {
    let Object::GatewayExtension(extension) = object(&json!({"extAuth": {"grpcService": service()}})) else {
        panic!("another kind")
    };
    let ext_auth = extension.spec.ext_auth.expect("a member");
    assert_eq!((ext_auth.status_on_error, ext_auth.fail_open), (403, false));
    let spec = json!({"rateLimit": {"grpcService": service(), "domain": "d"}});
    let Object::GatewayExtension(extension) = object(&spec) else { panic!("another kind") };
    let rate_limit = extension.spec.rate_limit.expect("a member");
    assert_eq!((&*rate_limit.timeout, rate_limit.fail_open), ("100ms", true));
}

#[test]
fn what_the_schema_refuses_is_told() {
    let grpc = |more: Value| {
        let mut service = service();
        service.as_object_mut().expect("a mapping").extend(more.as_object().expect("a mapping").clone());
        json!({"extAuth": {"grpcService": service}})
    };
    let cases = [
        (json!({"extAuth": {}}), "spec.extAuth"),
        (json!({"extAuth": {"grpcService": service(), "httpService": service()}}), "spec.extAuth"),
        (grpc(json!({"requestTimeout": "0s"})), "spec.extAuth.grpcService.requestTimeout"),
        (grpc(json!({"requestTimeout": "soon"})), "spec.extAuth.grpcService.requestTimeout"),
        (grpc(json!({"backendRef": {"name": "s"}})), "spec.extAuth.grpcService.backendRef.port"),
        (
            grpc(json!({"retry": {"backoff": {"baseInterval": "2s", "maxInterval": "1s"}}})),
            "spec.extAuth.grpcService.retry.backoff.maxInterval",
        ),
        (json!({"extAuth": {"grpcService": service(), "statusOnError": 600}}), "spec.extAuth.statusOnError"),
        (
            json!({"extProc": {"grpcService": service(), "processingMode": {"requestBodyMode": "SOME"}}}),
            "spec.extProc.processingMode.requestBodyMode",
        ),
        (
            json!({"extProc": {"grpcService": service(), "filterStage": {"stage": "Late"}}}),
            "spec.extProc.filterStage.stage",
        ),
        (json!({"jwt": {"providers": [{"name": "p", "jwks": {"local": {}}}]}}), "spec.jwt.providers[0].jwks.local"),
        (
            json!({"oauth2": {"backendRef": {"name": "s", "port": 80}, "credentials": {"clientID": "c", "clientSecretRef": {"name": "s"}}}}),
            "spec.oauth2",
        ),
    ];
    for (spec, at) in cases {
        assert_eq!(broken(&spec), [at], "{spec}");
    }
}

#[test]
fn a_field_that_nobody_knows_is_refused_wherever_it_stands_and_the_rest_is_read() {
    let provider = json!({"name": "p", "audience": ["shop"], "jwks": {"local": {"inline": "{}"}}});
    let backend = json!({"name": "s", "port": 80, "zone": "a"});
    let mode = json!({"requestBodyMode": "BUFFERED", "newerMode": "SEND"});
    let cases = [
        (json!({"extAuth": {"grpcService": service()}, "onlyFor": {"routes": ["r"]}}), "spec.onlyFor"),
        (json!({"jwt": {"providers": [provider]}}), "spec.jwt.providers[0].audience"),
        (json!({"extAuth": {"grpcService": {"backendRef": backend}}}), "spec.extAuth.grpcService.backendRef.zone"),
        (
            json!({"extProc": {"grpcService": service(), "processingMode": mode}}),
            "spec.extProc.processingMode.newerMode",
        ),
    ];
    for (spec, path) in cases {
        let decoded = decode(manifest(&spec)).expect("a GatewayExtension");
        assert_eq!(decoded.unknown_fields, [path]);
        let object = decoded.object;
        let refused: Vec<_> = object.refused_fields().into_iter().map(|field| field.path).collect();
        assert_eq!(refused, [path]);
        assert!(object.keeps(path) && !object.keeps("spec.type"), "{path}");
        assert!(violations(&object).is_empty(), "{path}");
        assert_eq!(decode_json(Kind::GatewayExtension, &manifest(&spec).to_string()), Ok(object), "{path}");
    }
}

#[test]
fn of_fields_that_nobody_knows_each_is_refused_and_none_that_stands_beside_the_spec() {
    let mut manifest = manifest(&json!({"extAuth": {"grpcService": service(), "z": 1, "b": 2}, "a": {"c": 3}}));
    manifest["data"] = json!({});
    let decoded = decode(manifest).expect("a GatewayExtension");
    assert_eq!(decoded.unknown_fields, ["data", "spec.a", "spec.extAuth.b", "spec.extAuth.z"]);
    let refused: Vec<_> = decoded.object.refused_fields().into_iter().map(|field| field.path).collect();
    assert_eq!(refused, ["spec.a", "spec.extAuth.b", "spec.extAuth.z"]);
}

/// Every field that the schema has, by its path; where there are several kinds of items, of the first.
#[test]
fn every_property_survives_decoding_and_encoding() {
    let mode = json!({"requestHeaderMode": "SKIP", "responseHeaderMode": "DEFAULT", "requestBodyMode": "BUFFERED",
        "responseBodyMode": "STREAMED", "requestTrailerMode": "SEND", "responseTrailerMode": "SEND"});
    let backend = json!({"group": "", "kind": "Service", "name": "s", "namespace": "n", "port": 80});
    let weighted = json!({"group": "", "kind": "Service", "name": "s", "namespace": "n", "port": 80, "weight": 1});
    let backoff = json!({"baseInterval": "1s", "maxInterval": "2s"});
    let retry = json!({"attempts": 2, "backoff": backoff});
    let grpc = json!({"authority": "a", "backendRef": weighted, "requestTimeout": "1s", "retry": retry});
    let token = json!({"audiences": ["a"], "claimsToHeaders": [{"name": "n", "header": "h"}]});
    for spec in [
        json!({"type": "ExtAuth", "extAuth": {
            "clearRouteCache": true, "failOpen": true, "grpcService": grpc, "headersToForward": ["a"],
            "httpService": {
                "backendRef": weighted, "pathPrefix": "/", "requestTimeout": "1s", "retry": retry,
                "authorizationRequest": {"headersToAdd": {"a": "b"}},
                "authorizationResponse":
                    {"headersToBackend": ["a"], "headersToClient": ["b"], "headersToClientOnSuccess": ["c"]},
            },
            "statPrefix": "p", "statusOnError": 500,
            "withRequestBody": {"allowPartialMessage": true, "maxRequestBytes": 1, "packAsBytes": true},
        }}),
        json!({"extProc": {
            "allowProcessingModeOverride": true, "allowedProcessingModeOverrides": [mode], "failOpen": false,
            "filterStage": {"predicate": "Before", "stage": "AuthN", "weight": -1}, "grpcService": grpc,
            "maxMessageTimeout": "2s", "messageTimeout": "1s",
            "metadataOptions": {"forwarding": {"typed": ["a"], "untyped": ["b"]}}, "processingMode": mode,
            "requestAttributes": ["a"], "routeCacheAction": "Clear", "statPrefix": "p",
        }}),
        json!({"rateLimit": {"domain": "d", "failOpen": false, "grpcService": grpc, "timeout": "1s",
            "xRateLimitHeaders": "DraftVersion03"}}),
        json!({"jwt": {"validationMode": "AllowMissing", "providers": [
            {"name": "a", "issuer": "i", "audiences": ["a"], "forwardToken": true,
             "claimsToHeaders": [{"name": "n", "header": "h"}], "tokenSource": {"header": {"header": "h", "prefix": "p"}},
             "jwks": {"local": {"inline": "{}"}}},
            {"name": "b", "tokenSource": {"queryParameter": "q"}, "jwks": {"local": {"configMapRef": {"name": "c"}}}},
            {"name": "c", "jwks": {"remote": {"url": "u", "backendRef": backend, "cacheDuration": "1s",
             "asyncFetch": {"fastListener": true, "failedRefetchDuration": "1s"},
             "retryPolicy": {"numRetries": 1, "backOff": backoff}}}},
        ]}}),
        json!({"oauth2": {
            "authorizationEndpoint": "https://a", "backendRef": weighted,
            "cookies": {"disableAccessTokenSetCookie": true, "disableIDTokenSetCookie": true,
                "disableRefreshTokenSetCookie": true, "domain": "a", "names": {"accessToken": "a", "idToken": "b"},
                "sameSite": "Lax"},
            "credentials": {"clientID": "c", "clientSecretRef": {"name": "s"}},
            "denyRedirect": {"headers": [{"name": "n", "type": "Exact", "value": "v"}]},
            "endSessionEndpoint": "https://a", "forwardAccessToken": true, "issuerURI": "https://a",
            "jwt": {"accessToken": token, "idToken": token, "jwksBackendRef": backend, "jwksURI": "https://a"},
            "logoutPath": "/", "redirectURI": "/", "scopes": ["s"], "tokenEndpoint": "https://a",
        }}),
    ] {
        let Object::GatewayExtension(extension) = object(&spec) else { panic!("another kind") };
        assert_eq!(serde_json::to_value(&extension.spec).expect("JSON"), spec);
    }
}
