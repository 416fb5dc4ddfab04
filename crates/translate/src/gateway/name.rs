//! Names that the proxies of two Gateways would share.
//!
//! `<gateway>-<class>` is what GEP-1762 wants, and the same for Gateway `web-internal` of class `portcullis` as for `web` of
//! `internal-portcullis`. By that name a proxy is known to the xDS server, so it belongs to one of them alone.

use engine::{Lookup, Scope};
use ir::NsName;

use crate::{
    proxies,
    tables::{
        gateway::NameClaims,
        input::{Deployments, Gateways},
    },
};

tables! {
    /// The Gateway to which the name belongs that a Gateway's proxies would have; absent where it is its own.
    NameRival: NsName => NsName;
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
}
