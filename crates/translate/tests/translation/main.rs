//! What the whole translation does, through its door.
//!
//! The tests are beside the library: its tables take longest to compile, and are compiled once.

mod alike;
mod attachment;
mod backend_tls;
mod backends;
mod bounds;
mod capacity;
mod changes;
mod delegation;
mod delegation_policy;
mod extensions;
mod faults;
mod freeze;
mod gateways;
mod grpc;
mod listener_policies;
mod listeners;
mod logins;
mod modes;
mod modes_at_random;
mod policies;
mod policy_statuses;
mod properties;
mod proxies;
mod refused;
mod regexes;
mod replacement;
mod secrets;
mod sets;
mod sets_policies;
mod sets_room;
mod shares;
mod streams;
mod strict;
mod tls_of_gateways;
mod tokens;
mod wide_policies;
mod wide_units;
mod world;

use translate::testing::scene::{self, certificates, object};

/// Tests allocate as the program does: most of their time goes into small objects.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
