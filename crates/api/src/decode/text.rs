//! From the JSON text of an API server to an object, without a tree of values between.

use serde::de::DeserializeSeed;
use serde_json::Value;

use super::{DecodeError, LABEL, SUBDOMAIN, decode_or_targets};
use crate::{Kind, Object};

/// Decodes an object from the JSON text in which an API server writes it, whatever the version. Its `apiVersion` and
/// `kind`, which the items of some lists lack, are not read.
///
/// Means the same as [`decode`](super::decode) but for what an API server answers for: unknown fields are not looked for,
/// nor lists in the place of mappings within the object, and a missing `spec` is an empty one. Of a kind that is refused for
/// an unknown field all of this is looked for: a definition that is newer than this release lets one through. What cannot be
/// decoded comes with what [`decode_or_targets`] makes of it.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode_json(kind: Kind, text: &str) -> Result<Object, (DecodeError, Option<Box<Object>>)> {
    // Serde passes over what it does not know.
    if !kind.schema().refuses_unknown
        // A null counts as absent, which serde does not know. Hardly an object has one, be it in the text of an annotation,
        // and looking for it costs next to nothing.
        && !text.contains("null")
        // Serde would take a list in the place of a mapping, item by item.
        && text.trim_start().starts_with('{')
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
    use crate::{decode, decode::tests::manifests};

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
