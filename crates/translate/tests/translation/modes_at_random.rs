//! Policies on all levels of random trees, in random modes: what Envoy gets is what the text of EP-10943 makes of them, read
//! once more here, apart from the implementation; and what one change after the other makes is what is made from scratch.

use envoy::ResourceKind;
use proptest::{collection::vec, option, prelude::*, strategy::ValueTree};
use serde_json::{Value, json};

use super::{
    modes::annotated,
    policies::{at, at_section, policy, with},
    scene::{Scene, child, forward, gateway, http, route, service, to},
};
use worlds::Draws;

/// What a policy says of three units: one of fields, one as a whole, one of operations.
#[derive(Clone, Debug, Default, PartialEq)]
struct Spec {
    /// `timeouts`, in seconds.
    timeouts: Option<(Option<u8>, Option<u8>)>,
    /// `buffer`.
    buffer: Option<Buffer>,
    /// `headerModifiers`: values that are added, in order.
    headers: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Buffer {
    Size(u8),
    Off,
    /// More than is taken.
    Refused,
}

/// The annotation, or none; the last is nonsense.
const MODES: [Option<&str>; 6] = [
    None,
    Some("ShallowMergePreferChild"),
    Some("ShallowMergePreferParent"),
    Some("DeepMergePreferChild"),
    Some("DeepMergePreferParent"),
    Some("DeepMerge"),
];

/// What an owner says, and the policies that target it, the older first.
type Owner = (usize, Vec<Spec>);

/// A Gateway, its listener, and the routes from the root to the leaf.
#[derive(Clone, Debug)]
struct World {
    gateway: Owner,
    listener: Vec<Spec>,
    routes: Vec<Owner>,
}

fn said(may_be_refused: bool) -> impl Strategy<Value = Spec> {
    let seconds = || option::of(1..9_u8);
    let timeouts = (seconds(), seconds())
        .prop_map(|(request, idle)| (request.or(Some(9)).filter(|_| request.is_some() || idle.is_none()), idle));
    let refused = u32::from(may_be_refused);
    let buffer = prop_oneof![
        6 => (1..200_u8).prop_map(Buffer::Size),
        2 => Just(Buffer::Off),
        refused => Just(Buffer::Refused),
    ];
    let headers = vec("[a-z]{3}", 1..3);
    (option::of(timeouts), option::of(buffer), option::of(headers)).prop_map(|(timeouts, buffer, headers)| Spec {
        timeouts,
        buffer,
        headers,
    })
}

fn owner(may_be_refused: bool) -> impl Strategy<Value = Owner> {
    (0..MODES.len(), vec(said(may_be_refused), 0..3))
}

/// Chains as deep as they may be, with a policy on each level.
fn deepest() -> impl Strategy<Value = World> {
    let levels = ir::Settings::default().delegation.max_depth as usize + 1;
    let one = |may_be_refused| (0..MODES.len(), vec(said(may_be_refused), 1));
    let listener = vec(said(false), 1);
    (one(false), listener, vec(one(false), levels)).prop_map(|(gateway, listener, routes)| World {
        gateway,
        listener,
        routes,
    })
}

fn world() -> impl Strategy<Value = World> {
    (owner(false), vec(said(false), 0..3), vec(owner(true), 1..6)).prop_map(|(gateway, listener, routes)| World {
        gateway,
        listener,
        routes,
    })
}

impl Spec {
    fn spec(&self) -> Value {
        let mut spec = json!({});
        if let Some((request, idle)) = self.timeouts {
            let text = |seconds: Option<u8>| seconds.map(|seconds| format!("{seconds}s"));
            spec["timeouts"] = json!({"request": text(request), "streamIdle": text(idle)});
        }
        match self.buffer {
            None => {}
            Some(Buffer::Off) => spec["buffer"] = json!({"disable": {}}),
            Some(Buffer::Size(bytes)) => spec["buffer"] = json!({"maxRequestSize": bytes}),
            Some(Buffer::Refused) => spec["buffer"] = json!({"maxRequestSize": "64Mi"}),
        }
        if let Some(values) = &self.headers {
            let values: Vec<_> = values.iter().map(|value| json!({"name": "x", "value": value})).collect();
            spec["headerModifiers"] = json!({"request": {"add": values}});
        }
        spec
    }

