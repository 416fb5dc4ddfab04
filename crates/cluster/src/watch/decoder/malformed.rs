//! Lines that are nearly what an API server writes.

use proptest::{collection::vec, prelude::*, sample::Index};
use serde_json::{Value, json};

use super::*;

/// A change of a text.
#[derive(Clone, Debug)]
enum Edit {
    /// A byte becomes another one.
    Byte(Index, u8),
    /// What stands between two places goes.
    Cut(Index, Index),
    /// What stands between two places comes twice.
    Twice(Index, Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        3 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Edit::Byte(at, byte)),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Edit::Cut(from, to)),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Edit::Twice(from, to)),
    ]
}

impl Edit {
    fn apply(&self, text: &mut Vec<u8>) {
        let length = text.len();
        if length == 0 {
            return;
        }
        let range = |from: &Index, to: &Index| {
            let (from, to) = (from.index(length), to.index(length));
            from.min(to)..from.max(to)
        };
        match self {
            Self::Byte(at, byte) => text[at.index(length)] = *byte,
            Self::Cut(from, to) => drop(text.drain(range(from, to))),
            Self::Twice(from, to) => {
                let part = text[range(from, to)].to_vec();
                text.extend_from_slice(&part);
            }
        }
    }
}

/// Any value that nobody expects, in the place of one that is there.
fn replaced(value: &Value, at: Index, by: &Value) -> Value {
    let mut pointers = Vec::new();
    collect(value, String::new(), &mut pointers);
    let mut value = value.clone();
    if let Some(field) = value.pointer_mut(&pointers[at.index(pointers.len())]) {
        *field = by.clone();
    }
    value
}

fn collect(value: &Value, path: String, pointers: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.replace('/', "~1"), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect(),
        _ => Vec::new(),
    };
    for (name, child) in children {
        collect(child, format!("{path}/{name}"), pointers);
    }
    pointers.push(path);
}

fn odd() -> impl Strategy<Value = Value> {
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let values =
        [json!(null), json!(-1), json!(1e300), json!(u64::MAX), json!(""), json!([]), json!({}), json!(true), deep];
    proptest::sample::select(values.to_vec())
}

/// One object of each kind that tenants write, and of some that they do not.
fn objects() -> Vec<(Kind, Value)> {
    let metadata = json!({"name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"a": "b"}, "generation": 3});
    let of = |kind, version: &str, name: &str, rest: (&str, Value)| {
        let mut object = json!({"apiVersion": version, "kind": name, "metadata": metadata});
        object[rest.0] = rest.1;
        (kind, object)
    };
    let api = "gateway.networking.k8s.io/v1";
    vec![
        of(
            Kind::Gateway,
            api,
            "Gateway",
            (
                "spec",
                json!({"gatewayClassName": "c", "listeners": [
            {"name": "l", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "s"}]}}]}),
            ),
        ),
        of(
            Kind::HttpRoute,
            api,
            "HTTPRoute",
            (
                "spec",
                json!({"parentRefs": [{"name": "g"}], "hostnames": ["a.b"],
            "rules": [{"matches": [{"path": {"type": "Exact", "value": "/a"}}], "timeouts": {"request": "5s"},
                "backendRefs": [{"name": "s", "port": 80, "weight": 1}]}]}),
            ),
        ),
        of(
            Kind::GrpcRoute,
            api,
            "GRPCRoute",
            (
                "spec",
                json!({"parentRefs": [{"name": "g"}], "rules": [{"matches": [{"method": {"service": "a.B", "method": "C"}}],
                "backendRefs": [{"name": "s", "port": 80, "weight": 1}]}]}),
            ),
        ),
        of(
            Kind::TlsRoute,
            api,
            "TLSRoute",
            (
                "spec",
                json!({"parentRefs": [{"name": "g"}], "hostnames": ["a.b"],
                "rules": [{"backendRefs": [{"name": "s", "port": 443, "weight": 1}]}]}),
            ),
        ),
        of(
            Kind::BackendTlsPolicy,
            api,
            "BackendTLSPolicy",
            (
                "spec",
                json!({"targetRefs": [{"group": "", "kind": "Service", "name": "s", "sectionName": "p"}], "validation": {
                "hostname": "a.example", "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}]}}),
            ),
        ),
        of(Kind::Service, "v1", "Service", ("spec", json!({"ports": [{"name": "p", "port": 80, "targetPort": "x"}]}))),
        of(Kind::Secret, "v1", "Secret", ("data", json!({"tls.crt": "AAAA", "tls.key": "AAAA"}))),
        of(
            Kind::EndpointSlice,
            "discovery.k8s.io/v1",
            "EndpointSlice",
            (
                "endpoints",
                json!([
            {"addresses": ["10.0.0.1"], "conditions": {"ready": true}, "zone": "z"}]),
            ),
        ),
    ]
}

proptest! {
    #[test]
    fn no_garbage_from_an_api_server_panics(
        which in 0..7_usize,
        odd in vec((any::<Index>(), odd()), 0..3),
        edits in vec(edit(), 0..4),
    ) {
        let (kind, mut object) = objects().swap_remove(which);
        for (at, by) in &odd {
            object = replaced(&object, *at, by);
        }
        let decoder = Decoder::new(Target::Kind(kind));
        let mut line = json!({"type": "MODIFIED", "object": object}).to_string().into_bytes();
        let mut page = json!({"metadata": {"resourceVersion": "5"}, "items": [object, object]}).to_string().into_bytes();
        for edit in &edits {
            edit.apply(&mut line);
            edit.apply(&mut page);
        }
        let ours = |watched: &WatchedObject| matches!(&watched.payload, Payload::Undecodable { why, .. } if why.contains("fault of the controller"));
        if let Ok((Line::Applied(watched), _)) = decoder.line(&line) {
            prop_assert!(!ours(&watched), "{}", String::from_utf8_lossy(&line));
        }
        if let Ok(page) = decoder.page(&page) {
            prop_assert!(!page.objects.iter().any(ours), "{:?}", page);
        }
    }
}
