use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::files::FilePlaces;

fn key(path: &str) -> FileKey {
    FileKey::new(0, Path::new(path))
}

fn route(name: &str, host: &str) -> String {
    format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n  name: {name}\n  namespace: web\n\
         spec:\n  hostnames:\n  - {host}\n"
    )
}

/// A route that an API server would refuse.
fn bad(name: &str) -> String {
    route(name, "[1]")
}

#[derive(Default)]
struct World {
    manifests: Manifests,
    objects: BTreeMap<ObjectId, Object>,
}

impl World {
    fn load(&mut self, path: &str, text: &str) -> Vec<String> {
        self.manifests.load(key(path), text.as_bytes());
        self.settle()
    }

    fn remove(&mut self, path: &str) -> Vec<String> {
        self.manifests.remove(&key(path));
        self.settle()
    }

    /// Applies what changed; says what that is.
    fn settle(&mut self) -> Vec<String> {
        let mut changes = Vec::new();
        for change in self.manifests.take_changes() {
            match change {
                Change::Put(object) => {
                    changes.push(format!("put {}", object.id()));
                    let old = self.objects.insert(object.id(), object);
                    assert_ne!(old.as_ref(), self.objects.get(&id_of(&changes)), "a change changes something");
                }
                Change::Remove(id) => {
                    changes.push(format!("remove {id}"));
                    assert!(self.objects.remove(&id).is_some(), "only what is there is removed");
                }
            }
        }
        changes
    }

    /// Hostname of every route, the oldest route first.
    fn hosts(&self) -> Vec<String> {
        let mut routes: Vec<_> = self
            .objects
            .values()
            .filter_map(|object| match object {
                Object::HttpRoute(route) => Some((
                    route.metadata.creation_timestamp,
                    format!("{}={}", route.metadata.name, route.spec.hostnames.first().map_or("", |host| host)),
                )),
                _ => None,
            })
            .collect();
        routes.sort();
        routes.into_iter().map(|(_, text)| text).collect()
    }

    fn problems(&self) -> Vec<String> {
        self.manifests
            .problems()
            .into_iter()
            .map(|FileProblem { file, position, object, problem, kept }| {
                let object = object.map(|id| format!(" {id}")).unwrap_or_default();
                let kept = if kept { " (kept)" } else { "" };
                format!("{}:{position}{object} {} {}{kept}", file.display(), problem.severity, problem)
            })
            .collect()
    }
}

fn id_of(changes: &[String]) -> ObjectId {
    let text = changes.last().expect("just pushed").strip_prefix("put ").expect("a put");
    let (kind, name) = text.split_once(' ').expect("kind and name");
    let kind = *Kind::ALL.iter().find(|known| known.as_str() == kind).expect("a kind");
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    ObjectId::new(kind, namespace, name)
}

#[test]
fn objects_come_change_and_go_with_their_files() {
    let mut world = World::default();
    let changes = world.load("a.yaml", &(route("a", "a.com") + &route("b", "b.com")));
    assert_eq!(changes, ["put HTTPRoute web/a", "put HTTPRoute web/b", "put Namespace web"]);
    assert_eq!(world.load("a.yaml", &(route("a", "a.com") + &route("b", "c.com"))), ["put HTTPRoute web/b"]);
    assert_eq!(world.load("a.yaml", &route("b", "c.com")), ["remove HTTPRoute web/a"]);
    assert_eq!(world.remove("a.yaml"), ["remove HTTPRoute web/b", "remove Namespace web"]);
    assert!(world.objects.is_empty());
}

#[test]
fn nothing_changes_where_only_comments_and_places_do() {
    let mut world = World::default();
    let text = route("a", "a.com") + &route("b", "b.com");
    world.load("a.yaml", &text);
    assert_eq!(world.load("a.yaml", &format!("# on top\n{text}")), [""; 0]);
    assert_eq!(world.load("a.yaml", &text.replace("spec:", "spec: # the spec")), [""; 0]);
}

