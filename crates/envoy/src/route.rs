//! `envoy.config.route.v3.Route`: one match of one rule.

use envoy_types::pb::envoy::config::{
    core::v3::{DataSource, SubstitutionFormatString, data_source::Specifier, substitution_format_string::Format},
    route::v3::{
        DirectResponseAction, Route, RouteAction, WeightedCluster,
        route::Action as EnvoyAction,
        route_action::{ClusterNotFoundResponseCode, ClusterSpecifier, HostRewriteSpecifier},
        weighted_cluster::{ClusterWeight, cluster_weight},
    },
};
use prost::Message;

use ir::{
    RouteKind,
    filter::{HeaderModifier, Scheme},
    matching::RequestMatch,
    rule::{Action, BodyContent, BodyFormat, Rule, Source, WeightedBackend},
};

use crate::bytes::{Fields, Row, Unreadable, json_structure, tag};
use crate::{boolean, duration, uint32};

mod filters;
mod hash;
mod matching;
mod outline;
mod path;
mod plain;
#[cfg(test)]
mod tests;

pub use filters::cors;
pub use matching::GuardedMatch;
pub use outline::{Outline, outline};
pub use plain::plain;

/// A cluster that never exists, since names of clusters begin with the kind of their backend: where the broken share
/// of a rule goes.
pub const BROKEN_CLUSTER: &str = "broken";

/// How a client reaches a listener, which a redirect that keeps its port repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RouteAt {
    /// `https` where the listener ends TLS.
    pub scheme: Scheme,
    /// The listener's port as its Gateway has it, not the port that Envoy binds.
    pub port: u16,
}

/// Whether the route of this rule differs between listeners; rows of other rules are shared by all of them.
pub fn depends_on_listener(rule: &Rule) -> bool {
    matches!(rule.action, Action::Redirect(_))
}

/// Whether each match of this rule needs a second Envoy route before its own, for requests whose host names a port
/// ([`RequestMatch::host_with_port`]).
pub fn splits_by_host_port(rule: &Rule, at: RouteAt) -> bool {
    matches!(&rule.action, Action::Redirect(redirect) if path::drops_port(redirect, at))
}

/// The Envoy route of one match of a rule, or why Envoy could not read it.
pub fn route(source: &Source, matching: &GuardedMatch, rule: &Rule, at: RouteAt) -> Result<Row, Unreadable> {
    let action = action(source.route.kind, matching.request(), rule, at);
    let nothing = HeaderModifier::default();
    // Envoy applies the changes of a share before those of its route, so a route whose shares have some has none itself.
    let request_headers = match &action {
        EnvoyAction::Route(_) if !shares_change(rule, |share| &share.request_headers) => &rule.filters.request_headers,
        _ => &nothing,
    };
    let response_headers = match &action {
        EnvoyAction::Route(_) if shares_change(rule, |share| &share.response_headers) => &nothing,
        _ => &rule.filters.response_headers,
    };
    let route = Route {
        name: source.name(),
        r#match: Some(matching.message()),
        action: Some(action),
        request_headers_to_add: filters::headers_to_add(request_headers),
        request_headers_to_remove: filters::headers_to_remove(request_headers),
        response_headers_to_add: filters::headers_to_add(response_headers),
        response_headers_to_remove: filters::headers_to_remove(response_headers),
        stat_prefix: rule.by_policy.stat_prefix.as_ref().map(|prefix| prefix.of(source)).unwrap_or_default(),
        ..Route::default()
    };
    let mut fields = Fields::of(&route);
    if let Action::Formatted { format, .. } = &rule.action {
        // Behind what the route says of the same answer, to which it is added.
        fields = fields.message(tag::ROUTE_DIRECT_RESPONSE, &body_format(format));
    }
    if let Some(tracing) = &rule.by_policy.tracing {
        fields = fields.message(tag::ROUTE_TRACING, tracing);
    }
    Row::new(fields.map(tag::ROUTE_TYPED_PER_FILTER_CONFIG, filters::per_filter_config(source, rule)).into_bytes())
}

