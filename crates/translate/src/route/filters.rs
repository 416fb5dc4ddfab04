//! Reading filters (Gateway API `HTTPRouteFilter`). None is ever skipped: what cannot be honoured is a fault.

use std::{fmt::Arguments, sync::Arc};

use api::{
    Kind,
    http_route::{
        HttpBackendRef, HttpHeaderFilter, HttpPathModifier, HttpPathModifierType, HttpRequestMirrorFilter,
        HttpRequestRedirectFilter, HttpRouteFilter, HttpRouteFilterType as Type, HttpUrlRewriteFilter,
        Scheme as ApiScheme,
    },
};
use ir::{
    Problem, Reason, RouteId, RouteKind,
    filter::{HeaderChanges, HeaderModifier, PathModifier, Redirect, Rewrite, Scheme},
    route::{ExtensionKind, ExtensionRef, Handling, MirrorSpec},
};
use units::{Refused, cors};
use validate::{self, Invalid};

use super::{at, backend_ref, fault};

/// Where filters stand, which decides what is allowed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Level<'a> {
    /// On a rule.
    Rule {
        /// Whether all its matches are prefixes, which `ReplacePrefixMatch` needs.
        prefixes_only: bool,
        /// Its route.
        owner: &'a RouteId,
    },
    /// On a backend, where Envoy can change headers and the host only.
    Backend,
}

