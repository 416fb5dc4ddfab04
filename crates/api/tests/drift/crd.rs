//! The CRDs, and instances made from their schemas.

use std::{env, fs, path::PathBuf, process::Command, sync::LazyLock};

use api::{Kind, group::GROUP};
use serde_json::{Map, Value, json};

/// The release that the types follow.
const MODULE: &str = "sigs.k8s.io/gateway-api@v1.6.1";

/// Its conformance tests.
const CONFORMANCE: &str = "sigs.k8s.io/gateway-api/conformance@v1.6.1";

/// The kinds of that release that are read.
pub(crate) fn kinds() -> impl Iterator<Item = Kind> {
    Kind::ALL.iter().copied().filter(|kind| kind.group() == GROUP)
}

/// The folder of the release: `GATEWAY_API_DIR` if set, else what `go mod download` says.
pub(crate) static MODULE_DIR: LazyLock<PathBuf> =
    LazyLock::new(|| env::var_os("GATEWAY_API_DIR").map_or_else(|| download(MODULE), PathBuf::from));

/// The folder of the conformance tests: `conformance` in `GATEWAY_API_DIR` if set, else what `go mod download` says.
pub(crate) static CONFORMANCE_DIR: LazyLock<PathBuf> = LazyLock::new(|| {
    let checkout = env::var_os("GATEWAY_API_DIR").map(|dir| PathBuf::from(dir).join("conformance"));
    checkout.unwrap_or_else(|| download(CONFORMANCE))
});

fn download(module: &str) -> PathBuf {
    let output = Command::new("go")
        .args(["mod", "download", "-json", module])
        .current_dir(env::temp_dir())
        .output()
        .expect("go must be installed, or GATEWAY_API_DIR must name a checkout of Gateway API");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let dir = answer["Dir"].as_str().unwrap_or_else(|| {
        panic!("{module} cannot be downloaded: {answer} {}", String::from_utf8_lossy(&output.stderr))
    });
    dir.into()
}

