//! How a request is treated that a match takes: what the policies on its way come to.

use std::collections::BTreeMap;

use super::merge::{Level, merged};
use super::model::Listener;
use super::policy::{Target, TrafficPolicy, rule_policies};
use super::sight::{Sight, Units, sight};
use super::worlds::Asked;
use super::{Answer, Oracle, Outcome, Step, Taken};

/// How a request is treated.
#[derive(Clone, Debug)]
pub enum Treatment {
    /// The listener answers 500 to everything that the Gateway's units let through.
    ClosedAtAll(Units),
    /// The rule, or one above it, answers 500 to what units of the listener and its Gateway let through.
    Closed(Units),
    /// These units hold, of which none is refused.
    Units(Units),
}

impl Treatment {
    /// What is seen of a request with this outcome that the backend has had so many times already.
    pub(super) fn sight(&self, outcome: &Outcome, asked: &Asked, tries: usize) -> Sight {
        let (units, answer) = match self {
            // Where a rule has no child for a request there is nothing to be closed.
            Self::Closed(_) if outcome.answer() == Answer::DirectResponse(404) => return Sight::default(),
            Self::ClosedAtAll(units) | Self::Closed(units) => (units, Some(500)),
            Self::Units(units) => match outcome.answer() {
                Answer::Backends { broken_share: false, .. } => (units, None),
                Answer::Redirect => (units, Some(302)),
                Answer::Backends { .. } | Answer::DirectResponse(_) => return Sight::default(),
            },
        };
        sight(units, answer, asked, tries)
    }
}

impl Oracle {
    /// How a request is treated that a match takes.
    pub fn treat(&self, asked: &Asked, taken: &Taken) -> Treatment {
        let listener = self.listener(asked.gateway, asked.port, &asked.request.host).expect("a listener");
        let wide = self.wide(listener);
        if is_closed(&wide) {
            return Treatment::ClosedAtAll(merged(&wide[1..]));
        }
        let of_listener = merged(&wide);
        let (below, closed): (Vec<_>, Vec<_>) = taken.chain.iter().rev().map(|step| self.rule(step)).unzip();
        if closed.contains(&true) {
            return Treatment::Closed(of_listener);
        }
        let levels: Vec<_> = below.into_iter().chain(wide).collect();
        let units = merged(&levels);
        if units.values().any(|held| held.value.is_none()) {
            return Treatment::Closed(of_listener);
        }
        Treatment::Units(units)
    }

    /// Whether the listener that a request belongs to answers 500 to everything.
    pub(super) fn is_closed_at_all(&self, asked: &Asked) -> bool {
        let listener = self.listener(asked.gateway, asked.port, &asked.request.host);
        listener.is_some_and(|listener| is_closed(&self.wide(listener)))
    }

    /// The levels of a listener and its Gateway, the nearer first.
    fn wide(&self, listener: &Listener) -> [Level<'_>; 2] {
        let at = |section| Target { kind: "Gateway", name: listener.gateway.clone(), section };
        [at(Some(listener.name.clone())), at(None)].map(|target| {
            let all = self.world.traffic_policies.iter();
            let policies = all.filter(|policy| policy.is_at(&target, &BTreeMap::new())).collect();
            let owner = format!("Gateway {}", listener.gateway);
            Level { owner, mode: &self.world.modes[&listener.gateway], policies }
        })
    }

    /// The level of a rule, and whether it closes all that the rule and those below it take.
    fn rule(&self, step: &Step) -> (Level<'_>, bool) {
        let mut routes = self.world.routes.iter();
        let route = routes.find(|route| route.name == step.route).expect("a route");
        let rule = &route.rules[step.rule];
        let policies =
            rule_policies(&self.world.traffic_policies, &route.name, &route.labels, rule).unwrap_or_default();
        (Level { owner: format!("HTTPRoute {}", route.name), mode: &route.mode, policies }, rule.closed)
    }
}

/// A scope closes as a whole, whatever is said below it.
fn is_closed(wide: &[Level<'_>]) -> bool {
    let is_broken = |policy: &&TrafficPolicy| policy.units.as_ref().is_none_or(|all| all.values().any(Result::is_err));
    wide.iter().any(|level| level.policies.iter().any(is_broken))
}
