use std::sync::Arc;

use api::{Kind, ObjectId};
use records::{
    Stored,
    edition::{EditionError, Group, head_name},
    folder::Folder,
};
use serde_json::json;
use tokio::time::timeout;
use translate::Edition;

use super::*;

/// A folder in which nothing of one root can be written.
struct Failing {
    folder: Folder,
    name: String,
}

impl Store for Failing {
    async fn list(&self, kind: RecordKind) -> Result<Vec<Stored>, StoreError> {
        self.folder.list(kind).await
    }

    async fn replace(
        &self,
        kind: RecordKind,
        name: &str,
        data: Vec<u8>,
        version: Option<&str>,
    ) -> Result<Stored, StoreError> {
        if name == self.name {
            return Err(StoreError::Other("not now".to_owned()));
        }
        self.folder.replace(kind, name, data, version).await
    }

    async fn delete(&self, kind: RecordKind, name: &str, version: &str) -> Result<(), StoreError> {
        self.folder.delete(kind, name, version).await
    }

    async fn changed(&self, kind: RecordKind) {
        self.folder.changed(kind).await;
    }
}

fn root_id(name: &str) -> ObjectId {
    ObjectId::new(Kind::HttpRoute, "apps", name)
}

/// So many routes, of which the first is the root.
fn objects(root: &str, path: &str, count: usize) -> Edition {
    let route = |name: String| {
        let manifest = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"namespace": "apps", "name": name},
            "spec": {"rules": [{"matches": [{"path": {"type": "PathPrefix", "value": path}}]}]},
        });
        api::decode(manifest).expect("a route").object
    };
    let names = std::iter::once(root.to_owned()).chain((1..count).map(|number| format!("child-{number}")));
    names.map(route).collect()
}

/// The same as it is wanted.
fn edition(root: &str, path: &str, count: usize) -> WrittenEdition {
    let edition = objects(root, path, count);
    let groups: Vec<_> = edition.parts().map(|part| Group { of: part.hash(), objects: || part.objects() }).collect();
    let written = edition::write(&root_id(root), "", &groups, Timestamp::UNIX_EPOCH, None).expect("it can be stored");
    drop(groups);
    WrittenEdition { edition, written: Arc::new(written) }
}

/// What stands for the engine of a process.
struct Process {
    wants: watch::Sender<Wants>,
    leads: watch::Sender<bool>,
    told: mpsc::Receiver<EditionEvent>,
    number: u64,
    /// What is stored, as far as it was told, by record.
    stored: BTreeMap<String, Result<WrittenEdition, EditionError>>,
}

impl Process {
    fn start(store: impl Store, leads: bool) -> Self {
        let (wants, wanted) = watch::channel(Wants::default());
        let (leads, leading) = watch::channel(leads);
        let (sender, told) = mpsc::channel(16);
        let needs = Needs::new(watch::Sender::new(None));
        tokio::spawn(keep(store, Manners::FOLDER, wanted, leading, sender, needs));
        Self { wants, leads, told, number: 0, stored: BTreeMap::new() }
    }

    async fn next(&mut self) -> EditionEvent {
        let event = timeout(Duration::from_secs(20), self.told.recv()).await.expect("in time").expect("it works");
        if let EditionEvent::Stored(Ok(changed)) = &event {
            for StoredEdition { record, edition } in changed.clone() {
                match edition {
                    Some(edition) => drop(self.stored.insert(record, edition)),
                    None => drop(self.stored.remove(&record)),
                }
            }
        }
        event
    }

    /// Has this be wanted of a root, in the place of what is stored as far as it is known here.
    fn want(&mut self, root: &str, edition: Option<WrittenEdition>) {
        let record = head_name(&root_id(root));
        let parent = self.stored.get(&record).and_then(|stored| Some(stored.as_ref().ok()?.hash().to_owned()));
        self.number += 1;
        let wanted = Wanted { number: self.number, parent, edition };
        self.wants.send_modify(|wants| drop(Arc::make_mut(wants).insert(record, wanted)));
    }

    /// What comes of the next that was wanted.
    async fn outcome(&mut self) -> (String, Outcome) {
        loop {
            if let EditionEvent::Written { record, outcome, .. } = self.next().await {
                return (record, outcome);
            }
        }
    }

    /// Waits until it was told what is stored of a root.
    async fn until(&mut self, root: &str, is: impl Fn(Option<&Result<WrittenEdition, EditionError>>) -> bool) {
        let record = head_name(&root_id(root));
        while !is(self.stored.get(&record)) {
            self.next().await;
        }
    }
}

fn is(path: &str, count: usize) -> impl Fn(Option<&Result<WrittenEdition, EditionError>>) -> bool {
    move |stored| {
        stored.and_then(|stored| stored.as_ref().ok()).is_some_and(|read| read.edition == objects("root", path, count))
    }
}

fn is_unreadable(words: &str) -> impl Fn(Option<&Result<WrittenEdition, EditionError>>) -> bool {
    move |stored| stored.is_some_and(|stored| stored.as_ref().is_err_and(|why| why.to_string().contains(words)))
}

#[tokio::test]
async fn a_root_that_cannot_be_written_keeps_nobody_else_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Failing { folder: Folder::new(folder.path()), name: head_name(&root_id("a")) };
    let mut process = Process::start(store, true);
    process.want("a", Some(edition("a", "/a", 1)));
    process.want("b", Some(edition("b", "/b", 1)));
    let mut outcomes = BTreeMap::from([process.outcome().await]);
    outcomes.extend([process.outcome().await]);
    assert_eq!(outcomes[&head_name(&root_id("b"))], Outcome::Stored);
    assert_eq!(outcomes[&head_name(&root_id("a"))], Outcome::Failed("not now".to_owned()));
    // What another one wants next does not wait either.
    process.want("b", None);
    while process.outcome().await != (head_name(&root_id("b")), Outcome::Stored) {}
    assert!(
        Folder::new(folder.path()).get(RecordKind::Edition, &head_name(&root_id("b"))).await.expect("one").is_none()
    );
}

