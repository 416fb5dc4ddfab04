use std::time::Duration;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn open(max: usize, min: usize) -> WorkQueue<&'static str> {
    let mut queue = WorkQueue::new(Concurrency { max, min });
    queue.reset(true);
    queue
}

/// All keys that are given now.
fn given(queue: &mut WorkQueue<&'static str>, now: Instant) -> Vec<&'static str> {
    std::iter::from_fn(|| queue.get(now).ok()).collect()
}

#[test]
fn keys_are_given_once_in_the_order_in_which_they_are_due() {
    let now = Instant::now();
    let mut queue = open(9, 1);
    for (key, after) in [("a", 2), ("b", 0), ("c", 1), ("b", 3), ("a", 1), ("c", 1)] {
        queue.add(&key, now + after * SECOND);
    }
    assert_eq!(queue.len(), 3);
    assert_eq!(given(&mut queue, now), ["b"]);
    assert_eq!(queue.get(now), Err(Some(now + SECOND)));
    assert_eq!(
        given(&mut queue, now + SECOND),
        ["c", "a"],
        "the earlier of two times counts, and a key keeps its place"
    );
    assert_eq!((queue.len(), queue.processing()), (3, 3));
    assert_eq!(queue.get(now + 9 * SECOND), Err(None));
}

#[test]
fn a_key_that_is_added_while_it_is_processed_is_not_given_before_it_is_done() {
    let now = Instant::now();
    let mut queue = open(9, 1);
    queue.add(&"a", now);
    assert_eq!(given(&mut queue, now), ["a"]);
    queue.add(&"a", now);
    assert_eq!(queue.get(now), Err(None));
    assert!(queue.done(&"a"), "it was added meanwhile");
    queue.add(&"a", now);
    assert_eq!(given(&mut queue, now), ["a"]);
    assert!(!queue.done(&"a") && !queue.done(&"a"));
    assert_eq!((queue.len(), queue.turns.len()), (0, 0), "nothing is kept of it");
}

#[test]
fn no_more_keys_are_processed_at_once_than_may_be() {
    let now = Instant::now();
    let mut queue = open(2, 1);
    for key in ["a", "b", "c"] {
        queue.add(&key, now);
    }
    assert_eq!(given(&mut queue, now), ["a", "b"]);
    assert_eq!(queue.get(now), Err(None));
    queue.done(&"a");
    assert_eq!(given(&mut queue, now), ["c"]);
}

#[test]
fn failures_of_a_key_are_counted_until_they_are_forgotten() {
    let now = Instant::now();
    let mut queue = open(9, 1);
    assert_eq!([queue.failed(&"a"), queue.failed(&"a"), queue.failed(&"b")], [1, 2, 1]);
    queue.add(&"a", now);
    queue.forget(&"a");
    assert_eq!((queue.failed(&"a"), queue.len()), (1, 1), "it is scheduled still");
    queue.remove(&"a");
    assert_eq!((queue.failed(&"a"), queue.get(now)), (1, Err(None)));
}

#[test]
fn a_key_is_idle_unless_it_is_scheduled_or_processed() {
    let now = Instant::now();
    let mut queue = open(9, 1);
    let state = |queue: &WorkQueue<_>| (queue.is_idle(&"a"), queue.is_processing(&"a"));
    assert_eq!(state(&queue), (true, false));
    queue.add(&"a", now);
    assert_eq!(state(&queue), (false, false));
    assert_eq!(queue.get(now), Ok("a"));
    queue.remove(&"a");
    assert_eq!(state(&queue), (false, true), "what is processed stays so");
    queue.failed(&"a");
    queue.done(&"a");
    assert_eq!(state(&queue), (true, false));
}

#[test]
fn a_closed_queue_gives_nothing_and_one_that_is_opened_again_begins_anew() {
    let now = Instant::now();
    let mut queue = WorkQueue::new(Concurrency { max: 9, min: 1 });
    queue.add(&"a", now);
    assert_eq!((queue.get(now), queue.is_open()), (Err(None), false));
    queue.reset(true);
    queue.add(&"a", now);
    assert_eq!(given(&mut queue, now), ["a"]);
    queue.add(&"a", now);
    queue.add(&"b", now);
    queue.failed(&"a");
    queue.throttle.unavailable(SECOND, now);
    queue.reset(false);
    assert_eq!((queue.len(), queue.processing()), (1, 1), "a is processed");
    queue.failed(&"b");
    queue.reset(true);
    assert!(!queue.done(&"a"), "that it was added is forgotten");
    assert_eq!((queue.failed(&"a"), queue.failed(&"b"), queue.throttle.paused(now)), (1, 1, None));
}

#[test]
fn an_api_server_that_is_away_is_left_alone_and_then_asked_by_the_fewest() {
    for (min, expected) in [(1, 1), (2, 2)] {
        let mut now = Instant::now();
        let mut queue = open(2, min);
        for key in ["a", "b", "c", "d", "e", "f"] {
            queue.add(&key, now);
        }
        assert_eq!(given(&mut queue, now), ["a", "b"]);
        queue.done(&"a");
        queue.done(&"b");
        assert!(queue.throttle.unavailable(2 * SECOND, now));
        assert!(!queue.throttle.unavailable(Duration::ZERO, now), "both were in flight together");
        assert_eq!(queue.get(now), Err(Some(now + 2 * SECOND)), "the longest pause counts");
        now += 2 * SECOND;
        assert_eq!(given(&mut queue, now).len(), expected);
        queue.done(&"c");
        queue.done(&"d");
        assert!(!queue.throttle.unavailable(Duration::ZERO, now));
        let pause = UNAVAILABLE.delay(2);
        assert_eq!(queue.get(now), Err(Some(now + pause)), "the second failure of all");
        queue.throttle.available();
        assert_eq!(queue.throttle.paused(now), None);
        assert!(queue.throttle.unavailable(Duration::ZERO, now), "the first since it answered");
    }
}

#[test]
fn an_api_server_that_was_overloaded_is_asked_by_fewer_and_then_by_more_again() {
    let mut now = Instant::now();
    let keys: Vec<_> = (0..200).collect();
    let mut queue = WorkQueue::new(Concurrency { max: 4, min: 1 });
    queue.reset(true);
    for key in &keys {
        queue.add(key, now);
    }
    let at_once = |queue: &mut WorkQueue<usize>, now| {
        let given = std::iter::from_fn(|| queue.get(now).ok());
        let given: Vec<_> = given.collect();
        for key in &given {
            queue.done(key);
        }
        given.len()
    };
    assert_eq!(at_once(&mut queue, now), 4);
    for _ in 0..4 {
        queue.throttle.unavailable(SECOND, now);
    }
    now += SECOND;
    let mut numbers = Vec::new();
    for _ in 0..30 {
        let number = at_once(&mut queue, now);
        (0..number).for_each(|_| queue.throttle.available());
        numbers.push(number);
    }
    assert!(numbers.starts_with(&[1, 2]) && numbers.is_sorted() && numbers.ends_with(&[4]), "{numbers:?}");
}
