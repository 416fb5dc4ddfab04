//! Worlds of routes that delegate to each other.
//!
//! A [`Tree`] has a root at a Gateway; each route selects its children by a label of its own, and the routes of the last
//! level, the leaves, have a Service each two of them. All stand on one hostname.

use api::Object;
use ir::Settings;
use serde_json::{Value, json};

use crate::world::{World, decode, gateway_with, service, slice};

/// A world, and what is done to it: the number makes each change different.
pub(crate) struct Scene {
    pub(crate) objects: Vec<Object>,
    pub(crate) change: Box<dyn Fn(usize) -> Object>,
}

/// A change that is measured in worlds of several sizes.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// What its sizes count.
    pub(crate) of: &'static str,
    pub(crate) sizes: &'static [usize],
    pub(crate) scene: fn(usize) -> Scene,
}

/// How many routes wait for their label.
pub(crate) const WAITING: usize = 200;

pub(crate) const STEPS: [Step; 6] = [
    Step { name: "one leaf changed", of: "leaves", sizes: LEAVES, scene: |leaves| Tree::new(leaves).leaf_changes() },
    Step {
        name: "one leaf changed, up to its place",
        of: "leaves",
        sizes: LEAVES,
        scene: |leaves| Tree::new(leaves).apart().leaf_changes(),
    },
    Step {
        name: "inherited matcher of a parent changed",
        of: "descendants",
        sizes: BELOW,
        scene: |below| Tree::new(10_000).apart().inheriting().parent_changes(below),
    },
    Step {
        name: "matcher of a parent widened",
        of: "descendants",
        sizes: BELOW,
        scene: |below| Tree::new(10_000).apart().parent_changes(below),
    },
    Step {
        name: "one label added",
        of: "siblings",
        sizes: SIBLINGS,
        scene: |siblings| Tree::flat(siblings).apart().routes_added(true),
    },
    Step {
        name: "one plain route added",
        of: "others",
        sizes: SIBLINGS,
        scene: |others| Tree::flat(others).apart().routes_added(false),
    },
];

const LEAVES: &[usize] = &[1_000, 10_000, 100_000];
const BELOW: &[usize] = &[10, 110, 1_110];
const SIBLINGS: &[usize] = &[10, 100, 1_000, 10_000];

/// A tree of routes.
#[derive(Clone)]
pub(crate) struct Tree {
    /// How many children each route of a level has.
    fans: Vec<usize>,
    apart: bool,
    inherits: bool,
}

impl Tree {
    /// Of four levels; each route has ten children, but for those right above the leaves.
    pub(crate) fn new(leaves: usize) -> Self {
        Self { fans: vec![10, 10, 10, leaves / 1_000], apart: false, inherits: false }
    }

    /// All children right below the root.
    pub(crate) fn flat(children: usize) -> Self {
        Self { fans: vec![children], ..Self::new(0) }
    }

    /// Nobody reads where its routes are placed, since another listener has the hostname: what changes is measured up to
    /// there, and the virtual host is not assembled.
    fn apart(self) -> Self {
        Self { apart: true, ..self }
    }

    /// Its routes inherit the matches of their parents.
    fn inheriting(self) -> Self {
        Self { inherits: true, ..self }
    }

    /// Trees may be as large as they are.
    pub(crate) fn settings() -> Settings {
        let mut settings = World::settings();
        settings.delegation.max_matches = 1_000_000;
        settings
    }

    fn leaves(&self) -> usize {
        self.fans.iter().product()
    }

    pub(crate) fn objects(&self) -> Vec<Object> {
        let mut objects = surroundings(self.apart);
        let mut routes = 1;
        for (level, fan) in (0..).zip(&self.fans) {
            objects.extend((0..routes).map(|index| self.parent(level, index, "")));
            routes *= fan;
        }
        objects.extend((0..routes).map(|index| self.leaf(index, 0)));
        objects.extend((0..=routes / 2).flat_map(|index| [service(index), slice(index, 0)]));
        objects
    }

    /// The path of a route, or what it adds to that of its parent; `more` comes behind it.
    fn path(&self, level: usize, index: usize, more: &str) -> String {
        let above = match level {
            0 => return "/".into(),
            1 => String::new(),
            _ if self.inherits => String::new(),
            _ => self.path(level - 1, index / self.fans[level - 1], ""),
        };
        format!("{above}/{index}{more}")
    }