#[test]
fn a_file_that_does_not_parse_keeps_its_last_good_objects() {
    let mut world = World::default();
    world.load("a.yaml", &(route("a", "a.com") + &route("b", "b.com")));
    let changes = world.load("a.yaml", &(route("a", "new.com") + "---\nkind: [HTTPRoute\nname: b\n"));
    assert_eq!(changes, [""; 0]);
    assert_eq!(world.hosts(), ["a=a.com", "b=b.com"]);
    let [problem] = &world.problems()[..] else { panic!("one problem: {:?}", world.problems()) };
    assert!(problem.starts_with("a.yaml:12:"), "the line of the file, not of the document: {problem}");
    assert!(problem.ends_with("(kept)"), "{problem}");
    assert_eq!(world.manifests.broken_files(), 1);

    world.load("a.yaml", &route("a", "new.com"));
    assert_eq!(world.hosts(), ["a=new.com"]);
    assert_eq!(world.problems(), [""; 0]);
    assert_eq!(world.manifests.broken_files(), 0);
}

#[test]
fn a_file_that_never_parsed_takes_nothing_from_the_others() {
    let mut world = World::default();
    world.load("a.yaml", "{");
    world.load("b.yaml", &route("b", "b.com"));
    assert_eq!(world.hosts(), ["b=b.com"]);
    assert_eq!(world.remove("a.yaml"), [""; 0]);
    assert_eq!(world.problems(), [""; 0]);
}

#[test]
fn a_file_that_is_not_utf8_is_reported_with_its_place() {
    let mut world = World::default();
    world.manifests.load(key("a.yaml"), b"a: 1\nb: \xff");
    let problems = world.problems();
    assert_eq!(problems, ["a.yaml:2:4 refused is not UTF-8: save the file in that encoding"]);
}

#[test]
fn a_bad_manifest_keeps_its_own_last_good_object_and_the_others_change() {
    let mut world = World::default();
    world.load("a.yaml", &(route("a", "a.com") + &route("b", "b.com")));
    let changes = world.load("a.yaml", &(bad("a") + &route("b", "new.com") + &route("c", "c.com")));
    assert_eq!(changes, ["put HTTPRoute web/b", "put HTTPRoute web/c"]);
    assert_eq!(world.hosts(), ["a=a.com", "b=new.com", "c=c.com"]);
    let [problem] = &world.problems()[..] else { panic!("one problem: {:?}", world.problems()) };
    assert!(problem.starts_with("a.yaml:9:5 HTTPRoute web/a refused spec.hostnames[0]: must be "), "{problem}");
    assert!(problem.ends_with("(kept)"), "{problem}");
    assert_eq!(world.manifests.broken_files(), 0);
}

#[test]
fn a_bad_manifest_that_is_removed_takes_its_last_good_object_along() {
    let mut world = World::default();
    world.load("a.yaml", &(route("a", "a.com") + &route("b", "b.com")));
    world.load("a.yaml", &(bad("a") + &route("b", "b.com")));
    assert_eq!(world.load("a.yaml", &route("b", "b.com")), ["remove HTTPRoute web/a"]);
    assert_eq!(world.problems(), [""; 0]);
}

#[test]
fn a_bad_manifest_that_moves_to_another_file_keeps_what_was_served() {
    let mut world = World::default();
    world.load("a.yaml", &route("a", "a.com"));
    assert_eq!(world.load("b.yaml", &bad("a")), [""; 0]);
    assert_eq!(world.remove("a.yaml"), [""; 0]);
    assert_eq!(world.hosts(), ["a=a.com"]);
    assert_eq!(world.remove("b.yaml"), ["remove HTTPRoute web/a", "remove Namespace web"]);
}

#[test]
fn nothing_is_removed_from_a_file_with_a_manifest_that_could_be_anything() {
    let mut world = World::default();
    world.load("a.yaml", &(route("a", "a.com") + &route("b", "b.com")));
    let nameless = route("a", "a.com").replace("  name: a\n", "");
    assert_eq!(world.load("a.yaml", &(nameless + &route("b", "new.com"))), ["put HTTPRoute web/b"]);
    assert_eq!(world.hosts(), ["a=a.com", "b=new.com"]);
    assert_eq!(world.load("a.yaml", &route("b", "new.com")), ["remove HTTPRoute web/a"]);
}

