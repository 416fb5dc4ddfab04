//! What waits for Envoy's word, where it is asked before anything is sent.
//!
//! A rule, a cluster and an extension's entry are *offered* as the objects make them, and sent as they were *cleared* last: as an
//! Envoy took them. Both are tables, so that the same objects and the same words give the same bytes. Where nobody is asked all
//! of these are empty, and what is offered is sent.

use std::sync::Arc;

use api::ObjectId;
use envoy::{extensions::TokenJudges, resource::Encoded};
use ir::{
    Hostname, ListenerId, NsName, Port, Reason,
    listener::{FilterChain, Listener},
    rule::{ExtensionEntry, Slot},
};

use super::{backend::ClusterId, policy::Target};

tables! {
    /// What is offered of a part that rules and wider scopes share, while anybody asks for it.
    OfferedPart: PartId => Offered;
    /// What policies of a Gateway and of a listener say in slots there.
    OfferedWide: ListenerId => Wide;
    /// A port of a Gateway as its objects make it, without the chains of TLSRoutes, which are parts.
    OfferedListener: (NsName, Port) => Listener;
    /// What policies of a Gateway that shall be kept say in slots as they are, which Envoy is asked about before they are kept.
    CandidateWide: NsName => Box<[WideScope]>;
}

/// What goes by itself: a part that rules and wider scopes share, or a chain of a listener.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum PartId {
    /// A cluster.
    Cluster(ClusterId),
    /// An entry of an extension's configuration: a limit, or whose tokens are taken, by the word of a GatewayExtension.
    Entry(ExtensionEntry),
    /// The filter chain of a hostname of TLSRoutes at a listener.
    Chain(ListenerId, Hostname),
}

impl PartId {
    /// That of an entry; none of one that consists of secrets, which nobody is shown, or of what is the same for all.
    pub(crate) fn of(entry: &ExtensionEntry) -> Option<Self> {
        (!matches!(entry, ExtensionEntry::Login(_) | ExtensionEntry::Program(_))).then(|| Self::Entry(entry.clone()))
    }
}

/// A part as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Cluster(Encoded),
    Tokens(TokenJudges),
    /// The entry says all.
    Rate,
    /// A chain, and a listener with it alone, by which it is judged.
    Chain(FilterChain, Encoded),
}

/// What is offered of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offered {
    /// None where it is asked for, and is not there.
    pub(crate) part: Option<Part>,
    /// Whose it is.
    pub(crate) owner: Owner,
}

/// Whose a part of what is sent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The object that it is made from, whose owner must act if it is refused. Of what is the same for all who say the same it
    /// has no namespace.
    pub(crate) object: ObjectId,
    /// Whether it may hold what an object of another namespace says.
    pub(crate) is_shared: bool,
}

impl From<ObjectId> for Owner {
    fn from(object: ObjectId) -> Self {
        Self { object, is_shared: false }
    }
}

/// What is said for a whole Gateway and for a listener of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wide {
    /// Whether policies of the Gateway are not valid, so that all of it answers by itself, and what they say is not known.
    pub(crate) is_gateway_broken: bool,
    /// The same of the listener.
    pub(crate) is_listener_broken: bool,
    /// In slots for the Gateway.
    pub(crate) of_gateway: Box<[Slot]>,
    /// In slots for the listener, with those of the Gateway.
    pub(crate) of_listener: Box<[Slot]>,
    /// The same in the parts in which it is judged.
    pub(crate) scopes: Box<[WideScope]>,
}

/// What is said in slots for a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WideScope {
    /// The Gateway or listener whose policies say it.
    pub(crate) target: Target,
    /// A route configuration with nothing but these slots.
    pub(crate) head: Encoded,
    /// What it refers to and asks.
    pub(crate) parts: Box<[PartId]>,
}

/// What stands against keeping a tree, or the policies of a Gateway, that nothing in process stands against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CandidateWord {
    /// No Envoy has said yet whether it takes all of it.
    Awaited,
    /// An Envoy refuses some of it.
    Refused(Words),
}

/// Why something is not sent, or waits: one clause.
pub(crate) type Words = Arc<str>;

/// Why a part is not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefusedPartWords {
    /// The object that it is made from.
    pub(crate) object: ObjectId,
    /// For whoever may read that.
    pub(crate) words: Words,
    /// Whether anybody has judged it.
    pub(crate) is_judged: bool,
}

impl RefusedPartWords {
    /// The reason, where an Envoy that refuses it is one of `refused`.
    pub(crate) fn reason(&self, refused: Reason) -> Reason {
        if self.is_judged { refused } else { Reason::NotJudged }
    }

    /// For the owner of something in this namespace that needs it, who may not read what another one says.
    pub(crate) fn told(&self, namespace: &str) -> String {
        let Self { object, words, .. } = self;
        if *object.namespace == *namespace || object.namespace.is_empty() {
            format!("what {object} comes to cannot be sent: {words}")
        } else {
            format!("what {object} comes to cannot be sent; its owner has to mend it")
        }
    }
}
