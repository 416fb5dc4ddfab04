//! The invariants of the translation hold with trees that are kept.

use std::collections::BTreeMap;

use api::{Object, ObjectId};
use ir::{RootId, Settings};
use proptest::{
    collection::vec,
    option,
    prelude::*,
    sample::{select, subsequence},
    strategy::ValueTree,
};
use serde_json::{Value, json};

use super::{GROUP, USERS, asking, of_platform, on, to_backend, wide};
use crate::{
    delegation::{child, labelled, root, to, to_label},
    object as decode,
    properties::{Reports, batches, objects, said, settings},
    scene::{class, gateway, http, opaque, route, service},
};
use translate::{Change, Edition, Translator, Wish};

fn freezing_settings() -> Settings {
    let mut settings = settings();
    settings.freeze.enabled = true;
    settings.policies.global_namespace = "platform".into();
    settings
}

/// Policies by which the trees of most routes are kept.
fn policies() -> Vec<Object> {
    let all = (0..6).flat_map(|number| ["apps", "other"].map(|namespace| (number, namespace)));
    let policy = |(number, namespace): (u8, &str)| {
        let target = json!({"group": GROUP, "kind": "HTTPRoute", "name": format!("r{number}")});
        decode(json!({"apiVersion": "gateway.portcullis.dev/v1alpha1", "kind": "DelegationPolicy",
            "metadata": {"name": format!("freezes{number}"), "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:05Z"},
            "spec": {"targetRefs": [target], "failureMode": "FreezeConfig"}}))
    };
    all.map(policy).collect()
}

fn fresh<'a>(
    settings: Settings,
    objects: impl IntoIterator<Item = &'a Object>,
    kept: &BTreeMap<RootId, Edition>,
) -> Translator {
    let mut translator = Translator::new(settings);
    for object in objects {
        translator.apply(Change::Put(object.clone()));
    }
    for (root, edition) in kept {
        translator.set_edition(root, Some(edition));
    }
    translator.settle();
    translator
}

/// Has what is good be kept of those for which `is_heard`, and what is over end.
fn keep(translator: &mut Translator, kept: &mut BTreeMap<RootId, Edition>, is_heard: impl Fn(&RootId) -> bool) {
    loop {
        let trees = translator.take_roots();
        if trees.is_empty() {
            return;
        }
        for root in trees {
            match translator.wish(&root) {
                Wish::Kept(candidate) if candidate.is_good() && is_heard(&root) => {
                    let edition = candidate.edition;
                    translator.set_edition(&root, Some(&edition));
                    kept.insert(root, edition);
                }
                Wish::Kept(_) | Wish::Unknown => {}
                Wish::Over => {
                    translator.set_edition(&root, None);
                    kept.remove(&root);
                }
            }
        }
        translator.settle();
    }
}

fn with_policies(mut objects: BTreeMap<ObjectId, Object>) -> BTreeMap<ObjectId, Object> {
    objects.extend(policies().into_iter().map(|object| (object.id(), object)));
    objects
}

/// Mostly sound rules of a child.
fn rules() -> impl Strategy<Value = Value> {
    let paths = select(&["/a/x", "/a/y", "/a", "/b/x", "/b"][..]);
    let backends = prop_oneof![6 => Just("s"), 4 => Just("t"), 1 => Just("nobody")];
    let rule = (paths, backends, any::<bool>()).prop_map(|(path, backend, is_named)| {
        let mut rule = to_backend(path, backend);
        if is_named {
            rule["name"] = json!("named");
        }
        rule
    });
    vec(rule, 1..3).prop_map(|mut rules| {
        for rule in rules.iter_mut().skip(1) {
            rule.as_object_mut().expect("a rule").remove("name");
        }
        json!(rules)
    })
}

