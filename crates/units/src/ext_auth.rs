//! `extAuth`: providers judge requests.

use std::{collections::BTreeMap, sync::Arc};

use api::gateway_extension::{ExtensionReference, RequestBody};
use envoy::{extensions::programs, slots};
use envoy_types::pb::{
    envoy::{
        config::route::v3::Route,
        extensions::filters::http::ext_authz::v3::{CheckSettings, ExtAuthz, ExtAuthzPerRoute, ext_authz::Services},
    },
    google::protobuf::Any,
};
use ir::{NsName, rule::Slot};
use prost::{
    Message, Name,
    encoding::{WireType, encode_key, encode_varint},
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    Deep, Extension, Others, Refused, Unit,
    extension::{self, Provider, ext_auth},
    spec,
};

/// Most entries of a context, and most bytes of them together. Each route that the unit holds for has a copy of its own.
const MOST_CONTEXT: usize = 64;
const MOST_CONTEXT_BYTES: usize = 8 << 10;

/// The field `check_settings` of `ExtAuthzPerRoute`.
const CHECK_SETTINGS: u32 = 2;

/// Who judges requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtAuth {
    /// Nobody.
    Off,
    /// Who is named, and was not looked up yet.
    Named(Box<Named>),
    /// These, by name.
    By(Vec<Judge>),
}

/// What is written of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    extension: ExtensionReference,
    body: Option<RequestBody>,
    context: BTreeMap<String, String>,
}

/// Who judges, with the settings of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judge {
    extension: Arc<Extension>,
    body: Option<RequestBody>,
    context: BTreeMap<String, String>,
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    extension_ref: Option<ExtensionReference>,
    with_request_body: Option<Body>,
    context_extensions: Option<BTreeMap<String, String>>,
    disable: Option<Map<String, Value>>,
}

/// [`RequestBody`], of which a policy may have no other field.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Body {
    max_request_bytes: i64,
    #[serde(default)]
    allow_partial_message: bool,
    #[serde(default)]
    pack_as_bytes: bool,
}

impl Unit for ExtAuth {
    const FIELD: &'static str = "extAuth";
    const HOLDS_FOR_ANSWERS: bool = true;
    const SLOTS: &'static [&'static str] = &slots::EXT_AUTH_ALL;
    const DEEP: Deep = Deep::Operations;
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"extensionRef": {"name": "judge", "namespace": "apps"}, "contextExtensions": {"a": "1"}}"#,
        other: r#"{"extensionRef": {"name": "judge", "namespace": "apps"}, "contextExtensions": {"b": "2"}}"#,
        merged: Some((
            r#"{"extensionRef": {"name": "judge", "namespace": "apps"}, "contextExtensions": {"a": "1"}}"#,
            r#"{"extensionRef": {"name": "judge", "namespace": "apps"}, "contextExtensions": {"b": "2"}}"#,
        )),
        off: Some(r#"{"disable": {}}"#),
        refused: Some(
            r#"{"extensionRef": {"name": "judge", "namespace": "apps"}, "withRequestBody": {"maxRequestBytes": 0}}"#,
        ),
    };
    type Spec = Spec;

    fn read(written: Spec) -> Result<Self, Refused> {
        let Spec { extension_ref, with_request_body, context_extensions, disable } = written;
        let extension = match (extension_ref, disable) {
            (Some(extension), None) => extension,
            (None, Some(_)) if with_request_body.is_none() && context_extensions.is_none() => return Ok(Self::Off),
            (None, Some(_)) => return Err(Refused::new("disable", "it must stand alone; remove the other fields")),
            _ => return Err(Refused::new("", "it must have one of extensionRef and disable")),
        };
        extension::named(&extension)?;
        let body = with_request_body.map(|Body { max_request_bytes, allow_partial_message, pack_as_bytes }| {
            RequestBody { max_request_bytes, allow_partial_message, pack_as_bytes }
        });
        if let Some(body) = &body {
            ext_auth::buffer(body).map_err(Refused::at("withRequestBody.maxRequestBytes"))?;
        }
        let context = context_extensions.unwrap_or_default();
        let bytes: usize = context.iter().map(|(key, value)| key.len() + value.len()).sum();
        if context.len() > MOST_CONTEXT || bytes > MOST_CONTEXT_BYTES {
            let message = format!(
                "it has {} entries of {bytes} bytes, and {MOST_CONTEXT} of {MOST_CONTEXT_BYTES} are the most; shorten it",
                context.len()
            );
            return Err(Refused::new("contextExtensions", message));
        }
        Ok(Self::Named(Box::new(Named { extension, body, context })))
    }

    fn with_others(&self, others: &Others<'_>) -> Result<Option<Self>, Refused> {
        let Self::Named(named) = self else { return Ok(None) };
        let Named { extension, body, context } = Named::clone(named);
        let extension = extension::find(others.extensions, &extension)?;
        extension::of_member(&extension, Self::FIELD, judge)?;
        Ok(Some(Self::By(vec![Judge { extension, body, context }])))
    }

    fn slots(&self) -> Vec<Slot> {
        self.placed(&slots::EXT_AUTH, &slots::EXT_AUTH_INNER)
    }

    fn wide_slots(&self, _: &str) -> Vec<Slot> {
        let mut placed = self.placed(&slots::EXT_AUTH_WIDE, &slots::EXT_AUTH_WIDE_INNER);
        let used = slots::EXT_AUTH_WIDE.into_iter().chain([slots::EXT_AUTH_BODY]);
        let unused = used.filter(|name| placed.iter().all(|slot| slot.name != *name));
        let unused: Vec<_> = unused.map(slots::off).collect();
        placed.extend(unused);
        placed
    }

    fn disables(&self) -> bool {
        *self == Self::Off
    }

    fn authenticates(&self) -> bool {
        let closes = |judged: &Judge| judge(&judged.extension.provider).is_some_and(|judge| !judge.fail_open);
        matches!(self, Self::By(judges) if judges.iter().any(closes))
    }

    /// Both judge, one that both name with the settings of this one.
    fn over(&self, other: &Self) -> Option<Self> {
        let (Self::By(judges), Self::By(others)) = (self, other) else { return None };
        let is_new = |other: &&Judge| judges.iter().all(|judge| judge.name() != other.name());
        let mut all: Vec<_> = judges.iter().chain(others.iter().filter(is_new)).cloned().collect();
        all.sort_by(|one, other| one.name().cmp(other.name()));
        Some(Self::By(all))
    }

    fn excess(&self) -> Option<Refused> {
        let Self::By(judges) = self else { return None };
        let most = slots::EXT_AUTH.len();
        (judges.len() > most).then(|| {
            let message =
                format!("{} providers come together here, and {most} are the most; leave some out", judges.len());
            Refused::new("", message)
        })
    }

    fn explain(route: &Route) -> Option<String> {
        let names = slots::EXT_AUTH.iter().zip(slots::EXT_AUTH_INNER);
        let names = names.chain(slots::EXT_AUTH_WIDE.iter().zip(slots::EXT_AUTH_WIDE_INNER));
        let judges = names.filter_map(|(slot, inner)| {
            let filter: ExtAuthz = extension::unwrapped(route, slot)?;
            let who = match filter.services? {
                Services::GrpcService(service) => extension::cluster(&service)?,
                Services::HttpService(service) => extension::http_cluster(&service.server_uri?)?,
            };
            let open = if filter.failure_mode_allow { ", open where it does not answer" } else { "" };
            let told = spec::said::<ExtAuthzPerRoute>(route, inner).is_some();
            let told = if told { ", told of the route" } else { "" };
            Some(format!("{who}{open}{told}"))
        });
        let judges: Vec<_> = judges.collect();
        (!judges.is_empty()).then(|| format!("asks {}", judges.join(", then ")))
    }
}

