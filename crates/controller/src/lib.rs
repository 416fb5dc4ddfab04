//! Everything that does IO: the file source, the task that owns the engine, the servers and the supervised proxies.

pub mod admin;
pub mod check;
pub mod chunks;
pub mod cluster_snapshot;
pub mod document;
pub mod engine_task;
pub mod files;
pub mod guarded;
pub mod http;
mod lanes;
pub mod metrics;
pub mod run;
pub mod strict;
pub mod supervisor;

#[cfg(test)]
mod testing;
