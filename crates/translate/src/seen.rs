//! What stands in the tables, for people: Envoy routes read back from their bytes, and words.

use std::fmt;

use envoy::{
    bytes::Row,
    route::{BROKEN_CLUSTER, route_match},
};
use envoy_types::pb::{
    envoy::{
        config::{
            core::v3::{DataSource, data_source::Specifier},
            route::v3::{
                HeaderMatcher, Route, RouteMatch, header_matcher::HeaderMatchSpecifier,
                query_parameter_matcher::QueryParameterMatchSpecifier, redirect_action::RedirectResponseCode,
                route::Action, route_action::ClusterSpecifier, route_match::PathSpecifier,
            },
        },
        r#type::matcher::v3::string_matcher::MatchPattern,
    },
    google::protobuf::UInt32Value,
};
use ir::{
    Problem,
    matching::{Match, Origin},
    problem::legible,
};
use prost::Message;
use serde::Serialize;

use crate::{
    resolve::Resolved,
    tables::{
        backend::{ClusterId, Shares},
        gateway::Fault,
    },
};

/// One thing that is wrong, and the object whose owner can mend it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Told {
    /// Whose owner must act: `HTTPRoute NAMESPACE/NAME`.
    pub object: String,
    /// The reason, as in a condition.
    pub reason: &'static str,
    /// The field; empty where it is not one field that is wrong.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// What is wrong, and the remedy.
    pub message: String,
}

impl Told {
    pub(crate) fn problem(object: &str, problem: &Problem) -> Self {
        let Problem { reason, field, message, .. } = problem;
        Self { object: object.into(), reason, field: field.clone(), message: message.clone() }
    }

    pub(crate) fn fault(object: &str, fault: &Fault) -> Self {
        let Fault { reason, field, message } = fault;
        Self { object: object.into(), reason, field: field.clone(), message: message.clone() }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, reason, field, message } = self;
        if field.is_empty() {
            write!(f, "{reason}: {message} ({object})")
        } else {
            write!(f, "{reason}: {field}: {message} ({object})")
        }
    }
}

/// What an Envoy route does with a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Answer {
    /// It goes to one of these, by weight.
    Backends {
        /// Each share, in the order of the rule.
        backends: Vec<Share>,
    },
    /// The client is sent elsewhere.
    Redirect {
        /// The status code.
        status: u32,
    },
    /// Envoy answers by itself.
    DirectResponse {
        /// The status code.
        status: u32,
        /// The body.
        #[serde(skip_serializing_if = "String::is_empty")]
        body: String,
    },
}

/// One share of a rule's requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    /// The Service, as `NAMESPACE/NAME`; none for a share that is broken and answers 500.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The Service's port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Its part of the sum of all weights.
    pub weight: u32,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backends { backends } => {
                for (index, share) in backends.iter().enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    match (&share.service, share.port) {
                        (Some(service), Some(port)) => write!(f, "{comma}Service {service} port {port}")?,
                        _ => write!(f, "{comma}500")?,
                    }
                    if backends.len() > 1 {
                        write!(f, " (weight {})", share.weight)?;
                    }
                }
                Ok(())
            }
            Self::Redirect { status } => write!(f, "a redirect, {status}"),
            Self::DirectResponse { status, body } if body.is_empty() => write!(f, "{status}"),
            Self::DirectResponse { status, body } => write!(f, "{status} {:?}", legible(body.clone())),
        }
    }
}

/// An Envoy route, read from its bytes.
pub(crate) struct SeenRoute {
    /// The message.
    pub(crate) message: Route,
    /// The match that it is made from.
    pub(crate) origin: Origin,
}

impl SeenRoute {
    /// None for what is no route of ours.
    pub(crate) fn read(origin: Option<Origin>, row: &Row) -> Option<Self> {
        Some(Self { message: Route::decode(&*row.bytes).ok()?, origin: origin? })
    }

    /// What it does; `resolved` is its rule.
    pub(crate) fn answer(&self, resolved: Option<&Resolved>) -> Answer {
        match &self.message.action {
            Some(Action::Route(action)) => Answer::Backends {
                backends: match &action.cluster_specifier {
                    Some(ClusterSpecifier::Cluster(cluster)) => shares(resolved, cluster, 1),
                    Some(ClusterSpecifier::WeightedClusters(weighted)) => {
                        let weight = |weight: &Option<_>| weight.map_or(0, |UInt32Value { value }| value);
                        let clusters = weighted.clusters.iter();
                        clusters.flat_map(|share| shares(resolved, &share.name, weight(&share.weight))).collect()
                    }
                    _ => Vec::new(),
                },
            },
            Some(Action::Redirect(redirect)) => Answer::Redirect {
                status: match redirect.response_code() {
                    RedirectResponseCode::MovedPermanently => 301,
                    RedirectResponseCode::Found => 302,
                    RedirectResponseCode::SeeOther => 303,
                    RedirectResponseCode::TemporaryRedirect => 307,
                    RedirectResponseCode::PermanentRedirect => 308,
                },
            },
            Some(Action::DirectResponse(direct)) => {
                Answer::DirectResponse { status: direct.status, body: inline(direct.body.as_ref()) }
            }
            _ => Answer::DirectResponse { status: 500, body: String::new() },
        }
    }
}

