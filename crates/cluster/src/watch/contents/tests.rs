use serde_json::{Value, json};

use super::{
    super::{
        Scope,
        decoder::{Decoder, Line},
        event::Event,
        state::State,
    },
    *,
};

fn line(target: Target, change: &str, object: &Value) -> Line {
    let line = json!({ "type": change, "object": object }).to_string();
    Decoder::new(target).line(line.as_bytes()).expect("a line").0
}

fn put(kind: Kind, object: &Value) -> Event {
    let Line::Applied(watched) = line(Target::Kind(kind), "ADDED", object) else { panic!("no object") };
    Event::Applied(watched)
}

fn gone(kind: Kind, object: &Value) -> Event {
    let Line::Deleted(name) = line(Target::Kind(kind), "DELETED", object) else { panic!("no name") };
    Event::Deleted(name)
}

fn content(object: &Value) -> WatchedObject {
    let Line::Applied(watched) = line(Target::Content(Kind::Secret), "ADDED", object) else { panic!("no object") };
    watched
}

fn secret(name: &str, version: u32) -> Value {
    json!({ "metadata": { "namespace": "n", "name": name, "resourceVersion": version.to_string() },
            "data": { "tls.crt": "YQ==", "tls.key": "YQ==", "other": "YQ==" } })
}

fn gateway(name: &str, version: u32, secrets: &[&str]) -> Value {
    let references: Vec<_> = secrets.iter().map(|name| json!({ "name": name })).collect();
    let listener = json!({ "name": "l", "port": 443, "protocol": "HTTPS", "tls": { "certificateRefs": references } });
    json!({ "metadata": { "namespace": "n", "name": name, "resourceVersion": version.to_string() },
            "spec": { "gatewayClassName": "c", "listeners": [listener] } })
}

fn labelled(name: &str, version: u32, team: &str) -> Value {
    let mut secret = secret(name, version);
    secret["metadata"]["labels"] = json!({ "team": team });
    secret
}

/// A policy that selects the Secrets of a team.
fn policy(name: &str, version: u32, team: &str) -> Value {
    let selector = json!({ "matchLabels": { "team": team } });
    json!({ "metadata": { "namespace": "n", "name": name, "resourceVersion": version.to_string() },
            "spec": { "apiKeyAuth": { "secretSelector": selector } } })
}

/// A policy with such a spec.
fn with_spec(name: &str, version: u32, spec: &Value) -> Value {
    json!({ "metadata": { "namespace": "n", "name": name, "resourceVersion": version.to_string() }, "spec": spec })
}

/// The spec of a policy that names a key of a Secret.
fn users(namespace: &str, secret: &str, key: &str) -> Value {
    json!({ "basicAuth": { "secretRef": { "name": secret, "namespace": namespace, "key": key } } })
}

/// What a list by labels brings.
fn selected(object: &Value) -> WatchedObject {
    let Line::Applied(watched) = line(Target::Selected(Kind::Secret), "ADDED", object) else { panic!("no object") };
    watched
}

/// A state that has read all kinds.
struct Scene(State);

impl Scene {
    fn new() -> Self {
        let list_watch = |kind| ListWatch { target: Target::Kind(kind), namespace: None, only: Only::All };
        let kinds = [Kind::Gateway, Kind::Secret, Kind::TrafficPolicy, Kind::BackendConfigPolicy];
        Self(State::new(&Scope::All, &kinds.map(list_watch)))
    }

    fn listed(secrets: &[&str]) -> Self {
        let mut scene = Self::new();
        let secrets = secrets.iter().map(|name| put(Kind::Secret, &secret(name, 1)));
        let list = [Event::ListStarted].into_iter().chain(secrets).chain([Event::ListComplete]);
        assert_eq!(scene.read(Kind::Secret, list.collect()), "synced Secret", "nothing is told that nobody refers to");
        assert_eq!(scene.read(Kind::Gateway, vec![Event::ListStarted, Event::ListComplete]), "synced Gateway");
        for kind in [Kind::TrafficPolicy, Kind::BackendConfigPolicy] {
            let list = vec![Event::ListStarted, Event::ListComplete];
            assert_eq!(scene.read(kind, list), format!("synced {kind}"));
        }
        assert_eq!(scene.0.take_commands(), []);
        scene
    }

    fn policy(&mut self, name: &str, version: u32, team: &str) -> String {
        self.read(Kind::TrafficPolicy, vec![put(Kind::TrafficPolicy, &policy(name, version, team))])
    }

