use super::*;
use crate::table::{Derived, Group, Input, Lookup, Table};
use crate::{Emitter, Scope};

/// Declares a table's marker.
macro_rules! table {
    ($name:ident, $key:ty => $value:ty) => {
        struct $name;
        impl Table for $name {
            const NAME: &'static str = stringify!($name);
            type Key = $key;
            type Value = $value;
        }
    };
}

mod batch;
mod faults;
mod layers;
mod misses;

table!(Number, u32 => i64);
impl Input for Number {}

table!(Half, u32 => i64);
impl Lookup for Half {
    fn compute(scope: &Scope<'_>, key: &u32) -> Option<i64> {
        Some(*scope.get::<Number>(key)? / 2)
    }
}

// A row for each number, which knows half of it and emits it by parity of its key.
table!(Shown, u32 => String);
impl Derived for Shown {
    fn compute(scope: &Emitter<'_>, key: &u32) -> Option<String> {
        let half = scope.get::<Half>(key)?;
        scope.emit::<ByParity>(key % 2, *key, *half);
        Some(half.to_string())
    }
}

struct ByParity;
impl Group for ByParity {
    const NAME: &'static str = "ByParity";
    type Key = u32;
    type Sort = u32;
    type Entry = i64;
    type Summary = u64;
    fn summary(_: &i64) -> u64 {
        1
    }
    const HASH: Option<fn(&i64) -> [u8; 16]> = Some(|entry| i128::from(*entry).to_le_bytes());
}

// The sum over a group.
table!(Sum, u32 => i64);
impl Derived for Sum {
    fn compute(scope: &Emitter<'_>, key: &u32) -> Option<i64> {
        let group = scope.group::<ByParity>(key);
        (!group.is_empty()).then(|| group.iter().map(|(_, n)| n).sum())
    }
}

table!(Bare, u32 => u32);
impl Derived for Bare {
    fn compute(_: &Emitter<'_>, key: &u32) -> Option<u32> {
        Some(*key)
    }
}

fn numbers() -> Engine {
    Engine::builder()
        .input::<Number>()
        .lookup::<Half>()
        .derived_for_each::<Shown, Number>(|key| Some(*key))
        .group::<ByParity>()
        .derived::<Sum>()
        .track::<Sum>()
        .track::<Shown>()
        .track::<Number>()
        .build()
}

fn stats(engine: &Engine, name: &str) -> TableStats {
    engine.stats().into_iter().find(|table| table.name == name).expect("a registered table")
}

fn held(engine: &Engine) -> Vec<usize> {
    engine.stats().iter().map(|table| table.rows).collect()
}

#[test]
fn an_engine_can_move_to_another_thread() {
    fn check<T: Send>() {}
    check::<Engine>();
}

#[test]
fn writing_an_equal_value_changes_nothing() {
    let mut engine = numbers();
    assert!(engine.set::<Number>(1, Some(10)));
    assert!(!engine.set::<Number>(1, Some(10)));
    assert!(!engine.set::<Number>(2, None));
    engine.settle();
    assert!(!engine.set::<Number>(1, Some(10)));
    assert_eq!(engine.settle(), Batch::default());
}

#[test]
fn a_change_travels_to_whoever_reads_it_and_no_further() {
    let mut engine = numbers();
    engine.demand::<Sum>(0);
    engine.demand::<Sum>(1);
    for key in 0..100 {
        engine.set::<Number>(key, Some(10));
    }
    engine.settle();
    assert_eq!(engine.get::<Sum>(&0).as_deref(), Some(&250));

    engine.set::<Number>(4, Some(20));
    let batch = engine.settle();
    assert_eq!(batch.computed, 3, "half, shown, sum");
    assert_eq!(batch.changed, 5, "number, half, shown, group, sum");
    assert_eq!(engine.get::<Sum>(&0).as_deref(), Some(&255));
}

#[test]
fn a_read_is_noted_whatever_was_touched_before_stamps_began_again() {
    let mut engine = numbers();
    engine.demand::<Sum>(0);
    engine.demand::<Sum>(1);
    for turn in 1..10 {
        // What is computed now is given the stamps that it was given in the turn before.
        engine.core.graph.borrow_mut().use_up_stamps();
        for key in 0..20 {
            engine.set::<Number>(key, Some(turn * 2));
        }
        engine.settle();
        assert!([0, 1].iter().all(|parity| engine.get::<Sum>(parity).as_deref() == Some(&(10 * turn))), "turn {turn}");
        assert!((0..20).all(|key| *engine.get::<Shown>(&key).expect("a row") == turn.to_string()), "turn {turn}");
    }
}

