//! What servers need to accept everybody's connections although one client opens all that it can.
//!
//! * [`FairSemaphore`] bounds how many there are at a time, and revokes permits of those who have most.
//! * [`Acceptor`] accepts connections, and pauses while there is no descriptor for one.
//! * [`bind_unix`] binds a socket that its owner alone can open.
//! * [`open_files`] raises the limit of open files, so that the permits of all servers together stay well below it.

mod acceptor;
mod files;
mod semaphore;
mod unix;

pub use acceptor::Acceptor;
pub use files::open_files;
pub use semaphore::{Busy, FairSemaphore, Permit};
pub use unix::bind_unix;
