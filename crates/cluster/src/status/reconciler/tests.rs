#![allow(clippy::unwrap_used, reason = "a test that unwraps nothing fails there")]

use serde_json::{Value, json, value::RawValue};

use super::*;
use crate::status::merge::{Desired, merge};

const US: &str = "portcullis.dev/controller";

/// A state machine with a clock, and an API server that answers as the test says.
struct Fixture {
    reconciler: Reconciler,
    now: Instant,
}

impl Fixture {
    fn leading() -> Self {
        let mut fixture = Self { reconciler: Reconciler::new(US, 4), now: Instant::now() };
        fixture.reconciler.complete(fixture.now);
        fixture.reconciler.lead(true, fixture.now);
        fixture
    }

    /// The first write of an object is in flight.
    fn writing() -> (Self, Job) {
        let mut fixture = Self::leading();
        fixture.writes(&["a"]);
        let job = fixture.job();
        (fixture, job)
    }

    /// Objects that exist and have no status yet get one.
    fn writes(&mut self, names: &[&str]) {
        for name in names {
            self.desired(name, Some(&status("words")));
            self.stored(name, "1", None);
        }
    }

    fn desired(&mut self, name: &str, status: Option<&Value>) {
        self.reconciler.desired(&route(name), status.map(Value::to_string).as_deref(), self.now);
    }

    fn stored(&mut self, name: &str, version: &str, status: Option<&str>) {
        self.reconciler.stored(&route(name), Some(&stored("uid", version, status)), self.now);
    }

    fn step(&mut self) -> Next<Job> {
        loop {
            match self.reconciler.next(self.now, Timestamp::UNIX_EPOCH) {
                Next::Again => {}
                step => return step,
            }
        }
    }

    fn job(&mut self) -> Job {
        match self.step() {
            Next::Start(job) => job,
            step => panic!("{step:?}"),
        }
    }

    /// Waits for as long as the state machine wants.
    fn wait(&mut self) -> Duration {
        let Next::Wait(Some(until)) = self.step() else { panic!("it does not wait for a time") };
        let wait = until - self.now;
        self.now = until;
        wait
    }

    fn idle(&mut self) -> bool {
        self.step() == Next::Wait(None) && self.reconciler.pending() == 0
    }

    fn finish(&mut self, job: &Job, outcome: &Outcome) -> Report {
        self.reconciler.finished(&job.id, outcome, self.now)
    }

    /// The API server takes what is written. Gives its answer.
    fn written(&mut self, job: &Job, version: &str) -> String {
        let status = body(job)["status"].to_string();
        self.finish(job, &done(version, &status));
        status
    }
}

pub(super) fn stored(uid: &str, version: &str, status: Option<&str>) -> Stored {
    let status = status.map(|status| RawValue::from_string(status.to_owned()).unwrap());
    Stored { uid: uid.into(), resource_version: version.into(), status }
}

fn done(version: &str, status: &str) -> Outcome {
    Outcome::Done { stored: stored("uid", version, Some(status)), other_writer: None }
}

fn refused(code: u16, message: &str) -> Outcome {
    Outcome::Refused { code, message: message.to_owned() }
}

fn later(after: Option<u64>, everywhere: bool) -> Outcome {
    Outcome::Later { after: after.map(Duration::from_secs), everywhere, message: "later".to_owned() }
}

fn route(name: &str) -> ObjectId {
    ObjectId::new(Kind::HttpRoute, "ns", name)
}

fn status(message: &str) -> Value {
    let conditions = json!([{"type": "Accepted", "status": "True", "reason": "Accepted", "message": message}]);
    json!({"parents": [{"parentRef": {"name": "gateway"}, "controllerName": US, "conditions": conditions}]})
}

fn body(job: &Job) -> Value {
    match &job.request {
        Request::Write(body) => serde_json::from_str(body).unwrap(),
        Request::Read | Request::Who => panic!("{job:?} reads"),
    }
}

