//! What a batch looks at, and what is counted of it.

use super::*;
use crate::node::Place;

#[test]
fn what_a_batch_did_is_told_of_it_alone() {
    let mut engine = numbers();
    engine.set::<Number>(1, Some(10));
    engine.set::<Number>(3, Some(30));
    engine.settle();
    let told = |engine: &Engine| {
        ["Number", "Half", "Shown", "ByParity", "Sum"].map(|name| {
            let TableStats { computed, changed, max_per_cell, .. } = stats(engine, name);
            (computed, changed, max_per_cell)
        })
    };
    assert_eq!(told(&engine), [(0, 2, 0), (2, 2, 1), (2, 2, 1), (0, 1, 0), (0, 0, 0)]);
    // The same half, so that nothing that reads it changes.
    engine.set::<Number>(1, Some(11));
    engine.settle();
    assert_eq!(told(&engine), [(0, 1, 0), (1, 0, 1), (0, 0, 0), (0, 0, 0), (0, 0, 0)]);
    engine.settle();
    assert_eq!(told(&engine), [(0, 0, 0); 5]);
}

#[test]
fn a_batch_looks_at_no_place_that_nothing_has_reached() {
    let mut engine = numbers();
    let busy = |engine: &Engine| {
        let (places, graph) = (0..engine.core.stores.len(), engine.core.graph.borrow());
        let places = places.map(|place| Place::try_from(place).expect("few"));
        places.filter(|place| graph.next_busy(*place) == Some(*place)).collect::<Vec<_>>()
    };
    assert_eq!(busy(&engine), []);
    engine.set::<Number>(1, Some(10));
    assert_eq!(busy(&engine), [engine.core.table::<Number>().0]);
    engine.settle();
    assert_eq!(busy(&engine), []);
    engine.demand::<Sum>(1);
    assert_eq!(busy(&engine), [engine.core.table::<Sum>().0]);
    engine.settle();
    assert_eq!(busy(&engine), []);
}
