//! DirectResponse.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::meta::ObjectMeta;

/// An answer that a rule gives by itself, named by its `extensionRef`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DirectResponse {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What the owner wants.
    pub spec: DirectResponseSpec,
}

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
