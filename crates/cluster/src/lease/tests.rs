#![allow(clippy::unwrap_used, reason = "a test that unwraps nothing fails there")]

use proptest::{collection::vec, prelude::*};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn settings(identity: &str) -> Settings {
    Settings::new("ns", "lease", identity)
}

type Served = Result<Option<Record>, Conflict>;

/// The API server has another version than the one that was to be written.
#[derive(Debug)]
struct Conflict;

/// What the API server has, and the time there is.
struct World {
    now: Instant,
    lease: Option<Record>,
    revision: u64,
}

impl World {
    fn new() -> Self {
        Self { now: Instant::now(), lease: None, revision: 0 }
    }

    fn elector(&self, identity: &str) -> Election {
        Election::new(&settings(identity), self.now)
    }

    fn held_by(&mut self, holder: &str) {
        self.write(Record { holder: Some(holder.into()), duration: Some(15 * SECOND), ..Record::default() });
    }

    fn write(&mut self, mut record: Record) -> Record {
        self.revision += 1;
        record.resource_version = self.revision.to_string();
        record.times[1] = Some(format!("whatever clock {}", self.revision));
        self.lease = Some(record.clone());
        record
    }

    /// What the API server does with a request.
    fn serve(&mut self, identity: &Arc<str>, step: &Step) -> Served {
        match step {
            Step::Wait(_) => panic!("no request"),
            Step::Read => Ok(self.lease.clone()),
            Step::Take(taking) => {
                let version = self.lease.as_ref().map(|lease| lease.resource_version.clone());
                if version != taking.resource_version {
                    return Err(Conflict);
                }
                let holder = Some(Arc::clone(identity));
                let transitions = taking.transitions;
                let duration = Some(15 * SECOND);
                Ok(Some(self.write(Record { holder, duration, transitions, ..Record::default() })))
            }
        }
    }

    /// Has a candidate do what it wants to do now, with answers at once.
    fn run(&mut self, identity: &str, elector: &mut Election) -> Instant {
        let identity: Arc<str> = identity.into();
        loop {
            let step = elector.step(self.now);
            if let Step::Wait(until) = step {
                return until;
            }
            match (self.serve(&identity, &step), step) {
                (Err(Conflict), _) => elector.conflict(self.now),
                (Ok(record), Step::Read) => elector.read(record, self.now),
                (Ok(record), _) => elector.took(record.unwrap(), self.now, self.now),
            }
        }
    }
}

#[test]
fn a_lease_that_is_not_there_is_made_and_renewed() {
    let mut world = World::new();
    let mut a = world.elector("a");
    assert_eq!(world.run("a", &mut a), world.now + 5 * SECOND);
    assert_eq!(a.leadership(world.now), Leadership { holder: Some("a".into()), until: Some(world.now + 10 * SECOND) });
    world.now += 5 * SECOND;
    world.run("a", &mut a);
    assert_eq!(a.leadership(world.now).until, Some(world.now + 10 * SECOND));
    assert_eq!(world.lease.unwrap().transitions, 0);
}

#[test]
fn a_lease_is_taken_once_it_did_not_change_for_its_duration() {
    let mut world = World::new();
    world.held_by("b");
    let mut a = world.elector("a");
    let start = world.now;
    while !a.leadership(world.now).leads() {
        world.now = world.run("a", &mut a);
    }
    assert_eq!(world.now - start, 15 * SECOND + 5 * SECOND, "15 until it is taken, and 5 until the next renewal");
    assert_eq!(world.lease.as_ref().unwrap().transitions, 1);
}

#[test]
fn a_lease_that_says_it_lasts_for_years_is_taken_once_it_did_not_change_for_four_durations() {
    let mut world = World::new();
    let forever = Duration::from_secs(u64::from(i32::MAX.unsigned_abs()));
    world.write(Record { holder: Some("thief".into()), duration: Some(forever), ..Record::default() });
    let mut a = world.elector("a");
    let start = world.now;
    while !a.leadership(world.now).leads() {
        world.now = world.run("a", &mut a);
        assert!(world.now - start <= 65 * SECOND, "it waits for ever");
    }
    assert_eq!(world.now - start, 4 * 15 * SECOND + 5 * SECOND, "and 5 until the next renewal");
}

#[test]
fn a_lease_that_changes_is_never_taken_whatever_its_times_say() {
    let mut world = World::new();
    world.held_by("b");
    let mut a = world.elector("a");
    for _ in 0..20 {
        world.run("a", &mut a);
        world.now += 14 * SECOND;
        world.held_by("b");
        world.run("a", &mut a);
        assert!(!a.leadership(world.now).leads());
    }
}

#[test]
fn a_label_does_not_keep_a_dead_holder_in_office() {
    let mut world = World::new();
    world.held_by("b");
    let mut a = world.elector("a");
    for _ in 0..4 {
        world.run("a", &mut a);
        world.now += 4 * SECOND;
        world.revision += 1;
        world.lease.as_mut().unwrap().resource_version = world.revision.to_string();
    }
    world.run("a", &mut a);
    assert!(a.leadership(world.now).leads());
}

