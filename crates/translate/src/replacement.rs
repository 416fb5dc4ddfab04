//! What stands in place of what is broken, for those who count it.

use engine::{Derived, Emitter};

use ir::ListenerId;

use crate::{
    capacity,
    policy::wide::{BrokenGateway, BrokenListener},
    resolve::ways,
    stream,
    tables::replacement::{Replaced, ReplacedRule, ReplacedScope, ReplacedWide, Replacement},
};

impl Derived for Replaced {
    fn compute(scope: &Emitter<'_>, key: &ReplacedRule) -> Option<Replacement> {
        if key.route.route().kind.is_stream() {
            let closed = stream::closed(scope, &key.gateway, key.route.route());
            let problem = closed.or_else(|| capacity::no_room(scope, &key.route, key.rule, &key.gateway))?;
            return Some(Replacement { reason: problem.reason, error: problem.to_string().into() });
        }
        let ways = ways(scope, &key.route, key.rule, Some(&key.gateway));
        let mut findings = ways.iter().filter_map(|way| way.findings.as_ref());
        let broken = findings.find_map(|findings| findings.replaced.clone());
        let problem = broken.or_else(|| capacity::no_room(scope, &key.route, key.rule, &key.gateway))?;
        Some(Replacement { reason: problem.reason, error: problem.to_string().into() })
    }
}

impl Derived for ReplacedWide {
    fn compute(scope: &Emitter<'_>, ReplacedScope { config, host }: &ReplacedScope) -> Option<Replacement> {
        let of_gateway = scope.get::<BrokenGateway>(&config.gateway);
        let listener = host.as_ref().map(|(_, listener)| listener).or(config.listener.as_ref());
        let fault = match (of_gateway, listener) {
            // Its route configuration is replaced already.
            (Some(_), _) if host.is_some() => return None,
            (Some(fault), _) => fault,
            (None, Some(listener)) => {
                scope.get::<BrokenListener>(&ListenerId::new(config.gateway.clone(), listener.clone()))?
            }
            (None, None) => return None,
        };
        Some(Replacement { reason: fault.reason, error: fault.message.as_str().into() })
    }
}