/// A CRD of the experimental channel.
fn crd(plural: &str) -> Value {
    let path = MODULE_DIR.join(format!("config/crd/experimental/gateway.networking.k8s.io_{plural}.yaml"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The schema of the status of a policy.
pub(crate) fn policy_status() -> Value {
    schema(Kind::BackendTlsPolicy)["properties"]["status"].take()
}

/// The schema of the version that is stored, from the experimental channel.
pub(crate) fn schema(kind: Kind) -> Value {
    let crd = crd(kind.plural());
    let versions = crd["spec"]["versions"].as_array().expect("a CRD has versions");
    let is_read = |version: &&Value| {
        // What was experimental of kinds that came late was nobody's promise, and says other things.
        let is_young = matches!(kind, Kind::TlsRoute | Kind::TcpRoute | Kind::UdpRoute);
        !(is_young && version["name"].as_str().is_some_and(|name| name.starts_with("v1alpha")))
    };
    let versions: Vec<_> = versions.iter().filter(is_read).collect();
    let served: Vec<_> = versions.iter().filter_map(|version| version["name"].as_str()).collect();
    assert_eq!(served, kind.versions(), "versions of {kind}");
    assert_eq!(crd["spec"]["names"]["plural"], kind.plural());
    assert_eq!(crd["spec"]["scope"] == "Namespaced", kind.namespaced(), "scope of {kind}");
    let schemas: Vec<_> = versions.iter().map(|version| &version["schema"]["openAPIV3Schema"]).collect();
    for schema in &schemas {
        assert_eq!(schema["properties"]["spec"], schemas[0]["properties"]["spec"], "versions of {kind} differ");
    }
    schemas[0].clone()
}

/// The schema of a kind's spec.
pub(crate) fn spec(kind: Kind) -> Value {
    schema(kind)["properties"]["spec"].take()
}

/// Properties of an object schema.
pub(crate) fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

/// Whether an object schema requires the property.
pub(crate) fn requires(schema: &Value, property: &str) -> bool {
    schema["required"].as_array().is_some_and(|required| required.iter().any(|name| name == property))
}

/// Calls back for every schema below and including this one, with its path, parents first.
pub(crate) fn walk(schema: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, property) in properties(schema) {
        walk(property, &format!("{path}.{name}"), visit);
    }
    if let Some(items) = schema.get("items") {
        walk(items, &format!("{path}[]"), visit);
    }
    if let Some(values) = schema.get("additionalProperties") {
        walk(values, &format!("{path}{{}}"), visit);
    }
}

/// An instance with every property set, each string different from every other.
pub(crate) fn maximal(schema: &Value, path: &str) -> Value {
    match schema["type"].as_str() {
        Some("object") => {
            let mut fields: Map<String, Value> = properties(schema)
                .map(|(name, property)| (name.clone(), maximal(property, &format!("{path}.{name}"))))
                .collect();
            if let Some(values) = schema.get("additionalProperties") {
                fields.insert("key".to_owned(), maximal(values, &format!("{path}.key")));
            }
            Value::Object(fields)
        }
        Some("array") => json!([maximal(&schema["items"], &format!("{path}[]"))]),
        Some("integer") => json!(path.len()),
        Some("boolean") => json!(true),
        Some("string") if schema["format"] == "date-time" => json!("2024-01-02T03:04:05Z"),
        Some("string") => {
            let mut values = schema["enum"].as_array().into_iter().flatten();
            let other_than_default = values.find(|value| schema.get("default") != Some(value));
            other_than_default.cloned().unwrap_or_else(|| json!(path))
        }
        other => panic!("{path} has type {other:?}, of which this test knows nothing"),
    }
}

/// An instance with nothing but what is required.
pub(crate) fn minimal(schema: &Value, path: &str) -> Value {
    if schema["type"] != "object" {
        return maximal(schema, path);
    }
    let required = properties(schema).filter(|(name, _)| requires(schema, name));
    Value::Object(
        required.map(|(name, property)| (name.clone(), minimal(property, &format!("{path}.{name}")))).collect(),
    )
}

/// One instance for each object in the schema in which that object is there with nothing but what it requires, and so
/// are the objects above it.
pub(crate) fn sparse(schema: &Value, path: &str) -> Vec<Value> {
    let mut instances = vec![minimal(schema, path)];
    for (name, property) in properties(schema) {
        for below in sparse_below(property, &format!("{path}.{name}")) {
            let mut instance = minimal(schema, path);
            instance[name] = below;
            instances.push(instance);
        }
    }
    instances
}

fn sparse_below(schema: &Value, path: &str) -> Vec<Value> {
    match schema["type"].as_str() {
        Some("object") if schema.get("properties").is_some() => sparse(schema, path),
        Some("array") => {
            sparse_below(&schema["items"], &format!("{path}[]")).into_iter().map(|item| json!([item])).collect()
        }
        _ => Vec::new(),
    }
}

/// A manifest of the kind with this spec.
pub(crate) fn manifest(kind: Kind, spec: &Value) -> Value {
    json!({ "apiVersion": kind.api_version(), "kind": kind.as_str(), "metadata": { "name": "name" }, "spec": spec })
}

/// The spec as our types write it.
pub(crate) fn encoded_spec(object: &api::Object) -> Value {
    let encoded = match object {
        api::Object::GatewayClass(object) => serde_json::to_value(&object.spec),
        api::Object::Gateway(object) => serde_json::to_value(&object.spec),
        api::Object::ListenerSet(object) => serde_json::to_value(&object.spec),
        api::Object::HttpRoute(object) => serde_json::to_value(&object.spec),
        api::Object::GrpcRoute(object) => serde_json::to_value(&object.spec),
        api::Object::TlsRoute(object) => serde_json::to_value(&object.spec),
        api::Object::TcpRoute(object) => serde_json::to_value(&object.spec),
        api::Object::UdpRoute(object) => serde_json::to_value(&object.spec),
        api::Object::BackendTlsPolicy(object) => serde_json::to_value(&object.spec),
        api::Object::ReferenceGrant(object) => serde_json::to_value(&object.spec),
        other => panic!("{} has no spec that can be encoded", other.id()),
    };
    encoded.expect("our types can be encoded")
}

/// Where two values differ, by path.
pub(crate) fn differences(ours: &Value, theirs: &Value, path: &str) -> Vec<String> {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let mut names: Vec<_> = ours.keys().chain(theirs.keys()).collect();
            names.sort();
            names.dedup();
            let none = Value::Null;
            names
                .into_iter()
                .flat_map(|name| {
                    let (ours, theirs) = (ours.get(name).unwrap_or(&none), theirs.get(name).unwrap_or(&none));
                    differences(ours, theirs, &format!("{path}.{name}"))
                })
                .collect()
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            let pairs = ours.iter().zip(theirs).enumerate();
            pairs.flat_map(|(index, (ours, theirs))| differences(ours, theirs, &format!("{path}[{index}]"))).collect()
        }
        _ if ours == theirs => Vec::new(),
        _ => vec![format!("{path}: ours {ours}, the CRD's {theirs}")],
    }
}
