//! `statPrefix`: under which name Envoy counts requests.

use envoy_types::pb::envoy::config::route::v3::Route;
use ir::{
    route::Handling,
    rule::{StatPart, StatPrefix as Template},
};
use validate::Invalid;

use super::{Refused, Unit};

/// As the CRD has it, in bytes.
const LONGEST: usize = 256;

/// Under which name Envoy counts requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatPrefix {
    template: Template,
}

impl Unit for StatPrefix {
    const FIELD: &'static str = "statPrefix";
    const HOLDS_FOR_ANSWERS: bool = true;
    const TARGETS: &'static [&'static str] = &["GRPCRoute", "HTTPRoute"];
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#""one""#,
        other: r#""other""#,
        merged: None,
        off: None,
        refused: Some(r#""{{other}}""#),
    };
    type Spec = String;

    fn read(written: String) -> Result<Self, Refused> {
        let refused = |why: &str| {
            let remedy =
                "use letters, digits, '_', '%', '.', '-', {{route_name}}, {{route_namespace}} and {{rule_name}}";
            Refused::at("")(Invalid::new(&written, why, remedy))
        };
        if written.is_empty() || written.len() > LONGEST {
            return Err(refused("a prefix has 1 to 256 characters"));
        }
        let mut parts = Vec::new();
        let mut rest = &*written;
        while !rest.is_empty() {
            if let Some(begun) = rest.strip_prefix("{{") {
                let (variable, after) = begun.split_once("}}").ok_or_else(|| refused("a variable ends with }}"))?;
                parts.push(match variable.trim_ascii() {
                    "route_name" => StatPart::RouteName,
                    "route_namespace" => StatPart::RouteNamespace,
                    "rule_name" => StatPart::RuleName,
                    _ => return Err(refused("it names a variable that there is not")),
                });
                rest = after;
            } else {
                let plain = |c: char| c.is_ascii_alphanumeric() || "_%.-".contains(c);
                let end = rest.find(|c| !plain(c)).unwrap_or(rest.len());
                if end == 0 {
                    return Err(refused("it has a character that no name of statistics has"));
                }
                parts.push(StatPart::Text(rest[..end].into()));
                rest = &rest[end..];
            }
        }
        Ok(Self { template: Template(parts.into()) })
    }

    fn apply(&self, rule: &mut Handling) -> bool {
        rule.by_policy.stat_prefix = Some(self.template.clone());
        true
    }

    fn explain(route: &Route) -> Option<String> {
        (!route.stat_prefix.is_empty()).then(|| route.stat_prefix.clone())
    }
}
