//! Whatever the order in which things happen, the API server ends with what is desired, and others' entries stay.

#![allow(clippy::unwrap_used, reason = "a test that unwraps nothing fails there")]

use std::collections::{BTreeMap, VecDeque};

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::*;

const US: &str = "portcullis.dev/controller";
const THEM: &str = "example.com/other";

/// Something that happens.
#[derive(Clone, Debug)]
enum Event {
    Desire(usize, Option<u8>),
    /// Another controller writes its entry.
    Foreign(usize, u8),
    /// Somebody takes our entries away.
    Vandal(usize),
    Delete(usize),
    Create(usize),
    /// The watch brings so many events.
    Deliver(usize),
    /// The watch begins anew: what it has not brought is lost, and everything is listed.
    Relist,
    /// The state machine is asked what to do, and requests reach the API server.
    Ask,
    /// The API server answers the oldest request.
    Answer(Fault),
    Lead(bool),
    Pass(u64),
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// The request is carried out, and the answer is lost.
    Lost,
    Overloaded,
    Broken,
    Refused,
}

fn event() -> impl Strategy<Value = Event> {
    let object = 0..3_usize;
    prop_oneof![
        4 => (object.clone(), proptest::option::weighted(0.8, 0..3_u8)).prop_map(|(o, d)| Event::Desire(o, d)),
        2 => (object.clone(), 0..3_u8).prop_map(|(o, f)| Event::Foreign(o, f)),
        1 => object.clone().prop_map(Event::Vandal),
        1 => object.clone().prop_map(Event::Delete),
        3 => object.prop_map(Event::Create),
        6 => (1..4_usize).prop_map(Event::Deliver),
        1 => Just(Event::Relist),
        6 => Just(Event::Ask),
        6 => prop_oneof![
            6 => Just(Fault::None), 1 => Just(Fault::Lost), 1 => Just(Fault::Overloaded), 1 => Just(Fault::Broken),
            1 => Just(Fault::Refused)
        ].prop_map(Event::Answer),
        2 => any::<bool>().prop_map(Event::Lead),
        2 => (0..3000_u64).prop_map(Event::Pass),
    ]
}

#[derive(Clone, Debug)]
struct Object {
    uid: u64,
    version: u64,
    status: Value,
}

impl Object {
    fn stored(&self) -> Stored {
        super::tests::stored(&self.uid.to_string(), &self.version.to_string(), Some(&self.status.to_string()))
    }
}

/// A request that reached the API server, with the answer that is on its way.
struct Sent {
    job: Job,
    /// What the API server did; done when the request came, not when the answer is delivered.
    answer: Answer,
}

enum Answer {
    Object(Object),
    Conflict,
    Gone,
}

struct World {
    reconciler: Reconciler,
    now: Instant,
    revision: u64,
    objects: BTreeMap<usize, Object>,
    events: VecDeque<(usize, Option<Object>)>,
    seen: BTreeMap<usize, bool>,
    sent: VecDeque<Sent>,
    desired: BTreeMap<usize, Option<Value>>,
    foreign: BTreeMap<usize, Value>,
    writes: usize,
}

fn id(object: usize) -> ObjectId {
    ObjectId::new(Kind::HttpRoute, "ns", object.to_string())
}

fn entry(controller: &str, name: &str, message: &str) -> Value {
    let conditions = json!([{
        "type": "Accepted", "status": if message == "1" { "False" } else { "True" }, "reason": "A", "message": message
    }]);
    let reference = json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": name});
    json!({"parentRef": reference, "controllerName": controller, "conditions": conditions})
}

impl World {
    fn new() -> Self {
        let now = Instant::now();
        let mut reconciler = Reconciler::new(US, 2);
        reconciler.complete(now);
        Self {
            reconciler,
            now,
            revision: 0,
            objects: BTreeMap::new(),
            events: VecDeque::new(),
            seen: BTreeMap::new(),
            sent: VecDeque::new(),
            desired: BTreeMap::new(),
            foreign: BTreeMap::new(),
            writes: 0,
        }
    }

    fn change(&mut self, object: usize, change: impl FnOnce(&mut Value)) {
        let Some(stored) = self.objects.get_mut(&object) else { return };
        change(&mut stored.status);
        self.revision += 1;
        stored.version = self.revision;
        self.events.push_back((object, Some(stored.clone())));
    }