    fn with_spec(&mut self, name: &str, version: u32, spec: &Value) -> String {
        self.read(Kind::TrafficPolicy, vec![put(Kind::TrafficPolicy, &with_spec(name, version, spec))])
    }

    /// A policy that needs nothing is told.
    fn told_policy(&mut self, name: &str) {
        assert_eq!(self.with_spec(name, 1, &json!({})), format!("put TrafficPolicy n/{name}"));
    }

    /// The keys that are told of a Secret that was read.
    fn keys_of(&mut self, request: u64, object: &Value) -> String {
        self.0.arrived(request, vec![content(object)]);
        let secrets = self.0.take_observed().into_iter().filter_map(|observed| match observed {
            Observed::Put { object: api::Object::Secret(secret), .. } => Some(secret),
            _ => None,
        });
        let keys = secrets.flat_map(|secret| secret.data.0.keys().map(ToString::to_string).collect::<Vec<_>>());
        keys.collect::<Vec<_>>().join(" ")
    }

    fn secret(&mut self, secret: &Value) -> String {
        self.read(Kind::Secret, vec![put(Kind::Secret, secret)])
    }

    fn selected(&mut self, request: u64, objects: &[Value]) -> String {
        self.0.arrived(request, objects.iter().map(selected).collect());
        self.told()
    }

    fn read(&mut self, kind: Kind, events: Vec<Event>) -> String {
        self.0.handle(kind, None, events);
        self.told()
    }

    fn gateway(&mut self, name: &str, version: u32, secrets: &[&str]) -> String {
        self.read(Kind::Gateway, vec![put(Kind::Gateway, &gateway(name, version, secrets))])
    }

    fn arrived(&mut self, request: u64, objects: &[Value]) -> String {
        self.0.arrived(request, objects.iter().map(content).collect());
        self.told()
    }

    fn late(&mut self, request: u64, why: &str) -> String {
        self.0.late(request, why.to_owned());
        self.told()
    }

    /// The names of the objects that are to be read, and the numbers of requests that are to be forgotten.
    fn commands(&mut self) -> String {
        let commands = self.0.take_commands().into_iter().map(|command| match command {
            Command::Read(
                request,
                ListWatch { target: Target::Content(Kind::Secret), only: Only::Named(name), .. },
            ) => {
                format!("{request} {name}")
            }
            Command::Read(request, ListWatch { target: Target::Selected(_), only: Only::Labelled(labels), .. }) => {
                let pairs: Vec<_> = labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
                format!("{request} {}", pairs.join(" "))
            }
            Command::Forget(request) => format!("forget {request}"),
            other => panic!("{other:?}"),
        });
        commands.collect::<Vec<_>>().join(", ")
    }

    fn told(&mut self) -> String {
        let told = self.0.take_observed().into_iter().map(|observed| match observed {
            Observed::Put { object, .. } => {
                if let api::Object::Secret(secret) = &object {
                    let keys: Vec<_> = secret.data.0.keys().map(|key| &**key).collect();
                    let all = &["other", "tls.crt", "tls.key"];
                    assert!(keys == ["tls.crt", "tls.key"] || keys == all && !secret.labels.is_empty(), "{secret:?}");
                }
                format!("put {}", object.id())
            }
            Observed::Remove(id) => format!("remove {id}"),
            Observed::Synced(kind) => format!("synced {kind}"),
            Observed::Unreadable { id, why } => format!("unreadable {id}: {why}"),
            other => panic!("{other:?}"),
        });
        told.collect::<Vec<_>>().join(", ")
    }
}

#[test]
fn a_gateway_is_told_after_its_certificates_and_nobody_else_waits() {
    let mut scene = Scene::listed(&["s", "nobodys"]);
    assert_eq!(scene.gateway("g", 2, &["s"]), "");
    assert_eq!(scene.commands(), "1 s");
    assert_eq!(scene.gateway("other", 3, &[]), "put Gateway n/other");
    assert_eq!(scene.gateway("g", 4, &["s"]), "", "the newer word waits in place of the older one");
    assert_eq!(scene.commands(), "");
    assert_eq!(scene.arrived(1, &[secret("s", 1)]), "put Secret n/s, put Gateway n/g");
    assert_eq!(scene.gateway("second", 5, &["s"]), "put Gateway n/second", "it was read");
}

