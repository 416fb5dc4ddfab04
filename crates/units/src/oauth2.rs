//! `oauth2`: people log in.

use std::sync::Arc;

use api::gateway_extension::ExtensionReference;
use envoy::{secret::LoginSecret, slots};
use envoy_types::pb::envoy::{
    config::route::v3::Route,
    extensions::filters::http::{
        jwt_authn::v3::PerRouteConfig,
        oauth2::v3::{OAuth2 as EnvoyOAuth2, o_auth2_credentials::TokenFormation},
    },
};
use ir::rule::{ExtensionEntry, Slot};
use serde::Deserialize;

use super::{
    Extension, Others, Refused, Unit,
    extension::{self, Provider, jwt, unwrapped, wrapped_behind},
    spec,
};

/// Who logs people in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OAuth2 {
    /// Who is named, and was not looked up yet.
    Named(ExtensionReference),
    /// This extension.
    By(Arc<Extension>),
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    extension_ref: ExtensionReference,
}

impl Unit for OAuth2 {
    const FIELD: &'static str = "oauth2";
    const HOLDS_FOR_ANSWERS: bool = true;
    const SLOTS: &'static [&'static str] = &[slots::OAUTH2, slots::OAUTH2_JWT, slots::OAUTH2_CLAIMS];
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"extensionRef": {"name": "login", "namespace": "apps"}}"#,
        other: r#"{"extensionRef": {"name": "login2", "namespace": "apps"}}"#,
        merged: None,
        off: None,
        refused: Some(r#"{"extensionRef": {"name": "judge", "namespace": "apps"}}"#),
    };
    type Spec = Spec;

    fn read(written: Spec) -> Result<Self, Refused> {
        extension::named(&written.extension_ref)?;
        Ok(Self::Named(written.extension_ref))
    }

    fn with_others(&self, others: &Others<'_>) -> Result<Option<Self>, Refused> {
        let Self::Named(reference) = self else { return Ok(None) };
        let extension = extension::find(others.extensions, reference)?;
        extension::of_member(&extension, "oauth2", Provider::oauth2)?;
        Ok(Some(Self::By(extension)))
    }

    fn slots(&self) -> Vec<Slot> {
        let Self::By(extension) = self else { return Vec::new() };
        let Some(login) = extension.provider.oauth2() else { return Vec::new() };
        let filter = login.filter.decode::<EnvoyOAuth2>();
        let cleared = login.tokens.as_ref().and_then(|tokens| jwt::cleared(slots::OAUTH2_CLEARED, &tokens.headers));
        let slot = wrapped_behind(cleared, slots::OAUTH2, slots::OAUTH2_INNER, &filter, &login.asked);
        let entry = Some(ExtensionEntry::Login(extension.id.clone()).into());
        let login_slot = Slot { entry, patterns: login.patterns.clone(), ..slot };
        let tokens = login.tokens.as_ref().map(|tokens| {
            let entry = ExtensionEntry::LoginTokens(extension.id.clone());
            jwt::judged(
                tokens.judges.name(),
                entry,
                [slots::OAUTH2_JWT, slots::OAUTH2_CLAIMS],
                std::slice::from_ref(&tokens.asked),
                &tokens.headers,
            )
        });
        std::iter::once(login_slot).chain(tokens.into_iter().flatten()).collect()
    }

    fn disables(&self) -> bool {
        false
    }

    fn authenticates(&self) -> bool {
        true
    }

    fn explain(route: &Route) -> Option<String> {
        let config = unwrapped::<EnvoyOAuth2>(route, slots::OAUTH2)?.config?;
        let Some(TokenFormation::HmacSecret(secret)) = config.credentials?.token_formation else { return None };
        let id = LoginSecret::extension_of(&secret.name)?;
        let judged =
            spec::said::<PerRouteConfig>(route, slots::OAUTH2_JWT).map_or("", |_| ", and its tokens are judged");
        Some(format!("people log in at {} (GatewayExtension {id}){judged}", config.authorization_endpoint))
    }
}
