//! What a place for records can do.

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
