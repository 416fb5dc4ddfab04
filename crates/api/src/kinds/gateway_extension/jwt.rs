//! Who makes tokens that are taken.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::shared::BackendObjectReference;

/// Who makes tokens that are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Jwt {
    /// Makers of tokens, each with another name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub providers: Vec<JwtProvider>,
    /// Whether a request must have a token; it must unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_mode: Option<ValidationMode>,
}

open_enum! {
    /// Whether a request must have a token.
    pub enum ValidationMode {
        /// It must.
        Strict = "Strict",
        /// It need not; one that it has must be valid.
        AllowMissing = "AllowMissing",
    }
    default Strict;
}

/// A maker of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JwtProvider {
    /// A name of its own in the extension.
    pub name: Box<str>,
    /// What `iss` of a token must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Box<str>>,
    /// Of which `aud` of a token must have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audiences: Option<Vec<Box<str>>>,
    /// Where a token stands; in `Authorization: Bearer` unless set; with `forwardToken`, in the query parameter `access_token` too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_source: Option<TokenSource>,
    /// Claims that the backend sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claims_to_headers: Option<Vec<ClaimToHeader>>,
    /// Its keys.
    pub jwks: JwksSource,
    /// Whether the backend sees the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_token: Option<bool>,
}

/// Where a token stands: one of both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenSource {
    /// In a header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<HeaderSource>,
    /// In a parameter of the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_parameter: Option<Box<str>>,
}

/// A header that has a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeaderSource {
    /// The header.
    pub header: Box<str>,
    /// What stands before the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<Box<str>>,
}

/// A claim that becomes a header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimToHeader {
    /// The claim.
    pub name: Box<str>,
    /// The header.
    pub header: Box<str>,
}

/// Where keys are: one of both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JwksSource {
    /// Here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<LocalJwks>,
    /// On a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteJwks>,
}

/// Keys in the extension, or in a ConfigMap of its namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalJwks {
    /// The keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<Box<str>>,
    /// A ConfigMap that has them in its key `jwks`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ConfigMapName>,
}

/// Names a ConfigMap of the extension's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigMapName {
    /// Name.
    pub name: Arc<str>,
}

/// Keys on a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RemoteJwks {
    /// Their URL.
    pub url: Box<str>,
    /// Who is asked.
    pub backend_ref: BackendObjectReference,
    /// How long they are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_duration: Option<Box<str>>,
    /// Whether they are read before a request needs them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub async_fetch: Option<AsyncFetch>,
    /// How reading is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<JwtRetry>,
}

/// Keys are read before a request needs them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AsyncFetch {
    /// Whether requests are taken before that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_listener: Option<bool>,
    /// How long is waited after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_refetch_duration: Option<Box<str>>,
}

/// How reading of keys is tried again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JwtRetry {
    /// How often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_retries: Option<i32>,
    /// How long is waited between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_off: Option<super::Backoff>,
}
