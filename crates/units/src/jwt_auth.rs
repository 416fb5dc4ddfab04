//! `jwtAuth`: requests have a token of somebody whose tokens are taken.

use std::sync::Arc;

use api::gateway_extension::ExtensionReference;
use envoy::{
    extensions::programs::{self, Shown},
    slots,
};
use envoy_types::pb::envoy::{
    config::route::v3::Route,
    extensions::filters::http::jwt_authn::v3::{PerRouteConfig, per_route_config::RequirementSpecifier},
};
use ir::{
    NsName,
    backend::Asked,
    rule::{ExtensionEntry, Slot},
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    Others, Refused, Unit,
    extension::{self, Provider, jwt},
    spec,
};

/// Whose tokens are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwtAuth {
    /// Nobody is asked for one.
    Off,
    /// Those of who is named, and was not looked up yet.
    Named(ExtensionReference),
    /// Those of this extension.
    By(Tokens),
}

/// The tokens of an extension. What its keys are is no part of it: these change, and routes do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    id: NsName,
    /// By which routes require them, and others by another one.
    name: Arc<str>,
    asked: Arc<[Asked]>,
    headers: Arc<[String]>,
    /// The parameters of queries that show tokens which do not go on.
    hidden: Arc<[String]>,
    enforces: bool,
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    extension_ref: Option<ExtensionReference>,
    disable: Option<Map<String, Value>>,
}

impl Unit for JwtAuth {
    const FIELD: &'static str = "jwtAuth";
    const HOLDS_FOR_ANSWERS: bool = true;
    const SLOTS: &'static [&'static str] = &[slots::JWT_AUTH, slots::JWT_AUTH_HIDE, slots::JWT_CLAIMS];
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"extensionRef": {"name": "tokens", "namespace": "apps"}}"#,
        other: r#"{"extensionRef": {"name": "tokens2", "namespace": "apps"}}"#,
        merged: None,
        off: Some(r#"{"disable": {}}"#),
        refused: Some(r#"{"extensionRef": {"name": "judge", "namespace": "apps"}}"#),
    };
    type Spec = Spec;

    fn read(written: Spec) -> Result<Self, Refused> {
        match (written.extension_ref, written.disable) {
            (Some(extension), None) => {
                extension::named(&extension)?;
                Ok(Self::Named(extension))
            }
            (None, Some(_)) => Ok(Self::Off),
            _ => Err(Refused::new("", "it must have one of extensionRef and disable")),
        }
    }

    fn with_others(&self, others: &Others<'_>) -> Result<Option<Self>, Refused> {
        let Self::Named(reference) = self else { return Ok(None) };
        let extension = extension::find(others.extensions, reference)?;
        let jwt::Jwt { judges, asked, headers, hidden, enforces, .. } =
            extension::of_member(&extension, "jwt", Provider::jwt)?;
        Ok(Some(Self::By(Tokens {
            id: extension.id.clone(),
            name: judges.name().into(),
            asked: asked.clone(),
            headers: headers.clone(),
            hidden: hidden.clone(),
            enforces: *enforces,
        })))
    }

    fn slots(&self) -> Vec<Slot> {
        let Self::By(Tokens { id, name, asked, headers, hidden, .. }) = self else { return Vec::new() };
        let entry = ExtensionEntry::Tokens(id.clone());
        let mut judged = jwt::judged(name, entry, [slots::JWT_AUTH, slots::JWT_CLAIMS], asked, headers);
        let hidden: Vec<_> = hidden.iter().cloned().map(Shown::Query).collect();
        judged.extend((!hidden.is_empty()).then(|| programs::hides(slots::JWT_AUTH_HIDE, &hidden)));
        judged
    }

    fn disables(&self) -> bool {
        *self == Self::Off
    }

    /// Where a request need not have a token, nobody knows who sends it.
    fn authenticates(&self) -> bool {
        matches!(self, Self::By(tokens) if tokens.enforces)
    }

    fn explain(route: &Route) -> Option<String> {
        let RequirementSpecifier::RequirementName(name) =
            spec::said::<PerRouteConfig>(route, slots::JWT_AUTH)?.requirement_specifier?
        else {
            return None;
        };
        Some(format!("tokens of GatewayExtension {}", jwt::extension_of(&name)?))
    }
}
