//! What is known of the records of editions.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::take,
    sync::Arc,
};

use records::{
    RecordKind, Store, StoreError, Stored,
    edition::{EPOCH, EditionError, Epoch, Head, Part, Written, is_intact},
    format,
};
use translate::Edition;

use crate::engine_task::{StoredEdition, WrittenEdition};

/// Records as they were read last.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The epoch, with its stamp.
    pub(super) epoch: Option<(String, Epoch)>,
    pub(super) heads: BTreeMap<String, KnownHead>,
    /// The parts of heads, each of which is read once.
    pub(super) parts: BTreeMap<String, KnownPart>,
    /// What changed, and was not told yet.
    untold: Vec<StoredEdition>,
}

/// A part.
#[derive(Debug)]
pub(super) struct KnownPart {
    part: Part,
    /// Its objects.
    objects: Edition,
}

impl KnownPart {
    pub(super) fn data(&self) -> &[u8] {
        &self.part.data
    }
}

/// A head.
#[derive(Debug)]
pub(super) struct KnownHead {
    /// What changes when the record does; empty of one that was written here.
    pub(super) stamp: String,
    pub(super) version: String,
    pub(super) state: State,
}

/// What can be made of a head.
#[derive(Debug)]
pub(super) enum State {
    /// It is what is kept of its root.
    Readable(Box<Head>),
    /// Something of it is damaged, not there, or of a later release.
    Unreadable(EditionError),
    /// It is of another epoch, and holds no more.
    Void,
}

impl KnownHead {
    /// The name of the edition, if it can be read.
    pub(super) fn hash(&self) -> Option<&str> {
        match &self.state {
            State::Readable(head) => Some(&head.hash),
            State::Unreadable(_) | State::Void => None,
        }
    }
}

impl Known {
    /// The records that changed since this was asked last: at first all of them. Where that fails, what is missing is told the
    /// next time.
    pub(super) async fn refresh(&mut self, store: &impl Store) -> Result<Vec<StoredEdition>, StoreError> {
        let mut stamps = store.stamps(RecordKind::Edition).await?;
        self.refresh_epoch(store, stamps.remove(EPOCH)).await?;
        let gone: Vec<_> = self.heads.keys().filter(|name| !stamps.contains_key(*name)).cloned().collect();
        for record in gone {
            self.heads.remove(&record);
            self.untold.push(StoredEdition { record, edition: None });
        }
        for (record, stamp) in stamps {
            let before = self.heads.get(&record);
            let is_known = |before: &KnownHead| before.stamp == stamp && !matches!(before.state, State::Unreadable(_));
            if before.is_some_and(is_known) {
                continue;
            }
            // One that goes meanwhile is gone the next time.
            let Some(stored) = store.get(RecordKind::Edition, &record).await? else { continue };
            if let Some(before) = self.heads.get_mut(&record)
                && before.version == stored.version
                && before.stamp.is_empty()
            {
                before.stamp = stamp;
                continue;
            }
            let (state, read) = self.read(store, &record, &stored).await?;
            let is_told = matches!((self.heads.get(&record).map(|before| &before.state), &state),
                (Some(State::Unreadable(before)), State::Unreadable(now)) if before == now);
            if !is_told {
                let edition = match &state {
                    State::Unreadable(why) => Some(Err(why.clone())),
                    State::Readable(_) | State::Void => read.map(Ok),
                };
                self.untold.push(StoredEdition { record: record.clone(), edition });
            }
            self.heads.insert(record, KnownHead { stamp, version: stored.version, state });
        }
        self.forget_parts();
        Ok(take(&mut self.untold))
    }

    async fn refresh_epoch(&mut self, store: &impl Store, stamp: Option<String>) -> Result<(), StoreError> {
        if self.epoch.as_ref().map(|(stamp, _)| stamp) == stamp.as_ref() {
            return Ok(());
        }
        let stored = store.get(RecordKind::Edition, EPOCH).await?;
        // One that cannot be read is none that a head has.
        let read = |stored: Stored| format::read::<Epoch>(RecordKind::Edition, &stored.data).unwrap_or_default();
        let epoch = stored.map(read);
        if self.epoch.as_ref().map(|(_, epoch)| epoch) != epoch.as_ref() {
            // Each is looked at again.
            self.heads.values_mut().for_each(|head| "of another epoch".clone_into(&mut head.stamp));
        }
        self.epoch = stamp.zip(epoch);
        Ok(())
    }

    /// What becomes of a head, and the edition if it can be read.
    async fn read(
        &mut self,
        store: &impl Store,
        record: &str,
        stored: &Stored,
    ) -> Result<(State, Option<WrittenEdition>), StoreError> {
        let head = match format::read::<Head>(RecordKind::Edition, &stored.data) {
            Ok(head) => head,
            Err(error) => return Ok((State::Unreadable(error.into()), None)),
        };
        if self.epoch.as_ref().is_none_or(|(_, epoch)| epoch.epoch != head.epoch) {
            return Ok((State::Void, None));
        }
        for name in head.parts.iter().filter(|name| !self.parts.contains_key(*name)).cloned().collect::<Vec<_>>() {
            if let Some(stored) = store.get(RecordKind::EditionPart, &name).await?
                && is_intact(&name, &stored.data)
            {
                match Part::read(&name, stored.data.into()) {
                    Ok((part, objects)) => self.learn_part(part, objects.into_iter().collect()),
                    Err(error) => return Ok((State::Unreadable(error), None)),
                }
            }
        }
        Ok(match self.assembled(record, &head) {
            Ok(read) => (State::Readable(head.into()), Some(read)),
            Err(error) => (State::Unreadable(error), None),
        })
    }

    /// The edition that has a head, of parts that are known.
    fn assembled(&self, record: &str, head: &Head) -> Result<WrittenEdition, EditionError> {
        let part = |name: &String| self.parts.get(name).ok_or_else(|| EditionError::Missing(name.clone()));
        let known = head.parts.iter().map(part).collect::<Result<Vec<_>, _>>()?;
        let parts: Vec<_> = known.iter().map(|known| known.part.clone()).collect();
        head.verify(record, &parts)?;
        let of_head: Edition = head.read()?.into_iter().collect();
        let edition = Edition::join(known.iter().map(|known| &known.objects).chain([&of_head]));
        if edition.get(&head.root()).is_none() {
            return Err(EditionError::Rootless);
        }
        Ok(WrittenEdition { edition, written: Arc::new(Written::of(head.clone(), parts)) })
    }

    /// Takes a part with its objects.
    fn learn_part(&mut self, mut part: Part, objects: Edition) {
        // What has objects of several parts of a tree, as before these were what they are now, is written anew.
        let mut all = objects.parts().map(|part| part.hash());
        part.of = all.next().filter(|_| all.next().is_none());
        drop(all);
        self.parts.insert(part.name.clone(), KnownPart { part, objects });
    }

    /// Takes the parts of an edition that was written here.
    pub(super) fn learn(&mut self, written: &Written, edition: &Edition) {
        for part in &written.parts {
            if let (Some(of), false) = (part.of, self.parts.contains_key(&part.name)) {
                self.learn_part(part.clone(), edition.of_part(of));
            }
        }
    }

    /// The parts that heads have.
    pub(super) fn used(&self) -> impl Iterator<Item = &String> {
        self.heads.values().flat_map(|head| match &head.state {
            State::Readable(head) => &head.parts[..],
            State::Unreadable(_) | State::Void => &[],
        })
    }

    pub(super) fn forget_parts(&mut self) {
        let used: BTreeSet<_> = self.used().cloned().collect();
        self.parts.retain(|part, _| used.contains(part));
    }
}
