//! How much time the regular expressions of a virtual host may cost one request.
//!
//! Envoy holds a request against all routes of its virtual host, one after the other, until one matches, so whoever has
//! routes there can make the requests of all others slow. What each expression may cost is known
//! ([`validate::regex::time`]), and a request meets only those behind whose prefix its path lies ([`guard`]). What
//! namespaces have together is bounded by shares: who asks for too much has the matches left out that exceed his, his
//! oldest routes first served. A match that is left out claims nothing, as one that cannot be expressed.
//!
//! A virtual host joins the routes of the hostnames that cover its own, so each kind of hostname has a part of its own:
//! no request meets more than one exact hostname, the wildcards below one domain, and the broad ones.
//!
//! [`guard`]: envoy::route::GuardedMatch::guard
//! [`validate::regex::time`]: validate::regex::time

pub(crate) mod cost;
mod prefix_costs;

use std::{collections::BTreeMap, sync::Arc};

use engine::{Derived, Emitter, Group, Lookup, Scope};
use ir::{Chain, Hostname, ListenerId, Problem, Reason, RouteId, Severity, matching::Age};

use cost::{Cost, LONGEST, Limits};
pub(crate) use cost::{MatchingTime, ReplacingTime};
use prefix_costs::PrefixCosts;

use crate::{
    share::{Payer, shares},
    tables::{attachment::Attached, input::Config, route::RouteHead},
};

/// The hostnames that share a part of the time of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Hosts {
    /// One name.
    Exact(Arc<str>),
    /// The wildcards at a domain of two labels and below it.
    Below(Arc<str>),
    /// Every name, and wildcards at one label.
    Broad,
}

impl Hosts {
    fn of(hostname: &Hostname) -> Self {
        match hostname {
            Hostname::Exact(name) => Self::Exact(name.clone()),
            Hostname::Wildcard(suffix) if suffix.contains('.') => {
                let start = suffix.rmatch_indices('.').nth(1).map_or(0, |(dot, _)| dot + 1);
                Self::Below(suffix[start..].into())
            }
            Hostname::Wildcard(_) | Hostname::Any => Self::Broad,
        }
    }

    /// What holding a request against the routes of these hostnames may cost, in nanoseconds.
    fn part_of(&self, limits: Limits) -> u64 {
        match self {
            Self::Exact(_) => limits.of_matching() / 2,
            Self::Below(_) | Self::Broad => limits.of_matching() / 4,
        }
    }
}

/// What is shared: a part of the time that requests to a listener have.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Account {
    listener: ListenerId,
    hosts: Hosts,
}

tables! {
    /// A namespace that has such rules: what it asks for.
    Asking: (Account, Payer) => ();
    /// What those get that ask for too much; absent where nobody does.
    Shared: Account => BTreeMap<Payer, u64>;
    /// What one of them gets, in nanoseconds.
    ShareOf: (Account, Payer) => u64;
    /// Tells its rules that would exceed that.
    TooSlow: (Account, Payer) => ();
}

groups! {
    /// What the namespaces that share something ask for, in nanoseconds.
    Asked: Account, Payer => u64;
    /// Holds something for a rule that would exceed the share of its namespace. Whoever reads it reads [`TooSlow`] as well,
    /// for its poison.
    Exceeding: (Account, Chain, u32), () => ();
    /// Rules of a route whose matches with expressions are left out.
    LeftOut: RouteId, (Chain, u32) => ();
}

/// What the rules of a namespace cost, the oldest route first.
pub(crate) struct Charges;

impl Group for Charges {
    const NAME: &'static str = "Charges";
    type Key = (Account, Payer);
    type Sort = (Age, Chain, u32, Hostname);
    type Entry = Arc<[Arc<Cost>]>;
    type Summary = u64;

    fn summary(costs: &Self::Entry) -> u64 {
        costs.iter().fold(0, |sum, cost| LONGEST.min(sum + cost.nanos))
    }
}

/// Charges a rule for its expressions where a listener serves it.
pub(crate) fn charge(
    scope: &Emitter<'_>,
    (chain, rule, listener): &(Chain, u32, ListenerId),
    attached: &Attached,
    costs: &Arc<[Arc<Cost>]>,
) {
    if costs.is_empty() {
        return;
    }
    // One that is gone and still served, until Envoy was asked about what comes after it, is younger than all.
    let created = scope.get::<RouteHead>(chain.route()).map_or(i64::MAX, |head| head.created);
    let age = Age { created, name: chain.route().name.clone() };
    for served in attached.hostnames(listener) {
        let account = Account { listener: listener.clone(), hosts: Hosts::of(&served.hostname) };
        let sort = (age.clone(), chain.clone(), *rule, served.hostname.clone());
        scope.emit::<Charges>((account.clone(), Payer::of(chain)), sort, costs.clone());
        scope.demand::<Asking>((account.clone(), Payer::of(chain)));
        scope.demand::<TooSlow>((account, Payer::of(chain)));
    }
}

