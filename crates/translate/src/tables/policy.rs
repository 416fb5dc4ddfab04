//! Policies: what they say, to what they are attached, and where they hold.

use std::{cmp::Reverse, sync::Arc};

use api::{Kind, ObjectId, meta::StringMap};
use engine::Emitter;
use ir::{NsName, Problem, Reason, RouteId, matching::Age};
use units::Said;

tables! {
    /// Policies as those need to know them that they apply to.
    PolicyRow: ObjectId => Policy;
    /// The policies attached to an object or to a section of it, in the order in which they count; absent where there are
    /// none.
    PoliciesOf: Target => Box<[ObjectId]>;
    /// The names of an object's sections; absent for an object that does not exist.
    Sections: ObjectId => Box<[Arc<str>]>;
    /// A policy that applies to something that a Gateway serves.
    PolicyAt: (ObjectId, NsName) => ();
    /// A policy that holds somewhere.
    InForce: ObjectId => ();
    /// A policy that holds somewhere in part, or beside others.
    Sharing: ObjectId => ();
    /// A policy of which nothing holds somewhere, since something holds in its place.
    Losing: ObjectId => ();
    /// What holds somewhere in place of a policy.
    Overridden: (ObjectId, Winner) => ();
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
    /// The policies that select objects of a namespace, or (an empty name) of every one, by a label, or (none) whatever labels
    /// they have.
    Selecting: (Kind, Arc<str>, Option<(Box<str>, Box<str>)>), (Rank, u32) => Arc<Selector>;
    /// The Gateways that serve what a policy applies to.
    PolicyGateways: ObjectId, NsName => ();
    /// What holds in place of a policy, where something does.
    Winners: ObjectId, Winner => ();
    /// Rules with matches that have no prefix, where a policy needs one.
    Prefixless: ObjectId, (RouteId, u32) => ();
}

/// What a policy can be attached to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Target {
    /// The HTTPRoute or Gateway.
    pub(crate) object: ObjectId,
    /// Its one rule or listener of this name; none means all of it.
    pub(crate) section: Option<Arc<str>>,
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
    pub(crate) units: Result<Box<[Said]>, Problem>,
}

impl Policy {
    /// What is wrong with it.
    pub(crate) fn faults(&self) -> impl Iterator<Item = &Problem> {
        let of_units = self.units.iter().flatten().filter_map(|said| said.unit.as_ref().err());
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

/// How a policy stands at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// All that holds there by policies is its own.
    Alone,
    /// Some of it is.
    Shared,
    /// Nothing of it is.
    Lost,
}

impl Standing {
    /// How `policy` stands among `fields`, each with the policies that supply it and whether this one says it and is not
    /// heard. None where it says nothing that matters there.
    pub(crate) fn of(policy: &ObjectId, fields: impl Iterator<Item = (Vec<ObjectId>, bool)>) -> Option<Self> {
        let (mut alone, mut shared, mut lost) = (false, false, false);
        for (winners, is_overridden) in fields {
            let supplies = winners.contains(policy);
            alone |= supplies;
            shared |= winners.iter().any(|winner| winner != policy);
            lost |= is_overridden;
        }
        match (alone, shared || lost, lost) {
            (true, false, _) => Some(Self::Alone),
            (true, true, _) => Some(Self::Shared),
            (false, _, true) => Some(Self::Lost),
            (false, _, false) => None,
        }
    }

    /// Has the policy know.
    pub(crate) fn tell(self, scope: &Emitter<'_>, policy: &ObjectId) {
        match self {
            Self::Alone => {}
            Self::Shared => scope.demand::<Sharing>(policy.clone()),
            Self::Lost => scope.demand::<Losing>(policy.clone()),
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
