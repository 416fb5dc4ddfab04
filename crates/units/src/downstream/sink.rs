//! Servers that are told of requests.
//!
//! A reference that leads nowhere is no fault: requests are served, nobody is told of them, and the policy says so. What
//! cannot be right whatever else is there is one, as everywhere.

use std::{sync::Arc, time::Duration};

use api::shared::BackendRef;
use ir::{
    backend::{Asked, Destination},
    telemetry::{Pairs, Retries, Sink},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use validate::{header, hostname};

use super::Reading;
use crate::{Refused, spec};

/// Follows the references of a policy to servers that are told.
pub trait Leads {
    /// Where one leads.
    ///
    /// # Errors
    /// Where it cannot lead anywhere, whatever else is there: the field below the reference, and why.
    fn lead(&self, to: &BackendRef) -> Result<Lead, (String, String)>;
}

/// Where a reference leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lead {
    /// To one that can be told, and what is to be said of it all the same.
    There(Destination, Option<String>),
    /// To one that cannot, and why.
    Nowhere(Destination, String),
    /// To one that may not be named, and why.
    Forbidden(String),
}

/// The most headers of a call, and of names in a list.
const MOST: usize = 64;
/// How long a call may take unless said: what nobody takes is held in a proxy's memory as long.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest that may be said.
const LONGEST: Duration = Duration::from_mins(5);
/// The most attempts.
const MOST_ATTEMPTS: u32 = 10;
/// The longest name of a log or a service.
const LONGEST_NAME: usize = 256;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ServiceSpec {
    backend_ref: Map<String, Value>,
    authority: Option<String>,
    initial_metadata: Option<Vec<MetadataSpec>>,
    max_receive_message_length: Option<u32>,
    retry_policy: Option<RetrySpec>,
    #[serde(default)]
    skip_envoy_headers: bool,
    timeout: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MetadataSpec {
    key: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RetrySpec {
    num_retries: Option<u32>,
    retry_back_off: Option<BackoffSpec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BackoffSpec {
    base_interval: String,
    max_interval: Option<String>,
}

/// Parts a mapping: what is said beside a service, by the names of these fields, and what is said of the service.
pub(super) fn parted(written: &Value, own: &[&str]) -> Result<(Value, Value), Refused> {
    let fields: Map<String, Value> = spec::decode(written)?;
    let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
    let (own, service) = fields.partition::<Map<_, _>, _>(|(name, _)| own.contains(&name.as_str()));
    Ok((Value::Object(own), Value::Object(service)))
}

/// Reads a service at a field; none if nobody may be named there. `unary` says that each call is told something and ends.
pub(super) fn read(
    written: &Value,
    field: &str,
    unary: bool,
    reading: &mut Reading<'_>,
) -> Result<Option<Sink>, Refused> {
    let written: ServiceSpec = spec::decode(written).map_err(|refused| below(field, refused))?;
    let at = |name: &str| format!("{field}.{name}");
    let reference = at("backendRef");
    let known = ["group", "kind", "name", "namespace", "port", "weight"];
    if let Some(unknown) = written.backend_ref.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(Refused::new(&format!("{reference}.{unknown}"), "it is not known; remove it"));
    }
    let to: BackendRef =
        spec::decode(&Value::Object(written.backend_ref)).map_err(|refused| below(&reference, refused))?;
    let name = &to.backend_ref.name;
    if !api::decode::dns_subdomain(name) {
        return Err(Refused::new(&format!("{reference}.name"), "it is no name of an object; correct it"));
    }
    if to.backend_ref.namespace.as_ref().is_some_and(|namespace| !api::decode::dns_label(namespace)) {
        return Err(Refused::new(&format!("{reference}.namespace"), "it is no name of a namespace; correct it"));
    }
    let authority = written.authority.filter(|authority| !authority.is_empty());
    if let Some(authority) = &authority {
        hostname::authority(authority).map_err(Refused::at(&at("authority")))?;
    }
    let metadata = metadata(&written.initial_metadata.unwrap_or_default(), &at("initialMetadata"))?;
    let timeout = duration(written.timeout.as_deref(), &at("timeout"))?.or(unary.then_some(TIMEOUT));
    let retries = written.retry_policy.map(|written| retries(&written, &at("retryPolicy"))).transpose()?;
    if written.max_receive_message_length == Some(0) {
        return Err(Refused::new(&at("maxReceiveMessageLength"), "must be 1 or more; correct or remove it"));
    }
    let lead = reading.leads.lead(&to);
    let lead = lead.map_err(|(name, why)| Refused::new(&format!("{reference}{name}"), why))?;
    let mut warn = |why: String| reading.warnings.push(Refused::new(&reference, why));
    let (to, is_there) = match lead {
        Lead::There(to, note) => {
            note.into_iter().for_each(&mut warn);
            (to, true)
        }
        Lead::Nowhere(to, why) => {
            warn(format!("nobody is told of requests until it can be: {why}"));
            (to, false)
        }
        Lead::Forbidden(why) => {
            warn(format!("nobody is told of requests: {why}"));
            return Ok(None);
        }
    };
    let host = || {
        let asked = Asked::Grpc(to.clone());
        format!("{}.{}", asked.name().name, asked.name().namespace)
    };
    Ok(Some(Sink {
        is_there,
        authority: authority.unwrap_or_else(host).into(),
        to,
        unary,
        metadata,
        timeout,
        retries,
        max_answer_bytes: written.max_receive_message_length,
        skip_envoy_headers: written.skip_envoy_headers,
    }))
}

/// What is wrong below a field.
pub(super) fn below(field: &str, refused: Refused) -> Refused {
    let dot = if refused.field.is_empty() || refused.field.starts_with('[') || field.is_empty() { "" } else { "." };
    Refused { field: format!("{field}{dot}{}", refused.field), ..refused }
}

/// The headers of calls, whose values go there to the letter.
fn metadata(written: &[MetadataSpec], field: &str) -> Result<Pairs<Arc<str>>, Refused> {
    spec::at_most(written, field, MOST)?;
    let each = |(index, MetadataSpec { key, value }): (usize, &MetadataSpec)| {
        let at = format!("{field}[{index}]");
        let name = header::settable_name(key).map_err(Refused::at(format_args!("{at}.key")))?;
        // Nothing of the value is told: it may be secret.
        if header::value(value).is_err() || value.contains('%') {
            let message =
                "it is no value of a header, or has a percent sign, which Envoy takes for an operator; correct it";
            return Err(Refused::new(&format!("{at}.value"), message));
        }
        Ok((name.into(), value.as_str().into()))
    };
    written.iter().enumerate().map(each).collect()
}

fn duration(text: Option<&str>, field: &str) -> Result<Option<Duration>, Refused> {
    let duration = spec::positive(text, field)?;
    if duration.is_some_and(|duration| duration > LONGEST) {
        return Err(Refused::new(field, "it is longer than five minutes; write 5m or less"));
    }
    Ok(duration)
}

fn retries(written: &RetrySpec, field: &str) -> Result<Retries, Refused> {
    let attempts = written.num_retries.unwrap_or(1);
    if !(1..=MOST_ATTEMPTS).contains(&attempts) {
        let message = format!("{attempts} is not from 1 to {MOST_ATTEMPTS}; write one of these");
        return Err(Refused::new(&format!("{field}.numRetries"), message));
    }
    let backoff = |BackoffSpec { base_interval, max_interval }: &BackoffSpec| {
        let at = |name: &str| format!("{field}.retryBackOff.{name}");
        let base = duration(Some(base_interval), &at("baseInterval"))?.unwrap_or_default();
        let max = duration(max_interval.as_deref(), &at("maxInterval"))?;
        if max.is_some_and(|max| max < base) {
            return Err(Refused::new(&at("maxInterval"), "it is shorter than baseInterval; correct one of both"));
        }
        Ok((base, max))
    };
    Ok(Retries { attempts, backoff: written.retry_back_off.as_ref().map(backoff).transpose()? })
}

/// What a log or a proxy is called at a server.
pub(super) fn name(written: &str, field: &str) -> Result<Arc<str>, Refused> {
    if written.is_empty() || written.len() > LONGEST_NAME || !written.chars().all(|c| c == ' ' || c.is_ascii_graphic())
    {
        let message = format!("must be 1 to {LONGEST_NAME} visible characters; correct it");
        return Err(Refused::new(field, message));
    }
    Ok(written.into())
}

/// The names of headers, in lower case, each once.
pub(super) fn headers(written: &[String], field: &str) -> Result<Arc<[Arc<str>]>, Refused> {
    let names = spec::distinct(Some(written), field, MOST, |name| {
        // A pseudo-header is one to a log.
        match name.strip_prefix(':') {
            Some(rest) => header::name(rest).map(|rest| format!(":{rest}")),
            None => header::name(name),
        }
    })?;
    Ok(names.into_iter().map(Into::into).collect())
}
