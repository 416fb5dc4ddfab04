//! What is known of the records of editions.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::take,
    sync::Arc,
};

use records::{
    RecordKind, Store, StoreError, Stored,
    edition::{self, EPOCH, EditionError, Epoch, Head, is_intact},
    format,
};
use translate::Edition;

use crate::engine_task::{ReadEdition, StoredEdition};

/// Records as they were read last.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The epoch, with its stamp.
    pub(super) epoch: Option<(String, Epoch)>,
    pub(super) heads: BTreeMap<String, KnownHead>,
    /// What is in the parts of heads.
    pub(super) parts: BTreeMap<String, Arc<[u8]>>,
    /// What changed, and was not told yet.
    untold: Vec<StoredEdition>,
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
    Unreadable(String),
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
    ) -> Result<(State, Option<ReadEdition>), StoreError> {
        let head = match format::read::<Head>(RecordKind::Edition, &stored.data) {
            Ok(head) => head,
            Err(error) => return Ok((State::Unreadable(error.to_string()), None)),
        };
        if self.epoch.as_ref().is_none_or(|(_, epoch)| epoch.epoch != head.epoch) {
            return Ok((State::Void, None));
        }
        for part in head.parts.iter().filter(|part| !self.parts.contains_key(*part)).cloned().collect::<Vec<_>>() {
            if let Some(stored) = store.get(RecordKind::EditionPart, &part).await?
                && is_intact(&part, &stored.data)
            {
                self.parts.insert(part, stored.data.into());
            }
        }
        Ok(match edition::read(record, &head, &self.parts) {
            Ok(objects) => {
                let parts =
                    head.parts.iter().filter_map(|part| self.parts.get(part)).map(|data| data.len()).sum::<usize>();
                let Head { namespace, name, uid, hash, .. } = head.clone();
                let bytes = (stored.data.len() + parts) as u64;
                let objects = Arc::new(Edition { objects });
                (State::Readable(head.into()), Some(ReadEdition { namespace, name, uid, hash, bytes, objects }))
            }
            Err(error @ EditionError::Missing(_)) => (State::Unreadable(format!("{error}, or it is damaged")), None),
            Err(error) => (State::Unreadable(error.to_string()), None),
        })
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