#[test]
fn a_misspelt_kind_keeps_the_object_it_was() {
    let mut world = World::default();
    world.load("a.yaml", &(route("a", "a.com") + &route("b", "b.com")));
    for _ in 0..2 {
        let changes =
            world.load("a.yaml", &(route("a", "a.com").replace("HTTPRoute", "HttpRoute") + &route("b", "b.com")));
        assert_eq!(changes, [""; 0]);
    }
    let [problem] = &world.problems()[..] else { panic!("one problem: {:?}", world.problems()) };
    assert!(problem.contains("ignored kind: ") && problem.contains("did you mean"), "{problem}");
    assert_eq!(world.load("a.yaml", &route("b", "b.com")), ["remove HTTPRoute web/a"]);
}

#[test]
fn a_kind_of_others_is_a_warning_and_holds_nothing_that_has_its_name() {
    let mut world = World::default();
    let stateful_set = "---\napiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: web, namespace: web}\n";
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: web}\nspec: {}\n";
    world.load("a.yaml", &format!("{stateful_set}{service}"));
    let changes = world.load("a.yaml", stateful_set);
    assert_eq!(changes, ["remove Service web/web", "remove Namespace web"]);
    let problems = world.problems();
    let expected = "a.yaml:3:1 warning kind: apps/v1 StatefulSet is not a kind that is read here, so this manifest of \
                    web/web has no effect";
    assert_eq!(problems, [expected]);
}

#[test]
fn a_field_that_nobody_knows_has_no_effect_unless_the_policy_is_refused_for_it() {
    let mut world = World::default();
    let policy = "---\napiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\n\
                  metadata: {name: p, namespace: web}\nspec:\n  jwtAuht: {}\n";
    world.load("a.yaml", &(policy.to_owned() + &route("r", "r.com") + "  rulez: []\n"));
    let expected = [
        "a.yaml:6:3 TrafficPolicy web/p ignored spec.jwtAuht: this field is not known: correct its name, or remove it",
        "a.yaml:16:3 HTTPRoute web/r ignored spec.rulez: this field is not known and has no effect: correct its name, \
         or remove it",
    ];
    assert_eq!(world.problems(), expected);
}

/// A policy on the routes named, of which the rest of the spec is `rest`.
fn policy(targets: &[&str], rest: &str) -> String {
    let target = |name: &&str| format!("  - {{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {name}}}\n");
    let targets: String = targets.iter().map(target).collect();
    format!(
        "---\napiVersion: gateway.portcullis.dev/v1alpha1\nkind: DelegationPolicy\nmetadata:\n  name: p\n  \
         namespace: web\nspec:\n  targetRefs:\n{targets}  {rest}\n"
    )
}

impl World {
    /// What the policy targets, and whether translation refuses it.
    fn policy(&self) -> Option<(Vec<&str>, bool)> {
        let object = self.objects.get(&ObjectId::new(Kind::DelegationPolicy, "web", "p"))?;
        let Object::DelegationPolicy(policy) = object else { panic!("another kind: {object:?}") };
        Some((policy.spec.target_refs.iter().map(|target| &*target.name).collect(), !sound(object)))
    }
}

#[test]
fn a_policy_that_does_not_decode_is_refused_on_all_that_it_targets() {
    let mut world = World::default();
    let changes = world.load("a.yaml", &policy(&["a", "b"], "requireAuth: \"yes\""));
    assert_eq!(changes, ["put DelegationPolicy web/p", "put Namespace web"]);
    assert_eq!(world.policy(), Some((vec!["a", "b"], true)));
    let problem =
        "a.yaml:11:3 DelegationPolicy web/p refused spec.requireAuth: must be true or false, found a string \"yes\"";
    assert_eq!(world.problems(), [problem]);
    world.load("a.yaml", &policy(&["b"], "requireAuth: 1"));
    assert_eq!(world.policy(), Some((vec!["b"], true)), "it is edited like any other");
    world.load("a.yaml", &policy(&["c"], "requireAuth: true"));
    assert_eq!(world.policy(), Some((vec!["c"], false)));
    assert_eq!(world.remove("a.yaml"), ["remove DelegationPolicy web/p", "remove Namespace web"]);
}

