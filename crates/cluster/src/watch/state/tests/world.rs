//! Whatever happens in a cluster and on the way, what was told comes to what there is.

use proptest::{collection::vec, prelude::*};

use super::*;

/// Something that happens.
#[derive(Clone, Debug)]
enum Step {
    /// An object is written, perhaps such that it cannot be decoded.
    Write(u8, u8, bool),
    Delete(u8, u8),
    /// A Secret is written, of a team or of none.
    Secret(u8, u8, u8),
    /// A Gateway is written that refers to a Secret.
    Gateway(u8, u8, u8),
    /// A policy is written that selects Secrets of a team, or none.
    Policy(u8, u8),
    DeleteOf(Kind, u8, u8),
    /// A Namespace gets or loses the label.
    Label(u8, bool),
    DeleteNamespace(u8),
    /// A watch brings its next event.
    Deliver(Kind),
    /// The server has forgotten the version of a watch, which lists everything anew.
    Relist(Kind),
    /// The server reads what was asked for.
    Read,
    /// What was read arrives.
    Arrive,
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![
        3 => Just(Kind::Service),
        1 => Just(Kind::Namespace),
        2 => Just(Kind::Secret),
        2 => Just(Kind::Gateway),
        2 => Just(Kind::TrafficPolicy),
    ];
    let both = prop_oneof![Just(Kind::Secret), Just(Kind::Gateway), Just(Kind::TrafficPolicy)];
    prop_oneof![
        6 => (0..2_u8, 0..3_u8, prop::bool::weighted(0.2)).prop_map(|(ns, name, bad)| Step::Write(ns, name, bad)),
        3 => (0..2_u8, 0..3_u8).prop_map(|(ns, name)| Step::Delete(ns, name)),
        4 => (0..2_u8, 0..3_u8, 0..3_u8).prop_map(|(ns, name, team)| Step::Secret(ns, name, team)),
        4 => (0..2_u8, 0..3_u8).prop_map(|(ns, team)| Step::Policy(ns, team)),
        4 => (0..2_u8, 0..2_u8, 0..3_u8).prop_map(|(ns, name, secret)| Step::Gateway(ns, name, secret)),
        2 => (both, 0..2_u8, 0..2_u8).prop_map(|(kind, ns, name)| Step::DeleteOf(kind, ns, name)),
        3 => (0..2_u8, any::<bool>()).prop_map(|(ns, ours)| Step::Label(ns, ours)),
        1 => (0..2_u8).prop_map(Step::DeleteNamespace),
        16 => kind.clone().prop_map(Step::Deliver),
        1 => kind.prop_map(Step::Relist),
        5 => Just(Step::Read),
        5 => Just(Step::Arrive),
    ]
}

type Key = (Kind, String, String);

/// A server, its watches, and a listener.
struct World {
    objects: BTreeMap<Key, Value>,
    version: u32,
    /// What each watch has yet to bring.
    pending: BTreeMap<Kind, Vec<Event>>,
    state: State,
    /// Requests for what a namespace has, and for what an object holds.
    ordered: Vec<(bool, u64, ListWatch)>,
    answers: Vec<(bool, u64, Vec<WatchedObject>)>,
    /// What the listener knows.
    known: BTreeMap<Key, Object>,
    /// Objects that were deleted at some time, and namespaces that were not read at some time.
    went: BTreeSet<Key>,
}

const KINDS: [Kind; 5] = [Kind::Namespace, Kind::Service, Kind::Secret, Kind::Gateway, Kind::TrafficPolicy];

/// What the server says of an object that is asked for by name.
fn content(object: &Value) -> WatchedObject {
    let line = json!({ "type": "ADDED", "object": object }).to_string();
    let Line::Applied(watched) = Decoder::new(Target::Content(Kind::Secret)).line(line.as_bytes()).expect("a line").0
    else {
        panic!("no object")
    };
    watched
}

fn key(object: &Value, kind: Kind) -> Key {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (kind, text("namespace"), text("name"))
}

impl World {
    fn new() -> Self {
        let pending = KINDS.map(|kind| (kind, vec![Event::ListStarted, Event::ListComplete]));
        Self {
            objects: BTreeMap::new(),
            version: 0,
            pending: pending.into_iter().collect(),
            state: state(&scope(), &KINDS),
            ordered: Vec::new(),
            answers: Vec::new(),
            known: BTreeMap::new(),
            went: BTreeSet::new(),
        }
    }

    fn list(&self, kind: Kind, namespace: Option<&str>) -> Vec<WatchedObject> {
        let objects = self.objects.iter().filter(|((of, ns, _), _)| *of == kind && namespace.is_none_or(|n| n == ns));
        objects.map(|((kind, ..), object)| watched(*kind, object)).collect()
    }

