//! `rateLimit.global`: a service counts requests, of all proxies together.

use std::sync::Arc;

use api::{gateway_extension::ExtensionReference, traffic_policy::TrafficPolicySpec};
use envoy::slots;
use envoy_types::pb::envoy::{
    config::route::v3::{
        RateLimit as EnvoyDescriptor, Route,
        rate_limit::{
            Action,
            action::{ActionSpecifier, GenericKey, RemoteAddress, RequestHeaders},
        },
    },
    extensions::filters::http::ratelimit::v3::RateLimit as EnvoyLimit,
};
use ir::rule::Slot;
use serde::Deserialize;
use validate::header;

use super::{
    Extension, ExtensionReader, Refused, Unit,
    extension::{self, Provider, rate_limit},
    spec,
};

/// Most descriptors, and most entries of each: each request asks about all of them.
const MOST: usize = 16;

/// Longest key or value.
const LONGEST: usize = 256;

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

    fn read(written: Spec, _: &TrafficPolicySpec) -> Result<Self, Refused> {
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

    fn with_extensions(self, extensions: &dyn ExtensionReader) -> Result<Self, Refused> {
        let By::Named(reference) = &self.by else { return Ok(self) };
        let extension = extension::find(extensions, reference)?;
        extension::of_member(&extension, "rateLimit", counter)?;
        Ok(Self { by: By::This(extension), ..self })
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
        vec![extension::wrapped(slots::GLOBAL_RATE_LIMIT, slots::GLOBAL_RATE_LIMIT_INNER, &filter, &counter.asked)]
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
    fn action(&self) -> Action {
        let header = |name: &str, key: &str| {
            ActionSpecifier::RequestHeaders(RequestHeaders {
                header_name: name.into(),
                descriptor_key: key.into(),
                skip_if_absent: false,
            })
        };
        let specifier = match self {
            Self::Generic { key, value } => ActionSpecifier::GenericKey(GenericKey {
                descriptor_key: key.clone(),
                descriptor_value: value.clone(),
                ..GenericKey::default()
            }),
            Self::Header { name, key } => header(name, key),
            Self::RemoteAddress => ActionSpecifier::RemoteAddress(RemoteAddress {}),
            Self::Path => header(":path", "path"),
        };
        Action { action_specifier: Some(specifier) }
    }
}