/// Reads all filters of a list into what a rule does, references to backends left out. The first fault is told for the list: one is enough to have it replaced.
pub(super) fn read(list: &[HttpRouteFilter], level: Level<'_>, field: &str) -> Result<Handling, Problem> {
    let mut read = Handling::default();
    let mut seen: Vec<&Type> = Vec::new();
    for (index, filter) in list.iter().enumerate() {
        // Written out where there is a fault alone.
        let field = format_args!("{field}.filters[{index}]");
        let repeatable = matches!(filter.r#type, Type::RequestMirror | Type::ExtensionRef);
        if !repeatable && seen.contains(&&filter.r#type) {
            let message = format!("{} stands here twice; join the two filters into one", filter.r#type);
            return Err(fault(Reason::IncompatibleFilters, field, message));
        }
        seen.push(&filter.r#type);
        one(filter, level, field, &mut read)?;
    }
    for (other, message) in [
        (Type::UrlRewrite, "RequestRedirect and URLRewrite exclude each other; keep one of them"),
        (Type::RequestMirror, "Envoy copies no request that it redirects; keep RequestRedirect or RequestMirror"),
    ] {
        if seen.contains(&&Type::RequestRedirect) && seen.contains(&&other) {
            return Err(fault(Reason::IncompatibleFilters, format_args!("{field}.filters"), message));
        }
    }
    alone(&read, &seen)?;
    Ok(read)
}

/// Refuses backends of a rule that a DirectResponse answers.
pub(super) fn answers_alone(handling: &Handling, backends: &[HttpBackendRef], field: &str) -> Result<(), Problem> {
    if handling.direct_response().is_none() || backends.is_empty() {
        return Ok(());
    }
    let message = "a DirectResponse answers by itself, so no backend can be reached; remove one of the two";
    Err(fault(Reason::IncompatibleFilters, format_args!("{field}.backendRefs"), message))
}

/// A rule that answers by itself has nothing to send elsewhere.
fn alone(read: &Handling, seen: &[&Type]) -> Result<(), Problem> {
    let Some(answer) = read.direct_response() else { return Ok(()) };
    let answers = read.extensions.iter().filter(|extension| extension.kind == ExtensionKind::DirectResponse);
    let beside =
        [Type::RequestRedirect, Type::UrlRewrite, Type::RequestMirror].into_iter().find(|kind| seen.contains(&kind));
    let message = match beside {
        _ if answers.count() > 1 => "a rule gives one answer; keep one DirectResponse".into(),
        Some(other) => {
            format!("a DirectResponse answers by itself, so {other} cannot stand beside it; keep one of them")
        }
        None => return Ok(()),
    };
    Err(fault(Reason::IncompatibleFilters, &answer.field, message))
}

fn one(filter: &HttpRouteFilter, level: Level<'_>, field: Arguments<'_>, read: &mut Handling) -> Result<(), Problem> {
    let kind = &filter.r#type;
    if matches!(level, Level::Backend)
        && !matches!(kind, Type::RequestHeaderModifier | Type::ResponseHeaderModifier | Type::UrlRewrite)
    {
        let message = format!("{kind} cannot be done for one backend alone; move it to the rule");
        return Err(fault(Reason::UnsupportedValue, field, message));
    }
    match kind {
        Type::RequestHeaderModifier => {
            let at = format_args!("{field}.requestHeaderModifier");
            read.fields.request_headers = headers(config(filter.request_header_modifier.as_deref(), kind, at)?, at)?;
        }
        Type::ResponseHeaderModifier => {
            let at = format_args!("{field}.responseHeaderModifier");
            read.fields.response_headers = headers(config(filter.response_header_modifier.as_deref(), kind, at)?, at)?;
        }
        Type::RequestMirror => {
            let at = format_args!("{field}.requestMirror");
            if let Level::Rule { owner, .. } = level {
                read.fields.mirrors.push(mirror(config(filter.request_mirror.as_deref(), kind, at)?, owner, at)?);
            }
        }
        Type::RequestRedirect => {
            let at = format_args!("{field}.requestRedirect");
            read.redirect = Some(Box::new(redirect(config(filter.request_redirect.as_deref(), kind, at)?, level, at)?));
        }
        Type::UrlRewrite => {
            let at = format_args!("{field}.urlRewrite");
            let rewrite = rewrite(config(filter.url_rewrite.as_deref(), kind, at)?, level, at)?;
            read.fields.rewrite = (rewrite != Rewrite::default()).then(|| rewrite.into());
        }
        Type::Cors => {
            let at = format_args!("{field}.cors");
            let refused = |refused: Refused| {
                fault(Reason::UnsupportedValue, format_args!("{at}.{}", refused.field), refused.message)
            };
            read.fields.cors = Some(cors(config(filter.cors.as_deref(), kind, at)?).map_err(refused)?.into());
        }
        Type::ExtensionRef => {
            let at = format!("{field}.extensionRef");
            let reference = config(filter.extension_ref.as_deref(), kind, format_args!("{at}"))?;
            let Some(kind) = extension_kind(&reference.group, &reference.kind) else {
                let message = format!(
                    "{} {:?} of group {:?} is not a filter that is known here; remove it, or use one that is supported",
                    reference.kind, reference.name, reference.group
                );
                return Err(fault(Reason::UnsupportedValue, &at, message));
            };
            if let Level::Rule { owner, .. } = level
                && kind == ExtensionKind::RewritePolicy
                && owner.kind != RouteKind::HttpRoute
            {
                let message =
                    format!("a RewritePolicy replaces prefixes of paths, and a {} has none; remove it", owner.kind);
                return Err(fault(Reason::UnsupportedValue, &at, message));
            }
            read.extensions.push(ExtensionRef { field: at, kind, name: reference.name.clone() });
        }
        Type::ExternalAuth => {
            let message = "ExternalAuth is not supported yet, and a rule is not served without its check; remove it";
            return Err(fault(Reason::UnsupportedValue, format_args!("{field}.type"), message));
        }
        Type::Unknown(other) => {
            let message = format!("{other:?} is not a type of filter that is known here; correct or remove it");
            return Err(fault(Reason::UnsupportedValue, format_args!("{field}.type"), message));
        }
    }
    Ok(())
}

fn extension_kind(group: &str, kind: &str) -> Option<ExtensionKind> {
    match Kind::find(group, kind)? {
        Kind::TrafficPolicy => Some(ExtensionKind::TrafficPolicy),
        Kind::RewritePolicy => Some(ExtensionKind::RewritePolicy),
        Kind::DirectResponse => Some(ExtensionKind::DirectResponse),
        _ => None,
    }
}

fn config<'a, T>(config: Option<&'a T>, kind: &Type, field: Arguments<'_>) -> Result<&'a T, Problem> {
    config.ok_or_else(|| {
        fault(Reason::UnsupportedValue, field, format!("missing, though the type of the filter is {kind}"))
    })
}

fn headers(written: &HttpHeaderFilter, field: Arguments<'_>) -> Result<HeaderModifier, Problem> {
    let mut changes = HeaderChanges::default();
    validate::header::changes(written.set.len() + written.add.len()).map_err(at(field))?;
    for (list, name, into) in [(&written.set, "set", &mut changes.set), (&written.add, "add", &mut changes.add)] {
        into.reserve_exact(list.len());
        for (index, header) in list.iter().enumerate() {
            let place = format_args!("{field}.{name}[{index}]");
            let name: Arc<str> =
                validate::header::settable_name(&header.name).map_err(at(format_args!("{place}.name")))?.into();
            validate::header::value(&header.value).map_err(at(format_args!("{place}.value")))?;
            // Gateway API: of entries with an equivalent name the first counts.
            if !into.iter().any(|(other, _): &(Arc<str>, Arc<str>)| *other == name) {
                into.push((name, header.value.as_ref().into()));
            }
        }
    }
    changes.remove.reserve_exact(written.remove.len());
    for (index, name) in written.remove.iter().enumerate() {
        let name: Arc<str> =
            validate::header::modifiable_name(name).map_err(at(format_args!("{field}.remove[{index}]")))?.into();
        if !changes.remove.contains(&name) {
            changes.remove.push(name);
        }
    }
    Ok(changes.into())
}

fn mirror(written: &HttpRequestMirrorFilter, owner: &RouteId, field: Arguments<'_>) -> Result<MirrorSpec, Problem> {
    let fraction = match (&written.percent, &written.fraction) {
        (Some(_), Some(_)) => {
            let message = "percent and fraction exclude each other; keep one of them";
            return Err(fault(Reason::UnsupportedValue, field, message));
        }
        (Some(percent), None) => {
            Some((validate::number::percent((*percent).into()).map_err(at(format_args!("{field}.percent")))?, 100))
        }
        (None, Some(fraction)) => {
            let millionths = validate::number::fraction(fraction.numerator.into(), Some(fraction.denominator.into()));
            Some((millionths.map_err(at(format_args!("{field}.fraction")))?, 1_000_000))
        }
        (None, None) => None,
    };
    Ok(MirrorSpec {
        owner: owner.clone(),
        field: format!("{field}.backendRef"),
        backend: backend_ref(&written.backend_ref),
        fraction,
    })
}

fn redirect(written: &HttpRequestRedirectFilter, level: Level<'_>, field: Arguments<'_>) -> Result<Redirect, Problem> {
    let scheme = match &written.scheme {
        None => None,
        Some(ApiScheme::Http) => Some(Scheme::Http),
        Some(ApiScheme::Https) => Some(Scheme::Https),
        Some(ApiScheme::Unknown(other)) => {
            let invalid = Invalid::new(other, "it is not a scheme to redirect to", "use http or https");
            return Err(at(format_args!("{field}.scheme"))(invalid));
        }
    };
    let port = written.port.map(|port| validate::number::port(port.into())).transpose();
    let status =
        validate::number::redirect_status(written.status_code).map_err(at(format_args!("{field}.statusCode")))?;
    Ok(Redirect {
        scheme,
        hostname: hostname(written.hostname.as_ref(), field)?,
        port: port.map_err(at(format_args!("{field}.port")))?,
        path: path(
            written.path.as_ref(),
            level,
            format_args!("{field}.path"),
            [validate::path::redirect, validate::path::redirect_prefix],
        )?,
        status: u16::try_from(status).unwrap_or(302),
    })
}

fn rewrite(written: &HttpUrlRewriteFilter, level: Level<'_>, field: Arguments<'_>) -> Result<Rewrite, Problem> {
    if matches!(level, Level::Backend) && written.path.is_some() {
        let message = "the path cannot be rewritten for one backend alone; move it to the rule";
        return Err(fault(Reason::UnsupportedValue, format_args!("{field}.path"), message));
    }
    Ok(Rewrite {
        hostname: hostname(written.hostname.as_ref(), field)?,
        path: path(
            written.path.as_ref(),
            level,
            format_args!("{field}.path"),
            [validate::path::rewrite, validate::path::replace_prefix],
        )?,
    })
}

fn hostname(written: Option<&Arc<str>>, field: Arguments<'_>) -> Result<Option<Arc<str>>, Problem> {
    let Some(hostname) = written else { return Ok(None) };
    validate::hostname::precise(hostname).map_err(at(format_args!("{field}.hostname")))?;
    Ok(Some(hostname.clone()))
}

/// Says whether a text can be what it shall be.
type Judge = fn(&str) -> Result<(), Invalid>;

/// What becomes of the path; `full` and `prefix` judge what takes the place of all of it, and of the matched prefix.
fn path(
    written: Option<&HttpPathModifier>,
    level: Level<'_>,
    field: Arguments<'_>,
    [full, prefix]: [Judge; 2],
) -> Result<Option<PathModifier>, Problem> {
    let Some(modifier) = written else { return Ok(None) };
    match (&modifier.r#type, &modifier.replace_full_path, &modifier.replace_prefix_match) {
        (HttpPathModifierType::ReplaceFullPath, Some(path), _) => {
            full(path).map_err(at(format_args!("{field}.replaceFullPath")))?;
            Ok(Some(PathModifier::Full(path.as_ref().into())))
        }
        (HttpPathModifierType::ReplacePrefixMatch, _, Some(path)) => {
            let field = format_args!("{field}.replacePrefixMatch");
            if !matches!(level, Level::Rule { prefixes_only: true, .. }) {
                let message = "there is no prefix to replace, since not every match of the rule is a PathPrefix; \
                               make them so, or use ReplaceFullPath";
                return Err(fault(Reason::IncompatibleFilters, field, message));
            }
            prefix(path).map_err(at(field))?;
            Ok(Some(PathModifier::Prefix(path.as_ref().into())))
        }
        (HttpPathModifierType::Unknown(other), ..) => {
            let remedy = "use ReplaceFullPath or ReplacePrefixMatch";
            Err(at(format_args!("{field}.type"))(Invalid::new(other, "it is not a way to change a path", remedy)))
        }
        (kind, ..) => {
            let message = format!("the value that belongs to type {kind} is missing");
            Err(fault(Reason::UnsupportedValue, field, message))
        }
    }
}