#[test]
fn a_policy_that_no_longer_decodes_stays_what_it_was() {
    let (good, bad) = (policy(&["a"], "requireAuth: true"), policy(&["b"], "requireAuth: 1"));
    let mut world = World::default();
    world.load("a.yaml", &good);
    assert_eq!(world.load("a.yaml", &bad), [""; 0]);
    assert_eq!(world.policy(), Some((vec!["a"], false)));
    let [problem] = &world.problems()[..] else { panic!("one problem: {:?}", world.problems()) };
    assert!(problem.ends_with("found a number 1 (kept)"), "{problem}");
    assert_eq!(world.load("b.yaml", &bad), [""; 0]);
    assert_eq!(world.remove("a.yaml"), [""; 0], "nor where it moves to another file");
    assert_eq!(world.policy(), Some((vec!["a"], false)));
}

#[test]
fn a_policy_that_does_not_decode_yields_to_one_of_its_name_that_does() {
    let mut world = World::default();
    world.manifests.load(key("a.yaml"), policy(&["a"], "requireAuth: 1").as_bytes());
    world.load("b.yaml", &policy(&["b"], "requireAuth: true"));
    assert_eq!(world.policy(), Some((vec!["b"], false)));
    let [problem, _] = &world.problems()[..] else { panic!("two problems: {:?}", world.problems()) };
    assert!(problem.contains("the one in b.yaml is the one that counts"), "{problem}");
    world.load("b.yaml", &policy(&["c"], "requireAuth: true"));
    assert_eq!(world.policy(), Some((vec!["c"], false)));
}

#[test]
fn of_two_objects_with_one_name_the_first_counts_whichever_came_first() {
    let mut world = World::default();
    world.load("b.yaml", &route("x", "b.com"));
    world.load("a.yaml", &(route("w", "w.com") + &route("x", "a.com")));
    assert_eq!(world.hosts(), ["w=w.com", "x=a.com"]);
    let [problem] = &world.problems()[..] else { panic!("one problem: {:?}", world.problems()) };
    assert!(problem.starts_with("b.yaml:2:1 HTTPRoute web/x ignored metadata.name: "), "{problem}");
    assert!(problem.contains("a.yaml"), "{problem}");
    world.remove("a.yaml");
    assert_eq!(world.hosts(), ["x=b.com"]);
    assert_eq!(world.problems(), [""; 0]);
    world.load("b.yaml", &(route("x", "1.com") + &route("x", "2.com")));
    assert_eq!(world.hosts(), ["x=1.com"]);
    let [problem] = &world.problems()[..] else { panic!("one problem: {:?}", world.problems()) };
    assert!(problem.starts_with("b.yaml:11:1 HTTPRoute web/x ignored"), "{problem}");
}

#[test]
fn an_earlier_argument_counts_before_an_earlier_path() {
    let mut world = World::default();
    world.manifests.load(FileKey::new(1, Path::new("a/a.yaml")), route("x", "second.com").as_bytes());
    world.manifests.load(FileKey::new(0, Path::new("b/b.yaml")), route("x", "first.com").as_bytes());
    world.settle();
    assert_eq!(world.hosts(), ["x=first.com"]);
}

#[test]
fn age_follows_places_and_a_timestamp_that_is_given_is_kept() {
    let mut world = World::default();
    let stamped =
        route("old", "o.com").replace("metadata:\n", "metadata:\n  creationTimestamp: 2024-01-01T00:00:00Z\n");
    world.load("z.yaml", &stamped);
    world.load("b.yaml", &route("b", "b.com"));
    world.load("a.yaml", &(route("r2", "2.com") + &route("r1", "1.com")));
    assert_eq!(world.hosts(), ["old=o.com", "r2=2.com", "r1=1.com", "b=b.com"]);
    assert_eq!(world.load("0.yaml", &route("r0", "0.com")), ["put HTTPRoute web/r0"]);
}

#[test]
fn a_name_that_yaml_takes_for_something_else_is_to_be_quoted() {
    for name in ["12", "yes", "1.5", "~"] {
        let mut world = World::default();
        world.load("a.yaml", &route(name, "a.com"));
        let [problem] = &world.problems()[..] else { panic!("one problem: {:?}", world.problems()) };
        let expected = if name == "~" { "is missing" } else { "in quotes" };
        assert!(problem.starts_with("a.yaml:5:3 refused metadata.name: "), "{problem}");
        assert!(problem.contains(expected), "{problem}");
    }
}

