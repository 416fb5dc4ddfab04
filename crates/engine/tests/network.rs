//! A random network of tables and groups, fed random batches, is at every moment what a new engine makes of the same
//! inputs.
//!
//! The tables are interpreters: what a row reads, demands and emits stands in an input row, the row's program, and so
//! changes with the inputs like everything else.

use std::collections::{BTreeMap, BTreeSet};

use engine::{Derived, Emitter, Engine, Fault, Group, Input, Kind, Lookup, Scope, Table, TableStats, View};
use proptest::prelude::*;

/// Keys of all tables are small, so that rows meet.
const KEYS: u8 = 6;
/// Lookup, derived table and group, this many times over. Those of the first level settle one after the other, the
/// others in layers.
const LEVELS: u8 = 3;

#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// Adds a number, or something else if there is none.
    Number(u8),
    /// Adds a lookup row of a level.
    Lookup(u8, u8),
    /// Adds a derived row of a level.
    Derived(u8, u8),
    /// Adds the count, length and hash of a group of a level.
    Group(u8, u8),
    /// Adds the entry of a group at a sort key.
    Entry(u8, u8, u8),
    /// Demands a derived row of a level.
    Demand(u8, u8),
    /// Emits the sum so far into a group of a level, at a sort key.
    Emit(u8, u8, u8),
    /// The row has no value if the number is odd.
    VanishIfOdd(u8),
    /// The row panics if the number is odd.
    PanicIfOdd(u8),
    /// Goes on with the one or the other by a number's parity.
    Choose(u8, Box<(Step, Step)>),
    /// Forgets the sum so far: what was read makes no difference to what follows.
    Forget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Role {
    Lookup,
    Derived,
    Group,
}

/// Whose program it is: role, level, key.
type Owner = (Role, u8, u8);

struct Numbers;
impl Table for Numbers {
    const NAME: &'static str = "Numbers";
    type Key = u8;
    type Value = i64;
}
impl Input for Numbers {}

struct Programs;
impl Table for Programs {
    const NAME: &'static str = "Programs";
    type Key = Owner;
    type Value = Vec<Step>;
}
impl Input for Programs {}

struct L<const N: u8>;
impl<const N: u8> Table for L<N> {
    const NAME: &'static str = ["L0", "L1", "L2"][N as usize];
    type Key = u8;
    type Value = i64;
}
impl<const N: u8> Lookup for L<N> {
    fn compute(scope: &Scope<'_>, key: &u8) -> Option<i64> {
        run((Role::Lookup, N, *key), scope, None)
    }
    fn poisoned(_: &Scope<'_>, key: &u8, fault: &Fault) -> Option<i64> {
        if N == 2 && key % 3 == 1 { Some(-5) } else { fault.spread() }
    }
    fn depth(key: &u8) -> u32 {
        depth(*key)
    }
}

struct D<const N: u8>;
impl<const N: u8> Table for D<N> {
    const NAME: &'static str = ["D0", "D1", "D2"][N as usize];
    type Key = u8;
    type Value = i64;
}
impl<const N: u8> Derived for D<N> {
    fn compute(scope: &Emitter<'_>, key: &u8) -> Option<i64> {
        run((Role::Derived, N, *key), scope, Some(scope))
    }
    fn poisoned(scope: &Emitter<'_>, key: &u8, fault: &Fault) -> Option<i64> {
        match key % 3 {
            0 if N < 2 => {
                scope.emit::<G<2>>(5, *key % 3, -6);
                scope.demand::<D<2>>(5);
                let numbers = scope.attempt(|| scope.get::<L<0>>(key)).map_or(Some(-7), |n| n.map(|n| *n));
                numbers.filter(|n| n % 2 == 0)
            }
            1 => {
                // Withdrawn, since this panics too.
                scope.emit::<G<2>>(5, *key % 3, -8);
                panic!("closing panics too");
            }
            _ => fault.spread(),
        }
    }
    fn depth(key: &u8) -> u32 {
        depth(*key)
    }
}

struct G<const N: u8>;
impl<const N: u8> Group for G<N> {
    const NAME: &'static str = ["G0", "G1", "G2"][N as usize];
    type Key = u8;
    type Sort = u8;
    type Entry = i64;
    type Summary = u64;
    fn summary(entry: &i64) -> u64 {
        entry.unsigned_abs() % 10
    }
    const HASH: Option<fn(&i64) -> [u8; 16]> = Some(|entry| i128::from(*entry).to_le_bytes());
    fn depth(key: &u8) -> u32 {
        depth(*key)
    }
}

