//! `extProc`: providers process requests and responses.

use std::sync::Arc;

use api::gateway_extension::{ExtensionReference, ProcessingMode};
use envoy::slots;
use envoy_types::pb::envoy::{config::route::v3::Route, extensions::filters::http::ext_proc::v3::ExternalProcessor};
use ir::{NsName, rule::Slot};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    Deep, Extension, Others, Refused, Unit,
    extension::{self, Provider, ext_proc},
};

/// Who processes requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtProc {
    /// Nobody.
    Off,
    /// Who is named, and was not looked up yet.
    Named(ExtensionReference, Option<ProcessingMode>),
    /// These, in the order in which requests meet them.
    By(Vec<Processor>),
}

/// Who processes, with the settings of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    extension: Arc<Extension>,
    mode: Option<ProcessingMode>,
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    extension_ref: Option<ExtensionReference>,
    processing_mode: Option<ProcessingMode>,
    disable: Option<Map<String, Value>>,
}

impl Unit for ExtProc {
    const FIELD: &'static str = "extProc";
    const HOLDS_FOR_ANSWERS: bool = true;
    const SLOTS: &'static [&'static str] = &slots::EXT_PROC_ALL;
    const DEEP: Deep = Deep::Operations;
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"extensionRef": {"name": "processor", "namespace": "apps"}, "processingMode": {"requestBodyMode": "BUFFERED"}}"#,
        other: r#"{"extensionRef": {"name": "processor", "namespace": "apps"}}"#,
        merged: Some((
            r#"{"extensionRef": {"name": "processor", "namespace": "apps"}, "processingMode": {"requestBodyMode": "BUFFERED"}}"#,
            r#"{"extensionRef": {"name": "processor", "namespace": "apps"}}"#,
        )),
        off: Some(r#"{"disable": {}}"#),
        refused: Some(
            r#"{"extensionRef": {"name": "processor", "namespace": "apps"}, "processingMode": {"requestBodyMode": "FULL_DUPLEX_STREAMED"}}"#,
        ),
    };
    type Spec = Spec;

    fn read(written: Spec) -> Result<Self, Refused> {
        let Spec { extension_ref, processing_mode, disable } = written;
        let extension = match (extension_ref, disable) {
            (Some(extension), None) => extension,
            (None, Some(_)) if processing_mode.is_none() => return Ok(Self::Off),
            (None, Some(_)) => return Err(Refused::new("disable", "it must stand alone; remove the other fields")),
            _ => return Err(Refused::new("", "it must have one of extensionRef and disable")),
        };
        extension::named(&extension)?;
        if let Some(mode) = &processing_mode {
            ext_proc::mode(mode).map_err(|message| Refused::new("processingMode", message))?;
        }
        Ok(Self::Named(extension, processing_mode))
    }

    fn with_others(&self, others: &Others<'_>) -> Result<Option<Self>, Refused> {
        let Self::Named(reference, mode) = self else { return Ok(None) };
        let extension = extension::find(others.extensions, reference)?;
        extension::of_member(&extension, Self::FIELD, processor)?;
        Ok(Some(Self::By(vec![Processor { extension, mode: mode.clone() }])))
    }

    fn slots(&self) -> Vec<Slot> {
        let Self::By(processors) = self else { return Vec::new() };
        let mut placed: Vec<Slot> = Vec::new();
        for Processor { extension, mode } in processors {
            let Some(written) = processor(&extension.provider) else { continue };
            let is_free = |place: &&&str| placed.iter().all(|slot| slot.name != **place);
            let Some(place) = written.places.iter().find(is_free) else { continue };
            let mut filter: ExternalProcessor = written.filter.decode();
            if let Some(mode) = mode.as_ref().and_then(|mode| ext_proc::mode(mode).ok()) {
                filter.processing_mode = Some(mode);
            }
            placed.push(extension::wrapped(place, slots::EXT_PROC_INNER, &filter, &written.asked));
        }
        placed
    }

    fn disables(&self) -> bool {
        *self == Self::Off
    }

    /// Both process, one that both name with the settings of this one.
    fn over(&self, other: &Self) -> Option<Self> {
        let (Self::By(own), Self::By(others)) = (self, other) else { return None };
        let is_new = |other: &&Processor| own.iter().all(|processor| processor.name() != other.name());
        let mut all: Vec<_> = own.iter().chain(others.iter().filter(is_new)).cloned().collect();
        all.sort_by(|one, other| other.weight().cmp(&one.weight()).then_with(|| one.name().cmp(other.name())));
        Some(Self::By(all))
    }

    fn excess(&self) -> Option<Refused> {
        let Self::By(processors) = self else { return None };
        let lost = processors.len() - self.slots().len();
        (lost > 0).then(|| {
            let message = "more providers come together at one place than there is room for, which is four behind rbac, \
                           where they stand by default, and one elsewhere; leave some out, or give them other stages";
            Refused::new("", message)
        })
    }

    fn explain(route: &Route) -> Option<String> {
        let processors = Self::SLOTS.iter().filter_map(|slot| {
            let filter: ExternalProcessor = extension::unwrapped(route, slot)?;
            let open = if filter.failure_mode_allow { ", open where it does not answer" } else { "" };
            let place = slot.strip_prefix("extProc.").unwrap_or(slot);
            Some(format!("{} at {place}{open}", extension::cluster(&filter.grpc_service?)?))
        });
        let processors: Vec<_> = processors.collect();
        (!processors.is_empty()).then(|| format!("goes through {}", processors.join(", then ")))
    }
}

impl Processor {
    fn name(&self) -> &NsName {
        &self.extension.id
    }

    fn weight(&self) -> i32 {
        processor(&self.extension.provider).map_or(0, |processor| processor.weight)
    }
}

fn processor(provider: &Provider) -> Option<&ext_proc::ExtProc> {
    match provider {
        Provider::ExtProc(processor) => Some(processor),
        _ => None,
    }
}