#[test]
fn what_is_not_there_is_waited_for_until_all_are_listed() {
    let mut scene = Scene::new();
    let list = vec![Event::ListStarted, put(Kind::Gateway, &gateway("g", 2, &["missing", "s"])), Event::ListComplete];
    assert_eq!(scene.read(Kind::Gateway, list), "");
    assert_eq!(scene.read(Kind::Secret, vec![Event::ListStarted, put(Kind::Secret, &secret("s", 1))]), "");
    assert_eq!(scene.commands(), "1 s");
    assert_eq!(scene.read(Kind::Secret, vec![Event::ListComplete]), "synced Secret");
    assert_eq!(scene.arrived(1, &[secret("s", 1)]), "put Secret n/s, put Gateway n/g, synced Gateway");
    let found = vec![put(Kind::Secret, &secret("missing", 3))];
    assert_eq!(scene.read(Kind::Secret, found), "");
    assert_eq!(scene.commands(), "2 missing");
    assert_eq!(scene.arrived(2, &[secret("missing", 3)]), "put Secret n/missing");
}

#[test]
fn a_new_version_is_read_once_and_one_that_turned_meanwhile_again() {
    let mut scene = Scene::listed(&["s"]);
    scene.gateway("g", 2, &["s"]);
    let turn = |scene: &mut Scene, version| scene.read(Kind::Secret, vec![put(Kind::Secret, &secret("s", version))]);
    turn(&mut scene, 3);
    assert_eq!(scene.commands(), "1 s");
    assert_eq!(scene.arrived(1, &[secret("s", 1)]), "put Secret n/s, put Gateway n/g", "nobody waits twice");
    assert_eq!(scene.commands(), "2 s");
    assert_eq!(scene.arrived(2, &[secret("s", 4)]), "put Secret n/s");
    turn(&mut scene, 4);
    assert_eq!(scene.commands(), "", "it was read before the watch brought it");
    turn(&mut scene, 5);
    assert_eq!(scene.commands(), "3 s");
}

#[test]
fn what_nobody_refers_to_any_more_goes_after_what_referred_to_it() {
    let mut scene = Scene::listed(&["a", "b"]);
    scene.gateway("g", 2, &["a"]);
    scene.arrived(1, &[secret("a", 1)]);
    assert_eq!(scene.gateway("g", 3, &["b"]), "");
    assert_eq!(scene.arrived(2, &[secret("b", 1)]), "put Secret n/b, put Gateway n/g, remove Secret n/a");
    assert_eq!(scene.gateway("second", 4, &["b"]), "put Gateway n/second");
    assert_eq!(scene.gateway("second", 5, &[]), "put Gateway n/second");
    let gone = vec![gone(Kind::Gateway, &gateway("g", 6, &[]))];
    assert_eq!(scene.read(Kind::Gateway, gone), "remove Gateway n/g, remove Secret n/b");
}

#[test]
fn what_goes_while_it_is_read_is_not_waited_for() {
    let mut scene = Scene::listed(&["s"]);
    scene.gateway("g", 2, &["s"]);
    let deleted = vec![gone(Kind::Secret, &secret("s", 3))];
    assert_eq!(scene.read(Kind::Secret, deleted), "put Gateway n/g");
    assert_eq!(scene.commands(), "1 s, forget 1");
    assert_eq!(scene.arrived(1, &[secret("s", 1)]), "", "its answer is too late");
    scene.read(Kind::Secret, vec![put(Kind::Secret, &secret("s", 4))]);
    scene.arrived(2, &[secret("s", 4)]);
    let deleted = vec![gone(Kind::Secret, &secret("s", 5))];
    assert_eq!(scene.read(Kind::Secret, deleted), "remove Secret n/s");
}

