//! References to backends and routes.

use api::{http_route::HttpBackendRef, shared::BackendObjectReference};
use ir::route::BackendRef;

use crate::delegation::is_delegate;

/// A reference as it is written.
pub(super) fn backend_ref(written: &BackendObjectReference) -> BackendRef {
    let BackendObjectReference { group, kind, name, namespace, port } = written.clone();
    BackendRef { group, kind, name, namespace, port }
}

/// Whether a reference means routes.
pub(super) fn delegates(written: &HttpBackendRef) -> bool {
    is_delegate(&written.backend_ref.group, &written.backend_ref.kind)
}
