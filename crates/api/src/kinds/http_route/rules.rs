//! Rules across fields of an HTTPRoute.

pub(in crate::kinds) mod filter;

use crate::{
    http_route::{HttpPathMatch, HttpRouteRule, HttpRouteSpec, HttpRouteTimeouts, PathMatchType},
    schema::{
        openapi::values::PATH_PATTERN,
        rules::{Broken, reference::service_port, route},
    },
};

pub(super) fn check(spec: &HttpRouteSpec, broken: &mut Broken) {
    route::parents(&spec.parent_refs, broken);
    let rules = || spec.rules.iter();
    let mut names = route::RuleNames::default();
    for (index, rule) in rules().enumerate() {
        let path = format!("spec.rules[{index}]");
        names.check(rule.name.as_deref(), &path, broken);
        check_rule(rule, &path, broken);
    }
    route::matches(rules().map(|rule| rule.matches.len()), broken);
}

fn check_rule(rule: &HttpRouteRule, path: &str, broken: &mut Broken) {
    for (index, found) in rule.matches.iter().enumerate() {
        check_path(&found.path, &format!("{path}.matches[{index}].path"), broken);
    }
    filter::check(&rule.filters, &format!("{path}.filters"), broken);
    for (index, backend) in rule.backend_refs.iter().enumerate() {
        let path = format!("{path}.backendRefs[{index}]");
        service_port(&backend.backend_ref, &path, broken);
        filter::check(&backend.filters, &format!("{path}.filters"), broken);
    }
    let redirect = rule.filters.iter().position(|filter| filter.request_redirect.is_some());
    if let Some(index) = redirect.filter(|_| !rule.backend_refs.is_empty()) {
        let message = "a rule that redirects must have no backendRefs: remove one of both";
        broken.add_without_value(format!("{path}.filters[{index}].requestRedirect"), message);
    }
    prefix_modifiers(rule, path, broken);
    if let Some(timeouts) = &rule.timeouts {
        check_timeouts(timeouts, &format!("{path}.timeouts"), broken);
    }
    if let Some(session) = &rule.session_persistence {
        route::session(session, &format!("{path}.sessionPersistence"), broken);
    }
}

fn check_path(HttpPathMatch { r#type, value }: &HttpPathMatch, path: &str, broken: &mut Broken) {
    if !matches!(r#type, PathMatchType::Exact | PathMatchType::PathPrefix) {
        return;
    }
    let path = format!("{path}.value");
    if !value.starts_with('/') {
        broken.add(&*path, value, format!("must start with / for type {type}"));
    }
    for part in ["//", "/./", "/../", "%2f", "%2F", "#"] {
        if value.contains(part) {
            broken.add(&*path, value, format!("must not contain {part} for type {type}"));
        }
    }
    for end in ["/..", "/."] {
        if value.ends_with(end) {
            broken.add(&*path, value, format!("must not end with {end} for type {type}"));
        }
    }
    if !PATH_PATTERN.is_match(value) {
        broken.add(&*path, value, format!("must be {} for type {type}", PATH_PATTERN.means));
    }
}

/// `replacePrefixMatch` needs to know which prefix: the rule must have one match, and that a prefix.
fn prefix_modifiers(rule: &HttpRouteRule, path: &str, broken: &mut Broken) {
    if let [only] = &rule.matches[..]
        && only.path.r#type == PathMatchType::PathPrefix
    {
        return;
    }
    let message = "a rule with replacePrefixMatch must have exactly one match, of type PathPrefix";
    for member in filter::PATH_MODIFIERS {
        let modifies = |filters: &[_]| {
            let mut modifying = filters.iter().enumerate().filter(|(_, filter)| member.replaces_prefix(filter));
            let first = modifying.next().map(|(index, _)| index);
            // The CRD asks for "exactly one", here and below: two of a kind are refused by another rule in a rule's
            // filters, and allowed to differ between backends.
            first.filter(|_| modifying.next().is_none())
        };
        if let Some(index) = modifies(&rule.filters) {
            broken.add_without_value(format!("{path}.filters[{index}].{}.path", member.name()), message);
        }
        let mut backends = rule.backend_refs.iter().enumerate();
        let mut modifying = backends.by_ref().filter_map(|(at, backend)| Some((at, modifies(&backend.filters)?)));
        if let (Some((at, index)), None) = (modifying.next(), modifying.next()) {
            let path = format!("{path}.backendRefs[{at}].filters[{index}].{}.path", member.name());
            broken.add_without_value(path, message);
        }
    }
}

fn check_timeouts(timeouts: &HttpRouteTimeouts, path: &str, broken: &mut Broken) {
    let HttpRouteTimeouts { request: Some(request), backend_request: Some(backend_request) } = timeouts else {
        return;
    };
    let (Ok(whole), Ok(attempt)) = (request.parse(), backend_request.parse()) else {
        return;
    };
    if !whole.is_zero() && attempt > whole {
        let message = format!("must not be longer than timeouts.request, which is {request}");
        broken.add(format!("{path}.backendRequest"), backend_request, message);
    }
}
