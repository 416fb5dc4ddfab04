//! `apiKeyAuth`: requests come with a key that is known.

use api::traffic_policy::secrets::{SecretReference, SecretSelector};
use envoy::slots;
use envoy_types::pb::envoy::{
    config::route::v3::Route,
    extensions::filters::http::{
        api_key_auth::v3::{ApiKeyAuthPerRoute, KeySource as EnvoySource},
        lua::v3::LuaPerRoute,
    },
};
use ir::rule::Slot;
use serde::Deserialize;
use serde_json::{Map, Value};
use validate::{Invalid, header};

use super::{
    Others, Refused, Unit,
    api_keys::{ApiKeys, Of, Place, Shown},
    secrets::{Credentials, SecretReader},
    spec,
};

/// As the CRD has it.
const MOST_SOURCES: usize = 16;
const LONGEST_NAME: usize = 256;

/// Where a key is looked for unless it is said.
const HEADER: &str = "api-key";

/// Which keys open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiKeyAuth {
    /// Nobody needs one.
    Off,
    /// Those in Secrets, which were not read yet.
    In(Keys),
    /// Those that the first of these knows.
    By(Vec<Slot>),
}

/// Where keys are written to be, and how requests show them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    from: From,
    shown: Shown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum From {
    Secret(SecretReference),
    Labelled(SecretSelector),
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    #[serde(default)]
    key_sources: Vec<KeySource>,
    forward_credential: Option<bool>,
    client_id_header: Option<String>,
    secret_ref: Option<SecretReference>,
    secret_selector: Option<SecretSelector>,
    disable: Option<Map<String, Value>>,
}

/// Where a key is looked for: first in the header, then in the query, then in the cookie that are named.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KeySource {
    header: Option<String>,
    query: Option<String>,
    cookie: Option<String>,
}

impl Unit for ApiKeyAuth {
    const FIELD: &'static str = "apiKeyAuth";
    const HOLDS_FOR_ANSWERS: bool = true;
    const SLOTS: &'static [&'static str] = &[slots::API_KEY_AUTH, slots::API_KEY_AUTH_HIDE];
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"secretRef": {"name": "credentials"}}"#,
        other: r#"{"secretRef": {"name": "credentials"}, "forwardCredential": true}"#,
        merged: None,
        off: Some(r#"{"disable": {}}"#),
        refused: Some(r#"{"secretRef": {"name": "nowhere"}}"#),
    };
    type Spec = Spec;

    fn read(written: Spec) -> Result<Self, Refused> {
        let from = match (written.secret_ref, written.secret_selector, written.disable) {
            (Some(reference), None, None) if !reference.is_secret() => {
                return Err(Refused::new("secretRef.kind", "only a Secret can have the keys; name one"));
            }
            (Some(reference), None, None) if reference.name.is_empty() => {
                return Err(Refused::new("secretRef.name", "it is empty; name a Secret"));
            }
            (Some(reference), None, None) => From::Secret(reference),
            (None, Some(selector), None) => {
                if let Some(message) = selector.fault() {
                    return Err(Refused::new("secretSelector.matchLabels", message));
                }
                From::Labelled(selector)
            }
            (None, None, Some(_)) => return Ok(Self::Off),
            _ => return Err(Refused::new("", "it must have one of secretRef, secretSelector and disable")),
        };
        let sources = sources(&written.key_sources)?;
        let client_header = written.client_id_header.as_deref().map(header::client_name);
        let client_header = client_header.transpose().map_err(Refused::at("clientIdHeader"))?;
        if let Some(name) = &client_header
            && sources.iter().any(|source| *source == (Place::Header, name.clone()))
        {
            let message = "keys are looked for in this header; use another one for the client";
            return Err(Refused::new("clientIdHeader", message));
        }
        let forwards = written.forward_credential.unwrap_or_default();
        Ok(Self::In(Keys { from, shown: Shown { sources, forwards, client_header } }))
    }

    fn with_others(&self, others: &Others<'_>) -> Result<Option<Self>, Refused> {
        match self {
            Self::In(keys) => Keys::clone(keys).made(others.secrets).map(Self::By).map(Some),
            Self::Off | Self::By(_) => Ok(None),
        }
    }

    fn slots(&self) -> Vec<Slot> {
        match self {
            Self::By(slots) => slots.clone(),
            Self::Off | Self::In(_) => Vec::new(),
        }
    }

    fn disables(&self) -> bool {
        matches!(self, Self::Off)
    }

    fn authenticates(&self) -> bool {
        matches!(self, Self::By(_))
    }

    fn explain(route: &Route) -> Option<String> {
        let said = spec::said::<ApiKeyAuthPerRoute>(route, slots::API_KEY_AUTH)?;
        let place = |source: &EnvoySource| match source {
            EnvoySource { header, .. } if !header.is_empty() => format!("header {header}"),
            EnvoySource { query, .. } if !query.is_empty() => format!("query parameter {query}"),
            EnvoySource { cookie, .. } => format!("cookie {cookie}"),
        };
        let places: Vec<_> = said.key_sources.iter().map(place).collect();
        let keys = said.credentials.len();
        let forwarding = said.forwarding.unwrap_or_default();
        let client = match &*forwarding.header {
            "" => String::new(),
            name => format!("; the client is told in {name}"),
        };
        let is_hidden =
            forwarding.hide_credentials || spec::said::<LuaPerRoute>(route, slots::API_KEY_AUTH_HIDE).is_some();
        let goes_on = if is_hidden { "" } else { "; the key goes on" };
        let noun = if keys == 1 { "key" } else { "keys" };
        Some(format!("{keys} {noun}, in {}{client}{goes_on}", places.join(" or ")))
    }
}

