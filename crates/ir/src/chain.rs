//! Where a route stands in a tree of routes that delegate to each other.

use std::{
    cmp::Ordering,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use crate::id::RouteId;

/// A route, and how it is reached: from a root, which stands at a Gateway, by one delegating rule after the other. One
/// route has as many chains as there are ways to it.
///
/// Cheap to clone, to hash and, of two that share their ancestors, to compare. Ordered from the root on: by route, then by
/// rule, a shorter one first.
#[derive(Clone)]
pub struct Chain(Arc<Link>);

struct Link {
    above: Option<(Chain, u32)>,
    route: RouteId,
    depth: u32,
    /// For tables of this process alone: another build may hash otherwise.
    hash: u64,
}

impl Chain {
    /// A route that stands at a Gateway itself.
    pub fn root(route: RouteId) -> Self {
        Self::link(None, route)
    }

    /// `child` as rule number `rule` of this route reaches it.
    pub fn below(&self, rule: u32, child: RouteId) -> Self {
        Self::link(Some((self.clone(), rule)), child)
    }

    fn link(above: Option<(Self, u32)>, route: RouteId) -> Self {
        let mut hasher = DefaultHasher::new();
        above.as_ref().map(|(above, rule)| (above.0.hash, rule)).hash(&mut hasher);
        route.hash(&mut hasher);
        let depth = above.as_ref().map_or(0, |(above, _)| above.depth() + 1);
        Self(Arc::new(Link { above, route, depth, hash: hasher.finish() }))
    }

    /// The route itself.
    pub fn route(&self) -> &RouteId {
        &self.0.route
    }

    /// The parent with its delegating rule; none for a root.
    pub fn above(&self) -> Option<(&Self, u32)> {
        self.0.above.as_ref().map(|(above, rule)| (above, *rule))
    }

    /// How many routes stand above it.
    pub fn depth(&self) -> u32 {
        self.0.depth
    }

    /// The route at the top.
    pub fn top(&self) -> &RouteId {
        self.upwards().last().unwrap_or(self).route()
    }

    /// This chain and those that it goes on from, the root last.
    pub fn upwards(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |chain| chain.above().map(|(above, _)| above))
    }

    /// A number for names that others see: the same wherever the chain is the same, in every build, so that the replicas
    /// of a rollout agree. It is made from the chain's text, anew each time.
    pub fn fingerprint(&self) -> u64 {
        fingerprint(&self.to_string())
    }

    /// `other` must be as deep.
    fn compare(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ordering::Equal;
        }
        let above = match (self.above(), other.above()) {
            (Some((a, rule)), Some((b, other))) => a.compare(b).then(rule.cmp(&other)),
            _ => Ordering::Equal,
        };
        above.then_with(|| self.route().cmp(other.route()))
    }

    fn at_depth(&self, depth: u32) -> &Self {
        self.upwards().nth((self.depth() - depth) as usize).unwrap_or(self)
    }
}

impl PartialEq for Chain {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.hash == other.0.hash && self.0.route == other.0.route && self.0.above == other.0.above)
    }
}

impl Eq for Chain {}

impl Hash for Chain {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

impl Ord for Chain {
    fn cmp(&self, other: &Self) -> Ordering {
        let common = self.depth().min(other.depth());
        let (a, b) = (self.at_depth(common), other.at_depth(common));
        a.compare(b).then(self.depth().cmp(&other.depth()))
    }
}

impl PartialOrd for Chain {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// `infra/root rule 0 > team/child`, by the paths of routes ([`RouteId::path`]).
impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((above, rule)) = self.above() {
            write!(f, "{above} rule {rule} > ")?;
        }
        write!(f, "{}", self.route().path())
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A number for names that others see: the same for the same text, in every build.
pub fn fingerprint(text: &str) -> u64 {
    let hash = blake3::hash(text.as_bytes());
    hash.as_bytes()[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> RouteId {
        RouteId::http("ns", name)
    }

    #[test]
    fn chains_are_equal_by_what_they_go_through() {
        let chain = |rule| Chain::root(name("r")).below(0, name("a")).below(rule, name("b"));
        assert_eq!(chain(1), chain(1));
        assert_ne!(chain(1), chain(2));
        assert_ne!(chain(1), Chain::root(name("b")));
        assert_eq!(chain(1).to_string(), "ns/r rule 0 > ns/a rule 1 > ns/b");
        assert_eq!(chain(1).top(), &name("r"));
        assert_eq!(chain(1).depth(), 2);
    }

    #[test]
    fn chains_are_ordered_from_the_root_on() {
        let root = Chain::root(name("r"));
        let (first, second) = (root.below(0, name("z")), root.below(1, name("a")));
        let sorted = [root.clone(), first.clone(), first.below(0, name("a")), second, Chain::root(name("s"))];
        for (at, chain) in sorted.iter().enumerate() {
            for (other_at, other) in sorted.iter().enumerate() {
                assert_eq!(chain.cmp(other), at.cmp(&other_at), "{chain} and {other}");
            }
        }
    }
}
