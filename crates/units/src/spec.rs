//! Reading what is written in a field, and what a route says of it.

use std::{fmt, time::Duration};

use api::Mismatch;
use envoy_types::pb::{
    envoy::config::route::v3::Route,
    envoy::r#type::v3::{FractionalPercent, fractional_percent::DenominatorType},
    google::protobuf::{Any, Duration as ProtoDuration},
};
use ir::rule::Slot;
use prost::Message;
use serde::de::DeserializeOwned;
use serde_json::Value;
use validate::{Invalid, number};

use super::Refused;

/// Reads a mapping as `T`, and tells where it is another.
pub(crate) fn decode<T: DeserializeOwned>(written: &Value) -> Result<T, Refused> {
    api::decode_value(written).map_err(|(field, mismatch)| {
        let message = match mismatch {
            // What stands there is not told: it may be secret.
            Mismatch::WrongType { expected, .. } => format!("must be {expected}"),
            Mismatch::Other(_) => "has a value that is not valid here".to_owned(),
            known => known.to_string(),
        };
        Refused { field, message: format!("{message}; correct or remove it") }
    })
}

/// The duration at `field`, if one is written.
pub(crate) fn optional(text: Option<&str>, field: &str) -> Result<Option<Duration>, Refused> {
    text.map(validate::duration::parse).transpose().map_err(Refused::at(field))
}

/// The same, above zero.
pub(crate) fn positive(text: Option<&str>, field: &str) -> Result<Option<Duration>, Refused> {
    text.map(validate::duration::positive).transpose().map_err(Refused::at(field))
}

/// The percentage at `field`, if one is written.
pub(crate) fn percent(percentage: Option<i64>, field: &str) -> Result<Option<u32>, Refused> {
    percentage.map(number::percent).transpose().map_err(Refused::at(field))
}

/// A percentage as Envoy has it.
pub(crate) fn fraction(percent: u32) -> FractionalPercent {
    FractionalPercent { numerator: percent, denominator: DenominatorType::Hundred as i32 }
}

/// A duration as Envoy has it. None of those that are read is too long for it.
pub(crate) fn proto_duration(duration: Duration) -> ProtoDuration {
    ProtoDuration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or_default(),
    }
}

/// A duration of Envoy.
pub(crate) fn duration(duration: &ProtoDuration) -> Duration {
    Duration::new(duration.seconds.try_into().unwrap_or_default(), duration.nanos.try_into().unwrap_or_default())
}

/// What a route says in a slot, if anything.
pub(crate) fn said<M: Message + Default>(route: &Route, slot: &str) -> Option<M> {
    M::decode(&*route.typed_per_filter_config.get(slot)?.value).ok()
}

/// What a slot says.
pub(crate) fn decoded<M: Message + Default>(slot: &Slot) -> Option<M> {
    M::decode(&*Any::decode(&*slot.config).ok()?.value).ok()
}

/// The preferred of two lists, of which an empty one is not said.
pub(crate) fn said_list<T: Clone>(preferred: &[T], other: &[T]) -> Vec<T> {
    if preferred.is_empty() { other.to_vec() } else { preferred.to_vec() }
}

/// Refuses a list that is too long.
pub(crate) fn at_most<T>(list: &[T], field: impl fmt::Display, most: usize) -> Result<(), Refused> {
    if list.len() <= most {
        return Ok(());
    }
    let message = format!("it has {} entries, and {most} are the most; leave some out", list.len());
    Err(Refused::new(&field.to_string(), message))
}

/// The entries of a list that has each once, checked; nothing if there is none.
pub(crate) fn distinct<T, C: PartialEq>(
    list: Option<&[T]>,
    field: &str,
    most: usize,
    check: impl Fn(&T) -> Result<C, Invalid>,
) -> Result<Vec<C>, Refused> {
    let list = list.unwrap_or_default();
    at_most(list, field, most)?;
    let mut checked = Vec::with_capacity(list.len());
    for (index, entry) in list.iter().enumerate() {
        let at = format!("{field}[{index}]");
        let entry = check(entry).map_err(Refused::at(&at))?;
        if checked.contains(&entry) {
            return Err(Refused::new(&at, "it is named before; remove one of both"));
        }
        checked.push(entry);
    }
    Ok(checked)
}
