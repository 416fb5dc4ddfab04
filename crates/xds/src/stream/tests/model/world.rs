//! What a gateway of the model has.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use ResourceType::{Cluster, Endpoints, ExtensionConfig, Listener, RouteConfiguration, Secret};
use proptest::prelude::*;
use proptest::sample::{Index, subsequence};

use super::super::*;

/// What a gateway has: names with versions. Names that nothing may refer to are left out when it is made.
#[derive(Clone)]
pub(super) struct World {
    /// Name, version, whether it is bad.
    pub(super) clusters: BTreeMap<String, (u8, bool)>,
    pub(super) endpoints: BTreeMap<String, u8>,
    pub(super) secrets: BTreeMap<String, u8>,
    /// Name, version, whether it is bad, clusters.
    pub(super) routes: BTreeMap<String, (u8, bool, Vec<String>)>,
    /// Name, version, whether it is bad, route.
    pub(super) listeners: BTreeMap<String, (u8, bool, String)>,
}

fn bad() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.06)
}

pub(super) fn world(endpoints_complete: bool) -> impl Strategy<Value = World> {
    let names = |prefix: &'static str, n: usize| (0..n).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>();
    let clusters = subsequence(names("c", 5), 1..=5);
    let details = (
        prop::collection::vec((0..2_u8, bad(), 0..3_u8, prop::bool::weighted(0.9)), 5),
        prop::collection::vec((0..2_u8, bad(), prop::collection::vec(any::<Index>(), 1..3)), 3),
        prop::collection::vec((0..2_u8, bad(), any::<Index>()), 2),
        subsequence(names("r", 3), 1..=3),
        subsequence(names("l", 2), 0..=2),
        prop::collection::btree_map((0..3_u8).prop_map(|i| format!("s{i}")), 0..3_u8, 0..3),
    );
    (clusters, details).prop_map(move |(clusters, (c, r, l, routes, listeners, secrets))| World {
        endpoints: clusters
            .iter()
            .zip(&c)
            .filter(|(_, details)| endpoints_complete || details.3)
            .map(|(name, details)| (name.clone(), details.2))
            .collect(),
        routes: routes
            .iter()
            .zip(r)
            .map(|(name, (version, bad, uses))| {
                let uses: BTreeSet<_> = uses.iter().map(|i| i.get(&clusters).clone()).collect();
                (name.clone(), (version, bad, uses.into_iter().collect()))
            })
            .collect(),
        listeners: listeners
            .into_iter()
            .zip(l)
            .map(|(name, (version, bad, uses))| (name, (version, bad, uses.get(&routes).clone())))
            .collect(),
        clusters: clusters.iter().cloned().zip(c.iter().map(|details| (details.0, details.1))).collect(),
        secrets,
    })
}

fn mark(bad: bool) -> &'static str {
    if bad { " !" } else { "" }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bodies = self.bodies().into_iter().map(|((kind, _), body)| format!("{} {body}", abbreviation(kind)));
        f.write_str(&bodies.collect::<Vec<_>>().join("; "))
    }
}

impl World {
    pub(super) fn bodies(&self) -> BTreeMap<(ResourceType, String), String> {
        let mut all = BTreeMap::new();
        for (name, (n, bad)) in &self.clusters {
            all.insert((Cluster, name.clone()), format!("{name} {n}{}", mark(*bad)));
        }
        for (name, n) in &self.endpoints {
            all.insert((Endpoints, name.clone()), format!("{name} {n}"));
        }
        for (name, n) in &self.secrets {
            all.insert((Secret, name.clone()), format!("{name} {n}"));
        }
        for (name, (n, bad, uses)) in &self.routes {
            all.insert((RouteConfiguration, name.clone()), format!("{name} {n} {}{}", uses.join(","), mark(*bad)));
        }
        // Each version of a route refers to an entry of its own.
        let entries: Vec<_> = self.routes.iter().map(|(name, (n, ..))| format!("{name}-{n}")).collect();
        all.insert((ExtensionConfig, "x".into()), format!("x 0 {}", entries.join(",")));
        for (name, (n, bad, uses)) in &self.listeners {
            all.insert((Listener, name.clone()), format!("{name} {n} {uses}{}", mark(*bad)));
        }
        all
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::new();
        for ((kind, name), body) in self.bodies() {
            let hash = hash(kind, &body);
            let body = match kind {
                ExtensionConfig => {
                    extensions::encode(&name, uses(&body).into_iter().map(|entry| (entry, String::new())))
                }
                _ => Bytes::from(body),
            };
            snapshot.insert(Resource::new(kind, &name, hash, body));
        }
        snapshot
    }
}

pub(super) fn hash(kind: ResourceType, body: &str) -> [u8; 16] {
    let mut hasher = DefaultHasher::new();
    (kind, body).hash(&mut hasher);
    let half = hasher.finish().to_be_bytes();
    [half, half].concat().try_into().unwrap()
}

pub(super) fn is_bad(body: &str) -> bool {
    body.ends_with('!')
}

/// The third word of a body: what it refers to.
pub(super) fn uses(body: &str) -> Vec<String> {
    body.split(' ').nth(2).unwrap().split(',').map(str::to_owned).collect()
}
