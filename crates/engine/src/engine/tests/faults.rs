//! Rows that panic.

use super::*;
use crate::{Fault, Turned};

// Panics for a negative number, and else tells whether a number is great.
table!(Great, u32 => ());
impl Lookup for Great {
    fn compute(scope: &Scope<'_>, key: &u32) -> Option<()> {
        let number = *scope.get::<Number>(key)?;
        assert!(number >= 0, "{number} is negative");
        (number > 9).then_some(())
    }
}

// Something that is allowed where the number is not great.
table!(Allowed, u32 => bool);
impl Derived for Allowed {
    fn compute(scope: &Emitter<'_>, key: &u32) -> Option<bool> {
        scope.emit::<ByParity>(key % 2, *key, 1);
        scope.demand::<Sum>(key % 2);
        Some(scope.get::<Great>(key).is_none())
    }
}

// The same, for a table that says what a fault closes.
table!(Guarded, u32 => bool);
impl Derived for Guarded {
    fn compute(scope: &Emitter<'_>, key: &u32) -> Option<bool> {
        scope.emit::<ByParity>(key % 2, 100 + *key, 1);
        Some(scope.get::<Allowed>(key).is_some_and(|allowed| *allowed))
    }

    fn poisoned(scope: &Emitter<'_>, key: &u32, _: &Fault) -> Option<bool> {
        scope.emit::<ByParity>(key % 2, 200 + *key, 1);
        Some(false)
    }
}

fn guarded() -> Engine {
    Engine::builder()
        .input::<Number>()
        .lookup::<Great>()
        .derived_for_each::<Allowed, Number>(|key| Some(*key))
        .track::<Allowed>()
        .derived_for_each::<Guarded, Number>(|key| Some(*key))
        .track::<Guarded>()
        .group::<ByParity>()
        .derived::<Sum>()
        .build()
}

fn with(numbers: &[(u32, i64)]) -> Engine {
    let mut engine = guarded();
    for (key, number) in numbers {
        engine.set::<Number>(*key, Some(*number));
    }
    engine.settle();
    engine
}

fn emitted(engine: &Engine, parity: u32) -> Vec<u32> {
    engine.group::<ByParity>(&parity).iter().map(|(sort, _)| *sort).collect()
}

#[test]
fn a_row_that_panics_is_not_read_as_one_that_does_not_exist() {
    let engine = with(&[(0, -1), (2, 1), (4, 20)]);
    assert!(engine.get::<Allowed>(&0).is_none(), "it has no value");
    let poison = engine.fault::<Allowed>(&0).expect("its readers are poisoned");
    assert_eq!((poison.row(), poison.message()), ("Great(0)", "-1 is negative"));
    assert!(poison.place().contains("faults.rs:"), "{}", poison.place());
    assert_eq!(engine.get::<Guarded>(&0).as_deref(), Some(&false), "poison ends where a table says what is closed");
    assert_eq!(engine.fault::<Guarded>(&0), None);
    assert_eq!([2, 4].map(|key| engine.get::<Guarded>(&key).as_deref().copied()), [Some(true), Some(false)]);
    assert_eq!(engine.faults(), [poison], "those that are poisoned did not panic");
}

#[test]
fn what_a_row_had_emitted_and_demanded_is_withdrawn_and_what_closes_is_emitted() {
    let mut engine = with(&[(0, 1), (2, 1), (1, 1)]);
    assert_eq!(emitted(&engine, 0), [0, 2, 100, 102]);
    engine.set::<Number>(0, Some(-1));
    engine.set::<Number>(1, Some(-1));
    engine.settle();
    assert_eq!(emitted(&engine, 0), [2, 102, 200]);
    assert_eq!(engine.get::<Sum>(&0).as_deref(), Some(&3));
    assert!(engine.get::<Sum>(&1).is_none(), "nobody demands it any more");
}

#[test]
fn a_row_heals_with_what_it_had_read() {
    let mut engine = with(&[(0, -1)]);
    engine.set::<Number>(0, Some(1));
    engine.settle();
    assert_eq!((engine.faults(), engine.fault::<Allowed>(&0)), (Vec::new(), None));
    assert_eq!(engine.get::<Guarded>(&0).as_deref(), Some(&true));
    assert_eq!(emitted(&engine, 0), [0, 100]);
}

#[test]
fn of_a_poisoned_row_no_change_is_told() {
    let mut engine = with(&[(0, 1), (2, 1)]);
    assert_eq!(engine.take_changes::<Allowed>(), [0, 2]);
    engine.set::<Number>(0, Some(-1));
    engine.set::<Number>(2, Some(-1));
    engine.settle();
    assert!(engine.take_changes::<Allowed>().is_empty(), "who was told keeps what he has");
    assert_eq!(engine.take_changes::<Guarded>(), [0, 2], "a value that closes is a value");
    engine.set::<Number>(0, Some(1));
    engine.set::<Number>(2, Some(20));
    engine.settle();
    assert_eq!(engine.take_changes::<Allowed>(), [2], "the other is as it was when it was told");
    engine.set::<Number>(2, Some(-1));
    engine.settle();
    engine.set::<Number>(2, None);
    engine.settle();
    assert_eq!(engine.take_changes::<Allowed>(), [2], "a row that is gone is told, poisoned or not");
}