fn depth(key: u8) -> u32 {
    u32::from(key / 2)
}

/// When something settles: what is smaller may be read, what is greater may be demanded and emitted into.
fn moment(role: Role, level: u8, key: u8) -> (u8, u32, u8) {
    let place = level * 3 + role as u8;
    (if level == 0 { place } else { 3 }, depth(key), place)
}

fn engine() -> Engine {
    let rows_of = |level| move |owner: &Owner| (owner.0 == Role::Derived && owner.1 == level).then_some(owner.2);
    Engine::builder()
        .input::<Numbers>()
        .input::<Programs>()
        .lookup::<L<0>>()
        .derived_for_each::<D<0>, Programs>(rows_of(0))
        .group::<G<0>>()
        .layered(|tables| {
            tables
                .lookup::<L<1>>()
                .derived::<D<1>>()
                .group::<G<1>>()
                .lookup::<L<2>>()
                .derived::<D<2>>()
                // Several input rows demand one row.
                .for_each::<D<2>, Programs>(|owner| (owner.2 == 3).then_some(0))
                .group::<G<2>>()
        })
        .track::<Numbers>()
        .track::<L<1>>()
        .track::<D<0>>()
        .track::<D<2>>()
        .build()
}

/// Calls something with the level as a constant.
macro_rules! at_level {
    ($level:expr, $table:ident => $call:expr) => {
        match $level {
            0 => {
                type Level = $table<0>;
                $call
            }
            1 => {
                type Level = $table<1>;
                $call
            }
            _ => {
                type Level = $table<2>;
                $call
            }
        }
    };
}

fn mix(sum: i64, value: i64) -> i64 {
    sum.wrapping_mul(31).wrapping_add(value) % 1009
}

/// The interpreter. Steps that the order of tables forbids do nothing.
fn run(owner: Owner, scope: &Scope<'_>, emitter: Option<&Emitter<'_>>) -> Option<i64> {
    let program = scope.get::<Programs>(&owner)?;
    let mut sum = 0;
    for step in &*program {
        run_step(step, owner, scope, emitter, &mut sum)?;
    }
    Some(sum)
}

fn run_step(step: &Step, own: Owner, scope: &Scope<'_>, emitter: Option<&Emitter<'_>>, sum: &mut i64) -> Option<()> {
    let (role, level, key) = own;
    let now = moment(role, level, key);
    match step {
        Step::Number(k) => *sum = mix(*sum, scope.get::<Numbers>(k).map_or(-1, |n| *n)),
        Step::Lookup(n, k) if moment(Role::Lookup, *n, *k) < now => {
            *sum = mix(*sum, at_level!(n, L => scope.get::<Level>(k)).map_or(-2, |n| *n));
        }
        Step::Derived(n, k) if moment(Role::Derived, *n, *k) < now => {
            *sum = mix(*sum, at_level!(n, D => scope.get::<Level>(k)).map_or(-3, |n| *n));
        }
        Step::Group(n, k) if moment(Role::Group, *n, *k) < now => at_level!(n, G => {
            let view = scope.group::<Level>(k);
            *sum = mix(*sum, i64::try_from(view.len()).expect("small"));
            *sum = mix(*sum, i64::try_from(*view.summary()).expect("small"));
            *sum = mix(*sum, i64::from(view.hash()[0]));
        }),
        Step::Entry(n, k, sort) if moment(Role::Group, *n, *k) < now => at_level!(n, G => {
            *sum = mix(*sum, scope.group::<Level>(k).get(sort).copied().unwrap_or(-4));
        }),
        Step::Demand(n, k) if moment(Role::Derived, *n, *k) > now => {
            if let Some(emitter) = emitter {
                at_level!(n, D => emitter.demand::<Level>(*k));
            }
        }
        Step::Emit(n, k, sort) if moment(Role::Group, *n, *k) > now => {
            if let Some(emitter) = emitter {
                at_level!(n, G => emitter.emit::<Level>(*k, *sort, *sum));
            }
        }
        Step::VanishIfOdd(k) if scope.get::<Numbers>(k).is_some_and(|n| *n % 2 != 0) => return None,
        Step::PanicIfOdd(k) if scope.get::<Numbers>(k).is_some_and(|n| *n % 2 != 0) => panic!("{k} is odd"),
        Step::Choose(k, branches) => {
            let even = scope.get::<Numbers>(k).is_none_or(|n| *n % 2 == 0);
            let branch = if even { &branches.0 } else { &branches.1 };
            run_step(branch, own, scope, emitter, sum)?;
        }
        Step::Forget => *sum = 0,
        _ => {}
    }
    Some(())
}

