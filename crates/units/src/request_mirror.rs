//! `requestMirror`: what host the copies are for that filters of a rule ask for.

use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::{Route, route::Action};
use ir::{route::Handling, rule::MirrorHost};
use serde::Deserialize;
use validate::hostname;

use super::{Deep, Refused, Unit};

/// What host copies are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestMirror {
    /// Another one.
    literal: Option<Arc<str>>,
    /// Whether it is the request's own with `-shadow` behind it.
    shadow: Option<bool>,
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    disable_shadow_host_suffix_append: Option<bool>,
    host_rewrite_literal: Option<String>,
}

impl Unit for RequestMirror {
    const FIELD: &'static str = "requestMirror";
    const HOLDS_FOR_ANSWERS: bool = false;
    const DEEP: Deep = Deep::Leaves;
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"hostRewriteLiteral": "one.example"}"#,
        other: r#"{"hostRewriteLiteral": "other.example", "disableShadowHostSuffixAppend": false}"#,
        merged: Some((
            r#"{"hostRewriteLiteral": "one.example", "disableShadowHostSuffixAppend": false}"#,
            r#"{"hostRewriteLiteral": "other.example", "disableShadowHostSuffixAppend": false}"#,
        )),
        off: None,
        refused: Some(r#"{"hostRewriteLiteral": "a b"}"#),
    };
    type Spec = Spec;

    fn read(written: Spec) -> Result<Self, Refused> {
        let Spec { disable_shadow_host_suffix_append: disable, host_rewrite_literal: literal } = written;
        if disable.is_none() && literal.is_none() {
            let message = "it says nothing; set disableShadowHostSuffixAppend or hostRewriteLiteral, or remove it";
            return Err(Refused::new("", message));
        }
        if let Some(literal) = &literal {
            hostname::authority(literal).map_err(Refused::at("hostRewriteLiteral"))?;
        }
        Ok(Self { literal: literal.map(Into::into), shadow: disable.map(|disable| !disable) })
    }

    fn over(&self, other: &Self) -> Option<Self> {
        let literal = self.literal.as_ref().or(other.literal.as_ref());
        Some(Self { literal: literal.cloned(), shadow: self.shadow.or(other.shadow) })
    }

    fn apply(&self, rule: &mut Handling) -> bool {
        rule.by_policy.mirror_host = MirrorHost { literal: self.literal.clone(), shadow: self.shadow.unwrap_or(false) };
        true
    }

    fn explain(route: &Route) -> Option<String> {
        let Some(Action::Route(action)) = &route.action else { return None };
        let mirrors = action.request_mirror_policies.iter().map(|mirror| {
            let host = match (&*mirror.host_rewrite_literal, mirror.disable_shadow_host_suffix_append) {
                ("", true) => String::new(),
                ("", false) => " with -shadow behind its host".into(),
                (literal, _) => format!(" for host {literal}"),
            };
            format!("{}{host}", mirror.cluster)
        });
        let mirrors: Vec<_> = mirrors.collect();
        (!mirrors.is_empty()).then(|| mirrors.join(", "))
    }
}
