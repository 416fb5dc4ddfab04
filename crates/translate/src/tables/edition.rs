//! Editions: the version of a tree of routes that is kept, and served in the place of the tree as it is.

pub(crate) mod objects;

use std::sync::Arc;

use api::{ObjectId, meta::StringMap};
use ir::{Chain, Edition, NsName, Reason, RouteId};

use self::objects::{Member, Part};

/// What names something of the objects as they are, or of an edition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Source<K> {
    /// The edition; none for the objects as they are.
    pub(crate) edition: Option<Edition>,
    pub(crate) key: K,
}

impl<K> Source<K> {
    /// As it is.
    pub(crate) fn live(key: K) -> Self {
        Self { edition: None, key }
    }

    /// As it is in the edition in which `route` stands, if it does in one.
    pub(crate) fn beside(route: &RouteId, key: K) -> Self {
        Self { edition: route.edition.clone(), key }
    }
}

/// What a policy asks for the tree of a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// That it keeps its last good version.
    Freeze,
    /// Nobody knows: the policy cannot be read or is refused, so that what was asked before goes on.
    Unknown,
}

/// How a root is served, or what policies say at a Gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServedFrom {
    /// As the objects are; what they come to is looked at, since that shall be kept.
    Objects,
    /// From its edition.
    Edition,
}

/// The objects of a tree as it is, or the policies of a Gateway, and what is wrong with them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tree {
    /// What would be kept of it.
    pub(crate) edition: objects::Edition,
    /// How many faults it has, and the first of them.
    pub(crate) faults: usize,
    pub(crate) first: Box<[Arc<str>]>,
    /// Whether no Envoy has said yet whether it takes all of it, where one is asked first.
    pub(crate) waits: bool,
    /// What else decides of a Gateway what is kept, though it is no part of that: which one of its name it is, and what is done by
    /// hand. The root of a tree is a part of it.
    pub(crate) beside: Option<Beside>,
}

/// What of a Gateway decides whether its policies as they are become the next edition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Beside {
    /// Its uid.
    pub(crate) uid: Arc<str>,
    /// The annotations of ours.
    pub(crate) annotations: StringMap,
}

/// What the owner of a root is told of how its tree is kept, and that of another object of the tree of its change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreezeTold {
    /// Whether what is served is another version than the tree as it is.
    pub is_frozen: bool,
    /// Why.
    pub reason: Reason,
    /// In words.
    pub message: Arc<str>,
}

tables! {
    /// What a policy asks for the tree of a root; absent where that is the default.
    AskedFor: RouteId => Asked;
    /// How a root is served of which a policy asks that its tree is kept, or that was; absent for all others.
    FreezingOf: RouteId => ServedFrom;
    /// Files a route of an edition.
    EditionMember: RouteId => ();
    /// Finds out whether a rule of a tree that shall be kept does what it says, and of which objects it is made.
    Judged: (Chain, u32) => ();
    /// The same of a route of such a tree, apart from its rules.
    JudgedRoute: Chain => ();
    /// An object of a tree that shall be kept.
    TreeObject: (RouteId, ObjectId) => ();
    /// A part of the objects of such a tree.
    TreePart: (RouteId, u8) => ();
    /// Trees that shall be kept, as they are.
    TreeOf: RouteId => Tree;
    /// How the policies of a Gateway are served which asks that they are kept; absent for all others.
    WideFreezing: NsName => ServedFrom;
    /// The policies of Gateways that shall be kept, as they are.
    WideTree: NsName => Tree;
}

groups! {
    /// The objects of a part of a root's tree.
    TreeObjects: (RouteId, u8), ObjectId => Member;
    /// The parts of a root's tree that have any.
    TreeParts: RouteId, u8 => Arc<Part>;
    /// What is wrong with the tree of a root, by the place.
    Faults: RouteId, (Chain, Option<u32>) => Arc<str>;
}
