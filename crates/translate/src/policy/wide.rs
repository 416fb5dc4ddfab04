//! Policies on a Gateway or on one of its listeners (EP-11937). None of their fields that are supported can stand there,
//! so that what is left is a broken one, which has all of its scope replaced.

use std::sync::Arc;

use api::{Kind, ObjectId};
use engine::{Derived, Emitter, Lookup, Scope};
use ir::{ListenerId, NsName, Reason};

use crate::{
    internal,
    tables::{
        gateway::{Fault, GatewayRow},
        policy::{PoliciesOf, PolicyAt, PolicyRow, Target},
    },
};

tables! {
    /// Why everything of a Gateway answers by itself; absent where its own policies are sound.
    BrokenGateway: NsName => Fault;
    /// Why everything of a listener answers by itself, apart from its Gateway.
    BrokenListener: ListenerId => Fault;
    /// Has the policies on a Gateway and on its listeners know that it is there.
    WidePolicies: NsName => ();
}

fn target(gateway: &NsName, section: Option<Arc<str>>) -> Target {
    Target { object: ObjectId::new(Kind::Gateway, gateway.namespace.clone(), gateway.name.clone()), section }
}

fn broken(scope: &Scope<'_>, target: &Target, reason: Reason) -> Option<Fault> {
    let policies = scope.get::<PoliciesOf>(target)?;
    policies.iter().find_map(|id| {
        let policy = scope.get::<PolicyRow>(id)?;
        let fault = policy.units.as_ref().err()?;
        let message =
            format!("{id} is not valid, and nothing is served without it, so everything answers 500: {fault}");
        Some(Fault::new(reason, message))
    })
}

impl Lookup for BrokenGateway {
    fn compute(scope: &Scope<'_>, gateway: &NsName) -> Option<Fault> {
        broken(scope, &target(gateway, None), Reason::GatewayReplaced)
    }

    /// Nobody knows what its policies say, so that everything answers by itself.
    fn poisoned(_: &Scope<'_>, _: &NsName, _: &engine::Fault) -> Option<Fault> {
        Some(internal::fault())
    }
}

impl Lookup for BrokenListener {
    fn compute(scope: &Scope<'_>, listener: &ListenerId) -> Option<Fault> {
        // No policy that targets a ListenerSet is served yet.
        let section = listener.name.set.is_none().then(|| listener.name.section.clone())?;
        broken(scope, &target(&listener.gateway, Some(section)), Reason::ListenerReplaced)
    }

    fn poisoned(_: &Scope<'_>, _: &ListenerId, _: &engine::Fault) -> Option<Fault> {
        Some(internal::fault())
    }
}

impl Derived for WidePolicies {
    fn compute(scope: &Emitter<'_>, gateway: &NsName) -> Option<()> {
        let model = scope.get::<GatewayRow>(gateway)?;
        let sections = model.listeners.iter().map(|listener| Some(listener.name.clone()));
        for section in [None].into_iter().chain(sections) {
            let policies = scope.get::<PoliciesOf>(&target(gateway, section));
            for policy in policies.iter().flat_map(|list| list.iter()) {
                scope.demand::<PolicyAt>((policy.clone(), gateway.clone()));
            }
        }
        Some(())
    }
}
