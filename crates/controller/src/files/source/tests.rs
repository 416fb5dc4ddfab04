use std::{fs, sync::mpsc};

use api::ObjectId;

use super::*;

/// Follows a folder and collects what it says.
struct World {
    folder: tempfile::TempDir,
    updates: mpsc::Receiver<Update>,
    _following: Following,
}

impl World {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            fs::write(folder.path().join(name), text).expect("a file");
        }
        let (sender, updates) = mpsc::channel();
        let files = Files::open(vec![folder.path().to_owned()]).expect("it is there");
        let following = files.follow(move |update| sender.send(update).is_ok()).expect("a thread");
        Self { folder, updates, _following: following }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).expect("a file");
    }

    /// Waits until the updates have told all of this, in any number of them.
    fn expect(&self, mut expected: Vec<&str>) {
        while !expected.is_empty() {
            let update = self.updates.recv_timeout(Duration::from_mins(1)).unwrap_or_else(|_| panic!("{expected:?}"));
            for change in update.changes {
                let text = match change {
                    Change::Put(object) => format!("put {}", object.id()),
                    Change::Remove(id) => format!("remove {id}"),
                };
                let place = expected.iter().position(|expected| *expected == text);
                expected.remove(place.unwrap_or_else(|| panic!("{text} instead of {expected:?}")));
            }
        }
    }
}

fn service(name: &str) -> String {
    format!("---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{}}\n")
}

#[test]
fn edits_are_followed() {
    let world = World::new(&[("a.yaml", &service("a"))]);
    world.expect(vec!["put Service default/a", "put Namespace default"]);
    world.write("a.yaml", &(service("a") + &service("b")));
    world.expect(vec!["put Service default/b"]);
    fs::create_dir(world.folder.path().join("sub")).expect("a folder");
    world.write("sub/c.yaml", &service("c"));
    world.expect(vec!["put Service default/c"]);
    fs::remove_dir_all(world.folder.path().join("sub")).expect("it is there");
    world.expect(vec!["remove Service default/c"]);
}