/// Where keys are looked for. Envoy reads one part of a source alone.
fn sources(written: &[KeySource]) -> Result<Vec<(Place, String)>, Refused> {
    spec::at_most(written, "keySources", MOST_SOURCES)?;
    let mut sources = Vec::new();
    for (index, source) in written.iter().enumerate() {
        let field = format!("keySources[{index}]");
        let KeySource { header, query, cookie } = source;
        if header.is_none() && query.is_none() && cookie.is_none() {
            return Err(Refused::new(&field, "it names nothing; set header, query or cookie"));
        }
        if let Some(name) = header {
            let name = header::client_name(name).map_err(Refused::at(format_args!("{field}.header")))?;
            sources.push((Place::Header, name));
        }
        if let Some(name) = query {
            sources.push((Place::Query, parameter(name).map_err(Refused::at(format_args!("{field}.query")))?));
        }
        if let Some(name) = cookie {
            let cookie = header::name(name).map(|_| name.clone());
            let cookie = cookie.map_err(|_| Invalid::new(name, "it is not the name of a cookie", "use a token"));
            sources.push((Place::Cookie, cookie.map_err(Refused::at(format_args!("{field}.cookie")))?));
        }
    }
    if sources.is_empty() {
        sources.push((Place::Header, HEADER.into()));
    }
    Ok(sources)
}

/// The name of a query parameter.
fn parameter(name: &str) -> Result<String, Invalid> {
    let is_sound = !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(|byte| byte.is_ascii_graphic());
    let refused = || {
        let why = format!("the name of a query parameter has 1 to {LONGEST_NAME} visible characters of ASCII");
        Invalid::new(name, why, "write it as it is without escapes")
    };
    is_sound.then(|| name.to_owned()).ok_or_else(refused)
}

impl Keys {
    /// What guards by the keys that are there now, and what hides them.
    fn made(self, secrets: &dyn SecretReader) -> Result<Vec<Slot>, Refused> {
        let (field, of) = match self.from {
            From::Secret(SecretReference { name, namespace, .. }) => {
                ("secretRef", secrets.permitted(namespace.as_ref(), &name).map(Of::Secret))
            }
            From::Labelled(SecretSelector { match_labels }) => {
                ("secretSelector", Ok(Of::Labelled(secrets.namespace().clone(), match_labels)))
            }
        };
        let hides = self.shown.hiding_slot();
        let made = of.and_then(|of| secrets.made(&Credentials::ApiKeys(ApiKeys { of, shown: self.shown })));
        let guard = made.map_err(|why| Refused::new(field, why))?;
        Ok(std::iter::once(guard).chain(hides).collect())
    }
}
