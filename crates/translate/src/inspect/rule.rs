//! Rules as they are served.

use std::{collections::BTreeSet, sync::Arc};

use api::{Kind, ObjectId};
use envoy::bytes::Row;
use ir::{Chain, ListenerId, NsName, Problem, Reason, backend::Destination, matching::Origin, rule::Slot};

use super::Inspector;
use crate::{
    backend::config::ConfigOf,
    policy::{
        self,
        merge::Merged,
        wide::{BrokenGateway, BrokenListener, section, seen_slots, whole},
    },
    resolve::{ANYWHERE, Findings, Resolved, ResolvedRule, served_at},
    tables::{
        backend::{ClusterId, Shares, ShownThere},
        gateway::{ClientCertificate, Fault},
        input::ObjectKey,
        policy::{Target, UnitOutcome, Verdict, Winner},
        tls::{BackendTls, NoRoom},
    },
    target::backend_object,
};

/// A rule as it is served.
#[derive(Clone)]
pub struct ServedRule(Arc<Resolved>);

/// What policies of a listener and of its Gateway say for all routes there.
#[derive(Clone)]
pub struct WideUnits {
    units: Arc<Box<[Arc<Merged>]>>,
    slots: Option<Arc<Box<[Slot]>>>,
}

impl Inspector<'_> {
    /// A rule of a route where it stands.
    pub fn rule(self, chain: &Chain, rule: u32) -> Option<ServedRule> {
        self.engine.get::<ResolvedRule>(&(chain.clone(), rule)).map(ServedRule)
    }

    /// The same as a listener serves it.
    pub fn rule_at(self, chain: &Chain, rule: u32, listener: &ListenerId) -> Option<ServedRule> {
        let there = served_at(self.engine, &(chain.clone(), rule, listener.clone()));
        there.map(ServedRule).or_else(|| self.rule(chain, rule))
    }

    /// The policies that say something of connections to each backend that a rule sends to, where any does, and holds or is
    /// broken there.
    pub fn connections(self, rule: &ServedRule) -> Vec<(Destination, Vec<ObjectId>)> {
        let shares = rule.0.session.iter().flat_map(|session| session.shares.iter().map(|(to, _)| to.clone()));
        let backends: BTreeSet<_> = rule.0.clusters.iter().filter_map(ClusterId::to).chain(shares).collect();
        let said = backends.into_iter().filter_map(|to| {
            let said = self.engine.get::<ConfigOf>(&backend_object(&to));
            let mut policies = said.map(|said| said.policies()).unwrap_or_default();
            if let Some(secured) = self.engine.get::<BackendTls>(&to.clone().plain()) {
                policies.push(secured.id());
            }
            (!policies.is_empty()).then_some((to, policies))
        });
        said.collect()
    }

    /// The backends of a rule for which the proxies of a Gateway have no cluster, though the rule is sound: each with the object
    /// whose owner must act, and why.
    pub fn unsent(self, gateway: &NsName, rule: &ServedRule) -> Vec<(Destination, String, Fault)> {
        let no_room = self.engine.group::<NoRoom>(gateway);
        let certificate = self.engine.get::<ClientCertificate>(gateway);
        let nothing_to_show = certificate.as_ref().and_then(|shown| shown.as_ref().as_ref().err());
        let mut unsent = Vec::new();
        for cluster in &rule.0.clusters {
            let (object, fault) = if let Some(policy) = no_room.get(cluster) {
                without_room(gateway, policy)
            } else if let Some(fault) = nothing_to_show
                && self.engine.get::<ShownThere>(cluster).is_some()
            {
                (gateway.clone().id(Kind::Gateway), fault.clone())
            } else {
                continue;
            };
            let of_session = rule.0.session.iter().flat_map(|session| session.shares.iter().map(|(to, _)| to.clone()));
            let backends: Vec<_> = cluster.to().map_or_else(|| of_session.collect(), |to| vec![to]);
            unsent.extend(backends.into_iter().map(|to| (to, object.to_string(), fault.clone())));
        }
        unsent
    }

    /// What policies of a listener and of its Gateway say for all routes there; none where they say nothing.
    pub fn wide_units(self, listener: &ListenerId) -> Option<WideUnits> {
        self.wide_units_at(&section(listener))
    }

    /// What policies of a Gateway say for all routes there; none where they say nothing.
    pub fn wide_units_of(self, gateway: &NsName) -> Option<WideUnits> {
        self.wide_units_at(&whole(gateway))
    }

    fn wide_units_at(self, target: &Target) -> Option<WideUnits> {
        let units = self.engine.get::<policy::wide::WideUnits>(target)?;
        Some(WideUnits { units, slots: seen_slots(self.engine, target) })
    }

    /// Why everything of a Gateway answers by itself; none where its own policies are sound.
    pub fn broken_gateway(self, gateway: &NsName) -> Option<Arc<Fault>> {
        self.engine.get::<BrokenGateway>(gateway)
    }

    /// Why everything of a listener answers by itself, apart from its Gateway.
    pub fn broken_listener(self, listener: &ListenerId) -> Option<Arc<Fault>> {
        self.engine.get::<BrokenListener>(listener)
    }
}

/// Whose owner must act, and why, where the status of a policy of TLS has no room for a Gateway.
pub(super) fn without_room(gateway: &NsName, policy: &NsName) -> (ObjectId, Fault) {
    let message = format!("its status has no room for one more Gateway, {gateway}; have fewer Gateways lead there");
    (policy.clone().id(Kind::BackendTlsPolicy), Fault::new(Reason::TooManyAncestors, message))
}

