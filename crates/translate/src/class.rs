//! GatewayClasses of this controller.

use std::sync::Arc;

use engine::{Lookup, Scope};

use crate::tables::input::{Classes, Config};

/// Whether Gateways of a class are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClassState {
    /// False while the class asks for parameters that nobody reads.
    pub(crate) accepted: bool,
}

tables! {
    /// What a GatewayClass of ours says; absent for a class that is missing or another controller's.
    OurClasses: Arc<str> => ClassState;
}

impl Lookup for OurClasses {
    fn compute(scope: &Scope<'_>, key: &Arc<str>) -> Option<ClassState> {
        let class = scope.get::<Classes>(key)?;
        let ours = class.spec.controller_name == scope.get::<Config>(&())?.controller_name;
        ours.then(|| ClassState { accepted: class.spec.parameters_ref.is_none() })
    }
}
