//! Who goes without where a tree claims more than its bound.
//!
//! The bound is shared out from the root on. At each route what is left goes first to the namespaces of its children,
//! and in each namespace to the children: all who ask for no more than an equal share have what they ask for, and the
//! rest is shared out among the others in the same way ([`level`]). So whoever asks for no more than his share has it,
//! whatever others ask for, and how deep below him it is asked for decides nothing.
//!
//! A route cannot be served in part. Of those in one namespace that ask for more than an equal share, one with children
//! of its own is assured of that share; what is then left goes to the smallest first, then to the oldest.
//!
//! A claim that goes without in a part of a tree goes without in all of it: shares only become less as claims are found
//! deeper. So a tree may be cut while it grows.

use std::collections::{BTreeMap, HashMap};

use ir::Chain;

use crate::share::level;

/// What a route claims of a bound where it stands, those below it left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// How much.
    pub(crate) count: u64,
    /// When the route was made, in seconds.
    pub(crate) created: i64,
}

/// A claim in its place in the tree.
struct Node<'a> {
    chain: &'a Chain,
    own: u64,
    created: i64,
    /// Its own and all below it.
    demand: u64,
    above: Option<usize>,
    below: Vec<usize>,
    out: bool,
}

/// Which of these claims go without, in their order: those that exceed a share and those below them.
///
/// Each claim comes behind those that it stands below; those that `refused` names go without in any case. Takes a few
/// steps for each claim.
pub(super) fn without(bound: u64, claims: &[(&Chain, Claim)], refused: impl Fn(&Chain) -> bool) -> Vec<Without> {
    let mut places: HashMap<&Chain, usize> = HashMap::with_capacity(claims.len());
    let mut nodes: Vec<Node<'_>> = Vec::with_capacity(claims.len());
    let mut first = Vec::new();
    for (place, (chain, claim)) in claims.iter().enumerate() {
        let above = chain.above().and_then(|(parent, _)| places.get(parent).copied());
        match above {
            Some(above) => nodes[above].below.push(place),
            None => first.push(place),
        }
        places.insert(*chain, place);
        let Claim { count: own, created } = *claim;
        nodes.push(Node { chain, own, created, demand: own, above, below: Vec::new(), out: refused(chain) });
    }
    for place in (0..nodes.len()).rev() {
        if let Some(above) = nodes[place].above {
            nodes[above].demand = nodes[above].demand.saturating_add(nodes[place].demand);
        }
    }
    let mut waiting = vec![(first, bound)];
    while let Some((places, share)) = waiting.pop() {
        among_namespaces(&mut nodes, &places, share, &mut waiting);
    }
    let mut outcome: Vec<Without> = Vec::with_capacity(nodes.len());
    for node in &nodes {
        let above = node.above.and_then(|above| outcome.get(above));
        outcome.push(match above {
            Some(Without::Exceeds | Without::Below) => Without::Below,
            _ if node.out => Without::Exceeds,
            _ => Without::Nothing,
        });
    }
    outcome
}

/// What a claim goes without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Without {
    /// It has what it asks for.
    Nothing,
    /// It has not, since it exceeds its share.
    Exceeds,
    /// It has not, since one above it exceeds its share.
    Below,
}

/// Shares out `share` among the children of one route.
fn among_namespaces(nodes: &mut [Node<'_>], places: &[usize], share: u64, waiting: &mut Vec<(Vec<usize>, u64)>) {
    let mut namespaces: BTreeMap<_, (u64, Vec<usize>)> = BTreeMap::new();
    for place in places {
        let Node { chain, demand, .. } = &nodes[*place];
        let (sum, children) = namespaces.entry(chain.route().namespace().clone()).or_default();
        *sum = sum.saturating_add(*demand);
        children.push(*place);
    }
    let equal = level(share, namespaces.values().map(|(demand, _)| *demand));
    for (_, children) in namespaces.into_values().filter(|(demand, _)| *demand > equal) {
        among_children(nodes, children, equal, waiting);
    }
}

/// Shares out `share` among the children of one route that are of one namespace.
fn among_children(nodes: &mut [Node<'_>], mut children: Vec<usize>, share: u64, waiting: &mut Vec<(Vec<usize>, u64)>) {
    // Who goes without in any case takes nothing from the others.
    children.retain(|child| !nodes[*child].out);
    children.sort_by(|a, b| {
        let order = |node: &Node<'_>| (node.demand, node.created);
        let (a, b) = (&nodes[*a], &nodes[*b]);
        order(a).cmp(&order(b)).then_with(|| a.chain.cmp(b.chain))
    });
    let equal = level(share, children.iter().map(|child| nodes[*child].demand));
    let over = children.split_off(children.partition_point(|child| nodes[*child].demand <= equal));
    let mut left = children.iter().fold(share, |left, child| left - nodes[*child].demand);
    let assured = |node: &Node<'_>| if node.own <= equal && !node.below.is_empty() { equal } else { 0 };
    let mut kept: u64 = over.iter().map(|child| assured(&nodes[*child])).sum();
    for child in over {
        kept -= assured(&nodes[child]);
        let node = &mut nodes[child];
        let offer = left - kept;
        if node.demand <= offer {
            left -= node.demand;
        } else if node.own > offer {
            node.out = true;
        } else {
            left -= offer;
            waiting.push((node.below.clone(), offer - node.own));
        }
    }
}

#[cfg(test)]
mod tests;