#[test]
fn a_panic_is_told_once_until_it_is_another_one_or_over() {
    let mut engine = with(&[(0, -1)]);
    let turned = |engine: &mut Engine| -> Vec<_> {
        let told = |Turned { row, fault }| (row, fault.map(|fault| fault.message().to_owned()));
        engine.take_faults().into_iter().map(told).collect()
    };
    let great = |message: Option<&str>| [("Great(0)".to_owned(), message.map(ToOwned::to_owned))];
    assert_eq!(turned(&mut engine), great(Some("-1 is negative")));
    engine.set::<Number>(2, Some(1));
    engine.settle();
    assert_eq!(turned(&mut engine), []);
    engine.set::<Number>(0, Some(-2));
    engine.settle();
    assert_eq!(turned(&mut engine), great(Some("-2 is negative")));
    engine.set::<Number>(0, None);
    engine.set::<Number>(2, None);
    engine.settle();
    assert_eq!(turned(&mut engine), great(None), "the row is gone");
    assert_eq!(held(&engine), [0; 6]);
}

#[test]
fn a_row_that_is_told_to_fail_does_so_until_it_is_told_not_to() {
    let mut engine = with(&[(0, 1)]);
    engine.fail_at("Guarded", "0");
    engine.settle();
    assert_eq!(engine.get::<Guarded>(&0).as_deref(), Some(&false));
    assert!(engine.why::<Guarded>(&0).expect("it exists").to_string().contains("poisoned: Guarded(0) panicked at"));
    engine.fail_no_more("Guarded", "0");
    engine.settle();
    assert_eq!(engine.get::<Guarded>(&0).as_deref(), Some(&true));
    engine.fail_at("Great", "2");
    engine.set::<Number>(2, Some(1));
    engine.settle();
    assert_eq!(engine.get::<Guarded>(&2).as_deref(), Some(&false), "also a row that comes later");
}

#[test]
fn a_panic_outside_of_rows_goes_where_it_went_before() {
    let _engine = with(&[(0, -1)]);
    let caught = std::panic::catch_unwind(|| panic!("elsewhere"));
    assert_eq!(caught.expect_err("it panics").downcast_ref::<&str>(), Some(&"elsewhere"));
}

// What a sum says, which no table closes.
table!(Told, u32 => u64);
impl Derived for Told {
    fn compute(scope: &Emitter<'_>, key: &u32) -> Option<u64> {
        let allowed = scope.group::<ByParity>(key).iter().filter(|(of, _)| scope.get::<Allowed>(of).is_some()).count();
        Some(allowed as u64)
    }
}

#[test]
fn who_is_to_blame_for_poison_that_nothing_ends_is_among_what_the_row_has_read() {
    let mut engine = Engine::builder()
        .input::<Number>()
        .lookup::<Great>()
        .derived_for_each::<Allowed, Number>(|key| Some(*key))
        .group::<ByParity>()
        .derived::<Sum>()
        .derived::<Told>()
        .build();
    for (key, number) in [(0, 1), (2, 1), (4, 1), (1, 1)] {
        engine.set::<Number>(key, Some(number));
    }
    engine.demand::<Told>(0);
    engine.settle();
    assert_eq!(engine.unended(), []);

    engine.set::<Number>(2, Some(-1));
    engine.settle();
    let unended = engine.unended();
    let [("Allowed", fault)] = &unended[..] else { panic!("{unended:?}") };
    assert_eq!(fault.row(), "Great(2)");
    assert_eq!(engine.among::<Number>(&engine.origins(fault)), [2], "what it read itself");

    // One that reads what the others emitted has read what these have read.
    engine.set::<Number>(2, Some(1));
    engine.fail_at("Told", "0");
    engine.settle();
    let unended = engine.unended();
    let [("Told", fault)] = &unended[..] else { panic!("{unended:?}") };
    assert_eq!(engine.among::<Number>(&engine.origins(fault)), [0, 2, 4]);
    engine.fail_no_more("Told", "0");
    engine.settle();
    assert_eq!((engine.unended(), engine.among::<Number>(&engine.origins(&fault.clone()))), (vec![], vec![]));
}

#[test]
fn an_engine_in_the_place_of_another_tells_what_differs_from_what_that_one_told() {
    let mut before = with(&[(0, 1), (2, 1), (4, 1)]);
    assert_eq!(before.take_changes::<Guarded>(), [0, 2, 4]);
    // Not told any more.
    before.set::<Number>(4, None);
    before.set::<Number>(6, Some(1));
    before.settle();
    let mut engine = with(&[(0, 1), (2, 20), (8, 1)]);
    engine.resume::<Guarded>(&before);
    assert_eq!(engine.take_changes::<Guarded>(), [2, 4, 8]);
    assert_eq!(engine.take_changes::<Guarded>(), Vec::<u32>::new());
}
