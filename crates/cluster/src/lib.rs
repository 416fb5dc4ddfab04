//! What stands between an API server and the controller: IO, and nothing that decides about traffic.
//!
//! * [`watch`] turns the objects of a cluster into the same changes as files are turned into.
//! * [`apply`] makes the objects that run proxies be as they are to be.
//! * [`status`] writes statuses back, and [`lease`] says which replica does.
//! * [`identity`] is who a proxy is: the certificate authority of the xDS server, and the tokens that proxies show.
//! * [`records`] keeps what outlives a process, as Secrets of the controller's namespace.
//! * `workqueue` is what statuses and proxies share: what is due when, what is in flight, and how long failures wait.
//!
//! Nothing here knows a table of the translation, and nothing of the translation knows what is here.

pub mod apply;
pub mod identity;
pub mod lease;
pub mod records;
pub mod status;
pub mod watch;
mod workqueue;