#[derive(Clone, Debug)]
enum Event {
    Number(u8, Option<i64>),
    Program(Owner, Option<Vec<Step>>),
    Demand(u8, u8),
    Release(u8, u8),
}

/// What a new engine is given.
#[derive(Clone, Default)]
struct World {
    numbers: BTreeMap<u8, i64>,
    programs: BTreeMap<Owner, Vec<Step>>,
    roots: BTreeSet<(u8, u8)>,
}

impl World {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::Number(key, Some(n)) => drop(self.numbers.insert(*key, *n)),
            Event::Number(key, None) => drop(self.numbers.remove(key)),
            Event::Program(key, Some(program)) => drop(self.programs.insert(*key, program.clone())),
            Event::Program(key, None) => drop(self.programs.remove(key)),
            Event::Demand(level, key) => drop(self.roots.insert((*level, *key))),
            Event::Release(level, key) => drop(self.roots.remove(&(*level, *key))),
        }
    }

    fn engine(&self) -> Engine {
        let mut engine = engine();
        for (key, n) in &self.numbers {
            feed(&mut engine, &Event::Number(*key, Some(*n)));
        }
        for (key, program) in &self.programs {
            feed(&mut engine, &Event::Program(*key, Some(program.clone())));
        }
        for (level, key) in &self.roots {
            feed(&mut engine, &Event::Demand(*level, *key));
        }
        engine.settle();
        engine
    }
}

fn feed(engine: &mut Engine, event: &Event) {
    match event {
        Event::Number(key, n) => drop(engine.set::<Numbers>(*key, *n)),
        Event::Program(key, program) => drop(engine.set::<Programs>(*key, program.clone())),
        Event::Demand(level, key) => at_level!(level, D => engine.demand::<Level>(*key)),
        Event::Release(level, key) => at_level!(level, D => engine.release::<Level>(key)),
    }
}

type Rows = BTreeMap<u8, i64>;

/// Count, length, hash and entries of a group.
type Seen = (usize, u64, [u8; 16], Vec<(u8, i64)>);

