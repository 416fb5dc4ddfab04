//! Rules of references to other objects.

use super::Broken;
use crate::shared::BackendObjectReference;

/// A Service reference needs a port.
pub(crate) fn service_port(backend: &BackendObjectReference, path: &str, broken: &mut Broken) {
    if backend.group.is_empty() && &*backend.kind == "Service" && backend.port.is_none() {
        broken.add_without_value(format!("{path}.port"), "must be set for a Service");
    }
}
