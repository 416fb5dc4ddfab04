//! What a place for records can do.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::timeout;

use crate::RecordKind;

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its name, unique for its kind.
    pub name: String,
    /// What is in it.
    pub data: Vec<u8>,
    /// Its version: another one for other data.
    pub version: String,
}

/// Why a place for records did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Somebody else wrote meanwhile: read again.
    #[error("somebody else has written it meanwhile")]
    Conflict,
    /// It is too large for the place.
    #[error("it has {0} bytes, and {MAX_BYTES} at most are kept")]
    TooLarge(usize),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// The most bytes of a record. An API server takes 1 MiB, with what belongs to it.
pub const MAX_BYTES: usize = 900 * 1024;

/// A place for records.
pub trait Store: Send + Sync + 'static {
    /// All records of a kind, by name.
    fn list(&self, kind: RecordKind) -> impl Future<Output = Result<Vec<Stored>, StoreError>> + Send;

    /// One of them; none where it is not there.
    fn get(&self, kind: RecordKind, name: &str) -> impl Future<Output = Result<Option<Stored>, StoreError>> + Send {
        async move { Ok(self.list(kind).await?.into_iter().find(|stored| stored.name == name)) }
    }

    /// What of each changes when the record does, by name, without what is in it.
    fn stamps(&self, kind: RecordKind) -> impl Future<Output = Result<BTreeMap<String, String>, StoreError>> + Send {
        async move { Ok(self.list(kind).await?.into_iter().map(|stored| (stored.name, stored.version)).collect()) }
    }

    /// Writes a record in the place of the version that was read; of one that was not there (none) only if it is not there
    /// now. Gives what is stored from now on.
    fn replace(
        &self,
        kind: RecordKind,
        name: &str,
        data: Vec<u8>,
        version: Option<&str>,
    ) -> impl Future<Output = Result<Stored, StoreError>> + Send;

    /// Removes a record of this version. One that is gone is no error.
    fn delete(
        &self,
        kind: RecordKind,
        name: &str,
        version: &str,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Ends when records may have changed, and after some time in any case.
    fn changed(&self, kind: RecordKind) -> impl Future<Output = ()> + Send;
}

/// A place for records that answers within a time, or fails.
#[derive(Clone, Debug)]
pub struct Within<S> {
    /// The place.
    pub store: S,
    /// How long it may take.
    pub timeout: Duration,
}

impl<S> Within<S> {
    async fn answer<T>(&self, answer: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let late = || StoreError::Other(format!("no answer within {:?}", self.timeout));
        timeout(self.timeout, answer).await.map_err(|_| late())?
    }
}

impl<S: Store> Store for Within<S> {
    async fn list(&self, kind: RecordKind) -> Result<Vec<Stored>, StoreError> {
        self.answer(self.store.list(kind)).await
    }

    async fn get(&self, kind: RecordKind, name: &str) -> Result<Option<Stored>, StoreError> {
        self.answer(self.store.get(kind, name)).await
    }

    async fn stamps(&self, kind: RecordKind) -> Result<BTreeMap<String, String>, StoreError> {
        self.answer(self.store.stamps(kind)).await
    }

    async fn replace(
        &self,
        kind: RecordKind,
        name: &str,
        data: Vec<u8>,
        version: Option<&str>,
    ) -> Result<Stored, StoreError> {
        self.answer(self.store.replace(kind, name, data, version)).await
    }

    async fn delete(&self, kind: RecordKind, name: &str, version: &str) -> Result<(), StoreError> {
        self.answer(self.store.delete(kind, name, version)).await
    }

    async fn changed(&self, kind: RecordKind) {
        self.store.changed(kind).await;
    }
}
