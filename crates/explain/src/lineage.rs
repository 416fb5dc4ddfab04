//! What is known of the route that takes a request.

use std::sync::Arc;

use api::ObjectId;
use ir::{Problem, RootId, backend::Destination, route::RuleSpec};
use translate::{
    FreezeTold,
    inspect::{Delegation, Fault, ServedRule, WideUnits},
};

/// What the translator knows of a route and of those above it. Shared with it.
#[derive(Default)]
pub struct Lineage {
    /// The leaf's rule as the listener serves it.
    pub(crate) rule: Option<ServedRule>,
    /// What the policies of the listener and of its Gateway say for all rules.
    pub(crate) wide: Option<WideUnits>,
    /// From the leaf's parent upwards.
    pub(crate) above: Vec<Ancestor>,
    /// The roots of which another version is served than that of now: that of the tree, and the Gateway with its policies.
    pub(crate) frozen: Vec<(RootId, Arc<FreezeTold>)>,
    /// The routes on the way that are set aside.
    pub(crate) set_aside: Vec<(ObjectId, Problem)>,
    /// The leaf's rule as it is written.
    pub(crate) written: Option<Arc<RuleSpec>>,
    /// What is to be said of the leaf's rule where proxies have no room for it.
    pub(crate) no_room: Vec<Problem>,
    /// The policies that say something of connections to each backend of the leaf's rule, where any does.
    pub(crate) connections: Vec<(Destination, Vec<ObjectId>)>,
    /// The backends of the leaf's rule for which the Gateway's proxies have no cluster: whose owner must act, and why.
    pub(crate) unsent: Vec<(Destination, String, Fault)>,
}

/// A delegating rule on the way to a leaf.
pub(crate) struct Ancestor {
    /// The name of the rule, if it has one.
    pub(crate) rule_name: Option<Arc<str>>,
    pub(crate) delegation: Option<Delegation>,
    /// The index of the reference that selects the next route.
    pub(crate) reference: Option<u32>,
}
