//! Keeps what is kept of trees of routes: what is stored goes to the engine, and what the engine wants kept is stored.
//!
//! Each root by itself: one whose edition cannot be written is tried again later, and keeps nobody else waiting.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::future::pending;
use jiff::Timestamp;
use records::{
    RecordKind, Store, StoreError,
    edition::{self, EditionError, Head, Unkeepable, head_name, is_part_of},
    format,
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

use crate::engine_task::{EditionEvent, StoredEdition, Wanted, Wants};

/// How long one waits after a failure of a root: the first time, and at most.
const WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// Why an edition is not stored.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("{0}")]
    Object(#[from] Unkeepable),
}

/// What is known of the record of a root.
#[derive(Debug, Default)]
struct Known {
    /// The head with its version; none where there is none.
    head: Option<(Head, String)>,
    /// The number of what was done last.
    done: u64,
    /// After a failure, when it is tried again, and how long it waits then.
    again: Option<(Instant, Duration)>,
}

/// Everything that is stored.
#[derive(Debug, Default)]
struct Read {
    heads: BTreeMap<String, (Head, String)>,
    editions: Vec<StoredEdition>,
}

async fn read(store: &impl Store) -> Result<Read, StoreError> {
    let parts = store.list(RecordKind::EditionPart).await?;
    let parts: BTreeMap<_, _> = parts.into_iter().map(|stored| (stored.name, stored.data)).collect();
    let mut all = Read::default();
    for stored in store.list(RecordKind::Edition).await? {
        let head = match format::read::<Head>(RecordKind::Edition, &stored.data) {
            Ok(head) => head,
            Err(error) => {
                // Whose it was nobody knows.
                tracing::error!(record = stored.name, %error, "what is kept of a tree cannot be read, and counts as not there");
                continue;
            }
        };
        let bytes =
            stored.data.len() + head.parts.iter().filter_map(|part| parts.get(part)).map(Vec::len).sum::<usize>();
        let objects = edition::read(&head, &parts).map_err(|error: EditionError| error.to_string());
        let (namespace, name, uid) = (head.namespace.clone(), head.name.clone(), head.uid.clone());
        let hash = head.hash.clone();
        all.editions.push(StoredEdition { namespace, name, uid, hash, bytes: bytes as u64, objects });
        all.heads.insert(stored.name, (head, stored.version));
    }
    Ok(all)
}

/// Ends all that is kept: nobody sees to it that it stays what it was.
///
/// # Errors
/// Something of it cannot be removed, so that it would be taken for what is kept later.
pub(super) async fn end_all(store: &impl Store) -> Result<(), StoreError> {
    for kind in [RecordKind::Edition, RecordKind::EditionPart] {
        for stored in store.list(kind).await? {
            store.delete(kind, &stored.name, &stored.version).await?;
            if kind == RecordKind::Edition {
                tracing::warn!(
                    record = stored.name,
                    "what was kept of a tree of routes has ended, since nothing is kept any more"
                );
            }
        }
    }
    Ok(())
}

/// Works until nobody listens. `wants` is what shall be kept.
pub(super) async fn keep(store: impl Store, mut wants: watch::Receiver<Wants>, told: mpsc::Sender<EditionEvent>) {
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    let read = match read(&store).await {
        Ok(read) => read,
        Err(error) => {
            if told.send(EditionEvent::Read(Err(error.to_string()))).await.is_err() {
                return;
            }
            Read::default()
        }
    };
    for (name, head) in read.heads {
        known.entry(name).or_default().head = Some(head);
    }
    if told.send(EditionEvent::Read(Ok(read.editions))).await.is_err() {
        return;
    }
    loop {
        let all = wants.borrow_and_update().clone();
        let mut next: Option<Instant> = None;
        for ((namespace, name), wanted) in all.iter() {
            let known = known.entry(head_name(namespace, name)).or_default();
            if known.done == wanted.number {
                continue;
            }
            if let Some((at, _)) = known.again
                && at > Instant::now()
            {
                next = Some(next.map_or(at, |next| next.min(at)));
                continue;
            }
            let result = write(&store, (namespace, name), wanted, known).await;
            match &result {
                Ok(_) => (known.done, known.again) = (wanted.number, None),
                Err(_) => {
                    let wait = known.again.map_or(WAIT.0, |(_, wait)| (2 * wait).min(WAIT.1));
                    let at = Instant::now() + wait;
                    known.again = Some((at, wait));
                    next = Some(next.map_or(at, |next| next.min(at)));
                }
            }
            let (namespace, name, number) = (namespace.clone(), name.clone(), wanted.number);
            let result = result.map_err(|error| error.to_string());
            if told.send(EditionEvent::Written { namespace, name, number, result }).await.is_err() {
                return;
            }
        }
        let again = async {
            match next {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = again => {}
            changed = wants.changed() => if changed.is_err() { return },
            () = told.closed() => return,
        }
    }
}

/// Has what is kept of a root be this: how many bytes that has.
async fn write(
    store: &impl Store,
    (namespace, name): (&str, &str),
    wanted: &Wanted,
    known: &mut Known,
) -> Result<u64, WriteError> {
    let head_name = head_name(namespace, name);
    let version = known.head.as_ref().map(|(_, version)| version.clone());
    let Some(objects) = &wanted.objects else {
        if let Some((_, version)) = &known.head {
            forget_unless_gone(store, RecordKind::Edition, &head_name, version).await?;
            known.head = None;
        }
        collect(store, (namespace, name), &[]).await;
        return Ok(0);
    };
    let written = edition::write((namespace, name), &wanted.uid, objects, Timestamp::now())?;
    let there: BTreeSet<_> = match &written.parts[..] {
        [] => BTreeSet::new(),
        _ => store.list(RecordKind::EditionPart).await?.into_iter().map(|stored| stored.name).collect(),
    };
    for (part, data) in written.parts.into_iter().filter(|(part, _)| !there.contains(part)) {
        match store.replace(RecordKind::EditionPart, &part, data, None).await {
            // What has the name has the content.
            Ok(_) | Err(StoreError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let data = format::write(RecordKind::Edition, &written.head);
    match store.replace(RecordKind::Edition, &head_name, data, version.as_deref()).await {
        Ok(stored) => known.head = Some((written.head.clone(), stored.version)),
        Err(error) => {
            // Somebody else has written or removed it: it is written in the place of that the next time.
            if matches!(error, StoreError::Conflict) {
                let all = store.list(RecordKind::Edition).await?;
                let now = all.into_iter().find(|stored| stored.name == head_name);
                known.head = now.map(|stored| {
                    (format::read(RecordKind::Edition, &stored.data).unwrap_or_default(), stored.version)
                });
            }
            return Err(error.into());
        }
    }
    collect(store, (namespace, name), &[&written.head]).await;
    Ok(written.bytes)
}

async fn forget_unless_gone(store: &impl Store, kind: RecordKind, name: &str, version: &str) -> Result<(), StoreError> {
    match store.delete(kind, name, version).await {
        Err(StoreError::Conflict) => {
            // Whatever stands there now, it is not to be served.
            let all = store.list(kind).await?;
            match all.into_iter().find(|stored| stored.name == name) {
                Some(stored) => store.delete(kind, name, &stored.version).await,
                None => Ok(()),
            }
        }
        removed => removed,
    }
}

/// Removes parts of a root that no head has. What cannot be removed costs its place, and nothing else.
async fn collect(store: &impl Store, (namespace, name): (&str, &str), heads: &[&Head]) {
    let Ok(all) = store.list(RecordKind::EditionPart).await else { return };
    let own = all.iter().filter(|stored| is_part_of(&stored.name, namespace, name));
    let names: Vec<_> = own.map(|stored| stored.name.clone()).collect();
    for orphan in edition::orphans(&names, heads) {
        let version = all.iter().find(|stored| stored.name == orphan).map(|stored| stored.version.clone());
        if let Err(error) = store.delete(RecordKind::EditionPart, &orphan, &version.unwrap_or_default()).await {
            tracing::warn!(record = orphan, %error, "a part of what was kept of a tree cannot be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::{Object, ObjectId};
    use records::{Stored, folder::Folder};
    use serde_json::json;
    use tokio::time::timeout;

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

    fn objects(path: &str) -> Arc<BTreeMap<ObjectId, Object>> {
        let manifest = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"namespace": "apps", "name": "root"},
            "spec": {"rules": [{"matches": [{"path": {"type": "PathPrefix", "value": path}}]}]},
        });
        let object = api::decode(manifest).expect("a route").object;
        Arc::new(BTreeMap::from([(object.id(), object)]))
    }

    fn wants<'a>(all: impl IntoIterator<Item = (&'a str, u64, Option<&'a str>)>) -> Wants {
        let wanted = |number, path: Option<&str>| Wanted { number, uid: String::new(), objects: path.map(objects) };
        let all = all.into_iter();
        Arc::new(all.map(|(name, number, path)| (("apps".to_owned(), name.to_owned()), wanted(number, path))).collect())
    }

    async fn next(told: &mut mpsc::Receiver<EditionEvent>) -> EditionEvent {
        timeout(Duration::from_secs(20), told.recv()).await.expect("in time").expect("it works")
    }

    #[tokio::test]
    async fn a_root_that_cannot_be_written_keeps_nobody_else_waiting() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Failing { folder: Folder::new(folder.path()), name: head_name("apps", "a") };
        let (sender, wanted) = watch::channel(wants([("a", 1, Some("/a")), ("b", 2, Some("/b"))]));
        let (told, mut events) = mpsc::channel(1);
        tokio::spawn(keep(store, wanted, told));
        assert!(matches!(next(&mut events).await, EditionEvent::Read(Ok(read)) if read.is_empty()));
        let EditionEvent::Written { name, result, .. } = next(&mut events).await else { panic!("a") };
        assert!(name == "a" && result.is_err(), "{name} {result:?}");
        let EditionEvent::Written { name, result, .. } = next(&mut events).await else { panic!("b") };
        assert!(name == "b" && result.is_ok(), "{name} {result:?}");
        // What another one wants next does not wait either.
        sender.send_replace(wants([("a", 1, Some("/a")), ("b", 3, None)]));
        let EditionEvent::Written { name, number, result, .. } = next(&mut events).await else { panic!("b") };
        assert!((name.as_str(), number) == ("b", 3) && result.is_ok(), "{name} {number} {result:?}");
        assert!(Folder::new(folder.path()).list(RecordKind::Edition).await.expect("records").is_empty());
    }

    #[tokio::test]
    async fn what_is_stored_is_read_by_the_next_process_and_ends_for_good() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Folder::new(folder.path());
        let (_sender, wanted) = watch::channel(wants([("root", 1, Some("/a"))]));
        let (told, mut events) = mpsc::channel(1);
        let first = tokio::spawn(keep(store.clone(), wanted, told));
        next(&mut events).await;
        assert!(matches!(next(&mut events).await, EditionEvent::Written { result: Ok(_), .. }));
        first.abort();
        let (_sender, wanted) = watch::channel(Wants::default());
        let (told, mut events) = mpsc::channel(1);
        tokio::spawn(keep(store.clone(), wanted, told));
        let EditionEvent::Read(Ok(read)) = next(&mut events).await else { panic!("it reads") };
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].objects.as_ref().ok(), Some(&*objects("/a")));
        end_all(&store).await.expect("removed");
        assert!(read_is_empty(&store).await);
    }

    async fn read_is_empty(store: &Folder) -> bool {
        read(store).await.expect("records").editions.is_empty()
    }
}
