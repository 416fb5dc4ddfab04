//! What servers need to let everybody in although somebody wants all there is.
//!
//! * [`FairSemaphore`] bounds how many may be in at a time, and takes from who has most before anybody is kept out.
//! * [`Acceptor`] accepts connections, and pauses while there is no descriptor for one.
//! * [`open_files`] raises the limit of open files, so that the permits of all servers together stay well below it.

mod acceptor;
mod files;
mod semaphore;

pub use acceptor::Acceptor;
pub use files::open_files;
pub use semaphore::{Busy, FairSemaphore, Permit};
