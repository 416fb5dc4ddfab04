use api::{Kind as ObjectKind, ObjectId};
use envoy::judged::Kind;

use super::*;

fn sent(namespace: &str, text: &str) -> Sent {
    Sent {
        fragment: Fragment::new(Kind::Row, text.as_bytes().to_vec()),
        object: ObjectId::new(ObjectKind::HttpRoute, namespace, "r"),
        field: String::new(),
        route: None,
        is_shared: false,
    }
}

fn texts(batch: Option<Batch>) -> Vec<String> {
    let fragments = batch.into_iter().flat_map(|batch| batch.fragments);
    fragments.map(|fragment| String::from_utf8_lossy(&fragment.bytes).into_owned()).collect()
}

/// Has these be wanted, and nothing else.
fn want(lanes: &mut Lanes, all: &[Sent]) {
    let asked = |sent: &Sent| (id(&sent.fragment), sent.object.namespace.clone());
    let now: Vec<_> = all.iter().map(asked).collect();
    let less: Vec<_> = lanes.wanted.keys().filter(|asked| !now.contains(asked)).cloned().collect();
    lanes.want(all.to_vec(), &less);
}

const NOBODY: fn(&Fragment) -> bool = |_| false;

#[test]
fn what_is_in_flight_known_or_not_wanted_any_more_is_in_no_batch() {
    let (mut lanes, now) = (Lanes::default(), Instant::now());
    want(&mut lanes, &[sent("a", "1"), sent("b", "2")]);
    let batch = lanes.next(Lane::Clean, now, |it| *it.bytes == *b"2").expect("one");
    assert_eq!(texts(Some(batch.clone())), ["1"]);
    assert_eq!(texts(lanes.next(Lane::Clean, now, NOBODY)), ["2"]);
    assert!(lanes.next(Lane::Clean, now, NOBODY).is_none());
    lanes.done(Lane::Clean, &batch, &[Became::Unknown], Duration::ZERO, now);
    assert_eq!(texts(lanes.next(Lane::Clean, now, NOBODY)), ["1"], "nobody knows, so it is asked again");
    want(&mut lanes, &[]);
    assert!(lanes.next(Lane::Clean, now, NOBODY).is_none());
}

#[test]
fn a_namespace_of_which_something_was_refused_is_judged_apart_for_ten_minutes() {
    let (mut lanes, now) = (Lanes::default(), Instant::now());
    want(&mut lanes, &[sent("good", "1"), sent("bad", "2")]);
    let batch = lanes.next(Lane::Clean, now, NOBODY).expect("both");
    lanes.done(Lane::Clean, &batch, &[Became::Refused, Became::Accepted], Duration::ZERO, now);
    let all = [sent("good", "3"), sent("bad", "4")];
    want(&mut lanes, &all);
    assert_eq!([&all[0], &all[1]].map(|it| lanes.state(it)), [State::Waiting, State::Suspect]);
    assert_eq!(texts(lanes.next(Lane::Clean, now, NOBODY)), ["3"]);
    assert_eq!(texts(lanes.next(Lane::Watched, now, NOBODY)), ["4"]);
    let later = now + MEMORY;
    want(&mut lanes, &[sent("bad", "5")]);
    assert_eq!(texts(lanes.next(Lane::Clean, later, NOBODY)), ["5"]);
}

#[test]
fn a_batch_that_ended_without_a_word_is_halved_until_one_namespace_is_to_blame() {
    let (mut lanes, now) = (Lanes::default(), Instant::now());
    let all: Vec<_> = (0..64).map(|number| sent(&format!("n{number:02}"), &number.to_string())).collect();
    want(&mut lanes, &all);
    let mut batches = 0;
    while let Some(batch) = lanes.next(Lane::Clean, now, NOBODY) {
        let ended = batch.fragments.iter().any(|it| *it.bytes == *b"37");
        let became = if ended { Became::Suspect } else { Became::Accepted };
        lanes.done(Lane::Clean, &batch, &vec![became; batch.fragments.len()], Duration::ZERO, now);
        let left: Vec<_> = all
            .iter()
            .filter(|it| ended || !batch.fragments.iter().any(|other| id(other) == id(&it.fragment)))
            .cloned()
            .collect();
        let left: Vec<_> = left.into_iter().filter(|it| lanes.state(it) != State::Waiting).collect();
        want(&mut lanes, &left);
        batches += 1;
    }
    assert!(batches <= 13, "{batches}");
    assert_eq!(lanes.state(&all[37]), State::Suspect);
    assert!(all.iter().filter(|it| *it.fragment.bytes != *b"37").all(|it| lanes.state(it) != State::Suspect));
    assert_eq!(texts(lanes.next(Lane::Watched, now, NOBODY)), ["37"]);
}

