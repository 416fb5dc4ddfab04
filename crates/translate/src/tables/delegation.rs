//! Trees of routes: who delegates to whom, and where each route stands.

use std::sync::Arc;

use engine::Scope;
use ir::{Chain, NsName};

use super::gateway::Fault;
use crate::delegation::{Children, Level, Rendered, Terms};

tables! {
    /// Delegating rules as their children need to know them; absent for a rule that delegates nothing.
    Delegating: (Chain, u32) => Delegation;
    /// A route that a rule selects, judged by what its parent's matches leave it.
    Candidate: Chain => ();
    /// A route that is served at its place in a tree.
    Branch: Chain => ();
    /// Has the parents of a child know it that its status has no room for.
    Overfull: NsName => ();
}

groups! {
    /// Where below others a route stands.
    Places: NsName, Chain => Arc<Place>;
    /// The children of a route whose statuses have no room for it.
    Unlisted: NsName, NsName => ();
}

/// What became of a reference of a delegating rule, by child.
pub(crate) struct Selections;

impl engine::Group for Selections {
    const NAME: &'static str = "Selections";
    type Key = (Chain, u32, u32);
    type Sort = NsName;
    type Entry = Selection;

    /// How many stand below, how many of them unasked: the rule need not look at each when one comes or goes.
    fn digest(selection: &Selection) -> engine::Digest {
        let len = match selection {
            Selection::Selected => 1,
            Selection::Unasked => 1 | 1 << COUNT,
            Selection::Missing | Selection::NotPermitted | Selection::Cycle => 0,
        };
        engine::Digest { len, hash: [0; 16] }
    }
}

/// How many of a reference's children stand below, and how many of them unasked.
pub(crate) fn selected(selections: &engine::View<Selections>) -> (u64, u64) {
    (selections.byte_len() & ((1 << COUNT) - 1), selections.byte_len() >> COUNT)
}

/// What the children of a delegating rule have below one of its matches.
pub(crate) struct Fitting;

impl engine::Group for Fitting {
    const NAME: &'static str = "Fitting";
    type Key = (Chain, u32, u32);
    type Sort = NsName;
    type Entry = Fit;

    /// How many there are of each kind, side by side.
    fn digest(fit: &Fit) -> engine::Digest {
        let len = match fit {
            Fit::Serves { as_much } => 1 + if *as_much { 1 << (2 * COUNT) } else { 0 },
            Fit::Broken => 0,
            Fit::Barred => 1 << COUNT,
        };
        engine::Digest { len, hash: [0; 16] }
    }
}

/// Bits of a count: more children than a tree can have.
const COUNT: u32 = 21;

/// What a child has below a match of its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// A match that it serves.
    Serves {
        /// Whether one of them asks for no more than the parent's.
        as_much: bool,
    },
    /// Nothing that it serves, since the child as a whole is broken or not allowed.
    Broken,
    /// Nothing: the match is no prefix, and the child does not inherit.
    Barred,
}

/// How many children have what below a match of their parent.
pub(crate) struct Fits {
    /// They serve something.
    pub(crate) serving: u64,
    /// They serve a match that asks for no more than the parent's.
    pub(crate) as_much: u64,
    /// They would serve if they were sound.
    pub(crate) broken: u64,
    /// They are barred.
    pub(crate) barred: u64,
}

impl Fits {
    /// Below match number `matching` of a rule.
    pub(crate) fn below(scope: &Scope<'_>, (chain, rule): &(Chain, u32), matching: u32) -> Self {
        let children = scope.group::<Fitting>(&(chain.clone(), *rule, matching));
        let count = |place: u32| children.byte_len() >> (place * COUNT) & ((1 << COUNT) - 1);
        let (serving, barred) = (count(0), count(1));
        Self { serving, as_much: count(2), broken: children.len() as u64 - serving - barred, barred }
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
    pub(crate) matches: Box<[Rendered]>,
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
    /// It stands above already.
    Cycle,
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
    /// The place of the reference that names a child, if one does.
    pub(crate) fn position(&self, child: &NsName) -> Option<u32> {
        let names = |children: &Children| matches!(children, Children::Named(name) if name == child);
        self.children.iter().find(|(_, children)| names(children)).map(|(position, _)| *position)
    }
}
