//! Trees of routes: who delegates to whom, and where each route stands.

use std::sync::Arc;

use engine::{Group, Scope, Summary, View};
use ir::{
    Chain, RouteId,
    delegation::{Children, Level, PlacedMatch},
    matching::{Path, Step},
};

use super::{gateway::Fault, terms::Terms};

tables! {
    /// Delegating rules as their children need to know them; absent for a rule that delegates nothing.
    Delegating: (Chain, u32) => Delegation;
    /// A route that a rule selects, judged by what its parent's matches leave it.
    Candidate: Chain => ();
    /// A route of a tree that delegates: lets it select its children.
    Growth: Chain => ();
    /// A route that is served at its place in a tree.
    ServedChain: Chain => Serving;
    /// Tells the routes of a root's tree that ask for more than their share of what it may have.
    OverShare: RouteId => ();
    /// Has the parents of a child know it that its status has no room for.
    TruncatedStatus: RouteId => ();
    /// What the children of a delegating rule have below one of its matches. Of the many that come and go the rule knows
    /// this, so that few wake it.
    ContributedBelow: (Chain, u32, u32) => Contributed;
    /// Where the last of those stands that are served below a match of a delegating rule, at any depth, and ask for no more
    /// than the match.
    LastCovering: (Chain, u32, u32) => Arc<[Step]>;
    /// What a reference of a delegating rule comes to, for the same reason.
    Referred: (Chain, u32, u32) => Referral;
}

groups! {
    /// The children of a delegating rule that go without. Whoever reads it reads [`OverShare`] as well, for its poison.
    ChildrenOverShare: (Chain, u32), RouteId => Excess;
    /// Where below others a route stands.
    Places: RouteId, Chain => Arc<Place>;
    /// The children that cover a match of their parent: they have a match which asks for no more, of a rule that delegates no
    /// further, by the place of the last such match.
    CoveringChildren: (Chain, u32, u32), (Arc<[Step]>, RouteId) => ();
    /// The matches of delegating rules that cover a match of their parent, and delegate it on: the child, its rule and
    /// the place there, each with where it stands. Whether anything is served for them is known only when it is for all below them.
    DelegatedMatches: (Chain, u32, u32), (RouteId, u32, u32) => Arc<[Step]>;
    /// The children of a route whose statuses have no room for it.
    TruncatedChildren: RouteId, RouteId => ();
}

/// What became of a reference of a delegating rule, by child.
pub(crate) struct Selections;

impl Group for Selections {
    const NAME: &'static str = "Selections";
    type Key = (Chain, u32, u32);
    type Sort = RouteId;
    type Entry = Selection;
    type Summary = SelectedBelow;

    fn summary(selection: &Selection) -> SelectedBelow {
        match selection {
            Selection::Selected => SelectedBelow { all: 1, unasked: 0 },
            Selection::Unasked => SelectedBelow { all: 1, unasked: 1 },
            Selection::Missing
            | Selection::NotPermitted
            | Selection::Withheld
            | Selection::Cycle
            | Selection::Unknown => SelectedBelow::default(),
        }
    }
}

/// How many children stand below: the rule need not look at each when one comes or goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SelectedBelow {
    /// All of them.
    all: u64,
    /// Those that did not ask for it.
    unasked: u64,
}

impl Summary for SelectedBelow {
    fn add(&mut self, Self { all, unasked }: &Self) {
        self.all += all;
        self.unasked += unasked;
    }

    fn remove(&mut self, Self { all, unasked }: &Self) {
        self.all -= all;
        self.unasked -= unasked;
    }
}

/// Whom a reference means, taken together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Referral {
    /// Somebody stands below.
    pub(crate) selected: bool,
    /// Somebody does who did not ask for it.
    pub(crate) unasked: bool,
    /// Those that do not, and why.
    pub(crate) others: Box<[(RouteId, Selection)]>,
}

impl engine::Lookup for Referred {
    /// None where nobody is meant.
    fn compute(scope: &Scope<'_>, key: &(Chain, u32, u32)) -> Option<Referral> {
        let selections = scope.group::<Selections>(key);
        if selections.is_empty() {
            return None;
        }
        let SelectedBelow { all, unasked } = *selections.summary();
        let others =
            selections.iter().filter(|(_, selection)| !matches!(selection, Selection::Selected | Selection::Unasked));
        let others = others.map(|(child, selection)| (child.clone(), *selection));
        Some(Referral {
            selected: all > 0,
            unasked: unasked > 0,
            others: if all == selections.len() as u64 { Box::default() } else { others.collect() },
        })
    }
}

/// What the children of a delegating rule have below one of its matches.
pub(crate) struct Contributions;

impl Group for Contributions {
    const NAME: &'static str = "Contributions";
    type Key = (Chain, u32, u32);
    type Sort = RouteId;
    type Entry = Contribution;
    type Summary = ContributionCounts;

    fn summary(contribution: &Contribution) -> ContributionCounts {
        match contribution {
            Contribution::Serves => ContributionCounts { serving: 1, ..ContributionCounts::default() },
            Contribution::Broken => ContributionCounts { broken: 1, ..ContributionCounts::default() },
            Contribution::Barred => ContributionCounts { barred: 1, ..ContributionCounts::default() },
        }
    }
}

/// How many children there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContributionCounts {
    serving: u64,
    broken: u64,
    barred: u64,
}

impl Summary for ContributionCounts {
    fn add(&mut self, Self { serving, broken, barred }: &Self) {
        self.serving += serving;
        self.broken += broken;
        self.barred += barred;
    }

    fn remove(&mut self, Self { serving, broken, barred }: &Self) {
        self.serving -= serving;
        self.broken -= broken;
        self.barred -= barred;
    }
}

