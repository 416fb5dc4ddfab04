//! Everything that does IO: the file source, the task that owns the engine, the servers and the supervised proxies.

pub mod files;
