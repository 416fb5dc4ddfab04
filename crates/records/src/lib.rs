//! What a controller remembers beyond its own life: records.
//!
//! A record is of one [`RecordKind`] and has a name. It is stored as JSON with the number of its format, as a Secret in the
//! controller's namespace or as a file in a folder ([`folder`]). Whoever writes one says which version of it he has read
//! ([`Store`]), so that no write is lost. A format is written one release after it can be read: what cannot be read, because
//! it is damaged or of a later release, is [`Unreadable`], which is told, and never taken for a record that is empty.
//!
//! * [`format`](mod@format) is how a record is written and read. Without IO.
//! * [`quarantine`] is which objects are set aside. Without IO.
//! * [`verdicts`] is what proxies refused. Without IO.
//! * [`edition`] is what is kept of trees of routes. Without IO.
//! * [`store`] is what a place for records can do, and [`folder`] is one.

pub mod edition;
pub mod folder;
pub mod format;
pub mod quarantine;
pub mod store;
pub mod verdicts;

pub use format::{RecordKind, Unreadable};
pub use quarantine::{Entry, Quarantine};
pub use store::{Store, StoreError, Stored, Within};
pub use verdicts::{Verdict, Verdicts};
