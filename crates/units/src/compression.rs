//! `compression`: responses are compressed as clients accept it, and requests decompressed for backends.

use envoy::slots;
use envoy_types::pb::envoy::config::route::v3::Route;
use ir::rule::Slot;
use serde::Deserialize;
use serde_json::{Map, Value};
use validate::Invalid;

use super::{Refused, Unit, spec};

/// The libraries that can be named, in the order of their slots.
const LIBRARIES: [&str; 3] = ["Gzip", "Brotli", "Zstd"];

/// How responses are compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseCompression {
    /// The places of what is used in [`LIBRARIES`]; none switches it off.
    libraries: Vec<usize>,
}

/// What requests are decompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestDecompression {
    /// The places of what is used in [`LIBRARIES`]; none switches it off.
    libraries: Vec<usize>,
}

/// What may be written of either.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    libraries: Option<Vec<String>>,
    disable: Option<Map<String, Value>>,
}

impl Spec {
    /// The CRD completes what switches off with a library too.
    fn libraries(&self) -> Result<Vec<usize>, Refused> {
        if self.disable.is_some() {
            return Ok(Vec::new());
        }
        let Some(written) = self.libraries.as_deref() else { return Ok(vec![0]) };
        if written.is_empty() {
            return Err(Refused::new("libraries", "it is empty; name one, or leave it out to use Gzip"));
        }
        spec::distinct(Some(written), "libraries", LIBRARIES.len(), |name| {
            LIBRARIES.iter().position(|known| known == name).ok_or_else(|| {
                Invalid::new(name, "there is no such library", format!("use one of {}", LIBRARIES.join(", ")))
            })
        })
    }
}

#[cfg(any(test, feature = "testing"))]
const SAMPLES: super::Samples = super::Samples {
    one: r#"{"libraries": ["Gzip"]}"#,
    other: r#"{"libraries": ["Brotli"]}"#,
    merged: None,
    off: Some(r#"{"disable": {}}"#),
    refused: Some(r#"{"libraries": ["Gzip", "Gzip"]}"#),
};

impl Unit for ResponseCompression {
    const FIELD: &'static str = "compression.responseCompression";
    const HOLDS_FOR_ANSWERS: bool = true;
    const SLOTS: &'static [&'static str] = &slots::COMPRESS;
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = SAMPLES;
    type Spec = Spec;

    fn read(written: Spec) -> Result<Self, Refused> {
        Ok(Self { libraries: written.libraries()? })
    }

    fn slots(&self) -> Vec<Slot> {
        on(Self::SLOTS, &self.libraries)
    }

    fn explain(route: &Route) -> Option<String> {
        words(route, Self::SLOTS).map(|libraries| format!("by {libraries}, where the client accepts it"))
    }
}

impl Unit for RequestDecompression {
    const FIELD: &'static str = "compression.requestDecompression";
    const HOLDS_FOR_ANSWERS: bool = false;
    const SLOTS: &'static [&'static str] = &slots::DECOMPRESS;
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = SAMPLES;
    type Spec = Spec;

    fn read(written: Spec) -> Result<Self, Refused> {
        let libraries = written.libraries()?;
        if libraries.iter().any(|library| LIBRARIES[*library] == "Zstd") {
            let why = "a request could have a proxy keep 128 MiB, which Envoy does not bound";
            let invalid = Invalid::new("Zstd", why, "use Gzip or Brotli");
            return Err(Refused::at("libraries")(invalid));
        }
        Ok(Self { libraries })
    }

    fn slots(&self) -> Vec<Slot> {
        on(Self::SLOTS, &self.libraries)
    }

    fn explain(route: &Route) -> Option<String> {
        words(route, Self::SLOTS).map(|libraries| format!("of {libraries}"))
    }
}

fn on(slots: &[&'static str], libraries: &[usize]) -> Vec<Slot> {
    libraries.iter().map(|library| slots::on(slots[*library])).collect()
}

fn words(route: &Route, slots: &[&str]) -> Option<String> {
    let used = LIBRARIES.iter().zip(slots).filter(|(_, slot)| route.typed_per_filter_config.contains_key(**slot));
    let used: Vec<_> = used.map(|(library, _)| *library).collect();
    (!used.is_empty()).then(|| used.join(", "))
}