#[test]
fn what_cannot_be_read_is_told_and_nobody_waits_for_it_until_it_was_read() {
    let mut scene = Scene::new();
    let list = vec![Event::ListStarted, put(Kind::Gateway, &gateway("g", 2, &["s"])), Event::ListComplete];
    assert_eq!(scene.read(Kind::Gateway, list), "");
    let list = vec![Event::ListStarted, put(Kind::Secret, &secret("s", 1)), Event::ListComplete];
    assert_eq!(scene.read(Kind::Secret, list), "synced Secret");
    assert_eq!(scene.late(1, "forbidden"), "unreadable Secret n/s: forbidden, put Gateway n/g, synced Gateway");
    assert_eq!(scene.gateway("second", 3, &["s"]), "put Gateway n/second");
    assert_eq!(scene.commands(), "1 s", "it is still being read");
    assert_eq!(scene.arrived(1, &[secret("s", 1)]), "put Secret n/s");
    assert_eq!(scene.late(1, "too late"), "", "it was read meanwhile");

    // Who refers to another one waits for that, and for a version that is new nobody does.
    scene.read(Kind::Secret, vec![put(Kind::Secret, &secret("other", 4))]);
    assert_eq!(scene.gateway("third", 5, &["s", "other"]), "");
    assert_eq!(scene.commands(), "2 other");
    assert_eq!(scene.late(2, "slow"), "unreadable Secret n/other: slow, put Gateway n/third");
    let gone = vec![gone(Kind::Secret, &secret("other", 6))];
    assert_eq!(scene.read(Kind::Secret, gone), "remove Secret n/other", "what was told of it is taken back");
}

#[test]
fn a_policy_that_changes_is_told_after_the_secrets_that_it_selects() {
    let mut scene = Scene::listed(&["nobodys"]);
    scene.told_policy("p");
    scene.secret(&labelled("a", 2, "shop"));
    assert_eq!(scene.policy("p", 3, "shop"), "");
    assert_eq!(scene.commands(), "1 team=shop", "no label is kept of a Secret that nobody needed");
    assert_eq!(scene.selected(1, &[labelled("a", 2, "shop")]), "");
    assert_eq!(scene.commands(), "2 a");
    assert_eq!(scene.arrived(2, &[labelled("a", 2, "shop")]), "put Secret n/a, put TrafficPolicy n/p");
    assert_eq!(scene.policy("q", 4, "shop"), "put TrafficPolicy n/q", "they are known");
    assert_eq!(scene.commands(), "");
}

#[test]
fn a_label_that_comes_or_goes_has_a_secret_read_or_forgotten() {
    let mut scene = Scene::listed(&["a"]);
    assert_eq!(scene.policy("p", 3, "shop"), "put TrafficPolicy n/p", "it is new");
    assert_eq!(scene.commands(), "1 team=shop");
    assert_eq!(scene.selected(1, &[]), "");
    assert_eq!(scene.secret(&labelled("a", 4, "shop")), "");
    assert_eq!(scene.commands(), "2 a");
    assert_eq!(scene.arrived(2, &[labelled("a", 4, "shop")]), "put Secret n/a");
    assert_eq!(scene.secret(&labelled("other", 5, "office")), "");
    assert_eq!(scene.secret(&labelled("a", 6, "office")), "remove Secret n/a");
    assert_eq!(scene.commands(), "3 a, forget 3");
    scene.secret(&labelled("a", 7, "shop"));
    assert_eq!(scene.commands(), "4 a");
    scene.arrived(4, &[labelled("a", 7, "shop")]);
    assert_eq!(scene.policy("p", 8, "none"), "");
    assert_eq!(scene.commands(), "5 team=none");
    assert_eq!(scene.selected(5, &[]), "put TrafficPolicy n/p, remove Secret n/a");
    assert_eq!(
        scene.read(Kind::TrafficPolicy, vec![gone(Kind::TrafficPolicy, &policy("p", 9, "none"))]),
        "remove TrafficPolicy n/p"
    );
}

#[test]
fn what_the_watch_brings_while_a_selection_is_listed_counts() {
    let mut scene = Scene::listed(&[]);
    scene.secret(&labelled("gone", 1, "shop"));
    scene.told_policy("p");
    scene.policy("p", 3, "shop");
    assert_eq!(scene.commands(), "1 team=shop");
    scene.secret(&labelled("came", 4, "shop"));
    scene.read(Kind::Secret, vec![gone(Kind::Secret, &labelled("gone", 5, "shop"))]);
    assert_eq!(scene.selected(1, &[labelled("gone", 1, "shop")]), "");
    assert_eq!(scene.commands(), "2 came");
    assert_eq!(scene.arrived(2, &[labelled("came", 4, "shop")]), "put Secret n/came, put TrafficPolicy n/p");
}

#[test]
fn nobody_waits_for_long_for_a_selection_that_cannot_be_listed() {
    let mut scene = Scene::listed(&[]);
    scene.secret(&labelled("a", 1, "shop"));
    scene.told_policy("p");
    scene.policy("p", 3, "shop");
    assert_eq!(scene.commands(), "1 team=shop");
    assert_eq!(scene.late(1, "refused"), "put TrafficPolicy n/p");
    assert_eq!(scene.selected(1, &[labelled("a", 1, "shop")]), "");
    assert_eq!(scene.commands(), "2 a");
    assert_eq!(scene.arrived(2, &[labelled("a", 1, "shop")]), "put Secret n/a");
}

