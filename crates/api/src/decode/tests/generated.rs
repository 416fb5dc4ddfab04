//! Manifests that nobody wrote: made from the tables of each kind, and with values in them that nobody expects.

use proptest::{
    collection::{btree_map, vec},
    option::weighted,
    prelude::*,
    sample::{Index, select},
    strategy::{Union, ValueTree},
    test_runner::TestRunner,
};
use serde_json::{Map, Value, json};

use super::manifests;
use crate::{
    Kind, Object, ObjectId, decode, decode_json, decode_or_targets,
    schema::openapi::{Field, Node},
    violations,
};

/// Any text, and such as fields of manifests have.
fn text() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "",
        "a",
        "*",
        "/a",
        "5s",
        "1h0m0.5s",
        "GET",
        "X-A",
        "443",
        "2026-01-01T00:00:00Z",
        "example.com",
        "*.example.com",
        "10.0.0.1",
        "Service",
        "HTTPRoute",
        "gateway.networking.k8s.io",
        "gateway.kgateway.dev/v1alpha1",
    ];
    prop_oneof![8 => select(WORDS).prop_map(str::to_owned), 1 => ".{0,12}", 1 => "[a-z]{300}"]
}

/// Any JSON.
fn any_json() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // Such as text keeps to the last bit.
        any::<i16>().prop_map(|quarters| (f64::from(quarters) / 4.0).into()),
        text().prop_map(Value::from),
    ];
    let nested = leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![vec(inner.clone(), 0..4).prop_map(Value::from), any_object(inner)]
    });
    nested.boxed()
}

fn any_object(values: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Value> {
    btree_map(text(), values, 0..4).prop_map(|fields| fields.into_iter().collect::<Map<_, _>>().into()).boxed()
}

/// A value of the type that a table asks for, mostly within its bounds.
fn fitting(node: &'static Node) -> BoxedStrategy<Value> {
    match node {
        Node::Text(text) if !text.values.is_empty() => select(text.values).prop_map(Value::from).boxed(),
        Node::Text(_) => text().prop_map(Value::from).boxed(),
        Node::Number { values, .. } if !values.is_empty() => select(*values).prop_map(Value::from).boxed(),
        Node::Number { min, max, .. } => (*min..=*max).prop_map(Value::from).boxed(),
        Node::Flag => any::<bool>().prop_map(Value::from).boxed(),
        Node::List { min, items, .. } => vec(fitting(items), *min..min + 3).prop_map(Value::from).boxed(),
        Node::Map { values, .. } => any_object(fitting(values)),
        Node::Object(fields) => {
            let field = |field: &'static Field| {
                let share = if field.required { 0.99 } else { 0.3 };
                let name = field.name.to_owned();
                weighted(share, fitting(field.node)).prop_map(move |value| Some((name.clone(), value?)))
            };
            let fields: Vec<_> = fields.iter().map(field).collect();
            fields.prop_map(|fields| fields.into_iter().flatten().collect::<Map<_, _>>().into()).boxed()
        }
        Node::Opaque => any_object(any_json()),
    }
}

/// A manifest of some kind that is as it should be, by its types at least.
fn sound() -> impl Strategy<Value = Value> {
    let written = manifests().into_iter().map(|manifest| Just(manifest).boxed());
    let made = Kind::ALL.iter().filter_map(|kind| Some((*kind, kind.spec_schema()?))).map(|(kind, table)| {
        let metadata = if kind.namespaced() { json!({"name": "a", "namespace": "n"}) } else { json!({"name": "a"}) };
        let manifest = move |spec| {
            json!({"apiVersion": kind.api_version(), "kind": kind.as_str(), "metadata": metadata, "spec": spec})
        };
        fitting(table).prop_map(manifest).boxed()
    });
    Union::new(written.chain(made))
}

/// Puts a value in the place of one that is there.
fn replace(manifest: &mut Value, at: Index, by: Value) {
    fn places(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(places).sum::<usize>(),
            Value::Object(fields) => 1 + fields.values().map(places).sum::<usize>(),
            _ => 1,
        }
    }
    fn descend(value: &mut Value, mut at: usize, by: Value) {
        let children: Vec<&mut Value> = match value {
            _ if at == 0 => return *value = by,
            Value::Array(items) => items.iter_mut().collect(),
            Value::Object(fields) => fields.values_mut().collect(),
            _ => return,
        };
        at -= 1;
        for child in children {
            let inner = places(child);
            if at < inner {
                return descend(child, at, by);
            }
            at -= inner;
        }
    }
    let at = at.index(places(manifest));
    descend(manifest, at, by);
}