#[test]
fn an_atomic_rename_is_one_change() {
    let world = World::new(&[("a.yaml", &service("a"))]);
    world.expect(vec!["put Service default/a", "put Namespace default"]);
    for n in 0..20 {
        world.write(".a.yaml.swp", &(service("a") + &service(&format!("n{n}"))));
        fs::rename(world.folder.path().join(".a.yaml.swp"), world.folder.path().join("a.yaml"))
            .expect("the same folder");
        let new = format!("put Service default/n{n}");
        let old = format!("remove Service default/n{}", n - 1);
        world.expect(if n == 0 { vec![&new] } else { vec![&new, &old] });
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_half_written_file_is_not_read() {
    use std::io::Write;

    let world = World::new(&[("a.yaml", &(service("a") + &service("b")))]);
    world.expect(vec!["put Service default/a", "put Service default/b", "put Namespace default"]);
    // Truncated, and then written in two parts, the first of which is valid by itself. Another file changes meanwhile,
    // so that it is known when the source has looked at its folder.
    let mut file = fs::File::create(world.folder.path().join("a.yaml")).expect("a file");
    file.write_all(service("a").as_bytes()).expect("written");
    world.write("c.yaml", &service("c"));
    world.expect(vec!["put Service default/c"]);
    file.write_all((service("b") + &service("d")).as_bytes()).expect("written");
    drop(file);
    world.expect(vec!["put Service default/d"]);
}

#[test]
fn a_file_that_is_named_is_followed_when_it_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("services");
    fs::write(&path, service("a")).expect("a file");
    let (sender, updates) = mpsc::channel();
    let files = Files::open(vec![path.clone()]).expect("it is there");
    let following = files.follow(move |update| sender.send(update).is_ok()).expect("a thread");
    let world = World { folder, updates, _following: following };
    world.expect(vec!["put Service default/a", "put Namespace default"]);
    world.write("new", &(service("a") + &service("b")));
    fs::rename(world.folder.path().join("new"), path).expect("the same folder");
    world.expect(vec!["put Service default/b"]);
}

#[test]
fn paths_are_shown_as_they_were_given() {
    let shown = [PathBuf::from("./files"), PathBuf::from("a.yaml")];
    let absolute = [PathBuf::from("/home/files"), PathBuf::from("/home/a.yaml")];
    let cases = [("/home/files/x/y.yaml", "./files/x/y.yaml"), ("/home/a.yaml", "a.yaml"), ("/etc/x", "/etc/x")];
    for (path, expected) in cases {
        assert_eq!(as_shown(Path::new(path), &shown, &absolute), PathBuf::from(expected));
    }
}

#[test]
fn what_is_not_there_cannot_be_followed() {
    let error = Files::open(vec!["/nonexistent/folder".into()]).err().expect("an error");
    assert!(error.to_string().starts_with("cannot read /nonexistent/folder: "), "{error}");
}

#[cfg(unix)]
#[test]
fn a_pipe_is_refused_and_not_taken_for_an_empty_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe.yaml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    for path in [pipe, "/dev/null".into()] {
        let error = Files::open(vec![path]).err().expect("an error");
        assert!(error.to_string().contains("it is neither a file nor a folder"), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn a_mounted_config_map_is_followed_when_it_is_replaced_as_a_whole() {
    let world = World::new(&[]);
    assert!(world.updates.recv_timeout(Duration::from_mins(1)).expect("a first look").changes.is_empty());
    let path = |name: &str| world.folder.path().join(name);
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, path(name)).expect("a link");
    // As a kubelet does it: a new folder, and then one rename that everything leads through.
    let mount = |name: &str, services: &[&str]| {
        fs::create_dir(path(name)).expect("a folder");
        let text: String = services.iter().map(|name| service(name)).collect();
        world.write(&format!("{name}/services.yaml"), &text);
        link(name, "..data_tmp");
        fs::rename(path("..data_tmp"), path("..data")).expect("the same folder");
    };
    mount("..one", &["a", "b"]);
    link("..data/services.yaml", "services.yaml");
    world.expect(vec!["put Service default/a", "put Service default/b", "put Namespace default"]);
    mount("..two", &["b", "c"]);
    fs::remove_dir_all(path("..one")).expect("it is there");
    world.expect(vec!["put Service default/c", "remove Service default/a"]);
}

#[test]
fn a_manifest_that_is_nested_without_end_is_refused_and_ends_nothing() {
    let deep = |levels: usize| "{a: ".repeat(levels) + "1" + &"}".repeat(levels);
    let route = |levels| {
        format!(
            "kind: HTTPRoute\napiVersion: gateway.networking.k8s.io/v1\nmetadata: {{name: r}}\nspec: {{x: {}}}\n",
            deep(levels)
        )
    };
    let world = World::new(&[("a.yaml", &service("a")), ("b.yaml", &route(10_000)), ("c.yaml", &route(90))]);
    world.expect(vec!["put Service default/a", "put HTTPRoute default/r", "put Namespace default"]);
    world.write("b.yaml", &service("b"));
    world.expect(vec!["put Service default/b"]);
}

#[test]
fn a_burst_ends_where_the_files_end() {
    let world = World::new(&[]);
    for n in 0..200 {
        world.write(&format!("{n}.yaml"), &service(&format!("passing-{n}")));
        world.write(&format!("{n}.yaml"), &service(&format!("s{n}")));
        if n % 2 == 1 {
            fs::remove_file(world.folder.path().join(format!("{n}.yaml"))).expect("it is there");
        }
    }
    let expected: std::collections::BTreeSet<_> =
        (0..200).step_by(2).map(|n| format!("Service default/s{n}")).collect();
    let mut there = std::collections::BTreeSet::new();
    while there != expected {
        let update = world.updates.recv_timeout(Duration::from_mins(1)).expect("it comes to the end");
        for change in update.changes {
            match change {
                Change::Put(object) if object.id().kind == api::Kind::Service => {
                    there.insert(object.id().to_string());
                }
                Change::Remove(id) => drop(there.remove(&id.to_string())),
                Change::Put(_) => {}
            }
        }
    }
}

#[test]
fn events_become_signals() {
    let roots = [PathBuf::from("dir"), PathBuf::from("named")];
    let event = |kind, path: &str| signals(Ok(Event::new(kind).add_path(path.into())), &roots);
    let read = EventKind::Access(AccessKind::Open(AccessMode::Any));
    assert_eq!(event(read, "dir/a.yaml"), []);
    let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
    assert_eq!(event(closed, "dir/a.yaml"), [Signal::Closed("dir/a.yaml".into())]);
    assert_eq!(event(closed, "named"), [Signal::Closed("named".into())]);
    let removed = EventKind::Remove(RemoveKind::File);
    assert_eq!(event(removed, "dir/a.yaml"), [Signal::Changed("dir/a.yaml".into())]);
    for path in ["dir/notes.txt", "dir/.a.yaml.swp", "dir/.git/a.yaml"] {
        assert_eq!(event(removed, path), [], "{path}");
    }
    assert_eq!(event(EventKind::Remove(RemoveKind::Folder), "dir/sub"), [Signal::Anything]);
    assert_eq!(event(EventKind::Any, "dir/..data"), [Signal::Anything]);
    assert_eq!(signals(Err(notify::Error::generic("lost")), &roots), [Signal::Anything]);
    let lost = Event::new(EventKind::Other).set_flag(notify::event::Flag::Rescan);
    assert_eq!(signals(Ok(lost), &roots), [Signal::Anything]);
}

#[test]
fn a_problem_comes_with_the_objects() {
    let world = World::new(&[("a.yaml", "{"), ("b.yaml", &service("b"))]);
    let update = world.updates.recv_timeout(Duration::from_mins(1)).expect("the first look");
    assert_eq!((update.files, update.broken_files, update.problems.len()), (2, 1, 1));
    let id = ObjectId::new(api::Kind::Service, "default", "b");
    assert!(update.changes.iter().any(|change| matches!(change, Change::Put(object) if object.id() == id)));
}