#[test]
fn a_policy_that_is_new_is_told_before_its_secret_so_that_what_it_guards_is_not_open_meanwhile() {
    let mut scene = Scene::listed(&["s", "t"]);
    assert_eq!(scene.with_spec("p", 2, &users("n", "s", "tls.crt")), "put TrafficPolicy n/p");
    assert_eq!(scene.policy("q", 2, "shop"), "put TrafficPolicy n/q");
    assert_eq!(scene.commands(), "1 s, 2 team=shop", "they are read all the same");
    assert_eq!(scene.keys_of(1, &secret("s", 1)), "tls.crt");
    assert_eq!(scene.with_spec("p", 3, &users("n", "t", "tls.crt")), "", "what it was guards while it waits");
    assert_eq!(scene.commands(), "3 t");
    let gone = gone(Kind::TrafficPolicy, &with_spec("p", 4, &json!({})));
    assert_eq!(scene.read(Kind::TrafficPolicy, vec![gone]), "remove TrafficPolicy n/p, remove Secret n/s");
    assert_eq!(scene.commands(), "forget 3");
    assert_eq!(scene.with_spec("p", 5, &users("n", "t", "tls.crt")), "put TrafficPolicy n/p", "it is new again");
}

#[test]
fn a_policy_of_connections_that_is_new_is_told_before_its_secret_so_that_nothing_is_sent_in_plain_text() {
    let mut scene = Scene::listed(&["s", "t"]);
    let mut connect = |version: u32, secret: &str| {
        let spec = json!({ "tls": { "secretRef": { "name": secret } } });
        let policy = put(Kind::BackendConfigPolicy, &with_spec("c", version, &spec));
        scene.read(Kind::BackendConfigPolicy, vec![policy])
    };
    assert_eq!(connect(2, "s"), "put BackendConfigPolicy n/c");
    assert_eq!(connect(3, "t"), "", "what it was closes while it waits");
    assert_eq!(scene.commands(), "1 s, 2 t", "they are read all the same");
}

#[test]
fn a_policy_of_the_first_list_is_told_after_its_secrets_for_nothing_is_made_of_it_before() {
    let mut scene = Scene::new();
    let list = [users("n", "s", "tls.crt"), users("m", "s", "tls.crt")].map(|spec| with_spec("p", 1, &spec));
    let [own, other] = list.map(|policy| put(Kind::TrafficPolicy, &policy));
    assert_eq!(scene.read(Kind::TrafficPolicy, vec![Event::ListStarted, own, Event::ListComplete]), "");
    assert_eq!(scene.read(Kind::TrafficPolicy, vec![other]), "", "all of the list was not told yet");
    let list = vec![Event::ListStarted, put(Kind::Secret, &secret("s", 1)), Event::ListComplete];
    assert_eq!(scene.read(Kind::Secret, list), "synced Secret");
    assert_eq!(scene.commands(), "1 s");
    assert_eq!(scene.late(1, "slow"), "unreadable Secret n/s: slow, put TrafficPolicy n/p, synced TrafficPolicy");
}

#[test]
fn a_policy_is_told_as_soon_whether_a_secret_of_another_namespace_exists_or_not() {
    let mut scene = Scene::listed(&["own"]);
    let mut theirs = secret("s", 1);
    theirs["metadata"]["namespace"] = "m".into();
    scene.secret(&theirs);
    scene.told_policy("p");
    assert_eq!(scene.with_spec("p", 2, &users("m", "s", "tls.crt")), "put TrafficPolicy n/p");
    assert_eq!(scene.commands(), "1 s");
    assert_eq!(scene.with_spec("p", 3, &users("m", "missing", "tls.crt")), "put TrafficPolicy n/p");
    assert_eq!(scene.commands(), "forget 1");

    let mut both = users("n", "own", "tls.crt");
    let header = json!({ "name": "h", "secretRef": { "name": "s", "namespace": "m", "key": "tls.key" } });
    both["headerModifiers"] = json!({ "request": { "set": [header] } });
    assert_eq!(scene.with_spec("p", 4, &both), "");
    assert_eq!(scene.commands(), "2 s, 3 own");
    scene.0.arrived(3, vec![content(&secret("own", 1))]);
    let told = scene.0.take_observed();
    assert!(matches!(&told[..], [_, Observed::Put { object: api::Object::TrafficPolicy(_), .. }]), "{told:?}");
}

