//! Reads of what is not there.

use super::*;

// What is told of a key, if anything.
table!(Told, u32 => u32);
impl Input for Told {}

// A row for each number, which reads what is told of the same key, and of all keys.
table!(Listens, u32 => (u32, u32));
impl Derived for Listens {
    fn compute(scope: &Emitter<'_>, key: &u32) -> Option<(u32, u32)> {
        let own = scope.get::<Told>(key).map_or(0, |told| *told);
        let all = scope.get::<Told>(&u32::MAX).map_or(0, |told| *told);
        Some((own, all))
    }
}

fn listening(count: u32) -> Engine {
    let mut engine = Engine::builder()
        .input::<Number>()
        .input::<Told>()
        .derived_for_each::<Listens, Number>(|key| Some(*key))
        .lookup::<Half>()
        .build();
    for key in 0..count {
        engine.set::<Number>(key, Some(0));
    }
    engine.settle();
    engine
}

fn heard(engine: &Engine, key: u32) -> (u32, u32) {
    *engine.get::<Listens>(&key).expect("a row for each number")
}

#[test]
fn what_one_row_or_two_miss_takes_no_row() {
    assert_eq!(stats(&listening(2), "Told").rows, 0);
    let mut engine = listening(1_000);
    // All but the first two miss what these do.
    assert_eq!(stats(&engine, "Told").rows, 1);
    assert_eq!(engine.core.graph.borrow().capacity(), 2_001);
    engine.set::<Told>(7, Some(1));
    assert_eq!(engine.settle().computed, 1);
    assert_eq!((heard(&engine, 7), heard(&engine, 8)), ((1, 0), (0, 0)));
    engine.set::<Told>(7, None);
    assert_eq!(engine.settle().computed, 1);
    engine.set::<Told>(7, Some(2));
    assert_eq!(engine.settle().computed, 1);
    assert_eq!(heard(&engine, 7), (2, 0));
}

#[test]
fn all_are_woken_that_miss_the_same() {
    let mut engine = listening(100);
    for told in [Some(1), None, Some(2)] {
        engine.set::<Told>(u32::MAX, told);
        assert_eq!(engine.settle().computed, 100);
        assert!((0..100).all(|key| heard(&engine, key) == (0, told.unwrap_or_default())));
    }
    for key in 0..100 {
        engine.set::<Number>(key, None);
    }
    engine.set::<Told>(u32::MAX, None);
    engine.settle();
    assert_eq!(engine.left_behind(), Vec::<String>::new());
    assert_eq!(held(&engine), [0, 0, 0, 0]);
    // Nobody is woken who is gone.
    engine.set::<Told>(7, Some(1));
    assert_eq!(engine.settle().computed, 0);
}

#[test]
fn of_two_that_miss_the_same_one_may_go() {
    let mut engine = listening(2);
    for (told, woken) in [(Some(1), 2), (None, 2)] {
        engine.set::<Told>(u32::MAX, told);
        assert_eq!(engine.settle().computed, woken);
    }
    engine.set::<Number>(0, None);
    engine.settle();
    engine.set::<Told>(u32::MAX, Some(3));
    assert_eq!(engine.settle().computed, 1);
    assert_eq!(heard(&engine, 1), (0, 3));
}

#[test]
fn what_was_missed_between_two_writings_is_not_missed_for_ever() {
    let mut engine = listening(1);
    let read = |engine: &mut Engine| engine.lookup::<Half>(&7).map(|half| *half);
    engine.set::<Number>(7, Some(10));
    engine.settle();
    engine.set::<Number>(7, None);
    assert_eq!(read(&mut engine), None);
    engine.set::<Number>(7, Some(10));
    engine.settle();
    assert_eq!(read(&mut engine), Some(5));
}

#[test]
fn why_names_what_is_missed() {
    let engine = listening(3);
    let why = |key| engine.why::<Listens>(&key).expect("a row").to_string();
    assert_eq!(
        why(0),
        "Listens(0): derived present, depth 0\n  reads Told(0) (missing)\n  reads Told(4294967295) (missing)\n  demanded by 1 \
         input row(s)\n"
    );
    assert_eq!(
        why(2),
        "Listens(2): derived present, depth 0\n  reads Told(4294967295) (missing)\n  reads Told(2) (missing)\n  demanded by 1 \
         input row(s)\n"
    );
    assert_eq!(stats(&engine, "Told").rows, 1, "to ask takes no row");
}
