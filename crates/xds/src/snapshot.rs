//! All resources of one gateway at one moment.

use std::sync::Arc;

use imbl::OrdMap;

use crate::resource::{Resource, ResourceType};

/// The resources of one type, by name.
pub(crate) type Resources = OrdMap<Arc<str>, Resource>;

/// What the proxies of one gateway shall have. Cheap to clone: a clone shares everything until it is changed, and
/// finding what two snapshots differ in costs what they differ in.
///
/// It must be consistent in itself: every cluster that a route names, every route configuration that a listener
/// names, and every secret is in it, or is absent on purpose.
#[derive(Clone, Default)]
pub struct Snapshot {
    resources: [Resources; ResourceType::ALL.len()],
}

impl Snapshot {
    /// A snapshot without resources.
    pub fn new() -> Self {
        Self::default()
    }

    /// The snapshot with `resource` added or replaced.
    #[must_use]
    pub fn with(mut self, resource: Resource) -> Self {
        self.insert(resource);
        self
    }

    /// Adds `resource`, or replaces the one with its type and name.
    ///
    /// Returns whether anything changed: a resource of the same version keeps its place.
    pub fn insert(&mut self, resource: Resource) -> bool {
        let resources = &mut self.resources[resource.kind().index()];
        if resources.get(resource.name()) == Some(&resource) {
            return false;
        }
        resources.insert(resource.shared_name(), resource);
        true
    }

    /// Takes a resource away. Returns whether it was there.
    pub fn remove(&mut self, kind: ResourceType, name: &str) -> bool {
        self.resources[kind.index()].remove(name).is_some()
    }

    /// The resource of this type and name.
    pub fn get(&self, kind: ResourceType, name: &str) -> Option<&Resource> {
        self.resources[kind.index()].get(name)
    }

    /// The resources of one type in name order.
    pub fn iter(&self, kind: ResourceType) -> impl Iterator<Item = &Resource> {
        self.resources[kind.index()].values()
    }

    /// How many resources of one type there are.
    pub fn len(&self, kind: ResourceType) -> usize {
        self.resources[kind.index()].len()
    }

    /// Whether there is no resource of any type.
    pub fn is_empty(&self) -> bool {
        self.resources.iter().all(Resources::is_empty)
    }

    pub(crate) fn of(&self, kind: ResourceType) -> &Resources {
        &self.resources[kind.index()]
    }
}

impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        self.resources.iter().zip(&other.resources).all(|(a, b)| a.ptr_eq(b) || a == b)
    }
}

impl Eq for Snapshot {}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.resources.iter().flat_map(Resources::values)).finish()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn inserting_an_equal_version_keeps_the_snapshot_shared() {
        let resource = |version| Resource::new(ResourceType::Cluster, "a", [version; 16], Bytes::new());
        let first = Snapshot::new().with(resource(1));
        let mut second = first.clone();
        assert!(!second.insert(resource(1)));
        assert!(second.of(ResourceType::Cluster).ptr_eq(first.of(ResourceType::Cluster)));
        assert!(second.insert(resource(2)));
        assert_ne!(first, second);
        assert!(second.remove(ResourceType::Cluster, "a"));
        assert!(!second.remove(ResourceType::Cluster, "a"));
        assert!(second.is_empty());
    }
}