#[test]
fn a_lease_that_was_given_back_is_taken_at_once() {
    let mut world = World::new();
    world.held_by("b");
    let mut a = world.elector("a");
    let next = world.run("a", &mut a);
    world.write(Record { transitions: 3, ..Record::default() });
    world.now = next;
    world.run("a", &mut a);
    assert!(a.leadership(world.now).leads());
    assert_eq!(world.now, next);
    assert_eq!(world.lease.unwrap().transitions, 4);
}

#[test]
fn our_own_lease_from_before_a_restart_is_taken_at_once() {
    let mut world = World::new();
    world.held_by("a");
    let mut a = world.elector("a");
    world.run("a", &mut a);
    assert!(a.leadership(world.now).leads());
    assert_eq!(world.lease.unwrap().transitions, 0);
}

#[test]
fn a_leader_that_cannot_renew_stops_before_anybody_else_begins() {
    let mut world = World::new();
    let mut a = world.elector("a");
    let renewed = world.now;
    world.run("a", &mut a);
    let mut b = world.elector("b");
    world.run("b", &mut b);
    let mut stopped = None;
    while !b.leadership(world.now).leads() {
        if !matches!(a.step(world.now), Step::Wait(_)) {
            a.failed(world.now);
        }
        if !a.leadership(world.now).leads() {
            stopped.get_or_insert(world.now);
        }
        world.now += SECOND / 10;
        world.run("b", &mut b);
    }
    assert_eq!(stopped.unwrap() - renewed, 10 * SECOND);
    assert!(world.now - renewed >= 15 * SECOND);
}

#[test]
fn a_claim_counts_from_when_the_renewal_was_sent() {
    let mut world = World::new();
    let mut a = world.elector("a");
    world.run("a", &mut a);
    world.now += 5 * SECOND;
    let step = a.step(world.now);
    let sent = world.now;
    let record = world.serve(&"a".into(), &step).unwrap().unwrap();
    world.now += 4 * SECOND;
    a.took(record, sent, world.now);
    assert_eq!(a.leadership(world.now).until, Some(sent + 10 * SECOND));
    world.now = sent + 10 * SECOND;
    assert!(!a.leadership(world.now).leads());
}

#[test]
fn a_leader_whose_lease_another_took_stops_at_once() {
    let mut world = World::new();
    let mut a = world.elector("a");
    world.run("a", &mut a);
    world.held_by("b");
    world.now += 5 * SECOND;
    world.now = world.run("a", &mut a);
    world.run("a", &mut a);
    assert_eq!(a.leadership(world.now), Leadership { holder: Some("b".into()), until: None });
}

#[test]
fn a_lease_that_somebody_deletes_changes_no_leader() {
    let mut world = World::new();
    let (mut a, mut b) = (world.elector("a"), world.elector("b"));
    world.run("a", &mut a);
    world.run("b", &mut b);
    world.lease = None;
    world.now += 2 * SECOND;
    world.run("b", &mut b);
    assert!(!b.leadership(world.now).leads(), "a leads for 8 more seconds");
    world.now += 3 * SECOND;
    world.now = world.run("a", &mut a);
    world.run("a", &mut a);
    assert!(a.leadership(world.now).leads());
    assert_eq!(world.lease.unwrap().holder.as_deref(), Some("a"));
}

proptest! {
    /// Requests that take their time, answers that are lost, in any order.
    #[test]
    fn there_are_never_two_leaders(events in vec((0..3_usize, 0..8_u8, 0..4000_u64), 1..300)) {
        let mut world = World::new();
        let names: [Arc<str>; 3] = ["a".into(), "b".into(), "c".into()];
        let mut candidates = names.clone().map(|name| world.elector(&name));
        // What the API server did with a request, and when it was sent.
        let mut under_way: [Option<(Instant, Step, Served)>; 3] = [None, None, None];
        for (who, what, millis) in events {
            let elector = &mut candidates[who];
            match (what, under_way[who].take()) {
                (0..=2, None) => {
                    let step = elector.step(world.now);
                    if !matches!(step, Step::Wait(_)) {
                        let sent = world.now;
                        // It reaches the API server later than it was sent.
                        world.now += Duration::from_millis(millis / 8);
                        let answer = world.serve(&names[who], &step);
                        under_way[who] = Some((sent, step, answer));
                    }
                }
                (0..=4, Some((sent, step, answer))) => match (answer, step) {
                    (Err(Conflict), _) => elector.conflict(world.now),
                    (Ok(record), Step::Read) => elector.read(record, world.now),
                    (Ok(record), _) => elector.took(record.unwrap(), sent, world.now),
                },
                (5, Some(_)) => elector.failed(world.now),
                (6, under) => {
                    under_way[who] = under;
                    world.revision += 1;
                    if let Some(lease) = &mut world.lease {
                        lease.resource_version = world.revision.to_string();
                    }
                }
                (_, under) => {
                    under_way[who] = under;
                    world.now += Duration::from_millis(millis);
                }
            }
            let leaders = candidates.iter().filter(|elector| elector.leadership(world.now).leads()).count();
            prop_assert!(leaders <= 1);
        }
    }
}