impl ExtAuth {
    /// In these slots, in their order; the filters in them have these names.
    fn placed(&self, slots: &[&'static str; 4], inner: &[&'static str; 4]) -> Vec<Slot> {
        let Self::By(judges) = self else { return Vec::new() };
        let places = slots.iter().zip(inner);
        let asked = judges.iter().zip(places).flat_map(|(judge, (slot, inner))| judge.slots(slot, inner));
        // What goes on is what all of them were shown.
        let shown = judges.iter().filter_map(Judge::shown_whole).min();
        asked.chain(shown.map(|most| programs::bounds_bodies(slots::EXT_AUTH_BODY, most))).collect()
    }
}

impl Judge {
    fn name(&self) -> &NsName {
        &self.extension.id
    }

    /// Who it is, and the filter that asks it.
    fn filter(&self) -> Option<(&ext_auth::ExtAuth, ExtAuthz)> {
        let ext_auth = judge(&self.extension.provider)?;
        let mut filter: ExtAuthz = ext_auth.filter.decode();
        if let Some(body) = self.body.as_ref().and_then(|body| ext_auth::buffer(body).ok()) {
            filter.with_request_body = Some(body);
        }
        Some((ext_auth, filter))
    }

    /// How many bytes of a body it is shown at most, if it is shown all of each.
    fn shown_whole(&self) -> Option<u32> {
        let (_, filter) = self.filter()?;
        let body = filter.with_request_body.filter(|body| !body.allow_partial_message)?;
        Some(body.max_request_bytes)
    }

    /// Its own slot, and what the route says to it.
    fn slots(&self, slot: &'static str, inner: &'static str) -> Vec<Slot> {
        let Some((ext_auth, filter)) = self.filter() else { return Vec::new() };
        let asked = extension::wrapped(slot, inner, &filter, &ext_auth.asked);
        let context = (!self.context.is_empty()).then(|| told(inner, &self.context));
        std::iter::once(asked).chain(context).collect()
    }
}

/// What tells a judge of a route, entry by entry: Envoy's own message has a map, whose order would be random.
fn told(inner: &'static str, context: &BTreeMap<String, String>) -> Slot {
    let settings = context.iter().flat_map(|(key, value)| {
        let context_extensions = [(key.clone(), value.clone())].into();
        CheckSettings { context_extensions, ..CheckSettings::default() }.encode_to_vec()
    });
    let settings: Vec<u8> = settings.collect();
    let mut value = Vec::new();
    encode_key(CHECK_SETTINGS, WireType::LengthDelimited, &mut value);
    encode_varint(settings.len() as u64, &mut value);
    value.extend(settings);
    let config = Any { type_url: ExtAuthzPerRoute::type_url(), value };
    slots::packed(inner, &config)
}

fn judge(provider: &Provider) -> Option<&ext_auth::ExtAuth> {
    match provider {
        Provider::ExtAuth(judge) => Some(judge),
        _ => None,
    }
}
