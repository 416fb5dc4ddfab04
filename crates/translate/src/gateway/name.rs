//! Names that the proxies of two Gateways would share.
//!
//! `<gateway>-<class>` is what GEP-1762 wants, and the same for Gateway `web-internal` of class `portcullis` as for `web` of
//! `internal-portcullis`. By that name a proxy is known to the xDS server, so it belongs to one of them alone.

use std::sync::Arc;

use engine::{Derived, Emitter, Lookup, Scope};
use ir::NsName;

use super::spec;
use crate::{
    proxies,
    tables::{
        gateway::{NameClaims, NameRival, Named},
        input::{Classes, Config, Deployments, Gateways},
        proxies::OurClasses,
    },
};

impl Derived for Named {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<()> {
        claim(scope, key, has_proxies)
    }

    /// Its proxies must not fall to another.
    fn poisoned(scope: &Emitter<'_>, key: &NsName, _: &engine::Fault) -> Option<()> {
        claim(scope, key, |scope, class| scope.attempt(|| has_proxies(scope, class)).unwrap_or(true))
    }
}

/// Whether a Gateway of a class may have proxies. While the class is missing, some may run.
fn has_proxies(scope: &Scope<'_>, class: &Arc<str>) -> bool {
    scope.get::<OurClasses>(class).is_some() || scope.get::<Classes>(class).is_none()
}

fn claim(scope: &Emitter<'_>, key: &NsName, has_proxies: impl FnOnce(&Scope<'_>, &Arc<str>) -> bool) -> Option<()> {
    let gateway = scope.get::<Gateways>(key)?;
    let class = &gateway.spec.gateway_class_name;
    if !scope.get::<Config>(&())?.shared_host && has_proxies(scope, class) {
        scope.emit::<NameClaims>(proxies::name(key, class), spec::age(key, &gateway), ());
    }
    Some(())
}

impl Lookup for NameRival {
    fn compute(scope: &Scope<'_>, key: &NsName) -> Option<NsName> {
        let gateway = scope.get::<Gateways>(key)?;
        let name = proxies::name(key, &gateway.spec.gateway_class_name);
        let claims = scope.group::<NameClaims>(&name);
        if claims.len() < 2 {
            return None;
        }
        // Whoever has proxies that run keeps them; else the oldest has the name.
        let running = scope.get::<Deployments>(&name).and_then(|deployment| deployment.gateway.clone());
        let runs = running.and_then(|running| claims.iter().find(|(age, ())| age.name.name == running));
        let (age, ()) = runs.or_else(|| claims.iter().next())?;
        Some(age.name.clone()).filter(|owner| owner != key)
    }

    /// A name that nobody else wants is its own. Whose another is nobody knows, so that it gets no proxies.
    fn poisoned(scope: &Scope<'_>, key: &NsName, fault: &engine::Fault) -> Option<NsName> {
        let gateway = scope.get::<Gateways>(key)?;
        let name = proxies::name(key, &gateway.spec.gateway_class_name);
        if scope.group::<NameClaims>(&name).len() < 2 { None } else { fault.spread() }
    }
}
