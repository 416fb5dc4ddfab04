//! What the whole translation does, through its door.

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
mod regexes;
mod replacement;
mod secrets;
mod sets;
mod sets_policies;
mod shares;
mod streams;
mod strict;
mod tls_of_gateways;
mod tokens;
mod wide_policies;
mod wide_units;
mod world;

use crate::testing::scene::{self, certificates, object};
