//! Policies: what they say, to what they are attached, and where they hold.

use std::{cmp::Reverse, fmt, ops::Deref, sync::Arc};

use api::{Kind, ObjectId, meta::StringMap};
use engine::{Group, Summary};
use ir::{
    Chain, Edition, ListenerId, NsName, Problem, Reason, RouteId, delegation::Priority, key::Unordered, matching::Age,
};
use units::ParsedUnit;

use super::edition::Source;

/// How many ancestors the status of a policy may name (Gateway API `PolicyStatus.ancestors`).
pub(crate) const MAX_ANCESTORS: usize = 16;

tables! {
    /// Policies as those need to know them that they apply to.
    PolicyRow: Source<ObjectId> => Policy;
    /// The policies attached to an object or to a section of it, in the order in which they count; absent where there are
    /// none.
    PoliciesOf: Target => Box<[ObjectId]>;
    /// The BackendConfigPolicies attached to a Service or Backend, likewise. Apart from other policies, which may ask providers
    /// and therefore come after all that is said of these.
    ConfigPoliciesOf: ObjectId => Box<[ObjectId]>;
    /// The ListenerPolicies attached to a Gateway, likewise.
    ListenerPoliciesOf: NsName => Box<[ObjectId]>;
    /// The names of an object's sections; absent for an object that does not exist.
    Sections: ObjectId => Box<[Arc<str>]>;
    /// A policy that applies to something that a Gateway serves.
    PolicyAt: (ObjectId, NsName) => ();
    /// An entry of a RewritePolicy that is used, by its place.
    UsedEntry: (ObjectId, u32) => ();
    /// A rule with matches that have no prefix, where a policy needs one.
    WithoutPrefix: (ObjectId, RouteId, u32) => ();
    /// Why a policy is not valid; absent for one that is.
    InvalidPolicies: ObjectId => InvalidPolicy;
}

groups! {
    /// The policies that name an object or a section of it as their target.
    Targeting: Target, Rank => ();
    /// The listeners of a Gateway that policies name as their target, whether they are there or not, each by the policy and the
    /// place in its `targetRefs`.
    NamingListeners: NsName, (ObjectId, u32) => Arc<str>;
    /// The policies that select objects of a namespace, or (an empty name) of every one, by a label, or (none) whatever labels
    /// they have.
    Selecting: Source<(Kind, Arc<str>, Option<(Box<str>, Box<str>)>)>, (Rank, u32) => Arc<Selector>;
    /// The BackendConfigPolicies that name an object as their target.
    ConfigTargeting: Target, Rank => ();
    /// The BackendConfigPolicies that select objects, as [`Selecting`].
    ConfigSelecting: Source<(Kind, Arc<str>, Option<(Box<str>, Box<str>)>)>, (Rank, u32) => Arc<Selector>;
    /// The ListenerPolicies that name a Gateway as their target.
    ListenerTargeting: Target, Rank => ();
    /// The ListenerPolicies that select Gateways, as [`Selecting`].
    ListenerSelecting: Source<(Kind, Arc<str>, Option<(Box<str>, Box<str>)>)>, (Rank, u32) => Arc<Selector>;
    /// The Gateways that serve what a policy applies to.
    PolicyGateways: ObjectId, NsName => ();
    /// What holds in place of a policy, and where.
    Overrides: ObjectId, (Arc<Override>, Unordered<PolicyPlace>) => ();
    /// Rules with matches that have no prefix, where a policy needs one.
    Prefixless: ObjectId, (RouteId, u32) => ();
}

/// What a policy can be attached to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Target {
    /// The route, Gateway or ListenerSet.
    pub(crate) object: ObjectId,
    /// Its one rule or listener of this name; none means all of it.
    pub(crate) section: Option<Arc<str>>,
    /// The edition whose policies are meant; none for those as they are. What names a place of a Gateway has none.
    pub(crate) edition: Option<Edition>,
}

/// Where a policy stands among those of its kind on one target: the smallest counts first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// Its kind, which keeps kinds apart.
    pub(crate) kind: Kind,
    /// The greater first.
    pub(crate) weight: Reverse<i32>,
    /// The older first.
    pub(crate) age: Age,
}

