//! The invariants of the translation, over generated worlds.

use std::collections::{BTreeMap, BTreeSet};

use api::{Kind, Object, ObjectId};
use envoy::{Encoded, ResourceKey, ResourceKind};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::{alike::same_but_for_the_form, object as decode, world};
use translate::{Change, Translator};

/// Everything that a translator says, to be compared.
#[derive(Debug, PartialEq)]
pub(super) struct Reports {
    resources: Vec<(ResourceKey, Encoded)>,
    statuses: Vec<(ObjectId, Value)>,
    problems: Vec<(ObjectId, ir::Problem)>,
    gateways: Vec<ir::NsName>,
}

pub(super) fn said(translator: &Translator) -> Reports {
    Reports {
        resources: translator.resources().into_values().flatten().collect(),
        statuses: translator.statuses(),
        problems: translator.problems(),
        gateways: translator.gateways(),
    }
}

/// Bounds that worlds meet.
pub(super) fn settings() -> ir::Settings {
    let mut settings = ir::Settings::default();
    settings.delegation.max_depth = 4;
    settings.delegation.max_matches = 60;
    settings.policies.say_once_from = 2;
    settings
}

/// The same where rows say all by themselves.
fn by_themselves() -> ir::Settings {
    let mut settings = settings();
    settings.policies.say_once_from = 0;
    settings
}

fn fresh<'a>(objects: impl IntoIterator<Item = &'a Object>) -> Translator {
    fresh_with(settings(), objects)
}

fn fresh_with<'a>(settings: ir::Settings, objects: impl IntoIterator<Item = &'a Object>) -> Translator {
    let mut translator = Translator::new(settings);
    for object in objects {
        translator.apply(Change::Put(object.clone()));
    }
    translator.settle();
    translator
}

/// A world as its objects, each name once, a class of ours among them.
pub(super) fn objects() -> impl Strategy<Value = BTreeMap<ObjectId, Object>> {
    vec(world::object(), 5..40).prop_map(|values| {
        let class = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "ours"},
            "spec": {"controllerName": "portcullis.dev/gateway-controller"},
        });
        let objects = values.into_iter().chain([class]).map(decode);
        objects.map(|object| (object.id(), object)).collect()
    })
}

/// A batch of events: objects that are put, or removed where the flag says so, and how many entries others wrote to the status of a
/// policy.
pub(super) type Batch = (Vec<(Value, bool)>, Option<(ObjectId, usize)>);

pub(super) fn batches() -> impl Strategy<Value = Vec<Batch>> {
    let policy = (0..3_u8, prop::sample::select(&["infra", "apps", "other"][..]));
    let policy =
        policy.prop_map(|(name, namespace)| ObjectId::new(Kind::BackendTlsPolicy, namespace, format!("t{name}")));
    let foreign = prop::option::weighted(0.4, (policy, prop::sample::select(&[0, 14, 15, 16, 17][..])));
    vec((vec((world::object(), prop::bool::weighted(0.25)), 1..6), foreign), 1..12)
}

