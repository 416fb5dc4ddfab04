//! `internalRedirect`: redirects of a backend are followed by Envoy, in place of the client.

use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::{Route, route::Action};
use ir::{filter::HeaderModifier, route::Handling, rule};
use serde::Deserialize;
use validate::{Invalid, header, number};

use super::{Deep, Gateways, Refused, Unit, spec};

/// How often a request is redirected at most. It comes through one Gateway three times at most (`cdn-loop`): once more, and
/// it would be answered 508 in place of the redirect.
const MOST_REDIRECTS: u32 = 2;

/// As the CRD has it.
const MOST_HEADERS: usize = 16;

/// Redirects of a backend are followed by Envoy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalRedirect {
    /// How often its author would have it.
    asked: Option<u32>,
    codes: Vec<u32>,
    cross_scheme: Option<bool>,
    /// Headers, in lower case.
    copied: Vec<Arc<str>>,
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    allow_cross_scheme_redirect: Option<bool>,
    max_redirects: Option<i64>,
    redirect_response_codes: Option<Vec<i64>>,
    response_headers_to_copy: Option<Vec<String>>,
}

fn sets_what_no_client_could(changes: &HeaderModifier) -> bool {
    changes.set.iter().chain(&changes.add).any(|(name, _)| header::is_of_proxy(&name.to_ascii_lowercase()))
}

impl Unit for InternalRedirect {
    const FIELD: &'static str = "internalRedirect";
    const HOLDS_FOR_ANSWERS: bool = false;
    const DEEP: Deep = Deep::Leaves;
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"maxRedirects": 1, "redirectResponseCodes": [301]}"#,
        other: r#"{"maxRedirects": 2, "allowCrossSchemeRedirect": true}"#,
        merged: Some((
            r#"{"maxRedirects": 1, "redirectResponseCodes": [301], "allowCrossSchemeRedirect": true}"#,
            r#"{"maxRedirects": 2, "redirectResponseCodes": [301], "allowCrossSchemeRedirect": true}"#,
        )),
        off: None,
        refused: Some(r#"{"maxRedirects": 0}"#),
    };
    type Spec = Spec;

    fn read(written: Spec) -> Result<Self, Refused> {
        let asked = written.max_redirects.map(|most| {
            u32::try_from(most).ok().filter(|most| *most > 0).ok_or_else(|| {
                let invalid = Invalid::new(&most.to_string(), "it is no number of redirects", "use 1 or 2");
                Refused::at("maxRedirects")(invalid)
            })
        });
        let asked = asked.transpose()?;
        let codes = spec::distinct(written.redirect_response_codes.as_deref(), "redirectResponseCodes", 5, |code| {
            number::redirect_status(*code)
        })?;
        let copied = spec::distinct(
            written.response_headers_to_copy.as_deref(),
            "responseHeadersToCopy",
            MOST_HEADERS,
            |name| header::client_name(name),
        )?;
        let copied = copied.into_iter().map(Into::into).collect();
        Ok(Self { asked, codes, cross_scheme: written.allow_cross_scheme_redirect, copied })
    }

    fn over(&self, other: &Self) -> Option<Self> {
        Some(Self {
            asked: self.asked.or(other.asked),
            codes: spec::said_list(&self.codes, &other.codes),
            cross_scheme: self.cross_scheme.or(other.cross_scheme),
            copied: spec::said_list(&self.copied, &other.copied),
        })
    }

    /// What a rule sets stays with the request, so that one which sets what no client could would have it believed by the
    /// route of somebody else: its redirects go to the client.
    fn apply(&self, rule: &mut Handling) -> bool {
        let of_shares =
            rule.backends.iter().filter_map(|backend| Some(&backend.changes.as_ref().ok()?.request_headers));
        let forges = std::iter::once(&rule.fields.request_headers).chain(of_shares).any(sets_what_no_client_could);
        if !forges {
            let redirect = rule::InternalRedirect {
                most: self.asked.unwrap_or(1).min(MOST_REDIRECTS),
                codes: self.codes.clone(),
                cross_scheme: self.cross_scheme.unwrap_or(false),
                copied: self.copied.clone(),
            };
            rule.by_policy.internal_redirect = Some(redirect.into());
        }
        !forges
    }

    fn warning(&self, gateways: &dyn Gateways) -> Option<Refused> {
        if gateways.take_addresses() {
            let message = "redirects go to the client at routes of a Gateway that takes addresses from requests: one that is sent on \
                           would have that of the proxy in front";
            return Some(Refused::new("", message));
        }
        let asked = self.asked.filter(|asked| *asked > MOST_REDIRECTS)?;
        let message = format!(
            "{asked} counts as {MOST_REDIRECTS}, since a request comes through one Gateway three times at most; write that"
        );
        Some(Refused::new("maxRedirects", message))
    }

    fn explain(route: &Route) -> Option<String> {
        let Some(Action::Route(action)) = &route.action else { return None };
        let policy = action.internal_redirect_policy.as_ref()?;
        let most = policy.max_internal_redirects.map_or(1, |most| most.value);
        let codes = &policy.redirect_response_codes[..];
        let codes: Vec<_> = if codes.is_empty() { &[302] } else { codes }.iter().map(ToString::to_string).collect();
        let schemes = if policy.allow_cross_scheme_redirect { ", to another scheme too" } else { "" };
        Some(format!("{} are followed up to {most} times{schemes}", codes.join(", ")))
    }
}