/// Everything that can be seen from outside.
#[derive(PartialEq, Debug)]
struct State {
    rows: BTreeMap<&'static str, Rows>,
    groups: BTreeMap<(&'static str, u8), Seen>,
    /// What rows poison their readers with.
    poison: BTreeMap<(&'static str, u8), String>,
    /// Which rows panicked.
    panicked: Vec<Fault>,
    /// Lookup rows held by table, so that a row which should be gone is found out, and entries hidden. How many others are held
    /// that are not there depends on who looked first.
    held: Vec<(&'static str, Option<usize>, usize)>,
}

fn rows<T: Table<Key = u8, Value = i64>>(engine: &Engine) -> Rows {
    engine.rows::<T>().into_iter().map(|(key, value)| (key, *value)).collect()
}

fn seen<T: Group<Key = u8, Sort = u8, Entry = i64, Summary = u64>>(view: &View<T>) -> Seen {
    (view.len(), *view.summary(), view.hash(), view.iter().map(|(sort, entry)| (*sort, *entry)).collect())
}

fn state(engine: &Engine) -> State {
    let mut state = State {
        rows: BTreeMap::new(),
        groups: BTreeMap::new(),
        poison: BTreeMap::new(),
        panicked: engine.faults(),
        held: Vec::new(),
    };
    state.rows.insert("Numbers", rows::<Numbers>(engine));
    for level in 0..LEVELS {
        at_level!(level, L => state.rows.insert(Level::NAME, rows::<Level>(engine)));
        at_level!(level, D => state.rows.insert(Level::NAME, rows::<Level>(engine)));
        for key in 0..KEYS {
            let of_lookup = at_level!(level, L => (Level::NAME, engine.fault::<Level>(&key)));
            let of_derived = at_level!(level, D => (Level::NAME, engine.fault::<Level>(&key)));
            for (table, fault) in [of_lookup, of_derived] {
                state.poison.extend(fault.map(|fault| ((table, key), fault.to_string())));
            }
            at_level!(level, G => state.groups.insert((Level::NAME, key), seen(&engine.group::<Level>(&key))));
        }
    }
    let held = |table: &TableStats| (table.kind == Kind::Lookup).then_some(table.rows);
    state.held = engine.stats().iter().map(|table| (table.name, held(table), table.contested)).collect();
    state
}

/// What is told of a table to somebody who knows what he was `told`; of a poisoned row nothing.
fn changed(told: &mut BTreeMap<&'static str, Rows>, now: &State, table: &'static str) -> Vec<u8> {
    let (told, rows) = (told.entry(table).or_default(), &now.rows[table]);
    let differs = |key: &u8| told.get(key) != rows.get(key) && !now.poison.contains_key(&(table, *key));
    let keys: Vec<_> = (0..KEYS).filter(differs).collect();
    for key in &keys {
        match rows.get(key) {
            Some(value) => told.insert(*key, *value),
            None => told.remove(key),
        };
    }
    keys
}

fn key() -> impl Strategy<Value = u8> {
    0..KEYS
}

fn level() -> impl Strategy<Value = u8> {
    0..LEVELS
}

fn step() -> impl Strategy<Value = Step> {
    let plain = prop_oneof![
        2 => key().prop_map(Step::Number),
        3 => (level(), key()).prop_map(|(n, k)| Step::Lookup(n, k)),
        3 => (level(), key()).prop_map(|(n, k)| Step::Derived(n, k)),
        2 => (level(), key()).prop_map(|(n, k)| Step::Group(n, k)),
        1 => (level(), key(), 0..3_u8).prop_map(|(n, k, sort)| Step::Entry(n, k, sort)),
        3 => (level(), key()).prop_map(|(n, k)| Step::Demand(n, k)),
        4 => (level(), key(), 0..3_u8).prop_map(|(n, k, sort)| Step::Emit(n, k, sort)),
        1 => key().prop_map(Step::VanishIfOdd),
        1 => key().prop_map(Step::PanicIfOdd),
        1 => Just(Step::Forget),
    ]
    .boxed();
    let choice = (key(), plain.clone(), plain.clone()).prop_map(|(k, a, b)| Step::Choose(k, Box::new((a, b))));
    prop_oneof![3 => plain, 1 => choice]
}

fn owner() -> impl Strategy<Value = Owner> {
    (prop_oneof![Just(Role::Lookup), Just(Role::Derived)], level(), key())
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (key(), proptest::option::weighted(0.8, 0..4_i64)).prop_map(|(k, n)| Event::Number(k, n)),
        6 => (owner(), proptest::option::weighted(0.8, proptest::collection::vec(step(), 1..8)))
            .prop_map(|(owner, program)| Event::Program(owner, program)),
        2 => (level(), key()).prop_map(|(n, k)| Event::Demand(n, k)),
        2 => (level(), key()).prop_map(|(n, k)| Event::Release(n, k)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn incremental_equals_from_scratch(
        batches in proptest::collection::vec(proptest::collection::vec(event(), 1..12), 1..20),
    ) {
        let mut world = World::default();
        let mut engine = engine();
        let mut told = BTreeMap::new();
        let mut kept = Vec::new();
        for batch in &batches {
            for event in batch {
                world.apply(event);
                feed(&mut engine, event);
            }
            engine.settle();
            prop_assert_eq!(engine.left_behind(), Vec::<String>::new());
            for table in engine.stats() {
                prop_assert!(table.max_per_cell <= 1, "{} computed a row twice", table.name);
            }

            let now = state(&engine);
            prop_assert_eq!(&now, &state(&world.engine()));
            prop_assert_eq!(engine.take_changes::<Numbers>(), changed(&mut told, &now, "Numbers"));
            prop_assert_eq!(engine.take_changes::<L<1>>(), changed(&mut told, &now, "L1"));
            prop_assert_eq!(engine.take_changes::<D<0>>(), changed(&mut told, &now, "D0"));
            prop_assert_eq!(engine.take_changes::<D<2>>(), changed(&mut told, &now, "D2"));

            for (view, content) in &kept {
                prop_assert_eq!(&seen::<G<1>>(view), content, "a snapshot changed");
            }
            for view in (0..KEYS).map(|key| engine.group::<G<1>>(&key)) {
                let content = seen(&view);
                kept.push((view, content));
            }

            prop_assert_eq!(engine.settle().computed, 0, "nothing was written");
        }

        // What is taken away leaves nothing behind.
        for key in world.numbers.keys() {
            engine.set::<Numbers>(*key, None);
        }
        for owner in world.programs.keys() {
            engine.set::<Programs>(*owner, None);
        }
        for (level, key) in &world.roots {
            feed(&mut engine, &Event::Release(*level, *key));
        }
        engine.settle();
        for table in engine.stats() {
            prop_assert_eq!(table.rows, 0, "{} still has rows", table.name);
        }
        prop_assert_eq!(engine.faults(), []);
    }
}