#[test]
fn lists_are_their_items() {
    let mut world = World::default();
    let list = "kind: List\napiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: s}\n  spec: {}\n\
                - apiVersion: v1\n  kind: Service\n  metadata: {name: t}\n  spec: {ports: [{port: x}]}\n";
    assert_eq!(world.load("a.yaml", list), ["put Service default/s", "put Namespace default"]);
    let [problem] = &world.problems()[..] else { panic!("one problem: {:?}", world.problems()) };
    assert!(problem.starts_with("a.yaml:11:"), "the line within the list: {problem}");
    let typed = "kind: ServiceList\napiVersion: v1\nitems:\n- metadata: {name: s}\n  spec: {}\n";
    assert_eq!(world.load("a.yaml", typed), [""; 0]);
    assert_eq!(world.load("a.json", &list.replace('\n', "")), [""; 0]);
}

#[test]
fn a_json_file_is_read_as_json() {
    let mut world = World::default();
    let text = "{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"s\"},\n\t\"spec\":{}}";
    assert_eq!(world.load("a.json", text), ["put Service default/s", "put Namespace default"]);
}

#[test]
fn a_namespace_that_is_written_takes_the_place_of_the_implied_one() {
    let mut world = World::default();
    world.load("a.yaml", &route("a", "a.com"));
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: web, labels: {team: x}}\n";
    assert_eq!(world.load("ns.yaml", namespace), ["put Namespace web"]);
    assert_eq!(world.remove("a.yaml"), ["remove HTTPRoute web/a"]);
    assert_eq!(world.remove("ns.yaml"), ["remove Namespace web"]);
    world.load("ns.yaml", namespace);
    world.load("a.yaml", &route("a", "a.com"));
    assert_eq!(world.remove("ns.yaml"), ["put Namespace web"], "implied again");
}

#[test]
fn the_places_of_fields_can_be_found_later() {
    let mut world = World::default();
    let item = |name: &str| {
        let manifest = route(name, "c.com").replace("---\n", "").replace('\n', "\n  ");
        format!("- {}\n", manifest.trim_end())
    };
    let list = "---\nkind: List\napiVersion: v1\nitems:\n".to_owned() + &item("c") + &item("d");
    let text = "# top\n".to_owned() + &route("a", "a.com") + &route("b", "b.com") + &list;
    world.load("a.yaml", &text);
    let mut places = FilePlaces::of(&text);
    let mut locate = |name: &str, field: &str| {
        let origin = world.manifests.origin(&ObjectId::new(Kind::HttpRoute, "web", name)).expect("it is there");
        let Position { line, column } = places.locate(&origin, field);
        (origin.position.line, line, column)
    };
    assert_eq!(locate("b", "spec.hostnames[0]"), (12, 19, 5));
    assert_eq!(locate("b", "spec.rules[0].matches"), (12, 17, 1));
    assert_eq!(locate("b", "metadata.name"), (12, 15, 3));
    assert_eq!(locate("a", "spec.hostnames[0]"), (3, 10, 5));
    assert_eq!(locate("a", ""), (3, 3, 1));
    assert_eq!(locate("d", "spec.hostnames[0]"), (32, 39, 7));
    assert_eq!(locate("c", "spec.hostnames[0]"), (24, 31, 7));
    assert_eq!(world.manifests.origin(&ObjectId::new(Kind::Namespace, "", "web")), None);
}

#[test]
fn the_values_of_a_secret_show_in_no_report() {
    let mut world = World::default();
    world.load("a.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: TOPSECRET\n");
    world.load("b.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: t}\ndata: {tls.key: [TOPSECRET]}\n");
    world.load("c.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: u}\ndata: {tls.key: 'TOP SECRET!'}\n");
    world.load("d.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: v}\ndata: {tls.key: 'TOPSECRET\n");
    let problems = world.problems();
    assert_eq!(problems.len(), 4, "{problems:?}");
    assert!(problems.iter().all(|problem| !problem.contains("TOP")), "{problems:?}");
}

