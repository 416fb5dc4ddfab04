//! What tests ask of rows, for what no message and no status shows.

use std::sync::Arc;

use engine::TableStats;
use ir::Chain;

use crate::{
    Translator,
    budget::MatchingTime,
    policy::secrets::CredentialSlots,
    resolve::ResolvedRule,
    tables::input::RefusedPart,
    tables::policy::{Policy, PolicyRow},
    weight,
};

/// What a proxy needs for a virtual host, in bytes.
pub const HOST_WEIGHT: u64 = weight::HOST;
/// What a proxy needs for a listener that ends TLS, in bytes.
pub const HTTPS_LISTENER_WEIGHT: u64 = weight::HTTPS_LISTENER;

impl Translator {
    /// What each table holds and cost.
    pub fn stats(&self) -> Vec<TableStats> {
        self.engine().stats()
    }

    /// The steps that it took to estimate all regular expressions.
    pub fn matching_steps(&self) -> u64 {
        self.engine().rows::<MatchingTime>().into_iter().map(|(_, estimate)| estimate.steps).sum()
    }

    /// How many parts are remembered as refused by Envoy.
    pub fn refused_parts(&self) -> usize {
        self.engine().rows::<RefusedPart>().len()
    }

    /// How many texts of policies have slots that are made of Secrets.
    pub fn credential_slots(&self) -> usize {
        self.engine().rows::<CredentialSlots>().len()
    }

    /// The first slot of the first unit of each policy, which has to be sound.
    pub fn first_slots(&self) -> Vec<Arc<[u8]>> {
        let policies = self.engine().rows::<PolicyRow>();
        let of = |policy: &Policy| {
            let units = policy.units.as_ref().expect("units");
            units[0].unit.as_ref().expect("a sound unit").slots()[0].config.clone()
        };
        policies.iter().map(|(_, policy)| of(policy)).collect()
    }

    /// What is wrong with the policies of a namespace.
    pub fn policy_faults(&self, namespace: &str) -> Vec<String> {
        let policies = self.engine().rows::<PolicyRow>();
        let policies = policies.iter().filter(|(id, _)| &*id.key.namespace == namespace);
        policies.flat_map(|(_, policy)| policy.faults().map(|fault| fault.message.clone())).collect()
    }

    /// Whether the Envoy routes of a rule are kept as they are written.
    pub fn is_written(&self, chain: Chain, rule: u32) -> bool {
        self.engine().get::<ResolvedRule>(&(chain, rule)).expect("the rule").is_written()
    }
}