/// An object of a tree that is mostly sound.
fn part() -> BoxedStrategy<Value> {
    let parents = select(&["root", "other"][..]);
    let of_child = (0..4_u8, rules(), any::<bool>(), option::weighted(0.3, parents), prop::bool::weighted(0.2));
    let children = of_child.prop_map(|(name, rules, is_labelled, parent, delegates)| {
        let mut child = child(&format!("c{name}"), rules);
        if is_labelled {
            child = labelled(child, "v");
        }
        if let Some(parent) = parent {
            child["spec"]["parentRefs"] = json!([{"group": GROUP, "kind": "HTTPRoute", "name": parent}]);
        }
        if delegates {
            let below = to("/a/x", &["c3"]);
            child["spec"]["rules"].as_array_mut().expect("rules").push(below);
        }
        child
    });
    let hosts = subsequence(vec!["a.example.com", "*.example.com", "b.example.org"], 0..3);
    let all = subsequence(vec![to("/a", &["c0", "c1"]), to_label("/b", "v"), to("/a/y", &["*"])], 1..3);
    let root = (all, hosts, prop::bool::weighted(0.1)).prop_map(|(rules, hosts, demands)| {
        let mut root = root(json!(rules));
        if !hosts.is_empty() {
            root["spec"]["hostnames"] = json!(hosts);
        }
        if demands {
            root["metadata"]["labels"] = json!({"portcullis.dev/require-auth": "true"});
        }
        root
    });
    let mut other = route("other", json!({"rules": [to("/a", &["c0"])], "hostnames": ["a.example.com"]}));
    other["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:09Z");
    let policies = select(vec![
        asking(json!({})),
        asking(json!({})),
        asking(json!({"sortMethod": "TableWeight"})),
        asking(json!({"sortMethod": "Tomorrow"})),
        asking(json!({"allowedChildren": {"backends": [{"kind": "Service", "name": "s"}]}})),
        asking(json!({"requireAuth": true})),
        asking(json!({"defaultBackendRefs": [{"name": "s", "port": 80}]})),
        asking(json!({"failureMode": "RouteReplacement"})),
        on("DelegationPolicy", "of-other", "other", json!({"failureMode": "FreezeConfig"})),
        on("DelegationPolicy", "of-child", "c0", json!({"requireAuth": true})),
    ]);
    let specs = select(vec![
        json!({"basicAuth": {"users": [USERS]}}),
        json!({"basicAuth": {"secretRef": {"name": "users"}}}),
        json!({"basicAuth": {"disable": {}}}),
        json!({"headerModifiers": {"request": {"set": [{"name": "x-a", "value": "1"}]}}}),
        json!({"headerModifiers": {"request": {"set": [{"name": "x-a", "value": "2"}]}}}),
        json!({"buffer": {"maxRequestSize": "1Ki"}}),
        json!({"buffer": {"maxRequestSize": "none"}}),
    ]);
    let traffic = (select(&["p", "q"][..]), select(&["root", "c0", "c1", "c2"][..]), specs, any::<bool>());
    let traffic = traffic.prop_map(|(name, target, spec, of_rule)| {
        let mut policy = on("TrafficPolicy", name, target, spec);
        if of_rule {
            policy["spec"]["targetRefs"][0]["sectionName"] = json!("named");
        }
        policy
    });
    let selectors = select(vec![
        json!({"matchLabels": {"delegation.kgateway.dev/label": "v"}}),
        json!({"matchLabels": {}, "sectionName": "named"}),
    ]);
    let of_platform = selectors.prop_map(of_platform);
    let names = subsequence(vec!["web", "other", "third"], 1..=3);
    let gateway = (names, any::<bool>(), prop::bool::weighted(0.8)).prop_map(|(names, is_labelled, freezes)| {
        let listeners = names.iter().zip(80..).map(|(name, port)| http(name, port, "")).collect();
        let gateway = gateway("edge", listeners);
        let gateway = if is_labelled { wide::labelled(gateway) } else { gateway };
        if freezes { wide::asking(gateway, "FreezeConfig") } else { gateway }
    });
    let wide = select(vec![
        json!({"basicAuth": {"users": [USERS]}}),
        json!({"basicAuth": {"secretRef": {"name": "users"}}}),
        json!({"buffer": {"maxRequestSize": "1Ki"}}),
        json!({"extAuth": {}}),
        json!({"timeouts": {"request": "7s"}}),
    ]);
    let targets = select(vec![wide::at_edge(), wide::at_web(), wide::at_labelled()]);
    let wide = (select(&["p", "q"][..]), targets, wide);
    let wide = wide.prop_map(|(name, target, spec)| wide::wide(name, target, spec));
    let around = select(vec![service("s"), service("t"), opaque("users", json!({".htpasswd": USERS}))]);
    prop_oneof![
        6 => children, 2 => root, 1 => Just(other), 3 => policies, 3 => traffic, 1 => of_platform, 1 => around, 1 => gateway,
        2 => wide
    ]
    .boxed()
}

/// Objects that are put, or removed, together.
type Batch = Vec<(Value, bool)>;

/// A tree that is sound, and what becomes of it.
fn trees() -> impl Strategy<Value = (BTreeMap<ObjectId, Object>, Vec<Batch>)> {
    let start = [
        class(),
        wide::asking(gateway("edge", json!([http("web", 80, ""), http("other", 81, "*.example.com")])), "FreezeConfig"),
        service("s"),
        service("t"),
        opaque("users", json!({".htpasswd": USERS})),
        root(json!([to("/a", &["c0", "c1"])])),
        child("c0", json!([to_backend("/a/x", "s")])),
        child("c1", json!([to_backend("/a/y", "s")])),
        asking(json!({})),
    ];
    let start: Vec<_> = start.into_iter().map(decode).collect();
    let start: BTreeMap<_, _> = start.into_iter().map(|object| (object.id(), object)).collect();
    (vec(part(), 0..5), vec(vec((part(), prop::bool::weighted(0.2)), 1..4), 1..10)).prop_map(move |(more, batches)| {
        let mut start = start.clone();
        start.extend(more.into_iter().map(decode).map(|object| (object.id(), object)));
        (start, batches)
    })
}

