//! `rateLimit.global`: a service counts requests, of all proxies together.

use std::{collections::BTreeSet, sync::Arc};

use api::gateway_extension::ExtensionReference;
use envoy::{bytes::any, extensions::computed, slots};
use envoy_types::pb::envoy::{
    config::{
        core::v3::TypedExtensionConfig,
        rbac::v3::{
            Permission, Policy, Principal, Rbac as Rules,
            permission::{self, Rule},
            principal::Identifier,
        },
        route::v3::{
            HeaderMatcher, RateLimit as EnvoyDescriptor, Route,
            header_matcher::HeaderMatchSpecifier,
            rate_limit::{
                Action,
                action::{ActionSpecifier, GenericKey, RemoteAddress, RequestHeaders},
            },
        },
    },
    extensions::filters::http::{ratelimit::v3::RateLimit as EnvoyLimit, rbac::v3::Rbac},
    r#type::matcher::v3::{RegexMatcher, StringMatcher, string_matcher::MatchPattern},
};
use ir::rule::Slot;
use serde::Deserialize;
use validate::header;

use super::{
    Extension, Others, Refused, Unit,
    extension::{self, Provider, rate_limit},
    spec,
};

/// Most descriptors, and most entries of each: each request asks about all of them.
const MOST: usize = 16;

/// Longest key or value.
const LONGEST: usize = 256;

/// What a service takes as text: UTF-8, byte by byte, as Envoy's expressions are. One that has to read anything else gives no answer,
/// for which a limit may be open.
const TEXT: &str = concat!(
    r"(?:[\x00-\x7F]|[\xC2-\xDF][\x80-\xBF]",
    r"|\xE0[\xA0-\xBF][\x80-\xBF]|[\xE1-\xEC\xEE\xEF][\x80-\xBF]{2}|\xED[\x80-\x9F][\x80-\xBF]",
    r"|\xF0[\x90-\xBF][\x80-\xBF]{2}|[\xF1-\xF3][\x80-\xBF]{3}|\xF4[\x80-\x8F][\x80-\xBF]{2})*",
);

/// The filter in front of the one that asks.
const FRONT: &str = "rateLimit.global.text";

/// How many requests are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalRateLimit {
    /// What is counted.
    descriptors: Vec<Vec<Entry>>,
    by: By,
}

/// Who counts.
#[derive(Clone, Debug, PartialEq, Eq)]
enum By {
    /// Who is named, and was not looked up yet.
    Named(ExtensionReference),
    /// This one.
    This(Arc<Extension>),
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    descriptors: Option<Vec<Descriptor>>,
    extension_ref: Option<ExtensionReference>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Descriptor {
    entries: Vec<WrittenEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenEntry {
    r#type: String,
    generic: Option<Generic>,
    header: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Generic {
    key: String,
    value: String,
}

/// A part of what is counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Generic {
        key: String,
        value: String,
    },
    /// Its key is the name as it is written: services know limits by it.
    Header {
        name: String,
        key: String,
    },
    RemoteAddress,
    /// Without the query.
    Path,
}

impl Unit for GlobalRateLimit {
    const FIELD: &'static str = "rateLimit.global";
    const HOLDS_FOR_ANSWERS: bool = false;
    const SLOTS: &'static [&'static str] = &[slots::GLOBAL_RATE_LIMIT];
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"extensionRef": {"name": "counter", "namespace": "apps"}, "descriptors": [{"entries": [{"type": "Path"}]}]}"#,
        other: r#"{"extensionRef": {"name": "counter", "namespace": "apps"}, "descriptors": [{"entries": [{"type": "RemoteAddress"}]}]}"#,
        merged: None,
        off: None,
        refused: Some(r#"{"extensionRef": {"name": "counter", "namespace": "apps"}, "descriptors": []}"#),
    };
    type Spec = Spec;

    fn read(written: Spec) -> Result<Self, Refused> {
        let extension =
            written.extension_ref.ok_or_else(|| Refused::new("extensionRef", "it is missing; name who counts"))?;
        extension::named(&extension)?;
        let descriptors = written.descriptors.unwrap_or_default();
        some(&descriptors, "descriptors")?;
        let read = descriptors.into_iter().enumerate().map(|(index, Descriptor { entries })| {
            let field = format!("descriptors[{index}].entries");
            some(&entries, &field)?;
            entries.into_iter().enumerate().map(|(index, entry)| entry.read(&format!("{field}[{index}]"))).collect()
        });
        Ok(Self { descriptors: read.collect::<Result<_, _>>()?, by: By::Named(extension) })
    }

    fn with_others(&self, others: &Others<'_>) -> Result<Option<Self>, Refused> {
        let By::Named(reference) = &self.by else { return Ok(None) };
        let extension = extension::find(others.extensions, reference)?;
        extension::of_member(&extension, "rateLimit", counter)?;
        Ok(Some(Self { by: By::This(extension), ..self.clone() }))
    }

    fn slots(&self) -> Vec<Slot> {
        let By::This(extension) = &self.by else { return Vec::new() };
        let Some(counter) = counter(&extension.provider) else { return Vec::new() };
        let mut filter: EnvoyLimit = counter.filter.decode();
        let actions = |entries: &Vec<Entry>| EnvoyDescriptor {
            actions: entries.iter().map(Entry::action).collect(),
            ..EnvoyDescriptor::default()
        };
        filter.rate_limits = self.descriptors.iter().map(actions).collect();
        let [slot, inner] = [slots::GLOBAL_RATE_LIMIT, slots::GLOBAL_RATE_LIMIT_INNER];
        let patterns = self.shown_in().iter().map(|_| TEXT.into()).collect();
        vec![Slot { patterns, ..extension::wrapped_behind(self.front(), slot, inner, &filter, &counter.asked) }]
    }

    fn disables(&self) -> bool {
        false
    }

    /// Envoy takes over what the service says, and has no rules for that.
    fn forges(&self) -> bool {
        true
    }

    fn explain(route: &Route) -> Option<String> {
        let filter: EnvoyLimit = extension::unwrapped(route, slots::GLOBAL_RATE_LIMIT)?;
        let who = extension::cluster(&filter.rate_limit_service?.grpc_service?)?;
        let open = if filter.failure_mode_deny { "" } else { ", open where it does not answer" };
        let count = filter.rate_limits.len();
        let descriptors = if count == 1 { "descriptor" } else { "descriptors" };
        Some(format!("{count} {descriptors}, counted by {who} for {}{open}", filter.domain))
    }
}

