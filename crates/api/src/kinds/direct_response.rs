//! DirectResponse.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    meta::CustomResource,
    schema::{
        Schema, Spec,
        openapi::{
            Node,
            values::{ANY_TEXT, number, optional, required, text},
        },
        rules::Broken,
    },
};

/// An answer that a rule gives by itself, named by its `extensionRef`.
pub type DirectResponse = CustomResource<DirectResponseSpec>;

/// What is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DirectResponseSpec {
    /// Status code, 200 to 599.
    pub status: i32,
    /// The body as it is; 1 to 4,096 characters. Not with `body_format`; with neither the body is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<str>>,
    /// The body with a format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_format: Option<DirectResponseBodyFormat>,
}

/// A body with a format: either text or JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DirectResponseBodyFormat {
    /// What the `content-type` of the response says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<Box<str>>,
    /// The body as text; 1 to 4,096 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Box<str>>,
    /// The body as a JSON object, nulls in it included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
}

impl Spec for DirectResponseSpec {
    const SCHEMA: Schema = Schema::of(&SPEC).keeps_nulls("/spec/bodyFormat/json");

    fn check(&self, broken: &mut Broken) {
        if self.body.is_some() && self.body_format.is_some() {
            broken.add_without_value("spec.bodyFormat", "must not stand beside body: remove one of both");
        }
        if let Some(format) = &self.body_format
            && format.json.is_some() == format.text.is_some()
        {
            broken.add_without_value("spec.bodyFormat", "must have either text or json");
        }
    }
}

static SPEC: Node =
    Node::Object(&[required("status", &STATUS), optional("body", &BODY), optional("bodyFormat", &BODY_FORMAT)]);
static STATUS: Node = number(200, 599);
static BODY: Node = text(1, 4096);
static BODY_FORMAT: Node =
    Node::Object(&[optional("contentType", &ANY_TEXT), optional("json", &Node::Opaque), optional("text", &BODY)]);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Object, decode, violations};

    fn object(spec: &Value) -> Object {
        let manifest = json!({
            "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "DirectResponse",
            "metadata": { "name": "d" }, "spec": spec,
        });
        let decoded = decode(manifest).expect("a DirectResponse");
        assert_eq!(decoded.unknown_fields, [""; 0]);
        decoded.object
    }

    fn spec(spec: &Value) -> DirectResponseSpec {
        let Object::DirectResponse(response) = object(spec) else { panic!("another kind") };
        response.spec
    }

    fn broken(spec: &Value) -> String {
        violations(&object(spec)).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn both_forms_of_a_body_are_kept_as_written() {
        let plain = spec(&json!({ "status": 503, "body": "later" }));
        assert_eq!((plain.status, plain.body.as_deref(), plain.body_format), (503, Some("later"), None));
        let text = spec(&json!({ "status": 200, "bodyFormat": { "contentType": "text/html", "text": "<p>" } }));
        let format = text.body_format.expect("a format");
        assert_eq!((format.content_type.as_deref(), format.text.as_deref()), (Some("text/html"), Some("<p>")));
    }

    #[test]
    fn a_json_body_keeps_its_nulls_and_fields_of_any_name() {
        let json = json!({ "error": null, "list": [null, { "deep": null }], "metadata": { "name": 1 } });
        let decoded = spec(&json!({ "status": 200, "body": null, "bodyFormat": { "json": json, "text": null } }));
        assert_eq!(decoded.body, None);
        let format = decoded.body_format.expect("a format");
        assert_eq!((format.json, format.text), (Some(json), None));
    }

    #[test]
    fn what_the_schema_refuses_is_told() {
        let cases = [
            (json!({ "status": 200 }), ""),
            (json!({ "status": 200, "bodyFormat": { "json": {} } }), ""),
            (json!({}), "spec.status is \"0\": must be a number from 200 to 599"),
            (json!({ "status": 600 }), "spec.status is \"600\": must be a number from 200 to 599"),
            (json!({ "status": 200, "body": "" }), "spec.body is \"\": must not be empty"),
            (
                json!({ "status": 200, "body": "a", "bodyFormat": { "text": "a" } }),
                "spec.bodyFormat: must not stand beside body: remove one of both",
            ),
            (json!({ "status": 200, "bodyFormat": {} }), "spec.bodyFormat: must have either text or json"),
            (
                json!({ "status": 200, "bodyFormat": { "json": null } }),
                "spec.bodyFormat: must have either text or json",
            ),
            (
                json!({ "status": 200, "bodyFormat": { "text": "a", "json": {} } }),
                "spec.bodyFormat: must have either text or json",
            ),
        ];
        for (spec, message) in cases {
            assert_eq!(broken(&spec), message);
        }
        let long = broken(&json!({ "status": 200, "body": "a".repeat(4097) }));
        assert!(long.ends_with("has 4097 characters: 1 to 4096 characters must be given"), "{long}");
    }

    #[test]
    fn a_json_body_that_is_no_object_is_refused() {
        let manifest = json!({
            "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "DirectResponse",
            "metadata": { "name": "d" }, "spec": { "status": 200, "bodyFormat": { "json": "text" } },
        });
        let error = decode(manifest).expect_err("refused").to_string();
        assert_eq!(error, "DirectResponse default/d: spec.bodyFormat.json must be a mapping, found a string \"text\"");
    }
}