/// Has most Gateways ask that their policies are kept.
fn with_gateways(value: Value) -> Value {
    let freezes = value["kind"] == "Gateway" && value["metadata"]["name"] != "g2";
    if freezes { wide::asking(value, "FreezeConfig") } else { value }
}

/// Goes through batches, of which `is_heard` tells whose trees are stored at once and which later.
fn go_through(mut objects: BTreeMap<ObjectId, Object>, batches: Vec<Batch>, heard: u64) -> Result<(), TestCaseError> {
    let mut kept = BTreeMap::new();
    let mut incremental = fresh(freezing_settings(), objects.values(), &kept);
    keep(&mut incremental, &mut kept, |_| true);
    for (batch, number) in batches.into_iter().zip(0_u32..) {
        for (value, removed) in batch {
            let object = decode(value);
            if removed {
                objects.remove(&object.id());
                incremental.apply(Change::Remove(object.id()));
            } else {
                objects.insert(object.id(), object.clone());
                incremental.apply(Change::Put(object));
            }
        }
        incremental.settle();
        prop_assert!(incremental.most_computed() <= 1, "a row was computed twice in one batch");
        keep(&mut incremental, &mut kept, |root| {
            let bit = u32::from(root.name().name.bytes().last().unwrap_or_default()) + number;
            heard >> (bit % 64) & 1 == 1
        });
    }
    let scratch = fresh(freezing_settings(), objects.values(), &kept);
    let (now, scratch): (Reports, Reports) = (said(&incremental), said(&scratch));
    prop_assert_eq!(now, scratch);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn incremental_equals_from_scratch_with_editions(start in objects(), batches in batches(), heard in any::<u64>()) {
        let start = start.into_values().map(|object| match object {
            Object::Gateway(mut gateway) => {
                gateway.metadata.annotations.insert(wide::FAILURE_MODE, "FreezeConfig");
                Object::Gateway(gateway)
            }
            object => object,
        });
        let start = start.map(|object| (object.id(), object)).collect();
        let batches = batches.into_iter().map(|(batch, _)| {
            batch.into_iter().map(|(value, removed)| (with_gateways(value), removed)).collect()
        });
        go_through(with_policies(start), batches.collect(), heard)?;
    }

    #[test]
    fn a_tree_that_breaks_and_heals_is_as_from_scratch((start, batches) in trees(), heard in any::<u64>()) {
        go_through(start, batches, heard)?;
    }

    #[test]
    fn a_tree_that_is_kept_as_it_is_serves_the_same_bytes((objects, _) in trees()) {
        let mut kept = BTreeMap::new();
        let mut frozen = fresh(freezing_settings(), objects.values(), &kept);
        keep(&mut frozen, &mut kept, |_| true);
        let mut off = freezing_settings();
        off.freeze.enabled = false;
        let live = fresh(off, objects.values(), &BTreeMap::new());
        prop_assert_eq!(frozen.resources(), live.resources(), "{} are kept", kept.len());
    }

    /// Whatever happens to a tree, a request that its objects as they are would not let through is not let through by more than
    /// the version that is kept did.
    #[test]
    fn what_is_kept_changes_only_by_what_is_good((objects, batches) in trees()) {
        let mut kept = BTreeMap::new();
        let mut translator = fresh(freezing_settings(), objects.values(), &kept);
        keep(&mut translator, &mut kept, |_| true);
        for batch in batches {
            for (value, removed) in batch {
                let object = decode(value);
                translator.apply(if removed { Change::Remove(object.id()) } else { Change::Put(object) });
            }
            translator.settle();
            keep(&mut translator, &mut kept, |_| true);
            for (root, edition) in &kept {
                // What is kept is good where it stands alone: its objects, and all that is not kept.
                let Wish::Kept(candidate) = translator.wish(root) else { continue };
                prop_assert!(!candidate.is_good() || candidate.edition == *edition, "{root} is good and not kept");
            }
        }
    }
}

#[test]
fn worlds_have_trees_that_are_kept() {
    let mut draws = worlds::Draws::new();
    let (mut count, mut frozen) = (0, 0);
    for world in draws.take(&trees(), 64) {
        let (objects, batches) = world.current();
        let mut kept = BTreeMap::new();
        let mut translator = fresh(freezing_settings(), objects.values(), &kept);
        keep(&mut translator, &mut kept, |_| true);
        count += kept.len();
        for (value, removed) in batches.into_iter().flatten() {
            let object = decode(value);
            translator.apply(if removed { Change::Remove(object.id()) } else { Change::Put(object) });
            translator.settle();
            keep(&mut translator, &mut kept, |_| true);
            let is_broken =
                |root: &RootId| matches!(translator.wish(root), Wish::Kept(candidate) if !candidate.is_good());
            frozen += kept.keys().filter(|root| is_broken(root)).count();
        }
    }
    assert!(count > 32 && frozen > 32, "{count} are kept, {frozen} times one is served though it is broken");
}