#[test]
fn an_equal_result_wakes_nobody() {
    let mut engine = numbers();
    engine.set::<Number>(1, Some(10));
    engine.settle();
    engine.set::<Number>(1, Some(11));
    assert_eq!(engine.settle().computed, 1, "half of 11 is half of 10");
}

#[test]
fn an_input_that_is_written_back_wakes_nobody() {
    let mut engine = numbers();
    engine.set::<Number>(1, Some(10));
    engine.settle();
    engine.set::<Number>(1, Some(20));
    engine.set::<Number>(2, Some(1));
    engine.set::<Number>(1, Some(10));
    engine.set::<Number>(2, None);
    assert_eq!(engine.settle().computed, 0);
    assert_eq!(held(&engine), [1, 1, 1, 1, 0]);
}

#[test]
fn changes_are_what_differs_since_they_were_last_taken() {
    let mut engine = numbers();
    engine.demand::<Sum>(1);
    for key in [3, 1, 5] {
        engine.set::<Number>(key, Some(10));
    }
    assert_eq!(engine.take_changes::<Number>(), [1, 3, 5], "in order, at once for inputs");
    assert!(engine.take_changes::<Shown>().is_empty(), "with the settling for others");
    engine.settle();
    assert_eq!(engine.take_changes::<Shown>(), [1, 3, 5]);
    assert_eq!(engine.take_changes::<Sum>(), [1]);
    assert!(engine.take_changes::<Sum>().is_empty());

    engine.set::<Number>(1, Some(20));
    engine.set::<Number>(3, None);
    engine.settle();
    engine.set::<Number>(1, Some(10));
    engine.settle();
    assert_eq!(engine.take_changes::<Shown>(), [3], "1 changed and changed back");
    assert_eq!(engine.take_changes::<Sum>(), [1]);
    engine.set::<Number>(3, Some(10));
    engine.settle();
    engine.set::<Number>(3, None);
    engine.settle();
    assert!(engine.take_changes::<Shown>().is_empty(), "3 appeared and vanished");

    // The place of one that goes is another one's.
    for (key, value) in [(1, None), (7, Some(10)), (1, Some(10)), (5, None), (9, Some(10))] {
        engine.set::<Number>(key, value);
        engine.settle();
    }
    assert_eq!(engine.take_changes::<Shown>(), [5, 7, 9], "1 went and came back");
    assert_eq!(engine.take_changes::<Number>(), [3, 5, 7, 9]);
}

#[test]
#[should_panic(expected = "the changes of table `Half` are not tracked")]
fn changes_of_a_table_that_is_not_tracked_cannot_be_taken() {
    numbers().take_changes::<Half>();
}

#[test]
fn what_a_row_no_longer_emits_is_withdrawn() {
    let mut engine = numbers();
    for key in [5, 1, 3] {
        engine.set::<Number>(key, Some(i64::from(key) * 2));
    }
    engine.settle();
    let keys = |engine: &Engine| engine.group::<ByParity>(&1).iter().map(|(sort, _)| *sort).collect::<Vec<_>>();
    assert_eq!(keys(&engine), [1, 3, 5]);
    engine.set::<Number>(3, None);
    engine.settle();
    assert_eq!(keys(&engine), [1, 5]);
    assert_eq!(engine.group::<ByParity>(&1).summary(), &2);
    assert!(engine.group::<ByParity>(&0).is_empty());
}