#[test]
fn who_was_not_to_blame_for_a_batch_without_a_word_is_apart_no_longer_than_until_all_of_it_is_accepted() {
    let now = Instant::now();
    let ended = |texts: &[&str]| {
        let mut lanes = Lanes::default();
        let all: Vec<_> = texts.iter().map(|text| sent("a", text)).collect();
        want(&mut lanes, &all);
        let batch = lanes.next(Lane::Clean, now, NOBODY).expect("his");
        lanes.done(Lane::Clean, &batch, &vec![Became::Suspect; all.len()], Duration::ZERO, now);
        assert!(all.iter().all(|it| lanes.state(it) == State::Suspect));
        (lanes, all)
    };
    let (mut lanes, all) = ended(&["1", "2"]);
    let batch = lanes.next(Lane::Watched, now, NOBODY).expect("his");
    lanes.done(Lane::Watched, &batch, &[Became::Accepted, Became::Unknown], Duration::ZERO, now);
    assert_eq!(lanes.state(&all[1]), State::Suspect, "one is left");
    let batch = lanes.next(Lane::Watched, now, |it| *it.bytes == *b"1").expect("his");
    lanes.done(Lane::Watched, &batch, &[Became::Accepted], Duration::ZERO, now);
    assert_eq!(lanes.state(&sent("a", "3")), State::Waiting);

    // Who is to blame stays there, and so does who takes it out.
    let (mut lanes, all) = ended(&["1", "2"]);
    let batch = lanes.next(Lane::Watched, now, NOBODY).expect("his");
    lanes.done(Lane::Watched, &batch, &[Became::Accepted, Became::Refused], Duration::ZERO, now);
    assert_eq!(lanes.state(&all[0]), State::Suspect);
    let (mut lanes, all) = ended(&["1", "2"]);
    want(&mut lanes, &all[..1]);
    let batch = lanes.next(Lane::Watched, now, NOBODY).expect("his");
    lanes.done(Lane::Watched, &batch, &[Became::Accepted], Duration::ZERO, now);
    assert_eq!(lanes.state(&all[0]), State::Suspect);
}

#[test]
fn who_fills_batches_leaves_the_next_ones_to_others() {
    let (mut lanes, now) = (Lanes::default(), Instant::now());
    let large = |number: usize| sent("aaa", &number.to_string().repeat(MAX_BYTES / 2 + 1));
    want(&mut lanes, &[large(0), large(1), sent("b", "b")]);
    assert_eq!(texts(lanes.next(Lane::Clean, now, NOBODY)).len(), 1);
    assert!(texts(lanes.next(Lane::Clean, now, NOBODY)).contains(&"b".to_owned()));
}

#[test]
fn who_has_used_up_his_time_waits_and_nobody_else_does() {
    let (mut lanes, now) = (Lanes::default(), Instant::now());
    let all = [sent("slow", "1"), sent("fast", "2")];
    for one in &all {
        want(&mut lanes, std::slice::from_ref(one));
        let batch = lanes.next(Lane::Clean, now, NOBODY).expect("it");
        lanes.done(Lane::Clean, &batch, &[Became::Refused], Duration::ZERO, now);
    }
    want(&mut lanes, &all);
    let batch = lanes.next(Lane::Watched, now, |it| *it.bytes == *b"2").expect("slow's");
    lanes.done(Lane::Watched, &batch, &[Became::Suspect], TIME, now);
    assert_eq!(texts(lanes.next(Lane::Watched, now, NOBODY)), ["2"]);
    assert!(lanes.next(Lane::Watched, now, NOBODY).is_none());
    assert_eq!(texts(lanes.next(Lane::Watched, now + WINDOW, NOBODY)), ["1"]);
}

#[test]
fn who_has_used_up_his_time_has_half_of_all_time_where_nobody_else_waits() {
    let (mut lanes, start) = (Lanes::default(), Instant::now());
    for one in [sent("slow", "1"), sent("fast", "2")] {
        want(&mut lanes, std::slice::from_ref(&one));
        let batch = lanes.next(Lane::Clean, start, NOBODY).expect("it");
        lanes.done(Lane::Clean, &batch, &[Became::Refused], Duration::ZERO, start);
    }
    want(&mut lanes, &[sent("slow", "1")]);
    let (mut now, mut judged) = (start, Duration::ZERO);
    while now < start + WINDOW {
        if let Some(batch) = lanes.next(Lane::Watched, now, NOBODY) {
            now += TIME;
            judged += TIME;
            lanes.done(Lane::Watched, &batch, &[Became::Unknown], TIME, now);
        } else {
            now += TIME / 4;
        }
    }
    assert!((WINDOW / 3..=WINDOW / 2 + TIME).contains(&judged), "{judged:?}");
    // Who comes does not wait for it.
    let later = now + WINDOW;
    let batch = lanes.next(Lane::Watched, later, NOBODY).expect("slow's");
    lanes.done(Lane::Watched, &batch, &[Became::Unknown], TIME, later);
    want(&mut lanes, &[sent("slow", "1"), sent("fast", "2")]);
    assert_eq!(texts(lanes.next(Lane::Watched, later + 2 * TIME, NOBODY)), ["2"]);
}