    fn apply(&mut self, event: &Event) {
        match *event {
            Event::Desire(object, said) => {
                let status = said.map(|said| json!({"parents": [entry(US, "gateway", &said.to_string())]}));
                self.reconciler.desired(&id(object), status.as_ref().map(Value::to_string).as_deref(), self.now);
                self.desired.insert(object, status);
            }
            Event::Foreign(object, said) => {
                if self.objects.contains_key(&object) {
                    let theirs = entry(THEM, "gateway", &said.to_string());
                    self.foreign.insert(object, theirs.clone());
                    self.change(object, |status| {
                        let list = status["parents"].as_array_mut().unwrap();
                        list.retain(|entry| entry["controllerName"] != THEM);
                        list.insert(0, theirs);
                    });
                }
            }
            Event::Vandal(object) => self.change(object, |status| {
                status["parents"].as_array_mut().unwrap().retain(|entry| entry["controllerName"] != US);
            }),
            Event::Delete(object) => {
                if self.objects.remove(&object).is_some() {
                    self.foreign.remove(&object);
                    self.revision += 1;
                    self.events.push_back((object, None));
                }
            }
            Event::Create(object) => {
                if !self.objects.contains_key(&object) {
                    self.revision += 1;
                    let made = Object { uid: self.revision, version: self.revision, status: json!({"parents": []}) };
                    self.objects.insert(object, made.clone());
                    self.events.push_back((object, Some(made)));
                }
            }
            Event::Deliver(count) => (0..count).for_each(|_| self.deliver()),
            Event::Relist => {
                self.events.clear();
                let all: Vec<_> = (0..3).map(|object| (object, self.objects.get(&object).cloned())).collect();
                for (object, stored) in all {
                    if stored.is_some() || self.seen.contains_key(&object) {
                        self.events.push_back((object, stored));
                        self.deliver();
                    }
                }
            }
            Event::Ask => drop(self.ask()),
            Event::Answer(fault) => self.answer(fault),
            Event::Lead(leads) => self.reconciler.lead(leads, self.now),
            Event::Pass(millis) => self.now += Duration::from_millis(millis),
        }
    }

    fn deliver(&mut self) {
        let Some((object, stored)) = self.events.pop_front() else { return };
        self.seen.insert(object, stored.is_some());
        let Some(stored) = stored else { return self.reconciler.stored(&id(object), None, self.now) };
        self.reconciler.stored(&id(object), Some(&stored.stored()), self.now);
    }

    /// Gives when the state machine wants to be asked again.
    fn ask(&mut self) -> Option<Instant> {
        loop {
            let job = match self.reconciler.next(self.now, Timestamp::UNIX_EPOCH) {
                Next::Start(job) => job,
                Next::Again => continue,
                Next::Wait(until) => return until,
            };
            let object: usize = job.id.name.parse().unwrap();
            assert!(self.sent.iter().all(|sent| sent.job.id != job.id), "two requests of one object");
            let answer = match (&job.request, self.objects.get_mut(&object)) {
                (_, None) => Answer::Gone,
                (Request::Read | Request::Who, Some(stored)) => Answer::Object(stored.clone()),
                (Request::Write(body), Some(stored)) => {
                    let body: Value = serde_json::from_str(body).unwrap();
                    if body["metadata"]["resourceVersion"].as_str() == Some(&*stored.version.to_string()) {
                        assert_ne!(stored.status, body["status"], "a write that changes nothing");
                        self.writes += 1;
                        self.change(object, |status| *status = body["status"].clone());
                        Answer::Object(self.objects[&object].clone())
                    } else {
                        Answer::Conflict
                    }
                }
            };
            self.sent.push_back(Sent { job, answer });
        }
    }

    fn answer(&mut self, fault: Fault) {
        let Some(Sent { job, answer }) = self.sent.pop_front() else { return };
        let message = String::new();
        let outcome = match (fault, answer) {
            (Fault::Lost, _) => Outcome::Later { after: None, everywhere: true, message },
            (Fault::Overloaded, _) => Outcome::Later { after: Some(Duration::from_secs(1)), everywhere: true, message },
            (Fault::Broken, _) => Outcome::Later { after: None, everywhere: false, message },
            (Fault::Refused, _) => Outcome::Refused { code: 422, message },
            (_, Answer::Conflict) => Outcome::Conflict,
            (_, Answer::Gone) => Outcome::Gone,
            (_, Answer::Object(object)) => Outcome::Done { stored: object.stored(), other_writer: None },
        };
        self.reconciler.finished(&job.id, &outcome, self.now);
    }

    /// Nothing more happens but what follows.
    fn settle(&mut self) {
        self.reconciler.lead(true, self.now);
        for _ in 0..1000 {
            while !self.events.is_empty() {
                self.deliver();
            }
            let until = self.ask();
            while !self.sent.is_empty() {
                self.answer(Fault::None);
            }
            if self.reconciler.pending() == 0 && self.events.is_empty() {
                return;
            }
            self.now = self.now.max(until.unwrap_or(self.now));
        }
        panic!("it does not come to rest");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn it_ends_with_what_is_desired_and_others_entries(events in vec(event(), 0..60)) {
        let mut world = World::new();
        for event in events {
            world.apply(&event);
        }
        world.settle();
        for (object, stored) in &world.objects {
            let desired = world.desired.get(object).cloned().flatten();
            let ours = desired.map(|desired| desired["parents"][0].clone());
            let expected: Vec<_> = world.foreign.get(object).cloned().into_iter().chain(ours).collect();
            let mut found = stored.status["parents"].clone();
            for entry in found.as_array_mut().unwrap() {
                if entry["controllerName"] == US {
                    let time = entry["conditions"][0].as_object_mut().unwrap().remove("lastTransitionTime");
                    prop_assert!(time.is_some());
                }
            }
            prop_assert_eq!(found, Value::Array(expected));
        }
        let kept = world.reconciler.entries.len();
        prop_assert!(kept <= 3);
        let writes = world.writes;
        world.reconciler.lead(false, world.now);
        world.settle();
        prop_assert_eq!(world.writes, writes, "taking over again writes nothing");
    }
}
