//! What delegating rules hand down to the rules of their children.

use std::borrow::Cow;

use ir::{
    Problem, Reason, Severity,
    delegation::Level,
    filter::HeaderModifier,
    route::{Fields, Handling, MirrorSpec},
};
use validate::header;

use crate::fold::{Folded, Inherit, LevelValue, fold};

/// A field of a rule with those who have a say in it: none for the rule itself, else the place of a level, counted from the
/// root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The field, as rules and filters write it: `timeouts`, `urlRewrite`.
    pub what: &'static str,
    /// Who supplies it; several where it is joined.
    pub from: Vec<Option<usize>>,
    /// Who has it too and is not heard.
    pub overridden: Vec<Option<usize>>,
}

/// Joins fields of all levels, each by its own rule.
macro_rules! inherited {
    ($($what:literal: $field:ident;)+) => {
        /// A rule's fields with those that it inherits, and whose each is; `levels` from the root on.
        fn inherit(own: Fields, levels: &[&Level]) -> (Fields, Vec<Provenance>) {
            let mut provenance = Vec::new();
            let fields = Fields {$(
                $field: {
                    let above = levels.iter().enumerate().rev().map(|(place, level)| LevelValue {
                        by: Some(place),
                        prefers_itself: level.priority.prefers_parent,
                        value: &level.fields.$field,
                    });
                    let Folded { value, from, overridden } = fold(own.$field, None, above);
                    if !from.is_empty() {
                        provenance.push(Provenance { what: $what, from, overridden });
                    }
                    value
                },
            )+};
            (fields, provenance)
        }
    };
}

inherited! {
    "timeouts": timeouts;
    "retry": retry;
    "sessionPersistence": session;
    "urlRewrite": rewrite;
    "cors": cors;
    "requestHeaderModifier": request_headers;
    "responseHeaderModifier": response_headers;
    "requestMirror": mirrors;
}

/// All changes are made; those of the preferred side last.
impl Inherit for HeaderModifier {
    const JOINED: bool = true;

    fn is_set(&self) -> bool {
        !self.is_empty()
    }

    fn merge(&mut self, above: &Self, above_is_preferred: bool) {
        *self = if above_is_preferred { self.then(above) } else { above.then(self) };
    }
}

/// All copies are made.
impl Inherit for Vec<MirrorSpec> {
    const JOINED: bool = true;

    fn is_set(&self) -> bool {
        !self.is_empty()
    }

    fn merge(&mut self, above: &Self, _: bool) {
        self.extend_from_slice(above);
    }
}

/// Whose each field of a rule is; `levels` from the root on.
pub(crate) fn provenance(own: &Handling, levels: &[&Level]) -> Vec<Provenance> {
    let (_, mut provenance) = inherit(own.fields.clone(), levels);
    if own.redirect.is_some() {
        provenance.push(Provenance { what: "requestRedirect", from: vec![None], overridden: Vec::new() });
    }
    provenance
}