#[test]
fn a_batch_is_bounded_by_number_and_by_bytes() {
    let (mut lanes, now) = (Lanes::default(), Instant::now());
    let many: Vec<_> = (0..=MAX_FRAGMENTS).map(|number| sent("a", &number.to_string())).collect();
    want(&mut lanes, &many);
    assert_eq!(texts(lanes.next(Lane::Clean, now, NOBODY)).len(), MAX_FRAGMENTS);
    let large: Vec<_> = (0..3).map(|number| sent("a", &number.to_string().repeat(MAX_BYTES / 2 + 1))).collect();
    want(&mut lanes, &large);
    assert_eq!(texts(lanes.next(Lane::Clean, now, NOBODY)).len(), 1);
}

/// Has batches of clean namespaces judged until there is none; `is_odd` tells of which there is no word. How many it took.
fn judge_all(lanes: &mut Lanes, now: Instant, odd: Became, is_odd: impl Fn(&Fragment) -> bool) -> usize {
    let mut batches = 0;
    while let Some(batch) = lanes.next(Lane::Clean, now, NOBODY) {
        let became = if batch.fragments.iter().any(&is_odd) { odd } else { Became::Accepted };
        lanes.done(Lane::Clean, &batch, &vec![became; batch.fragments.len()], Duration::ZERO, now);
        if became == Became::Accepted {
            let known = batch.fragments.iter().zip(&batch.namespaces);
            let known: Vec<_> = known.map(|(fragment, namespace)| (id(fragment), namespace.clone())).collect();
            lanes.want(Vec::new(), &known);
        }
        batches += 1;
        assert!(batches < 99, "it never comes to an end");
    }
    batches
}

#[test]
fn who_rewrites_what_ends_a_batch_is_found_all_the_same_and_neighbours_have_their_word_before() {
    let (mut lanes, now) = (Lanes::default(), Instant::now());
    let neighbours: Vec<_> = (0..8).map(|number| sent(&format!("n{number}"), &number.to_string())).collect();
    let is_odd = |it: &Fragment| it.bytes.starts_with(b"evil");
    let mut all = neighbours.clone();
    all.push(sent("evil", "evil 0"));
    want(&mut lanes, &all);
    let mut batches = 0;
    // Before each batch has ended he has written something else.
    while let Some(batch) = lanes.next(Lane::Clean, now, NOBODY) {
        batches += 1;
        assert!(batches < 20, "nobody is found");
        *all.last_mut().expect("his") = sent("evil", &format!("evil {batches}"));
        want(&mut lanes, &all);
        let became = if batch.fragments.iter().any(is_odd) { Became::Suspect } else { Became::Accepted };
        lanes.done(Lane::Clean, &batch, &vec![became; batch.fragments.len()], Duration::ZERO, now);
        if became == Became::Accepted {
            all.retain(|it| !batch.fragments.iter().any(|known| id(known) == id(&it.fragment)));
            want(&mut lanes, &all);
        }
    }
    assert_eq!(all.len(), 1, "each neighbour has a word");
    assert_eq!(lanes.state(&all[0]), State::Suspect);
    assert!(neighbours.iter().all(|it| lanes.state(it) != State::Suspect));
}

#[test]
fn what_is_in_flight_in_another_name_while_a_half_is_judged_comes_again() {
    let (mut lanes, now) = (Lanes::default(), Instant::now());
    want(&mut lanes, &[sent("bad", "0")]);
    let batch = lanes.next(Lane::Clean, now, NOBODY).expect("his");
    lanes.done(Lane::Clean, &batch, &[Became::Refused], Duration::ZERO, now);
    want(&mut lanes, &[sent("a", "shared"), sent("b", "1")]);
    let batch = lanes.next(Lane::Clean, now, NOBODY).expect("both");
    lanes.done(Lane::Clean, &batch, &[Became::Suspect; 2], Duration::ZERO, now);
    // Its half comes while another one has the same text judged.
    want(&mut lanes, &[sent("a", "shared"), sent("b", "1"), sent("bad", "shared")]);
    let watched = lanes.next(Lane::Watched, now, NOBODY).expect("his");
    assert_eq!(texts(lanes.next(Lane::Clean, now, NOBODY)), ["1"]);
    lanes.done(Lane::Watched, &watched, &[Became::Unknown], Duration::ZERO, now);
    assert_eq!(texts(lanes.next(Lane::Clean, now, NOBODY)), ["shared"]);
}

