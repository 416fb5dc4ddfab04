//! `urlRewrite`: how the path of a request is changed.

use envoy_types::pb::envoy::config::route::v3::{Route, route::Action, route_action::HostRewriteSpecifier};
use ir::{filter::PathModifier, route::Handling};
use serde::Deserialize;
use validate::regex;

use super::{Refused, Unit};

/// How the path of a request is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlRewrite {
    /// By an expression.
    pub path: PathModifier,
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    path_regex: Option<PathRegex>,
}

/// Replaces what an expression finds in the path.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PathRegex {
    pattern: String,
    substitution: String,
}

impl Unit for UrlRewrite {
    const FIELD: &'static str = "urlRewrite";
    const HOLDS_FOR_ANSWERS: bool = false;
    const TARGETS: &'static [&'static str] = &["HTTPRoute"];
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"pathRegex": {"pattern": "a", "substitution": "one"}}"#,
        other: r#"{"pathRegex": {"pattern": "a", "substitution": "other"}}"#,
        merged: None,
        off: None,
        refused: Some(r#"{"pathRegex": {"pattern": "(", "substitution": "b"}}"#),
    };
    type Spec = Spec;

    fn read(written: Spec) -> Result<Self, Refused> {
        let Some(PathRegex { pattern, substitution }) = written.path_regex else {
            return Err(Refused::new("pathRegex", "missing; set it, or remove urlRewrite"));
        };
        let pattern = regex::check(&pattern).map_err(Refused::at("pathRegex.pattern"))?;
        regex::substitution(&pattern, &substitution).map_err(Refused::at("pathRegex.substitution"))?;
        let path = PathModifier::Regex { pattern: pattern.into_string().into(), substitution: substitution.into() };
        Ok(Self { path })
    }

    /// A filter of the rule that rewrites the path wins.
    fn apply(&self, rule: &mut Handling) -> bool {
        let rewrite = rule.fields.rewrite.get_or_insert_default();
        let holds = rewrite.path.is_none();
        rewrite.path.get_or_insert_with(|| self.path.clone());
        holds
    }

    fn explain(route: &Route) -> Option<String> {
        let Some(Action::Route(action)) = &route.action else { return None };
        let mut parts = Vec::new();
        if let Some(HostRewriteSpecifier::HostRewriteLiteral(host)) = &action.host_rewrite_specifier {
            parts.push(format!("host {host}"));
        }
        if !action.prefix_rewrite.is_empty() {
            parts.push(format!("what is matched of the path becomes {}", action.prefix_rewrite));
        }
        if let Some(rewrite) = &action.regex_rewrite {
            let pattern = rewrite.pattern.as_ref().map_or("", |pattern| &pattern.regex);
            parts.push(format!("what {pattern} finds in the path becomes {}", rewrite.substitution));
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}