#[test]
fn a_group_whose_entries_stay_the_same_wakes_nobody() {
    table!(Place, &'static str => u32);
    impl Input for Place {}
    // Emits at the place, whoever stands there.
    table!(Stand, &'static str => ());
    impl Derived for Stand {
        fn compute(scope: &Emitter<'_>, key: &&'static str) -> Option<()> {
            let place = scope.get::<Place>(key)?;
            scope.emit::<ByParity>(0, *place, 7);
            Some(())
        }
    }
    let mut engine = Engine::builder()
        .input::<Place>()
        .derived_for_each::<Stand, Place>(|key| Some(*key))
        .group::<ByParity>()
        .derived::<Sum>()
        .build();
    engine.demand::<Sum>(0);
    engine.set::<Place>("a", Some(1));
    engine.set::<Place>("b", Some(2));
    engine.settle();
    let before = engine.group::<ByParity>(&0);

    engine.set::<Place>("a", Some(2));
    engine.set::<Place>("b", Some(1));
    engine.settle();
    assert_eq!(stats(&engine, "Stand").computed, 2);
    assert_eq!(stats(&engine, "Sum").computed, 0, "they changed places, and look the same");
    assert_eq!(engine.group::<ByParity>(&0), before);

    engine.set::<Place>("b", Some(2));
    engine.settle();
    assert_eq!(engine.get::<Sum>(&0).as_deref(), Some(&7), "two at one place: one is seen");
    assert_eq!(stats(&engine, "ByParity").contested, 1);
    engine.set::<Place>("a", None);
    engine.settle();
    assert_eq!(stats(&engine, "Sum").computed, 0, "the other one takes over");
    assert_eq!(stats(&engine, "ByParity").contested, 0);
    assert_eq!(engine.group::<ByParity>(&0).get(&2), Some(&7));
}

#[test]
fn a_row_that_is_read_before_it_exists_wakes_its_reader_when_it_appears() {
    table!(Asks, u32 => bool);
    impl Derived for Asks {
        fn compute(scope: &Emitter<'_>, key: &u32) -> Option<bool> {
            Some(scope.get::<Shown>(key).is_some() || scope.get::<Number>(&(key + 100)).is_some())
        }
    }
    let mut engine = Engine::builder()
        .input::<Number>()
        .lookup::<Half>()
        .derived::<Shown>()
        .group::<ByParity>()
        .derived::<Asks>()
        .build();
    engine.set::<Number>(1, Some(2));
    engine.demand::<Asks>(1);
    engine.settle();
    assert_eq!(engine.get::<Asks>(&1).as_deref(), Some(&false), "nobody demands the row: reading does not");

    engine.demand::<Shown>(1);
    engine.settle();
    assert_eq!(engine.get::<Asks>(&1).as_deref(), Some(&true));
    engine.release::<Shown>(&1);
    engine.settle();
    assert_eq!(engine.get::<Asks>(&1).as_deref(), Some(&false));
    assert!(engine.group::<ByParity>(&1).is_empty());

    engine.set::<Number>(101, Some(0));
    engine.settle();
    assert_eq!(engine.get::<Asks>(&1).as_deref(), Some(&true), "an input likewise");
}

// Chain of rows of one table: each is one more than the one below it.
table!(Chain, u32 => i64);
impl Lookup for Chain {
    fn compute(scope: &Scope<'_>, key: &u32) -> Option<i64> {
        let below = if *key == 0 { 0 } else { *scope.get::<Self>(&(key - 1))? };
        Some(below + *scope.get::<Number>(key).unwrap_or_default())
    }
    fn depth(key: &u32) -> u32 {
        *key
    }
}
table!(Tops, u32 => i64);
impl Derived for Tops {
    fn compute(scope: &Emitter<'_>, key: &u32) -> Option<i64> {
        scope.get::<Chain>(key).map(|value| *value)
    }
}

#[test]
fn rows_of_one_table_settle_by_depth() {
    let mut engine = Engine::builder().input::<Number>().lookup::<Chain>().derived::<Tops>().build();
    engine.demand::<Tops>(50);
    engine.settle();
    assert_eq!(stats(&engine, "Chain").computed, 51, "computed when read, down to the ground");
    // Woken in the wrong order, each is computed once all the same.
    for key in (0..51).rev() {
        engine.set::<Number>(key, Some(1));
    }
    engine.settle();
    assert_eq!(engine.get::<Tops>(&50).as_deref(), Some(&51));
    assert_eq!((stats(&engine, "Chain").computed, stats(&engine, "Chain").max_per_cell), (51, 1));
    engine.release::<Tops>(&50);
    engine.settle();
    assert_eq!(stats(&engine, "Chain").rows, 0, "nobody reads them any more");
}

#[test]
fn a_lookup_can_be_asked_from_outside_and_leaves_nothing() {
    let mut engine = numbers();
    engine.set::<Number>(1, Some(10));
    engine.settle();
    let before = held(&engine);
    assert_eq!(engine.lookup::<Half>(&1).as_deref(), Some(&5));
    assert_eq!(stats(&engine, "Half").computed_total, 1, "Shown(1) reads it anyway");
    assert_eq!(engine.lookup::<Half>(&2), None);
    assert_eq!(engine.lookup::<Half>(&1).as_deref(), Some(&5));
    engine.set::<Number>(2, Some(4));
    engine.settle();
    assert_eq!(engine.lookup::<Half>(&2).as_deref(), Some(&2));
    engine.set::<Number>(2, None);
    engine.settle();
    assert_eq!(held(&engine), before);
}

#[test]
fn a_demanded_row_goes_when_its_last_demand_goes() {
    table!(Wants, u32 => Vec<u32>);
    impl Input for Wants {}
    table!(Wanting, u32 => ());
    impl Derived for Wanting {
        fn compute(scope: &Emitter<'_>, key: &u32) -> Option<()> {
            for wanted in scope.get::<Wants>(key)?.iter() {
                scope.demand::<Wanted>(*wanted);
            }
            Some(())
        }
    }
    table!(Wanted, u32 => u32);
    impl Derived for Wanted {
        fn compute(_: &Emitter<'_>, key: &u32) -> Option<u32> {
            Some(*key)
        }
    }
    let mut engine = Engine::builder()
        .input::<Wants>()
        .derived_for_each::<Wanting, Wants>(|key| Some(*key))
        .derived::<Wanted>()
        .build();
    let wanted = |engine: &Engine| engine.rows::<Wanted>().into_iter().map(|(key, _)| key).collect::<Vec<_>>();
    engine.set::<Wants>(1, Some(vec![5, 7, 5]));
    engine.set::<Wants>(2, Some(vec![7, 6]));
    engine.settle();
    assert_eq!(wanted(&engine), [5, 6, 7]);
    engine.set::<Wants>(1, Some(vec![8]));
    engine.settle();
    assert_eq!(wanted(&engine), [6, 7, 8]);
    // One hands over to the other within a batch: the row stays, and is not computed again.
    engine.set::<Wants>(1, Some(vec![7]));
    engine.set::<Wants>(2, None);
    engine.settle();
    assert_eq!(wanted(&engine), [7]);
    assert_eq!(stats(&engine, "Wanted").computed, 0);
    // Demanded from outside twice is demanded once.
    engine.demand::<Wanted>(9);
    engine.demand::<Wanted>(9);
    engine.demand::<Wanted>(7);
    engine.set::<Wants>(1, None);
    engine.settle();
    assert_eq!(wanted(&engine), [7, 9]);
    engine.release::<Wanted>(&9);
    engine.release::<Wanted>(&7);
    engine.release::<Wanted>(&7);
    engine.settle();
    assert_eq!(held(&engine), [0, 0, 0]);
}

#[test]
fn rows_that_come_and_go_leave_nothing() {
    let mut engine = numbers();
    engine.demand::<Sum>(0);
    for round in 0..20 {
        for key in 0..1_000 {
            engine.set::<Number>(round * 1_000 + key, Some(1));
        }
        engine.settle();
        for key in 0..1_000 {
            engine.set::<Number>(round * 1_000 + key, None);
        }
        engine.settle();
        assert_eq!(held(&engine), [0, 0, 0, 1, 1], "the demanded sum and the group it reads");
    }
    let nodes = engine.core.graph.borrow().capacity();
    assert!(nodes <= 3_003, "{nodes} nodes for 1,000 numbers");
}

#[test]
fn a_million_rows_that_come_and_go_leave_nothing() {
    let mut engine = Engine::builder().input::<Number>().derived_for_each::<Bare, Number>(|key| Some(*key)).build();
    for round in 0..10_000 {
        for key in 0..100 {
            engine.set::<Number>(round * 100 + key, Some(1));
        }
        engine.settle();
        for key in 0..100 {
            engine.set::<Number>(round * 100 + key, None);
        }
        engine.settle();
    }
    assert_eq!(held(&engine), [0, 0]);
    assert_eq!(stats(&engine, "Bare").computed_total, 1_000_000);
    assert_eq!(engine.core.graph.borrow().capacity(), 200);
}

#[test]
fn an_input_with_many_readers_is_left_by_one_at_a_time() {
    table!(OnOff, u32 => bool);
    impl Input for OnOff {}
    table!(Follows, u32 => i64);
    impl Derived for Follows {
        fn compute(scope: &Emitter<'_>, key: &u32) -> Option<i64> {
            let on = scope.get::<OnOff>(key)?;
            on.then(|| scope.get::<Number>(&0).map_or(-1, |n| *n))
        }
    }
    let mut engine = Engine::builder()
        .input::<Number>()
        .input::<OnOff>()
        .derived_for_each::<Follows, OnOff>(|key| Some(*key))
        .build();
    for key in 0..100_000 {
        engine.set::<OnOff>(key, Some(true));
    }
    engine.settle();
    for key in (0..100_000).step_by(3) {
        engine.set::<OnOff>(key, Some(false));
        assert_eq!(engine.settle().computed, 1);
    }
    engine.set::<Number>(0, Some(5));
    assert_eq!(engine.settle().computed, 66_666);
    assert!(engine.rows::<Follows>().iter().all(|(key, value)| key % 3 != 0 && **value == 5));
}

#[test]
fn why_tells_what_a_row_hangs_on() {
    let mut engine = numbers();
    engine.set::<Number>(4, Some(10));
    engine.demand::<Sum>(0);
    engine.settle();
    let why = |why: Option<Why>| why.expect("a row").to_string();
    assert_eq!(
        why(engine.why::<Shown>(&4)),
        "Shown(4): derived present, depth 0\n  reads Half(4) (present)\n  demanded by 1 input row(s)\n  \
         emits into ByParity(0) at 4\n"
    );
    assert_eq!(
        why(engine.why::<Half>(&4)),
        "Half(4): lookup present, depth 0\n  reads Number(4) (present)\n  read by Shown(4)\n"
    );
    assert_eq!(
        why(engine.why_group::<ByParity>(&0)),
        "ByParity(0): group present, depth 0\n  read by Sum(0)\n  entry at 4 by Shown(4)\n"
    );
    assert_eq!(
        why(engine.why_named("Sum", "0")),
        "Sum(0): derived present, depth 0\n  reads ByParity(0) (present)\n  demanded from outside\n"
    );
    engine.set::<Number>(4, None);
    engine.settle();
    assert_eq!(
        why(engine.why::<Sum>(&0)),
        "Sum(0): derived missing, depth 0\n  reads ByParity(0) (missing)\n  demanded from outside\n"
    );
    assert!(engine.why::<Shown>(&4).is_none() && engine.why_named("Nothing", "0").is_none());
}

mod forbidden {
    //! Reads that go forward, demands and emissions that go back.

    use super::*;

    table!(ReadsAhead, u32 => ());
    impl Derived for ReadsAhead {
        fn compute(scope: &Emitter<'_>, key: &u32) -> Option<()> {
            match key {
                0 => drop(scope.get::<Chain>(&7)),
                1 => drop(scope.group::<ByParity>(&7)),
                2 => scope.demand::<Tops>(7),
                3 => scope.emit::<Earlier>(7, 0, 0),
                4 => drop(scope.get::<Self>(&1)),
                _ => drop(scope.get::<Half>(&7)),
            }
            None
        }
    }
    struct Earlier;
    impl Group for Earlier {
        const NAME: &'static str = "Earlier";
        type Key = u32;
        type Sort = u32;
        type Entry = u32;
        type Summary = ();
    }

    fn compute(key: u32) {
        let mut engine = Engine::builder()
            .derived::<Tops>()
            .group::<Earlier>()
            .derived::<ReadsAhead>()
            .lookup::<Chain>()
            .group::<ByParity>()
            .build();
        engine.demand::<ReadsAhead>(key);
        engine.settle();
        if let Some(fault) = engine.faults().first() {
            panic!("{fault}");
        }
    }

    #[test]
    #[should_panic(expected = "ReadsAhead(0) may not read Chain(7): `Chain` must be registered before `ReadsAhead`")]
    fn a_later_table_cannot_be_read() {
        compute(0);
    }

    #[test]
    #[should_panic(expected = "ReadsAhead(1) may not read ByParity(7): `ByParity` must be registered before")]
    fn a_later_group_cannot_be_read() {
        compute(1);
    }

    #[test]
    #[should_panic(expected = "ReadsAhead(2) may not demand Tops(7): `Tops` must be registered after `ReadsAhead`")]
    fn an_earlier_table_cannot_be_demanded() {
        compute(2);
    }

    #[test]
    #[should_panic(expected = "ReadsAhead(3) may not emit into Earlier(7): `Earlier` must be registered after")]
    fn an_earlier_group_cannot_be_emitted_into() {
        compute(3);
    }

    #[test]
    #[should_panic(expected = "ReadsAhead(4) of depth 0 may not read ReadsAhead(1) of depth 0")]
    fn a_row_of_the_same_depth_cannot_be_read() {
        compute(4);
    }

    #[test]
    #[should_panic(expected = "`Half` is not registered")]
    fn a_table_that_is_not_registered_cannot_be_read() {
        compute(5);
    }

    #[test]
    #[should_panic(expected = "`Tops` is registered twice")]
    fn a_table_cannot_be_registered_twice() {
        let _ = Engine::builder().derived::<Tops>().derived::<Tops>();
    }

    #[test]
    #[should_panic(expected = "rows of `Number` may not demand `Tops`: `Tops` must be registered after `Number`")]
    fn rows_cannot_be_demanded_by_a_later_input() {
        let _ = Engine::builder().derived::<Tops>().input::<Number>().for_each::<Tops, Number>(|key| Some(*key));
    }
}