    /// Of several policies on one object the older one has each unit.
    fn of_level(policies: &[Spec]) -> Self {
        Self {
            timeouts: policies.iter().find_map(|policy| policy.timeouts),
            buffer: policies.iter().find_map(|policy| policy.buffer),
            headers: policies.iter().find_map(|policy| policy.headers.clone()),
        }
    }

    /// This, handed down by an owner with this annotation to what `below` says.
    fn handed_down(self, annotation: usize, below: Self) -> Self {
        let value = MODES[annotation].unwrap_or_default();
        let parent_wins = value == "ShallowMergePreferParent" || value == "DeepMergePreferParent";
        let is_deep = value.starts_with("DeepMergePrefer");
        let (strong, weak) = if parent_wins { (self, below) } else { (below, self) };
        let timeouts = match (strong.timeouts, weak.timeouts) {
            (Some(strong), Some(weak)) if is_deep => Some((strong.0.or(weak.0), strong.1.or(weak.1))),
            (strong, weak) => strong.or(weak),
        };
        let headers = match (strong.headers, weak.headers) {
            (Some(strong), Some(weak)) if is_deep => Some(weak.into_iter().chain(strong).collect()),
            (strong, weak) => strong.or(weak),
        };
        Self { timeouts, buffer: strong.buffer.or(weak.buffer), headers }
    }
}

impl World {
    /// What holds for the leaf, by the text.
    fn expected(&self) -> Spec {
        let mut levels: Vec<(usize, Spec)> =
            self.routes.iter().map(|(annotation, policies)| (*annotation, Spec::of_level(policies))).collect();
        let (_, mut held) = levels.pop().expect("a leaf");
        while let Some((annotation, level)) = levels.pop() {
            held = level.handed_down(annotation, held);
        }
        // The Gateway's word also counts for its listener.
        let (annotation, of_gateway) = &self.gateway;
        let held = Spec::of_level(&self.listener).handed_down(*annotation, held);
        Spec::of_level(of_gateway).handed_down(*annotation, held)
    }

    fn objects(&self) -> Vec<Value> {
        let depth = self.routes.len();
        let name = |level: usize| format!("level-{level}");
        let mode = |object: Value, annotation: usize| match MODES[annotation] {
            Some(mode) => annotated(object, mode),
            None => object,
        };
        let mut objects = vec![mode(gateway("edge", json!([http("web", 80, "")])), self.gateway.0), service("s")];
        for (level, (annotation, _)) in self.routes.iter().enumerate() {
            let rules =
                if level + 1 == depth { json!([forward("/a")]) } else { json!([to("/a", &[&name(level + 1)])]) };
            let own =
                if level == 0 { route(&name(level), json!({"rules": rules})) } else { child(&name(level), rules) };
            objects.push(mode(own, *annotation));
        }
        let mut add = |namespace: &str, owner: &str, target: Value, policies: &[Spec]| {
            for (index, said) in policies.iter().enumerate() {
                let mut policy =
                    policy("TrafficPolicy", &format!("{owner}-{index}"), with(target.clone(), said.spec()));
                policy["metadata"]["namespace"] = json!(namespace);
                policy["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:0{index}Z"));
                objects.push(policy);
            }
        };
        add("infra", "gateway", at("Gateway", "edge"), &self.gateway.1);
        add("infra", "listener", at_section("Gateway", "edge", "web"), &self.listener);
        for (level, (_, policies)) in self.routes.iter().enumerate() {
            add("apps", &name(level), at("HTTPRoute", &name(level)), policies);
        }
        objects
    }
}