#[test]
fn who_takes_the_judge_down_with_him_is_found_by_halves_and_judged_apart() {
    let (mut lanes, now) = (Lanes::default(), Instant::now());
    let all: Vec<_> = (0..16).map(|number| sent(&format!("n{number:02}"), &number.to_string())).collect();
    want(&mut lanes, &all);
    let batches = judge_all(&mut lanes, now, Became::Lost, |it| *it.bytes == *b"11");
    assert!(batches < 16, "{batches}");
    assert_eq!(lanes.state(&all[11]), State::Suspect);
    assert!(all.iter().filter(|it| *it.fragment.bytes != *b"11").all(|it| lanes.state(it) != State::Suspect));
    // And there he has one of them a minute.
    let batch = lanes.next(Lane::Watched, now, NOBODY).expect("his");
    lanes.done(Lane::Watched, &batch, &[Became::Lost], Duration::ZERO, now);
    assert!(lanes.next(Lane::Watched, now, NOBODY).is_none());
    assert!(lanes.next(Lane::Watched, now + WINDOW, NOBODY).is_some());
}

#[test]
fn nobody_is_to_blame_for_a_judge_that_goes_away_with_all_that_it_is_given_or_with_what_is_judged_beside() {
    let (mut lanes, now) = (Lanes::default(), Instant::now());
    let all: Vec<_> = (0..4).map(|number| sent(&format!("n{number}"), &number.to_string())).collect();
    want(&mut lanes, &all);
    for _ in 0..50 {
        let batch = lanes.next(Lane::Clean, now, NOBODY).expect("some");
        lanes.done(Lane::Clean, &batch, &vec![Became::Lost; batch.fragments.len()], Duration::ZERO, now);
    }
    assert!(all.iter().all(|it| lanes.state(it) != State::Suspect));
    // Once it is back all have their word.
    judge_all(&mut lanes, now, Became::Lost, |_| false);
    want(&mut lanes, &[sent("bad", "0")]);
    let batch = lanes.next(Lane::Clean, now, NOBODY).expect("his");
    lanes.done(Lane::Clean, &batch, &[Became::Refused], Duration::ZERO, now);
    let both = [sent("n0", "5"), sent("bad", "6")];
    want(&mut lanes, &both);
    for minute in 0..4 {
        let now = now + minute * WINDOW;
        let clean = lanes.next(Lane::Clean, now, NOBODY).expect("n0's");
        let watched = lanes.next(Lane::Watched, now, NOBODY).expect("his");
        lanes.done(Lane::Clean, &clean, &[Became::Lost], Duration::ZERO, now);
        lanes.done(Lane::Watched, &watched, &[Became::Lost], Duration::ZERO, now);
    }
    assert_ne!(lanes.state(&both[0]), State::Suspect);
}

#[test]
fn who_takes_the_judge_down_is_found_though_there_is_none_for_a_while_after_each_time() {
    let (mut lanes, now) = (Lanes::default(), Instant::now());
    let all: Vec<_> = (0..16).map(|number| sent(&format!("n{number:02}"), &number.to_string())).collect();
    want(&mut lanes, &all);
    let (mut is_there, mut batches) = (true, 0);
    while let Some(batch) = lanes.next(Lane::Clean, now, NOBODY) {
        let is_odd = batch.fragments.iter().any(|it| *it.bytes == *b"11");
        let became = match (is_there, is_odd) {
            (false, _) => Became::Unasked,
            (true, true) => Became::Lost,
            (true, false) => Became::Accepted,
        };
        is_there = became != Became::Lost;
        lanes.done(Lane::Clean, &batch, &vec![became; batch.fragments.len()], Duration::ZERO, now);
        if became == Became::Accepted {
            let known = batch.fragments.iter().zip(&batch.namespaces);
            let known: Vec<_> = known.map(|(fragment, namespace)| (id(fragment), namespace.clone())).collect();
            lanes.want(Vec::new(), &known);
        }
        batches += 1;
        assert!(batches < 32, "he is never found");
    }
    assert_eq!(lanes.state(&all[11]), State::Suspect);
    assert!(all.iter().filter(|it| *it.fragment.bytes != *b"11").all(|it| lanes.state(it) != State::Suspect));
}
