//! `buffer`: requests are read whole before they are sent on, and refused where they are too large.

use envoy::{extensions::programs, slots};
use envoy_types::pb::{
    envoy::{
        config::route::v3::Route,
        extensions::filters::http::buffer::v3::{Buffer as EnvoyBuffer, BufferPerRoute, buffer_per_route},
    },
    google::protobuf::UInt32Value,
};
use ir::rule::Slot;
use serde::Deserialize;
use serde_json::{Map, Value};
use validate::{Invalid, quantity};

use super::{Refused, Unit, spec};

/// The most that a request may be read whole, in bytes. Envoy keeps all of it in memory, which is that of all tenants.
pub(crate) const MAX_REQUEST_BYTES: u32 = 16 << 20;

/// How large requests may be; none switches it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// In bytes, 1 to [`MAX_REQUEST_BYTES`].
    pub max_request_bytes: Option<u32>,
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    max_request_size: Option<Value>,
    disable: Option<Map<String, Value>>,
}

impl Unit for Buffer {
    const FIELD: &'static str = "buffer";
    const HOLDS_FOR_ANSWERS: bool = true;
    const SLOTS: &'static [&'static str] = &[slots::BUFFER, slots::BUFFER_BODY];
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"maxRequestSize": "16"}"#,
        other: r#"{"maxRequestSize": "32"}"#,
        merged: None,
        off: Some(r#"{"disable": {}}"#),
        refused: Some(r#"{"maxRequestSize": "64Mi"}"#),
    };
    type Spec = Spec;

    fn read(written: Spec) -> Result<Self, Refused> {
        let size = match (written.max_request_size, written.disable) {
            (Some(size), None) => size,
            (None, Some(_)) => return Ok(Self { max_request_bytes: None }),
            _ => return Err(Refused::new("", "it must have either maxRequestSize or disable")),
        };
        let text = size.as_str().map_or_else(|| size.to_string(), str::to_owned);
        let bytes = quantity::bytes(&text).map_err(Refused::at("maxRequestSize"))?;
        let fits = |bytes: &u32| (1..=MAX_REQUEST_BYTES).contains(bytes);
        let bytes = u32::try_from(bytes).ok().filter(fits).ok_or_else(|| {
            let why = "a proxy would have to keep that much of each request, or nothing";
            let invalid = Invalid::new(&text, why, "use more than 0 and at most 16Mi");
            Refused::at("maxRequestSize")(invalid)
        })?;
        Ok(Self { max_request_bytes: Some(bytes) })
    }

    fn slots(&self) -> Vec<Slot> {
        let on = self.max_request_bytes.map(|bytes| {
            let size = EnvoyBuffer { max_request_bytes: Some(UInt32Value { value: bytes }) };
            let waits = BufferPerRoute { r#override: Some(buffer_per_route::Override::Buffer(size)) };
            [slots::slot(slots::BUFFER, &waits), programs::bounds_bodies(slots::BUFFER_BODY, bytes)]
        });
        on.into_iter().flatten().collect()
    }

    fn explain(route: &Route) -> Option<String> {
        let said = spec::said::<BufferPerRoute>(route, slots::BUFFER)?;
        let buffer_per_route::Override::Buffer(buffer) = said.r#override? else { return None };
        Some(format!("requests of at most {} bytes, read whole", buffer.max_request_bytes?.value))
    }
}