/// A route that answers by itself to what another of a kind of routes matches; none for what is no route.
pub fn closed(kind: RouteKind, row: &Row) -> Option<Row> {
    let Route { name, r#match, .. } = Route::decode(&*row.bytes).ok()?;
    let route = Route { name, r#match, action: Some(direct_response(kind.broken_status(), "")), ..Route::default() };
    Row::new(route.encode_to_vec()).ok()
}

fn shares_change(rule: &Rule, modifier: fn(&WeightedBackend) -> &HeaderModifier) -> bool {
    matches!(&rule.action, Action::Forward(shares) if shares.iter().any(|share| !modifier(share).is_empty()))
}

fn action(kind: RouteKind, request: &RequestMatch, rule: &Rule, at: RouteAt) -> EnvoyAction {
    let action = match &rule.action {
        Action::Forward(backends) => forward(kind, request, rule, backends).map(EnvoyAction::Route),
        Action::Redirect(redirect) => path::redirect(request, redirect, at).map(EnvoyAction::Redirect),
        Action::DirectResponse { status, body } => return direct_response(*status, body),
        Action::Formatted { status, .. } => return direct_response(*status, ""),
    };
    // Nothing to forward to, or a prefix to replace where the match has none: fail closed.
    action.unwrap_or_else(|| direct_response(kind.broken_status(), ""))
}

fn direct_response(status: u16, body: &str) -> EnvoyAction {
    let body = (!body.is_empty())
        .then(|| DataSource { specifier: Some(Specifier::InlineString(body.into())), ..DataSource::default() });
    EnvoyAction::DirectResponse(DirectResponseAction { status: status.into(), body, ..DirectResponseAction::default() })
}

/// The part of an encoded `DirectResponseAction` that has the body.
fn body_format(body: &BodyFormat) -> Vec<u8> {
    let format = match &body.content {
        BodyContent::Text(text) => Some(Format::TextFormatSource(DataSource {
            specifier: Some(Specifier::InlineString(text.to_string())),
            ..DataSource::default()
        })),
        BodyContent::Json(_) => None,
    };
    let content_type = body.content_type.as_deref().unwrap_or_default().into();
    let mut fields =
        Fields::of(&SubstitutionFormatString { content_type, format, ..SubstitutionFormatString::default() });
    if let BodyContent::Json(json) = &body.content {
        let json = serde_json::from_str(json).unwrap_or_default();
        fields = fields.message(tag::FORMAT_JSON_FORMAT, &json_structure(&json));
    }
    Fields::default().message(tag::DIRECT_RESPONSE_BODY_FORMAT, &fields.into_bytes()).into_bytes()
}

fn forward(kind: RouteKind, request: &RequestMatch, rule: &Rule, backends: &[WeightedBackend]) -> Option<RouteAction> {
    let shares: Vec<_> = backends.iter().filter(|backend| backend.weight > 0).collect();
    if shares.iter().all(|share| share.cluster.is_none()) {
        return None;
    }
    let is_broken = shares.iter().any(|share| share.cluster.is_none());
    let not_found = if is_broken && kind.broken_status() == 500 {
        ClusterNotFoundResponseCode::InternalServerError
    } else {
        ClusterNotFoundResponseCode::ServiceUnavailable
    };
    let rewrite = match &rule.filters.rewrite.path {
        Some(modifier) => path::rewrite(request, modifier)?,
        None => path::PathRewrite::Keep,
    };
    let (prefix_rewrite, regex_rewrite) = rewrite.into_fields();
    let literal = rule.filters.rewrite.hostname.as_deref();
    let host_rewrite = literal.map(|host| HostRewriteSpecifier::HostRewriteLiteral(host.into()));
    let own_hostname =
        || rule.by_policy.auto_host_rewrite.then(|| HostRewriteSpecifier::AutoHostRewrite(boolean(true)));
    Some(RouteAction {
        cluster_specifier: Some(cluster_specifier(rule, &shares)),
        cluster_not_found_response_code: not_found as i32,
        prefix_rewrite,
        regex_rewrite,
        host_rewrite_specifier: host_rewrite.or_else(own_hostname),
        // Zero switches off the 15 s that Envoy has otherwise, which cut long answers.
        timeout: Some(duration(rule.timeouts.request.unwrap_or_default())),
        idle_timeout: rule.timeouts.stream_idle.or_else(|| rule.timeouts.silence()).map(duration),
        retry_policy: filters::retry_policy(rule),
        hash_policy: rule.by_policy.hash.iter().map(hash::policy).collect(),
        internal_redirect_policy: rule.by_policy.internal_redirect.as_deref().map(filters::internal_redirect),
        request_mirror_policies: rule
            .filters
            .mirrors
            .iter()
            .map(|mirror| filters::mirror(mirror, &rule.by_policy.mirror_host))
            .collect(),
        ..RouteAction::default()
    })
}

fn cluster_specifier(rule: &Rule, shares: &[&WeightedBackend]) -> ClusterSpecifier {
    if let [WeightedBackend { cluster: Some(cluster), request_headers, response_headers, hostname: None, .. }] = shares
        && request_headers.is_empty()
        && response_headers.is_empty()
    {
        return ClusterSpecifier::Cluster(cluster.to_string());
    }
    ClusterSpecifier::WeightedClusters(WeightedCluster {
        clusters: shares.iter().map(|share| cluster_weight(rule, share)).collect(),
        ..WeightedCluster::default()
    })
}

fn cluster_weight(rule: &Rule, share: &WeightedBackend) -> ClusterWeight {
    let modifier = |of_rule: &HeaderModifier, of_share: fn(&WeightedBackend) -> &HeaderModifier| {
        if shares_change(rule, of_share) { of_rule.then(of_share(share)) } else { HeaderModifier::default() }
    };
    let request_headers = modifier(&rule.filters.request_headers, |share| &share.request_headers);
    let response_headers = modifier(&rule.filters.response_headers, |share| &share.response_headers);
    let hostname = share.hostname.as_deref();
    ClusterWeight {
        name: share.cluster.as_deref().unwrap_or(BROKEN_CLUSTER).into(),
        weight: Some(uint32(share.weight)),
        request_headers_to_add: filters::headers_to_add(&request_headers),
        request_headers_to_remove: filters::headers_to_remove(&request_headers),
        response_headers_to_add: filters::headers_to_add(&response_headers),
        response_headers_to_remove: filters::headers_to_remove(&response_headers),
        host_rewrite_specifier: hostname
            .map(|host| cluster_weight::HostRewriteSpecifier::HostRewriteLiteral(host.into())),
        ..ClusterWeight::default()
    }
}
