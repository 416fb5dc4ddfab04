//! What becomes of a request that a route takes, read from the Envoy route.

use envoy::extension;
use envoy_types::pb::envoy::{
    config::{
        core::v3::{HeaderValueOption, header_value_option::HeaderAppendAction},
        route::v3::{
            RedirectAction, Route, RouteAction, RouteMatch,
            redirect_action::{PathRewriteSpecifier, SchemeRewriteSpecifier},
            route::Action,
            route_action::{ClusterSpecifier, HostRewriteSpecifier},
            route_match::PathSpecifier,
            weighted_cluster::cluster_weight,
        },
    },
    extensions::{
        filters::http::stateful_session::v3::{StatefulSessionPerRoute, stateful_session_per_route},
        http::stateful_session::{cookie::v3::CookieBasedSessionState, header::v3::HeaderBasedSessionState},
    },
    r#type::matcher::v3::RegexMatchAndSubstitute,
};
use ir::{filter::Scheme, problem::legible};
use prost::Message;
use regex::bytes::Captures;

use crate::{bytewise::compiled, matching::Sent, request::host_and_port};

/// The URL that a backend is asked for.
pub(crate) fn forwarded(route: &Route, action: &RouteAction, sent: &Sent<'_>) -> String {
    let path = new_path(route.r#match.as_ref(), &action.prefix_rewrite, action.regex_rewrite.as_ref(), sent.path);
    let host = match &action.host_rewrite_specifier {
        Some(HostRewriteSpecifier::HostRewriteLiteral(host)) => host,
        _ => &sent.asked,
    };
    format!("{}://{host}{path}{}", sent.request.scheme.as_str(), query(sent))
}

fn query(sent: &Sent<'_>) -> String {
    sent.query.map(|query| format!("?{query}")).unwrap_or_default()
}

fn new_path(
    matching: Option<&RouteMatch>,
    prefix_rewrite: &str,
    regex_rewrite: Option<&RegexMatchAndSubstitute>,
    path: &str,
) -> String {
    if !prefix_rewrite.is_empty() {
        let matched = match matching.and_then(|matching| matching.path_specifier.as_ref()) {
            Some(PathSpecifier::Prefix(prefix) | PathSpecifier::PathSeparatedPrefix(prefix)) => prefix.len(),
            _ => path.len(),
        };
        return format!("{prefix_rewrite}{}", path.get(matched..).unwrap_or_default());
    }
    let Some(rewrite) = regex_rewrite else { return path.to_owned() };
    let pattern = rewrite.pattern.as_ref().and_then(|pattern| compiled(&pattern.regex));
    let Some(pattern) = pattern else { return path.to_owned() };
    let replaced =
        pattern.replace_all(path.as_bytes(), |found: &Captures<'_>| substituted(&rewrite.substitution, found));
    String::from_utf8_lossy(&replaced).into_owned()
}

/// RE2's `\N` is group N, and `\\` a backslash.
fn substituted(substitution: &str, found: &Captures<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut characters = substitution.chars();
    while let Some(c) = characters.next() {
        match (c, if c == '\\' { characters.next() } else { None }) {
            ('\\', Some(digit)) if digit.is_ascii_digit() => {
                let group = digit.to_digit(10).and_then(|digit| found.get(digit as usize));
                out.extend(group.map_or(&b""[..], |group| group.as_bytes()));
            }
            ('\\', Some(other)) => out.extend(other.encode_utf8(&mut [0; 4]).bytes()),
            _ => out.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    out
}

/// Where a client is sent.
pub(crate) fn location(route: &Route, redirect: &RedirectAction, sent: &Sent<'_>) -> String {
    let own = sent.request.scheme;
    let scheme = match &redirect.scheme_rewrite_specifier {
        Some(SchemeRewriteSpecifier::SchemeRedirect(scheme)) => scheme,
        Some(SchemeRewriteSpecifier::HttpsRedirect(true)) => Scheme::Https.as_str(),
        _ => own.as_str(),
    };
    let port = if redirect.port_redirect > 0 { format!(":{}", redirect.port_redirect) } else { String::new() };
    let host = if redirect.host_redirect.is_empty() {
        let (host, written) = host_and_port(&sent.asked);
        let implied = scheme != own.as_str() && written == Some(&*own.well_known_port().to_string());
        if port.is_empty() && !implied { &sent.asked } else { host }
    } else {
        &redirect.host_redirect
    };
    let matching = route.r#match.as_ref();
    let path = match &redirect.path_rewrite_specifier {
        // Translation writes no templates.
        None | Some(PathRewriteSpecifier::PathRewrite(_)) => sent.path.to_owned(),
        Some(PathRewriteSpecifier::PathRedirect(path)) => path.clone(),
        Some(PathRewriteSpecifier::PrefixRewrite(prefix)) => new_path(matching, prefix, None, sent.path),
        Some(PathRewriteSpecifier::RegexRewrite(rewrite)) => new_path(matching, "", Some(rewrite), sent.path),
    };
    format!("{scheme}://{host}{port}{path}{}", query(sent))
}

/// Each thing that a route does to a request or its response: what, and in words how.
pub(crate) fn effects(route: &Route) -> Vec<(&'static str, String)> {
    let mut effects = Vec::new();
    let mut add = |what, value: String| {
        if !value.is_empty() {
            effects.push((what, legible(value)));
        }
    };
    for (field, words) in units::explain(route) {
        add(field, words);
    }
    add("requestHeaderModifier", headers(&route.request_headers_to_add, &route.request_headers_to_remove));
    add("responseHeaderModifier", headers(&route.response_headers_to_add, &route.response_headers_to_remove));
    if let Some(config) = route.typed_per_filter_config.get(extension::STATEFUL_SESSION) {
        add("sessionPersistence", session(&config.value).unwrap_or("a client stays with a backend".into()));
    }
    if let Some(Action::Route(RouteAction {
        cluster_specifier: Some(ClusterSpecifier::WeightedClusters(all)), ..
    })) = &route.action
    {
        for share in &all.clusters {
            let request = headers(&share.request_headers_to_add, &share.request_headers_to_remove);
            let response = headers(&share.response_headers_to_add, &share.response_headers_to_remove);
            let host = match &share.host_rewrite_specifier {
                Some(cluster_weight::HostRewriteSpecifier::HostRewriteLiteral(host)) => format!("host {host}"),
                _ => String::new(),
            };
            let parts = [("request: ", request), ("response: ", response), ("", host)];
            let parts = parts.into_iter().filter(|(_, part)| !part.is_empty());
            let parts: Vec<_> = parts.map(|(what, part)| format!("{what}{part}")).collect();
            if !parts.is_empty() {
                add("backendRefs", format!("{} has {}", share.name, parts.join("; ")));
            }
        }
    }
    effects.sort();
    effects
}

fn headers(added: &[HeaderValueOption], removed: &[String]) -> String {
    let written = added.iter().filter_map(|option| {
        let header = option.header.as_ref()?;
        let verb = if option.append_action() == HeaderAppendAction::AppendIfExistsOrAdd { "add" } else { "set" };
        Some(format!("{verb} {}: {}", header.key, header.value.replace("%%", "%")))
    });
    written.chain(removed.iter().map(|name| format!("remove {name}"))).collect::<Vec<_>>().join(", ")
}

fn session(config: &[u8]) -> Option<String> {
    let config = StatefulSessionPerRoute::decode(config).ok()?;
    let stateful_session_per_route::Override::StatefulSession(session) = config.r#override? else { return None };
    let state = session.session_state?.typed_config?;
    if let Some(cookie) =
        CookieBasedSessionState::decode(&*state.value).ok().filter(|_| state.type_url.contains("cookie"))
    {
        return Some(format!("by cookie {}", cookie.cookie?.name));
    }
    Some(format!("by header {}", HeaderBasedSessionState::decode(&*state.value).ok()?.name))
}
