//! What the whole translation does, through its door.

use api::Object;
use serde_json::{Value, json};

use crate::{Change, Translator, envoy};

mod properties;
mod world;

/// Decodes an object as a source would.
pub(crate) fn object(value: Value) -> Object {
    api::decode(value).expect("a sound object").object
}

pub(crate) fn class() -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "portcullis"},
        "spec": {"controllerName": "portcullis.dev/gateway-controller"},
    })
}

pub(crate) fn gateway(name: &str, listeners: Value) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"name": name, "namespace": "infra", "generation": 1},
        "spec": {"gatewayClassName": "portcullis", "listeners": listeners},
    })
}

pub(crate) fn route(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": "apps", "generation": 1}, "spec": spec,
    })
}

pub(crate) fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "apps"},
        "spec": {"ports": [{"port": 80}]},
    })
}

fn translator(objects: impl IntoIterator<Item = Value>) -> Translator {
    let mut translator = Translator::new(ir::Settings::default());
    for value in objects {
        translator.apply(Change::Put(object(value)));
    }
    translator.settle();
    translator
}

/// Two certificates with their keys, RSA-free and made once.
pub(crate) fn certificates() -> &'static [(String, String); 2] {
    static MADE: std::sync::OnceLock<[(String, String); 2]> = std::sync::OnceLock::new();
    MADE.get_or_init(|| {
        ["a.example.com", "example.com"].map(|name| {
            let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
            (made.cert.pem(), made.signing_key.serialize_pem())
        })
    })
}