    fn write(&mut self, kind: Kind, object: Value) {
        self.pending.entry(kind).or_default().push(event(kind, "MODIFIED", &object));
        self.objects.insert(key(&object, kind), object);
    }

    fn delete(&mut self, key: Key) {
        if let Some(object) = self.objects.remove(&key) {
            self.pending.entry(key.0).or_default().push(event(key.0, "DELETED", &object));
            self.went.insert(key);
        }
    }

    fn step(&mut self, step: &Step) {
        self.version += 1;
        let namespace = |ns: u8| format!("ns{ns}");
        match step {
            Step::Write(ns, name, broken) => {
                let object = config(&namespace(*ns), &format!("c{name}"), self.version);
                self.write(Kind::Service, if *broken { bad(object) } else { object });
            }
            Step::Delete(ns, name) => self.delete((Kind::Service, namespace(*ns), format!("c{name}"))),
            Step::Secret(ns, name, team) => {
                let mut metadata = config(&namespace(*ns), &format!("s{name}"), self.version)["metadata"].clone();
                if *team > 0 {
                    metadata["labels"] = json!({ "team": team.to_string(), "more": "x" });
                }
                let data = json!({ "tls.crt": "YQ==", "tls.key": "YQ==", "other": "YQ==" });
                self.write(Kind::Secret, json!({ "metadata": metadata, "data": data }));
            }
            Step::Gateway(ns, name, secret) => {
                let metadata = config(&namespace(*ns), &format!("g{name}"), self.version)["metadata"].clone();
                let references = json!([{ "name": format!("s{secret}"), "namespace": namespace(secret % 2) }]);
                let tls = json!({ "certificateRefs": references });
                let listeners = json!([{ "name": "l", "port": 443, "protocol": "HTTPS", "tls": tls }]);
                let spec = json!({ "gatewayClassName": "c", "listeners": listeners });
                self.write(Kind::Gateway, json!({ "metadata": metadata, "spec": spec }));
            }
            Step::Policy(ns, team) => {
                let metadata = config(&namespace(*ns), "p0", self.version)["metadata"].clone();
                let selector = json!({ "matchLabels": { "team": team.to_string() } });
                let spec = if *team > 0 { json!({ "apiKeyAuth": { "secretSelector": selector } }) } else { json!({}) };
                self.write(Kind::TrafficPolicy, json!({ "metadata": metadata, "spec": spec }));
            }
            Step::DeleteOf(kind, ns, name) => {
                let letter = match kind {
                    Kind::Secret => "s",
                    Kind::Gateway => "g",
                    _ => "p",
                };
                self.delete((*kind, namespace(*ns), format!("{letter}{name}")));
            }
            Step::Label(ns, ours) => {
                let object = self::namespace(&namespace(*ns), if *ours { "a" } else { "b" }, self.version);
                if !ours {
                    self.went.insert(key(&object, Kind::Namespace));
                }
                self.write(Kind::Namespace, object);
            }
            Step::DeleteNamespace(ns) => self.delete((Kind::Namespace, String::new(), namespace(*ns))),
            Step::Deliver(kind) => {
                let pending = self.pending.entry(*kind).or_default();
                if !pending.is_empty() {
                    let event = pending.remove(0);
                    self.state.handle(*kind, None, vec![event]);
                }
            }
            Step::Relist(kind) => {
                let list = self.list(*kind, None).into_iter().map(Event::Applied);
                let list = [Event::ListStarted].into_iter().chain(list).chain([Event::ListComplete]).collect();
                self.pending.insert(*kind, list);
            }
            Step::Read => {
                let Some((of_object, request, list_watch)) = self.ordered.pop() else { return };
                let objects = match list_watch.target {
                    Target::Content(kind) => {
                        let Only::Named(name) = &list_watch.only else { panic!("{list_watch:?}") };
                        let namespace = list_watch.namespace.as_deref().unwrap_or_default().to_owned();
                        let object = self.objects.get(&(kind, namespace, name.to_string()));
                        object.map(content).into_iter().collect()
                    }
                    Target::Selected(kind) => {
                        let Only::Labelled(labels) = &list_watch.only else { panic!("{list_watch:?}") };
                        let all = self.objects.iter().filter(|((of, namespace, _), _)| {
                            *of == kind && Some(&**namespace) == list_watch.namespace.as_deref()
                        });
                        let is_one = |object: &Value| {
                            labels.iter().all(|(key, value)| object["metadata"]["labels"][&**key] == **value)
                        };
                        all.filter(|(_, object)| is_one(object)).map(|(_, object)| watched(kind, object)).collect()
                    }
                    Target::Kind(kind) => self.list(kind, list_watch.namespace.as_deref()),
                    _ => panic!("{list_watch:?}"),
                };
                self.answers.push((of_object, request, objects));
            }
            Step::Arrive => match self.answers.pop() {
                Some((true, request, objects)) => self.state.arrived(request, objects),
                Some((false, request, objects)) => self.state.fetched(request, objects),
                None => {}
            },
        }
        self.settle();
    }