fn version(job: &Job) -> String {
    body(job)["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

fn message(job: &Job) -> String {
    body(job)["status"]["parents"][0]["conditions"][0]["message"].as_str().unwrap().to_owned()
}

#[test]
fn a_status_is_written_once_both_sides_are_known() {
    let mut fixture = Fixture::leading();
    fixture.desired("a", Some(&status("words")));
    assert!(fixture.idle(), "nobody knows the object yet");
    fixture.stored("a", "1", None);
    let job = fixture.job();
    assert_eq!((version(&job), message(&job)), ("1".into(), "words".into()));
    fixture.now += Duration::from_millis(7);
    let answer = body(&job)["status"].to_string();
    assert_eq!(fixture.finish(&job, &done("2", &answer)).took, Some(Duration::from_millis(7)));
    assert!(fixture.idle());
}

#[test]
fn what_comes_back_through_the_watch_causes_nothing() {
    let (mut fixture, job) = Fixture::writing();
    let answer = fixture.written(&job, "2");
    fixture.stored("a", "2", Some(&answer));
    assert!(fixture.reconciler.pending() == 0, "not even a comparison");
    fixture.desired("a", Some(&status("words")));
    assert!(fixture.reconciler.pending() == 0, "not even a comparison");
}

#[test]
fn the_newest_status_is_written_and_those_before_it_are_skipped() {
    let mut fixture = Fixture::leading();
    fixture.stored("a", "1", None);
    fixture.desired("a", Some(&status("first")));
    let job = fixture.job();
    fixture.desired("a", Some(&status("second")));
    fixture.desired("a", Some(&status("third")));
    assert_eq!(fixture.step(), Next::Wait(None), "one request of an object at once");
    fixture.written(&job, "2");
    assert_eq!(fixture.wait(), SPACING);
    let job = fixture.job();
    assert_eq!((version(&job), message(&job)), ("2".into(), "third".into()), "against what the answer said");
    fixture.written(&job, "3");
    assert!(fixture.idle());
}

#[test]
fn older_versions_from_the_watch_do_not_undo_what_the_answer_said() {
    let mut fixture = Fixture::leading();
    fixture.desired("a", Some(&status("words")));
    fixture.stored("a", "10", None);
    let job = fixture.job();
    let answer = fixture.written(&job, "12");
    fixture.stored("a", "9", None);
    assert!(fixture.idle(), "9 is from before 12");
    fixture.stored("a", "12", Some(&answer));
    fixture.stored("a", "9", None);
    fixture.wait();
    assert_eq!(version(&fixture.job()), "9", "once the watch has caught up, it is right: etcd may have been restored");
}

#[test]
fn news_that_came_before_the_answer_count() {
    let (mut fixture, job) = Fixture::writing();
    fixture.stored("a", "3", None);
    fixture.written(&job, "2");
    fixture.wait();
    assert_eq!(version(&fixture.job()), "3", "somebody has taken away in 3 what was written as 2");
}

#[test]
fn a_conflict_waits_for_the_watch() {
    let (mut fixture, job) = Fixture::writing();
    fixture.finish(&job, &Outcome::Conflict);
    fixture.desired("a", Some(&status("others")));
    assert!(matches!(fixture.step(), Next::Wait(Some(_))), "the version is known to be old");
    fixture.stored("a", "2", None);
    let job = fixture.job();
    assert_eq!((version(&job), message(&job)), ("2".into(), "others".into()));
}

#[test]
fn a_conflict_that_the_watch_has_explained_already_is_tried_at_once() {
    let (mut fixture, job) = Fixture::writing();
    fixture.stored("a", "2", None);
    fixture.finish(&job, &Outcome::Conflict);
    assert_eq!(version(&fixture.job()), "2");
}

#[test]
fn a_conflict_that_the_watch_does_not_explain_has_the_object_read() {
    let (mut fixture, job) = Fixture::writing();
    fixture.finish(&job, &Outcome::Conflict);
    assert_eq!(fixture.wait(), NEWS_BOUND);
    let job = fixture.job();
    assert_eq!(job.request, Request::Read);
    fixture.finish(&job, &done("5", "{}"));
    let job = fixture.job();
    assert_eq!(version(&job), "5");
    fixture.written(&job, "6");
    fixture.stored("a", "4", Some("{}"));
    assert!(fixture.idle());
}

#[test]
fn an_object_that_is_gone_and_made_again_gets_its_status_again() {
    let (mut fixture, job) = Fixture::writing();
    fixture.finish(&job, &Outcome::Gone);
    assert!(fixture.idle());
    fixture.reconciler.stored(&route("a"), None, fixture.now);
    assert!(fixture.idle());
    let again = stored("another", "7", None);
    fixture.reconciler.stored(&route("a"), Some(&again), fixture.now);
    assert_eq!(version(&fixture.job()), "7");
}

#[test]
fn an_answer_that_comes_after_the_object_went_is_forgotten() {
    let (mut fixture, job) = Fixture::writing();
    fixture.reconciler.stored(&route("a"), None, fixture.now);
    fixture.desired("a", None);
    fixture.written(&job, "2");
    assert!(fixture.idle());
    assert!(fixture.reconciler.entries.is_empty(), "nothing is kept of it");
}

#[test]
fn a_refusal_is_logged_once_and_tried_ever_more_rarely() {
    let mut fixture = Fixture::leading();
    fixture.desired("a", Some(&status("words")));
    fixture.stored("a", "1", None);
    let mut waits = Vec::new();
    for round in 0..11 {
        let job = fixture.job();
        assert_eq!(fixture.finish(&job, &refused(422, "no")).log, round == 0);
        waits.push(fixture.wait().as_secs());
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    let job = fixture.job();
    fixture.finish(&job, &refused(422, "no"));
    fixture.desired("a", Some(&status("others")));
    assert_eq!(fixture.wait(), REFUSED.base, "something turned");
    let job = fixture.job();
    assert_eq!(message(&job), "others");
    fixture.desired("a", Some(&status("more")));
    assert!(fixture.finish(&job, &refused(422, "still no")).log, "other words");
    assert_eq!(fixture.wait(), REFUSED.base, "something turned while it was in flight");
    let job = fixture.job();
    fixture.finish(&job, &refused(422, "no"));
    let anew = stored("another", "9", None);
    fixture.reconciler.stored(&route("a"), Some(&anew), fixture.now);
    let job = fixture.job();
    fixture.finish(&job, &refused(422, "no"));
    assert_eq!(fixture.wait(), REFUSED.base, "another object of its name was never refused");
}

#[test]
fn what_we_may_not_do_is_logged_once_for_a_kind() {
    let mut fixture = Fixture::leading();
    fixture.writes(&["a", "b"]);
    let (a, b) = (fixture.job(), fixture.job());
    assert!(fixture.finish(&a, &refused(403, "no")).log);
    assert!(!fixture.finish(&b, &refused(403, "no")).log);
    fixture.wait();
    let (a, b) = (fixture.job(), fixture.job());
    fixture.written(&a, "2");
    assert!(fixture.finish(&b, &refused(403, "no")).log, "it was allowed between");
}

#[test]
fn an_object_that_fails_holds_up_no_other() {
    let mut fixture = Fixture::leading();
    fixture.writes(&["a", "b", "c"]);
    let job = fixture.job();
    fixture.finish(&job, &later(Some(3), false));
    for _ in 0..2 {
        let job = fixture.job();
        assert_ne!(job.id, route("a"));
        fixture.written(&job, "2");
    }
    assert_eq!(fixture.wait(), Duration::from_secs(3));
    assert_eq!(fixture.job().id, route("a"));
}

#[test]
fn an_api_server_that_is_overloaded_is_left_alone_for_as_long_as_it_asks_but_not_for_ever() {
    for (asked, pause) in [(2, Duration::from_secs(2)), (u64::MAX, LONGEST_PAUSE)] {
        let (mut fixture, job) = Fixture::writing();
        fixture.writes(&["b"]);
        fixture.finish(&job, &later(Some(asked), true));
        assert_eq!(fixture.wait(), pause);
        assert_eq!(fixture.job().id, route("b"));
        assert_eq!(fixture.step(), Next::Wait(None), "one asks");
    }
}

#[test]
fn who_does_not_lead_writes_nothing_and_compares_everything_on_taking_over() {
    let mut fixture = Fixture { reconciler: Reconciler::new(US, 4), now: Instant::now() };
    for name in ["a", "b"] {
        fixture.desired(name, Some(&status("words")));
    }
    fixture.stored("a", "1", None);
    let merged = merge(Kind::HttpRoute, None, Desired::Is(&status("words")), US, Timestamp::UNIX_EPOCH).unwrap();
    fixture.stored("b", "1", Some(&merged));
    assert!(fixture.idle());
    fixture.reconciler.lead(true, fixture.now);
    let job = fixture.job();
    assert_eq!(job.id, route("a"));
    fixture.reconciler.lead(false, fixture.now);
    fixture.desired("a", Some(&status("others")));
    fixture.written(&job, "2");
    assert!(fixture.idle());
    fixture.reconciler.lead(true, fixture.now);
    assert_eq!(version(&fixture.job()), "2");
    assert_eq!(fixture.step(), Next::Wait(None), "b was right");
}

#[test]
fn what_agrees_is_told_from_what_does_not_whatever_the_times_are() {
    let mut fixture = Fixture { reconciler: Reconciler::new(US, 9), now: Instant::now() };
    let merged = |message: &str, time: i64| {
        let time = Timestamp::from_second(time).unwrap();
        merge(Kind::HttpRoute, None, Desired::Is(&status(message)), US, time).unwrap()
    };
    let stored = [
        ("a", merged("words", 0)),
        ("b", merged("words", 1_000_000)),
        ("c", merged("others", 0)),
        ("d", merged("words", 2_000_000).replace("True", "False")),
        ("e", merged("words", 0)),
    ];
    for (name, stored) in &stored {
        let words = if *name == "e" { "others" } else { "words" };
        fixture.desired(name, Some(&status(words)));
        fixture.stored(name, "1", Some(stored));
    }
    fixture.reconciler.lead(true, fixture.now);
    let mut written = [fixture.job(), fixture.job(), fixture.job()].map(|job| job.id.name.to_string());
    written.sort();
    assert_eq!(written, ["c", "d", "e"]);
    assert_eq!(fixture.step(), Next::Wait(None), "a and b are right");
}

#[test]
fn stale_entries_go_only_once_all_desired_statuses_are_known() {
    let mut fixture = Fixture { reconciler: Reconciler::new(US, 4), now: Instant::now() };
    let merged = merge(Kind::HttpRoute, None, Desired::Is(&status("stale")), US, Timestamp::UNIX_EPOCH).unwrap();
    fixture.stored("a", "1", Some(&merged));
    fixture.reconciler.lead(true, fixture.now);
    assert!(fixture.idle());
    fixture.reconciler.complete(fixture.now);
    let job = fixture.job();
    assert_eq!(body(&job)["status"], json!({"parents": []}));
}

#[test]
fn a_server_that_keeps_less_than_was_written_is_not_written_to_for_ever() {
    let (mut fixture, job) = Fixture::writing();
    let mut kept = body(&job)["status"].clone();
    kept["parents"][0]["conditions"][0]["message"] = "pruned".into();
    fixture.finish(&job, &done("2", &kept.to_string()));
    fixture.stored("a", "3", Some(&kept.to_string()));
    fixture.wait();
    assert!(fixture.idle(), "it says what it made of our words");
    fixture.stored("a", "4", Some("{}"));
    assert_eq!(version(&fixture.job()), "4", "somebody took it away");
}

#[test]
fn the_engine_is_not_kept_waiting_while_everything_is_compared() {
    let mut reconciler = Reconciler::new(US, 4);
    let now = Instant::now();
    for n in 0..100 {
        let id = route(&n.to_string());
        reconciler.stored(&id, Some(&stored("uid", "1", None)), now);
    }
    reconciler.complete(now);
    reconciler.lead(true, now);
    assert_eq!(reconciler.next(now, Timestamp::UNIX_EPOCH), Next::Again);
    assert_eq!(reconciler.pending(), 100 - COMPARED_AT_ONCE);
}

#[test]
fn objects_without_a_status_are_not_kept() {
    let mut fixture = Fixture::leading();
    let id = ObjectId::new(Kind::Secret, "ns", "a");
    fixture.reconciler.stored(&id, Some(&stored("uid", "1", None)), fixture.now);
    fixture.reconciler.desired(&id, Some("{}"), fixture.now);
    assert!(fixture.reconciler.entries.is_empty());
}

#[test]
fn a_status_that_somebody_overwrites_again_and_again_is_written_ever_more_rarely() {
    let mut fixture = Fixture::leading();
    fixture.desired("a", Some(&status("ours")));
    let (theirs, began) = (status("theirs").to_string(), fixture.now);
    let (mut version, mut writes, mut asked, mut found) = (0, 0, 0, 0);
    let overwrite = |fixture: &mut Fixture, version: &mut u32| {
        *version += 1;
        fixture.stored("a", &version.to_string(), Some(&theirs));
    };
    overwrite(&mut fixture, &mut version);
    while fixture.now < began + Duration::from_hours(1) {
        match fixture.step() {
            Next::Start(job) if job.request == Request::Who => {
                asked += 1;
                fixture.finish(&job, &done(&version.to_string(), &theirs));
                assert!(fixture.reconciler.named(&job.id, "them"));
            }
            Next::Start(job) => {
                writes += 1;
                version += 1;
                fixture.written(&job, &version.to_string());
                overwrite(&mut fixture, &mut version);
            }
            Next::Wait(until) => {
                // While it waits, they write on.
                overwrite(&mut fixture, &mut version);
                fixture.now = until.unwrap();
            }
            Next::Again => {}
        }
        found += fixture.reconciler.take_overwritten();
    }
    assert!((15..25).contains(&writes), "{writes}");
    assert_eq!((asked, found), (1, writes));
    let contested: Vec<_> = fixture.reconciler.contested(fixture.now).collect();
    assert_eq!(contested, [(&route("a"), Some("them"))]);

    // Other words are written at once, and who gives in is forgotten.
    fixture.desired("a", Some(&status("other")));
    let job = fixture.job();
    assert_eq!(message(&job), "other");
    fixture.written(&job, &(version + 1).to_string());
    fixture.now += rival::FORGOTTEN;
    assert_eq!(fixture.reconciler.contested(fixture.now).count(), 0);
}

#[test]
fn an_object_that_is_made_anew_does_not_wait_because_somebody_overwrote_the_one_before() {
    for deletion_is_seen in [true, false] {
        let mut fixture = Fixture::leading();
        fixture.desired("a", Some(&status("ours")));
        let theirs = status("theirs").to_string();
        fixture.stored("a", "0", Some(&theirs));
        for version in 1.. {
            match fixture.step() {
                Next::Start(job) if job.request == Request::Who => {
                    fixture.finish(&job, &done(&version.to_string(), &theirs));
                }
                Next::Start(job) => {
                    fixture.written(&job, &version.to_string());
                    fixture.stored("a", &(version + 1000).to_string(), Some(&theirs));
                }
                Next::Wait(Some(until)) if until > fixture.now + Duration::from_mins(1) => break,
                Next::Wait(until) => fixture.now = until.unwrap(),
                Next::Again => {}
            }
        }
        assert_eq!(fixture.reconciler.contested(fixture.now).count(), 1);
        if deletion_is_seen {
            fixture.reconciler.stored(&route("a"), None, fixture.now);
            assert_eq!(fixture.reconciler.contested(fixture.now).count(), 0);
        }
        let anew = stored("another", "5000", None);
        fixture.reconciler.stored(&route("a"), Some(&anew), fixture.now);
        let job = fixture.job();
        assert_eq!((version(&job), message(&job)), ("5000".into(), "ours".into()));
        assert_eq!(fixture.reconciler.contested(fixture.now).count(), 0);
    }
}

#[test]
fn entries_of_another_controller_overwrite_nothing() {
    let mut fixture = Fixture::leading();
    fixture.desired("a", Some(&status("ours")));
    fixture.stored("a", "1", None);
    let job = fixture.job();
    let mut both: Value = serde_json::from_str(&fixture.written(&job, "2")).unwrap();
    for version in 3..20 {
        let mut other = status(&version.to_string())["parents"][0].clone();
        other["controllerName"] = "example.com/other".into();
        both["parents"].as_array_mut().unwrap().truncate(1);
        both["parents"].as_array_mut().unwrap().push(other);
        fixture.stored("a", &version.to_string(), Some(&both.to_string()));
        fixture.now += Duration::from_millis(100);
        assert!(fixture.idle());
    }
    assert_eq!(fixture.reconciler.take_overwritten(), 0);
}
