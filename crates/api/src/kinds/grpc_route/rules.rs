//! Rules across fields of a GRPCRoute.

use crate::{
    grpc_route::{GrpcMethodMatch, GrpcMethodMatchType, GrpcRouteFilter, GrpcRouteRule, GrpcRouteSpec},
    http_route::{HttpRouteFilter, rules::filter},
    schema::{
        openapi::values::{GRPC_METHOD_PATTERN, GRPC_SERVICE_PATTERN},
        rules::{Broken, reference::service_port, route},
    },
};

pub(super) fn check(spec: &GrpcRouteSpec, broken: &mut Broken) {
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

fn check_rule(rule: &GrpcRouteRule, path: &str, broken: &mut Broken) {
    for (index, found) in rule.matches.iter().enumerate() {
        if let Some(method) = &found.method {
            check_method(method, &format!("{path}.matches[{index}].method"), broken);
        }
    }
    check_filters(&rule.filters, &format!("{path}.filters"), broken);
    for (index, backend) in rule.backend_refs.iter().enumerate() {
        let path = format!("{path}.backendRefs[{index}]");
        service_port(&backend.backend_ref, &path, broken);
        check_filters(&backend.filters, &format!("{path}.filters"), broken);
    }
    if let Some(session) = &rule.session_persistence {
        route::session(session, &format!("{path}.sessionPersistence"), broken);
    }
}

fn check_method(GrpcMethodMatch { r#type, service, method }: &GrpcMethodMatch, path: &str, broken: &mut Broken) {
    if service.is_none() && method.is_none() {
        broken
            .add_without_value(path, "must have service, method or both: set one, or remove it to match every method");
    }
    if *r#type != GrpcMethodMatchType::Exact {
        return;
    }
    let parts = [("service", service, &GRPC_SERVICE_PATTERN), ("method", method, &GRPC_METHOD_PATTERN)];
    for (name, part, pattern) in parts {
        if let Some(part) = part.as_deref().filter(|part| !pattern.is_match(part)) {
            broken.add(format!("{path}.{name}"), part, format!("must be {} for type {type}", pattern.means));
        }
    }
}

fn check_filters(filters: &[GrpcRouteFilter], path: &str, broken: &mut Broken) {
    let filters: Vec<_> = filters.iter().map(HttpRouteFilter::from).collect();
    filter::check(&filters, path, broken);
}