    /// Hands on what the state says.
    fn settle(&mut self) {
        for command in self.state.take_commands() {
            match command {
                Command::Fetch(request, list_watch) => self.ordered.push((false, request, list_watch)),
                Command::Read(request, list_watch) => self.ordered.push((true, request, list_watch)),
                // What is on its way arrives all the same.
                Command::Cancel(request) => self.ordered.retain(|(object, of, _)| *object || *of != request),
                Command::Forget(request) => self.ordered.retain(|(object, of, _)| !*object || *of != request),
            }
        }
        for observed in self.state.take_observed() {
            match observed {
                Observed::Put { object, .. } => {
                    let id = object.id();
                    self.known.insert((id.kind, id.namespace.to_string(), id.name.to_string()), object);
                }
                Observed::Remove(id) => {
                    let key = (id.kind, id.namespace.to_string(), id.name.to_string());
                    let unread = self.went.contains(&(Kind::Namespace, String::new(), key.1.clone()));
                    // Of what is read by reference, nobody may refer to it any more.
                    let went = self.went.contains(&key) || unread || id.kind.is_read_by_reference();
                    assert!(went, "{key:?} was always there");
                    self.known.remove(&key);
                }
                _ => {}
            }
        }
    }

    fn selected(&self, namespace: &str) -> bool {
        let object = self.objects.get(&(Kind::Namespace, String::new(), namespace.to_owned()));
        object.is_some_and(|object| object["metadata"]["labels"]["team"] == "a")
    }

    /// Lets everything arrive, and compares.
    fn check(mut self) {
        while self.pending.values().any(|pending| !pending.is_empty())
            || !self.ordered.is_empty()
            || !self.answers.is_empty()
        {
            for step in KINDS.map(Step::Deliver).iter().chain(&[Step::Read, Step::Arrive]) {
                self.step(step);
            }
        }
        let named = self.known.values().flat_map(Object::references);
        let named: BTreeSet<_> = named.map(|reference| reference.id).collect();
        let selections: Vec<_> = self.known.values().flat_map(Object::selections).collect();
        for (key, object) in &self.objects {
            let (kind, namespace, name) = key;
            let shown = self.selected(if *kind == Kind::Namespace { name } else { namespace });
            let known = self.known.get(key);
            let id = ObjectId::new(*kind, namespace.as_str(), name.as_str());
            let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
            let labels = labels.map(|(key, value)| (key.as_str(), value.as_str().expect("text")));
            let labels = labels.collect();
            let is_selected = *kind == Kind::Secret && selections.iter().any(|it| it.selects(namespace, &labels));
            let shown = shown && (!kind.is_read_by_reference() || named.contains(&id) || is_selected);
            let decoded = api::decode_json(*kind, &object.to_string()).map(|mut object| {
                object.keep_keys(|key| is_selected || key != "other");
                object
            });
            // Who selects it no more leaves a key behind, until it is read again.
            let known = known.cloned().map(|mut object| {
                object.keep_keys(|key| is_selected || key != "other");
                object
            });
            match decoded {
                Ok(object) if shown => assert_eq!(known, Some(object)),
                // What it said last, if anything.
                Err(_) if shown => {}
                _ => assert_eq!(known, None),
            }
        }
        for key in self.known.keys() {
            assert!(self.objects.contains_key(key), "{key:?} is known and does not exist");
        }
    }
}

proptest! {
    #[test]
    fn what_was_told_comes_to_what_there_is(steps in vec(step(), 0..120)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.check();
    }
}

#[test]
fn what_was_fetched_outlives_a_list_that_was_made_before() {
    use Step::{Arrive, Deliver, Label, Read, Relist, Write};
    let (namespaces, objects) = (Kind::Namespace, Kind::Service);
    let steps = [
        Write(0, 2, false),
        Deliver(namespaces),
        Deliver(namespaces),
        Deliver(objects),
        Deliver(objects),
        Deliver(objects),
        Label(0, true),
        Relist(objects),
        Write(0, 0, false),
        Deliver(namespaces),
        Read,
        Arrive,
    ];
    let mut world = World::new();
    for step in &steps {
        world.step(step);
    }
    world.check();
}