/// The Envoy routes of a route configuration by virtual host, in order, with their names.
fn routes(encoded: &Encoded) -> BTreeMap<String, Vec<(String, Value)>> {
    let config =
        envoy::json::value(ResourceKind::RouteConfiguration.message_name(), &encoded.body.to_bytes()).expect("JSON");
    let text = |value: &Value| value.as_str().expect("a name").to_owned();
    let hosts = config["virtualHosts"].as_array().expect("virtual hosts").iter();
    hosts
        .map(|host| {
            let routes = host["routes"].as_array().into_iter().flatten();
            (text(&host["name"]), routes.map(|route| (text(&route["name"]), route.clone())).collect())
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn incremental_equals_from_scratch(start in objects(), batches in batches()) {
        let mut incremental = fresh(start.values());
        let mut objects = start;
        let mut pushed: BTreeMap<ResourceKey, Encoded> = incremental.resources().into_values().flatten().collect();
        let mut statuses: BTreeMap<ObjectId, Value> = incremental.statuses().into_iter().collect();
        let mut foreign = BTreeMap::new();
        for (batch, entries) in batches {
            if let Some((policy, count)) = entries {
                incremental.set_foreign_ancestors(&policy, count);
                foreign.insert(policy, count);
            }
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
            let changes = incremental.settle();
            for id in changes.statuses {
                match incremental.status(&id).map(|status| serde_json::from_str(&status).expect("JSON")) {
                    Some(status) => statuses.insert(id, status),
                    None => statuses.remove(&id),
                };
            }
            for (key, encoded) in changes.resources {
                let before = pushed.get(&key);
                prop_assert_ne!(before, encoded.as_ref(), "{:?} is told though it did not change", key);
                match encoded {
                    Some(encoded) => pushed.insert(key, encoded),
                    None => pushed.remove(&key),
                };
            }
            prop_assert!(incremental.most_computed() <= 1, "a row was computed twice in one batch");
        }
        let mut scratch = fresh(objects.values());
        for (policy, count) in foreign {
            scratch.set_foreign_ancestors(&policy, count);
        }
        scratch.settle();
        let scratch = said(&scratch);
        prop_assert_eq!(&said(&incremental), &scratch);
        let told = scratch.statuses.iter().cloned().collect::<BTreeMap<_, _>>();
        prop_assert_eq!(statuses, told, "a status turned, and nobody was told");
        prop_assert_eq!(pushed.into_iter().collect::<Vec<_>>(), {
            let mut resources = scratch.resources;
            resources.sort_by(|(a, _), (b, _)| a.cmp(b));
            resources
        });
    }

    #[test]
    fn the_order_of_arrival_decides_nothing(objects in objects(), seed in any::<u64>()) {
        let mut shuffled: Vec<_> = objects.values().collect();
        // A fixed permutation from the seed, so that a failure repeats.
        shuffled.sort_by_key(|object| blake3::hash(format!("{seed}{}", object.id()).as_bytes()).as_bytes().to_vec());
        let mut one_by_one = Translator::new(settings());
        for object in shuffled {
            one_by_one.apply(Change::Put(object.clone()));
            one_by_one.settle();
        }
        prop_assert_eq!(said(&one_by_one), said(&fresh(objects.values())));
    }

    #[test]
    fn what_rows_say_alike_holds_as_if_each_said_it(objects in objects(), from in 1..4_u64) {
        let mut settings = settings();
        settings.policies.say_once_from = from;
        let [once, each] = [settings, by_themselves()].map(|settings| fresh_with(settings, objects.values()));
        prop_assert_eq!(once.statuses(), each.statuses());
        same_but_for_the_form(&once, &each);
    }

    #[test]
    fn a_rule_that_breaks_changes_nothing_of_other_rules(objects in objects(), which in any::<prop::sample::Index>()) {
        // A delegating rule takes its children along.
        let sends = |object: &Object| match object {
            Object::HttpRoute(route) => route.spec.rules[0].backend_refs.iter().all(|backend| &*backend.backend_ref.kind == "Service"),
            _ => false,
        };
        let routes_in: Vec<_> = objects.values().filter(|object| sends(object)).cloned().collect();
        prop_assume!(!routes_in.is_empty());
        let Object::HttpRoute(mut broken) = which.get(&routes_in).clone() else { unreachable!("filtered") };
        let name = format!("{}/{}/0/", broken.metadata.namespace, broken.metadata.name);
        broken.spec.rules[0].filters = serde_json::from_value(json!([{"type": "Tomorrow"}])).expect("a filter");
        // What many say alike may be said once, or no longer.
        let mut translator = fresh_with(by_themselves(), objects.values());
        let before = translator.resources();
        translator.apply(Change::Put(Object::HttpRoute(broken)));
        let changes = translator.settle();
        for (key, now) in &changes.resources {
            // What only the broken rule used may go; nothing else may turn but the routes that contain the rule.
            prop_assert!(now.is_none() || key.kind == ResourceKind::RouteConfiguration, "{:?} turned", key);
            let Some(now) = now else { continue };
            let was = before[&key.gateway].iter().find(|(other, _)| other == key).expect("it was there");
            let (was, now) = (routes(&was.1), routes(now));
            let hosts: BTreeSet<_> = was.keys().chain(now.keys()).collect();
            for host in hosts {
                let others = |from: &BTreeMap<String, Vec<(String, Value)>>| -> Vec<_> {
                    from.get(host).into_iter().flatten().filter(|(route, _)| !route.starts_with(&name)).cloned().collect()
                };
                prop_assert_eq!(others(&was), others(&now), "other routes of {} turned", host);
            }
            // The broken rule's matches stay, and answer by themselves.
            for (name, route) in now.values().flatten().filter(|(route, _)| route.starts_with(&name)) {
                prop_assert_eq!(&route["directResponse"]["status"], &json!(500), "{} still forwards: {}", name, route);
            }
        }
    }
}