/// A rule with what it inherits; `levels` from the root on.
///
/// # Errors
/// Where the rule answers by itself and something is handed down that an answer cannot have, and where all headers
/// together are more than Envoy takes.
pub(crate) fn combine<'a>(
    own: Cow<'a, Handling>,
    levels: &[&Level],
    field: &str,
) -> Result<Cow<'a, Handling>, Problem> {
    if levels.is_empty() {
        return Ok(own);
    }
    let own = own.into_owned();
    let has_rewrite_or_mirror = |level: &&&Level| level.fields.rewrite.is_some() || !level.fields.mirrors.is_empty();
    if let Some(level) = levels.iter().rev().find(has_rewrite_or_mirror).filter(|_| own.answers()) {
        let message = format!(
            "a redirect or DirectResponse cannot have the URLRewrite or RequestMirror that {} hands down; \
             answer otherwise, or have them moved there",
            level.route
        );
        return Err(Problem::new(Severity::Replaced, Reason::IncompatibleFilters, format!("{field}.filters"), message));
    }
    let (fields, _) = inherit(own.fields, levels);
    // Each of them has no more than Envoy takes, but all together may.
    for headers in [&fields.request_headers, &fields.response_headers] {
        header::changes(headers.set.len() + headers.add.len()).map_err(|invalid| {
            let message = format!("with what is handed down: {invalid}");
            Problem::new(Severity::Replaced, Reason::UnsupportedValue, format!("{field}.filters"), message)
        })?;
    }
    Ok(Cow::Owned(Handling { fields, ..own }))
}
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use api::http_route::HttpRouteRule;
    use ir::{RouteId, delegation::Priority, rule::Timeouts};
    use serde_json::{Value, json};

    use super::*;
    use crate::route::read_http_rule;

    fn handling(name: &str, rule: Value) -> Handling {
        let rule: HttpRouteRule = serde_json::from_value(rule).expect("a rule");
        read_http_rule(&rule, &RouteId::http("ns", name), "spec.rules[0]").handling.expect("sound")
    }

    fn level(name: &str, rule: Value, prefers_parent: bool) -> Level {
        let priority = Priority { prefers_parent, ..Priority::default() };
        Level { route: RouteId::http("ns", name), priority, fields: handling(name, rule).fields }
    }

    fn combine(own: Value, levels: &[Level]) -> Result<Handling, Problem> {
        let own = Cow::Owned(handling("leaf", own));
        super::combine(own, &levels.iter().collect::<Vec<_>>(), "spec.rules[0]").map(Cow::into_owned)
    }

    fn combined(own: Value, levels: &[Level]) -> Fields {
        combine(own, levels).expect("sound").fields
    }

    #[test]
    fn a_field_is_the_childs_or_else_that_of_the_nearest_ancestor() {
        let timeout = |seconds: &str| json!({"timeouts": {"request": seconds}});
        let request = |fields: &Fields| fields.timeouts?.request.map(|timeout| timeout.as_secs());
        let levels = [level("root", timeout("1s"), false), level("mid", timeout("2s"), false)];
        assert_eq!(request(&combined(json!({}), &levels)), Some(2));
        assert_eq!(request(&combined(timeout("3s"), &levels)), Some(3));
        let levels = [level("root", timeout("1s"), true), level("mid", timeout("2s"), false)];
        assert_eq!(request(&combined(timeout("3s"), &levels)), Some(1));
        let levels = [level("root", json!({}), true), level("mid", timeout("2s"), true)];
        assert_eq!(request(&combined(timeout("3s"), &levels)), Some(2));
        // As a whole.
        let levels = [level("root", json!({"timeouts": {"backendRequest": "1s"}}), false)];
        assert_eq!(
            combined(timeout("3s"), &levels).timeouts,
            Some(Timeouts { request: Some(Duration::from_secs(3)), backend_request: None, stream_idle: None })
        );
    }

    fn setting(name: &str, value: &str) -> Value {
        json!({"filters": [{"type": "RequestHeaderModifier",
            "requestHeaderModifier": {"set": [{"name": name, "value": value}], "add": [{"name": "who", "value": value}]}}]})
    }

    #[test]
    fn header_changes_are_joined_and_the_preferred_ones_come_last() {
        let pair = |name: &str, value: &str| (name.into(), value.into());
        for (prefers_parent, winner) in [(false, "leaf"), (true, "root")] {
            let levels = [level("root", setting("x", "root"), prefers_parent)];
            let headers = combined(setting("x", "leaf"), &levels).request_headers;
            assert_eq!(headers.set, [pair("x", winner)]);
            let headers = combined(setting("y", "leaf"), &levels).request_headers;
            assert_eq!(headers.set.len(), 2, "{headers:?}");
        }
    }

    #[test]
    fn more_header_changes_than_envoy_takes_are_refused_though_each_level_has_few() {
        for kind in ["request", "response"] {
            let many = |name: &str, count: usize| {
                let headers: Vec<_> =
                    (0..count).map(|at| json!({"name": format!("{name}-{at}"), "value": "1"})).collect();
                let filter = json!({"type": format!("{}HeaderModifier", if kind == "request" { "Request" } else { "Response" }),
                    format!("{kind}HeaderModifier"): {"set": headers}});
                json!({"filters": [filter]})
            };
            let levels = [level("root", many("root", 200), false), level("mid", many("mid", 200), false)];
            assert!(combine(many("leaf", 100), &levels).is_ok());
            let refused = combine(many("leaf", 101), &levels);
            assert_eq!(refused.expect_err("refused").reason, Reason::UnsupportedValue);
        }
    }

    #[test]
    fn mirrors_are_joined_and_a_rewrite_is_one_of_the_two() {
        let rule = |host: &str| {
            json!({"filters": [
                {"type": "URLRewrite", "urlRewrite": {"hostname": host}},
                {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": host, "port": 80}}},
            ]})
        };
        let levels = [level("root", rule("root"), false)];
        let host = |fields: &Fields| fields.rewrite.as_ref().and_then(|rewrite| rewrite.hostname.clone());
        let fields = combined(rule("leaf"), &levels);
        assert_eq!(host(&fields).as_deref(), Some("leaf"));
        let owners: Vec<_> = fields.mirrors.iter().map(|mirror| &*mirror.owner.name.name).collect();
        assert_eq!(owners, ["leaf", "root"]);
        assert_eq!(host(&combined(json!({}), &levels)).as_deref(), Some("root"));
    }

    #[test]
    fn a_redirect_below_a_rewrite_is_refused() {
        let levels =
            [level("root", json!({"filters": [{"type": "URLRewrite", "urlRewrite": {"hostname": "h"}}]}), false)];
        let redirect = json!({"filters": [{"type": "RequestRedirect", "requestRedirect": {"hostname": "other"}}]});
        let refused = combine(redirect, &levels);
        assert_eq!(refused.expect_err("refused").reason, Reason::IncompatibleFilters);
    }
}