impl Rank {
    /// Whose rank it is.
    pub(crate) fn policy(&self) -> ObjectId {
        ObjectId::new(self.kind, self.age.name.namespace.clone(), self.age.name.name.clone())
    }
}

/// Selects objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selector {
    /// The labels that an object must have.
    pub(crate) labels: StringMap,
    /// The section of it that is meant.
    pub(crate) section: Option<Arc<str>>,
}

/// What a policy says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Where it stands among others.
    pub(crate) rank: Rank,
    /// What it says; or why nobody knows what, so that nothing is served that it applies to.
    pub(crate) units: Result<Box<[ParsedUnit]>, Problem>,
}

impl Policy {
    /// What is wrong with it.
    pub(crate) fn faults(&self) -> impl Iterator<Item = &Problem> {
        let of_units = self.units.iter().flatten().filter_map(|said| said.unit.as_ref().err().map(AsRef::as_ref));
        self.units.as_ref().err().into_iter().chain(of_units)
    }
}

/// What holds in place of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Winner {
    /// What a rule says itself of this field of a policy.
    Rule(&'static str),
    /// Another policy.
    Policy(ObjectId),
    /// What is inherited, which a policy may not switch off by the word of this DelegationPolicy.
    Keeper(NsName),
}

impl Winner {
    /// Whether it is this policy.
    pub(crate) fn is(&self, policy: &ObjectId) -> bool {
        matches!(self, Self::Policy(winner) if winner == policy)
    }
}

/// Why a policy goes before another that says the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Why {
    /// It is attached to less: named by the rule itself, or on the rule and not on all of its route.
    Closer,
    /// It is of a kind that goes before the other.
    Kind,
    /// It weighs more.
    Weight,
    /// It is older.
    Age,
    /// Its name comes first.
    Name,
    /// Its level is nearer to the rule.
    Nearer,
    /// The owner of a level says so.
    Annotation(Word),
}

/// What the owner of a level says of how it is merged with those below.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Word {
    /// The route or Gateway.
    pub owner: ObjectId,
    /// What it says.
    pub priority: Priority,
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.priority.as_str(), self.owner)
    }
}

/// What holds in place of a policy, and why.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Override {
    /// What holds.
    pub(crate) by: Winner,
    /// Why it goes before the policy; none where it goes before every policy.
    pub(crate) why: Option<Why>,
}

/// A policy that says something and is not heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Which.
    pub(crate) policy: ObjectId,
    /// What holds in its place; none where that is what a listener or its Gateway says.
    pub(crate) to: Option<Arc<Override>>,
}

/// What became of a unit where policies apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnitOutcome {
    /// The field.
    pub(crate) field: &'static str,
    /// Who is heard; often the same for several units.
    pub(crate) verdict: Arc<Verdict>,
}

/// Who is heard, of all that say a unit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// What holds: one, or the policies that are merged deeply; none where that is what a listener or its Gateway says.
    pub(crate) winners: Box<[Winner]>,
    /// The policies that say it too and are not heard.
    pub(crate) overridden: Box<[Lost]>,
    /// The levels above that decided otherwise than is the default.
    pub(crate) words: Box<[Word]>,
}

impl Deref for UnitOutcome {
    type Target = Verdict;

    fn deref(&self) -> &Verdict {
        &self.verdict
    }
}

impl UnitOutcome {
    pub(crate) fn new(
        field: &'static str,
        winners: impl Into<Box<[Winner]>>,
        overridden: impl Into<Box<[Lost]>>,
        words: impl Into<Box<[Word]>>,
    ) -> Self {
        let verdict = Verdict { winners: winners.into(), overridden: overridden.into(), words: words.into() };
        Self { field, verdict: Arc::new(verdict) }
    }

    /// The policies that hold, the nearest first.
    pub(crate) fn policies(&self) -> impl Iterator<Item = &ObjectId> {
        self.winners.iter().filter_map(|winner| match winner {
            Winner::Policy(policy) => Some(policy),
            Winner::Rule(_) | Winner::Keeper(_) => None,
        })
    }

