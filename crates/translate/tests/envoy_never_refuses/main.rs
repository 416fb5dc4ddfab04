//! Envoy never refuses what it is sent, whatever the objects say.
//!
//! Worlds of objects are generated with hostile values in any of their fields and put into the translation as if no
//! schema had looked at them. All that comes out goes into one bootstrap, which a real Envoy judges. Most
//! worlds are the same in every run, and some are new: [`Draws`] says how to repeat them, and how to ask for more. Of a
//! world that Envoy refuses the smallest part that it still refuses is printed.

mod corners;
mod judge;

use std::collections::BTreeMap;

use ir::{Settings, settings::LOGIN_SEED_BYTES};
use judge::{Sent, refused};
use proptest::strategy::ValueTree;
use serde_json::Value;
use translate::{Change, LoginSeed, Translator};
use worlds::{
    Draws,
    world::{Place, world},
};

/// How many worlds are judged, besides new ones.
const WORLDS: usize = 400;

/// How often a world that is refused is tried smaller.
const SHRINKS: usize = 300;

fn place() -> Place {
    let addresses =
        vec!["127.0.0.1", "0.0.0.0", "::1", "::", "127.0.0.2", "255.255.255.255", "::ffff:127.0.0.1", "", "x"];
    Place { ports: vec![80, 81, 1023, 443], addresses, edits: 5 }
}

/// The world in a translator. What does not decode is no object.
fn translator(world: &[Value], settings: Settings) -> Translator {
    let mut translator = Translator::new(settings);
    translator.set_login_seed(LoginSeed::new(&[7; LOGIN_SEED_BYTES]));
    for manifest in world {
        if let Ok(decoded) = api::decode(manifest.clone()) {
            translator.apply(Change::Put(decoded.object));
        }
    }
    translator.settle();
    translator
}

/// A world, printed if what is sent for it cannot be put together.
struct Tried<'a>(&'a [Value]);

impl Drop for Tried<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.iter().for_each(|object| println!("{object}"));
        }
    }
}

fn sent(world: &[Value], number: usize) -> Sent {
    let _tried = Tried(world);
    let ports =
        if number.is_multiple_of(2) { ir::settings::PortMapping::Own } else { ir::settings::PortMapping::Mapped };
    Sent::by(&translator(world, Settings { ports, ..Settings::default() }), &format!("w{number}"))
}

/// The places of those that Envoy refuses, each alone.
fn culprits(all: &[Sent], from: usize) -> Vec<usize> {
    let parts: Vec<_> = all.iter().collect();
    if all.is_empty() || refused(&parts).is_none() {
        return Vec::new();
    }
    if all.len() == 1 {
        return vec![from];
    }
    let (left, right) = all.split_at(all.len() / 2);
    let mut found = culprits(left, from);
    found.extend(culprits(right, from + left.len()));
    found
}

/// Makes a world that is refused smaller, as long as it is.
fn shrink(tree: &mut impl ValueTree<Value = Vec<Value>>, number: usize) -> (Vec<Value>, String) {
    let judge = |world: &[Value]| refused(&[&sent(world, number)]);
    let mut smallest = tree.current();
    let mut said = judge(&smallest).unwrap_or_else(|| "nothing, alone".into());
    let mut smaller = tree.simplify();
    for _ in 0..SHRINKS {
        if !smaller {
            break;
        }
        let world = tree.current();
        smaller = match judge(&world) {
            Some(words) => {
                (smallest, said) = (world, words);
                tree.simplify()
            }
            None => tree.complicate(),
        };
    }
    (smallest, said)
}

#[test]
fn whatever_the_objects_say() {
    let mut trees = Draws::new().take(&world(&place()), WORLDS);
    let worlds = trees.len();
    let all: Vec<_> = trees.iter().enumerate().map(|(number, tree)| sent(&tree.current(), number)).collect();
    let mut routes: BTreeMap<_, usize> = BTreeMap::new();
    for (does, count) in all.iter().flat_map(|sent| &sent.routes) {
        *routes.entry(does).or_default() += count;
    }
    println!("{worlds} worlds, routes: {routes:?}");
    let culprits = culprits(&all, 0);
    if let Some(&first) = culprits.first() {
        let (world, said) = shrink(&mut trees[first], first);
        let world: Vec<_> = world.iter().map(|object| serde_json::to_string(object).expect("JSON")).collect();
        panic!("Envoy refuses worlds {culprits:?}; of {first} this much, saying\n{said}\n{}", world.join("\n"));
    }
    // Nothing would be judged if nothing got through.
    let enough = [("route", 120), ("redirect", 50), ("directResponse", 400)];
    for (does, least_of_100) in enough {
        let count = routes.get(&does).copied().unwrap_or_default();
        assert!(count * 100 >= worlds * least_of_100, "only {count} routes of kind {does} in {worlds} worlds");
    }
}

#[test]
fn at_the_bounds_of_what_envoy_takes() {
    let mut refusals = Vec::new();
    for (number, (name, world)) in corners::worlds().into_iter().enumerate() {
        let sent = sent(&world, number);
        assert!(!sent.routes.is_empty(), "{name}: nothing is sent");
        if let Some(said) = refused(&[&sent]) {
            refusals.push(format!("{name}: {said}"));
        }
    }
    assert!(refusals.is_empty(), "{}", refusals.join("\n"));
}