fn inline(body: Option<&DataSource>) -> String {
    match body.and_then(|body| body.specifier.as_ref()) {
        Some(Specifier::InlineString(text)) => text.clone(),
        _ => String::new(),
    }
}

fn shares(resolved: Option<&Resolved>, cluster: &str, weight: u32) -> Vec<Share> {
    let broken = Share { service: None, port: None, weight };
    if cluster == BROKEN_CLUSTER {
        return vec![broken];
    }
    let clusters = resolved.into_iter().flat_map(|resolved| &resolved.clusters);
    match clusters.into_iter().find(|id| id.name() == cluster) {
        Some(ClusterId::Service(port)) => {
            vec![Share { service: Some(port.service.to_string()), port: Some(port.port), weight }]
        }
        Some(ClusterId::Rule(..)) => {
            // The rule's own.
            let session = resolved.and_then(|resolved| resolved.session.as_deref());
            let Some(Shares { shares, .. }) = session else { return vec![broken] };
            let share = |(port, weight): &(ir::backend::ServicePort, u32)| Share {
                service: Some(port.service.to_string()),
                port: Some(port.port),
                weight: *weight,
            };
            shares.iter().map(share).collect()
        }
        None => vec![broken],
    }
}

/// A match as its author would say it.
pub(crate) fn written_in_words(written: &Match) -> String {
    written.requests().next().map(|request| match_in_words(&route_match(&request))).unwrap_or_default()
}

/// What an Envoy route matches, in the words of Gateway API.
pub(crate) fn match_in_words(matching: &RouteMatch) -> String {
    let path = match &matching.path_specifier {
        Some(PathSpecifier::Path(path)) => format!("Exact {path}"),
        Some(PathSpecifier::PathSeparatedPrefix(path) | PathSpecifier::Prefix(path)) => format!("PathPrefix {path}"),
        Some(PathSpecifier::SafeRegex(regex)) => format!("RegularExpression {}", regex.regex),
        _ => "any path".into(),
    };
    let method = matching.headers.iter().find(|header| header.name == ":method");
    let method = method.and_then(header_pattern).map(|pattern| format!("{} ", value_in_words(pattern).1));
    let mut parts = vec![method.unwrap_or_default() + &path];
    for header in matching.headers.iter().filter(|header| !is_implied(header) && header.name != ":method") {
        parts.push(header_in_words(header));
    }
    for query in &matching.query_parameters {
        if let Some(QueryParameterMatchSpecifier::StringMatch(string)) = &query.query_parameter_match_specifier {
            let pattern = string.match_pattern.as_ref().map(value_in_words);
            let (sign, value) = pattern.unwrap_or(("=", ""));
            parts.push(format!("query {}{sign}{value}", query.name));
        }
    }
    legible(parts.join(", "))
}

/// Whether a condition says nothing that others do not say.
pub(crate) fn is_implied(header: &HeaderMatcher) -> bool {
    header.name == ":path" || header.invert_match
}

/// What a condition on a header asks for.
pub(crate) fn header_in_words(header: &HeaderMatcher) -> String {
    match (&*header.name, header_pattern(header).map(value_in_words)) {
        (":authority", _) => "a host with a port".into(),
        (name, Some(("=", value))) => format!("header {name}: {value}"),
        (name, Some((sign, value))) => format!("header {name} {sign} {value}"),
        (name, None) => format!("header {name}"),
    }
}

/// What a header is compared with.
pub(crate) fn header_pattern(header: &HeaderMatcher) -> Option<&MatchPattern> {
    match &header.header_match_specifier {
        Some(HeaderMatchSpecifier::StringMatch(string)) => string.match_pattern.as_ref(),
        _ => None,
    }
}

fn value_in_words(pattern: &MatchPattern) -> (&'static str, &str) {
    match pattern {
        MatchPattern::Exact(text) => ("=", text),
        MatchPattern::SafeRegex(regex) => ("~", &regex.regex),
        _ => ("=", ""),
    }
}