#[test]
fn ten_thousand_documents_in_a_file_are_fine() {
    let mut world = World::default();
    let mut text: String = (0..10_000).map(|n| route(&format!("r{n}"), "a.com")).collect();
    assert_eq!(world.load("a.yaml", &text).len(), 10_001);
    text.push_str(&route("last", "z.com"));
    assert_eq!(world.load("a.yaml", &text), ["put HTTPRoute web/last"]);
    assert_eq!(world.hosts().last().map(String::as_str), Some("last=z.com"));
}

#[test]
fn an_object_of_a_megabyte_is_fine() {
    let mut world = World::default();
    let text =
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: big}}\ndata: {{a: '{}'}}\n", "x".repeat(1 << 20));
    assert_eq!(world.load("a.yaml", &text), ["put ConfigMap default/big", "put Namespace default"]);
}

/// What a file of the generated world holds.
fn content() -> impl Strategy<Value = String> {
    let manifest =
        (prop::sample::select(vec!["a", "b", "c", "d"]), 0..3u8, 0..12u8).prop_map(|(name, host, kind)| match kind {
            0 => bad(name),
            1 => "---\n{\n".to_owned(),
            2 => format!("---\nkind: Namespace\napiVersion: v1\nmetadata: {{name: web, labels: {{x: '{host}'}}}}\n"),
            3 => route(name, "x.com").replace("HTTPRoute", "HTTPRout"),
            4 => route(name, "x.com").replace("  name:", "  nom:"),
            5 => "--- # nothing\n".to_owned(),
            6 => route(name, "old.com").replace("  name", "  creationTimestamp: 2020-02-02T00:00:00Z\n  name"),
            _ => route(name, &format!("{host}.com")),
        });
    prop::collection::vec(manifest, 0..6).prop_map(|manifests| manifests.concat())
}

/// Whether nothing in a text is wrong in a way that keeps what was there before.
fn is_sound(text: &str) -> bool {
    let mut alone = World::default();
    alone.load("x.yaml", text);
    alone.manifests.problems().iter().all(|problem| problem.problem.reason == Reason::Duplicate)
}

proptest! {
    #[test]
    fn any_history_of_files_ends_as_a_fresh_load_of_them(
        edits in prop::collection::vec((prop::sample::select(vec!["1", "2", "3", "4"]), prop::option::weighted(0.8, content())), 1..30),
        last in prop::collection::vec(content(), 4),
    ) {
        let mut world = World::default();
        for (file, text) in edits {
            match text {
                Some(text) => world.load(file, &text),
                None => world.remove(file),
            };
        }
        // What is broken keeps what was, which no fresh load can know; so in the end all is sound, or gone.
        let mut fresh = World::default();
        for (file, text) in ["1", "2", "3", "4"].iter().zip(last) {
            if is_sound(&text) {
                world.load(file, &text);
                fresh.load(file, &text);
            } else {
                world.remove(file);
            }
        }
        prop_assert_eq!(world.hosts(), fresh.hosts());
        prop_assert_eq!(world.problems(), fresh.problems());
        let without_age = |world: &World| {
            let mut objects = world.objects.clone();
            for object in objects.values_mut() {
                if let Some(metadata) = object.metadata_mut() {
                    metadata.creation_timestamp = None;
                }
            }
            objects
        };
        prop_assert_eq!(without_age(&world), without_age(&fresh));
    }

    #[test]
    fn no_bytes_panic(files in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 0..5)) {
        let mut world = World::default();
        for content in files {
            world.manifests.load(key("a.yaml"), &content);
            world.manifests.load(key("a.json"), &content);
            world.settle();
            world.problems();
        }
    }

    #[test]
    fn no_damage_to_a_manifest_panics(
        text in content(), cut in any::<prop::sample::Index>(), byte in any::<u8>(), drop in any::<bool>()
    ) {
        let mut content = (route("a", "a.com") + &text).into_bytes();
        let at = cut.index(content.len());
        if drop {
            content.truncate(at);
        } else {
            content[at] = byte;
        }
        let mut world = World::default();
        world.manifests.load(key("a.yaml"), &content);
        world.settle();
        world.problems();
    }
}
