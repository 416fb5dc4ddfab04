//! What is offered to an Envoy before it is sent, where one is asked first.

use engine::{Emitter, Scope};

use crate::tables::{
    input::Strict,
    strict::{OfferedPart, PartId},
};

/// Whether what is sent is what Envoy has taken.
pub(crate) fn is_strict(scope: &Scope<'_>) -> bool {
    scope.get::<Strict>(&()).is_some()
}

/// Has a part be judged, where Envoy is asked first.
pub(crate) fn offer(scope: &Emitter<'_>, part: PartId) {
    if is_strict(scope) {
        scope.demand::<OfferedPart>(part);
    }
}