    /// All policies that say it.
    pub(crate) fn all(&self) -> impl Iterator<Item = &ObjectId> {
        self.policies().chain(self.overridden.iter().map(|lost| &lost.policy))
    }
}

/// Where policies apply and say something, and how they stand there.
pub(crate) struct Standings;

impl Group for Standings {
    const NAME: &'static str = "Standings";
    type Key = ObjectId;
    type Sort = Unordered<PolicyPlace>;
    type Entry = Standing;
    type Summary = StandingCounts;

    fn summary(standing: &Standing) -> StandingCounts {
        let mut counts = StandingCounts::default();
        *match standing {
            Standing::Alone => &mut counts.alone,
            Standing::Shared => &mut counts.shared,
            Standing::Lost => &mut counts.lost,
            Standing::Closed => &mut counts.closed,
            Standing::Yields => &mut counts.yields,
        } = 1;
        counts
    }
}

/// A place where policies hold. Places are counted, not listed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum PolicyPlace {
    /// A listener, for all routes that say nothing of the same.
    Listener(ListenerId),
    /// A rule where a listener serves it.
    Rule(Chain, u32, ListenerId),
}

/// How a policy stands at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// All that holds there by policies is its own.
    Alone,
    /// Some of it is.
    Shared,
    /// Nothing of it is.
    Lost,
    /// Nothing holds there, since the place answers by itself for what is wrong with something else.
    Closed,
    /// It holds for all of a listener, and a rule there says some of it otherwise.
    Yields,
}

/// At how many places a policy stands how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StandingCounts {
    pub(crate) alone: u64,
    pub(crate) shared: u64,
    pub(crate) lost: u64,
    pub(crate) closed: u64,
    pub(crate) yields: u64,
}

impl StandingCounts {
    /// The places where something of it holds.
    pub(crate) fn in_force(&self) -> u64 {
        self.alone + self.shared
    }

    /// The places where it applies. Rules that say otherwise than what holds for all of their listener are none.
    pub(crate) fn places(&self) -> u64 {
        self.in_force() + self.lost + self.closed
    }
}

impl Summary for StandingCounts {
    fn add(&mut self, Self { alone, shared, lost, closed, yields }: &Self) {
        self.alone += alone;
        self.shared += shared;
        self.lost += lost;
        self.closed += closed;
        self.yields += yields;
    }

    fn remove(&mut self, Self { alone, shared, lost, closed, yields }: &Self) {
        self.alone -= alone;
        self.shared -= shared;
        self.lost -= lost;
        self.closed -= closed;
        self.yields -= yields;
    }
}

impl Standing {
    /// How `policy` stands among `fields`, each with the policies that supply it and those that say it and are not heard.
    /// None where it says nothing that matters there.
    pub(crate) fn of<'a, W: Iterator<Item = &'a ObjectId>>(
        policy: &ObjectId,
        fields: impl Iterator<Item = (W, &'a [Lost])>,
    ) -> Option<Self> {
        let (mut alone, mut shared, mut lost) = (false, false, false);
        for (winners, others) in fields {
            for winner in winners {
                let is_own = winner == policy;
                alone |= is_own;
                shared |= !is_own;
            }
            lost |= others.iter().any(|other| other.policy == *policy);
        }
        Self::among(alone, shared, lost)
    }

    /// The same of a policy of which something holds, or beside which others do, or which is not heard of something.
    pub(crate) fn among(holds: bool, beside_others: bool, is_lost: bool) -> Option<Self> {
        match (holds, beside_others || is_lost, is_lost) {
            (true, false, _) => Some(Self::Alone),
            (true, true, _) => Some(Self::Shared),
            (false, _, true) => Some(Self::Lost),
            (false, _, false) => None,
        }
    }
}

/// Why a policy is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPolicy {
    /// The reason, as in its status.
    pub reason: Reason,
    /// Field, value and remedy.
    pub error: Arc<str>,
}