/// What a child has below a match of its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contribution {
    /// A match that it serves.
    Serves,
    /// Nothing that it serves, since the child as a whole is broken or not allowed.
    Broken,
    /// Nothing: the match is no prefix, and the child does not inherit.
    Barred,
}

/// How a route is served at its place in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// As it says.
    AsWritten,
    /// Its matches answer 500, since they are more than its share.
    Closed,
}

/// What becomes of a route for which there is no room in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    /// Its matches answer 500.
    Closed,
    /// There is no room for that either: its matches claim nothing, and what is left of its parent's answers 500.
    LeftOut,
    /// It stands below such a one, and claims nothing.
    Below,
}

/// What all children have below a match of their parent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each says something of its own")]
pub(crate) struct Contributed {
    /// Somebody serves something.
    pub(crate) serves: bool,
    /// Somebody would serve if it were sound.
    pub(crate) broken: bool,
    /// Somebody is barred.
    pub(crate) barred: bool,
    /// Somebody has something for which the tree has no room.
    pub(crate) left_out: bool,
}

impl engine::Lookup for ContributedBelow {
    /// By the place of the match.
    fn compute(scope: &Scope<'_>, key: &(Chain, u32, u32)) -> Option<Contributed> {
        let children = scope.group::<Contributions>(key);
        let (chain, rule, _) = key;
        scope.get::<OverShare>(chain.top());
        let excess = scope.group::<ChildrenOverShare>(&(chain.clone(), *rule));
        let (counts, left_out) =
            if excess.is_empty() { (*children.summary(), false) } else { without(&children, &excess) };
        let ContributionCounts { serving, broken, barred } = counts;
        Some(Contributed { serves: serving > 0, broken: broken > 0, barred: barred > 0, left_out })
    }
}

/// How many children there are of each kind where some go without, and whether one of them is left out.
fn without(children: &View<Contributions>, excess: &View<ChildrenOverShare>) -> (ContributionCounts, bool) {
    let (mut counts, mut left_out) = (ContributionCounts::default(), false);
    for (child, contribution) in children.iter() {
        match (excess.get(child), contribution) {
            (Some(Excess::Closed), Contribution::Serves) => counts.add(&Contributions::summary(&Contribution::Broken)),
            (Some(Excess::LeftOut | Excess::Below), Contribution::Serves | Contribution::Broken) => left_out = true,
            (_, contribution) => counts.add(&Contributions::summary(contribution)),
        }
    }
    (counts, left_out)
}

/// The prefix that a match is, without a slash at its end.
fn prefix(placed: &PlacedMatch) -> Option<&str> {
    match &placed.written.path {
        Path::Prefix(path) => Some(path.trim_end_matches('/')),
        Path::Exact(_) | Path::Regex(_) => None,
    }
}

/// A delegating rule at its place in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delegation {
    /// The rule's name, by which a child may name it as its parent.
    pub(crate) rule_name: Option<Arc<str>>,
    /// Whom it selects, a reference each.
    pub(crate) children: Box<[(u32, Children)]>,
    /// Its matches, those of its own parents counted in.
    pub(crate) matches: Box<[PlacedMatch]>,
    /// The places of those of them that are prefixes, sorted by these: children may be held against thousands.
    pub(crate) by_prefix: Box<[u32]>,
    /// What it and the rules above it hand down, the root's first.
    pub(crate) levels: Box<[Arc<Level>]>,
    /// What is asked of its children.
    pub(crate) terms: Terms,
}

/// What became of a reference to a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// The child stands below.
    Selected,
    /// The child stands below, in another namespace and without having named the parent.
    Unasked,
    /// There is no such route.
    Missing,
    /// It does not admit the parent.
    NotPermitted,
    /// It is of another namespace, and one of the two: which is nothing that the parent's owner may learn.
    Withheld,
    /// It stands above already.
    Cycle,
    /// Nobody knows: what it asks for could not be computed.
    Unknown,
}

/// What became of a route below a rule that selects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Why none of its rules does what it says.
    pub(crate) fault: Option<Fault>,
    /// The rules and matches that lie below the parent's.
    pub(crate) served: Box<[(u32, u32)]>,
    /// Those that do not, and why.
    pub(crate) left_out: Box<[(u32, u32, String)]>,
}

impl Delegation {
    /// The places of matches by their prefixes, for [`Self::by_prefix`].
    pub(crate) fn sorted_by_prefix(matches: &[PlacedMatch]) -> Box<[u32]> {
        let mut places: Vec<_> =
            (0..).zip(matches).filter(|(_, placed)| prefix(placed).is_some()).map(|(place, _)| place).collect();
        places.sort_by_key(|place: &u32| matches.get(*place as usize).and_then(prefix));
        places.into()
    }

    /// The places, in order, of the matches whose prefix is `path` or lies above it.
    pub(crate) fn around(&self, path: &str) -> Vec<u32> {
        let of = |place: &u32| self.matches.get(*place as usize).and_then(prefix);
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        let mut around: Vec<_> = ends
            .flat_map(|end| {
                let above = path.get(..end);
                let from = self.by_prefix.partition_point(|place| of(place) < above);
                self.by_prefix[from..].iter().take_while(move |place| of(place) == above).copied()
            })
            .collect();
        around.sort_unstable();
        around
    }

    /// The place of the reference that names a child, if one does.
    pub(crate) fn position(&self, child: &RouteId) -> Option<u32> {
        let names = |children: &Children| matches!(children, Children::Named(name) if name == child);
        self.children.iter().find(|(_, children)| names(children)).map(|(position, _)| *position)
    }
}