#[tokio::test]
async fn what_is_stored_is_read_by_the_next_process_and_by_those_who_do_not_lead() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Folder::new(folder.path());
    let mut leader = Process::start(store.clone(), true);
    let mut follower = Process::start(store.clone(), false);
    for (path, count) in [("/a", 1), ("/b", 2_000), ("/c", 2_000)] {
        leader.want("root", Some(edition("root", path, count)));
        assert_eq!(leader.outcome().await.1, Outcome::Stored);
        follower.until("root", is(path, count)).await;
        Process::start(store.clone(), false).until("root", is(path, count)).await;
    }
    // Nobody reads the parts of what was before any more.
    let parts = store.stamps(RecordKind::EditionPart).await.expect("parts").len();
    assert!(parts <= 64, "{parts}");
    leader.want("root", None);
    follower.until("root", |stored| stored.is_none()).await;
    end_all(&store).await.expect("removed");
    for kind in [RecordKind::Edition, RecordKind::EditionPart] {
        assert!(store.list(kind).await.expect("records").is_empty());
    }
}

#[tokio::test]
async fn who_does_not_lead_writes_nothing_and_who_knows_something_else_neither() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Folder::new(folder.path());
    let mut first = Process::start(store.clone(), true);
    let mut second = Process::start(store.clone(), false);
    second.next().await;
    second.want("root", Some(edition("root", "/second", 1)));
    first.want("root", Some(edition("root", "/first", 1)));
    assert_eq!(first.outcome().await.1, Outcome::Stored);
    // It leads by now, and wants it by what it knew before.
    second.leads.send_replace(true);
    assert_eq!(second.outcome().await.1, Outcome::Stale);
    assert!(is("/first", 1)(second.stored.get(&head_name(&root_id("root")))));
    second.want("root", Some(edition("root", "/second", 1)));
    assert_eq!(second.outcome().await.1, Outcome::Stored);
    // Two who lead, as both believe.
    first.want("root", Some(edition("root", "/late", 1)));
    first.until("root", is("/second", 1)).await;
}

#[tokio::test]
async fn what_is_damaged_is_told_and_written_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Folder::new(folder.path());
    let mut before = Process::start(store.clone(), true);
    before.want("root", Some(edition("root", "/a", 2_000)));
    assert_eq!(before.outcome().await.1, Outcome::Stored);
    drop(before);
    let stored = store.list(RecordKind::EditionPart).await.expect("parts");
    let [damaged, removed, ..] = &stored[..] else { panic!("{} parts", stored.len()) };
    let replaced = store.replace(RecordKind::EditionPart, &damaged.name, b"{}".to_vec(), Some(&damaged.version)).await;
    replaced.expect("written");
    store.delete(RecordKind::EditionPart, &removed.name, &removed.version).await.expect("deleted");
    let mut process = Process::start(store.clone(), true);
    process.until("root", is_unreadable("is not there, or it is damaged")).await;
    process.want("root", Some(edition("root", "/a", 2_000)));
    assert_eq!(process.outcome().await.1, Outcome::Stored);
    Process::start(store.clone(), false).until("root", is("/a", 2_000)).await;
    // A head is no less.
    let head = store.list(RecordKind::Edition).await.expect("heads").into_iter().find(|head| head.name != EPOCH);
    let head = head.expect("a head");
    for (data, words) in [(&b"{\"format\":4,\"kind\":\"edition\"}"[..], "its format is 4"), (b"{", "it is no record")] {
        let now = store.get(RecordKind::Edition, &head.name).await.expect("a head").expect("one");
        store.replace(RecordKind::Edition, &head.name, data.to_vec(), Some(&now.version)).await.expect("written");
        process.until("root", is_unreadable(words)).await;
    }
    process.want("root", None);
    process.until("root", |stored| stored.is_none()).await;
    assert!(store.get(RecordKind::Edition, &head.name).await.expect("no head").is_none());
}

#[tokio::test]
async fn an_edition_in_the_place_of_another_roots_is_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Folder::new(folder.path());
    let mut process = Process::start(store.clone(), true);
    process.want("other", Some(edition("other", "/other", 1)));
    assert_eq!(process.outcome().await.1, Outcome::Stored);
    let other = store.get(RecordKind::Edition, &head_name(&root_id("other"))).await.expect("a head").expect("one");
    store.replace(RecordKind::Edition, &head_name(&root_id("root")), other.data, None).await.expect("written");
    process.until("root", is_unreadable("it is of HTTPRoute apps/other")).await;
}

#[tokio::test]
async fn what_was_kept_before_somebody_kept_nothing_never_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Folder::new(folder.path());
    let mut before = Process::start(store.clone(), true);
    before.want("root", Some(edition("root", "/a", 1)));
    assert_eq!(before.outcome().await.1, Outcome::Stored);
    drop(before);
    let (_leads, leading) = watch::channel(true);
    end_epoch(store.clone(), leading).await;
    let mut follower = Process::start(store.clone(), false);
    assert!(matches!(follower.next().await, EditionEvent::Stored(Ok(_))));
    assert!(follower.stored.is_empty());
    let mut leader = Process::start(store.clone(), true);
    leader.want("root", Some(edition("root", "/b", 1)));
    assert_eq!(leader.outcome().await.1, Outcome::Stored);
    follower.until("root", is("/b", 1)).await;
}