    fn route(&self, level: usize, index: usize, rule: &Value, generation: usize) -> Object {
        let mut route = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": format!("route-{level}-{index}"), "namespace": "apps", "generation": generation,
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"rules": [rule]},
        });
        if level == 0 {
            route["spec"]["parentRefs"] = parent_refs();
            route["spec"]["hostnames"] = json!(["tree.example.com"]);
        } else {
            let label = format!("below-{}-{}", level - 1, index / self.fans[level - 1]);
            route["metadata"]["labels"] = json!({"delegation.kgateway.dev/label": label});
        }
        if self.inherits {
            route["metadata"]["annotations"] = json!({"delegation.kgateway.dev/inherit-parent-matcher": "true"});
        }
        decode(route)
    }

    /// A route that is not of the last level; `more` stands behind its path.
    fn parent(&self, level: usize, index: usize, more: &str) -> Object {
        let rule = json!({
            "matches": [{"path": {"type": "PathPrefix", "value": self.path(level, index, more)}}],
            "backendRefs": [{"group": "delegation.kgateway.dev", "kind": "label", "name": format!("below-{level}-{index}")}],
        });
        self.route(level, index, &rule, 1)
    }

    fn leaf(&self, index: usize, value: usize) -> Object {
        let level = self.fans.len();
        self.route(level, index, &leaf_rule(&self.path(level, index, ""), index, value), value)
    }

    /// A leaf sets another header each time.
    pub(crate) fn leaf_with_header(&self, turn: usize) -> Object {
        self.leaf(turn * 7 % self.leaves(), turn + 1)
    }

    fn leaf_changes(self) -> Scene {
        Scene { objects: self.objects(), change: Box::new(move |turn| self.leaf_with_header(turn)) }
    }

    /// The match of a parent with so many descendants changes.
    fn parent_changes(self, below: usize) -> Scene {
        let level = (1..self.fans.len())
            .rfind(|level| {
                let fans = &self.fans[*level..];
                (1..=fans.len()).map(|depth| fans[..depth].iter().product::<usize>()).sum::<usize>() >= below
            })
            .expect("a level");
        let objects = self.objects();
        let change = move |turn: usize| match (self.inherits, turn % 2) {
            (true, _) => self.parent(level, 0, &format!("-{turn}")),
            (false, 0) => {
                // What its own parent has.
                let parent = self.path(level - 1, 0, "");
                let rule = json!({
                    "matches": [{"path": {"type": "PathPrefix", "value": parent}}],
                    "backendRefs": [
                        {"group": "delegation.kgateway.dev", "kind": "label", "name": format!("below-{level}-0")}],
                });
                self.route(level, 0, &rule, 1)
            }
            (false, _) => self.parent(level, 0, ""),
        };
        Scene { objects, change: Box::new(change) }
    }

    /// Routes that nobody serves get the label of the root's children, or a Gateway of their own.
    fn routes_added(self, labelled: bool) -> Scene {
        let added = |index: usize, labelled: Option<bool>| {
            let mut route = json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                "metadata": {"name": format!("added-{index}"), "namespace": "apps", "generation": 1,
                    "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"rules": [leaf_rule(&format!("/added-{index}"), 0, 0)]},
            });
            match labelled {
                Some(true) => route["metadata"]["labels"] = json!({"delegation.kgateway.dev/label": "below-0-0"}),
                Some(false) => {
                    route["spec"]["parentRefs"] = parent_refs();
                    route["spec"]["hostnames"] = json!(["tree.example.com"]);
                }
                None => {}
            }
            decode(route)
        };
        let mut objects = self.objects();
        objects.extend((0..WAITING).map(|index| added(index, None)));
        Scene { objects, change: Box::new(move |turn| added(turn, Some(labelled))) }
    }
}

/// Twelve routes that each delegate to all of their namespace, below one root.
pub(crate) fn wildcards() -> Vec<Object> {
    let all = json!([{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "*", "namespace": "apps"}]);
    let rule = json!({"matches": [{"path": {"type": "PathPrefix", "value": "/w"}}], "backendRefs": all});
    let mut objects = surroundings(false);
    objects.push(decode(json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "root", "namespace": "infra", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"parentRefs": parent_refs(), "hostnames": ["tree.example.com"], "rules": [rule]},
    })));
    objects.extend((0..12).map(|index| {
        decode(json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": format!("route-{index}"), "namespace": "apps",
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"rules": [rule]},
        }))
    }));
    objects
}

fn surroundings(apart: bool) -> Vec<Object> {
    let class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "portcullis"},
        "spec": {"controllerName": "portcullis.dev/gateway-controller"},
    });
    let listener = |name: &str, hostname: &str| {
        json!({"name": name, "port": 80, "protocol": "HTTP", "hostname": hostname,
            "allowedRoutes": {"namespaces": {"from": "All"}}})
    };
    let mut listeners = vec![listener("wide", "*.example.com")];
    listeners.extend(apart.then(|| listener("own", "tree.example.com")));
    let namespaces = ["apps", "infra"]
        .map(|name| decode(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})));
    let mut objects = vec![decode(class), gateway_with("trees", &json!(listeners))];
    objects.extend(namespaces);
    objects
}

fn parent_refs() -> Value {
    json!([{"name": "trees", "namespace": "infra", "sectionName": "wide"}])
}

fn leaf_rule(path: &str, index: usize, value: usize) -> Value {
    json!({
        "matches": [{"path": {"type": "PathPrefix", "value": path}}],
        "filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [
            {"name": "x-turn", "value": value.to_string()}]}}],
        "backendRefs": [{"name": format!("service-{}", index / 2), "port": 80}],
    })
}
