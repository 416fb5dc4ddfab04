//! A tree whose nodes name their parents: who hangs where is found by tables that refer to each other, by depth.

use super::*;

/// How deep the tree may be.
const DEPTH: u32 = 5;

// Child to parent.
table!(Links, u32 => u32);
impl Input for Links {}

/// The path of a node that hangs in the tree, by the depth at which its children are, and its name.
struct Offers;
impl Group for Offers {
    const NAME: &'static str = "Offers";
    type Key = (u32, u32);
    type Sort = ();
    type Entry = String;
    type Summary = ();
    fn depth((depth, _): &(u32, u32)) -> u32 {
        *depth
    }
}

// By depth and name: looks for its parent one level up, and hangs itself there.
table!(Seek, (u32, u32) => ());
impl Derived for Seek {
    fn compute(scope: &Emitter<'_>, (depth, name): &(u32, u32)) -> Option<()> {
        let parent = scope.get::<Links>(name)?;
        if !scope.group::<Offers>(&(*depth, *parent)).is_empty() {
            scope.demand::<Node>((*depth, *name));
        }
        if *depth < DEPTH {
            scope.demand::<Seek>((depth + 1, *name));
        }
        Some(())
    }
    fn depth((depth, _): &(u32, u32)) -> u32 {
        *depth
    }
}

// By depth and name: the path from the root.
table!(Node, (u32, u32) => String);
impl Derived for Node {
    fn compute(scope: &Emitter<'_>, (depth, name): &(u32, u32)) -> Option<String> {
        let above = match scope.get::<Links>(name) {
            Some(parent) => scope.group::<Offers>(&(*depth, *parent)).get(&())?.clone(),
            None => String::new(),
        };
        let path = format!("{above}/{name}");
        scope.emit::<Offers>((depth + 1, *name), (), path.clone());
        Some(path)
    }
    fn depth((depth, _): &(u32, u32)) -> u32 {
        *depth
    }
}

fn tree() -> Engine {
    let mut engine = Engine::builder()
        .input::<Links>()
        .layered(|tables| {
            let tables = tables.group::<Offers>();
            tables.derived_for_each::<Seek, Links>(|name| Some((1, *name))).derived::<Node>()
        })
        .track::<Node>()
        .build();
    engine.demand::<Node>((0, 0));
    engine
}

fn paths(engine: &Engine) -> Vec<String> {
    engine.rows::<Node>().into_iter().map(|(_, path)| path.to_string()).collect()
}

#[test]
fn a_tree_that_finds_itself_settles_in_one_batch() {
    let mut engine = tree();
    for (name, parent) in [(3, 2), (2, 1), (1, 0), (9, 8)] {
        engine.set::<Links>(name, Some(parent));
    }
    engine.settle();
    assert_eq!(paths(&engine), ["/0", "/0/1", "/0/1/2", "/0/1/2/3"]);
    assert!(engine.stats().iter().all(|table| table.max_per_cell <= 1));
}

#[test]
fn what_moves_takes_its_branch_along_and_leaves_the_others_alone() {
    let mut engine = tree();
    for (name, parent) in [(1, 0), (2, 1), (3, 2), (4, 0), (5, 4)] {
        engine.set::<Links>(name, Some(parent));
    }
    engine.settle();
    engine.take_changes::<Node>();
    engine.set::<Links>(2, Some(4));
    engine.settle();
    assert_eq!(engine.take_changes::<Node>(), [(2, 2), (3, 3)]);
    assert_eq!(paths(&engine), ["/0", "/0/1", "/0/4", "/0/4/2", "/0/4/5", "/0/4/2/3"]);
    engine.set::<Links>(4, None);
    engine.settle();
    assert_eq!(paths(&engine), ["/0", "/0/1"]);
}

#[test]
fn a_circle_of_parents_hangs_nowhere() {
    let mut engine = tree();
    for (name, parent) in [(1, 2), (2, 1)] {
        engine.set::<Links>(name, Some(parent));
    }
    engine.settle();
    assert_eq!(paths(&engine), ["/0"]);
}

table!(Wrong, u32 => ());
impl Derived for Wrong {
    fn compute(scope: &Emitter<'_>, key: &u32) -> Option<()> {
        match key {
            0 => scope.demand::<Wrong>(0),
            1 => drop(scope.group::<Offers>(&(2, 0))),
            _ => scope.emit::<Offers>((0, 0), (), String::new()),
        }
        Some(())
    }
}

fn compute(key: u32) {
    let mut engine = Engine::builder().layered(|tables| tables.group::<Offers>().derived::<Wrong>()).build();
    engine.demand::<Wrong>(key);
    engine.settle();
    if let Some(fault) = engine.faults().first() {
        panic!("{fault}");
    }
}

#[test]
#[should_panic(
    expected = "Wrong(0) of depth 0 may not demand Wrong(0) of depth 0: it must have a strictly greater depth"
)]
fn a_row_of_the_same_depth_cannot_be_demanded() {
    compute(0);
}

#[test]
#[should_panic(expected = "Wrong(1) of depth 0 may not read Offers((2, 0)) of depth 2: it must have a strictly lower")]
fn a_deeper_group_of_the_layers_cannot_be_read() {
    compute(1);
}

#[test]
#[should_panic(expected = "Wrong(2) of depth 0 may not emit into Offers((0, 0)) of depth 0: it must have a strictly")]
fn a_group_that_stands_before_cannot_be_emitted_into() {
    compute(2);
}
