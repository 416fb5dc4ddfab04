//! GatewayClasses of this controller.

use std::sync::Arc;

use engine::{Lookup, Scope, Table};

use crate::input::{Classes, Config};

/// What a GatewayClass of ours says; absent for a class that is missing or another controller's.
pub(crate) struct OurClasses;

/// Whether Gateways of a class are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClassState {
    /// False while the class asks for parameters that nobody reads.
    pub(crate) accepted: bool,
}

impl Table for OurClasses {
    const NAME: &'static str = "OurClasses";
    type Key = Arc<str>;
    type Value = ClassState;
}

impl Lookup for OurClasses {
    fn compute(scope: &Scope<'_>, key: &Arc<str>) -> Option<ClassState> {
        let class = scope.get::<Classes>(key)?;
        let ours = class.spec.controller_name == scope.get::<Config>(&())?.controller_name;
        ours.then(|| ClassState { accepted: class.spec.parameters_ref.is_none() })
    }
}
