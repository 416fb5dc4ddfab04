//! New paths and redirects.

use envoy_types::pb::envoy::{
    config::route::v3::{
        RedirectAction,
        redirect_action::{PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier},
    },
    r#type::matcher::v3::RegexMatchAndSubstitute,
};
use ir::{
    filter::{PathModifier, PrefixReplacement, Redirect},
    matching::{PathMatch, RequestMatch},
};

use super::{RouteAt, matching::regex};

/// How Envoy makes the new path. The query string is kept by each of them.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PathRewrite {
    /// It does not change.
    Keep,
    /// The matched text is replaced.
    Matched(String),
    /// A pattern and what stands for its match.
    Regex(RegexMatchAndSubstitute),
}

impl PathRewrite {
    /// `prefix_rewrite` and `regex_rewrite` of a route action.
    pub(super) fn into_fields(self) -> (String, Option<RegexMatchAndSubstitute>) {
        match self {
            Self::Keep => (String::new(), None),
            Self::Matched(text) => (text, None),
            Self::Regex(substitute) => (String::new(), Some(substitute)),
        }
    }
}

/// None where a prefix is to be replaced and the match has none.
pub(super) fn rewrite(request: &RequestMatch, modifier: &PathModifier) -> Option<PathRewrite> {
    match modifier {
        PathModifier::Full(path) => Some(PathRewrite::Regex(substitute("^.*$".into(), path))),
        PathModifier::Prefix(replacement) => replace_prefix(request, replacement),
        PathModifier::Prefixes(entries) => match PrefixReplacement::choose(entries, request.replaceable_prefix()?) {
            Some(entry) => replace_prefix(request, &entries[entry].replacement),
            None => Some(PathRewrite::Keep),
        },
        PathModifier::Regex { pattern, substitution } => Some(PathRewrite::Regex(RegexMatchAndSubstitute {
            pattern: Some(regex(pattern.to_string())),
            substitution: substitution.to_string(),
        })),
    }
}

/// Replacement and rest of the path, or `/` where both are empty; trailing slashes of prefix and replacement do not
/// count.
fn replace_prefix(request: &RequestMatch, replacement: &str) -> Option<PathRewrite> {
    let prefix = request.replaceable_prefix()?;
    let replacement = replacement.trim_end_matches('/');
    Some(match &request.path {
        // The match ends before the slash of the rest, so that an empty replacement would leave an empty path.
        PathMatch::Segments(_) if replacement.is_empty() => {
            PathRewrite::Regex(substitute(format!("^{}/?", quoted(prefix)), "/"))
        }
        PathMatch::Exact(_) if replacement.is_empty() => PathRewrite::Matched("/".into()),
        PathMatch::Segments(_) | PathMatch::Exact(_) => PathRewrite::Matched(replacement.into()),
        PathMatch::Prefix(_) if prefix.is_empty() && replacement.is_empty() => PathRewrite::Keep,
        PathMatch::Prefix(_) => PathRewrite::Matched(format!("{replacement}/")),
        PathMatch::Regex(_) => return None,
    })
}

fn substitute(pattern: String, replacement: &str) -> RegexMatchAndSubstitute {
    RegexMatchAndSubstitute {
        pattern: Some(regex(pattern)),
        // A backslash begins a reference to a group.
        substitution: replacement.replace('\\', "\\\\"),
    }
}

/// A pattern that matches this text and nothing else.
pub(super) fn quoted(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if character.is_ascii_punctuation() && !matches!(character, '/' | '-' | '_') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

/// None where a prefix is to be replaced and the match has none.
pub(super) fn redirect(request: &RequestMatch, redirect: &Redirect, at: RouteAt) -> Option<RedirectAction> {
    let path = match &redirect.path {
        None => None,
        Some(PathModifier::Full(path)) => Some(PathRewriteSpecifier::PathRedirect(path.to_string())),
        Some(modifier) => match rewrite(request, modifier)? {
            PathRewrite::Keep => None,
            PathRewrite::Matched(text) => Some(PathRewriteSpecifier::PrefixRewrite(text)),
            PathRewrite::Regex(substitute) => Some(PathRewriteSpecifier::RegexRewrite(substitute)),
        },
    };
    Some(RedirectAction {
        scheme_rewrite_specifier: redirect
            .scheme
            .map(|scheme| SchemeRewriteSpecifier::SchemeRedirect(scheme.as_str().into())),
        host_redirect: redirect.hostname.as_deref().unwrap_or_default().into(),
        port_redirect: match port(redirect, at) {
            Port::Written(port) => port.into(),
            // Envoy takes the client's host with its port, unless it is told another.
            Port::Implied(port) if request.host_with_port => port.into(),
            Port::Implied(_) => 0,
        },
        path_rewrite_specifier: path,
        response_code: response_code(redirect.status) as i32,
        ..RedirectAction::default()
    })
}

/// The port of a location.
enum Port {
    /// It stands there.
    Written(u16),
    /// It is left out, since the scheme implies it.
    Implied(u16),
}

/// The port of the location (Gateway API, `HTTPRequestRedirectFilter.port`): the one that is given, else the scheme's
/// where a scheme is given, else the listener's.
fn port(redirect: &Redirect, at: RouteAt) -> Port {
    let implied = redirect.scheme.unwrap_or(at.scheme).well_known_port();
    let port = redirect.port.unwrap_or(if redirect.scheme.is_some() { implied } else { at.port });
    if port == implied { Port::Implied(port) } else { Port::Written(port) }
}

/// Whether the location has the client's host without a port. Envoy would keep the port that the client wrote there,
/// so requests whose host names one need a route of their own.
pub(super) fn drops_port(redirect: &Redirect, at: RouteAt) -> bool {
    redirect.hostname.is_none() && matches!(port(redirect, at), Port::Implied(_))
}

fn response_code(status: u16) -> RedirectResponseCode {
    match status {
        301 => RedirectResponseCode::MovedPermanently,
        303 => RedirectResponseCode::SeeOther,
        307 => RedirectResponseCode::TemporaryRedirect,
        308 => RedirectResponseCode::PermanentRedirect,
        _ => RedirectResponseCode::Found,
    }
}
