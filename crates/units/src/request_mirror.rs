//! `requestMirror`: what host the copies are for that filters of a rule ask for.

use api::traffic_policy::TrafficPolicySpec;
use envoy_types::pb::envoy::config::route::v3::{Route, route::Action};
use ir::{route::Handling, rule::MirrorHost};
use serde::Deserialize;
use validate::hostname;

use super::{Refused, Unit};

/// What host copies are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestMirror {
    host: MirrorHost,
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
    type Spec = Spec;

    fn read(written: Spec, _: &TrafficPolicySpec) -> Result<Self, Refused> {
        let Spec { disable_shadow_host_suffix_append: disable, host_rewrite_literal: literal } = written;
        if disable.is_none() && literal.is_none() {
            let message = "it says nothing; set disableShadowHostSuffixAppend or hostRewriteLiteral, or remove it";
            return Err(Refused::new("", message));
        }
        if let Some(literal) = &literal {
            hostname::authority(literal).map_err(Refused::at("hostRewriteLiteral"))?;
        }
        Ok(Self { host: MirrorHost { literal: literal.map(Into::into), shadow: disable == Some(false) } })
    }

    fn apply(&self, rule: &mut Handling) -> bool {
        rule.by_policy.mirror_host = self.host.clone();
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
