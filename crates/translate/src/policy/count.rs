//! Where policies hold. A row here exists while anything demands it, and places are counted by their group, so that the
//! thousandth rule to which a policy applies costs what the first costs, and the policy's status reads a few rows.

use api::{Kind, ObjectId};
use engine::{Derived, Emitter};
use ir::{NsName, Reason, RouteId};

use crate::target::key_of;
use crate::{
    delegation::PolicyDirectives,
    gateway::policy::ListenerPolicyRow,
    tables::backend::ConfigPolicyRow,
    tables::edition::Source,
    tables::policy::{
        InvalidPolicies, InvalidPolicy, PolicyAt, PolicyGateways, PolicyRow, Prefixless, UsedEntry, WithoutPrefix,
    },
    tables::tls::TlsPolicyRow,
    words::MAX_LISTED,
};

impl Derived for PolicyAt {
    fn compute(scope: &Emitter<'_>, (policy, gateway): &(ObjectId, NsName)) -> Option<()> {
        scope.emit::<PolicyGateways>(policy.clone(), gateway.clone(), ());
        Some(())
    }
}

impl Derived for UsedEntry {
    fn compute(_: &Emitter<'_>, _: &(ObjectId, u32)) -> Option<()> {
        Some(())
    }
}

impl Derived for WithoutPrefix {
    fn compute(scope: &Emitter<'_>, (policy, route, rule): &(ObjectId, RouteId, u32)) -> Option<()> {
        scope.emit::<Prefixless>(policy.clone(), (route.clone(), *rule), ());
        Some(())
    }
}

impl Derived for InvalidPolicies {
    fn compute(scope: &Emitter<'_>, id: &ObjectId) -> Option<InvalidPolicy> {
        if id.kind == Kind::DelegationPolicy {
            let fault = scope.get::<PolicyDirectives>(&Source::live(key_of(id)))?.refused.clone()?;
            return Some(InvalidPolicy { reason: fault.reason, error: fault.to_string().into() });
        }
        if id.kind == Kind::BackendConfigPolicy {
            let said = scope.get::<ConfigPolicyRow>(id)?;
            let fault = said.as_ref().as_ref().map_or_else(Some, |said| said.faults.first().map(|(_, fault)| fault))?;
            return Some(InvalidPolicy { reason: fault.reason, error: fault.to_string().into() });
        }
        if id.kind == Kind::BackendTlsPolicy {
            let row = scope.get::<TlsPolicyRow>(&key_of(id))?;
            let fault = row.tls.as_ref().err()?;
            return Some(InvalidPolicy { reason: fault.reason, error: fault.to_string().into() });
        }
        if id.kind == Kind::ListenerPolicy {
            let said = scope.get::<ListenerPolicyRow>(id)?;
            let fault = said.as_ref().as_ref().map_or_else(Some, |said| said.faults().next())?;
            return Some(InvalidPolicy { reason: fault.reason, error: fault.to_string().into() });
        }
        let policy = scope.get::<PolicyRow>(&Source::live(id.clone()))?;
        if let Some(fault) = policy.faults().next() {
            return Some(InvalidPolicy { reason: fault.reason, error: fault.to_string().into() });
        }
        if id.kind != Kind::RewritePolicy {
            return None;
        }
        let prefixless = scope.group::<Prefixless>(id);
        if prefixless.is_empty() {
            return None;
        }
        // Rules of other namespaces are counted, not named: whoever reads this may not know them.
        let first = (RouteId::first_of(id.namespace.clone()), 0);
        let own = prefixless
            .behind(|at| *at < first)
            .map(|(at, ())| at)
            .take_while(|(route, _)| *route.namespace() == id.namespace);
        let mut listed: Vec<_> =
            own.take(MAX_LISTED).map(|(route, rule)| format!("{route} spec.rules[{rule}]")).collect();
        let others = prefixless.len() - listed.len();
        if others > 0 {
            listed.push(format!("{others} other rules"));
        }
        let error = format!(
            "it replaces prefixes, and a match that is none answers by itself; make it PathPrefix, or target other rules. \
             It is so in {}",
            listed.join(", ")
        );
        Some(InvalidPolicy { reason: Reason::MustHavePrefix, error: error.into() })
    }
}
