//! What stays in force of an object that is set aside: never anything that is wider than what its owner had.

use super::*;

fn guard(replica: &Replica) -> Object {
    replica.guarded.object(&ObjectId::new(Kind::TrafficPolicy, "apps", "guard")).expect("a policy").object()
}

/// Whether what the policy targets is closed.
fn is_closed(replica: &Replica) -> bool {
    let mut problems = replica.guarded.problems().into_iter();
    !api::violations(&guard(replica)).is_empty()
        && problems.any(|(id, problem)| id.kind == Kind::HttpRoute && problem.severity == ir::Severity::Replaced)
}

fn bad(time: &str) -> Value {
    failing(policy(time), "settling")
}

/// As another release would have recorded it.
fn of_another_release(mut stored: Quarantine) -> Quarantine {
    stored.entries.iter_mut().for_each(|entry| entry.release = "0.0.0".to_owned());
    stored
}

/// Whatever waits has waited long enough.
fn after_the_wait(replica: &mut Replica) {
    let mut stored = replica.stored();
    stored.entries.iter_mut().for_each(|entry| entry.until = entry.until.map(|_| Timestamp::UNIX_EPOCH));
    replica.guarded.set_stored(&stored);
    replica.settle();
}

#[test]
fn a_policy_that_never_was_sound_is_closed_also_when_it_was_forgotten_and_the_process_is_another() {
    let mut replica = Replica::new(&Quarantine::default(), world());
    replica.put([bad("5s")]);
    let stored = replica.stored();
    replica.guarded.set_stored(&stored);
    replica.guarded.set_stored(&Quarantine::default());
    replica.settle();
    assert_eq!(replica.aside(), ["TrafficPolicy apps/guard"]);
    assert!(is_closed(&replica));
    assert!(replica.stored().entries.iter().all(|entry| entry.kept.is_none()), "{:?}", replica.stored());
    let restarted = Replica::new(&replica.stored(), world().into_iter().chain([bad("5s")]));
    assert!(is_closed(&restarted), "{:?}", guard(&restarted));
    assert_eq!(restarted.served, replica.served);
}

#[test]
fn a_version_that_comes_back_takes_no_newer_sound_version_out_of_force() {
    let mut replica = Replica::new(&Quarantine::default(), world());
    for version in [policy("5s"), bad("6s"), policy("7s"), bad("6s")] {
        replica.put([version]);
    }
    assert_eq!(replica.aside(), ["TrafficPolicy apps/guard"]);
    let expected = Replica::new(&Quarantine::default(), world().into_iter().chain([policy("7s")]));
    assert_eq!(replica.served, expected.served);
    let restarted = Replica::new(&replica.stored(), world().into_iter().chain([bad("6s")]));
    assert_eq!(restarted.served, expected.served);

    // Where nobody saw what was in force meanwhile, it is closed.
    let mut replica = Replica::new(&Quarantine::default(), world());
    for version in [policy("5s"), bad("6s"), policy("7s")] {
        replica.put([version]);
    }
    assert!(is_closed(&Replica::new(&replica.stored(), world().into_iter().chain([bad("6s")]))));
}

#[test]
fn a_release_that_fails_on_the_same_object_keeps_the_last_version_that_another_one_knew() {
    let mut replica = Replica::new(&Quarantine::default(), world());
    replica.put([policy("5s")]);
    replica.put([bad("6s"), wider()]);
    assert_eq!(replica.aside().len(), 2);
    let stored = of_another_release(replica.stored());
    let mut objects = world();
    objects[1] = wider();
    let upgraded = Replica::new(&stored, objects.clone().into_iter().chain([bad("6s")]));
    assert_eq!(upgraded.aside(), replica.aside());
    assert_eq!(upgraded.served, replica.served);
    // Of an object that says something else by now nobody knows whether a newer version was sound.
    let mut other = bad("8s");
    other["metadata"]["generation"] = json!(2);
    assert!(is_closed(&Replica::new(&stored, objects.into_iter().chain([other]))));
}

#[test]
fn more_objects_than_are_looked_for_at_once_are_set_aside_together_and_tried_again_later() {
    let mut replica = Replica::new(&Quarantine::default(), world());
    let all = |fails: bool| {
        (0..60).map(move |n| {
            let route = rules(&format!("r{n}"), &format!("/{n}"));
            if fails && n % 2 == 1 { failing(route, "settling") } else { route }
        })
    };
    replica.put(all(true));
    assert!(replica.aside().len() >= 30 && replica.guarded.is_waiting(), "{:?}", replica.aside());
    let sound = world().into_iter().chain(all(true).step_by(2));
    let sound = Replica::new(&Quarantine::default(), sound);
    for _ in 0..3 {
        after_the_wait(&mut replica);
    }
    assert_eq!(replica.aside().len(), 30);
    assert_eq!(replica.served, sound.served);
    // What is mended is served.
    replica.put([rules("r1", "/1")]);
    assert_eq!(replica.aside().len(), 29);
}

#[test]
fn a_class_of_which_no_version_can_stay_in_force_stays_as_it_is_written() {
    let entry = Entry::new(&object(class()), "Row at file".to_owned(), None, None, Timestamp::now());
    let replica = Replica::new(&Quarantine { entries: vec![entry] }, world());
    assert_eq!(replica.aside(), Vec::<String>::new());
    assert_eq!(replica.served, Replica::new(&Quarantine::default(), world()).served);

    // What panics with it is found, also where it is the youngest.
    let mut objects = world();
    objects.rotate_left(1);
    objects[0] = failing(objects[0].clone(), "settling");
    let replica = Replica::new(&Quarantine::default(), objects);
    assert_eq!(replica.aside(), ["Gateway infra/edge"]);
}