/// Who is heard, of the policies of a listener and of its Gateway that say a field.
pub struct WideUnit<'a> {
    /// The field.
    pub field: &'static str,
    /// The policies that supply it.
    pub from: Vec<&'a ObjectId>,
    /// Those that say it and are not heard.
    pub overridden: Vec<&'a ObjectId>,
    /// By whose word that is so, where the Gateway has it merged otherwise than is the default.
    pub words: Vec<String>,
}

impl WideUnits {
    /// Each field of which they say something.
    pub fn all(&self) -> impl Iterator<Item = WideUnit<'_>> {
        self.units.iter().map(|merged| WideUnit {
            field: merged.field(),
            from: merged.outcome.policies().collect(),
            overridden: merged.outcome.overridden.iter().map(|lost| &lost.policy).collect(),
            words: merged.outcome.words.iter().map(ToString::to_string).collect(),
        })
    }

    /// The slots of the filter chain that hold for routes which say nothing of the same.
    pub fn slots(&self) -> &[Slot] {
        self.slots.as_deref().map_or(&[], |slots| slots)
    }

    /// The policies of which `field` holds there in a slot of the filter chain, and those in whose place they do.
    pub fn policies(&self, field: &str) -> Option<(impl Iterator<Item = &ObjectId>, impl Iterator<Item = &ObjectId>)> {
        let outcome = &self.units.iter().find(|merged| merged.is_slot(field))?.outcome;
        Some((outcome.policies(), outcome.overridden.iter().map(|lost| &lost.policy)))
    }

    /// By whose word that is so, where the Gateway has it merged otherwise than is the default.
    pub fn words(&self, field: &str) -> Vec<String> {
        let merged = self.units.iter().filter(|merged| merged.is_slot(field));
        merged.flat_map(|merged| &merged.outcome.words).map(ToString::to_string).collect()
    }
}

impl ServedRule {
    /// The Envoy routes that its matches become, in their order. Of those that differ from listener to listener it is
    /// those of an HTTP listener.
    pub fn envoy_routes(&self) -> Vec<(Origin, Row)> {
        let routes = self.0.routes_at(ANYWHERE);
        let routes = routes.iter();
        routes.filter_map(|route| Some((Origin::of(&route.steps, route.order)?, route.row.clone()))).collect()
    }

    /// Why one of its matches answers by itself.
    pub fn problems_of_match(&self, matching: u32) -> impl Iterator<Item = &Problem> {
        let of_matches = self.0.findings.iter().flat_map(|findings| findings.closed.iter().chain(&findings.empty));
        of_matches.filter_map(move |(index, problem)| (*index == matching).then_some(problem))
    }

    /// What is wrong with it as a whole, worst first.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.0.findings.iter().flat_map(|findings| {
            let Findings { replaced, unresolved, shares, warnings, .. } = &**findings;
            replaced.iter().chain(unresolved).chain(shares).chain(warnings)
        })
    }

    /// Why shares of it answer 500.
    pub fn broken_shares(&self) -> impl Iterator<Item = &Problem> {
        self.0.findings.iter().flat_map(|findings| findings.unresolved.iter().chain(&findings.shares))
    }

    /// What stands behind a cluster that it sends to, each with its weight: `weight`, or the weights of a rule whose
    /// sessions hold across its backends. None for a cluster that it does not send to.
    pub fn backends(&self, cluster: &str, weight: u32) -> Option<Vec<(Destination, u32)>> {
        match self.0.clusters.iter().find(|id| id.name() == cluster)?.to() {
            Some(to) => Some(vec![(to, weight)]),
            None => {
                let Shares { shares, .. } = self.0.session.as_deref()?;
                Some(shares.clone())
            }
        }
    }

    /// The fields of which policies say something that matters there, each once.
    pub fn fields(&self) -> Vec<&'static str> {
        let units = self.0.policies.iter().flat_map(|policies| &policies.units);
        let is_said = |unit: &&UnitOutcome| {
            !unit.overridden.is_empty() || unit.winners.iter().any(|winner| matches!(winner, Winner::Policy(_)))
        };
        let mut fields: Vec<_> = units.filter(is_said).map(|unit| unit.field).collect();
        fields.dedup();
        fields
    }

    /// By whose word `field` is as it is, where an object above has it merged otherwise than is the default.
    pub fn words(&self, field: &str) -> Vec<String> {
        let units = self.0.policies.iter().flat_map(|policies| &policies.units).filter(|unit| unit.field == field);
        units.flat_map(|unit| &unit.words).map(ToString::to_string).collect()
    }

    /// The policies of which `field` holds, and those in whose place something else does.
    pub fn policies(&self, field: &str) -> (Vec<&ObjectId>, Vec<&ObjectId>) {
        let units = self.0.policies.iter().flat_map(|policies| &policies.units);
        let mut found = (Vec::new(), Vec::new());
        for unit in units.filter(|unit| unit.field == field) {
            let Verdict { winners, overridden, .. } = &**unit;
            for winner in winners {
                if let Winner::Policy(policy) = winner
                    && !found.0.contains(&policy)
                {
                    found.0.push(policy);
                }
            }
            found.1.extend(overridden.iter().map(|lost| &lost.policy));
        }
        found
    }
}