impl GlobalRateLimit {
    /// The headers of which something is counted.
    fn shown_in(&self) -> BTreeSet<&str> {
        self.descriptors.iter().flatten().filter_map(Entry::shown_in).collect()
    }

    /// What keeps requests out of which nothing could be counted.
    fn front(&self) -> Option<TypedExtensionConfig> {
        let names = self.shown_in();
        let texts: Vec<_> =
            names.into_iter().map(|name| Permission { rule: Some(Rule::Header(is_text(name))) }).collect();
        (!texts.is_empty()).then(|| {
            let anybody = Principal { identifier: Some(Identifier::Any(true)) };
            let all = Permission { rule: Some(Rule::AndRules(permission::Set { rules: texts })) };
            let policy = Policy { permissions: vec![all], principals: vec![anybody], ..Policy::default() };
            let rules = Rules { policies: [("text".to_owned(), policy)].into(), ..Rules::default() };
            let filter = Rbac { rules: Some(rules), ..Rbac::default() };
            TypedExtensionConfig { name: FRONT.into(), typed_config: Some(any(&filter)) }
        })
    }
}

/// Whether all that a header says is text. One that is missing says nothing.
fn is_text(name: &str) -> HeaderMatcher {
    let pattern = MatchPattern::SafeRegex(RegexMatcher { regex: TEXT.into(), ..RegexMatcher::default() });
    let text = StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() };
    HeaderMatcher {
        name: name.into(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(text)),
        treat_missing_header_as_empty: true,
        ..HeaderMatcher::default()
    }
}

fn counter(provider: &Provider) -> Option<&rate_limit::RateLimit> {
    match provider {
        Provider::RateLimit(counter) => Some(counter),
        _ => None,
    }
}

/// Refuses a list that is empty, or too long.
fn some<T>(list: &[T], field: &str) -> Result<(), Refused> {
    if list.is_empty() {
        return Err(Refused::new(field, "it is empty, so nothing would be counted; write one"));
    }
    spec::at_most(list, field, MOST)
}

impl WrittenEntry {
    fn read(self, field: &str) -> Result<Entry, Refused> {
        let bounded = |text: String, at: &str| {
            let is_fit = !text.is_empty() && text.len() <= LONGEST && !text.chars().any(char::is_control);
            is_fit.then_some(text).ok_or_else(|| {
                let message = format!("it must have 1 to {LONGEST} characters, and none that controls; correct it");
                Refused::new(&format!("{field}.{at}"), message)
            })
        };
        match (&*self.r#type, self.generic, self.header) {
            ("Generic", Some(Generic { key, value }), None) => {
                Ok(Entry::Generic { key: bounded(key, "generic.key")?, value: bounded(value, "generic.value")? })
            }
            ("Header", None, Some(name)) => {
                let lower = header::match_name(&name).map_err(Refused::at(format_args!("{field}.header")))?;
                Ok(Entry::Header { name: lower, key: name })
            }
            ("RemoteAddress", None, None) => Ok(Entry::RemoteAddress),
            ("Path", None, None) => Ok(Entry::Path),
            ("Generic" | "Header" | "RemoteAddress" | "Path", ..) => {
                let message = "it must have what its type says and no more: generic for Generic, header for Header";
                Err(Refused::new(field, message))
            }
            _ => Err(Refused::new(
                &format!("{field}.type"),
                "it must be Generic, Header, RemoteAddress or Path; correct it",
            )),
        }
    }
}

impl Entry {
    /// The header that shows it.
    fn shown_in(&self) -> Option<&str> {
        match self {
            Self::Header { name, .. } => Some(name),
            Self::Path => Some(":path"),
            Self::Generic { .. } | Self::RemoteAddress => None,
        }
    }

    fn action(&self) -> Action {
        let specifier = match self {
            Self::Generic { key, value } => ActionSpecifier::GenericKey(GenericKey {
                descriptor_key: key.clone(),
                descriptor_value: value.clone(),
                ..GenericKey::default()
            }),
            Self::Header { name, key } => ActionSpecifier::RequestHeaders(RequestHeaders {
                header_name: name.clone(),
                descriptor_key: key.clone(),
                skip_if_absent: false,
            }),
            Self::RemoteAddress => ActionSpecifier::RemoteAddress(RemoteAddress {}),
            // Without the query, of which a client has as many as it likes.
            Self::Path => return computed("path", "request", "url_path"),
        };
        Action { action_specifier: Some(specifier) }
    }
}
