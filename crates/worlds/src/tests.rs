use proptest::{
    strategy::{Strategy as _, ValueTree as _},
    test_runner::TestRunner,
};

use super::world::{Place, world};

#[test]
fn most_objects_of_a_world_decode_and_the_worlds_differ() {
    let place = Place { ports: vec![80, 443], addresses: vec!["127.0.0.1"], edits: 4 };
    let strategy = world(&place);
    let mut runner = TestRunner::deterministic();
    let worlds: Vec<_> = (0..20).map(|_| strategy.new_tree(&mut runner).expect("a world").current()).collect();
    assert!(worlds.windows(2).all(|pair| pair[0] != pair[1]));
    let (mut decoded, mut all) = (0, 0);
    for object in worlds.into_iter().flatten() {
        all += 1;
        decoded += usize::from(api::decode(object).is_ok());
    }
    assert!(decoded * 10 > all * 8, "{decoded} of {all}");
}