impl Derived for Asking {
    fn compute(scope: &Emitter<'_>, key: &Self::Key) -> Option<()> {
        let (account, payer) = key;
        let config = scope.get::<Config>(&())?;
        let limit = account.hosts.part_of(Limits::of(&config));
        let charges = scope.group::<Charges>(key);
        // Far below any share it does not matter who meets whom.
        let asked = if *charges.summary() <= limit / 16 {
            *charges.summary()
        } else {
            // What no share could ever hold is left out in any case, and takes nothing from others.
            let charges = charges.iter().filter(|(_, costs)| met(costs.iter()).most() <= limit);
            let costs: Vec<_> = charges.flat_map(|(_, costs)| costs.iter()).collect();
            met(costs.into_iter()).most()
        };
        scope.emit::<Asked>(account.clone(), payer.clone(), asked.min(LONGEST));
        Some(())
    }

    /// At most it asks for everything together.
    fn poisoned(scope: &Emitter<'_>, key: &Self::Key, _: &engine::Fault) -> Option<()> {
        let (account, payer) = key;
        scope.emit::<Asked>(account.clone(), payer.clone(), *scope.group::<Charges>(key).summary());
        Some(())
    }
}

impl Lookup for Shared {
    fn compute(scope: &Scope<'_>, account: &Account) -> Option<BTreeMap<Payer, u64>> {
        let config = scope.get::<Config>(&())?;
        let limit = account.hosts.part_of(Limits::of(&config));
        let asked = scope.group::<Asked>(account);
        let shares = shares(limit, asked.iter().map(|(payer, amount)| (payer, *amount)));
        (!shares.is_empty()).then_some(shares)
    }
}

impl Lookup for ShareOf {
    fn compute(scope: &Scope<'_>, (account, payer): &Self::Key) -> Option<u64> {
        scope.get::<Shared>(account)?.get(payer).copied()
    }
}

impl Derived for TooSlow {
    fn compute(scope: &Emitter<'_>, key: &Self::Key) -> Option<()> {
        let Some(share) = scope.get::<ShareOf>(key) else { return Some(()) };
        let charges = scope.group::<Charges>(key);
        let mut met = PrefixCosts::among(charges.iter().flat_map(|(_, costs)| costs.iter()).map(|cost| &*cost.prefix));
        for ((_, chain, rule, _), costs) in charges.iter() {
            let own = self::met(costs.iter());
            if costs.iter().all(|cost| met.below(&cost.prefix).saturating_add(own.below(&cost.prefix)) <= *share) {
                costs.iter().for_each(|cost| met.add(&cost.prefix, cost.nanos));
            } else {
                scope.emit::<Exceeding>((key.0.clone(), chain.clone(), *rule), (), ());
            }
        }
        Some(())
    }
}

/// What single requests meet of these costs.
fn met<'a>(costs: impl Iterator<Item = &'a Arc<Cost>> + Clone) -> PrefixCosts<'a> {
    let mut met = PrefixCosts::among(costs.clone().map(|cost| &*cost.prefix));
    costs.for_each(|cost| met.add(&cost.prefix, cost.nanos));
    met
}

/// Whether the expressions of a rule are left out at a hostname.
pub(crate) fn is_too_slow(
    scope: &Scope<'_>,
    (chain, rule, listener): &(Chain, u32, ListenerId),
    hostname: &Hostname,
    costs: &[Arc<Cost>],
) -> Option<bool> {
    let hosts = Hosts::of(hostname);
    let limits = Limits::of(&*scope.get::<Config>(&())?);
    if met(costs.iter()).most() > hosts.part_of(limits) {
        return Some(true);
    }
    let account = Account { listener: listener.clone(), hosts };
    scope.get::<TooSlow>(&(account.clone(), Payer::of(chain)));
    Some(!scope.group::<Exceeding>(&(account, chain.clone(), *rule)).is_empty())
}

/// Takes note that the matches of a rule that have expressions are left out.
pub(crate) fn leave_out(scope: &Emitter<'_>, chain: &Chain, rule: u32) {
    scope.emit::<LeftOut>(chain.route().clone(), (chain.clone(), rule), ());
}

/// What is to be said of a rule whose matches with expressions are left out.
pub(crate) fn left_out(scope: &Scope<'_>, chain: &Chain, rule: u32) -> Option<Problem> {
    scope.group::<LeftOut>(chain.route()).get(&(chain.clone(), rule))?;
    let message = format!(
        "matches with regular expressions are left out, and their requests fall to broader routes, if any: those of \
         namespace {} could take more than its share of the {:?} that a request may take for all; begin them with more \
         text that is no expression, bound their repetitions as in [a-z]{{1,50}}, or use Exact or PathPrefix",
        chain.route().namespace(),
        scope.get::<Config>(&())?.regex.max_time
    );
    Some(Problem::new(Severity::Refused, Reason::UnsupportedValue, format!("spec.rules[{rule}].matches"), message))
}