/// What an object of a kind that a CRD defines says, as manifests write it.
fn printed(object: &Object) -> Option<Value> {
    let spec = match object {
        Object::GatewayClass(object) => serde_json::to_value(&object.spec),
        Object::Gateway(object) => serde_json::to_value(&object.spec),
        Object::ListenerSet(object) => serde_json::to_value(&object.spec),
        Object::HttpRoute(object) => serde_json::to_value(&object.spec),
        Object::GrpcRoute(object) => serde_json::to_value(&object.spec),
        Object::TlsRoute(object) => serde_json::to_value(&object.spec),
        Object::TcpRoute(object) => serde_json::to_value(&object.spec),
        Object::UdpRoute(object) => serde_json::to_value(&object.spec),
        Object::BackendTlsPolicy(object) => serde_json::to_value(&object.spec),
        Object::ReferenceGrant(object) => serde_json::to_value(&object.spec),
        Object::TrafficPolicy(object) => serde_json::to_value(&object.spec),
        Object::DirectResponse(object) => serde_json::to_value(&object.spec),
        Object::Backend(object) => serde_json::to_value(&object.spec),
        Object::BackendConfigPolicy(object) => serde_json::to_value(&object.spec),
        Object::ListenerPolicy(object) => serde_json::to_value(&object.spec),
        Object::GatewayExtension(object) => serde_json::to_value(&object.spec),
        Object::RewritePolicy(object) => serde_json::to_value(&object.spec),
        Object::DelegationPolicy(object) => serde_json::to_value(&object.spec),
        _ => return None,
    };
    Some(spec.expect("JSON"))
}

#[test]
fn of_each_kind_something_decodes_and_most_of_all() {
    let (mut runner, strategy) = (TestRunner::deterministic(), sound());
    let values = (0..400).map(|_| strategy.new_tree(&mut runner).expect("a manifest").current());
    let kinds: Vec<_> = values.filter_map(|manifest| Some(decode(manifest).ok()?.object.kind())).collect();
    assert!(kinds.len() > 300, "{} of 400", kinds.len());
    assert!(Kind::ALL.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
}

proptest! {
    #[test]
    fn whatever_a_manifest_says_it_is_decoded_or_refused(
        mut manifest in sound(),
        odd in vec((any::<Index>(), any_json()), 0..4),
    ) {
        for (at, by) in odd {
            replace(&mut manifest, at, by);
        }
        match decode(manifest.clone()) {
            Ok(decoded) => {
                let object = decoded.object;
                violations(&object);
                object.refused_fields();
                object.references();
                prop_assert_eq!(decode_json(object.kind(), &manifest.to_string()), Ok(object));
            }
            Err(error) => {
                let text = error.to_string();
                prop_assert!(!text.is_empty());
                // Of a policy that says which it is, what it targets is closed.
                let closed = decode_or_targets(manifest).expect_err("decoded").1.map(|object| object.id());
                let named = |id: &&ObjectId| !id.name.is_empty() && !id.namespace.is_empty();
                let policy = error.object().filter(|id| id.kind.is_policy()).filter(named);
                prop_assert_eq!(closed.as_ref(), policy);
            }
        }
    }

    #[test]
    fn what_decodes_decodes_again_from_what_it_prints_as(mut manifest in sound()) {
        let Ok(decoded) = decode(manifest.clone()) else { return Ok(()) };
        let Some(spec) = printed(&decoded.object) else { return Ok(()) };
        manifest["spec"] = spec;
        let again = decode(manifest.clone());
        prop_assert_eq!(again.map(|decoded| decoded.object), Ok(decoded.object), "{}", manifest);
    }

    #[test]
    fn what_is_no_manifest_is_refused(json in any_json()) {
        prop_assert!(decode(json.clone()).is_err());
        for kind in Kind::ALL {
            prop_assert!(decode_json(*kind, &json.to_string()).is_err(), "{} {}", kind, json);
        }
    }
}