#[test]
fn a_key_that_a_policy_names_no_more_is_not_kept() {
    let mut scene = Scene::listed(&["s"]);
    let name = |scene: &mut Scene, version: u32, key: &str| scene.with_spec("p", version, &users("n", "s", key));
    name(&mut scene, 2, "tls.crt");
    assert_eq!(scene.keys_of(1, &secret("s", 1)), "tls.crt");
    assert_eq!(name(&mut scene, 3, "other"), "");
    assert_eq!(name(&mut scene, 4, "tls.key"), "");
    assert_eq!(scene.keys_of(2, &secret("s", 1)), "tls.crt tls.key", "what is in force, and what comes next");
    scene.secret(&secret("s", 5));
    assert_eq!(scene.keys_of(3, &secret("s", 5)), "tls.key");
    for version in 6..20 {
        name(&mut scene, version, &format!("k{version}"));
    }
    name(&mut scene, 20, "tls.key");
    assert_eq!(scene.commands(), "1 s, 2 s, 3 s, 4 s", "it is read once for all of them");
    assert_eq!(scene.keys_of(4, &secret("s", 5)), "tls.key");
}

#[test]
fn what_only_a_superseded_version_needed_is_let_go() {
    let mut scene = Scene::listed(&["a", "b"]);
    assert_eq!(scene.policy("p", 2, "shop"), "put TrafficPolicy n/p");
    scene.selected(1, &[]);
    assert_eq!(scene.commands(), "1 team=shop");
    assert_eq!(scene.policy("p", 3, "x"), "");
    assert_eq!(scene.policy("p", 4, "y"), "");
    assert_eq!(scene.commands(), "2 team=x, 3 team=y, forget 2");
    assert_eq!(scene.policy("p", 5, "shop"), "put TrafficPolicy n/p", "what is in force was not let go");
    assert_eq!(scene.commands(), "forget 3");

    assert_eq!(scene.gateway("g", 2, &["a"]), "");
    assert_eq!(scene.gateway("g", 3, &["b"]), "");
    assert_eq!(scene.commands(), "4 a, 5 b, forget 4");
    assert_eq!(scene.arrived(5, &[secret("b", 1)]), "put Secret n/b, put Gateway n/g");
}

fn kept(secrets: &[&str]) -> Arc<Kept> {
    let needed = |name: &&str| {
        let id = ObjectId::new(Kind::Secret, "n", *name);
        let keys = Keys::These(["tls.crt".into(), "tls.key".into()].into());
        let references = vec![Reference { id, keys }];
        let hash = std::array::from_fn(|at| name.as_bytes().get(at).copied().unwrap_or_default());
        (hash, Arc::new(Requirements { references, selections: Vec::new() }))
    };
    Arc::new(secrets.iter().map(needed).collect())
}

#[test]
fn what_is_needed_by_what_is_kept_is_read_whatever_objects_say() {
    let mut scene = Scene::listed(&["s", "t"]);
    assert_eq!(scene.gateway("g", 2, &["s"]), "");
    assert_eq!(scene.commands(), "1 s");
    assert_eq!(scene.arrived(1, &[secret("s", 1)]), "put Secret n/s, put Gateway n/g");
    scene.0.keep(&kept(&["s", "t"]));
    assert_eq!(scene.commands(), "2 t");
    assert_eq!(scene.arrived(2, &[secret("t", 1)]), "put Secret n/t");
    assert_eq!(scene.gateway("g", 3, &[]), "put Gateway n/g", "it is needed still");
    scene.0.keep(&kept(&["t"]));
    assert_eq!(scene.told(), "remove Secret n/s");
    scene.0.keep(&kept(&[]));
    assert_eq!(scene.told(), "remove Secret n/t");
}

#[test]
fn secrets_are_synced_once_what_is_kept_has_those_that_it_needs() {
    let mut scene = Scene::new();
    scene.0.keep(&kept(&["s", "absent"]));
    let list = vec![Event::ListStarted, put(Kind::Secret, &secret("s", 1)), Event::ListComplete];
    assert_eq!(scene.read(Kind::Secret, list), "");
    assert_eq!(scene.commands(), "1 s");
    assert_eq!(scene.arrived(1, &[secret("s", 1)]), "put Secret n/s, synced Secret");
}
