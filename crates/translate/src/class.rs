//! GatewayClasses of this controller.

use std::sync::Arc;

use deploy::Parameters;
use engine::{Lookup, Scope};
use ir::NsName;

use crate::{
    internal, proxies,
    tables::{
        input::{Classes, Config},
        proxies::{ClassState, OurClasses},
    },
};

impl Lookup for OurClasses {
    fn compute(scope: &Scope<'_>, key: &Arc<str>) -> Option<ClassState> {
        const FIELD: &str = "spec.parametersRef";
        let class = scope.get::<Classes>(key)?;
        let config = scope.get::<Config>(&())?;
        if class.spec.controller_name != config.controller_name {
            return None;
        }
        let Some(named) = &class.spec.parameters_ref else {
            return Some(ClassState { parameters: None, fault: None });
        };
        let name = NsName::new(named.namespace.clone().unwrap_or_default(), named.name.clone());
        let read = proxies::parameters(scope, FIELD, (&named.group, &named.kind), &name).and_then(|spec| {
            Parameters::read(Some(&spec), None, config.gateway_parameters)
                .map_err(|fault| proxies::invalid(FIELD, &name, &fault))
        });
        Some(ClassState { parameters: Some(name), fault: read.err() })
    }

    /// Gateways of the class are served, and what runs for them goes on with what it has.
    fn poisoned(scope: &Scope<'_>, key: &Arc<str>, _: &engine::Fault) -> Option<ClassState> {
        let class = scope.get::<Classes>(key)?;
        let is_ours = class.spec.controller_name == scope.get::<Config>(&())?.controller_name;
        is_ours.then(|| ClassState { parameters: None, fault: Some(internal::fault()) })
    }
}