/// What requests of the leaf meet in Envoy; a refused buffer where they are answered.
fn met(scene: &Scene) -> Spec {
    let config = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").expect("routes");
    let host = &config["virtualHosts"][0];
    let routes = host["routes"].as_array().into_iter().flatten();
    let mut leaves = routes.filter(|route| route["match"]["pathSeparatedPrefix"] == "/a");
    let leaf = leaves.next().unwrap_or_else(|| panic!("no leaf in {config}"));
    if leaf["directResponse"]["status"] == 500 {
        return Spec { buffer: Some(Buffer::Refused), ..Spec::default() };
    }
    let slot = |name: &str| {
        [leaf, host, &config].into_iter().find_map(|scope| scope.get("typedPerFilterConfig")?.get(name)).cloned()
    };
    let seconds = |duration: &Value| match duration.as_str() {
        None | Some("0s") => None,
        Some(text) => text.trim_end_matches('s').parse().ok(),
    };
    let timeouts = (seconds(&leaf["route"]["timeout"]), seconds(&leaf["route"]["idleTimeout"]));
    let buffer = slot("buffer").map(|buffer| match buffer["buffer"]["maxRequestBytes"].as_u64() {
        Some(bytes) => Buffer::Size(u8::try_from(bytes).expect("a small size")),
        None => Buffer::Off,
    });
    let headers = slot("headerModifiers").map(|headers| {
        let mutations = &headers["filterChain"]["filters"][0]["typedConfig"]["mutations"]["requestMutations"];
        let mutations = mutations.as_array().into_iter().flatten();
        mutations.filter_map(|one| Some(one["append"]["header"]["value"].as_str()?.to_owned())).collect()
    });
    Spec { timeouts: (timeouts != (None, None)).then_some(timeouts), buffer, headers }
}

/// The same as [`met`] has it: what is refused hides everything else, and a request that has a time to be answered in is silent
/// no longer.
fn visible(expected: Spec) -> Spec {
    if expected.buffer == Some(Buffer::Refused) {
        return Spec { buffer: Some(Buffer::Refused), ..Spec::default() };
    }
    expected
}

#[test]
fn policies_of_random_trees_are_merged_by_the_text() {
    let worlds = Draws::new().take(&world(), 300);
    let mut closed = 0;
    for world in worlds.iter().map(ValueTree::current) {
        let scene = Scene::new(world.objects());
        let expected = visible(world.expected());
        closed += usize::from(expected.buffer == Some(Buffer::Refused));
        assert_eq!(met(&scene), expected, "{world:#?}");
    }
    assert!(closed > 0, "nothing was broken");
}

#[test]
fn chains_of_thirty_two_levels_with_a_policy_on_each_are_merged_by_the_text_whichever_changes() {
    let mut worlds = Draws::new().take(&deepest(), 12).into_iter().map(|world| world.current());
    let mut before = worlds.next().expect("a world");
    let mut scene = Scene::new(before.objects());
    for world in worlds {
        // One level after the other becomes another.
        for level in [0, 15, 31, 32] {
            before.routes[level] = world.routes[level].clone();
            let objects = before.objects();
            let of_level = |object: &&Value| {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                name == format!("level-{level}") || name == format!("level-{level}-0")
            };
            for object in objects.iter().filter(of_level) {
                scene.put(object.clone());
            }
            assert_eq!(met(&scene), before.expected(), "{before:#?}");
        }
        let fresh = Scene::new(before.objects());
        assert_eq!(scene.0.resources(), fresh.0.resources(), "{before:#?}");
        assert_eq!(scene.0.statuses(), fresh.0.statuses(), "{before:#?}");
    }
}

#[test]
fn a_tree_that_changes_into_another_is_as_it_were_from_scratch() {
    let worlds: Vec<_> = Draws::new().take(&world(), 80).iter().map(ValueTree::current).collect();
    let mut scene = Scene::new([]);
    let mut before: Vec<Value> = Vec::new();
    for world in worlds {
        let objects = world.objects();
        let id = |object: &Value| (object["kind"].clone(), object["metadata"]["name"].clone());
        for gone in before.iter().filter(|old| objects.iter().all(|new| id(new) != id(old))) {
            scene.remove(gone.clone());
        }
        for object in &objects {
            scene.put(object.clone());
        }
        let fresh = Scene::new(objects.clone());
        assert_eq!(scene.0.resources(), fresh.0.resources(), "{world:#?}");
        assert_eq!(scene.0.statuses(), fresh.0.statuses(), "{world:#?}");
        before = objects;
    }
}
