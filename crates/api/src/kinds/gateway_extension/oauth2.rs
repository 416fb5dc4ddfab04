//! Who logs people in.

use serde::{Deserialize, Serialize};

use super::ClaimToHeader;
use crate::shared::{BackendObjectReference, BackendRef};

/// Logs people in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OAuth2 {
    /// Who is asked for tokens.
    pub backend_ref: BackendRef,
    /// The issuer.
    #[serde(skip_serializing_if = "Option::is_none", rename = "issuerURI")]
    pub issuer_uri: Option<Box<str>>,
    /// Where people log in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization_endpoint: Option<Box<str>>,
    /// Where tokens come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_endpoint: Option<Box<str>>,
    /// Where people log out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_session_endpoint: Option<Box<str>>,
    /// Where people come back to.
    #[serde(skip_serializing_if = "Option::is_none", rename = "redirectURI")]
    pub redirect_uri: Option<Box<str>>,
    /// The path at which people log out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logout_path: Option<Box<str>>,
    /// Whether the backend sees the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_access_token: Option<bool>,
    /// What is asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<Box<str>>,
    /// Who asks.
    pub credentials: Credentials,
    /// Cookies that hold tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookies: Option<Cookies>,
    /// Requests that are refused rather than redirected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny_redirect: Option<DenyRedirect>,
    /// What is read in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt: Option<OAuth2Jwt>,
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Credentials {
    /// Its name.
    #[serde(rename = "clientID")]
    pub client_id: Box<str>,
    /// The Secret that has its password.
    pub client_secret_ref: SecretName,
}

/// Names a Secret of the extension's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecretName {
    /// Name.
    pub name: Box<str>,
}

/// Cookies that hold tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cookies {
    /// Their domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<Box<str>>,
    /// Their names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<CookieNames>,
    /// To whom browsers send them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_site: Option<Box<str>>,
    /// Whether the access token has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_access_token_set_cookie: Option<bool>,
    /// Whether the ID token has none.
    #[serde(skip_serializing_if = "Option::is_none", rename = "disableIDTokenSetCookie")]
    pub disable_id_token_set_cookie: Option<bool>,
    /// Whether the refresh token has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_refresh_token_set_cookie: Option<bool>,
}

/// Names of cookies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CookieNames {
    /// Of the access token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_token: Option<Box<str>>,
    /// Of the ID token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_token: Option<Box<str>>,
}

/// Requests that are refused rather than redirected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DenyRedirect {
    /// Headers of which they have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Vec<HeaderMatch>>,
}

/// A header with a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeaderMatch {
    /// The header.
    pub name: Box<str>,
    /// How the value is meant; as it is unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<Box<str>>,
    /// The value.
    pub value: Box<str>,
}

/// What is read in tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OAuth2Jwt {
    /// In access tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_token: Option<ParsedToken>,
    /// In ID tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_token: Option<ParsedToken>,
    /// Who has the keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks_backend_ref: Option<BackendObjectReference>,
    /// Where the keys are.
    #[serde(skip_serializing_if = "Option::is_none", rename = "jwksURI")]
    pub jwks_uri: Option<Box<str>>,
}

/// What is read in a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParsedToken {
    /// Of which `aud` must have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audiences: Option<Vec<Box<str>>>,
    /// Claims that the backend sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claims_to_headers: Option<Vec<ClaimToHeader>>,
}
