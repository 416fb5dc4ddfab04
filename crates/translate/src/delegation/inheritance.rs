//! What delegating rules hand down to the rules of their children.

use ir::{
    NsName, Problem, Severity,
    filter::{Filters, HeaderModifier, Rewrite},
    rule::{Retry, SessionPersistence, Timeouts},
};
use validate::header;

use crate::route::{
    filters::{ReadFilters, ReadMirror},
    rule::Does,
};

mod provenance;

pub(crate) use provenance::provenance;

/// What one delegating rule hands down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    /// Its route, in whose namespace references are followed.
    pub(crate) route: NsName,
    /// Whether it wins over all below.
    prefers_parent: bool,
    filters: ReadFilters,
    timeouts: Timeouts,
    retry: Option<Retry>,
    session: Option<SessionPersistence>,
}

impl Level {
    /// What a rule of `route` hands down.
    pub(crate) fn of(route: NsName, does: Does, prefers_parent: bool) -> Self {
        let Does { filters, timeouts, retry, session, .. } = does;
        Self { route, prefers_parent, filters, timeouts, retry, session }
    }
}

/// A mirror with the route whose it is.
pub(crate) type OwnedMirror<'a> = (&'a NsName, ReadMirror);

/// A rule with what it inherits.
pub(crate) fn combine<'a>(
    own: Does,
    route: &'a NsName,
    levels: impl DoubleEndedIterator<Item = &'a Level>,
    field: &str,
) -> Result<(Does, Vec<OwnedMirror<'a>>), Problem> {
    let mut does = own;
    let mut mirrors: Vec<_> = std::mem::take(&mut does.filters.mirrors).into_iter().map(|own| (route, own)).collect();
    for level in levels.rev() {
        let first = level.prefers_parent;
        let answers = does.filters.redirect.is_some() || does.filters.direct_response().is_some();
        if answers && (!level.filters.mirrors.is_empty() || level.filters.filters.rewrite != Rewrite::default()) {
            let message = format!(
                "a redirect or DirectResponse cannot have the URLRewrite or RequestMirror that HTTPRoute {} hands down; answer otherwise, \
                 or have them moved there",
                level.route
            );
            return Err(Problem::new(Severity::Replaced, "IncompatibleFilters", format!("{field}.filters"), message));
        }
        let Does { filters, timeouts, retry, session, .. } = &mut does;
        *timeouts = if *timeouts == Timeouts::default() || (first && level.timeouts != Timeouts::default()) {
            level.timeouts
        } else {
            *timeouts
        };
        prefer(retry, level.retry.as_ref(), first);
        prefer(session, level.session.as_ref(), first);
        let (own, theirs) = (&mut filters.filters, &level.filters.filters);
        prefer(&mut own.cors, theirs.cors.as_ref(), first);
        if own.rewrite == Rewrite::default() || (first && theirs.rewrite != Rewrite::default()) {
            own.rewrite = theirs.rewrite.clone();
        }
        join(&mut own.request_headers, &theirs.request_headers, first);
        join(&mut own.response_headers, &theirs.response_headers, first);
        mirrors.extend(level.filters.mirrors.iter().map(|mirror| (&level.route, mirror.clone())));
    }
    // Each of them has no more than Envoy takes, but all together may.
    let Filters { request_headers, response_headers, .. } = &does.filters.filters;
    for headers in [request_headers, response_headers] {
        header::changes(headers.set.len() + headers.add.len()).map_err(|invalid| {
            let message = format!("with what is handed down: {invalid}");
            Problem::new(Severity::Replaced, "UnsupportedValue", format!("{field}.filters"), message)
        })?;
    }
    Ok((does, mirrors))
}

fn prefer<T: Clone>(own: &mut Option<T>, theirs: Option<&T>, theirs_first: bool) {
    if own.is_none() || (theirs_first && theirs.is_some()) {
        *own = theirs.cloned();
    }
}

/// Both sets of changes; the preferred one is applied last.
fn join(own: &mut HeaderModifier, theirs: &HeaderModifier, theirs_first: bool) {
    *own = if theirs_first { own.then(theirs) } else { theirs.then(own) };
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use api::http_route::HttpRouteRule;
    use serde_json::{Value, json};

    use super::*;
    use crate::route::rule;

    fn does(rule: Value) -> Does {
        let rule: HttpRouteRule = serde_json::from_value(rule).expect("a rule");
        rule::read(&rule, "spec.rules[0]").does.expect("sound")
    }

    fn level(name: &str, rule: Value, prefers_parent: bool) -> Level {
        Level::of(NsName::new("ns", name), does(rule), prefers_parent)
    }

    fn combined(own: Value, levels: &[Level]) -> Does {
        let leaf = NsName::new("ns", "leaf");
        combine(does(own), &leaf, levels.iter(), "spec.rules[0]").expect("sound").0
    }

    #[test]
    fn a_field_is_the_childs_or_else_that_of_the_nearest_ancestor() {
        let timeout = |seconds: &str| json!({"timeouts": {"request": seconds}});
        let request = |does: &Does| does.timeouts.request.map(|timeout| timeout.as_secs());
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
            Timeouts { request: Some(Duration::from_secs(3)), backend_request: None }
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
            let headers = combined(setting("x", "leaf"), &levels).filters.filters.request_headers;
            assert_eq!(headers.set, [pair("x", winner)]);
            let headers = combined(setting("y", "leaf"), &levels).filters.filters.request_headers;
            assert_eq!(headers.set.len(), 2, "{headers:?}");
        }
    }

    #[test]
    fn more_header_changes_than_envoy_takes_are_refused_though_each_level_has_few() {
        let leaf = NsName::new("ns", "leaf");
        for kind in ["request", "response"] {
            let many = |name: &str, count: usize| {
                let headers: Vec<_> =
                    (0..count).map(|at| json!({"name": format!("{name}-{at}"), "value": "1"})).collect();
                let filter = json!({"type": format!("{}HeaderModifier", if kind == "request" { "Request" } else { "Response" }),
                    format!("{kind}HeaderModifier"): {"set": headers}});
                json!({"filters": [filter]})
            };
            let levels = [level("root", many("root", 200), false), level("mid", many("mid", 200), false)];
            assert!(combine(does(many("leaf", 100)), &leaf, levels.iter(), "spec.rules[0]").is_ok());
            let refused = combine(does(many("leaf", 101)), &leaf, levels.iter(), "spec.rules[0]");
            assert_eq!(refused.expect_err("refused").reason, "UnsupportedValue");
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
        let leaf = NsName::new("ns", "leaf");
        let (does, mirrors) = combine(does(rule("leaf")), &leaf, levels.iter(), "").expect("sound");
        assert_eq!(does.filters.filters.rewrite.hostname.as_deref(), Some("leaf"));
        let owners: Vec<_> = mirrors.iter().map(|(owner, _)| &*owner.name).collect();
        assert_eq!(owners, ["leaf", "root"]);
        assert_eq!(combined(json!({}), &levels).filters.filters.rewrite.hostname.as_deref(), Some("root"));
    }

    #[test]
    fn a_redirect_below_a_rewrite_is_refused() {
        let levels =
            [level("root", json!({"filters": [{"type": "URLRewrite", "urlRewrite": {"hostname": "h"}}]}), false)];
        let redirect = json!({"filters": [{"type": "RequestRedirect", "requestRedirect": {"hostname": "other"}}]});
        let leaf = NsName::new("ns", "leaf");
        let refused = combine(does(redirect), &leaf, levels.iter(), "spec.rules[0]");
        assert_eq!(refused.expect_err("refused").reason, "IncompatibleFilters");
    }
}
